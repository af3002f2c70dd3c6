//! What a scenario can insist on.
//!
//! All expectations are listed in `language.md`.

use super::parse::Words;
use crate::cluster::Cluster;
use crate::history::{Fact, What};
use crate::swarm::is_one_group;
use crate::transcript;
use rgroups_core::event::{Answer, WindowKind};
use rgroups_core::{Duration, Pool, Query, Trace, Uuid};

/// A condition, and how long it may take to come true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expectation {
    what: Condition,
    within: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    View(String, Vec<String>),
    ViewsEqual,
    Delivered {
        at: String,
        count: usize,
        of: String,
    },
    /// Of anybody, or of these.
    NoSuspicion(Vec<String>),
    SuspicionOf(String),
    Gone(String),
    Blocked(String),
    Unblocked(String),
    ViewsAtMost(String, usize),
    BytesAtMost(String, u64),
    /// Nothing of any account is lost or exists twice. Holds only when nothing is on its way.
    CreditsWhole,
    Quiet,
}

impl Expectation {
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let first = words.next("what is expected")?;
        let what = match first {
            "view" => {
                let node = words.next("the node")?.trim_end_matches(':').to_owned();
                let mut members = Vec::new();
                while words.peek().is_some_and(|w| w != "within") {
                    members.push(words.next("a member")?.to_owned());
                }
                Condition::View(node, members)
            }
            "views" => expect_word(words, "equal", Condition::ViewsEqual)?,
            "credits" => expect_word(words, "whole", Condition::CreditsWhole)?,
            "no" => {
                expect_word(words, "suspicion", ())?;
                let of = if words.next_if("of") { words.rest() } else { Vec::new() };
                Condition::NoSuspicion(of)
            }
            "suspicion" => {
                expect_word(words, "of", ())?;
                Condition::SuspicionOf(words.next("the suspect")?.to_owned())
            }
            "quiet" => {
                let within = words.duration()?;
                return Ok(Self { what: Condition::Quiet, within });
            }
            node => Self::of_node(node, words)?,
        };
        let within = if words.next_if("within") { words.duration()? } else { Duration::ZERO };
        Ok(Self { what, within })
    }

    fn of_node(node: &str, words: &mut Words<'_>) -> Result<Condition, String> {
        let node = node.to_owned();
        Ok(match words.next("what is expected of the node")? {
            "delivered" => {
                let count = words.number("how many")?;
                expect_word(words, "of", ())?;
                Condition::Delivered { at: node, count, of: words.next("the sender")?.to_owned() }
            }
            "gone" => Condition::Gone(node),
            "blocked" => Condition::Blocked(node),
            "unblocked" => Condition::Unblocked(node),
            "has" => {
                expect_word(words, "at", ())?;
                expect_word(words, "most", ())?;
                let n = words.number("how many")?;
                expect_word(words, "views", Condition::ViewsAtMost(node, n))?
            }
            "holds" => {
                expect_word(words, "at", ())?;
                expect_word(words, "most", ())?;
                let n = words.number("how many")?;
                expect_word(words, "bytes", Condition::BytesAtMost(node, n))?
            }
            other => return Err(format!("{other:?} cannot be expected")),
        })
    }

    /// Lets time pass as far as needed, and says what is wrong if it does not come true.
    pub(super) fn check(&self, cluster: &mut Cluster) -> Result<(), String> {
        if self.what == Condition::Quiet {
            return self.stays_quiet(cluster);
        }
        if cluster.run_until(self.within, |c| self.what.holds(c)) {
            return Ok(());
        }
        Err(self.what.what_is(cluster))
    }

    fn stays_quiet(&self, cluster: &mut Cluster) -> Result<(), String> {
        let before = cluster.history().facts.len();
        cluster.run_for(self.within);
        let h = cluster.history();
        let noise = h.facts[before..].iter().find(|f| match &f.what {
            What::Trace(t) => matches!(
                t,
                Trace::Multicast { .. }
                    | Trace::Unicast { .. }
                    | Trace::XmitRequested { .. }
                    | Trace::Retransmitted { .. }
                    | Trace::CreditAsked { .. }
            ),
            _ => false,
        });
        match noise {
            None => Ok(()),
            Some(f) => {
                let who = f.life.map_or("-", |l| h.name(l));
                Err(format!("{who} {} at {}", transcript::describe(&f.what, h), f.at))
            }
        }
    }
}

fn expect_word<T>(words: &mut Words<'_>, word: &str, then: T) -> Result<T, String> {
    let got = words.next(word)?;
    if got == word { Ok(then) } else { Err(format!("{word:?} is expected, not {got:?}")) }
}

