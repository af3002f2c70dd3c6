//! UFC: unicasts to one member travel at the speed at which it consumes them; others are unaffected.

use super::UfcConfig;
use super::control::FlowControl;
use crate::wire::ProtId;
use crate::{
    Answer, Batch, Consumed, Cx, Dir, Event, Flow, Group, Interests, Message, Pool, Protocol,
    Query, Service, Spec, TimerKey, Traffic,
};

/// Flow control of unicasts: one line per destination.
#[derive(Debug)]
pub struct Ufc(FlowControl);

impl Ufc {
    /// With this configuration.
    #[must_use]
    pub fn new(config: UfcConfig) -> Self {
        Self(FlowControl::new(Pool::Unicast, ProtId::UFC, config.settings()))
    }
}

impl Protocol for Ufc {
    fn spec(&self) -> Spec {
        Spec {
            name: "UFC",
            id: Some(ProtId::UFC),
            interests: Interests {
                down: Traffic::Unicast,
                up: Traffic::Unicast,
                events: true,
                consumed: true,
                ..Interests::default()
            },
            provides: &[Service::UnicastCredits],
            needs_below: &[Service::Membership, Service::ReliableUnicast],
            needs_above: &[],
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.0.stop(cx);
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        self.0.down(msg, cx)
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        self.0.up(batch, cx);
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        self.0.on_event(dir, ev, cx)
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        self.0.on_timer(key, cx);
    }

    fn on_consumed(&mut self, what: &Consumed, cx: &mut Cx<'_>) {
        self.0.on_consumed(what, cx);
    }

    fn answer(&self, q: &Query, group: &Group) -> Option<Answer> {
        self.0.answer(q, group)
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        self.0.inspect(out);
    }
}
