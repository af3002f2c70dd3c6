//! Answers: a line about the member, then one entry per key.

use super::request::Request;
use crate::config::Config;
use crate::shared::Shared;
use crate::stats::{Credit, Heard, Inspection, Stats, Window};
use crate::view::View;
use rgroups_core::plan::ProtocolConfig;
use std::net::SocketAddr;

/// An answer fits into a datagram with room to spare.
const LIMIT: usize = 60_000;
/// What we present ourselves as, and who we are.
const VERSION: &str = concat!("5.5.6 (rgroups ", env!("CARGO_PKG_VERSION"), ")");

/// The keys that are understood.
const KEYS: &[&str] = &[
    "jmx",
    "jmx=<protocol>[.<attribute>[,<attribute>]]",
    "ops",
    "op=<protocol>.<operation>",
    "keys",
    "member-addrs",
    "uuids",
    "dump-digest",
    "print-protocols",
    "props",
    "dump",
    "cluster=<pattern>",
];

/// The operations that can be asked for; none changes anything.
const OPERATIONS: &[(&str, &str)] = &[
    ("TP", "printLogicalAddressCache"),
    ("NAKACK2", "printMessages"),
    ("NAKACK4", "printMessages"),
    ("STABLE", "printStability"),
    ("UNICAST3", "printConnections"),
    ("UNICAST4", "printConnections"),
    ("GMS", "printMembers"),
    ("MFC", "printCredits"),
    ("UFC", "printCredits"),
    ("CHANNEL", "printBlocked"),
    ("CHANNEL", "printSuspects"),
    ("CHANNEL", "printHeard"),
];

/// A member at the time of a question.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    pub(super) shared: &'a Shared,
    pub(super) physical: SocketAddr,
    pub(super) config: &'a Config,
    pub(super) view: Option<View>,
    pub(super) inspection: Inspection,
    pub(super) stats: Stats,
}

