//! What programs use.

use super::copy::MapCopy;
use super::{Changes, Item, MapError};
use crate::channel::ChannelBuilder;
use crate::error::CloseError;
use crate::rpc::{CallOptions, Dispatcher, RpcError, Targets};
use crate::{Channel, ObjectValue};
use rgroups_core::map::Change;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// How long a change may take where nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A map that all members of a group have; see the [module](super). Cloning gives another handle; when the last
/// one is dropped, the member leaves.
///
/// # Cancel safety
/// Dropping the future of a change gives up the wait: what has left is carried out all the same.
pub struct Map<K, V> {
    inner: Arc<Inner>,
    types: PhantomData<fn() -> (K, V)>,
}

struct Inner {
    rpc: Dispatcher,
    copy: Arc<MapCopy>,
    timeout: Duration,
}

impl<K, V> Clone for Map<K, V> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for Map<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.inner.copy.read(rgroups_core::map::Replica::len);
        f.debug_struct("Map").field("entries", &entries).finish_non_exhaustive()
    }
}

/// Configures a [`Map`] and joins.
#[derive(Clone, Debug)]
#[must_use]
pub struct MapBuilder<K, V> {
    channel: ChannelBuilder,
    timeout: Duration,
    ordered: bool,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Item, V: Item> MapBuilder<K, V> {
    /// How long a change may take, and the fetching of a state. Default 10 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Does without SEQUENCER, as most groups of JGroups do: when two members change one key at the same time,
    /// their copies may differ afterwards, and nobody says so.
    pub fn unordered(mut self) -> Self {
        self.ordered = false;
        self
    }

    /// Joins the cluster of the map, and takes over what the others have.
    ///
    /// # Cancel safety
    /// Dropping the future gives the join up.
    pub async fn open(self, cluster: &str) -> Result<Map<K, V>, MapError> {
        let Self { channel, timeout, ordered, .. } = self;
        if ordered && channel.config().plan().find("SEQUENCER").is_none() {
            return Err(MapError::NoTotalOrder);
        }
        let mut made = None;
        let (channel, _events, state) = channel
            .connect_prepared(cluster, timeout, |channel| {
                let copy = MapCopy::start(channel.shared(), timeout)?;
                channel.shared().keep(Arc::clone(&copy));
                made = Some((handlers(channel, &copy), copy));
                Ok(())
            })
            .await?;
        state.whole().await.map_err(crate::ConnectError::from)?;
        let Some((rpc, copy)) = made else { return Err(crate::ConnectError::Closed.into()) };
        if let Some(why) = copy.unusable() {
            return Err(MapError::State { why });
        }
        drop(channel);
        Ok(Map { inner: Arc::new(Inner { rpc, copy, timeout }), types: PhantomData })
    }
}

/// One handler per method, on the channel's thread: one change after the other, as they come.
fn handlers(channel: &Channel, copy: &Arc<MapCopy>) -> Dispatcher {
    let builder = Dispatcher::builder(channel).on_channel_thread();
    let with = |builder: crate::rpc::DispatcherBuilder, method: i16| {
        let copy = Arc::clone(copy);
        builder
            .handle_values(method, move |_, args| std::future::ready(copy.carry_out(method, args)))
    };
    Change::methods().fold(builder, with).build()
}

impl<K: Item, V: Item> Map<K, V> {
    /// Starts to configure a map on this channel, which is the map's own then: its calls and its state are.
    pub fn builder(channel: ChannelBuilder) -> MapBuilder<K, V> {
        MapBuilder { channel, timeout: TIMEOUT, ordered: true, types: PhantomData }
    }

    /// Its channel, for views and names.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        self.inner.rpc.channel()
    }

    /// The value of a key, in this member's copy.
    ///
    /// # Errors
    /// If key or value are not of these types.
    pub fn get(&self, key: &K) -> Result<Option<V>, MapError> {
        let key = item("get", key)?.into_value();
        let found = self.inner.copy.read(|r| r.get(&key).cloned());
        optional(found.map(ObjectValue::from_value))
    }

    /// How many keys there are here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.copy.read(rgroups_core::map::Replica::len)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries of this member's copy as they are now, in an order that is the same everywhere.
    ///
    /// # Errors
    /// If an entry is not of these types.
    pub fn entries(&self) -> Result<Vec<(K, V)>, MapError> {
        let all: Vec<_> =
            self.inner.copy.read(|r| r.iter().map(|(k, v)| (k.clone(), v.clone())).collect());
        let typed =
            |(k, v)| Ok((other(ObjectValue::from_value(k))?, other(ObjectValue::from_value(v))?));
        all.into_iter().map(typed).collect()
    }

    /// What happens to this member's copy from now on.
    #[must_use]
    pub fn changes(&self) -> Changes<K, V> {
        Changes::new(self.inner.copy.subscribe())
    }

    /// Gives a key a value. Returns the one from before.
    pub async fn put(&self, key: K, value: V) -> Result<Option<V>, MapError> {
        let (key, value) = (value_of("put", &key)?, value_of("put", &value)?);
        previous(self.change(Change::Put { key, value }).await?)
    }

