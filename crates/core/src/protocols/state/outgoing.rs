//! A state on its way to one member in parts.
//!
//! A member of this toolkit says how much it has room for, and parts for it are exempt from flow
//! control: so a reader that is slow delays nothing else that goes to it, and messages that it does
//! not read delay no state. To a JGroups member parts are messages like others, which wait for its
//! credit.

use super::StateTransfer;
use super::dialect::Dialect;
use super::room::{RoomPayload, Wish};
use super::serve::Step;
use crate::wire::header::StreamingKind;
use crate::wire::{Body, Flags};
use crate::{AppEvent, Cx, Dir, DropReason, Event, SendRefusal, SendToken, Time, Trace, Uuid, tag};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;

/// So many bytes in parts may wait for the credit of a JGroups member; the rest waits here.
const UNDER_WAY: u64 = 256_000;
/// While a state is on its way to a JGroups member no stability is reported, which is said again
/// this often.
const RENEW: Duration = Duration::from_secs(5);
/// For so long each time.
const UNSTABLE: Duration = Duration::from_secs(10);

/// Tokens of parts are told from those of whole states by this bit.
pub(super) const PART: u64 = 1 << 63;

/// The answer to one request.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) request: u64,
    queue: VecDeque<Bytes>,
    sent: u64,
    /// Whether the application hears how far parts have left.
    whole: bool,
    room: Room,
    end: End,
    /// When anything was last heard of the reader, or from the application.
    pub(super) heard: Time,
    renewed: Time,
}

#[derive(Debug)]
enum Room {
    /// The reader says so: in this attempt, up to this byte. Nothing yet: what it last said of an
    /// earlier attempt.
    Told { attempt: u64, upto: u64 },
    /// Flow control; so many parts have not left.
    Credit { under_way: u64 },
}

#[derive(Debug)]
enum End {
    /// The application has more.
    Open,
    /// When everything has left, the end follows; and who waits for that.
    After(Option<SendToken>),
}

impl Outgoing {
    /// Whether the reader is the one to say or to take something.
    fn awaits_reader(&self) -> bool {
        match self.room {
            // It says what it has room for again and again.
            Room::Told { .. } => true,
            Room::Credit { under_way } => under_way > 0,
        }
    }

    pub(super) fn token(self) -> Option<SendToken> {
        match self.end {
            End::Open => None,
            End::After(token) => token,
        }
    }
}

impl StateTransfer {
    /// The beginning of a state: STATE_RSP.
    pub(super) fn begin_stream(
        &mut self,
        to: Uuid,
        socket: Option<core::net::SocketAddr>,
        whole: bool,
        cx: &mut Cx<'_>,
    ) {
        let Some(Step::Asked { request, digest }) = self.serving.open.remove(&to) else { return };
        #[cfg(feature = "mutants")]
        let digest = match cx.mutant(crate::mutants::Mutant::StateCutTooLate) {
            true => super::own_digest(cx),
            false => digest,
        };
        let mut m = self.message(to, StreamingKind::Response, Some(&digest), socket, Body::Empty);
        let ours = tag::is_rgroups(to);
        m.flags |= exempt(to);
        cx.send_down(m);
        let room = match ours {
            true => {
                let attempt = self.serving.attempts.get(&to).copied().unwrap_or(0);
                Room::Told { attempt, upto: 0 }
            }
            false => Room::Credit { under_way: 0 },
        };
        let out = Outgoing {
            request,
            queue: VecDeque::new(),
            sent: 0,
            whole,
            room,
            end: End::Open,
            heard: cx.now,
            renewed: cx.now,
        };
        self.serving.open.insert(to, Step::Giving(out));
        self.watch_streams(cx);
    }

    /// More of it.
    pub(super) fn give_part(&mut self, to: Uuid, bytes: &Bytes, cx: &mut Cx<'_>) {
        let Some(Step::Giving(out)) = self.serving.open.get_mut(&to) else { return };
        if let Room::Credit { under_way: 0 } = out.room {
            out.heard = cx.now;
        }
        if !bytes.is_empty() {
            out.queue.push_back(bytes.clone());
        }
        self.pump(to, cx);
    }

    /// That was all.
    pub(super) fn give_end(&mut self, to: Uuid, token: Option<SendToken>, cx: &mut Cx<'_>) {
        if let Some(Step::Giving(out)) = self.serving.open.get_mut(&to) {
            out.end = End::After(token);
        }
        self.pump(to, cx);
    }

    /// Sends what there is room for.
    fn pump(&mut self, to: Uuid, cx: &mut Cx<'_>) {
        let (dialect, most) = (self.settings.dialect, self.settings.part as u64);
        let Some(Step::Giving(out)) = self.serving.open.get_mut(&to) else { return };
        let before = out.sent;
        while let Some(next) = out.queue.front_mut() {
            let room = match &out.room {
                Room::Told { upto, .. } => upto.saturating_sub(out.sent),
                Room::Credit { under_way } if *under_way * most < UNDER_WAY => u64::MAX,
                Room::Credit { .. } => 0,
            };
            let n = most.min(room).min(next.len() as u64);
            if n == 0 {
                break;
            }
            let piece = next.split_to(n as usize);
            if next.is_empty() {
                out.queue.pop_front();
            }
            out.sent += n;
            let body = Body::Bytes(Some(piece));
            let mut m = dialect.message(to, StreamingKind::Part, None, None, body);
            match &mut out.room {
                Room::Told { .. } => m.flags |= exempt(to),
                Room::Credit { under_way } => {
                    *under_way += 1;
                    m.token = Some(cx.own_token(PART | out.request));
                }
            }
            cx.send_down(m);
        }
        if out.sent > before && !out.whole {
            cx.tell(AppEvent::StateSent { request: out.request, bytes: out.sent });
        }
        self.counters.bytes_sent += out.sent - before;
        if let Room::Credit { .. } = out.room
            && cx.now >= out.renewed + RENEW
        {
            out.renewed = cx.now;
            cx.raise(Dir::Down, Event::SuspendStable(UNSTABLE));
        }
        let left = out.queue.is_empty() && matches!(out.end, End::After(_));
        if left {
            self.end_stream(to, cx);
        }
    }

