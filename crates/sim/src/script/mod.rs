//! Scenarios: text files with commands and the transcript that is expected of them.
//!
//! ```text
//! start A B C
//! run 5s
//!     A: view [A|0] (1) [A]
//!     …
//! cut A B | C
//! run 20s
//!     A: suspects C
//!     …
//! heal
//! expect views equal within 60s
//! ```
//!
//! Whatever a scenario shows, the oracles judge it as well. The language is described in
//! [`Script::run`].

mod expect;
mod parse;
mod report;

use crate::cluster::{Appetite, Cluster, Outgoing, Settings, transport_addresses};
use crate::filter::{Action, Pattern, Rule};
use crate::network::Link;
use crate::oracle::{self, Conditions};
use parse::{Diet, Line, NodeVerb, RuleLine, SendLine};
use rgroups_core::app::Sync;
use rgroups_core::attributes::{AttrValue, ByteSize};
use rgroups_core::plan::StackPlan;
use rgroups_core::protocols::frag::Frag2Config;
use rgroups_core::{Duration, SyncLevel};
use std::fmt;
use std::path::Path;

/// A scenario that was read.
#[derive(Clone, Debug)]
pub struct Script {
    lines: Vec<Source>,
}

/// One line as it is in the file, with the transcript below it.
#[derive(Clone, Debug)]
struct Source {
    number: usize,
    text: String,
    expected: Vec<String>,
}

/// Why a scenario failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The line of the file, from 1.
    pub line: usize,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// A scenario after its run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What is wrong, in order; empty if all is well.
    pub failures: Vec<Failure>,
    /// The file as it would be right: same commands, transcript as it happened.
    pub rewritten: String,
    /// The whole transcript, with times.
    pub transcript: Vec<String>,
}

/// Runs the scenario in a file. With `rewrite`, the transcripts in the file are replaced by what
/// happened; commands, comments and expectations stay.
pub fn run_file(path: &Path, rewrite: bool) -> std::io::Result<Ran> {
    let text = std::fs::read_to_string(path)?;
    let ran = Script::read(&text).run();
    if rewrite && ran.rewritten != text {
        std::fs::write(path, &ran.rewritten)?;
    }
    Ok(ran)
}

impl Script {
    /// Takes a file apart. Mistakes are reported by [`Script::run`].
    #[must_use]
    pub fn read(text: &str) -> Script {
        let mut lines: Vec<Source> = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let indented = line.starts_with(char::is_whitespace) && !line.trim().is_empty();
            match lines.last_mut() {
                Some(above) if indented => above.expected.push(line.trim().to_owned()),
                _ => {
                    let text = line.trim_end().to_owned();
                    lines.push(Source { number: i + 1, text, expected: Vec::new() });
                }
            }
        }
        Script { lines }
    }

    /// Runs it.
    ///
    #[doc = include_str!("language.md")]
    #[must_use]
    pub fn run(&self) -> Ran {
        let mut stage = Stage::new();
        let mut failures = Vec::new();
        let mut rewritten = String::new();
        for source in &self.lines {
            let mut fail = |text: String| failures.push(Failure { line: source.number, text });
            rewritten += &source.text;
            rewritten.push('\n');
            let command = source.text.split('#').next().unwrap_or_default().trim();
            if command.is_empty() {
                continue;
            }
            let before = stage.facts();
            if let Err(why) = parse::parse(command).and_then(|line| stage.perform(line)) {
                fail(why);
            }
            let shown = stage.report(before);
            for line in &shown {
                rewritten += &format!("    {line}\n");
            }
            if shown != source.expected {
                fail(difference(&source.expected, &shown));
            }
        }
        let end = self.lines.last().map_or(0, |l| l.number);
        failures.extend(stage.judge().into_iter().map(|text| Failure { line: end, text }));
        let transcript = stage.cluster.as_ref().map(|c| c.transcript().lines().to_vec());
        Ran { failures, rewritten, transcript: transcript.unwrap_or_default() }
    }
}

