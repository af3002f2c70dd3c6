//! DROP: loses the messages of certain protocols. In JGroups a program gives it filters; here they are
//! names of protocols, so that a file can say it too.

use crate::attributes::AttrValue;
use crate::protocol::{Interests, Protocol, Service, Spec, Traffic};
use crate::wire::ProtId;
use crate::{Batch, Cx, DropReason, Flow, Message, attributes};
use alloc::string::String;
use alloc::vec::Vec;

/// Protocols by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtocolNames(Vec<ProtId>);

impl ProtocolNames {
    fn any(&self, m: &Message) -> bool {
        self.0.iter().any(|id| m.headers.get(*id).is_some())
    }
}

impl AttrValue for ProtocolNames {
    const KIND: &'static str = "names of protocols with a header, such as GMS,NAKACK2";
    fn parse(text: &str) -> Option<Self> {
        let names = text.split(',').map(str::trim).filter(|n| !n.is_empty());
        names.map(ProtId::named).collect::<Option<Vec<_>>>().map(Self)
    }
    fn show(&self) -> String {
        let names = self.0.iter().map(|id| id.name().unwrap_or_default());
        names.collect::<Vec<_>>().join(",")
    }
}

attributes! {
    /// Loses messages with the headers of certain protocols, for tests (JGroups `DROP`).
    pub struct DropConfig for "DROP" {
        /// Received messages with a header of one of these are lost. Default none.
        up: ProtocolNames = ProtocolNames::default(),
        /// Sent messages with a header of one of these are lost. Default none.
        down: ProtocolNames = ProtocolNames::default(),
        /// After so many messages nothing is lost any more. Default 0: it never ends.
        times: u32 = 0,
    }
}

/// The protocol. See the module documentation.
#[derive(Debug)]
pub struct Drop {
    config: DropConfig,
    dropped: u64,
}

impl Drop {
    /// With these settings.
    #[must_use]
    pub fn new(config: DropConfig) -> Self {
        Self { config, dropped: 0 }
    }

    /// Whether this one is lost. Counts it.
    fn hits(&mut self, up: bool, m: &Message) -> bool {
        let names = if up { &self.config.up } else { &self.config.down };
        let most = u64::from(self.config.times);
        let hit = names.any(m) && (most == 0 || self.dropped < most);
        self.dropped += u64::from(hit);
        hit
    }
}

impl Protocol for Drop {
    fn spec(&self) -> Spec {
        Spec {
            name: "DROP",
            id: None,
            interests: Interests { down: Traffic::Both, up: Traffic::Both, ..Interests::default() },
            provides: &[Service::Faults],
            needs_below: &[],
            needs_above: &[],
        }
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        if !self.hits(false, msg) {
            return Flow::Pass;
        }
        // The network lost it; whoever waits for it to be accepted is told that it was.
        if let Some(t) = msg.token.take() {
            cx.resolve(t, Ok(()));
        }
        *msg = Message::default();
        Flow::Stop
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        if src == cx.local() {
            return;
        }
        batch.retain(|m| {
            let hit = self.hits(true, m);
            if hit {
                cx.drop_from_peer(DropReason::Injected, Some(src));
            }
            !hit
        });
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("dropped", self.dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::Solo;
    use crate::wire::header::{RsvpHeader, RsvpKind};
    use crate::wire::{Body, Header, Message as WireMessage};
    use alloc::boxed::Box;

    fn marked() -> WireMessage {
        let header = RsvpHeader { kind: RsvpKind::Response, id: 1 };
        WireMessage::multicast(Body::bytes(&b"x"[..]))
            .with_header(ProtId::RSVP, Header::Rsvp(header))
    }

    fn plain() -> WireMessage {
        WireMessage::multicast(Body::bytes(&b"y"[..]))
    }

    #[test]
    fn messages_of_the_named_protocols_are_lost_so_many_times() {
        let names = ProtocolNames::parse("rsvp, GMS").expect("there are such");
        assert_eq!(names.show(), "RSVP,GMS");
        let config = DropConfig { up: names.clone(), down: names, times: 3 };
        let mut s = Solo::new(1, [Box::new(Drop::new(config)) as Box<dyn Protocol>].into());
        s.arrive_all(2, [marked(), plain(), marked()]);
        assert_eq!(s.delivered().len(), 1);
        s.send(marked(), Some(crate::OpId(1)));
        assert_eq!((s.sent().len(), s.stack.tokens_outstanding()), (0, 0));
        s.send(marked(), None);
        assert_eq!(s.sent().len(), 1, "three were lost already");
    }

    #[test]
    fn a_name_of_no_protocol_is_refused() {
        assert_eq!(ProtocolNames::parse("GMS,NOBODY"), None);
    }
}
