#![deny(unsafe_code)]
//! Reliable group communication: processes form a *cluster*, agree on who is in it (*views*), and
//! send messages to all of it or to one member. Messages arrive in the order their sender sent
//! them, at every member that stays, and senders go at the pace of the slowest reader. Speaks the
//! protocol of [JGroups](http://www.jgroups.org) 5.5, so Java members can be in the same cluster.
//!
//! ```
//! use rgroups::{Channel, Config, Event, Message};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> { rgroups::block_on(async {
//! let (ch, mut events) = Channel::builder(Config::in_process()).name("A").connect("demo").await?;
//! ch.send(Message::multicast("hello, group")).await?; // waits when receivers are slow
//! while let Some(ev) = events.next().await {
//!     match ev {
//!         Event::View(v) => println!("members: {:?}", v.members()),
//!         Event::Message(m) => {
//!             println!("{:?}: {:?}", m.source(), m.text());
//!             break;
//!         }
//!         _ => {}
//!     }
//! }
//! ch.close().await?;
//! # Ok(()) }) }
//! ```
//!
//! With `Config::udp()` the same program finds the other members of its network.
//!
//! # What to know
//!
//! - [`Channel::send`] resolves when flow control has *accepted* the message;
//!   [`Channel::send_and_wait`] when others have *received* it.
//! - [`Events`] must be read: unread messages are not given back to senders as credit. That is what
//!   bounds memory everywhere without losing anything. A program may send from the loop in which it
//!   reads.
//! - Views and messages come in one stream: a view is seen before the messages that were sent in it.
//! - The types work on any async executor; no runtime is needed. Every member has a thread of its
//!   own, so a stalled application never delays heartbeats. Without a thread:
//!   [`ChannelBuilder::connect_pumped`].
//! - Logs go through `tracing`: one line per view, warnings about what is slow, nothing per message.

mod address;
mod block_on;
pub mod blocking;
mod channel;
pub mod codes;
mod config;
mod counter;
mod diag;
mod driver;
mod error;
mod events;
mod inbox;
mod lock;
pub mod map;
mod message;
mod net;
mod outbox;
mod primacy;
mod receiver;
pub mod rpc;
mod shared;
mod state;
mod stats;
mod view;

pub use address::Address;
pub use block_on::block_on;
pub use channel::{
    Admin, Channel, ChannelBuilder, Sync, SyncEnd, SyncLevel, SyncOutcome, TrySend, Views,
};
pub use config::{
    Config, ConfigLoader, ConfigReport, Finding, Place, Setting, Severity, StackFile, presets,
};
pub use counter::{Counter, CounterError};
pub use driver::Pump;
pub use error::{CloseError, ConfigError, ConnectError, Diagnose, SendError, TrySendError};
pub use events::{Event, Events};
pub use lock::{Lock, LockError, LockGuard, LockLoss, Semaphore};
pub use message::{Flags, Message, ObjectValue, Payload};
pub use net::bind::{
    BIND_VARIABLE, BindChoice, BindOrigin, DEFAULT_BIND_RULE, IpVersion, NetInterface,
    NoBindAddress, choose_bind_addr, interfaces,
};
pub use primacy::Primacy;
pub use receiver::{Failed, Receiver};
pub use state::{
    State, StateAttempt, StateError, StatePart, StateReader, StateResponder, StateWriter,
};
pub use stats::{
    Credit, Gauges, Heard, Inspection, SendWindow, Stability, Stats, Suspicion, Window,
};
pub use view::{View, ViewDiff, ViewId};

pub(crate) use rgroups_core::tag;

/// The protocols, for those who write their own. The shape may change.
#[doc(hidden)]
pub use rgroups_core as core;

/// The examples of the chapter on flow control are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/flow-control.md")]
struct FlowControlChapter;

/// Those of the chapter on partitions too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/partitions.md")]
struct PartitionChapter;

/// Those of the chapter on locks too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/locks.md")]
struct LockChapter;

/// Those of the chapter on view synchrony too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/view-synchrony.md")]
struct SynchronyChapter;

/// Those of the chapter on sends too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/what-a-send-means.md")]
struct SendChapter;

/// Those of the chapter on calls too.
#[cfg(all(doctest, feature = "rpc"))]
#[doc = include_str!("../../../docs/rpc.md")]
struct CallChapter;

/// Those of the chapter on maps too.
#[cfg(all(doctest, feature = "rpc"))]
#[doc = include_str!("../../../docs/map.md")]
struct MapChapter;

/// And those of the chapter on states.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/state-transfer.md")]
struct StateChapter;

const _: () = {
    const fn shared<T: Send + std::marker::Sync>() {}
    shared::<Channel>();
    shared::<Message>();
    shared::<View>();
    shared::<rpc::Dispatcher>();
    const fn sent<T: Send>() {}
    sent::<Events>();
    sent::<Pump>();
};
