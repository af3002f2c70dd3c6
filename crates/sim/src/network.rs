//! The network between hosts: how long a packet takes, whether it arrives at all, and how often.
//!
//! It decides about packets and holds none: datagrams are planned by the cluster, bytes of
//! connections by [`crate::connections`]. Hosts are numbered; whoever runs on them is not its
//! business.

use crate::census::Census;
use crate::filter::{Rule, Verdict};
use bytes::Bytes;
use rgroups_core::{Duration, Rng, Time};
use std::collections::{BTreeMap, BTreeSet};

/// A machine with one physical address, for the whole run. Incarnations of a node come and go on
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(pub usize);

/// The quality of the way from one host to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Time a packet takes at least.
    pub delay: Duration,
    /// Up to this much more.
    pub jitter: Duration,
    /// Share of packets lost.
    pub loss: f64,
    /// Share of packets that arrive twice.
    pub duplication: f64,
    /// Share of packets held back so long that later ones overtake them.
    pub reordering: f64,
    /// Bytes a second; `None`: any number.
    pub bandwidth: Option<u64>,
    /// Datagrams above this size are lost.
    pub mtu: usize,
}

impl Link {
    /// A quiet local network: 0.1 to 0.3 ms, nothing lost.
    #[must_use]
    pub const fn lan() -> Self {
        Self {
            delay: Duration::from_micros(100),
            jitter: Duration::from_micros(200),
            loss: 0.0,
            duplication: 0.0,
            reordering: 0.0,
            bandwidth: None,
            mtu: 65_507,
        }
    }

    /// The lossy profile: 5 % lost, 5 % reordered, 2 % duplicated.
    #[must_use]
    pub const fn lossy() -> Self {
        Self { loss: 0.05, duplication: 0.02, reordering: 0.05, ..Self::lan() }
    }
}

/// What the network does with packets.
#[derive(Debug)]
pub struct Network {
    /// The way between hosts that have no own entry in `links`.
    pub default_link: Link,
    links: BTreeMap<(Host, Host), Link>,
    groups: Vec<BTreeSet<Host>>,
    cuts: BTreeSet<(Host, Host)>,
    rules: Vec<Rule>,
    busy_until: BTreeMap<(Host, Host), Time>,
    largest: usize,
    census: Option<Census>,
}

impl Network {
    /// All hosts connected by `link`.
    #[must_use]
    pub fn new(link: Link) -> Self {
        Self {
            default_link: link,
            links: BTreeMap::new(),
            groups: Vec::new(),
            cuts: BTreeSet::new(),
            rules: Vec::new(),
            busy_until: BTreeMap::new(),
            largest: 0,
            census: None,
        }
    }

    /// The way from `from` to `to`.
    #[must_use]
    pub fn link(&self, from: Host, to: Host) -> Link {
        self.links.get(&(from, to)).copied().unwrap_or(self.default_link)
    }

    /// Gives the way from `from` to `to` a quality of its own.
    pub fn set_link(&mut self, from: Host, to: Host, link: Link) {
        self.links.insert((from, to), link);
    }

    /// Only hosts of the same group reach each other; a host in no group reaches nobody.
    pub fn partition(&mut self, groups: Vec<BTreeSet<Host>>) {
        self.groups = groups;
    }

    /// Nothing gets from `from` to `to` any more; the other direction stays.
    pub fn cut(&mut self, from: Host, to: Host) {
        self.cuts.insert((from, to));
    }

    /// Ends partitions and cuts. Link qualities and rules stay.
    pub fn heal(&mut self) {
        self.groups.clear();
        self.cuts.clear();
    }

    /// Everything back to `link`, without partitions, cuts and rules.
    pub fn repair(&mut self, link: Link) {
        let (largest, census) = (self.largest, self.census.take());
        *self = Self { largest, census, ..Self::new(link) };
    }

    /// Whether packets get from `from` to `to`.
    #[must_use]
    pub fn reaches(&self, from: Host, to: Host) -> bool {
        if from == to {
            return true;
        }
        let together = self.groups.is_empty()
            || self.groups.iter().any(|g| g.contains(&from) && g.contains(&to));
        together && !self.cuts.contains(&(from, to))
    }

