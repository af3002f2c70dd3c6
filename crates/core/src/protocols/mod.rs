//! The protocols. Order of the default stacks, bottom to top: transport, discovery, MERGE3, FD_SOCK2,
//! FD_ALL3, VERIFY_SUSPECT2, BARRIER, NAKACK2, UNICAST3, STABLE, GMS, MFC, UFC, FRAG2, RSVP,
//! STATE_TRANSFER, entry. PRIMARY, where a stack has it, is directly above GMS;
//! SEQUENCER is below FRAG2.

pub mod barrier;
pub mod counter;
pub mod discovery;
pub mod entry;
pub mod failure;
pub mod faults;
pub mod flow;
pub mod frag;
pub mod gms;
pub mod lock;
pub mod merge3;
pub mod primary;
pub mod reliable;
pub mod rsvp;
pub mod sequencer;
pub mod stable;
pub mod state;
pub mod transport;
