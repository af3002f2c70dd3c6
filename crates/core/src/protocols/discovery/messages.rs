//! The messages of discovery (WIRE §10): requests, answers, and what a coordinator tells of its
//! members.

use super::{Asked, Discovery, DiscoveryKind, Role};
use crate::net::{NetOp, without_scope};
use crate::wire::header::{Header, PingHeader, PingKind};
use crate::wire::{self, Address, Body, Decoded, Flags, PingData, Reader};
use crate::{Cx, Message, Uuid};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// The descriptions in a discovery message.
pub(super) fn payload(m: &Message) -> Decoded<Vec<PingData>> {
    match m.body.as_bytes() {
        Some(bytes) => PingData::decode_list(&mut Reader::new(bytes.clone())),
        None => Ok(Vec::new()),
    }
}

impl Discovery {
    /// Asks who is there, by multicast or by asking every address where a member may be.
    pub(super) fn request(
        &mut self,
        wanted: Option<&[Uuid]>,
        initial: bool,
        cx: &mut Cx<'_>,
    ) -> Asked {
        let group = cx.group();
        let data = PingData {
            // JGroups describes the requester as a client, whatever it is.
            server: false,
            coordinator: false,
            wanted: wanted.map(|w| w.iter().map(|m| (*m).into()).collect()),
            ..self.describe(group.local, cx)
        };
        let header = PingHeader {
            kind: PingKind::Request,
            cluster: String::from_utf8(group.cluster.to_vec()).ok(),
            initial,
        };
        let list = core::slice::from_ref(&data);
        match &self.kind {
            DiscoveryKind::Ping(_) | DiscoveryKind::InProcess(_) => {
                self.counters.requests += 1;
                self.send(None, header, list, cx);
                Asked::Everybody
            }
            DiscoveryKind::Mping(_) => {
                self.counters.requests += 1;
                let mut request = self.message(None, header, list);
                request.src = Some(cx.local().into());
                cx.net(NetOp::Discovery(request));
                Asked::Everybody
            }
            DiscoveryKind::TcpPing(_) => {
                let hosts = self.hosts(cx);
                for at in &hosts {
                    self.counters.requests += 1;
                    self.send(Some((*at).into()), header.clone(), list, cx);
                }
                Asked::Hosts(hosts.into_iter().map(without_scope).collect())
            }
        }
    }

    /// Where members may be: the configured addresses with the ports above them, the same ports on
    /// our own host, and wherever a member was heard of. Without our own address.
    fn hosts(&self, cx: &Cx<'_>) -> BTreeSet<SocketAddr> {
        let DiscoveryKind::TcpPing(c) = &self.kind else { return BTreeSet::new() };
        let own = cx.group().physical;
        let mut hosts = BTreeSet::new();
        for host in &c.initial_hosts {
            for port in host.port()..=host.port().saturating_add(c.port_range) {
                hosts.insert(SocketAddr::new(host.ip(), port));
                hosts.insert(SocketAddr::new(own.ip(), port));
            }
        }
        hosts.extend(self.dynamic_hosts.iter());
        hosts.extend(cx.group().addresses.known().map(|(_, at)| at));
        hosts.retain(|at| without_scope(*at) != without_scope(own));
        hosts
    }

    /// Answers a request: with this member, with everybody it knows if so configured, and with the
    /// members that were asked for by name if this member speaks for them.
    pub(super) fn answer(&mut self, to: Uuid, wanted: Option<&[Uuid]>, cx: &mut Cx<'_>) {
        let local = cx.local();
        let mut about = Vec::new();
        if wanted.is_none_or(|w| w.contains(&local)) {
            about.push(self.describe(local, cx));
        }
        let all = self.common.return_entire_cache;
        let named = wanted.is_some() && self.speaks_for_others(cx);
        if all || named {
            let others: Vec<Uuid> = cx
                .group()
                .addresses
                .known()
                .map(|(m, _)| m)
                .filter(|m| *m != local && *m != to)
                .filter(|m| wanted.is_none_or(|w| w.contains(m)))
                .filter(|m| all || cx.is_member(*m))
                .collect();
            about.extend(others.into_iter().map(|m| self.describe(m, cx)));
        }
        self.respond(to, &about, cx);
    }

    /// The coordinator of a new view tells new members where the others are, and the others where
    /// the new ones are (JGroups `Discovery.disseminateDiscoveryResponse` at `send_cache_on_join`).
    /// One message lists many members: receivers read lists.
    pub(super) fn disseminate(&mut self, old: &[Uuid], cx: &mut Cx<'_>) {
        let local = cx.local();
        let known = |m: &&Uuid| cx.group().addresses.physical(**m).is_some();
        let members: Vec<Uuid> = self.members.iter().filter(known).copied().collect();
        let all: Vec<PingData> = members.iter().map(|m| self.describe(*m, cx)).collect();
        let is_new = |d: &&PingData| {
            d.sender.as_ref().and_then(Address::uuid).is_some_and(|m| !old.contains(&m))
        };
        let new: Vec<PingData> = all.iter().filter(is_new).cloned().collect();
        if new.is_empty() || old.is_empty() {
            return;
        }
        for to in members.into_iter().filter(|m| *m != local) {
            let list = if old.contains(&to) { &new } else { &all };
            let to_address = Some(Address::from(to));
            let about: Vec<PingData> =
                list.iter().filter(|d| d.sender != to_address).cloned().collect();
            self.respond(to, &about, cx);
        }
    }

    fn respond(&mut self, to: Uuid, about: &[PingData], cx: &mut Cx<'_>) {
        let header = PingHeader { kind: PingKind::Response, cluster: None, initial: false };
        for part in about.chunks(self.common.max_listed()) {
            self.send(Some(to.into()), header.clone(), part, cx);
        }
    }

    fn message(&self, dest: Option<Address>, header: PingHeader, of: &[PingData]) -> wire::Message {
        let mut bytes = Vec::new();
        PingData::encode_list(of, &mut bytes);
        wire::Message { dest, body: Body::bytes(bytes), ..wire::Message::default() }
            .with_flags(Flags::OOB | Flags::DONT_BUNDLE)
            .with_header(self.kind.id(), Header::Ping(header))
    }

    fn send(&self, dest: Option<Address>, header: PingHeader, of: &[PingData], cx: &mut Cx<'_>) {
        let mut message = Message::from(self.message(dest, header, of));
        message.hints = wire::Hints::DONT_LOOPBACK;
        cx.send_down(message);
    }

    /// What is known of `m`. The server flag is that of this member, the coordinator flag that of
    /// `m`, both as of now.
    fn describe(&self, m: Uuid, cx: &Cx<'_>) -> PingData {
        let group = cx.group();
        let server = self.role == Role::Server && group.is_member(group.local);
        PingData {
            sender: Some(m.into()),
            server,
            coordinator: server && group.coordinator() == Some(m),
            name: group.addresses.name(m).map(|n| String::from(&**n)),
            physical: group.addresses.physical(m).map(Into::into),
            wanted: None,
        }
    }
}