    /// Adds a rule for packets with certain messages in them.
    pub fn add_rule(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    /// Removes all rules.
    pub fn clear_rules(&mut self) {
        self.rules.clear();
    }

    /// Whether packets have to be looked into: there is a rule that may still apply, or they are
    /// counted.
    #[must_use]
    pub fn looks_into_packets(&self) -> bool {
        self.census.is_some() || self.rules.iter().any(|r| !r.is_spent())
    }

    /// From now on counts what is sent, and keeps the messages of these protocols.
    pub fn start_census(&mut self, keeping: &[&str]) {
        self.census = Some(Census::keeping(keeping));
    }

    /// What was sent since [`Network::start_census`].
    #[must_use]
    pub fn census(&self) -> Option<&Census> {
        self.census.as_ref()
    }

    /// The largest datagram sent so far.
    #[must_use]
    pub fn largest_datagram(&self) -> usize {
        self.largest
    }

    /// What the rules make of a packet on its way to `to`: `None` if nothing is left of it.
    pub fn filter(&mut self, from: Host, to: Host, packet: Bytes) -> Option<Filtered> {
        if let Some(census) = self.census.as_mut().filter(|_| from != to) {
            census.packet(from, to, &packet);
        }
        let mut out = Filtered { packet, extra_delay: Duration::ZERO };
        for rule in self.rules.iter_mut().filter(|r| !r.is_spent()) {
            match rule.apply(from, to, &out.packet) {
                Verdict::Pass => {}
                Verdict::Drop => return None,
                Verdict::Replace(rest) => out.packet = rest,
                Verdict::Delay(d) => out.extra_delay += d,
            }
        }
        Some(out)
    }

    /// When the copies of a datagram arrive: no, one or two moments.
    pub fn arrivals(
        &mut self,
        from: Host,
        to: Host,
        length: usize,
        now: Time,
        rng: &mut Rng,
    ) -> Vec<Time> {
        self.largest = self.largest.max(length);
        let link = self.link(from, to);
        if from == to {
            return vec![now + Duration::from_micros(20)];
        }
        if !self.reaches(from, to) || length > link.mtu || rng.chance(link.loss) {
            return Vec::new();
        }
        let start = self.transmission_end(from, to, length, now);
        let copies = if rng.chance(link.duplication) { 2 } else { 1 };
        (0..copies)
            .map(|_| {
                let mut at = start + link.delay + rng.duration(Duration::ZERO, link.jitter);
                if rng.chance(link.reordering) {
                    at += rng.duration(link.delay, (link.delay + link.jitter) * 10);
                }
                at
            })
            .collect()
    }

    /// When `length` bytes have left `from`, one after the other where bandwidth is limited.
    pub fn transmission_end(&mut self, from: Host, to: Host, length: usize, now: Time) -> Time {
        let Some(rate) = self.link(from, to).bandwidth else { return now };
        let free = self.busy_until.get(&(from, to)).copied().unwrap_or(now).max(now);
        let takes = Duration::from_nanos(length as u64 * 1_000_000_000 / rate.max(1));
        self.busy_until.insert((from, to), free + takes);
        free + takes
    }
}

/// A packet after the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filtered {
    /// What is left of it.
    pub packet: Bytes,
    /// How much later than others it arrives.
    pub extra_delay: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Host = Host(0);
    const B: Host = Host(1);
    const C: Host = Host(2);

    fn arrivals(net: &mut Network, from: Host, to: Host, rng: &mut Rng) -> usize {
        net.arrivals(from, to, 100, Time::ZERO, rng).len()
    }

    #[test]
    fn a_partition_lets_packets_pass_within_groups_only() {
        let mut net = Network::new(Link::lan());
        net.partition(vec![BTreeSet::from([A, B]), BTreeSet::from([C])]);
        assert!(net.reaches(A, B) && net.reaches(C, C));
        assert!(!net.reaches(A, C) && !net.reaches(C, B));
        net.heal();
        assert!(net.reaches(A, C));
    }

    #[test]
    fn a_cut_has_one_direction() {
        let mut net = Network::new(Link::lan());
        net.cut(A, B);
        assert!(!net.reaches(A, B) && net.reaches(B, A));
    }

    #[test]
    fn loss_and_duplication_have_about_the_configured_share() {
        let mut net = Network::new(Link { loss: 0.1, duplication: 0.2, ..Link::lan() });
        let mut rng = Rng::new(1);
        let counts: Vec<usize> = (0..10_000).map(|_| arrivals(&mut net, A, B, &mut rng)).collect();
        let lost = counts.iter().filter(|n| **n == 0).count();
        let twice = counts.iter().filter(|n| **n == 2).count();
        assert!((800..1200).contains(&lost), "{lost}");
        assert!((1500..2100).contains(&twice), "{twice}");
    }

    #[test]
    fn a_datagram_of_the_mtu_passes_and_one_byte_more_does_not() {
        let mut net = Network::new(Link { mtu: 1_400, ..Link::lan() });
        let mut rng = Rng::new(1);
        assert_eq!(net.arrivals(A, B, 1_400, Time::ZERO, &mut rng).len(), 1);
        assert_eq!(net.arrivals(A, B, 1_401, Time::ZERO, &mut rng).len(), 0);
    }

    #[test]
    fn limited_bandwidth_queues_packets_behind_each_other() {
        let link = Link { bandwidth: Some(1_000_000), jitter: Duration::ZERO, ..Link::lan() };
        let mut net = Network::new(link);
        let mut rng = Rng::new(1);
        let first = net.arrivals(A, B, 1_000, Time::ZERO, &mut rng)[0];
        let second = net.arrivals(A, B, 1_000, Time::ZERO, &mut rng)[0];
        assert_eq!(second.since(first), Duration::from_millis(1));
    }
}
