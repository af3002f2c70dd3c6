//! Warnings about strangers, grouped by who and why: the first of a kind is told at once, those
//! like it are counted and told once a minute ("317 like it in the last minute").

use super::report::escaped;
use crate::codes;
use bytes::Bytes;
use rgroups_core::strangers::{Heard, Strangers};
use rgroups_core::wire::Version;
use rgroups_core::{Time, Uuid};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long those like the first are counted.
const PERIOD: Duration = Duration::from_secs(60);
/// After so long without another one, the next is a first one again.
const FORGET: Duration = Duration::from_secs(600);
/// What is normal while a view changes is told if it goes on for so long.
const LASTING: Duration = Duration::from_secs(5);

/// What was complained about. As bounded as the record of strangers.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    kinds: BTreeMap<What, Kind>,
}

/// Who and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Version(Version),
    Cluster(Bytes),
    Outsider(Uuid),
    Nowhere(Uuid),
    Garbage,
}

/// How far it was told.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// How often it was heard when it was looked at last.
    seen: u64,
    /// Those of them that were not told.
    untold: u64,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Not worth a line unless it lasts.
    Watched { since: Time },
    /// A line was written then.
    Told { at: Time },
}

/// One line to be logged.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) code: &'static str,
    pub(super) jgrp: Option<&'static str>,
    pub(super) text: String,
}

impl Complaints {
    /// What is to be told now. `name` gives the name of a member, safe to show.
    pub(super) fn lines(
        &mut self,
        now: Time,
        strangers: &Strangers,
        name: impl Fn(Uuid) -> String,
    ) -> Vec<Line> {
        let mut lines = Vec::new();
        // Packets of versions that go with ours are read, and no reason to complain.
        for (v, heard) in strangers.versions.iter().filter(|(v, _)| !v.compatible()) {
            lines.extend(self.look(now, What::Version(*v), heard, &name));
        }
        for (cluster, heard) in &strangers.clusters {
            lines.extend(self.look(now, What::Cluster(cluster.clone()), heard, &name));
        }
        for (member, heard) in &strangers.outsiders {
            lines.extend(self.look(now, What::Outsider(*member), heard, &name));
        }
        for (member, heard) in &strangers.nowhere {
            lines.extend(self.look(now, What::Nowhere(*member), heard, &name));
        }
        if let Some((_, heard)) = &strangers.garbage {
            lines.extend(self.look(now, What::Garbage, heard, &name));
        }
        lines
    }

    fn look(
        &mut self,
        now: Time,
        what: What,
        heard: &Heard,
        name: impl Fn(Uuid) -> String,
    ) -> Option<Line> {
        let watched = State::Watched { since: now };
        let kind =
            self.kinds.entry(what.clone()).or_insert(Kind { seen: 0, untold: 0, state: watched });
        let new = heard.times - kind.seen;
        kind.seen = heard.times;
        // What is watched begins with the first one.
        if matches!(kind.state, State::Watched { .. }) && kind.untold == 0 {
            kind.state = watched;
        }
        // After a long silence it is news.
        if let State::Told { at } = kind.state
            && kind.untold == 0
            && new > 0
            && now.since(at) >= FORGET
        {
            kind.state = watched;
        }
        kind.untold += new;
        let text = match kind.state {
            State::Watched { since } if new > 0 && now.since(since) >= patience(&what) => {
                line(&what, heard, name)
            }
            // What began long ago and went no further was normal.
            State::Watched { since } if now.since(since) >= PERIOD && new == 0 => {
                *kind = Kind { seen: heard.times, untold: 0, state: watched };
                return None;
            }
            State::Told { at } if kind.untold > 0 && now.since(at) >= PERIOD => {
                let (n, minutes) = (kind.untold, now.since(at).as_secs() / 60);
                let within =
                    if minutes < 2 { "minute".into() } else { format!("{minutes} minutes") };
                format!("{} ({n} like it in the last {within})", line(&what, heard, name))
            }
            State::Watched { .. } | State::Told { .. } => return None,
        };
        *kind = Kind { seen: heard.times, untold: 0, state: State::Told { at: now } };
        // Those that came together with the first are counted for the next line.
        if new > 1 {
            kind.untold = new - 1;
        }
        let code = code(&what);
        Some(Line { code, jgrp: codes::find(code).and_then(|c| c.jgrp), text })
    }
}

fn patience(what: &What) -> Duration {
    match what {
        What::Outsider(_) | What::Nowhere(_) => LASTING,
        What::Version(_) | What::Cluster(_) | What::Garbage => Duration::ZERO,
    }
}