    /// STATE_EOF: everything has left.
    fn end_stream(&mut self, to: Uuid, cx: &mut Cx<'_>) {
        let Some(Step::Giving(out)) = self.serving.open.remove(&to) else { return };
        let mut m = self.message(to, StreamingKind::Eof, None, None, Body::Empty);
        m.flags |= exempt(to);
        cx.send_down(m);
        self.counters.states_sent += 1;
        cx.trace(|| Trace::State { what: "sent", with: to });
        if let Some(token) = out.token() {
            cx.resolve(token, Ok(()));
        }
    }

    /// A part has left, or could not.
    pub(super) fn part_left(&mut self, key: u64, how: &Result<(), SendRefusal>, cx: &mut Cx<'_>) {
        let request = key & !PART;
        let of = |s: &Step| matches!(s, Step::Giving(out) if out.request == request);
        let found = self.serving.open.iter_mut().find(|(_, s)| of(s));
        let Some((to, Step::Giving(out))) = found else { return };
        let to = *to;
        out.heard = cx.now;
        match (how, &mut out.room) {
            (Ok(()), Room::Credit { under_way }) => {
                *under_way = under_way.saturating_sub(1);
                // Not at once: the part may have left before others that were sent with it.
                cx.arm(super::MORE, cx.now);
            }
            (Ok(()), Room::Told { .. }) => {}
            (Err(_), _) => self.abandon(to, "it could not be sent", cx),
        }
    }

    /// Parts have left, and there is room for more.
    pub(super) fn pump_all(&mut self, cx: &mut Cx<'_>) {
        let readers: Vec<Uuid> = self.serving.open.keys().copied().collect();
        readers.into_iter().for_each(|to| self.pump(to, cx));
    }

    /// The reader says what it has room for.
    pub(super) fn told_room(&mut self, src: Uuid, room: RoomPayload, cx: &mut Cx<'_>) {
        let Some(Step::Giving(out)) = self.serving.open.get_mut(&src) else {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        };
        let Room::Told { attempt, upto } = &mut out.room else { return };
        if room.attempt < *attempt || room.attempt == *attempt && *upto == 0 {
            // Of an earlier attempt: what it says is over.
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        }
        out.heard = cx.now;
        let same = room.attempt == *attempt;
        match room.wish {
            Wish::Upto(told) => {
                *upto = if same { told.max(*upto) } else { told.max(1) };
                *attempt = room.attempt;
                self.serving.attempts.insert(src, room.attempt);
                self.pump(src, cx);
            }
            Wish::Stop => {
                self.serving.attempts.insert(src, room.attempt);
                self.abandon(src, "it is no longer wanted", cx);
            }
        }
    }

    /// The application hears that its answer is of no more use; whoever waits for its end too.
    pub(super) fn abandon(&mut self, to: Uuid, why: &str, cx: &mut Cx<'_>) {
        let why: Arc<str> = why.into();
        match self.serving.open.remove(&to) {
            Some(Step::Giving(out)) => {
                cx.trace(|| Trace::State { what: "abandoned", with: to });
                cx.tell(AppEvent::StateAbandoned { request: out.request, why });
                if let Some(token) = out.token() {
                    cx.resolve(token, Err(SendRefusal::NotMember(to)));
                }
            }
            Some(Step::Asked { request, .. }) => {
                cx.tell(AppEvent::StateAbandoned { request, why });
            }
            Some(Step::Waiting { .. }) | None => {}
        }
    }

    /// Readers of which nothing is heard are given up: they ask again if they are alive.
    pub(super) fn watch_streams(&mut self, cx: &mut Cx<'_>) {
        let patience = self.longest(cx);
        if self.settings.dialect != Dialect::Streamed || patience.is_zero() {
            return;
        }
        let giving = self.serving.open.iter().filter_map(|(to, s)| match s {
            Step::Giving(out) if out.awaits_reader() => Some((*to, out.heard + patience)),
            Step::Giving(_) | Step::Waiting { .. } | Step::Asked { .. } => None,
        });
        let (late, waiting): (Vec<_>, Vec<_>) = giving.partition(|(_, at)| *at <= cx.now);
        for (to, _) in late {
            self.refuse(to, "it has heard nothing of the reader for too long", cx);
            self.abandon(to, "nothing is heard of the reader", cx);
        }
        match waiting.into_iter().map(|(_, at)| at).min() {
            Some(at) => cx.arm(super::STREAMS, at),
            None => cx.disarm(super::STREAMS),
        }
    }
}

/// What goes to members of this toolkit needs no credit: it has room of its own.
pub(super) fn exempt(to: Uuid) -> Flags {
    if tag::is_rgroups(to) { Flags::NO_FC } else { Flags::empty() }
}
