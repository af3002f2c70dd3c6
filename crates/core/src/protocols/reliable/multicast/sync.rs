//! Synchronous sends among multicasts: one that is not acknowledged goes out again to those who have
//! not.

use super::ReliableMulticast;
use crate::wire::{Header, Hints, header::NakAckHeader};
use crate::{Cx, Dir, Event, Message, Uuid};
use alloc::vec::Vec;

impl ReliableMulticast {
    /// Our message of this id has not been acknowledged by these: it is sent to each of them again.
    /// Of a message that was cut, the first and the last fragment: with these the receiver sees what
    /// it misses, and asks. What everybody has delivered is gone from the window and not repeated.
    pub(super) fn repeat(&mut self, id: i16, to: &[Uuid], cx: &mut Cx<'_>) {
        let Some(numbers) = self.syncs.numbers(id) else { return };
        let mut list = Vec::from([numbers.first, numbers.last]);
        list.dedup();
        let local = cx.local();
        for member in to.iter().filter(|m| self.senders.contains_key(m)) {
            for seqno in &list {
                let Some(kept) = self.own.window.get(*seqno) else { continue };
                if !self.served.admits(kept.length(), cx.now) {
                    return;
                }
                let mut copy = Message::from(kept);
                copy.src = Some(local.into());
                copy.dest = Some((*member).into());
                copy.hints = Hints::DONT_LOOPBACK;
                let header = Header::NakAck(NakAckHeader::XmitRsp(*seqno));
                copy.headers.put(self.settings.id, header);
                self.counters.xmit_rsps_sent += 1;
                self.requests.resend(Some(*member), local, *seqno, copy, cx);
            }
        }
    }

    /// Everybody has delivered our multicasts up to `seqno`.
    pub(super) fn cover(&mut self, seqno: i64, cx: &mut Cx<'_>) {
        for id in self.syncs.covered(seqno) {
            cx.raise(Dir::Up, Event::SyncCovered { id, by: None });
        }
    }
}
