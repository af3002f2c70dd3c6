//! DISCARD: drops a share of the messages that pass, in one or both directions.
//!
//! Stands above the transport as a rule; what it drops there the reliable protocols repair. The
//! member's own looped-back messages pass unless `excludes_self` is off.

use crate::protocol::{Interests, Protocol, Service, Spec, Traffic};
use crate::{Batch, Cx, DropReason, Flow, Message, attributes};

attributes! {
    /// Loses messages at random, for tests (JGroups `DISCARD`).
    pub struct DiscardConfig for "DISCARD" {
        /// Share of received messages that is dropped, 0 to 1. Default 0.
        up: f64 = 0.0,
        /// Share of sent messages that is dropped, 0 to 1. Default 0.
        down: f64 = 0.0,
        /// Drop everything in both directions. Default false.
        discard_all: bool = false,
        /// Never drop the member's own messages to itself. Default true.
        excludes_self: bool = true,
    }
}

/// The protocol. See the module documentation.
#[derive(Debug)]
pub struct Discard {
    config: DiscardConfig,
    dropped_up: u64,
    dropped_down: u64,
}

impl Discard {
    /// With these settings.
    #[must_use]
    pub fn new(config: DiscardConfig) -> Self {
        Self { config, dropped_up: 0, dropped_down: 0 }
    }
}

impl Protocol for Discard {
    fn spec(&self) -> Spec {
        Spec {
            name: "DISCARD",
            id: None,
            interests: Interests { down: Traffic::Both, up: Traffic::Both, ..Interests::default() },
            provides: &[Service::Faults],
            needs_below: &[],
            needs_above: &[],
        }
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        let share = if self.config.discard_all { 1.0 } else { self.config.down };
        if share <= 0.0 || !cx.rng().chance(share) {
            return Flow::Pass;
        }
        self.dropped_down += 1;
        // The network lost it; whoever waits for it to be accepted is told that it was.
        if let Some(t) = msg.token.take() {
            cx.resolve(t, Ok(()));
        }
        *msg = Message::default();
        Flow::Stop
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let share = if self.config.discard_all { 1.0 } else { self.config.up };
        let own = batch.src == cx.local();
        if share <= 0.0 || (own && self.config.excludes_self) {
            return;
        }
        let (src, before) = (batch.src, batch.len());
        batch.retain(|_| !cx.rng().chance(share));
        for _ in batch.len()..before {
            self.dropped_up += 1;
            cx.drop_from_peer(DropReason::Injected, Some(src));
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("num_up_discarded", self.dropped_up);
        out("num_down_discarded", self.dropped_down);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::Solo;
    use crate::wire::{Body, Message as WireMessage};
    use alloc::boxed::Box;

    fn member(config: DiscardConfig) -> Solo {
        Solo::new(1, [Box::new(Discard::new(config)) as Box<dyn Protocol>].into())
    }

    #[test]
    fn about_the_configured_share_is_dropped() {
        let mut s = member(DiscardConfig { up: 0.3, ..DiscardConfig::default() });
        for _ in 0..1000 {
            s.arrive(2, WireMessage::multicast(Body::bytes(&b"x"[..])));
        }
        let n = s.delivered().len();
        assert!((620..780).contains(&n), "{n} of 1000 arrived");
    }

    #[test]
    fn own_messages_come_back_although_all_others_are_dropped() {
        let config = DiscardConfig { up: 1.0, ..DiscardConfig::default() };
        let mut s = member(config);
        s.send(WireMessage::multicast(Body::bytes(&b"x"[..])), None);
        s.arrive(2, WireMessage::multicast(Body::bytes(&b"y"[..])));
        assert_eq!(s.delivered().len(), 1);
    }

    #[test]
    fn a_dropped_message_still_answers_who_waits_for_it() {
        let mut s = member(DiscardConfig { discard_all: true, ..DiscardConfig::default() });
        s.send(WireMessage::multicast(Body::Empty), Some(crate::OpId(1)));
        assert_eq!(s.stack.tokens_outstanding(), 0);
        assert!(s.sent().is_empty());
    }
}
