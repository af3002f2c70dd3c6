//! Group communication as state machines.
//!
//! A [`Stack`] is one member: a list of protocols, run by one loop, fed with inputs that carry the
//! time, drained by polls. There is no clock, socket, thread, lock or operating-system randomness in
//! this crate, and nothing observable depends on hash order: the same inputs give the same outputs.
//! A [`node::Node`] adds the edge (codecs, TCP connection rules) and is what drivers and the
//! simulator run.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod app;
pub mod attributes;
pub mod batch;
pub mod bind_addr;
pub mod digest;
pub mod event;
pub mod group;
pub mod map;
pub mod message;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod net;
pub mod node;
pub mod plan;
pub mod protocol;
pub mod protocols;
pub mod rng;
pub mod row;
pub mod rpc;
pub mod stack;
pub mod strangers;
pub mod suspicion;
pub mod tag;
#[cfg(test)]
pub(crate) mod testkit;
#[cfg(test)]
pub(crate) mod testkit_cluster;
pub mod time;
pub mod timers;
pub mod token;
pub mod trace;
pub mod view;

pub use app::{AppEvent, Command, Delivery, SendRefusal, SendResult};
pub use batch::Batch;
pub use digest::{Digest, ReferenceDigest};
pub use event::{Answer, Dir, Event, Found, Purpose, Query};
pub use group::{AddressBook, Group, GroupChange, Primacy, PrimaryClaim};
pub use message::Message;
pub use protocol::{Cx, Flow, Interests, Protocol, Service, Spec, Traffic};
pub use rgroups_wire as wire;
pub use rgroups_wire::Uuid;
pub use rng::Rng;
pub use row::{Row, RowFlow};
pub use stack::{Env, Stack};
pub use suspicion::{Evidence, Suspicion};
pub use time::Time;
pub use timers::TimerKey;
pub use token::{Consumed, OpId, Pool, Receipt, RsvpTag, SendToken, SyncLevel};
pub use trace::{DropReason, Trace};
pub use view::{View, ViewId};

pub use core::time::Duration;
