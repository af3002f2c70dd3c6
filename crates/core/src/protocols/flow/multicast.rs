//! MFC: multicasts travel at the speed of the slowest member, the sender itself included.

use super::MfcConfig;
use super::control::FlowControl;
use crate::wire::ProtId;
use crate::{
    Answer, Batch, Consumed, Cx, Dir, Event, Flow, Group, Interests, Message, Pool, Protocol,
    Query, Service, Spec, TimerKey, Traffic,
};

/// Flow control of multicasts: one line, whose messages cost their length at every member.
#[derive(Debug)]
pub struct Mfc(FlowControl);

impl Mfc {
    /// With this configuration.
    #[must_use]
    pub fn new(config: MfcConfig) -> Self {
        Self(FlowControl::new(Pool::Multicast, ProtId::MFC, config.settings()))
    }
}

impl Protocol for Mfc {
    fn spec(&self) -> Spec {
        Spec {
            name: "MFC",
            id: Some(ProtId::MFC),
            interests: Interests {
                down: Traffic::Multicast,
                up: Traffic::Multicast,
                events: true,
                consumed: true,
                ..Interests::default()
            },
            provides: &[Service::MulticastCredits],
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
