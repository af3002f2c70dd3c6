//! A map that all members of a group have, each a copy of its own.
//!
//! Reads are of this member's copy and cost nothing; a change is carried out by every member, and its
//! future resolves when all have done so. Who joins begins with what the others have. Compatible with
//! JGroups' `ReplicatedHashMap` ([`ValueMap`]).
//!
//! ```
//! # #[cfg(feature = "rpc")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> { rgroups::block_on(async {
//! use rgroups::map::Map;
//! use rgroups::{Channel, Config};
//!
//! let config = Config::in_process().with_total_order()?;
//! let prices: Map<String, u64> = Map::builder(Channel::builder(config)).open("prices").await?;
//! assert_eq!(prices.put("apple".into(), 3).await?, None);
//! assert!(prices.replace_if("apple".into(), 3, 4).await?);
//! assert_eq!(prices.get(&"apple".into())?, Some(4));
//! # prices.close().await?;
//! # Ok(()) }) }
//! # #[cfg(not(feature = "rpc"))] fn main() {}
//! ```
//!
//! # What to know
//!
//! - **Order.** Copies stay equal because all carry out the same changes in the same order: the stack needs
//!   SEQUENCER. Without it [`MapBuilder::open`] refuses, unless [`MapBuilder::unordered`] says that no key is
//!   changed by two members at a time.
//! - **One map per cluster.** The map has the calls and the state of its channel to itself.
//! - **After a merge** the copy of the larger part goes on (of two equal ones that of the first member of the
//!   merged view). Members of the others fetch it, and say what they gave up: [`MapEvent::Merged`].
//! - **In a minority** nothing is special without PRIMARY: both parts go on. With it, changes there are refused
//!   ([`SendError::NotPrimary`](crate::SendError::NotPrimary)), and a merge loses nothing.
//! - Memory: all entries, in every member. Nothing bounds their number but those who put them.

mod copy;
mod error;
mod events;
mod handle;
mod item;

pub(crate) use copy::MapCopy;
pub use error::MapError;
pub use events::{Changes, LostEntry, MapEvent};
pub use handle::{Map, MapBuilder};
pub use item::Item;

/// A map of JGroups' own values, which Java members share as a `ReplicatedHashMap`: numbers, booleans,
/// characters, strings and byte arrays. (Java tells byte arrays apart by identity: they are no keys there.)
pub type ValueMap = Map<crate::ObjectValue, crate::ObjectValue>;
