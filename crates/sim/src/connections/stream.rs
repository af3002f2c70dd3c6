//! One connection: two ends, and what is under way in each direction.

use super::{Effect, Kernel, Life, Step, Surroundings};
use crate::network::{Host, Network};
use bytes::Bytes;
use rgroups_core::Time;
use rgroups_core::net::ConnId;
use rgroups_core::node::{Port, RawEvent};
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that connected.
    Opener,
    /// The one that accepted.
    Acceptor,
}

impl End {
    pub(super) fn other(self) -> End {
        match self {
            End::Opener => End::Acceptor,
            End::Acceptor => End::Opener,
        }
    }
}

/// What travels on a connection, in order.
#[derive(Clone, Debug)]
pub enum Segment {
    /// Bytes.
    Data(Bytes),
    /// The orderly end of the stream.
    Fin,
    /// The connection is void.
    Reset,
}

/// How an end is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// After what is queued.
    Orderly,
    /// With a reset; what is queued is lost.
    Abort,
    /// With an orderly end, but what the process had queued is lost with it.
    Lost,
    /// Without a word.
    Silent,
}

/// A process at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// Nobody has accepted yet.
    Nobody,
    /// Asked, not answered.
    Opening(Life, ConnId),
    /// Asked, not answered, and closed meanwhile: what is queued goes out once it stands.
    ClosedOpening,
    /// Connected.
    Open(Life, ConnId),
    /// Closed by its process, or the process is gone.
    Gone,
}

/// One end and the direction away from it.
#[derive(Debug)]
pub(super) struct Side {
    host: Option<Host>,
    holder: Holder,
    /// Written by the process, not yet taken by the kernel.
    pub(super) queued: VecDeque<Bytes>,
    /// An orderly end follows what is queued.
    fin_wanted: bool,
    /// The end of the stream is under way; nothing follows.
    ended: bool,
    /// Bytes in the kernel, under way, or unread at the other side.
    in_window: usize,
    /// Nothing may arrive before this, or bytes would overtake each other.
    last_arrival: Time,
    /// Could not arrive yet.
    held: VecDeque<Segment>,
    stuck_since: Option<Time>,
}

impl Side {
    fn new(host: Option<Host>, holder: Holder) -> Self {
        Self {
            host,
            holder,
            queued: VecDeque::new(),
            fin_wanted: false,
            ended: false,
            in_window: 0,
            last_arrival: Time::ZERO,
            held: VecDeque::new(),
            stuck_since: None,
        }
    }

    /// Whether the connection does not stand yet for this end.
    fn is_opening(&self) -> bool {
        matches!(self.holder, Holder::Opening(..) | Holder::ClosedOpening)
    }

    /// Whether no process holds this end.
    fn is_unheld(&self) -> bool {
        matches!(self.holder, Holder::Gone | Holder::Nobody)
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) port: Port,
    pub(super) to: SocketAddr,
    opener: Side,
    acceptor: Side,
}

impl Stream {
    pub(super) fn opening(
        (host, life): (Host, Life),
        conn: ConnId,
        port: Port,
        to: SocketAddr,
        target: Option<Host>,
    ) -> Self {
        Self {
            port,
            to,
            opener: Side::new(Some(host), Holder::Opening(life, conn)),
            acceptor: Side::new(target, Holder::Nobody),
        }
    }

    pub(super) fn side(&mut self, end: End) -> &mut Side {
        match end {
            End::Opener => &mut self.opener,
            End::Acceptor => &mut self.acceptor,
        }
    }

    fn at(&self, end: End) -> &Side {
        match end {
            End::Opener => &self.opener,
            End::Acceptor => &self.acceptor,
        }
    }

    pub(super) fn host(&self, end: End) -> Option<Host> {
        self.at(end).host
    }

    /// The host of `end`, where there is certainly one.
    pub(super) fn host_of(&self, end: End) -> Host {
        // Only an acceptor at an address that no host has is without one, and it never writes.
        self.at(end).host.unwrap_or(Host(usize::MAX))
    }

    /// The listener's kernel accepts; returns the opener's ephemeral address.
    pub(super) fn accept(&mut self, life: Life, conn: ConnId, answer_at: Time) -> SocketAddr {
        self.acceptor.holder = Holder::Open(life, conn);
        self.acceptor.last_arrival = answer_at;
        let Host(host) = self.host_of(End::Opener);
        crate::addresses::ephemeral(Host(host), conn)
    }

    pub(super) fn establish(&mut self) -> Option<(Life, ConnId)> {
        match self.opener.holder {
            Holder::Opening(life, conn) => {
                self.opener.holder = Holder::Open(life, conn);
                Some((life, conn))
            }
            Holder::ClosedOpening => {
                self.opener.holder = Holder::Gone;
                None
            }
            Holder::Nobody | Holder::Open(..) | Holder::Gone => None,
        }
    }

    /// Opening failed; an acceptor that has already been told will see a reset on its first write.
    pub(super) fn fail(&mut self) -> Option<(Life, ConnId)> {
        match std::mem::replace(&mut self.opener.holder, Holder::Gone) {
            Holder::Opening(life, conn) => Some((life, conn)),
            Holder::ClosedOpening | Holder::Nobody | Holder::Gone => None,
            open @ Holder::Open(..) => {
                self.opener.holder = open;
                None
            }
        }
    }

    /// The process at `end`, if it still holds it.
    pub(super) fn open_at(&self, end: End) -> Option<(Life, ConnId)> {
        match self.at(end).holder {
            Holder::Open(life, conn) => Some((life, conn)),
            Holder::Nobody | Holder::Opening(..) | Holder::ClosedOpening | Holder::Gone => None,
        }
    }

