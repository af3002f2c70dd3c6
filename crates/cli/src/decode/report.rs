//! Printing what was decoded, and at the end what was not.

use super::capture::Stamp;
use super::network::Ends;
use super::speech::{Said, monitor_message};
use super::streams::Unread;
use super::tree;
use crate::output;
use rgroups_wire::show::show_message;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Where something was said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Number of the packet that completed it.
    pub(crate) number: u64,
    pub(crate) time: Option<Stamp>,
    pub(crate) via: &'static str,
    pub(crate) ends: Ends,
}

/// Prints as things come.
#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
    first: Option<Stamp>,
    packets: u64,
    /// By form, how many.
    decoded: BTreeMap<&'static str, u64>,
    /// What says nothing here, by where and why: how often, how many bytes.
    unread: BTreeMap<(String, String), (u64, usize)>,
    undecodable: Vec<String>,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            first: None,
            packets: 0,
            decoded: BTreeMap::new(),
            unread: BTreeMap::new(),
            undecodable: Vec::new(),
        }
    }

    /// A packet of the capture.
    pub(crate) fn packet(&mut self, time: Option<Stamp>) {
        self.packets += 1;
        self.first = self.first.or(time);
    }

    /// Something was said.
    pub(crate) fn said(&mut self, at: Place, bytes: Option<usize>, said: &Said) {
        let (kind, tree) = tree::json(said);
        if let Said::Undecodable(why) = said {
            self.undecodable.push(format!("#{} {} {}: {why}", at.number, at.via, at.ends));
        } else {
            *self.decoded.entry(kind).or_default() += 1;
        }
        if self.json {
            let mut o = json!({
                "schema": 1, "ts": at.time.map(rfc3339), "type": kind, "packet": at.number,
                "via": at.via, "from": at.ends.from.to_string(), "to": at.ends.to.to_string(),
            });
            if let (Some(o), Value::Object(tree)) = (o.as_object_mut(), tree) {
                o.extend(tree);
            }
            output::line(&o.to_string());
            return;
        }
        let mut head = format!("#{}", at.number);
        if let (Some(first), Some(time)) = (self.first, at.time) {
            head += &format!(" +{:.6}", since(first, time));
        }
        head += &format!(" {} {}", at.via, at.ends);
        if let Some(n) = bytes {
            head += &format!(", {n} bytes");
        }
        output::line(&head);
        for line in text(said).lines() {
            output::line(&format!("  {line}"));
        }
    }

    /// Bytes of a stream say nothing here.
    pub(crate) fn unread(&mut self, at: Place, unread: &Unread) {
        let entry = self.unread.entry((format!("{} {}", at.via, at.ends), unread.why.into()));
        let (times, bytes) = entry.or_default();
        *times += 1;
        *bytes += unread.bytes;
    }

    /// A packet says nothing here.
    pub(crate) fn nothing(&mut self, place: String, why: String, size: usize) {
        let (times, bytes) = self.unread.entry((place, why)).or_default();
        *times += 1;
        *bytes += size;
    }

    /// The end. True if something that claims to be JGroups could not be decoded.
    pub(crate) fn finish(self) -> bool {
        if self.json {
            let unread = self.unread.iter().map(|((place, why), (times, bytes))| {
                json!({"where": place, "reason": why, "times": times, "bytes": bytes})
            });
            let end = json!({
                "schema": 1, "ts": output::timestamp(), "type": "summary",
                "packets": self.packets, "decoded": self.decoded,
                "undecodable": self.undecodable, "not_decoded": unread.collect::<Vec<_>>(),
            });
            output::line(&end.to_string());
            return !self.undecodable.is_empty();
        }
        let decoded: Vec<String> =
            self.decoded.iter().map(|(kind, n)| format!("{n} {}", plural(kind))).collect();
        let decoded = if decoded.is_empty() { "nothing".to_owned() } else { decoded.join(", ") };
        output::line(&format!("{} packets captured; decoded: {decoded}", self.packets));
        if !self.undecodable.is_empty() {
            output::line("looks like JGroups and could not be decoded:");
            self.undecodable.iter().for_each(|u| output::line(&format!("  {u}")));
        }
        if !self.unread.is_empty() {
            output::line("not looked into:");
            for ((place, why), (times, bytes)) in &self.unread {
                let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
                output::line(&format!("  {place}{why} ({times} times, {bytes} bytes)"));
            }
        }
        !self.undecodable.is_empty()
    }
}

/// The tree of one thing as text.
pub(crate) fn text(said: &Said) -> String {
    match said {
        Said::Packet(frame) => {
            let mut tree = rgroups_wire::show_frame(frame);
            if !frame.version.compatible() {
                tree.push_str("! members of 5.5 drop packets of this version\n");
            }
            tree
        }
        Said::Handshake(h) => format!("handshake: version {}, from {}", h.version, h.peer),
        Said::GracefulClose => "graceful close".into(),
        Said::Monitor(f) => format!("FD_SOCK2\n{}", show_message(&monitor_message(f))),
        Said::Mping(m) => format!("MPING\n{}", show_message(m)),
        Said::ProbeRequest { passcode, text } => {
            let with = if *passcode { " with a passcode" } else { "" };
            format!("probe request{with}: {}", output::escaped(text))
        }
        Said::ProbeResponse(text) => {
            let lines: Vec<String> =
                text.lines().map(|l| format!("  {}", output::escaped(l))).collect();
            format!("probe response:\n{}", lines.join("\n"))
        }
        Said::Undecodable(why) => format!("! cannot be decoded: {why}"),
    }
}

fn plural(kind: &str) -> String {
    match kind {
        "packet" => "JGroups packets".into(),
        "handshake" => "handshakes".into(),
        "graceful_close" => "graceful closes".into(),
        "fd_sock2" => "FD_SOCK2 frames".into(),
        "mping" => "MPING datagrams".into(),
        other => format!("{}s", other.replace('_', " ")),
    }
}

fn since(first: Stamp, time: Stamp) -> f64 {
    let seconds = time.secs as f64 - first.secs as f64;
    seconds + (f64::from(time.nanos) - f64::from(first.nanos)) / 1e9
}

fn rfc3339(t: Stamp) -> String {
    output::rfc3339(t.secs, t.nanos / 1_000_000)
}
