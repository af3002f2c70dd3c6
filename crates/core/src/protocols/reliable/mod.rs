//! Reliable delivery: numbered messages, windows, requests for what is missing.

mod gaps;
mod multicast;
mod parking;
mod retransmit;
mod slots;
mod unicast;
mod window;

pub use multicast::{Nakack2, Nakack2Config};
pub use unicast::{Unicast3, Unicast3Config};

#[cfg(test)]
mod tests;
