//! Fault layers, for tests and drills: they are protocols like any other and may stand anywhere.

pub mod delay;
pub mod discard;
pub mod drop;
pub mod dupl;
pub mod shuffle;

pub use delay::{Delay, DelayConfig};
pub use discard::{Discard, DiscardConfig};
pub use drop::{Drop, DropConfig, ProtocolNames};
pub use dupl::{Dupl, DuplConfig};
pub use shuffle::{Shuffle, ShuffleConfig};
