//! A node of the cluster: the machine it runs on, and the process that runs there at the moment.

use super::calls::{Handling, Nested};
use super::state::{Piece, Provision, Question, Reading};
use crate::agenda::Drift;
use crate::connections::Life;
use crate::history::MessageId;
use rgroups_core::map::Replica;
use rgroups_core::node::{Node, RawEvent};
use rgroups_core::{Command, Consumed, Duration, OpId, Time, Uuid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A machine and its fate.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) incarnations: u32,
    pub(super) drift: Drift,
    /// From an input to its turn, at least.
    pub(super) slowness: Duration,
    pub(super) appetite: Appetite,
    pub(super) provision: Provision,
    pub(super) handling: Handling,
    /// What it consumes, it cannot handle.
    pub(super) failing: bool,
    pub(super) process: Option<Process>,
}

/// How fast an application consumes what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appetite {
    /// At once.
    Everything,
    /// So many bytes a second.
    Rate(u64),
    /// Not at all.
    Nothing,
}

/// A running process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) life: Life,
    pub(super) node: Node,
    pub(super) frozen: bool,
    /// When the next turn is planned for. Turns planned earlier for other times are void.
    pub(super) turn_at: Option<Time>,
    pub(super) inbox: VecDeque<RawEvent>,
    /// Bytes of datagrams in `inbox`.
    datagram_bytes: usize,
    pub(super) commands: VecDeque<Command>,
    /// Delivered to the application and not consumed.
    pub(super) unread: VecDeque<Unread>,
    pub(super) consumption_planned: bool,
    pub(super) consumed: Vec<Consumed>,
    /// The multicasts that the application knows, in order.
    pub(super) contents: Vec<MessageId>,
    /// Its copy of the map that all share.
    pub(super) copy: Replica,
    pub(super) reading: Option<Reading>,
    /// Calls of its own that are not over.
    pub(super) calls: BTreeSet<OpId>,
    /// Requests that wait for calls of its own, by those.
    pub(super) nested: BTreeMap<OpId, Nested>,
}

/// A message, a question for the state, or a piece of one, in the hands of the application.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) from: Uuid,
    pub(super) bytes: u64,
    /// Which it is, if it is whole.
    pub(super) message: Option<MessageId>,
    pub(super) receipt: Vec<Consumed>,
    pub(super) question: Option<Question>,
    pub(super) piece: Option<Piece>,
}

impl Unread {
    /// Of `from`.
    pub(super) fn nothing(from: Uuid) -> Self {
        Self { from, bytes: 0, message: None, receipt: Vec::new(), question: None, piece: None }
    }
}

impl Process {
    /// What a kernel holds of datagrams for a process that does not fetch them.
    const SOCKET_BUFFER: usize = 4 << 20;

    pub(super) fn new(life: Life, node: Node) -> Self {
        Self {
            life,
            node,
            frozen: false,
            turn_at: None,
            inbox: VecDeque::new(),
            datagram_bytes: 0,
            commands: VecDeque::new(),
            unread: VecDeque::new(),
            consumption_planned: false,
            consumed: Vec::new(),
            contents: Vec::new(),
            copy: Replica::default(),
            reading: None,
            calls: BTreeSet::new(),
            nested: BTreeMap::new(),
        }
    }

    /// Gives it an event; a datagram that finds the buffer full is lost.
    pub(super) fn queue(&mut self, event: RawEvent) -> bool {
        if let RawEvent::Datagram { bytes, .. } | RawEvent::Discovery { bytes } = &event {
            if self.datagram_bytes + bytes.len() > Self::SOCKET_BUFFER {
                return false;
            }
            self.datagram_bytes += bytes.len();
        }
        self.inbox.push_back(event);
        true
    }

    pub(super) fn take_inbox(&mut self) -> VecDeque<RawEvent> {
        self.datagram_bytes = 0;
        std::mem::take(&mut self.inbox)
    }

    /// Bytes in the hands of the application, by sender.
    pub(super) fn unread_bytes(&self) -> Vec<(Uuid, u64)> {
        let mut by_sender: BTreeMap<Uuid, u64> = BTreeMap::new();
        // Pieces of a state have a limit of their own.
        for u in self.unread.iter().filter(|u| u.piece.is_none()) {
            *by_sender.entry(u.from).or_default() += u.bytes;
        }
        by_sender.into_iter().collect()
    }
}
