//! Answers to requests for missing multicasts, ours and those of others that we keep.
//!
//! Where multicasting costs one packet, the first request for a number is answered to all, unchanged:
//! whoever else misses it is helped too, and the same request of others within a few milliseconds
//! is answered with it. Who asks again did not get it and is answered alone.

use super::super::retransmit::{self, MOST_RESENT, MOST_RESENT_BYTES};
use super::ReliableMulticast;
use crate::wire::{self, Header, Hints, ProtId, header::NakAckHeader};
use crate::{Cx, Dir, DropReason, Duration, Event, Message, Time, Uuid};
use alloc::collections::BTreeMap;

/// Requests of others within this time are answered by what was just multicast.
const ON_ITS_WAY: Duration = Duration::from_millis(10);
/// Remembered answers.
const MOST_REMEMBERED: usize = 8192;

/// When which of our numbers was last multicast again, and who had asked.
#[derive(Debug, Default)]
pub(super) struct Resent(BTreeMap<i64, (Time, Uuid)>);

enum How {
    ToAll,
    Alone,
    OnItsWay,
}

impl Resent {
    fn how(&mut self, seqno: i64, requester: Uuid, now: Time, interval: Duration) -> How {
        if let Some((at, asker)) = self.0.get(&seqno) {
            let ago = now.since(*at);
            if ago <= ON_ITS_WAY && *asker != requester {
                return How::OnItsWay;
            }
            if ago <= interval * 2 {
                return How::Alone;
            }
        }
        if self.0.len() >= MOST_REMEMBERED {
            self.0.pop_first();
        }
        self.0.insert(seqno, (now, requester));
        How::ToAll
    }

    /// Nobody may ask for these any more.
    pub(super) fn forget_upto(&mut self, seqno: i64) {
        while self.0.first_key_value().is_some_and(|(n, _)| *n <= seqno) {
            self.0.pop_first();
        }
    }
}

impl ReliableMulticast {
    /// `requester` asks for messages of `of`.
    pub(super) fn serve(
        &mut self,
        requester: Uuid,
        of: Option<Uuid>,
        m: &Message,
        cx: &mut Cx<'_>,
    ) {
        self.requests.requests_received += 1;
        if !self.senders.contains_key(&requester) {
            return cx.drop_from_peer(DropReason::NotAMember, Some(requester));
        }
        let (Some(of), Some(list)) = (of, retransmit::requested(m)) else {
            return cx.drop_from_peer(DropReason::Malformed, Some(requester));
        };
        let own = of == cx.local();
        let window = match self.senders.get(&of) {
            _ if own => &self.own.window,
            Some(s) => &s.window,
            None => match self.repair.window(of) {
                Some(window) => window,
                None => return cx.drop_from_peer(DropReason::Stale, Some(requester)),
            },
        };
        let to_all = self.settings.use_mcast_xmit && own && self.senders.len() > 1;
        let mut bytes = 0;
        let mut gone = false;
        for seqno in list.iter().take(MOST_RESENT) {
            let Some(kept) = window.get(seqno) else {
                self.counters.not_found += 1;
                gone |= seqno.wrapping_sub(window.low()) <= 0;
                continue;
            };
            if !self.served.admits(kept.length(), cx.now) {
                return;
            }
            let how = if to_all {
                self.resent.how(seqno, requester, cx.now, self.settings.xmit_interval)
            } else {
                How::Alone
            };
            let (to, copy) = match how {
                How::OnItsWay => continue,
                How::ToAll => (None, again(kept, of)),
                How::Alone => {
                    self.counters.xmit_rsps_sent += 1;
                    (Some(requester), answer(kept, of, seqno, requester, self.settings.id))
                }
            };
            bytes += copy.length();
            self.requests.resend(to, of, seqno, copy, cx);
            if bytes > MOST_RESENT_BYTES {
                break;
            }
        }
        if gone {
            cx.raise(Dir::Up, Event::AskedForStable(requester));
        }
    }
}

/// A kept message of `of` as it is multicast again.
fn again(kept: wire::Message, of: Uuid) -> Message {
    let mut copy = Message::from(kept);
    copy.src = Some(of.into());
    copy.hints = Hints::DONT_LOOPBACK;
    copy
}

/// A kept message of `of` as one member is given it.
pub(super) fn answer(kept: wire::Message, of: Uuid, seqno: i64, to: Uuid, id: ProtId) -> Message {
    let mut copy = again(kept, of);
    copy.dest = Some(to.into());
    copy.headers.put(id, Header::NakAck(NakAckHeader::XmitRsp(seqno)));
    copy
}
