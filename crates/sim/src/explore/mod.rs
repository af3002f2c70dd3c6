//! Every order of what can happen in a small situation, over the real code: which packet arrives
//! next, which one is lost, who dies. Random runs find what is likely; this finds what is possible.
//!
//! Exploration is depth first, by running again from the beginning: a run is the list of its
//! [`Choice`]s, and nothing else decides anything. A state that was reached before is not gone on
//! from again. What a node does depends on nothing but what it was given, in which order and when,
//! so a state is told by exactly that: a hash, of 64 bits, of the inputs of each node in their order,
//! what was lost, and the time. Two runs that only order things differently that happen to different
//! nodes come to one state.
//!
//! What is bounded, so that an exploration ends; what needs more than this is not found here:
//!
//! * Packets take no time. Timers fire when nothing is on its way any more; with
//!   [`Limits::late`], so many times also while something is, which then arrives after them.
//! * Acknowledgements (of UNICAST3, and of views) arrive at once, are not lost and are no part of a
//!   state: they are taken to change nothing but how long something is repeated.
//! * The stack has no MERGE3, failure detection, flow control or fragmentation.
//! * Everybody hears of a death sooner or later, in any order, at any point of the repair.
//! * A run ends when all who live have installed a view of exactly themselves, or after
//!   [`PATIENCE`] in which they have not, which breaks B2.

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
    /// Runs after which to stop; `None`: when there is nothing left.
    pub runs: Option<u64>,
}

impl Limits {
    /// What the repair must cope with: two losses and one death.
    #[must_use]
    pub fn whole() -> Self {
        Self { losses: 2, crashes: 1, late: 0, runs: None }
    }
}

#[cfg(test)]
mod tests;
