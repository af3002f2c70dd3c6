//! The edge of TCP: a packet is a frame on the connection with each of its receivers.

use super::datagrams::decode;
use super::frames::{FrameBuffer, Packet};
use super::link::{Down, LinkConfig, LinkEvent};
use super::links::Links;
use super::out::Out;
use super::{Port, RawEvent};
use crate::Time;
use crate::net::{NetEvent, Route};
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Packets to frames on connections and back.
#[derive(Debug)]
pub(super) struct Mesh {
    pub(super) links: Links,
    buffer: FrameBuffer,
}

impl Mesh {
    /// `own`: where this member's transport listens.
    pub(super) fn new(own: SocketAddr, config: LinkConfig) -> Self {
        let links = Links::new(Port::Transport, own, config);
        Self { links, buffer: FrameBuffer::default() }
    }

    /// Sends a frame; all its receivers share one encoding. A transport over streams names its
    /// receivers; a frame to the group goes to everybody that is connected.
    pub(super) fn send(&mut self, now: Time, packet: Packet<'_>, out: &mut Out) {
        let bytes = self.buffer.streamed(packet);
        match packet.route() {
            Route::Peer(to) => self.links.send(now, *to, bytes, out),
            Route::Peers(all) => {
                for to in all {
                    self.links.send(now, *to, bytes.clone(), out);
                }
            }
            Route::Multicast => {
                for to in self.links.linked().collect::<Vec<_>>() {
                    self.links.send(now, to, bytes.clone(), out);
                }
            }
        }
    }

    /// Something happened to a connection. The stack learns of peers that refuse, as discovery need
    /// not wait for them; otherwise connections come and go unseen. Frames go to `sink` as they are decoded; one that
    /// cannot be decoded spoils itself only, since its length is known.
    pub(super) fn receive(
        &mut self,
        now: Time,
        ev: RawEvent,
        out: &mut Out,
        sink: &mut dyn FnMut(NetEvent),
    ) {
        self.links.on_event(now, ev, out, &mut |ev| {
            if let Some(ev) = meaning(ev) {
                sink(ev);
            }
        });
    }

    /// Fires what is due, of which the stack learns nothing.
    pub(super) fn advance(&mut self, now: Time, out: &mut Out) {
        self.links.advance(now, out, &mut |_| {});
    }
}

fn meaning(ev: LinkEvent) -> Option<NetEvent> {
    match ev {
        LinkEvent::Frame { peer, bytes } => Some(decode(bytes, Some(peer))),
        LinkEvent::Garbage { from, error } => Some(NetEvent::Undecodable { error, from }),
        LinkEvent::Down { peer, why: Down::Refused } => Some(NetEvent::NobodyAt(Some(peer))),
        LinkEvent::Up { .. } | LinkEvent::Down { .. } => None,
    }
}
