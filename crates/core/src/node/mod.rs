//! The edge of a member: a [`crate::Stack`] of messages on one side, datagrams and byte streams on
//! the other. Drivers and the simulator run a [`Node`] and move bytes, nothing else: codecs, the TCP
//! handshake, the rule for simultaneous connections and the graceful-close marker are all in here,
//! so they are simulated too.

pub mod raw;

pub use raw::{Bound, Cast, Port, RawEvent, RawOp, TransportKind};
