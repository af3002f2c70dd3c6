//! The receiving half of flow control: what arrives is counted, what is consumed is granted, and
//! requests are answered.

use super::control::FlowControl;
use crate::batch::Marks;
use crate::event::WindowKind;
use crate::wire::{self, Body, Flags, Header, header::FcHeader};
use crate::{
    Answer, Batch, Consumed, Cx, DropReason, Message, Pool, Query, Receipt, Trace, Uuid, tag,
};
use alloc::vec::Vec;
use core::time::Duration;

use super::credits::Circumstances;

/// Nothing of a sender must have arrived for this long before its request counts as proof that the
/// account is out of step: the longest default interval between retransmission requests.
const QUIET: Duration = Duration::from_secs(1);

impl FlowControl {
    pub(super) fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        if batch.marks().meets(Marks::of(self.id)) {
            self.take_control(batch, cx);
        }
        if batch.multicast == (self.pool == Pool::Multicast) {
            self.count(batch, cx);
        }
    }

    /// Every message that its sender was charged for gets a receipt.
    fn count(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let (src, now, pool) = (batch.src, cx.now, self.pool);
        let Some(account) = self.accounts.get_mut(&src) else { return };
        let mut absorbed = 0;
        for m in batch.messages_mut() {
            let length = m.wire.length() as u64;
            if FlowControl::is_exempt(m) {
                // JGroups' UFC charges what its MFC sends above it.
                let charged = !tag::is_rgroups(src) && !m.has(Flags::NO_FC);
                if charged {
                    absorbed += length;
                }
                continue;
            }
            let cost = account.cost(length);
            if cost == 0 {
                continue;
            }
            account.inc.arrived(cost, now);
            let bytes = u32::try_from(cost).unwrap_or(u32::MAX);
            m.receipt = Receipt { pool, epoch: account.epoch, bytes, ..m.receipt };
        }
        if absorbed > 0 {
            account.inc.arrived(absorbed, now);
            let grant = account.inc.consumed(absorbed, &self.settings.terms);
            self.grant(src, grant, cx);
        }
    }

    pub(super) fn on_consumed(&mut self, what: &Consumed, cx: &mut Cx<'_>) {
        if what.pool != self.pool {
            return;
        }
        let Some(account) = self.accounts.get_mut(&what.from) else { return };
        if account.epoch != what.epoch {
            return;
        }
        let grant = account.inc.consumed(what.bytes, &self.settings.terms);
        if self.grant(what.from, grant, cx) {
            self.pump(self.line_of(cx.local()), cx);
        }
    }

    /// A call of the own application waits: open requests, also our own, are answered ahead.
    pub(super) fn overdraw(&mut self, cx: &mut Cx<'_>) {
        let members: Vec<Uuid> = self.accounts.keys().copied().collect();
        for m in members {
            let Some(a) = self.accounts.get_mut(&m) else { continue };
            let grant = a.inc.overdraw_pending(&self.settings.terms);
            if self.grant(m, grant, cx) {
                self.pump(self.line_of(cx.local()), cx);
            }
        }
    }

    /// Grants credit to `m`; true if that is this member, which takes it at once.
    fn grant(&mut self, m: Uuid, amount: Option<u64>, cx: &mut Cx<'_>) -> bool {
        let Some(bytes) = amount else { return false };
        let pool = self.pool;
        cx.trace(|| Trace::Granted { to: m, pool, bytes });
        self.counters.grants_sent += 1;
        if m == cx.local() {
            self.credit(m, bytes, cx);
            return true;
        }
        self.send_control(m, FcHeader::Replenish, bytes, cx);
        #[cfg(feature = "mutants")]
        if cx.mutant(crate::mutants::Mutant::CreditsGrantedTwice) {
            self.send_control(m, FcHeader::Replenish, bytes, cx);
        }
        false
    }

    fn credit(&mut self, from: Uuid, bytes: u64, cx: &mut Cx<'_>) {
        let pool = self.pool;
        cx.trace(|| Trace::Credited { from, pool, bytes });
        self.counters.grants_received += 1;
        if let Some(a) = self.accounts.get_mut(&from) {
            a.out.credit(bytes, &self.settings.terms);
        }
    }

    /// Asks `m` for credit; true if that is this member and it granted some.
    pub(super) fn request_credit(&mut self, m: Uuid, bytes: u64, cx: &mut Cx<'_>) -> bool {
        let pool = self.pool;
        cx.trace(|| Trace::CreditAsked { of: m, pool, bytes });
        self.counters.requests_sent += 1;
        if m == cx.local() {
            return self.answer_request(m, bytes, cx);
        }
        self.send_control(m, FcHeader::CreditRequest, bytes, cx);
        false
    }

    fn answer_request(&mut self, from: Uuid, bytes: u64, cx: &mut Cx<'_>) -> bool {
        let c =
            Circumstances { overdraft: cx.group().calls_pending, quiet: self.is_quiet(from, cx) };
        let Some(a) = self.accounts.get_mut(&from) else { return false };
        let grant = a.inc.requested(bytes, c, &self.settings.terms);
        self.grant(from, grant, cx)
    }

    /// Nothing of `from` is unconsumed, in reassembly or behind a gap, or has just arrived.
    fn is_quiet(&self, from: Uuid, cx: &Cx<'_>) -> bool {
        let Some(a) = self.accounts.get(&from) else { return false };
        if a.inc.unconsumed() > 0 || cx.now.since(a.inc.last_arrival()) < QUIET {
            return false;
        }
        if matches!(cx.ask_above(&Query::Reassembling(from)), Some(Answer::Bytes(b)) if b > 0) {
            return false;
        }
        let kind = match self.pool {
            Pool::Multicast | Pool::Exempt => WindowKind::Multicast,
            Pool::Unicast => WindowKind::UnicastReceive,
        };
        let windows = cx.ask_all_below(&Query::Windows).into_iter().filter_map(|a| match a {
            Answer::Windows(list) => Some(list),
            _ => None,
        });
        !windows.flatten().any(|w| w.peer == from && w.kind == kind && w.received > w.delivered)
    }

    /// Credit messages: a long, out of band and unbundled, never charged themselves.
    fn send_control(&mut self, to: Uuid, kind: FcHeader, bytes: u64, cx: &mut Cx<'_>) {
        let amount = i64::try_from(bytes).unwrap_or(i64::MAX);
        let msg = wire::Message::unicast(to, Body::Long(amount))
            .with_flags(Flags::OOB | Flags::DONT_BUNDLE)
            .with_header(self.id, Header::Fc(kind));
        cx.send_down(msg);
    }

    fn take_control(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let from = batch.src;
        let mut taken: Vec<(FcHeader, i64)> = Vec::new();
        let mut malformed = 0;
        let id = self.id;
        batch.retain(|m: &mut Message| {
            let Some(header) = m.headers.get(id) else { return true };
            match (header, &m.wire.body) {
                (Header::Fc(kind), Body::Long(n)) if *n > 0 => taken.push((*kind, *n)),
                _ => malformed += 1,
            }
            false
        });
        for _ in 0..malformed {
            cx.drop_from_peer(DropReason::Malformed, Some(from));
        }
        for (kind, n) in taken {
            if !self.accounts.contains_key(&from) {
                cx.drop_from_peer(DropReason::NotAMember, Some(from));
                continue;
            }
            match kind {
                FcHeader::Replenish => {
                    self.credit(from, n.unsigned_abs(), cx);
                    self.pump(self.line_of(from), cx);
                }
                FcHeader::CreditRequest => {
                    self.counters.requests_received += 1;
                    self.answer_request(from, n.unsigned_abs(), cx);
                }
            }
        }
    }
}