fn difference(expected: &[String], shown: &[String]) -> String {
    let at = expected.iter().zip(shown).take_while(|(a, b)| a == b).count();
    match (expected.get(at), shown.get(at)) {
        (Some(a), Some(b)) => format!("expected {a:?}, but {b:?}"),
        (Some(a), None) => format!("expected {a:?}, but nothing more"),
        (None, Some(b)) => format!("not expected: {b:?}"),
        (None, None) => "transcripts differ".to_owned(),
    }
}

/// A scenario in progress: what was set up, and the cluster once there is one.
struct Stage {
    stack: String,
    seed: u64,
    attributes: Vec<(String, String, String)>,
    link: Link,
    cluster: Option<Cluster>,
}

/// Nodes that a TCP stack knows of from the beginning.
const INITIAL_HOSTS: usize = 8;

impl Stage {
    fn new() -> Self {
        let (attributes, link) = (Vec::new(), Link::lan());
        Self { stack: "udp".into(), seed: 1, attributes, link, cluster: None }
    }

    fn facts(&self) -> usize {
        self.cluster.as_ref().map_or(0, |c| c.history().facts.len())
    }

    fn report(&self, from: usize) -> Vec<String> {
        self.cluster.as_ref().map_or_else(Vec::new, |c| report::report(c.history(), from))
    }

    fn perform(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Stack(name) => self.stack = name,
            Line::Seed(seed) => self.seed = seed,
            Line::Set { protocol, attribute, value } => {
                self.attributes.push((protocol, attribute, value));
            }
            Line::Link(changes) => {
                self.link = parse::change_link(self.link, &changes)?;
                if let Some(c) = &mut self.cluster {
                    c.set_links(self.link);
                }
            }
            line => {
                if self.cluster.is_none() {
                    self.cluster = Some(self.build()?);
                }
                let Some(cluster) = &mut self.cluster else { return Ok(()) };
                act(cluster, line)?;
            }
        }
        Ok(())
    }

    fn build(&self) -> Result<Cluster, String> {
        let mut plan = match self.stack.as_str() {
            "udp" => StackPlan::udp(),
            "tcp" => StackPlan::tcp(transport_addresses(INITIAL_HOSTS)),
            "mping" => StackPlan::tcp_mping(),
            "udp-new" => StackPlan::udp_new(),
            "tcp-new" => StackPlan::tcp_new(transport_addresses(INITIAL_HOSTS)),
            "inproc" => StackPlan::in_process(),
            other => return Err(format!("{other:?} is no stack")),
        };
        for (protocol, attribute, value) in &self.attributes {
            plan.set(protocol, attribute, value).map_err(|e| e.to_string())?;
        }
        let problems = plan.validate();
        if let Some(p) = problems.iter().find(|p| !p.is_warning()) {
            return Err(p.to_string());
        }
        Ok(Cluster::new(Settings { link: self.link, ..Settings::new(self.seed, plan) }))
    }

    fn frag_size(&self) -> u64 {
        let set = self.attributes.iter().rev().find(|(p, a, _)| p == "FRAG2" && a == "frag_size");
        set.and_then(|(_, _, v)| ByteSize::parse(v)).unwrap_or(Frag2Config::default().frag_size).0
    }

    fn judge(&self) -> Vec<String> {
        let Some(c) = &self.cluster else { return Vec::new() };
        let conditions = Conditions {
            max_credits: u64::MAX / 64,
            stable_max_bytes: u64::MAX / 1024,
            largest_message: 1 << 24,
            frag_size: self.frag_size(),
            members: c.names().count() as u64,
            calm: false,
            loss: self.link.loss,
            duplication: self.link.duplication > 0.0,
            flow_control: true,
            ordered: false,
            states: false,
            windows: None,
            // A script sets the times of the stack as it likes, and says itself what it expects when.
            bounds: None,
        };
        oracle::check_all(c.history(), &conditions).iter().map(ToString::to_string).collect()
    }
}