fn code(what: &What) -> &'static str {
    match what {
        What::Version(_) => "RG0440",
        What::Cluster(_) => "RG0441",
        What::Outsider(_) => "RG0420",
        What::Nowhere(_) => "RG0402",
        What::Garbage => "RG0442",
    }
}

/// What happened.
fn line(what: &What, heard: &Heard, name: impl Fn(Uuid) -> String) -> String {
    let from = heard.from.map_or_else(|| "an unknown peer".to_owned(), |at| at.to_string());
    match what {
        What::Version(v) => {
            format!("dropped a packet from {from}: version {v}, ours is {}", Version::OURS)
        }
        What::Cluster(c) => {
            format!("dropped a message from {from}: cluster \"{}\" is not ours", escaped(c))
        }
        What::Outsider(m) => {
            format!("discarded a message of {}: not a member of the view", name(*m))
        }
        What::Nowhere(m) => format!(
            "no physical address of {} is known: what is for it is held, and the group is asked",
            name(*m)
        ),
        What::Garbage => format!("dropped what {from} sent: it cannot be decoded"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Version = Version(0x2900);

    fn heard(times: u64) -> Heard {
        let from = Some(([10, 0, 0, 9], 45588).into());
        Heard { times, last: Time::ZERO, from }
    }

    fn version(times: u64) -> Strangers {
        Strangers { versions: [(OLD, heard(times))].into(), ..Strangers::default() }
    }

    fn outsider(times: u64) -> Strangers {
        Strangers { outsiders: [(Uuid::new(1, 2), heard(times))].into(), ..Strangers::default() }
    }

    #[test]
    fn a_member_whose_address_stays_unknown_is_told_of_after_a_while() {
        let nowhere = |times| Strangers {
            nowhere: [(Uuid::new(1, 2), heard(times))].into(),
            ..Strangers::default()
        };
        let mut c = Complaints::default();
        assert_eq!(told(&mut c, 1, &nowhere(1)), []);
        let lines = told(&mut c, 7, &nowhere(5));
        assert_eq!((lines[0].code, lines[0].jgrp), ("RG0402", Some("JGRP000032")));
        assert!(lines[0].text.starts_with("no physical address of B is known"), "{lines:?}");
    }

    fn told(c: &mut Complaints, seconds: u64, s: &Strangers) -> Vec<Line> {
        c.lines(Time(seconds * 1_000_000_000), s, |_| "B".to_owned())
    }

    #[test]
    fn the_first_is_told_at_once_and_those_like_it_once_a_minute() {
        let mut c = Complaints::default();
        let first = told(&mut c, 1, &version(1));
        assert_eq!((first[0].code, first[0].jgrp), ("RG0440", Some("JGRP000010")));
        let text = "dropped a packet from 10.0.0.9:45588: version 5.4.0, ours is 5.5.6";
        assert_eq!(first[0].text, text);
        assert_eq!(told(&mut c, 2, &version(301)), []);
        assert_eq!(told(&mut c, 60, &version(318)), []);
        let again = told(&mut c, 61, &version(318));
        assert!(again[0].text.ends_with("(317 like it in the last minute)"), "{again:?}");
        assert_eq!(told(&mut c, 122, &version(318)), [], "nothing came since");
    }

    #[test]
    fn those_that_come_with_the_first_are_counted() {
        let mut c = Complaints::default();
        assert_eq!(told(&mut c, 1, &version(100)).len(), 1);
        let again = told(&mut c, 61, &version(100));
        assert!(again[0].text.ends_with("(99 like it in the last minute)"), "{again:?}");
    }

    #[test]
    fn messages_of_leavers_are_told_only_if_they_go_on() {
        let mut c = Complaints::default();
        assert_eq!(told(&mut c, 1, &outsider(3)), []);
        assert_eq!(told(&mut c, 3, &outsider(6)), []);
        let lasting = told(&mut c, 7, &outsider(7));
        assert_eq!((lasting.len(), lasting[0].code), (1, "RG0420"));
        assert!(lasting[0].text.contains("a message of B"), "{lasting:?}");
    }

    #[test]
    fn a_version_that_goes_with_ours_is_no_complaint() {
        let near = Version(Version::OURS.0 - 1);
        let s = Strangers { versions: [(near, heard(9))].into(), ..Strangers::default() };
        assert_eq!(told(&mut Complaints::default(), 1, &s), []);
    }

    #[test]
    fn what_was_quiet_for_long_is_news_again() {
        let mut c = Complaints::default();
        assert_eq!(told(&mut c, 1, &version(1)).len(), 1);
        assert_eq!(told(&mut c, 700, &version(1)), []);
        let news = told(&mut c, 701, &version(2));
        assert!(!news[0].text.contains("like it"), "{news:?}");
    }
}
