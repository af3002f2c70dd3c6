//! Large groups on the simulated clock: how long they take to form, to lose a member and to merge, and
//! what they send for it.

use crate::cluster::{Cluster, Settings, transport_addresses};
use crate::swarm::node_name;
use crate::traffic::Traffic;
use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, Time};
use std::time::Instant;

/// How the members of a large group reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Datagrams with IP multicast.
    Udp,
    /// Connections, with three initial hosts.
    Tcp,
}

impl std::str::FromStr for Medium {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "udp" => Ok(Medium::Udp),
            "tcp" => Ok(Medium::Tcp),
            other => Err(format!("no transport {other:?}; there are udp and tcp")),
        }
    }
}

/// A part of the life of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One process begins; ten seconds later all others start at the same moment.
    Join,
    /// A minute in which nothing happens.
    Idle,
    /// A member in the middle dies.
    Crash,
    /// The network splits in halves, until both have noticed.
    Split,
    /// It heals.
    Merge,
}

impl Step {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Step::Join => "join",
            Step::Idle => "idle for a minute",
            Step::Crash => "one crash",
            Step::Split => "split in halves",
            Step::Merge => "merge",
        }
    }
}

/// What a step took.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Which.
    pub step: Step,
    /// Members at its beginning, with those who join.
    pub members: usize,
    /// Until all had the view that was to come; `None`: they had not within ten minutes.
    pub took: Option<Duration>,
    /// What left the nodes meanwhile.
    pub traffic: Traffic,
    /// Views that the first member installed meanwhile.
    pub views: u64,
    /// How long the simulation of it took.
    pub real: std::time::Duration,
}

/// Until then a step must be over.
const LIMIT: Duration = Duration::from_secs(600);

struct Group {
    cluster: Cluster,
    names: Vec<String>,
    measured: Vec<Measured>,
}

/// Runs all steps with so many members; `told` is told of each.
pub fn measure(members: usize, medium: Medium, told: &mut dyn FnMut(&Measured)) -> Vec<Measured> {
    let plan = match medium {
        Medium::Udp => StackPlan::udp(),
        Medium::Tcp => StackPlan::tcp(transport_addresses(members.min(3))),
    };
    let quiet =
        Settings { sampling: None, keep_lines: false, history: false, ..Settings::new(1, plan) };
    let names: Vec<String> = (0..members).map(node_name).collect();
    let mut g = Group { cluster: Cluster::new(quiet), names, measured: Vec::new() };
    let all = members;
    g.step(Step::Join, told, |c, names| {
        c.start(&names[0]);
        c.run_for(Duration::from_secs(10));
        names[1..].iter().for_each(|n| c.start(n));
        until(c, |c| are_in_views_of(c, &[all]))
    });
    g.step(Step::Idle, told, |c, _| {
        c.run_for(Duration::from_secs(60));
        are_in_views_of(c, &[all])
    });
    g.step(Step::Crash, told, |c, names| {
        c.crash(&names[all / 2]);
        until(c, |c| are_in_views_of(c, &[all - 1]))
    });
    let half = all / 2;
    g.step(Step::Split, told, |c, names| {
        let (one, other) = names.split_at(half);
        let borrowed = |part: &[String]| -> Vec<String> { part.to_vec() };
        let (one, other) = (borrowed(one), borrowed(other));
        let one: Vec<&str> = one.iter().map(String::as_str).collect();
        let other: Vec<&str> = other.iter().map(String::as_str).collect();
        c.partition(&[&one, &other]);
        until(c, |c| are_in_views_of(c, &[half, all - 1 - half]))
    });
    g.step(Step::Merge, told, |c, _| {
        c.heal();
        until(c, |c| are_in_views_of(c, &[all - 1]))
    });
    g.measured
}

impl Group {
    fn step(
        &mut self,
        step: Step,
        told: &mut dyn FnMut(&Measured),
        run: impl FnOnce(&mut Cluster, &[String]) -> bool,
    ) {
        let (began, real) = (self.cluster.now(), Instant::now());
        let number = |c: &Cluster| c.views().flatten().map(|v| v.id.id).max().unwrap_or(0);
        let before = number(&self.cluster);
        self.cluster.count_traffic();
        let done = run(&mut self.cluster, &self.names);
        let took = self.cluster.now().since(began);
        let m = Measured {
            step,
            members: self.names.len(),
            took: done.then_some(took),
            traffic: self.cluster.count_traffic(),
            views: number(&self.cluster) - before,
            real: real.elapsed(),
        };
        told(&m);
        self.measured.push(m);
    }
}

/// Whether everybody who runs is in a view of one of these sizes, each size in one view.
fn are_in_views_of(c: &Cluster, sizes: &[usize]) -> bool {
    let mut ids: Vec<Option<rgroups_core::ViewId>> = vec![None; sizes.len()];
    c.views().all(|v| {
        let Some(v) = v else { return false };
        let fits = |(size, id): (&usize, &mut Option<_>)| {
            v.members.len() == *size && *id.get_or_insert(v.id) == v.id
        };
        sizes.iter().zip(&mut ids).any(fits)
    })
}

fn until(c: &mut Cluster, done: impl Fn(&Cluster) -> bool) -> bool {
    let end: Time = c.now() + LIMIT;
    c.run_until(end.since(c.now()), |c| done(c))
}
