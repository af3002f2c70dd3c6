//! Speaking to members without joining: a request of discovery and what is heard of it.
//!
//! What is sent is what a joining member sends, so that no member logs an error because of it. The
//! identity in it sorts behind all others: nobody elects it.

use bytes::Bytes;
use rgroups_wire::error::DecodeErrorKind;
use rgroups_wire::header::{PingHeader, PingKind, Rtt, TpHeader};
use rgroups_wire::{
    Address, Body, Encode, Flags, Frame, FrameBody, Header, IpAddress, Message, PingData, ProtId,
    Reader, Uuid, Version,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Whom we speak as.
#[derive(Clone, Debug)]
pub(crate) struct Voice {
    pub(crate) identity: Uuid,
    pub(crate) physical: SocketAddr,
    pub(crate) cluster: String,
    pub(crate) protocol: ProtId,
}

impl Voice {
    /// A fresh identity: the highest there can be, with a random second half.
    pub(crate) fn new(physical: SocketAddr, cluster: &str, protocol: ProtId) -> Self {
        use std::hash::{BuildHasher, Hasher, RandomState};
        // The standard library's random keys: good enough for not being somebody else.
        let random = RandomState::new().build_hasher().finish();
        let identity = Uuid::new(i64::MAX as u64, random);
        Self { identity, physical, cluster: cluster.to_owned(), protocol }
    }

    /// A request for members; `to` where there is no multicast.
    pub(crate) fn request(&self, to: Option<SocketAddr>) -> Bytes {
        let header = PingHeader {
            kind: PingKind::Request,
            cluster: Some(self.cluster.clone()),
            initial: false,
        };
        let data = PingData {
            sender: Some(Address::Uuid(self.identity)),
            server: false,
            coordinator: false,
            name: Some("rgroups doctor".into()),
            physical: Some(IpAddress::from(self.physical)),
            wanted: None,
        };
        let mut payload = Vec::new();
        PingData::encode_list(&[data], &mut payload);
        let message = Message {
            dest: to.map(|to| Address::Ip(IpAddress::from(to))),
            src: Some(Address::Uuid(self.identity)),
            flags: Flags::OOB | Flags::DONT_BUNDLE,
            body: Body::bytes(payload),
            ..Message::default()
        };
        let cluster = Some(Bytes::copy_from_slice(self.cluster.as_bytes()));
        let message = message
            .with_header(self.protocol, Header::Ping(header))
            .with_header(ProtId::TP, Header::Tp(TpHeader { cluster, rtt: Rtt::None }));
        let body = FrameBody::Single(message);
        Frame { version: Version::OURS, multicast: to.is_none(), body }.to_bytes()
    }
}

/// A member that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) physical: Option<SocketAddr>,
    pub(crate) coordinator: bool,
    pub(crate) version: Version,
    pub(crate) rgroups: bool,
}

/// What was heard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    /// Members of the cluster that was asked for.
    pub(crate) peers: BTreeMap<String, Peer>,
    /// Packets by cluster name, and from where.
    pub(crate) clusters: BTreeMap<String, Traffic>,
    /// Packets of versions that do not go with ours.
    pub(crate) foreign_versions: BTreeMap<u16, Traffic>,
    /// Datagrams that are nothing of JGroups.
    pub(crate) garbage: Traffic,
}

/// Packets of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) packets: u64,
    pub(crate) from: BTreeSet<SocketAddr>,
}

/// As many senders of one kind are told apart.
const MOST_SENDERS: usize = 64;

impl Traffic {
    fn note(&mut self, from: SocketAddr) {
        self.packets += 1;
        if self.from.len() < MOST_SENDERS {
            self.from.insert(from);
        }
    }

    fn join(&mut self, other: &Traffic) {
        self.packets += other.packets;
        self.from.extend(other.from.iter());
    }
}

impl Heard {
    /// Takes a packet into account. False if it is our own.
    pub(crate) fn packet(&mut self, from: SocketAddr, bytes: Bytes, own: Uuid) -> bool {
        let flags = bytes.get(2).copied();
        let frame = match Frame::decode(bytes) {
            Ok(frame) => frame,
            Err(e) => {
                match e.kind {
                    DecodeErrorKind::Version(v) if plausible(v, flags) => {
                        self.foreign_versions.entry(v).or_default().note(from);
                    }
                    _ => self.garbage.note(from),
                }
                return true;
            }
        };
        for m in frame.messages() {
            if m.src.as_ref().and_then(Address::uuid) == Some(own) {
                return false;
            }
            let listed = match &frame.body {
                FrameBody::List { cluster, .. } => cluster.clone(),
                FrameBody::Single(_) => None,
            };
            let cluster = match m.headers.get(ProtId::TP) {
                Some(Header::Tp(h)) => h.cluster.clone().or(listed),
                _ => listed,
            };
            if let Some(name) = cluster
                && self.clusters.len() < MOST_SENDERS
            {
                let name = String::from_utf8_lossy(&name).into_owned();
                self.clusters.entry(name).or_default().note(from);
            }
            self.answers(m, frame.version);
        }
        true
    }

    /// Adds what was heard elsewhere.
    pub(crate) fn join(&mut self, other: Heard) {
        self.peers.extend(other.peers);
        for (name, traffic) in other.clusters {
            self.clusters.entry(name).or_default().join(&traffic);
        }
        for (version, traffic) in other.foreign_versions {
            self.foreign_versions.entry(version).or_default().join(&traffic);
        }
        self.garbage.join(&other.garbage);
    }

    /// The descriptions in an answer to discovery.
    fn answers(&mut self, m: &Message, version: Version) {
        let answer = m
            .headers
            .iter()
            .any(|(_, h)| matches!(h, Header::Ping(PingHeader { kind: PingKind::Response, .. })));
        let Some(bytes) = m.body.as_bytes().filter(|_| answer) else { return };
        let Ok(list) = PingData::decode_list(&mut Reader::new(bytes.clone())) else { return };
        for d in list {
            let Some(uuid) = d.sender.as_ref().and_then(Address::uuid) else { continue };
            let peer = Peer {
                name: d.name.unwrap_or_else(|| uuid.to_string()),
                physical: d.physical.and_then(|p| p.socket_addr()),
                coordinator: d.coordinator,
                version,
                rgroups: rgroups::Address::from(uuid).is_rgroups(),
            };
            if self.peers.len() < MOST_SENDERS {
                self.peers.insert(format!("{:016x}{:016x}", uuid.msb, uuid.lsb), peer);
            }
        }
    }
}

/// Whether there is, or may be, such a version of JGroups, with the flags that follow it: other
/// traffic begins with other bytes.
fn plausible(version: u16, flags: Option<u8>) -> bool {
    (2..=9).contains(&(version >> 11)) && flags.is_some_and(|f| f < 4)
}