fn act(c: &mut Cluster, line: Line) -> Result<(), String> {
    match line {
        Line::Nodes(verb, names) => names.iter().for_each(|n| act_on(c, verb, n)),
        Line::Slow(name, by) => c.slow(&name, by),
        Line::Drift(name, ppm) => c.drift(&name, ppm),
        Line::Garbage(name, times) => c.garbage(&name, times),
        Line::Consume(name, diet) => {
            let appetite = match diet {
                Diet::On => Appetite::Everything,
                Diet::Off => Appetite::Nothing,
                Diet::Rate(rate) => Appetite::Rate(rate),
            };
            c.appetite(&name, appetite);
        }
        Line::Partition(groups) => {
            let names: Vec<Vec<&str>> =
                groups.iter().map(|g| g.iter().map(String::as_str).collect()).collect();
            c.partition(&names.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        Line::Cut(from, to) => c.cut(&from, &to),
        Line::Heal => c.heal(),
        Line::Rule(r) => c.add_rule(rule(c, r)?),
        Line::Pass => c.clear_rules(),
        Line::Send(s) => send(c, &s)?,
        Line::Run(how_long) => c.run_for(how_long),
        Line::Expect(e) => return e.check(c),
        Line::Stack(_) | Line::Seed(_) | Line::Set { .. } | Line::Link(_) => {}
    }
    Ok(())
}

fn act_on(c: &mut Cluster, verb: NodeVerb, name: &str) {
    match verb {
        NodeVerb::Start => c.start(name),
        NodeVerb::Leave => c.leave(name),
        NodeVerb::Crash => c.crash(name),
        NodeVerb::PowerOff => c.power_off(name),
        NodeVerb::Restart => c.restart(name),
        NodeVerb::Freeze => c.freeze(name),
        NodeVerb::Resume => c.resume(name),
        NodeVerb::Reset => c.reset_connections(name),
    }
}

fn rule(c: &Cluster, r: RuleLine) -> Result<Rule, String> {
    let host = |name: Option<String>| match name {
        None => Ok(None),
        Some(n) => c.host(&n).map(Some).ok_or_else(|| format!("there is no node {n:?} yet")),
    };
    let pattern = Pattern {
        from: host(r.from)?,
        to: host(r.to)?,
        protocol: r.protocol,
        kind: r.kind,
        seqno: r.seqno,
    };
    let action = r.delay.map_or(Action::Drop, Action::Delay);
    Ok(Rule::new(pattern, action, r.times))
}

fn send(c: &mut Cluster, s: &SendLine) -> Result<(), String> {
    let message = Outgoing {
        oob: s.oob,
        unreliable: false,
        try_only: s.try_only,
        loopback: s.loopback,
        within: s.within,
        sync: s.rsvp.then(|| Sync {
            level: SyncLevel::OnDeliver,
            timeout: Some(s.within.unwrap_or(Duration::from_secs(10))),
            to: None,
        }),
        ..Outgoing::new(s.to.as_deref(), s.size)
    };
    for _ in 0..s.count {
        if c.send(&s.from, &message).is_none() {
            return Err("sender or receiver does not run".into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_taken_apart_into_commands_and_transcripts() {
        let script = Script::read("# title\n\nstart A\n    A: view\nrun 1s\n");
        assert_eq!(script.lines.len(), 4);
        assert_eq!(script.lines[2].expected, ["A: view"]);
        assert_eq!(script.lines[3].number, 5);
    }

    #[test]
    fn a_mistake_is_reported_with_its_line() {
        let ran = Script::read("seed 1\ndance A\n").run();
        assert_eq!(ran.failures[0].to_string(), "line 2: \"dance\" is no command");
    }

    #[test]
    fn comments_and_empty_lines_survive_a_rewrite() {
        let text = "# a comment\n\nseed 3 # why not\n";
        assert_eq!(Script::read(text).run().rewritten, text);
    }
}
