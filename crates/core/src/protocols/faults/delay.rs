//! DELAY: holds messages back for a while, in one or both directions.
//!
//! With a spread of 0 the order is kept; with a spread, messages may overtake each other, as in a
//! network.

use crate::protocol::{Interests, Protocol, Service, Spec, Traffic};
use crate::{Batch, Cx, Flow, Message, SendRefusal, Time, TimerKey, attributes};
use alloc::collections::BTreeMap;
use core::time::Duration;

attributes! {
    /// Delays messages, for tests (JGroups `DELAY`).
    pub struct DelayConfig for "DELAY" {
        /// Delay of received messages. Default 0: none.
        in_delay: Duration = Duration::ZERO,
        /// Delay of sent messages. Default 0: none.
        out_delay: Duration = Duration::ZERO,
        /// Up to this much is added at random to each delay. Default 0.
        spread: Duration = Duration::ZERO,
        /// At most so many messages are held; beyond it they pass at once. Default 100000.
        max_held: u32 = 100_000,
    }
}

const RELEASE: TimerKey = TimerKey(0);

#[derive(Debug)]
enum Held {
    Down(Message),
    Up(Batch),
}

/// The protocol. See the module documentation.
#[derive(Debug)]
pub struct Delay {
    config: DelayConfig,
    held: BTreeMap<(Time, u64), Held>,
    next: u64,
}

impl Delay {
    /// With these settings.
    #[must_use]
    pub fn new(config: DelayConfig) -> Self {
        Self { config, held: BTreeMap::new(), next: 0 }
    }

    fn full(&self) -> bool {
        self.held.len() >= self.config.max_held as usize
    }

    fn hold(&mut self, delay: Duration, what: Held, cx: &mut Cx<'_>) {
        let spread = cx.rng().duration(Duration::ZERO, self.config.spread);
        self.held.insert((cx.now + delay + spread, self.next), what);
        self.next += 1;
        self.schedule(cx);
    }

    fn schedule(&self, cx: &mut Cx<'_>) {
        if let Some(((at, _), _)) = self.held.first_key_value() {
            cx.arm(RELEASE, *at);
        }
    }
}

impl Protocol for Delay {
    fn spec(&self) -> Spec {
        Spec {
            name: "DELAY",
            id: None,
            interests: Interests { down: Traffic::Both, up: Traffic::Both, ..Interests::default() },
            provides: &[Service::Faults],
            needs_below: &[],
            needs_above: &[],
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        for (_, held) in core::mem::take(&mut self.held) {
            if let Held::Down(mut m) = held {
                cx.discard(&mut m, SendRefusal::Closed);
            }
        }
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        if self.config.out_delay.is_zero() || self.full() {
            return Flow::Pass;
        }
        self.hold(self.config.out_delay, Held::Down(core::mem::take(msg)), cx);
        Flow::Stop
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        if self.config.in_delay.is_zero() || batch.src == cx.local() || self.full() {
            return;
        }
        let mut held = batch.like();
        held.replace(batch.take_all());
        self.hold(self.config.in_delay, Held::Up(held), cx);
    }

    fn on_timer(&mut self, _key: TimerKey, cx: &mut Cx<'_>) {
        while let Some(first) = self.held.first_entry() {
            if first.key().0 > cx.now {
                break;
            }
            match first.remove() {
                Held::Down(m) => cx.send_down(m),
                Held::Up(b) => cx.deliver_up(b),
            }
        }
        self.schedule(cx);
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("num_held", self.held.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::Solo;
    use crate::wire::{Body, Message as WireMessage};
    use alloc::boxed::Box;

    fn member(config: DelayConfig) -> Solo {
        Solo::new(1, [Box::new(Delay::new(config)) as Box<dyn Protocol>].into())
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn messages_leave_after_the_delay_and_in_order() {
        let mut s = member(DelayConfig { out_delay: ms(10), ..DelayConfig::default() });
        for i in 0..5u8 {
            s.send(WireMessage::multicast(Body::bytes(alloc::vec![i])), None);
        }
        s.run(ms(9));
        assert!(s.sent().is_empty());
        s.run(ms(1));
        let order: alloc::vec::Vec<u8> =
            s.sent().iter().filter_map(|m| m.body.as_bytes().map(|b| b[0])).collect();
        assert_eq!(order, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn received_messages_wait_too() {
        let mut s = member(DelayConfig { in_delay: ms(10), ..DelayConfig::default() });
        s.arrive(2, WireMessage::multicast(Body::bytes(&b"x"[..])));
        s.run(ms(9));
        assert!(s.delivered().is_empty());
        s.run(ms(1));
        assert_eq!(s.delivered().len(), 1);
    }

    #[test]
    fn stopping_answers_who_waits_for_a_held_message() {
        let mut s = member(DelayConfig { out_delay: ms(10), ..DelayConfig::default() });
        s.send(WireMessage::multicast(Body::Empty), Some(crate::OpId(1)));
        assert_eq!(s.stack.tokens_outstanding(), 1);
        s.stack.stop(s.now);
        assert_eq!(s.stack.tokens_outstanding(), 0);
    }
}
