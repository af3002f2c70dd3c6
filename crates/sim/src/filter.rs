//! Rules that drop or delay certain messages on their way: "the next two VIEW messages of GMS from
//! A to B". A packet with other messages in it goes on without the ones that were dropped.

use crate::headers::kind_of;
use crate::network::Host;
use bytes::Bytes;
use rgroups_core::Duration;
use rgroups_core::wire::{Encode, Frame, FrameBody, Message};

/// Which messages a rule is about. An absent condition holds for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    /// Sent by this host (which need not be the original sender).
    pub from: Option<Host>,
    /// On the way to this host.
    pub to: Option<Host>,
    /// With a header of this protocol, by JGroups' name: "GMS".
    pub protocol: Option<String>,
    /// And this header is of this kind, by JGroups' name: "VIEW".
    pub kind: Option<String>,
    /// And it carries this number.
    pub seqno: Option<i64>,
}

impl Pattern {
    /// Messages of this kind of this protocol, from anybody to anybody.
    #[must_use]
    pub fn of_kind(protocol: &str, kind: &str) -> Self {
        let (protocol, kind) = (Some(protocol.into()), Some(kind.into()));
        Self { protocol, kind, ..Self::default() }
    }
}

/// What happens to a message that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It does not arrive.
    Drop,
    /// Its packet arrives later by this much.
    Delay(Duration),
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pattern: Pattern,
    action: Action,
    /// How often it still applies; `None`: always.
    left: Option<u32>,
}

/// What a rule makes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Pass,
    /// It is gone.
    Drop,
    /// It goes on with other contents.
    Replace(Bytes),
    /// It arrives later.
    Delay(Duration),
}

impl Rule {
    /// Applies `action` to the next `times` messages that match, or to all of them.
    #[must_use]
    pub fn new(pattern: Pattern, action: Action, times: Option<u32>) -> Self {
        Self { pattern, action, left: times }
    }

    /// Whether it will never apply again.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.left == Some(0)
    }

    /// Applies the rule to a packet.
    pub fn apply(&mut self, from: Host, to: Host, packet: &Bytes) -> Verdict {
        let on_the_way = |wanted: Option<Host>, is| wanted.is_none_or(|w| w == is);
        if !on_the_way(self.pattern.from, from) || !on_the_way(self.pattern.to, to) {
            return Verdict::Pass;
        }
        let Ok(frame) = Frame::decode(packet.clone()) else { return Verdict::Pass };
        match self.action {
            Action::Delay(d) => {
                if frame.messages().iter().any(|m| self.hits(m)) {
                    Verdict::Delay(d)
                } else {
                    Verdict::Pass
                }
            }
            Action::Drop => self.without_hits(frame),
        }
    }

    fn without_hits(&mut self, frame: Frame) -> Verdict {
        let Frame { version, multicast, body } = frame;
        match body {
            FrameBody::Single(m) if self.hits(&m) => Verdict::Drop,
            FrameBody::Single(_) => Verdict::Pass,
            FrameBody::List { dest, src, cluster, mut messages } => {
                let before = messages.len();
                messages.retain(|m| !self.hits(m));
                if messages.len() == before {
                    return Verdict::Pass;
                }
                if messages.is_empty() {
                    return Verdict::Drop;
                }
                let body = FrameBody::List { dest, src, cluster, messages };
                Verdict::Replace(Frame { version, multicast, body }.to_bytes())
            }
        }
    }

    /// Whether the rule applies to `m`; if so, that was one of its times.
    fn hits(&mut self, m: &Message) -> bool {
        if self.is_spent() || !self.pattern.matches(m) {
            return false;
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        true
    }
}

impl Pattern {
    fn matches(&self, m: &Message) -> bool {
        let Some(protocol) = &self.protocol else { return true };
        m.headers.iter().any(|(id, header)| {
            let (kind, seqno) = kind_of(header);
            id.name() == Some(protocol.as_str())
                && self.kind.as_ref().is_none_or(|k| k == kind)
                && self.seqno.is_none_or(|n| seqno == Some(n))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rgroups_core::wire::header::{Header, NakAckHeader};
    use rgroups_core::wire::{Body, ProtId, Version};

    fn numbered(n: i64) -> Message {
        Message::multicast(Body::bytes("x"))
            .with_header(ProtId::NAKACK2, Header::NakAck(NakAckHeader::Msg(n)))
    }

    fn list(numbers: &[i64]) -> Bytes {
        let body = FrameBody::List {
            dest: None,
            src: None,
            cluster: Some(Bytes::from_static(b"c")),
            messages: numbers.iter().map(|n| numbered(*n)).collect(),
        };
        Frame { version: Version::OURS, multicast: true, body }.to_bytes()
    }

    fn drop_msg(seqno: Option<i64>, times: Option<u32>) -> Rule {
        let pattern = Pattern {
            protocol: Some("NAKACK2".into()),
            kind: Some("MSG".into()),
            seqno,
            ..Pattern::default()
        };
        Rule::new(pattern, Action::Drop, times)
    }

    #[test]
    fn only_the_named_message_is_taken_out_of_a_packet() {
        let verdict = drop_msg(Some(2), None).apply(Host(0), Host(1), &list(&[1, 2, 3]));
        assert_eq!(verdict, Verdict::Replace(list(&[1, 3])));
    }

    #[test]
    fn a_packet_of_which_nothing_is_left_is_dropped() {
        let verdict = drop_msg(None, None).apply(Host(0), Host(1), &list(&[1, 2]));
        assert_eq!(verdict, Verdict::Drop);
    }

    #[test]
    fn a_rule_applies_as_often_as_it_says() {
        let mut rule = drop_msg(None, Some(1));
        assert_eq!(rule.apply(Host(0), Host(1), &list(&[1, 2])), Verdict::Replace(list(&[2])));
        assert!(rule.is_spent());
        assert_eq!(rule.apply(Host(0), Host(1), &list(&[3])), Verdict::Pass);
    }

    #[test]
    fn a_rule_for_one_direction_leaves_the_other_alone() {
        let pattern = Pattern { from: Some(Host(0)), to: Some(Host(1)), ..Pattern::default() };
        let mut rule = Rule::new(pattern, Action::Drop, None);
        assert_eq!(rule.apply(Host(1), Host(0), &list(&[1])), Verdict::Pass);
        assert_eq!(rule.apply(Host(0), Host(1), &list(&[1])), Verdict::Drop);
    }
}
