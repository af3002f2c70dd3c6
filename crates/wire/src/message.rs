//! Messages (WIRE §6): destination, source, flags, headers, and a body of one of eight kinds.

use crate::{Address, Flags, Headers, Hints, Object};
use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;

/// A message. `Default` is an empty multicast.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// Destination; `None` is the whole group.
    pub dest: Option<Address>,
    /// Source; set by the transport when it is not set before.
    pub src: Option<Address>,
    /// Flags that travel.
    pub flags: Flags,
    /// Hints that do not.
    pub hints: Hints,
    /// What the protocols added.
    pub headers: Headers,
    /// The payload.
    pub body: Body,
}

/// The payload of a message, by message type (WIRE §6.2).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Body {
    /// Type 2: nothing.
    #[default]
    Empty,
    /// Type 0: bytes, or null.
    Bytes(Option<Bytes>),
    /// Type 1: as type 0, with a "direct memory" mark.
    Nio {
        /// The mark.
        direct: bool,
        /// The bytes, or null.
        bytes: Option<Bytes>,
    },
    /// Type 3: a typed object, or null.
    Object(Option<Box<Object>>),
    /// Type 4: one number.
    Long(i64),
    /// Type 5: messages in one.
    Composite(Vec<Message>),
    /// Type 6: a slice of another message.
    Fragment(Bytes),
    /// Type 7: messages of one original sender.
    Batch {
        /// Who sent them.
        sender: Option<Address>,
        /// The messages.
        messages: Vec<Message>,
    },
    /// Types from 32 on: registered by users; opaque here, allowed only where the end is known.
    User(i16, Bytes),
}

impl Body {
    /// A byte payload.
    #[must_use]
    pub fn bytes(b: impl Into<Bytes>) -> Self {
        Body::Bytes(Some(b.into()))
    }

    /// A typed object.
    #[must_use]
    pub fn object(o: Object) -> Self {
        Body::Object(Some(Box::new(o)))
    }

    /// The message type id that precedes a message with this body.
    #[must_use]
    pub fn type_id(&self) -> i16 {
        match self {
            Body::Bytes(_) => 0,
            Body::Nio { .. } => 1,
            Body::Empty => 2,
            Body::Object(_) => 3,
            Body::Long(_) => 4,
            Body::Composite(_) => 5,
            Body::Fragment(_) => 6,
            Body::Batch { .. } => 7,
            Body::User(id, _) => *id,
        }
    }

    /// The bytes of a byte payload (types 0 and 1), when there are any.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&Bytes> {
        match self {
            Body::Bytes(b) | Body::Nio { bytes: b, .. } => b.as_ref(),
            _ => None,
        }
    }
}

impl Message {
    /// A multicast with this body.
    #[must_use]
    pub fn multicast(body: Body) -> Self {
        Self { body, ..Self::default() }
    }

    /// A unicast with this body.
    #[must_use]
    pub fn unicast(to: impl Into<Address>, body: Body) -> Self {
        Self { dest: Some(to.into()), body, ..Self::default() }
    }

    /// With these flags added.
    #[must_use]
    pub fn with_flags(mut self, flags: Flags) -> Self {
        self.flags |= flags;
        self
    }

    /// With this header, replacing one of the same protocol.
    #[must_use]
    pub fn with_header(mut self, id: crate::ProtId, header: crate::Header) -> Self {
        self.headers.put(id, header);
        self
    }

    /// Whether any of `flags` is set.
    #[must_use]
    pub fn has(&self, flags: Flags) -> bool {
        self.flags.intersects(flags)
    }

    /// Whether this is a message to the whole group.
    #[must_use]
    pub fn is_multicast(&self) -> bool {
        self.dest.is_none()
    }
}
