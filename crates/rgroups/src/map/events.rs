//! What happens to a map.

use super::Item;
use crate::{Address, ObjectValue};
use std::marker::PhantomData;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Something that happened to a map, seen at one member.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MapEvent<K, V> {
    /// A key has another value.
    Set {
        /// The key.
        key: K,
        /// Its value now.
        value: V,
        /// Its value before.
        before: Option<V>,
    },
    /// A key is gone.
    Removed {
        /// The key.
        key: K,
        /// Its value before.
        before: V,
    },
    /// Parts of the group came together, and the copy of one of them goes on.
    Merged {
        /// Whose.
        survivors: Vec<Address>,
        /// What this member had and has no more; empty where it is one of the survivors.
        lost: Vec<LostEntry<K, V>>,
    },
    /// The copies of these members may differ from this one from now on.
    Diverged {
        /// Whose.
        members: Vec<Address>,
        /// Why.
        why: String,
    },
    /// So many events were not read in time, and are gone. The map itself has all of it.
    Missed(u64),
    /// An entry is of other types than this map: another program uses it too.
    Foreign {
        /// What it is.
        why: String,
    },
}

/// An entry that another one took the place of in a merge.
#[derive(Clone, Debug, PartialEq)]
pub struct LostEntry<K, V> {
    /// The key.
    pub key: K,
    /// The value that this member had; `None`: it did not have the key.
    pub ours: Option<V>,
    /// The value that it has now; `None`: the key is gone.
    pub theirs: Option<V>,
}

pub(super) type Raw = MapEvent<ObjectValue, ObjectValue>;

/// The events of a map from some moment on ([`Map::changes`](super::Map::changes)).
#[derive(Debug)]
pub struct Changes<K, V> {
    events: broadcast::Receiver<Raw>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Item, V: Item> Changes<K, V> {
    pub(super) fn new(events: broadcast::Receiver<Raw>) -> Self {
        Self { events, types: PhantomData }
    }

    /// The next one; `None`: the map is closed. 4,096 wait for a reader; if it is further behind, the oldest
    /// are gone, and [`MapEvent::Missed`] says how many.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost.
    pub async fn next(&mut self) -> Option<MapEvent<K, V>> {
        match self.events.recv().await {
            Ok(raw) => Some(typed(raw).unwrap_or_else(|why| MapEvent::Foreign { why })),
            Err(RecvError::Lagged(n)) => Some(MapEvent::Missed(n)),
            Err(RecvError::Closed) => None,
        }
    }
}

fn optional<T: Item>(value: Option<ObjectValue>) -> Result<Option<T>, String> {
    value.map(T::from_value).transpose()
}

fn typed<K: Item, V: Item>(raw: Raw) -> Result<MapEvent<K, V>, String> {
    Ok(match raw {
        MapEvent::Set { key, value, before } => MapEvent::Set {
            key: K::from_value(key)?,
            value: V::from_value(value)?,
            before: optional(before)?,
        },
        MapEvent::Removed { key, before } => {
            MapEvent::Removed { key: K::from_value(key)?, before: V::from_value(before)? }
        }
        MapEvent::Merged { survivors, lost } => {
            let one = |l: LostEntry<ObjectValue, ObjectValue>| {
                Ok(LostEntry {
                    key: K::from_value(l.key)?,
                    ours: optional(l.ours)?,
                    theirs: optional(l.theirs)?,
                })
            };
            let lost = lost.into_iter().map(one).collect::<Result<_, String>>()?;
            MapEvent::Merged { survivors, lost }
        }
        MapEvent::Diverged { members, why } => MapEvent::Diverged { members, why },
        MapEvent::Missed(n) => MapEvent::Missed(n),
        MapEvent::Foreign { why } => MapEvent::Foreign { why },
    })
}