impl Snapshot<'_> {
    /// The answer, cut if it is too long.
    pub(super) fn answer(&self, request: &Request) -> String {
        let name = self.shared.name.escape_debug();
        let cluster = self.shared.cluster.escape_debug();
        let at = self.physical;
        if request.keys.is_empty() {
            let view = self.view();
            return format!(
                "{name} (ip={at})\nview={view}\ncluster={cluster}\nversion={VERSION}\n"
            );
        }
        let members = self.view.as_ref().map_or(0, |v| v.members().len());
        let mut text =
            format!("{name} [ip={at}, {members} mbr(s), cluster={cluster}, version={VERSION}]\n");
        for key in &request.keys {
            for (key, value) in self.key(key) {
                text += &format!("{key}={value}\r\n");
            }
            if text.len() > LIMIT {
                let end = (0..=LIMIT).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
                text.truncate(end);
                text += "\r\n(cut here: ask for less, e.g. one protocol)\r\n";
                return text;
            }
        }
        text
    }

    fn key(&self, key: &str) -> Vec<(String, String)> {
        let (word, value) = match key.split_once('=') {
            Some((word, value)) => (word, Some(value)),
            None => (key, None),
        };
        let one = |value: String| vec![(word.to_owned(), value)];
        match (word, value) {
            ("jmx", None) => self.attributes("", &[]),
            ("jmx", Some(which)) => self.jmx(which),
            ("dump", None) => self.dump(),
            ("ops", _) => one(format!("\n{}", self.operations(value.unwrap_or("")).join("\n"))),
            ("op" | "invoke", Some(operation)) => self.operation(operation),
            ("keys", _) => one(format!("\n{}", KEYS.join("\n"))),
            ("member-addrs", _) => one(self.member_addresses()),
            ("uuids", _) => one(self.uuids()),
            ("dump-digest", _) => one(self.digest()),
            ("print-protocols", _) => {
                let top_first: Vec<&str> =
                    self.inspection.protocols.iter().rev().map(String::as_str).collect();
                one(format!("\n{}", top_first.join("\n")))
            }
            ("props", _) => self.properties(),
            // As JGroups: anything else is taken for attributes of a protocol.
            (_, None) => self.jmx(word),
            (_, Some(_)) => Vec::new(),
        }
    }

    fn jmx(&self, which: &str) -> Vec<(String, String)> {
        let (protocol, attributes) = which.split_once('.').unwrap_or((which, ""));
        if let Some((name, _)) = attributes.split_once('=') {
            let refused = format!("{name} was not changed: questions change nothing here");
            return vec![(protocol.to_owned(), refused)];
        }
        let wanted: Vec<&str> = attributes.split(',').filter(|a| !a.is_empty()).collect();
        self.attributes(protocol, &wanted)
    }

    /// Every counter, every attribute and what every operation prints.
    fn dump(&self) -> Vec<(String, String)> {
        let mut all = self.attributes("", &[]);
        for operation in self.operations("") {
            all.extend(self.operation(&operation));
        }
        all
    }

    /// The protocols, and the parts of a member around them that count something.
    fn layers(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.inspection.protocols.iter().map(String::as_str).collect();
        for (layer, ..) in &self.inspection.counters {
            if !all.contains(&layer.as_str()) {
                all.push(layer);
            }
        }
        all
    }

    /// The attributes of the protocols of this name (all, if it is empty) that begin with one of
    /// `wanted`.
    fn attributes(&self, protocol: &str, wanted: &[&str]) -> Vec<(String, String)> {
        let transport = self.config.plan().protocols.iter().find(|p| p.transport().is_some());
        let transport = transport.map_or("", ProtocolConfig::name);
        let settings = self.config.explain();
        let mut all = Vec::new();
        for layer in self.layers() {
            let asked = protocol.is_empty()
                || layer.eq_ignore_ascii_case(protocol)
                || protocol == "TP" && layer == transport;
            if !asked {
                continue;
            }
            let mut values: Vec<(String, String)> = Vec::new();
            if layer == transport {
                values.extend(self.of_transport());
            }
            if layer == "GMS" {
                values.extend(self.of_gms());
            }
            let counters = self.inspection.counters.iter().filter(|(l, ..)| l == layer);
            values.extend(counters.map(|(_, name, n)| (name.clone(), n.to_string())));
            let settings = settings.iter().filter(|s| s.protocol == layer);
            values.extend(settings.map(|s| (s.attribute.clone(), s.value.clone())));
            values.retain(|(n, _)| wanted.is_empty() || wanted.iter().any(|w| n.starts_with(w)));
            // Stable: what this file adds comes before a counter of the same name.
            values.sort_by(|a, b| a.0.cmp(&b.0));
            values.dedup_by(|a, b| a.0 == b.0);
            let values: Vec<String> = values
                .into_iter()
                .map(|(name, value)| format!("{name}={}", value.escape_debug()))
                .collect();
            all.push((layer.to_owned(), format!("{{{}}}", values.join(", "))));
        }
        all
    }

    fn of_transport(&self) -> Vec<(String, String)> {
        let s = &self.stats;
        let text = |name: &str, value: String| (name.to_owned(), value);
        let numbers = [
            ("num_bytes_sent", s.bytes_sent),
            ("num_bytes_received", s.bytes_received),
            ("num_msgs_sent", s.msgs_sent),
            ("num_msgs_received", s.msgs_received),
            ("datagrams_dropped", s.datagrams_dropped),
            ("socket_errors", s.socket_errors),
        ];
        let mut all = vec![
            text("local_addr", self.shared.local.to_string()),
            text("local_physical_addr", self.physical.to_string()),
            text("cluster_name", self.shared.cluster.clone()),
            text("diag.enabled", "true".into()),
        ];
        all.extend(numbers.map(|(name, n)| text(name, n.to_string())));
        all
    }

    fn of_gms(&self) -> Vec<(String, String)> {
        let coordinator = self.view.as_ref().map(View::coordinator);
        let label = coordinator.map(|c| self.shared.label(c)).unwrap_or_default();
        vec![
            ("view".into(), self.view()),
            ("coord".into(), label),
            ("is_coord".into(), (coordinator == Some(self.shared.local)).to_string()),
            ("number_of_views".into(), self.stats.views.to_string()),
        ]
    }

    fn view(&self) -> String {
        self.view.as_ref().map_or_else(|| "none".to_owned(), |v| self.shared.describe(v))
    }

    /// Where the members are, as Probe asks for it to find them all over TCP.
    fn member_addresses(&self) -> String {
        let members = self.view.as_ref().map_or(&[][..], View::members);
        let at = |m| self.inspection.physical.iter().find(|(p, _)| *p == m).map(|(_, at)| *at);
        let own = |m| (m == self.shared.local).then_some(self.physical);
        let all = members.iter().filter_map(|m| own(*m).or_else(|| at(*m)));
        all.map(|a| a.to_string()).collect::<Vec<_>>().join(",")
    }

    fn uuids(&self) -> String {
        let line = |(m, at): &(crate::Address, SocketAddr)| {
            format!("{}: {:032x} at {at}", self.shared.label(*m), m.to_bits())
        };
        let known = self.inspection.physical.iter().map(line).collect::<Vec<_>>();
        format!("local={:032x}\n{}", self.shared.local.to_bits(), known.join("\n"))
    }

    fn digest(&self) -> String {
        let windows = self.inspection.windows.iter().filter(|w| w.kind == "multicast");
        let one = |w: &Window| {
            format!("{}: [{} ({})]", self.shared.label(w.peer), w.delivered, w.received)
        };
        windows.map(one).collect::<Vec<_>>().join(", ")
    }

    fn properties(&self) -> Vec<(String, String)> {
        let settings = self.config.explain();
        let of = |layer: &String| {
            let mine = settings.iter().filter(|s| s.protocol == *layer);
            let mine = mine.map(|s| format!("{}={}", s.attribute, s.value.escape_debug()));
            (layer.clone(), mine.collect::<Vec<_>>().join(", "))
        };
        self.inspection.protocols.iter().map(of).collect()
    }

    fn operations(&self, protocol: &str) -> Vec<String> {
        let there = |p: &str| p == "TP" || self.layers().contains(&p);
        let asked = |p: &str| protocol.is_empty() || p.eq_ignore_ascii_case(protocol);
        let all = OPERATIONS.iter().filter(|(p, _)| there(p) && asked(p));
        all.map(|(p, name)| format!("{p}.{name}()")).collect()
    }

    fn operation(&self, which: &str) -> Vec<(String, String)> {
        let which = which.split(['[', '(']).next().unwrap_or(which);
        let Some((protocol, name)) = which.split_once('.') else { return Vec::new() };
        let known = OPERATIONS.iter().find(|(p, n)| p.eq_ignore_ascii_case(protocol) && *n == name);
        let credits = |c: &[Credit]| -> String {
            c.iter().map(|c| self.credit(c)).collect::<Vec<_>>().join("\n")
        };
        let value = match known {
            Some((_, "printLogicalAddressCache")) => self.uuids(),
            Some((_, "printMembers")) => self.view(),
            Some((_, "printMessages")) => self.windows(|kind| kind == "multicast"),
            Some((_, "printConnections")) => self.windows(|kind| kind != "multicast"),
            Some((_, "printStability")) => self.stability(),
            Some((_, "printBlocked")) => self.blocked(),
            Some((_, "printSuspects")) => self.labels(&self.inspection.suspects),
            Some((_, "printHeard")) => self.heard(),
            Some(("MFC", _)) => credits(&self.inspection.multicast_credits),
            Some(_) => credits(&self.inspection.unicast_credits),
            None => "there is no such operation here; ask for ops".to_owned(),
        };
        vec![(which.to_owned(), format!("\n{value}"))]
    }

    fn windows(&self, kinds: impl Fn(&str) -> bool) -> String {
        let one = |w: &Window| {
            let Window { kind, low, delivered, received, messages, bytes, .. } = w;
            let peer = self.shared.label(w.peer);
            format!(
                "{peer}: {kind}, low={low}, delivered={delivered}, received={received}, \
                 messages={messages}, bytes={bytes}"
            )
        };
        let all = self.inspection.windows.iter().filter(|w| kinds(w.kind));
        all.map(one).collect::<Vec<_>>().join("\n")
    }

    fn stability(&self) -> String {
        let Some(s) = &self.inspection.stability else { return String::new() };
        let name = |m: &crate::Address| self.shared.label(*m);
        let oldest = s
            .oldest
            .as_ref()
            .map(|(m, n, age)| format!("oldest={} #{n}, age={:.1} s", name(m), age.as_secs_f64()));
        let oldest = oldest.unwrap_or_else(|| "oldest=none".to_owned());
        let waiting = format!("waiting_for={}", self.labels(&s.waiting_for));
        let held = |(of, n, by): &(crate::Address, i64, crate::Address)| {
            format!("{} from #{n} on by {}", name(of), name(by))
        };
        let held = s.held_back.iter().map(held).collect::<Vec<_>>().join(", ");
        format!("{oldest}\n{waiting}\nheld_back={held}")
    }

    fn credit(&self, c: &Credit) -> String {
        let Credit { balance, shown, waiting, unconsumed, ungranted, max, .. } = c;
        let peer = self.shared.label(c.peer);
        format!(
            "{peer}: balance={balance}, max={max}, shown={shown}, waiting={waiting}, \
             unconsumed={unconsumed}, ungranted={ungranted}"
        )
    }

    fn labels(&self, members: &[crate::Address]) -> String {
        members.iter().map(|m| self.shared.label(*m)).collect::<Vec<_>>().join(", ")
    }

    /// Who makes a send wait, and for how long already.
    fn blocked(&self) -> String {
        let find = |(l, n, _): &&(String, String, u64)| l == "CHANNEL" && n == "blocked_for_ms";
        let ms = self.inspection.counters.iter().find(find).map_or(0, |(.., v)| *v);
        format!("blocked_on={}\nblocked_for_ms={ms}", self.labels(&self.inspection.blocked_on))
    }

    /// What was heard of others.
    fn heard(&self) -> String {
        let i = &self.inspection;
        let one = |h: &Heard| {
            let from = h.from.map(|a| format!(" from {a}")).unwrap_or_default();
            format!("{} ({} times, {:.0} s ago{from})", h.what, h.times, h.ago.as_secs_f64())
        };
        let all = |list: &[Heard]| list.iter().map(one).collect::<Vec<_>>().join(", ");
        format!(
            "clusters_heard={}\nversions_heard={}\noutsiders_heard={}\ngarbage_heard={}",
            all(&i.clusters_heard),
            all(&i.versions_heard),
            all(&i.outsiders_heard),
            i.garbage_heard.as_ref().map(one).unwrap_or_default()
        )
    }
}
