//! S0: flow control. What the tests of its parts share: groups in virtual time, their accounts, and
//! who is how far ahead of whom.

mod bounds;
mod config;
mod credits;
mod pace;
mod policy;
mod requests;
mod streams;

use rgroups::core::event::{Answer, CreditAccount};
use rgroups::core::plan::StackPlan;
use rgroups::core::{Duration, Pool, Query, SendResult, Time, Trace, Uuid};
use rgroups_sim::connections::Life;
use rgroups_sim::history::{Fact, MessageId, What};
use rgroups_sim::{Cluster, Outgoing, Settings};

/// All of them.
pub(crate) fn tests() -> Vec<crate::Test> {
    let parts = [
        credits::tests(),
        requests::tests(),
        config::tests(),
        pace::tests(),
        policy::tests(),
        bounds::tests(),
        streams::tests(),
    ];
    parts.into_iter().flatten().collect()
}

const SECOND: Duration = Duration::from_secs(1);
const MAX: u64 = 1_000_000;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// `plan` with these numbers in both protocols of flow control.
fn credits(plan: StackPlan, max: u64, threshold: f64) -> StackPlan {
    ["MFC", "UFC"].into_iter().fold(plan, |plan, name| {
        let plan = plan.with(name, "max_credits", &max.to_string());
        plan.with(name, "min_threshold", &threshold.to_string())
    })
}

/// The stack over datagrams, with a million bytes of credit and a threshold of a tenth.
fn udp() -> StackPlan {
    credits(StackPlan::udp(), MAX, 0.1)
}

/// The same over streams, for so many members.
fn tcp(members: usize) -> StackPlan {
    credits(StackPlan::tcp(rgroups_sim::cluster::transport_addresses(members)), MAX, 0.1)
}

/// Members of these names, all in one view.
fn group(plan: StackPlan, names: &[&str]) -> Cluster {
    grown(Settings { sampling: None, keep_lines: false, ..Settings::new(1, plan) }, names)
}

fn grown(settings: Settings, names: &[&str]) -> Cluster {
    let mut c = Cluster::new(settings);
    c.form(names);
    c
}

fn id(c: &Cluster, name: &str) -> Uuid {
    c.history().id(c.life(name).expect("it runs"))
}

/// What `of` says of its account with `peer`.
fn account(c: &Cluster, of: &str, pool: Pool, peer: &str) -> CreditAccount {
    let peer = id(c, peer);
    let stack = c.node(of).expect("it runs").stack();
    let Some(Answer::Credits(list)) = stack.ask(&Query::Credits(pool)) else {
        panic!("no credits")
    };
    list.into_iter().find(|a| a.peer == peer).expect("an account with every member")
}

/// The sum of all gauges of this name at `of`.
fn gauge(c: &Cluster, of: &str, name: &str) -> u64 {
    let mut sum = 0;
    c.node(of).expect("it runs").stack().inspect(&mut |_, n, value| {
        if n == name {
            sum += value;
        }
    });
    sum
}

/// What the stack of `of` told since the fact of number `since`.
fn traces<'a>(c: &'a Cluster, of: &str, since: usize) -> impl Iterator<Item = (Time, &'a Trace)> {
    let life = c.life(of);
    c.history().facts[since..].iter().filter(move |f| f.life == life).filter_map(|f| {
        match &f.what {
            What::Trace(t) => Some((f.at, t)),
            _ => None,
        }
    })
}

/// How many facts there are: what comes later is new.
fn now(c: &Cluster) -> usize {
    c.history().facts.len()
}

/// What `by` granted to `to` since then.
fn granted(c: &Cluster, by: &str, to: &str, since: usize) -> Vec<u64> {
    let to = id(c, to);
    let of = |(_, t): (Time, &Trace)| match t {
        Trace::Granted { to: m, bytes, .. } if *m == to => Some(*bytes),
        _ => None,
    };
    traces(c, by, since).filter_map(of).collect()
}

/// When `by` asked `whom` for credit since then.
fn asked(c: &Cluster, by: &str, whom: &str, since: usize) -> Vec<Time> {
    let whom = id(c, whom);
    let of = |(at, t): (Time, &Trace)| {
        matches!(t, Trace::CreditAsked { of, .. } if *of == whom).then_some(at)
    };
    traces(c, by, since).filter_map(of).collect()
}

/// When a line of `of` began to wait, since then.
fn blocked(c: &Cluster, of: &str, since: usize) -> Option<Time> {
    traces(c, of, since).find(|(_, t)| matches!(t, Trace::Blocked { .. })).map(|(at, _)| at)
}

