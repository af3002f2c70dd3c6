//! DUPL: copies of messages, as a network that delivers packets twice makes them.

use crate::protocol::{Interests, Protocol, Service, Spec, Traffic};
use crate::{Batch, Cx, Flow, Message, attributes};

attributes! {
    /// Copies messages, for tests (JGroups `DUPL`).
    pub struct DuplConfig for "DUPL" {
        /// Copies of each received message. Default 1; 0: none.
        incoming_copies: u32 = 1,
        /// Copies of each sent message. Default 1; 0: none.
        outgoing_copies: u32 = 1,
        /// Whether messages to one member are copied. Default true.
        copy_unicast_msgs: bool = true,
        /// Whether messages to all are copied. Default true.
        copy_multicast_msgs: bool = true,
    }
}

/// No message has more copies.
const MOST_COPIES: u32 = 100;

/// The protocol. See the module documentation.
#[derive(Debug)]
pub struct Dupl {
    config: DuplConfig,
    copies: u64,
}

impl Dupl {
    /// With these settings.
    #[must_use]
    pub fn new(config: DuplConfig) -> Self {
        Self { config, copies: 0 }
    }

    fn copies(&self, multicast: bool, of_each: u32) -> u32 {
        let wanted = match multicast {
            true => self.config.copy_multicast_msgs,
            false => self.config.copy_unicast_msgs,
        };
        if wanted { of_each.min(MOST_COPIES) } else { 0 }
    }
}

impl Protocol for Dupl {
    fn spec(&self) -> Spec {
        Spec {
            name: "DUPL",
            id: None,
            interests: Interests { down: Traffic::Both, up: Traffic::Both, ..Interests::default() },
            provides: &[Service::Faults],
            needs_below: &[],
            needs_above: &[],
        }
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        for _ in 0..self.copies(msg.is_multicast(), self.config.outgoing_copies) {
            self.copies += 1;
            cx.send_down(msg.clone());
        }
        Flow::Pass
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        for _ in 0..self.copies(batch.multicast, self.config.incoming_copies) {
            self.copies += batch.len() as u64;
            cx.deliver_up(batch.clone());
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("copies", self.copies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{Solo, id};
    use crate::wire::{Body, Message as WireMessage};
    use alloc::boxed::Box;

    #[test]
    fn messages_have_as_many_copies_as_was_asked_for() {
        let config = DuplConfig {
            incoming_copies: 2,
            outgoing_copies: 3,
            copy_unicast_msgs: false,
            ..DuplConfig::default()
        };
        let mut s = Solo::new(1, [Box::new(Dupl::new(config)) as Box<dyn Protocol>].into());
        s.arrive(2, WireMessage::multicast(Body::bytes(&b"x"[..])));
        assert_eq!(s.delivered().len(), 3);
        s.arrive(2, WireMessage::unicast(id(1), Body::bytes(&b"x"[..])));
        assert_eq!(s.delivered().len(), 1);
        s.send(WireMessage::multicast(Body::bytes(&b"y"[..])), Some(crate::OpId(1)));
        assert_eq!(s.sent().len(), 4);
        assert_eq!(s.stack.tokens_outstanding(), 0, "only the original answers");
    }
}
