//! The three protocols of state transfer, which differ in how the state itself travels.

use crate::wire::header::{
    StateTransferHeader, StateTransferKind, StreamingHeader, StreamingKind as Kind,
};
use crate::wire::{self, Header, IpAddress, ProtId};
use crate::{Digest, Message, Uuid};
use alloc::boxed::Box;
use core::net::SocketAddr;

/// One of them. Of a stack there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// STATE_TRANSFER: in one message.
    Whole,
    /// STATE: in parts.
    Streamed,
    /// STATE_SOCK: over a connection of its own, which the application reads and writes.
    Socket,
}

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) kind: Kind,
    pub(super) digest: Option<wire::Digest>,
    pub(super) socket: Option<SocketAddr>,
}

impl Dialect {
    pub(super) fn id(self) -> ProtId {
        match self {
            Dialect::Whole => ProtId::STATE_TRANSFER,
            Dialect::Streamed => ProtId::STATE,
            Dialect::Socket => ProtId::STATE_SOCK,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Dialect::Whole => "STATE_TRANSFER",
            Dialect::Streamed => "STATE",
            Dialect::Socket => "STATE_SOCK",
        }
    }

    /// A message of this protocol.
    pub(super) fn message(
        self,
        to: Uuid,
        kind: Kind,
        digest: Option<&Digest>,
        socket: Option<SocketAddr>,
        body: wire::Body,
    ) -> Message {
        let digest = digest.map(Digest::to_wire);
        let header = match self {
            Dialect::Whole => {
                let kind = match kind {
                    Kind::Request => StateTransferKind::Request,
                    Kind::Response => StateTransferKind::Response,
                    Kind::Failure => StateTransferKind::Failure,
                    Kind::Part | Kind::Eof => unreachable!("STATE_TRANSFER sends no parts"),
                };
                Header::StateTransfer(Box::new(StateTransferHeader { kind, digest }))
            }
            Dialect::Streamed | Dialect::Socket => {
                let address = socket.map(IpAddress::from);
                Header::Streaming(Box::new(StreamingHeader { kind, digest, address }))
            }
        };
        wire::Message::unicast(to, body).with_header(self.id(), header).into()
    }

    /// What a header with the id of this protocol says; `None`: it is the header of another one.
    pub(super) fn read(self, header: Header) -> Option<Said> {
        match (self, header) {
            (Dialect::Whole, Header::StateTransfer(h)) => {
                let kind = match h.kind {
                    StateTransferKind::Request => Kind::Request,
                    StateTransferKind::Response => Kind::Response,
                    StateTransferKind::Failure => Kind::Failure,
                };
                Some(Said { kind, digest: h.digest, socket: None })
            }
            (Dialect::Streamed | Dialect::Socket, Header::Streaming(h)) => {
                let socket = h.address.as_ref().and_then(IpAddress::socket_addr);
                Some(Said { kind: h.kind, digest: h.digest, socket })
            }
            _ => None,
        }
    }
}
