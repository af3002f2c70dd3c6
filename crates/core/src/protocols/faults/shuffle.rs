//! SHUFFLE: hands messages on in another order, as a network with several paths does.

use crate::protocol::{Interests, Protocol, Service, Spec, Traffic};
use crate::{Batch, Cx, Flow, Message, SendRefusal, TimerKey, attributes};
use alloc::vec::Vec;
use core::time::Duration;

attributes! {
    /// Reorders messages, for tests (JGroups `SHUFFLE`).
    pub struct ShuffleConfig for "SHUFFLE" {
        /// Whether received messages are reordered. Default true.
        up: bool = true,
        /// Whether sent messages are reordered. Default false.
        down: bool = false,
        /// So many messages are collected before they are handed on. Default 10.
        max_size: u32 = 10,
        /// They are handed on after this time at the latest. Default 1.5 s.
        max_time: Duration = Duration::from_millis(1_500),
    }
}

const UP: TimerKey = TimerKey(0);
const DOWN: TimerKey = TimerKey(1);

/// The protocol. See the module documentation.
#[derive(Debug)]
pub struct Shuffle {
    config: ShuffleConfig,
    up: Vec<Batch>,
    down: Vec<Message>,
}

impl Shuffle {
    /// With these settings.
    #[must_use]
    pub fn new(config: ShuffleConfig) -> Self {
        Self { config, up: Vec::new(), down: Vec::new() }
    }

    fn release_up(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(UP);
        let mut all = core::mem::take(&mut self.up);
        cx.rng().shuffle(&mut all);
        all.into_iter().for_each(|b| cx.deliver_up(b));
    }

    fn release_down(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(DOWN);
        let mut all = core::mem::take(&mut self.down);
        cx.rng().shuffle(&mut all);
        all.into_iter().for_each(|m| cx.send_down(m));
    }

    fn is_full(&self, held: usize) -> bool {
        held >= self.config.max_size.max(1) as usize
    }
}

impl Protocol for Shuffle {
    fn spec(&self) -> Spec {
        Spec {
            name: "SHUFFLE",
            id: None,
            interests: Interests { down: Traffic::Both, up: Traffic::Both, ..Interests::default() },
            provides: &[Service::Faults],
            needs_below: &[],
            needs_above: &[],
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.up.clear();
        for mut m in core::mem::take(&mut self.down) {
            cx.discard(&mut m, SendRefusal::Closed);
        }
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        if !self.config.down {
            return Flow::Pass;
        }
        if self.down.is_empty() {
            cx.arm(DOWN, cx.now + self.config.max_time);
        }
        self.down.push(core::mem::take(msg));
        if self.is_full(self.down.len()) {
            self.release_down(cx);
        }
        Flow::Stop
    }

    /// The member's own messages pass: no network reorders them.
    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        if !self.config.up || batch.src == cx.local() || batch.is_empty() {
            return;
        }
        if self.up.is_empty() {
            cx.arm(UP, cx.now + self.config.max_time);
        }
        for m in batch.take_all() {
            let mut one = batch.like();
            one.push(m);
            self.up.push(one);
        }
        if self.is_full(self.up.len()) {
            self.release_up(cx);
        }
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            UP => self.release_up(cx),
            _ => self.release_down(cx),
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("held_up", self.up.len() as u64);
        out("held_down", self.down.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{Solo, id};
    use crate::wire::{Body, Message as WireMessage};
    use alloc::boxed::Box;

    fn member(config: ShuffleConfig) -> Solo {
        Solo::new(1, [Box::new(Shuffle::new(config)) as Box<dyn Protocol>].into())
    }

    fn numbers(n: u8) -> impl Iterator<Item = WireMessage> {
        (0..n).map(|i| WireMessage::multicast(Body::bytes(alloc::vec![i])))
    }

    #[test]
    fn received_messages_come_in_another_order_when_enough_are_there() {
        let mut s = member(ShuffleConfig::default());
        s.arrive_all(2, numbers(9));
        assert!(s.delivered().is_empty());
        s.arrive_all(2, numbers(1));
        let got: Vec<u8> = s.delivered().iter().map(|(_, b)| b[0]).collect();
        assert_eq!(got.len(), 10);
        assert_ne!(got, [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
    }

    #[test]
    fn a_few_messages_wait_no_longer_than_max_time() {
        let mut s = member(ShuffleConfig { down: true, ..ShuffleConfig::default() });
        s.arrive_all(2, numbers(2));
        numbers(2).for_each(|m| s.send(m, None));
        assert!(s.sent().is_empty());
        s.run(Duration::from_millis(1_500));
        let of_others = s.delivered().iter().filter(|(from, _)| *from == id(2)).count();
        assert_eq!((of_others, s.sent().len()), (2, 2));
    }

    #[test]
    fn stopping_answers_who_waits_for_a_held_message() {
        let mut s = member(ShuffleConfig { down: true, ..ShuffleConfig::default() });
        s.send(WireMessage::multicast(Body::Empty), Some(crate::OpId(1)));
        assert_eq!(s.stack.tokens_outstanding(), 1);
        s.stack.stop(s.now);
        assert_eq!(s.stack.tokens_outstanding(), 0);
    }
}
