//! A map that all members of a group have, each a copy (JGroups' `ReplicatedHashMap`).
//!
//! A change is a call of a method by number, which every member carries out on its copy ([`Change`] is
//! what is called, [`Replica`] the copy). Copies are equal as long as all carry out the same changes in
//! the same order, which SEQUENCER sees to; without it, changes of one key by two members at a time may
//! come in one order here and in another there. A joiner begins with the state of another member, and
//! carries out what that does not contain.
//!
//! After a merge the copies of two parts differ. [`surviving_part`] says, at all members alike, whose copy
//! goes on; the members of the other parts fetch it, and [`Replica::install`] says what they lose.
//!
//! Keys are told apart by their encoding: an int 1 and a long 1 are two keys, as in Java.

mod change;
mod merging;
mod replica;
#[cfg(test)]
mod tests;

pub use change::{Change, Unusable};
pub use merging::{Part, surviving_part};
pub use replica::{Carried, Difference, Lost, Replica, Unsuitable};