impl Condition {
    fn holds(&self, c: &Cluster) -> bool {
        match self {
            Condition::View(node, members) => view_names(c, node).as_ref() == Some(members),
            Condition::ViewsEqual => is_one_group(c),
            Condition::Delivered { at, count, of } => delivered(c, at, of) == *count,
            Condition::NoSuspicion(of) if of.is_empty() => suspects(c).is_empty(),
            Condition::NoSuspicion(of) => !suspects(c).iter().any(|s| of.contains(s)),
            Condition::SuspicionOf(node) => suspects(c).iter().any(|s| s == node),
            Condition::Gone(node) => c.life(node).is_none(),
            Condition::Blocked(node) => pending(c, node) > 0,
            Condition::Unblocked(node) => pending(c, node) == 0,
            Condition::ViewsAtMost(node, n) => views(c, node) <= *n,
            Condition::BytesAtMost(node, n) => held_bytes(c, node) <= *n,
            Condition::CreditsWhole => broken_accounts(c).is_empty(),
            Condition::Quiet => true,
        }
    }

    fn what_is(&self, c: &Cluster) -> String {
        match self {
            Condition::View(node, _) => match view_names(c, node) {
                Some(members) => format!("the view of {node} is {}", members.join(" ")),
                None => format!("{node} has no view"),
            },
            Condition::ViewsEqual => {
                let all: Vec<String> = c
                    .names()
                    .filter(|n| c.life(n).is_some())
                    .map(|n| match c.view(n) {
                        Some(v) => format!("{n}: {}", transcript::view(&v, c.history())),
                        None => format!("{n}: no view"),
                    })
                    .collect();
                format!("views differ: {}", all.join("; "))
            }
            Condition::Delivered { at, of, .. } => {
                format!("{at} delivered {} of {of}", delivered(c, at, of))
            }
            Condition::NoSuspicion(_) => format!("suspected were: {}", suspects(c).join(", ")),
            Condition::SuspicionOf(node) => format!("{node} was not suspected"),
            Condition::Gone(node) => format!("{node} still runs"),
            Condition::Blocked(node) => format!("no send of {node} waits"),
            Condition::Unblocked(node) => format!("{} sends of {node} wait", pending(c, node)),
            Condition::ViewsAtMost(node, _) => format!("{node} installed {}", views(c, node)),
            Condition::BytesAtMost(node, _) => format!("{node} holds {}", held_bytes(c, node)),
            Condition::CreditsWhole => broken_accounts(c).join("; "),
            Condition::Quiet => String::new(),
        }
    }
}

fn view_names(c: &Cluster, node: &str) -> Option<Vec<String>> {
    let view = c.view(node)?;
    Some(view.members.iter().map(|m| c.history().name_of(*m)).collect())
}

fn delivered(c: &Cluster, at: &str, of: &str) -> usize {
    let h = c.history();
    let of_node =
        |life: Uuid| h.life_of(life).is_some_and(|l| Some(h.lives[l.0].host) == c.host(of));
    let life = c.life(at);
    let hit = |f: &&Fact| {
        f.life == life && matches!(f.what, What::Delivered { from, .. } if of_node(from))
    };
    h.facts.iter().filter(hit).count()
}

fn suspects(c: &Cluster) -> Vec<String> {
    let h = c.history();
    let mut names: Vec<String> = h
        .facts
        .iter()
        .filter_map(|f| match &f.what {
            What::Trace(Trace::Suspected { member, .. }) => Some(h.name_of(*member)),
            _ => None,
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Sends of the running incarnation that are not resolved.
fn pending(c: &Cluster, node: &str) -> usize {
    let Some(life) = c.life(node) else { return 0 };
    c.history().facts_of(life).fold(0, |n, (_, f)| match f.what {
        What::Sent(_) => n + 1,
        What::Resolved(..) => n - 1,
        _ => n,
    })
}

fn views(c: &Cluster, node: &str) -> usize {
    c.life(node).map_or(0, |life| c.history().views_of(life).len())
}

fn held_bytes(c: &Cluster, node: &str) -> u64 {
    let Some(node) = c.node(node) else { return 0 };
    let answers = node.stack().ask_all(&Query::Windows);
    let bytes = answers.into_iter().map(|a| match a {
        Answer::Windows(list) => {
            list.iter().filter(|g| g.kind == WindowKind::Multicast).map(|g| g.bytes).sum()
        }
        _ => 0,
    });
    bytes.sum()
}

/// Accounts between running nodes whose parts do not add up to the maximum.
fn broken_accounts(c: &Cluster) -> Vec<String> {
    let account = |of: &str, pool: Pool, with: Uuid| {
        let Answer::Credits(list) = c.node(of)?.stack().ask(&Query::Credits(pool))? else {
            return None;
        };
        list.into_iter().find(|a| a.peer == with)
    };
    let id = |name: &str| c.life(name).map(|l| c.history().id(l));
    let running: Vec<(&str, Uuid)> = c.names().filter_map(|n| Some((n, id(n)?))).collect();
    let mut broken = Vec::new();
    for pool in [Pool::Multicast, Pool::Unicast] {
        for (s, sender) in &running {
            for (r, receiver) in &running {
                let pair = account(s, pool, *receiver).zip(account(r, pool, *sender));
                let Some((mine, theirs)) = pair else { continue };
                let sum = mine.balance + theirs.unconsumed + theirs.ungranted;
                if sum != mine.max {
                    broken.push(format!("{s} to {r} ({pool:?}): {sum} of {}", mine.max));
                }
            }
        }
    }
    broken
}