/// How the call that sent `m` ended, and when.
fn result(c: &Cluster, m: MessageId) -> Option<(Time, SendResult)> {
    c.history().facts.iter().find_map(|f| match &f.what {
        What::Resolved(id, how) if *id == m => Some((f.at, how.clone())),
        _ => None,
    })
}

fn is_sent(c: &Cluster, m: MessageId) -> bool {
    result(c, m).is_some_and(|(_, how)| how == SendResult::Sent)
}

/// Sends a message that is to be ordered.
fn send(c: &mut Cluster, from: &str, to: Option<&str>, size: u64) -> MessageId {
    c.send(from, &Outgoing::new(to, size as usize)).expect("the sender runs")
}

/// `count` messages of `size` bytes at once.
fn post(c: &mut Cluster, from: &str, to: Option<&str>, count: u64, size: u64) -> Vec<MessageId> {
    (0..count).map(|_| send(c, from, to, size)).collect()
}

/// The same to all.
fn cast(c: &mut Cluster, from: &str, count: u64, size: u64) -> Vec<MessageId> {
    post(c, from, None, count, size)
}

/// An application that sends `count` messages of `size` bytes, the next one when the one before it
/// was admitted; `each` looks on after every millisecond.
fn transfer(
    c: &mut Cluster,
    (from, to): (&str, Option<&str>),
    (count, size): (u64, u64),
    mut each: impl FnMut(&Cluster),
) {
    let (mut left, mut open, mut read) = (count, None, now(c));
    while left > 0 || open.is_some() {
        if open.is_none() {
            open = Some(send(c, from, to, size));
            left -= 1;
        }
        c.run_for(ms(1));
        for f in &c.history().facts[read..] {
            if let What::Resolved(m, how) = &f.what {
                assert_eq!(*how, SendResult::Sent);
                open = open.filter(|waits| waits != m);
            }
        }
        read = now(c);
        each(c);
    }
}

/// What is added up of a member.
#[derive(Clone, Copy)]
enum Sum<'a> {
    /// Payload bytes that flow control admitted.
    Admitted(&'a str),
    /// Payload bytes that were given to the application.
    Delivered(&'a str),
    /// Payload bytes that the application took.
    Taken(&'a str),
    /// Credit that the first one granted to the second.
    Granted(&'a str, &'a str),
}

impl Sum<'_> {
    fn of(self, c: &Cluster, f: &Fact) -> u64 {
        let size = |m: MessageId| c.history().message(m).size as u64;
        let is = |name| f.life.is_some() && f.life == c.life(name);
        match (self, &f.what) {
            (Sum::Admitted(name), What::Resolved(m, SendResult::Sent)) if is(name) => size(*m),
            (Sum::Delivered(name), What::Delivered { message, .. }) if is(name) => size(*message),
            (Sum::Taken(name), What::Taken(m)) if is(name) => size(*m),
            (Sum::Granted(name, peer), What::Trace(Trace::Granted { to, bytes, .. }))
                if is(name) && *to == id(c, peer) =>
            {
                *bytes
            }
            _ => 0,
        }
    }
}

/// The most by which the one sum was ever ahead of the other since then.
fn lead(c: &Cluster, ahead: Sum<'_>, behind: Sum<'_>, since: usize) -> u64 {
    let (mut a, mut b, mut worst) = (0u64, 0u64, 0);
    for f in &c.history().facts[since..] {
        a += ahead.of(c, f);
        b += behind.of(c, f);
        worst = worst.max(a.saturating_sub(b));
    }
    worst
}

/// What the sum has come to since then.
fn total(c: &Cluster, sum: Sum<'_>, since: usize) -> u64 {
    c.history().facts[since..].iter().map(|f| sum.of(c, f)).sum()
}

/// When the sum reached `bytes`.
fn reached(c: &Cluster, sum: Sum<'_>, bytes: u64, since: usize) -> Option<Time> {
    let mut so_far = 0;
    c.history().facts[since..].iter().find_map(|f| {
        so_far += sum.of(c, f);
        (so_far >= bytes).then_some(f.at)
    })
}

/// What `by` delivered, in order.
fn delivered(c: &Cluster, by: &str) -> Vec<MessageId> {
    of_life(c, c.life(by))
}

fn of_life(c: &Cluster, life: Option<Life>) -> Vec<MessageId> {
    let of = |f: &Fact| match f.what {
        What::Delivered { message, .. } if f.life == life => Some(message),
        _ => None,
    };
    c.history().facts.iter().filter_map(of).collect()
}