    /// Whether what `from` sends does not get through at the moment.
    pub(super) fn is_blocked(&self, from: End, dark: &BTreeSet<Host>, net: &Network) -> bool {
        let (Some(a), Some(b)) = (self.at(from).host, self.at(from.other()).host) else {
            return true;
        };
        dark.contains(&b) || !net.reaches(a, b) || !net.reaches(b, a)
    }

    pub(super) fn has_held(&self, from: End) -> bool {
        !self.at(from).held.is_empty()
    }

    pub(super) fn stuck_since(&self, from: End) -> Option<Time> {
        self.at(from).stuck_since
    }

    /// Keeps a segment that cannot arrive; returns since when nothing does.
    pub(super) fn hold(&mut self, from: End, segment: Segment, now: Time) -> Time {
        let side = self.side(from);
        side.held.push_back(segment);
        *side.stuck_since.get_or_insert(now)
    }

    pub(super) fn release(&mut self, from: End) -> VecDeque<Segment> {
        let side = self.side(from);
        side.stuck_since = None;
        std::mem::take(&mut side.held)
    }

    pub(super) fn acknowledge(&mut self, from: End, bytes: usize) {
        let side = self.side(from);
        side.in_window = side.in_window.saturating_sub(bytes);
    }

    /// Moves written bytes into the kernel as far as there is room.
    pub(super) fn pump(
        &mut self,
        id: u64,
        from: End,
        kernel: &Kernel,
        around: &mut Surroundings<'_>,
    ) {
        if self.at(from).ended || self.at(from).is_opening() {
            return;
        }
        let mut moved = 0;
        while let Some(length) = self.at(from).queued.front().map(Bytes::len) {
            let room = kernel.window.saturating_sub(self.at(from).in_window);
            if room == 0 {
                break;
            }
            let most = length.min(room);
            let take = if kernel.chunking && most > 1 && around.rng.chance(0.3) {
                around.rng.between(1, most as u64) as usize
            } else {
                most
            };
            let side = self.side(from);
            let Some(front) = side.queued.front_mut() else { break };
            let piece = front.split_to(take);
            if front.is_empty() {
                side.queued.pop_front();
            }
            side.in_window += take;
            moved += take;
            if take > 0 {
                self.transmit(id, from, Segment::Data(piece), around);
            }
        }
        if moved > 0
            && let Some((life, conn)) = self.open_at(from)
        {
            around.out.push(Effect::Tell(life, RawEvent::Written { conn, bytes: moved }));
        }
        if self.at(from).fin_wanted && self.at(from).queued.is_empty() {
            self.side(from).ended = true;
            self.transmit(id, from, Segment::Fin, around);
        }
    }

    fn transmit(&mut self, id: u64, from: End, segment: Segment, around: &mut Surroundings<'_>) {
        let (Some(a), Some(b)) = (self.at(from).host, self.at(from.other()).host) else { return };
        let length = match &segment {
            Segment::Data(bytes) => bytes.len(),
            Segment::Fin | Segment::Reset => 0,
        };
        let sent = around.net.transmission_end(a, b, length, around.now);
        let at = (sent + around.flight(a, b)).max(self.at(from).last_arrival);
        self.side(from).last_arrival = at;
        around.out.push(Effect::Plan(at, Step::Arrive { stream: id, from, segment }));
    }

    /// Tells the other side of `from` that the connection is void.
    pub(super) fn send_reset(&mut self, id: u64, from: End, around: &mut Surroundings<'_>) {
        if !self.at(from).ended {
            self.side(from).ended = true;
            self.transmit(id, from, Segment::Reset, around);
        }
    }

    /// `end` is given up by its process or kernel. Returns who held it.
    pub(super) fn close(
        &mut self,
        id: u64,
        end: End,
        how: Closing,
        kernel: &Kernel,
        around: &mut Surroundings<'_>,
    ) -> Option<(Life, ConnId)> {
        let held_by = match self.at(end).holder {
            Holder::Open(life, conn) => (life, conn),
            Holder::Opening(life, conn) if how == Closing::Orderly => {
                self.side(end).holder = Holder::ClosedOpening;
                self.side(end).fin_wanted = true;
                return Some((life, conn));
            }
            Holder::Opening(life, conn) => {
                self.side(end).holder = Holder::Gone;
                self.side(end).queued.clear();
                if self.open_at(end.other()).is_some() {
                    self.send_reset(id, end, around);
                }
                return Some((life, conn));
            }
            Holder::Nobody | Holder::ClosedOpening | Holder::Gone => return None,
        };
        self.side(end).holder = Holder::Gone;
        match how {
            Closing::Orderly => {
                self.side(end).fin_wanted = true;
                self.pump(id, end, kernel, around);
            }
            Closing::Lost => {
                self.side(end).queued.clear();
                self.side(end).fin_wanted = true;
                self.pump(id, end, kernel, around);
            }
            Closing::Abort => {
                self.side(end).queued.clear();
                self.send_reset(id, end, around);
            }
            Closing::Silent => self.side(end).queued.clear(),
        }
        Some(held_by)
    }

    /// `end` is void from now on. Returns who must be told.
    pub(super) fn shut(&mut self, end: End) -> Option<(Life, ConnId)> {
        let told = match self.at(end).holder {
            Holder::Open(life, conn) => Some((life, conn)),
            Holder::Nobody | Holder::Opening(..) | Holder::ClosedOpening | Holder::Gone => None,
        };
        let side = self.side(end);
        side.holder = Holder::Gone;
        side.queued.clear();
        side.held.clear();
        side.stuck_since = None;
        side.fin_wanted = false;
        told
    }

    /// Whether no process holds either end: nobody could notice anything any more.
    pub(super) fn is_over(&self) -> bool {
        self.opener.is_unheld() && self.acceptor.is_unheld()
    }
}
