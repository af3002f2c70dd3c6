//! What runs a member: its node, its network, its queues.
//!
//! A [`Member`] does one turn at a time and never blocks in it. Who calls it is the choice of a
//! driver: [`threads`] gives every member a thread, [`Pump`] lets the caller do it.

mod budget;
mod calls;
mod complaints;
mod holds;
mod invoker;
mod member;
mod patience;
mod report;
mod states;
pub(crate) mod threads;
mod waits;

pub(crate) use budget::Budget;
pub use invoker::Pump;
pub(crate) use member::Member;
