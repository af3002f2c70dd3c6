//! The receiving half of flow control: what arrives is counted, what is consumed is granted, and
//! requests are answered.

use super::control::{FlowControl, RESYNC};
use super::credits::{Account, Grants};
use crate::batch::Marks;
use crate::event::{WindowGauge, WindowKind};
use crate::wire::{self, Body, Flags, Header, ProtId, header::FcHeader};
use crate::{
    Answer, Batch, Consumed, Cx, DropReason, Message, Pool, Query, Receipt, Trace, Uuid, tag,
};
use alloc::vec::Vec;

impl FlowControl {
    pub(super) fn take_batch(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
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
        let mut controls = Marks::of(ProtId::MFC);
        controls.add(Marks::of(ProtId::UFC));
        let has_controls = batch.marks().meets(controls);
        for m in batch.messages_mut() {
            let length = m.wire.length() as u64;
            if m.has(Flags::NO_FC) || (has_controls && FlowControl::is_exempt(m)) {
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
            account.inc.arrived(cost);
            let bytes = u32::try_from(cost).unwrap_or(u32::MAX);
            m.receipt = Receipt { pool, epoch: account.epoch, bytes, ..m.receipt };
        }
        if absorbed > 0 {
            account.inc.arrived(absorbed);
            let grant = account.inc.consumed(absorbed, now, &self.settings.terms);
            if self.grant(src, grant, cx) {
                self.pump(self.line_of(src), cx);
            }
        }
        if cx.group().calls_pending {
            self.overdraw(src, cx);
        }
    }

    pub(super) fn settle(&mut self, what: &Consumed, cx: &mut Cx<'_>) {
        if what.pool != self.pool {
            return;
        }
        let Some(account) = self.accounts.get_mut(&what.from) else { return };
        if account.epoch != what.epoch {
            return;
        }
        let grant = account.inc.consumed(what.bytes, cx.now, &self.settings.terms);
        if self.grant(what.from, grant, cx) {
            self.pump(self.line_of(cx.local()), cx);
        }
    }

    /// A call of the own application waits: open requests, also our own, are answered ahead.
    pub(super) fn overdraw_all(&mut self, cx: &mut Cx<'_>) {
        let members: Vec<Uuid> = self.accounts.keys().copied().collect();
        for m in members {
            self.overdraw(m, cx);
        }
    }

    pub(super) fn overdraw(&mut self, m: Uuid, cx: &mut Cx<'_>) {
        let Some(a) = self.accounts.get_mut(&m) else { return };
        let grant = a.inc.overdraw_pending(cx.now, &self.settings.terms);
        if self.grant(m, grant, cx) {
            self.pump(self.line_of(m), cx);
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
        if let Some(a) = self.accounts.get_mut(&m) {
            a.inc.grants = Grants::Unmarked;
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
        if let Some(d) = &mut self.debtors {
            d.gave(from, cx.now);
        }
    }

    /// What `m` has taken of us and not granted, if it needs to be known. A unicast is taken when it
    /// is acknowledged. Multicasts are not acknowledged; how many may be open is limited by
    /// stability (`Event::OwnWindow`), so there all that was sent counts.
    pub(super) fn claim(&self, m: Uuid, cx: &Cx<'_>) -> Option<u64> {
        let a = self.accounts.get(&m).filter(|a| a.out.needs_claim())?;
        let used = self.settings.terms.max.saturating_sub(a.out.balance());
        let open = match self.pool {
            Pool::Unicast => windows(cx)
                .find(|w| w.peer == m && w.kind == WindowKind::UnicastSend)
                .map_or(0, |w| w.bytes),
            Pool::Multicast | Pool::Exempt | Pool::Ordered => 0,
        };
        Some(used.saturating_sub(open))
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
        let ahead = cx.group().calls_pending;
        self.look_for_acknowledgement(from, cx);
        let Some(a) = self.accounts.get_mut(&from) else { return false };
        let terms = &self.settings.terms;
        let consumed = a.inc.requested(bytes, cx.now, terms);
        let ahead = if ahead { a.inc.overdraw_pending(cx.now, terms) } else { None };
        self.await_resync(from, cx);
        let total = consumed.unwrap_or(0) + ahead.unwrap_or(0);
        self.grant(from, (total > 0).then_some(total), cx)
    }

    /// An open request is looked at again when it has become proof of a lost grant.
    fn await_resync(&mut self, from: Uuid, cx: &mut Cx<'_>) {
        let Some(at) = self.accounts.get(&from).and_then(|a| a.inc.resync_at()) else { return };
        if cx.armed(RESYNC).is_none_or(|armed| at < armed) {
            cx.arm(RESYNC, at);
        }
    }

    pub(super) fn resynchronise(&mut self, cx: &mut Cx<'_>) {
        let due = |a: &Account| a.inc.resync_at().is_some_and(|at| at <= cx.now);
        let due: Vec<Uuid> =
            self.accounts.iter().filter(|(_, a)| due(a)).map(|(m, _)| *m).collect();
        for m in due {
            self.look_for_acknowledgement(m, cx);
            let gap = self.may_arrive(m, cx);
            let Some(a) = self.accounts.get_mut(&m) else { continue };
            if !a.inc.proves(gap, cx.now) {
                continue;
            }
            let grant = a.inc.resynchronise(cx.now);
            if self.grant(m, grant, cx) {
                self.pump(self.line_of(m), cx);
            }
        }
        let next = self.accounts.values().filter_map(|a| a.inc.resync_at()).min();
        if let Some(at) = next {
            cx.arm(RESYNC, at);
        }
    }

    /// Whether the grants to `m` that were on their way have arrived.
    fn look_for_acknowledgement(&mut self, m: Uuid, cx: &Cx<'_>) {
        let Some(a) = self.accounts.get_mut(&m) else { return };
        if a.inc.grants == Grants::Arrived {
            return;
        }
        let connection = windows(cx).find(|w| w.peer == m && w.kind == WindowKind::UnicastSend);
        a.inc.grants.look(connection.map(|w| (w.delivered, w.received)));
    }

    /// Something of `from` is behind a gap. Fragments in reassembly are no reason to wait: those that
    /// were not settled count as unconsumed, and a sender that lacks credit for the rest of a
    /// message would wait for ever.
    fn may_arrive(&self, from: Uuid, cx: &Cx<'_>) -> bool {
        let kind = match self.pool {
            Pool::Multicast | Pool::Exempt | Pool::Ordered if multicasts_wait(cx) => return true,
            Pool::Multicast | Pool::Exempt | Pool::Ordered => WindowKind::Multicast,
            Pool::Unicast => WindowKind::UnicastReceive,
        };
        windows(cx).any(|w| w.peer == from && w.kind == kind && w.known > w.delivered)
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

/// Whether admitted multicasts of this member, and those of others that are here, wait for a view.
pub(super) fn multicasts_wait(cx: &Cx<'_>) -> bool {
    matches!(cx.ask_below(&Query::MulticastsWait), Some(Answer::Held(true)))
}

fn windows(cx: &Cx<'_>) -> impl Iterator<Item = WindowGauge> + use<> {
    let lists = cx.ask_all_below(&Query::Windows).into_iter().filter_map(|a| match a {
        Answer::Windows(list) => Some(list),
        _ => None,
    });
    lists.flatten()
}
