//! What was heard of others: processes of another cluster or version at the same address, members
//! that are in no view, bytes that are no packets. Nothing is done about them; an operator may want
//! to know. Bounded, whatever is sent to us.

use crate::wire::{DecodeError, Version};
use crate::{Time, Uuid};
use alloc::collections::BTreeMap;
use bytes::Bytes;
use core::net::SocketAddr;

/// How often something was heard, and last by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// How often.
    pub times: u64,
    /// When last.
    pub last: Time,
    /// From where last, if known.
    pub from: Option<SocketAddr>,
}

/// See the module documentation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strangers {
    /// Clusters, by the first [`Strangers::MAX_NAME`] bytes of their names, as they came.
    pub clusters: BTreeMap<Bytes, Heard>,
    /// Versions other than ours, whether their packets could be read or not.
    pub versions: BTreeMap<Version, Heard>,
    /// Senders that are not in the view.
    pub outsiders: BTreeMap<Uuid, Heard>,
    /// Members for whom something was to be sent while nobody knew where they are.
    pub nowhere: BTreeMap<Uuid, Heard>,
    /// Bytes that are no packets of any version, and what was wrong with the last.
    pub garbage: Option<(DecodeError, Heard)>,
    /// How often something was heard for which there was no room in these lists.
    pub untold: u64,
}

impl Strangers {
    /// So many entries of each kind are kept, the first ones.
    pub const MAX: usize = 32;
    /// So many bytes of a name are kept.
    pub const MAX_NAME: usize = 128;

    /// A message of another cluster.
    pub(crate) fn cluster(&mut self, name: &[u8], now: Time, from: Option<SocketAddr>) {
        // A copy: the name is part of a packet, which is not to be kept.
        let name = &name[..name.len().min(Self::MAX_NAME)];
        match self.clusters.get_mut(name) {
            Some(heard) => heard.again(now, from),
            None => {
                let name = Bytes::copy_from_slice(name);
                self.untold += add(&mut self.clusters, name, now, from);
            }
        }
    }

    /// A packet of another version.
    pub(crate) fn version(&mut self, version: Version, now: Time, from: Option<SocketAddr>) {
        self.untold += add(&mut self.versions, version, now, from);
    }

    /// A message of somebody who is not in the view.
    pub(crate) fn outsider(&mut self, who: Uuid, now: Time) {
        self.untold += add(&mut self.outsiders, who, now, None);
    }

    /// Something for a member whose address is not known.
    pub(crate) fn nowhere(&mut self, who: Uuid, now: Time) {
        self.untold += add(&mut self.nowhere, who, now, None);
    }

    /// Bytes that are no packet.
    pub(crate) fn garbage(&mut self, error: DecodeError, now: Time, from: Option<SocketAddr>) {
        match &mut self.garbage {
            Some((last, heard)) => {
                *last = error;
                heard.again(now, from);
            }
            None => self.garbage = Some((error, Heard { times: 1, last: now, from })),
        }
    }
}

impl Heard {
    fn again(&mut self, now: Time, from: Option<SocketAddr>) {
        self.times += 1;
        self.last = now;
        self.from = from.or(self.from);
    }
}

/// Notes one more of these; 1 if there is no room.
fn add<K: Ord>(list: &mut BTreeMap<K, Heard>, what: K, now: Time, from: Option<SocketAddr>) -> u64 {
    if let Some(heard) = list.get_mut(&what) {
        heard.again(now, from);
    } else if list.len() < Strangers::MAX {
        list.insert(what, Heard { times: 1, last: now, from });
    } else {
        return 1;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn what_is_heard_is_counted_and_bounded() {
        let mut s = Strangers::default();
        let from = Some(([127, 0, 0, 1], 7800).into());
        for n in 0..100 {
            s.cluster(format!("{n:03}").as_bytes(), Time::ZERO, from);
            s.version(Version(n), Time::ZERO, None);
        }
        s.cluster(b"001", Time::ZERO, None);
        assert_eq!((s.clusters.len(), s.versions.len()), (Strangers::MAX, Strangers::MAX));
        let heard = s.clusters[&b"001"[..]];
        assert_eq!((heard.times, heard.from), (2, from));
        assert_eq!(s.untold, 2 * (100 - Strangers::MAX as u64));
        s.cluster(&[b'x'; 10_000], Time::ZERO, None);
        assert!(s.clusters.keys().all(|name| name.len() <= Strangers::MAX_NAME));
    }
}
