//! Where a message goes: back to this member, to the group, to a member's physical address, or into
//! the queue of those whose address is not known yet.

use super::bundler::{Closed, Content, Target};
use super::unresolved::Unresolved;
use super::{TICK, Transport};
use crate::net::{NetOp, OutFrame, OutRow, Route};
use crate::wire::{self, Address};
use crate::{Cx, Dir, DropReason, Event, Message, Row, Uuid};
use alloc::vec::Vec;
use core::net::SocketAddr;

/// What the destination of a message means to its sender.
enum Way {
    Group,
    Myself,
    Member(Uuid),
    Physical(SocketAddr),
    /// No transport can reach it: the master of a site, a time stamp.
    Nowhere,
}

impl Way {
    fn of(dest: Option<&Address>, cx: &Cx<'_>) -> Way {
        let Some(dest) = dest else { return Way::Group };
        match (dest.uuid(), dest.socket_addr()) {
            (Some(m), _) if m == cx.local() => Way::Myself,
            (Some(m), _) => Way::Member(m),
            (None, Some(at)) if at == cx.group().physical => Way::Myself,
            (None, Some(at)) => Way::Physical(at),
            (None, None) => Way::Nowhere,
        }
    }
}

impl Transport {
    /// Loops back what this member is to receive itself. Returns the message if it must travel.
    /// Copies carry the headers of all layers above: reliable multicast finds its own message by them.
    pub(super) fn loop_back(m: Message, cx: &mut Cx<'_>) -> Option<Message> {
        match Way::of(m.dest.as_ref(), cx) {
            Way::Myself => {
                cx.loopback(m);
                None
            }
            Way::Group => {
                if !m.hints.contains(wire::Hints::DONT_LOOPBACK) {
                    cx.loopback(m.clone());
                }
                Some(m)
            }
            Way::Member(_) | Way::Physical(_) | Way::Nowhere => Some(m),
        }
    }

    /// Puts a complete message in the frame of its destination.
    pub(super) fn route(&mut self, m: Message, cx: &mut Cx<'_>) {
        match Way::of(m.dest.as_ref(), cx) {
            Way::Group => self.bundle(Target::Group, m, cx),
            Way::Physical(at) => self.bundle(Target::Physical(at), m, cx),
            Way::Member(to) => match self.address_of(to, cx) {
                Some(at) => {
                    self.release(to, at, cx);
                    self.bundle(Target::Member(to, at), m, cx);
                }
                None => self.wait_for_address(to, m, cx),
            },
            Way::Nowhere | Way::Myself => cx.drop_from_peer(DropReason::NoAddress, None),
        }
    }

    /// Where `m` is, as far as the address book says.
    pub(super) fn address_of(&self, m: Uuid, cx: &Cx<'_>) -> Option<SocketAddr> {
        cx.group().addresses.physical(m)
    }

    fn bundle(&mut self, target: Target, m: Message, cx: &mut Cx<'_>) {
        let src = Address::from(cx.local());
        if let Some(full) = self.bundler.add(target, m, &src, &cx.group().cluster) {
            self.transmit(full, cx);
        }
    }

    /// Puts a row with numbers in frames to the group.
    pub(super) fn route_row(&mut self, row: Row, cx: &mut Cx<'_>) {
        for full in self.bundler.add_row(row, &cx.group().cluster) {
            self.transmit(full, cx);
        }
    }

    fn wait_for_address(&mut self, to: Uuid, m: Message, cx: &mut Cx<'_>) {
        let len = m.listed_len(None);
        let now = cx.now;
        cx.strangers().nowhere(to, now);
        let dropped = self.unresolved.queue(to, m, len, cx.now);
        self.count_unreachable(dropped, to, cx);
        if self.unresolved.ask(to, cx.now) {
            cx.raise(Dir::Up, Event::WhoHas(to));
        }
        if cx.armed(TICK).is_none() {
            cx.arm(TICK, cx.now + Unresolved::ASK_EVERY);
        }
    }

    /// The place of `m` is known: what waited for it leaves.
    pub(super) fn release(&mut self, m: Uuid, at: SocketAddr, cx: &mut Cx<'_>) {
        if self.unresolved.is_empty() {
            return;
        }
        for message in self.unresolved.release(m) {
            self.bundle(Target::Member(m, at), message, cx);
        }
    }

    /// Looks again at those who are waited for: releases, expires, asks.
    pub(super) fn retry_unresolved(&mut self, cx: &mut Cx<'_>) {
        let expired = self.unresolved.expire(cx.now);
        for _ in 0..expired {
            cx.drop_from_peer(DropReason::NoAddress, None);
        }
        for m in self.unresolved.members() {
            if let Some(at) = self.address_of(m, cx) {
                self.release(m, at, cx);
            } else if self.unresolved.ask(m, cx.now) {
                cx.raise(Dir::Up, Event::WhoHas(m));
            }
        }
        if !self.unresolved.is_empty() {
            cx.arm(TICK, cx.now + Unresolved::ASK_EVERY);
        }
    }

    pub(super) fn count_unreachable(&mut self, messages: usize, m: Uuid, cx: &mut Cx<'_>) {
        for _ in 0..messages {
            cx.drop_from_peer(DropReason::NoAddress, Some(m));
        }
    }

    /// Hands a complete frame to the network.
    pub(super) fn transmit(&mut self, frame: Closed, cx: &mut Cx<'_>) {
        let route = match frame.target {
            Target::Member(_, at) | Target::Physical(at) => Route::Peer(at),
            Target::Group if self.config.multicasts() => Route::Multicast,
            Target::Group => Route::Peers(self.peers(cx)),
        };
        if matches!(&route, Route::Peers(list) if list.is_empty()) {
            return;
        }
        self.counters.count(&frame);
        let (src, cluster) = (cx.local(), cx.group().cluster.clone());
        let Closed { dest, content, .. } = frame;
        cx.net(match content {
            Content::Messages(messages) => {
                NetOp::Frame(OutFrame { route, dest, src, cluster, messages })
            }
            Content::Row(start, payloads) => NetOp::Row(OutRow { route, start, payloads }),
        });
    }

    /// Who gets a copy of a multicast where there is no multicast address: the members of the view
    /// that was installed when it was sent; without a view, everybody who is known.
    fn peers(&mut self, cx: &mut Cx<'_>) -> Vec<SocketAddr> {
        let view = self.view.clone().filter(|_| cx.group().view.is_some());
        let Some(view) = view else {
            let local = cx.local();
            let known = cx.group().addresses.known();
            return known.filter(|(m, _)| *m != local).map(|(_, at)| at).collect();
        };
        let local = cx.local();
        let mut peers = Vec::with_capacity(view.members.len());
        for m in view.members.iter().filter(|m| **m != local) {
            match self.address_of(*m, cx) {
                Some(at) => peers.push(at),
                None => {
                    let now = cx.now;
                    cx.strangers().nowhere(*m, now);
                    if self.unresolved.ask_for_multicast(*m, cx.now) {
                        cx.raise(Dir::Up, Event::WhoHas(*m));
                    }
                }
            }
        }
        peers
    }
}
