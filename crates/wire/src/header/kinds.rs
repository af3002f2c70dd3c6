//! The numbers that stand for the kinds of a header.

/// Gives an enum of kinds its numbers on the wire, reads it from them, and names them as JGroups does.
macro_rules! wire_kinds {
    ($kind:ident: $int:ident, $what:literal, { $($name:ident = $n:literal $text:literal),* $(,)? }) => {
        impl $kind {
            /// Number and JGroups' name of every kind.
            pub const ALL: &'static [(i64, &'static str)] = &[$(($n, $text)),*];

            /// The number on the wire.
            #[must_use]
            pub const fn to_wire(self) -> $int {
                match self { $($kind::$name => $n,)* }
            }

            /// JGroups' name for it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($kind::$name => $text,)* }
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
