//! Calls of methods at other members of the group.
//!
//! A [`Dispatcher`] has handlers, which other members call by name, and calls those of others: of one
//! member ([`Dispatcher::call`]), of all ([`Dispatcher::call_all`]) or of some
//! ([`Dispatcher::call_some`]). A call ends with one row per member that was called, never fewer, and
//! never later than its deadline.
//!
//! ```
//! # #[cfg(feature = "rpc")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> { rgroups::block_on(async {
//! use rgroups::rpc::{CallOptions, Caller, Dispatcher};
//! use rgroups::{Channel, Config};
//!
//! let (ch, _events) = Channel::builder(Config::in_process()).name("A").connect("sums").await?;
//! let rpc = Dispatcher::builder(&ch)
//!     .handle("add", |_who: Caller, (a, b): (i64, i64)| async move { Ok(a + b) })
//!     .build();
//! let sums = rpc.call_all::<_, i64>("add", (2i64, 3i64), CallOptions::default()).await?;
//! for (member, sum) in sums.ok() {
//!     println!("{member}: {sum}");
//!     assert_eq!(*sum, 5);
//! }
//! assert_eq!(sums.len(), 1); // one row a member: this one is alone
//! # ch.close().await?;
//! # Ok(()) }) }
//! # #[cfg(not(feature = "rpc"))] fn main() {}
//! ```
//!
//! # What to know
//!
//! - Handlers run on threads of their own ([`DispatcherBuilder::threads`]) or on an executor
//!   ([`DispatcherBuilder::spawn_with`]), all at the same time, started in the order of arrival. One
//!   that awaits something, such as another call, holds nobody up: calls nest as deep as they like.
//! - A request is carried out at most once by each incarnation of a member. Whether it was is not
//!   known for rows that say [`RpcError::Left`] or [`RpcError::Timeout`] with `sent`.
//! - The deadline ([`CallOptions::timeout`]) covers everything, waiting for flow control included. It
//!   travels with the request: handlers see what is left of it ([`Caller::remaining`]).
//! - Dropping the future of a call gives it up. A request that has left is carried out all the same.
//! - A channel has the handlers of one dispatcher; without one, calls are answered with "no such
//!   method". Messages that are not calls come through [`Events`](crate::Events) as always.
//! - Arguments and results of [`handle`](DispatcherBuilder::handle) and `call` are what serde and
//!   postcard make of them, between members of this toolkit. Types do not travel: both sides must name the
//!   same, `3u32` for a `u32`. Members of JGroups understand
//!   [`ValueCall`]s, see [`Dispatcher::call_values`].

mod answers;
mod dispatcher;
mod service;
mod tasks;
#[cfg(feature = "rpc")]
pub(crate) mod typed;
mod values;

pub use answers::{CallOptions, Responses, RpcError};
pub use dispatcher::{Dispatcher, DispatcherBuilder, Targets};
pub use rgroups_core::rpc::Wait;
pub use service::Caller;
pub(crate) use service::{Service, no_handlers};
pub use tasks::Task;
pub use values::{JavaClass, MethodName, ValueCall};
