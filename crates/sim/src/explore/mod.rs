//! Every order of what can happen in a small situation, over the real code: which packet arrives
//! next, which one is lost, who dies. Random runs find what is likely; this finds what is possible.
//!
//! The search is depth first, and goes on from each state once. A state is what can matter later: what
//! every node writes of itself ([`Node::write_state`](rgroups_core::node::Node::write_state)), what
//! the oracles have seen of it, the packets and notices on their way, and the time. Two orders that come
//! to the same are one state from there on. States are told apart by hashes of 64 bits.
//!
//! Nodes cannot be copied. Instead what a node makes of an input is remembered, so that each step of each
//! node is run once and looked up from then on, whatever the others did meanwhile.
//!
//! What is bounded, so that an exploration ends; what needs more than this is not found here:
//!
//! * Packets take no time. Timers fire when nothing is on its way any more; with
//!   [`Limits::late`], so many times also while something is, which then arrives after them.
//! * The stack has no MERGE3, failure detection, flow control or fragmentation.
//! * Everybody hears of a death sooner or later, in any order, at any point of the repair.
//! * A run ends when all who live have installed a view of exactly themselves, or after
//!   [`PATIENCE`] in which they have not, which breaks B2.

mod input;
mod memo;
mod search;
mod situation;
mod world;

pub use search::{Finding, Found, explore};
pub use situation::{Situation, Victim};
pub use world::{Choice, PATIENCE};

/// How much goes wrong at most in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Packets that are lost.
    pub losses: u8,
    /// Members that die during the repair.
    pub crashes: u8,
    /// How often timers fire while packets are on their way.
    pub late: u8,
    /// States after which to stop; `None`: when there is nothing left.
    pub at_most: Option<u64>,
}

impl Limits {
    /// What the repair must cope with: two losses and one death.
    #[must_use]
    pub fn whole() -> Self {
        Self { losses: 2, crashes: 1, late: 0, at_most: None }
    }
}

#[cfg(test)]
mod tests;
