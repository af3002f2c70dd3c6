//! The numbers that stand for the kinds of a header.

/// Gives an enum of kinds its numbers on the wire, and reads it from them.
macro_rules! wire_kinds {
    ($kind:ident: $int:ident, $what:literal, { $($name:ident = $n:literal),* $(,)? }) => {
        impl $kind {
            /// The number on the wire.
            #[must_use]
            pub const fn to_wire(self) -> $int {
                match self { $($kind::$name => $n,)* }
            }
        }

        impl $crate::Decode for $kind {
            fn decode(r: &mut $crate::Reader) -> $crate::Decoded<Self> {
                match r.$int($what)? {
                    $($n => Ok($kind::$name),)*
                    n => Err(r.error($what, $crate::DecodeErrorKind::BadTag(n as u32))),
                }
            }
        }
    };
}

pub(crate) use wire_kinds;
