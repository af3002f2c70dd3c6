//! Numbers about a channel: cheap ones that are always at hand, and a full inspection.

use crate::Address;
use rgroups_core as core;
use rgroups_core::event::{CreditAccount, WindowGauge, WindowKind};
use std::net::SocketAddr;
use std::time::Duration;

/// Counters since the channel connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Messages that flow control admitted.
    pub msgs_sent: u64,
    /// Messages handed to [`Events`](crate::Events).
    pub msgs_received: u64,
    /// Payload bytes of the messages sent.
    pub payload_sent: u64,
    /// Payload bytes of the messages received.
    pub payload_received: u64,
    /// Bytes that left through sockets, with headers and retransmissions.
    pub bytes_sent: u64,
    /// Bytes that arrived through sockets.
    pub bytes_received: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Datagrams that the kernel or a full queue refused; the protocols send them again.
    pub datagrams_dropped: u64,
    /// System calls that failed without harm.
    pub socket_errors: u64,
    /// How long at least one send was waiting for credit.
    pub blocked_on_credits: Duration,
    /// Views installed.
    pub views: u64,
    /// Of these, merges.
    pub merges: u64,
    /// Messages without flow control that were dropped because `inbound_limit` was reached.
    pub dropped_over_inbound_limit: u64,
    /// Turns of the driver: an idle member has few.
    pub turns: u64,
}

impl Stats {
    /// All of them, by name.
    pub(crate) fn each(&self, out: &mut dyn FnMut(&str, u64)) {
        out("msgs_sent", self.msgs_sent);
        out("msgs_received", self.msgs_received);
        out("payload_sent", self.payload_sent);
        out("payload_received", self.payload_received);
        out("bytes_sent", self.bytes_sent);
        out("bytes_received", self.bytes_received);
        out("datagrams_sent", self.datagrams_sent);
        out("datagrams_received", self.datagrams_received);
        out("datagrams_dropped", self.datagrams_dropped);
        out("socket_errors", self.socket_errors);
        out("blocked_on_credits_ms", self.blocked_on_credits.as_millis() as u64);
        out("views", self.views);
        out("merges", self.merges);
        out("dropped_over_inbound_limit", self.dropped_over_inbound_limit);
        out("turns", self.turns);
    }
}

/// What is held where, now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gauges {
    /// Messages delivered and not yet taken by the reader of `Events`.
    pub events_queued: u64,
    /// Their bytes.
    pub events_queued_bytes: u64,
    /// Bytes delivered and not yet consumed: what we owe to senders as credit.
    pub unconsumed_bytes: u64,
    /// Bytes admitted and not yet taken by the driver.
    pub outbound_bytes: u64,
    /// Bytes that may be multicast without waiting.
    pub multicast_window: u64,
    /// Who made a send wait for more than a second, if one is waiting; may be this member itself.
    pub blocked_on: Vec<Address>,
    /// How long that send has been waiting.
    pub blocked_for: Option<Duration>,
}

impl Gauges {
    /// Those that are numbers, by name.
    pub(crate) fn each(&self, out: &mut dyn FnMut(&str, u64)) {
        let blocked = self.blocked_for.unwrap_or_default();
        out("events_queued", self.events_queued);
        out("events_queued_bytes", self.events_queued_bytes);
        out("unconsumed_bytes", self.unconsumed_bytes);
        out("outbound_bytes", self.outbound_bytes);
        out("multicast_window", self.multicast_window);
        out("blocked_on", self.blocked_on.len() as u64);
        out("blocked_for_ms", blocked.as_millis() as u64);
    }
}

/// Room for sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendWindow {
    /// Bytes that may be sent without waiting.
    pub bytes: u64,
    /// Whom a larger message would wait for, where that is known.
    pub blocked_on: Option<Address>,
}