    /// Gives a key a value if it has none. Returns the one that it had: `None` means done.
    pub async fn put_if_absent(&self, key: K, value: V) -> Result<Option<V>, MapError> {
        let (key, value) = (value_of("put", &key)?, value_of("put", &value)?);
        previous(self.decide(Change::PutIfAbsent { key, value }).await?)
    }

    /// Gives all these keys their values, in one step.
    pub async fn put_all(&self, entries: impl IntoIterator<Item = (K, V)>) -> Result<(), MapError> {
        let one = |(k, v): (K, V)| Ok((value_of("put", &k)?, value_of("put", &v)?));
        let entries = entries.into_iter().map(one).collect::<Result<Vec<_>, MapError>>()?;
        self.change(Change::PutAll(entries)).await.map(|_| ())
    }

    /// Removes a key. Returns its value.
    pub async fn remove(&self, key: K) -> Result<Option<V>, MapError> {
        let key = value_of("remove", &key)?;
        previous(self.change(Change::Remove { key }).await?)
    }

    /// Removes a key if it has this value. Returns whether it had.
    pub async fn remove_if(&self, key: K, value: V) -> Result<bool, MapError> {
        let (key, value) = (value_of("remove", &key)?, value_of("remove", &value)?);
        Ok(is_done(&self.decide(Change::RemoveIfEquals { key, value }).await?))
    }

    /// Gives a key a value if it has one. Returns the one from before: `None` means not done.
    pub async fn replace(&self, key: K, value: V) -> Result<Option<V>, MapError> {
        let (key, value) = (value_of("replace", &key)?, value_of("replace", &value)?);
        previous(self.decide(Change::Replace { key, value }).await?)
    }

    /// Gives a key another value if it has this one. Returns whether it had.
    pub async fn replace_if(&self, key: K, expected: V, value: V) -> Result<bool, MapError> {
        let key = value_of("replace", &key)?;
        let (expected, value) = (value_of("replace", &expected)?, value_of("replace", &value)?);
        Ok(is_done(&self.decide(Change::ReplaceIfEquals { key, expected, value }).await?))
    }

    /// Removes all keys.
    pub async fn clear(&self) -> Result<(), MapError> {
        self.change(Change::Clear).await.map(|_| ())
    }

    /// Leaves the group, as [`Channel::close`] does.
    pub async fn close(self) -> Result<(), CloseError> {
        self.channel().clone().close().await
    }

    /// A change whose answer depends on what is there.
    async fn decide(&self, change: Change) -> Result<ObjectValue, MapError> {
        if self.inner.copy.is_fetching() {
            return Err(MapError::Merging);
        }
        self.change(change).await
    }

    /// Has everybody carry a change out. The answer is this member's, which in total order is everybody's.
    async fn change(&self, change: Change) -> Result<ObjectValue, MapError> {
        let what = change.name();
        let unusable =
            |why: rgroups_core::map::Unusable| MapError::Unusable { what, why: why.to_string() };
        let call = change.to_call().map_err(unusable)?;
        let options = CallOptions { timeout: self.inner.timeout, ..CallOptions::default() };
        let answers = self.inner.rpc.call_wire(Targets::All, call, options).await?;
        let local = self.channel().address();
        let mut own = None;
        let mut missing = Vec::new();
        for (member, answer) in answers {
            match answer {
                answer if member == local => own = Some(answer),
                // Whoever has left has no copy any more; whoever has just come has it all.
                Ok(_) | Err(RpcError::Left(_) | RpcError::InState(_)) => {}
                Err(why) => missing.push((member, why)),
            }
        }
        match own {
            Some(Ok(_)) if !missing.is_empty() => Err(MapError::NotEverywhere { missing }),
            Some(Ok(reply)) => Ok(reply),
            Some(Err(why)) => Err(why.into()),
            None => Err(RpcError::NotMember(local).into()),
        }
    }
}

fn item<T: Item>(what: &'static str, item: &T) -> Result<ObjectValue, MapError> {
    item.to_value().map_err(|why| MapError::Unusable { what, why })
}

fn value_of<T: Item>(what: &'static str, of: &T) -> Result<rgroups_core::wire::Value, MapError> {
    item(what, of).map(ObjectValue::into_value)
}

fn other<T: Item>(value: ObjectValue) -> Result<T, MapError> {
    T::from_value(value).map_err(|why| MapError::Type { why })
}

fn optional<T: Item>(value: Option<ObjectValue>) -> Result<Option<T>, MapError> {
    value.map(other).transpose()
}

/// JGroups says null where there was nothing.
fn previous<T: Item>(reply: ObjectValue) -> Result<Option<T>, MapError> {
    optional(Some(reply).filter(|r| *r != ObjectValue::Null))
}

fn is_done(reply: &ObjectValue) -> bool {
    *reply == ObjectValue::Bool(true)
}
