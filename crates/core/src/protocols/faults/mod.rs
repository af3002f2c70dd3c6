//! Fault layers, for tests and drills: they are protocols like any other and may stand anywhere.

pub mod delay;
pub mod discard;

pub use delay::{Delay, DelayConfig};
pub use discard::{Discard, DiscardConfig};
