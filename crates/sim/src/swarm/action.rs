//! Events of a run in the words of scenarios (`script/language.md`).

use super::draw::Action;
use crate::cluster::{Appetite, Errand, Outcall, Outgoing, Provision};
use rgroups_core::Duration;
use std::fmt;

impl Action {
    /// The node that it happens to, if it is one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Action::Start(n)
            | Action::Leave(n)
            | Action::Crash(n)
            | Action::PowerOff(n)
            | Action::Restart(n)
            | Action::Freeze(n)
            | Action::Resume(n)
            | Action::Slow(n, _)
            | Action::Appetite(n, _)
            | Action::Reset(n)
            | Action::Send(n, _)
            | Action::Call(n, _)
            | Action::Count(n, ..)
            | Action::Fetch(n, ..)
            | Action::Provide(n, _)
            | Action::Lock(n, ..) => Some(n),
            Action::Partition(_) | Action::Cut(..) | Action::Heal => None,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Start(n) => write!(f, "start {n}"),
            Action::Leave(n) => write!(f, "leave {n}"),
            Action::Crash(n) => write!(f, "crash {n}"),
            Action::PowerOff(n) => write!(f, "poweroff {n}"),
            Action::Restart(n) => write!(f, "restart {n}"),
            Action::Freeze(n) => write!(f, "freeze {n}"),
            Action::Resume(n) => write!(f, "resume {n}"),
            Action::Slow(n, by) => write!(f, "slow {n} {}", millis(*by)),
            Action::Appetite(n, Appetite::Everything) => write!(f, "consume {n} on"),
            Action::Appetite(n, Appetite::Nothing) => write!(f, "consume {n} off"),
            Action::Appetite(n, Appetite::Rate(rate)) => write!(f, "consume {n} {rate}"),
            Action::Partition(groups) => {
                let groups: Vec<String> = groups.iter().map(|g| g.join(" ")).collect();
                write!(f, "cut {}", groups.join(" | "))
            }
            Action::Cut(from, to) => write!(f, "cut {from} > {to}"),
            Action::Heal => f.write_str("heal"),
            Action::Reset(n) => write!(f, "reset {n}"),
            Action::Send(from, m) => write_send(f, from, m),
            Action::Call(from, call) => write_call(f, from, call),
            Action::Lock(n, lock, within, hold) => {
                write!(f, "lock {n} {lock} within {} for {}", millis(*within), millis(*hold))
            }
            Action::Count(n, counter, action, within) => {
                write!(f, "count {n} {counter} {action:?} within {}", millis(*within))
            }
            Action::Fetch(n, from, within) => {
                write!(f, "fetch {n}")?;
                if let Some(from) = from {
                    write!(f, " from {from}")?;
                }
                write!(f, " within {}", millis(*within))
            }
            Action::Provide(n, Provision::Gives) => write!(f, "state {n} on"),
            Action::Provide(n, Provision::Refuses) => write!(f, "state {n} off"),
            Action::Provide(n, Provision::Silent) => write!(f, "state {n} silent"),
        }
    }
}

fn write_send(f: &mut fmt::Formatter<'_>, from: &str, m: &Outgoing) -> fmt::Result {
    write!(f, "send {from}")?;
    if let Some(to) = &m.to {
        write!(f, " to {to}")?;
    }
    write!(f, " {}", m.size)?;
    for (on, word) in [
        (m.oob, "oob"),
        (m.unreliable, "unreliable"),
        (m.try_only, "try"),
        (!m.loopback, "noloop"),
        (m.sync.is_some(), "rsvp"),
    ] {
        if on {
            write!(f, " {word}")?;
        }
    }
    if let Some(among) = &m.among {
        write!(f, " among {}", among.join(" "))?;
    }
    m.within.map_or(Ok(()), |d| write!(f, " within {}", millis(d)))
}

fn write_call(f: &mut fmt::Formatter<'_>, from: &str, c: &Outcall) -> fmt::Result {
    let whom = c.to.as_ref().map_or_else(|| "all".to_owned(), |to| to.join(" "));
    let wait = format!("{:?}", c.wait).to_lowercase();
    let errand = match c.errand {
        Errand::Answer => "answer".to_owned(),
        Errand::After(d) => format!("after {}", millis(d)),
        Errand::Fail => "fail".to_owned(),
        Errand::Unknown => "unknown".to_owned(),
        Errand::Hang => "hang".to_owned(),
        Errand::Nest(depth) => format!("nest {depth}"),
    };
    write!(f, "call {from} to {whom} {} {errand} wait {wait} within {}", c.size, millis(c.within))
}

fn millis(d: Duration) -> String {
    format!("{}ms", d.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rgroups_core::rpc::Wait;

    #[test]
    fn events_read_as_in_scenarios() {
        let mut m = Outgoing::new(Some("B"), 100);
        m.oob = true;
        let call = Outcall {
            to: Some(vec!["B".into(), "C".into()]),
            wait: Wait::First,
            within: Duration::from_secs(1),
            size: 20,
            errand: Errand::Nest(2),
        };
        let groups = vec![vec!["A".to_owned(), "B".to_owned()], vec!["C".to_owned()]];
        for (action, text) in [
            (Action::Send("A".into(), m), "send A to B 100 oob"),
            (Action::Call("A".into(), call), "call A to B C 20 nest 2 wait first within 1000ms"),
            (Action::Partition(groups), "cut A B | C"),
            (
                Action::Fetch("A".into(), Some("B".into()), Duration::from_secs(2)),
                "fetch A from B within 2000ms",
            ),
            (Action::Provide("A".into(), Provision::Silent), "state A silent"),
            (Action::Slow("A".into(), Duration::from_millis(50)), "slow A 50ms"),
            (Action::Appetite("A".into(), Appetite::Nothing), "consume A off"),
        ] {
            assert_eq!(action.to_string(), text);
        }
    }
}
