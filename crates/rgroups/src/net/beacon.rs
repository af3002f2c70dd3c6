//! The sockets of MPING: requests of discovery are multicast to a group of their own, beside a
//! transport over streams. They are few and small, and may be lost like any datagram.

use super::bind::Place;
use super::mmsg::{self, Slots};
use super::udp::{bind_multicast, on_link, open_sender};
use super::{BEACON, BindFailure, NetCounters};
use bytes::Bytes;
use mio::net::UdpSocket;
use mio::{Interest, Registry};
use rgroups_core::net::without_scope;
use rgroups_core::node::RawEvent;
use std::io::ErrorKind;
use std::net::SocketAddr;

/// Requested receive buffer: as many requests as a large group makes when it starts.
const RECV_BUF: usize = 500_000;

/// What to bind, from the attributes of MPING.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BeaconPlan {
    /// On whose interface.
    pub(crate) place: Place,
    pub(crate) group: SocketAddr,
    pub(crate) ttl: u32,
}

/// A socket that sends, from a port of its own, and one that receives.
#[derive(Debug)]
pub(crate) struct Beacon {
    sender: UdpSocket,
    local: SocketAddr,
    group: SocketAddr,
    receiver: UdpSocket,
    readable: bool,
    slots: Slots,
}

impl Beacon {
    pub(crate) fn bind(plan: &BeaconPlan, registry: &Registry) -> Result<Beacon, BindFailure> {
        let (sender, local) = open_sender(plan.place, 0, plan.ttl)
            .map_err(|e| BindFailure::new(format!("udp {} (MPING)", plan.place.at(0)), e))?;
        let receiver = bind_multicast(plan.place, plan.group, RECV_BUF)?;
        let mut receiver = UdpSocket::from_std(receiver.into());
        registry
            .register(&mut receiver, BEACON, Interest::READABLE)
            .map_err(|e| BindFailure::new("poll", e))?;
        Ok(Beacon {
            sender: UdpSocket::from_std(sender.into()),
            local: without_scope(local),
            group: on_link(plan.place, plan.group),
            receiver,
            readable: true,
            slots: Slots::new(),
        })
    }

    pub(crate) fn ready(&mut self) {
        self.readable = true;
    }

    pub(crate) fn has_input(&self) -> bool {
        self.readable
    }

    /// Sends a request, if the kernel has room for it: it is asked again if need be.
    pub(crate) fn send(&self, bytes: &Bytes, counters: &mut NetCounters) {
        match self.sender.send_to(bytes, self.group) {
            Ok(n) => {
                counters.datagrams_sent += 1;
                counters.bytes_sent += n as u64;
            }
            Err(e) => {
                tracing::debug!(error = %e, to = %self.group, "discovery request not sent");
                counters.datagrams_dropped += 1;
            }
        }
    }

    /// Appends what one system call brought.
    pub(crate) fn receive(&mut self, counters: &mut NetCounters, out: &mut Vec<RawEvent>) {
        if !self.readable {
            return;
        }
        let local = self.local;
        let received = mmsg::receive(&self.receiver, &mut self.slots, |from, bytes| {
            counters.datagrams_received += 1;
            counters.bytes_received += bytes.len() as u64;
            // Our own requests come back so that other processes of this host see them.
            if without_scope(from) != local {
                out.push(RawEvent::Discovery { bytes });
            }
        });
        match received {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => self.readable = false,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => {
                tracing::debug!(error = %e, "receive failed");
                counters.errors += 1;
            }
        }
    }
}