/// Everything that protocols report about themselves.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Inspection {
    /// Counters and gauges: protocol, name, value. What the parts around the protocols count is
    /// there as well: `EDGE` (connections and frames), `CHANNEL` ([`Stats`] and [`Gauges`]) and
    /// `DROPPED` (what came from the network and was not taken, by reason). All of them are listed
    /// in `docs/counters.md`.
    pub counters: Vec<(String, String, u64)>,
    /// Flow control, multicasts: both halves of the account with each member.
    pub multicast_credits: Vec<Credit>,
    /// Flow control, unicasts.
    pub unicast_credits: Vec<Credit>,
    /// Windows of the reliable protocols.
    pub windows: Vec<Window>,
    /// What is not stable, and why; `None` in a stack without STABLE.
    pub stability: Option<Stability>,
    /// Whom a send has been waiting for since more than a second, if one is
    /// (`CHANNEL.blocked_for_ms` says how long).
    pub blocked_on: Vec<Address>,
    /// Members that failure detection suspects.
    pub suspects: Vec<Address>,
    /// Who accuses them, and why: one entry of each protocol of failure detection that does.
    pub suspicions: Vec<Suspicion>,
    /// Physical addresses of members, as far as known.
    pub physical: Vec<(Address, SocketAddr)>,
    /// Names of the protocols, bottom first.
    pub protocols: Vec<String>,
    /// What was dropped of what came from the network: reason, how often. Only reasons that
    /// occurred.
    pub dropped: Vec<(String, u64)>,
    /// Other clusters whose messages came to our address, by name.
    pub clusters_heard: Vec<Heard>,
    /// Versions other than ours of packets that came, such as "5.4.3".
    pub versions_heard: Vec<Heard>,
    /// Members that sent although they are not in the view.
    pub outsiders_heard: Vec<Heard>,
    /// What was wrong with the last bytes that were no packets.
    pub garbage_heard: Option<Heard>,
}

/// A member that failure detection suspects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suspicion {
    /// Who.
    pub member: Address,
    /// Who accused it first, as far as is known here.
    pub by: Address,
    /// Why, in words: "no heartbeat for 41.2 s".
    pub reason: String,
}

impl From<core::Suspicion> for Suspicion {
    fn from(s: core::Suspicion) -> Self {
        Self { member: Address(s.member), by: Address(s.by), reason: s.why.to_string() }
    }
}

/// Something that was heard of processes outside the group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Heard {
    /// What; text of other processes is escaped.
    pub what: String,
    /// How often.
    pub times: u64,
    /// How long ago last.
    pub ago: Duration,
    /// From where last, if known.
    pub from: Option<SocketAddr>,
}

/// Multicasts that not everybody is known to have delivered. How many bytes are kept of each sender
/// for that is in [`Inspection::windows`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stability {
    /// At the coordinator: who has not reported in the running round.
    pub waiting_for: Vec<Address>,
    /// At the coordinator, after the last complete round: whose messages, from which number on, and
    /// who has not delivered that one.
    pub held_back: Vec<(Address, i64, Address)>,
    /// The oldest multicast here that is not known to be stable: its sender, its number, its age
    /// (which may be too high by the time between two reports).
    pub oldest: Option<(Address, i64, Duration)>,
}

/// Both halves of a flow-control account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credit {
    /// The other member (for multicasts also this one).
    pub peer: Address,
    /// Bytes granted to us and unused.
    pub balance: u64,
    /// `balance` minus what waits; below zero while a send waits.
    pub shown: i64,
    /// Bytes that wait for this peer.
    pub waiting: u64,
    /// Bytes received from the peer and not consumed.
    pub unconsumed: u64,
    /// Bytes consumed and not yet granted back.
    pub ungranted: u64,
    /// The most there can be.
    pub max: u64,
}

/// State of a window of the reliable protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Window {
    /// The other member.
    pub peer: Address,
    /// `multicast`, `unicast send` or `unicast receive`.
    pub kind: &'static str,
    /// Everything up to here is gone.
    pub low: i64,
    /// Everything up to here is delivered, or acknowledged.
    pub delivered: i64,
    /// The highest number received, or sent.
    pub received: i64,
    /// Payload bytes held.
    pub bytes: u64,
    /// Messages held.
    pub messages: u64,
}

impl From<CreditAccount> for Credit {
    fn from(a: CreditAccount) -> Self {
        Self {
            peer: Address(a.peer),
            balance: a.balance,
            shown: a.shown,
            waiting: a.waiting,
            unconsumed: a.unconsumed,
            ungranted: a.ungranted,
            max: a.max,
        }
    }
}

impl From<WindowGauge> for Window {
    fn from(w: WindowGauge) -> Self {
        Self {
            peer: Address(w.peer),
            kind: match w.kind {
                WindowKind::Multicast => "multicast",
                WindowKind::UnicastSend => "unicast send",
                WindowKind::UnicastReceive => "unicast receive",
            },
            low: w.low,
            delivered: w.delivered,
            received: w.received,
            bytes: w.bytes,
            messages: w.messages,
        }
    }
}
