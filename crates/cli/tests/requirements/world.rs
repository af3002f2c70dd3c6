//! Groups in virtual time, and what became of synchronous sends in them.

use rgroups_core::app::{Sync, SyncEnd, SyncOutcome};
use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, SendResult, SyncLevel, Time};
use rgroups_sim::cluster::Appetite;
use rgroups_sim::filter::{Action, Pattern, Rule};
use rgroups_sim::history::{MessageId, What};
use rgroups_sim::{Cluster, Outgoing, Settings};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// Every round trip of a quiet simulated network is shorter, turns included.
pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(2);

/// The name of member `i`: A, B, … and then M26 and so on.
pub(crate) fn name(i: usize) -> String {
    match u8::try_from(i) {
        Ok(n) if n < 26 => char::from(b'A' + n).to_string(),
        _ => format!("M{i}"),
    }
}

/// A group of `n` members with this stack, complete and at rest.
pub(crate) fn group_of(n: usize, seed: u64, plan: StackPlan) -> Cluster {
    let settings = Settings { sampling: None, keep_lines: false, ..Settings::new(seed, plan) };
    let mut c = Cluster::new(settings);
    for i in 0..n {
        c.start(&name(i));
        if i == 0 {
            c.run_for(SECOND * 5);
        }
    }
    let complete =
        |c: &Cluster| (0..n).all(|i| c.view(&name(i)).is_some_and(|v| v.members.len() == n));
    assert!(c.run_until(SECOND * 60, complete), "the group is complete");
    c.run_for(SECOND * 5);
    c
}

/// The same with the default stack over UDP.
pub(crate) fn group(n: usize, seed: u64) -> Cluster {
    group_of(n, seed, StackPlan::udp())
}

/// Waits at this level, for 10 s.
pub(crate) fn sync(level: SyncLevel) -> Sync {
    Sync { level, timeout: Some(SECOND * 10), to: None }
}

/// Sends `size` bytes to all without waiting.
pub(crate) fn cast(c: &mut Cluster, from: &str, size: usize) -> MessageId {
    c.send(from, &Outgoing::new(None, size)).expect("the sender runs")
}

/// Sends and waits as `how` says.
pub(crate) fn send(c: &mut Cluster, from: &str, how: &Outgoing) -> MessageId {
    c.send(from, how).expect("the sender runs")
}

/// An ordered multicast of 100 bytes that waits.
pub(crate) fn waiting(s: Sync) -> Outgoing {
    Outgoing { sync: Some(s), ..Outgoing::new(None, 100) }
}

/// When the call of `m` ended, and how; and how many facts were before.
pub(crate) fn ended(c: &Cluster, m: MessageId) -> Option<(usize, Time, &SendResult)> {
    c.history().facts.iter().enumerate().find_map(|(i, f)| match &f.what {
        What::Resolved(id, result) if *id == m => Some((i, f.at, result)),
        _ => None,
    })
}

/// How the wait for `m` ended, if it did.
pub(crate) fn outcome(c: &Cluster, m: MessageId) -> Option<&SyncOutcome> {
    match ended(c, m)?.2 {
        SendResult::Synced(o) => Some(o),
        _ => None,
    }
}

/// Runs until the wait for `m` ends; after how long.
pub(crate) fn wait(c: &mut Cluster, m: MessageId, limit: Duration) -> Duration {
    let sent = moment(c, |w| matches!(w, What::Sent(id) if *id == m)).expect("it was sent");
    assert!(c.run_until(limit, |c| ended(c, m).is_some()), "the wait has not ended");
    ended(c, m).expect("it has").1.since(sent)
}

/// Runs until everybody has acknowledged `m`; after how long.
pub(crate) fn complete(c: &mut Cluster, m: MessageId, limit: Duration) -> Duration {
    let took = wait(c, m, limit);
    let o = outcome(c, m).expect("it was sent");
    assert_eq!(o.end, SyncEnd::Complete, "{o:?}");
    took
}

/// The first moment at which this happened.
pub(crate) fn moment(c: &Cluster, what: impl Fn(&What) -> bool) -> Option<Time> {
    c.history().facts.iter().find(|f| what(&f.what)).map(|f| f.at)
}

/// Where in the history `who` was given `m`, if it was.
pub(crate) fn delivered_at(c: &Cluster, who: &str, m: MessageId) -> Option<usize> {
    let life = c.life(who)?;
    c.history().facts.iter().position(|f| {
        f.life == Some(life) && matches!(&f.what, What::Delivered { message, .. } if *message == m)
    })
}

/// Where in the history the application of `who` was done with `m`, if it was.
pub(crate) fn taken_at(c: &Cluster, who: &str, m: MessageId) -> Option<usize> {
    let life = c.life(who)?;
    let taken = |w: &What| matches!(w, What::Taken(id) if *id == m);
    c.history().facts.iter().position(|f| f.life == Some(life) && taken(&f.what))
}

/// Loses what NAKACK2 sends from A to `to` under this number for the first time, so often.
pub(crate) fn lose(c: &mut Cluster, to: &str, seqno: i64, times: Option<u32>) {
    lose_kind(c, Some(to), "MSG", Some(seqno), times);
}

/// Loses multicast traffic of A of this kind.
pub(crate) fn lose_kind(
    c: &mut Cluster,
    to: Option<&str>,
    kind: &str,
    seqno: Option<i64>,
    times: Option<u32>,
) {
    let pattern = Pattern {
        from: c.host("A"),
        to: to.and_then(|to| c.host(to)),
        protocol: Some("NAKACK2".into()),
        kind: Some(kind.into()),
        seqno,
    };
    c.add_rule(Rule::new(pattern, Action::Drop, times));
}

/// The number of the last multicast of A.
pub(crate) fn last_number(c: &Cluster) -> i64 {
    gauge(c, "A", "NAKACK2", "current_seqno") as i64
}

/// A gauge of a layer of `who`.
pub(crate) fn gauge(c: &Cluster, who: &str, layer: &str, gauge: &str) -> u64 {
    let mut found = None;
    let node = c.node(who).expect("it runs");
    node.stack().inspect(&mut |l, n, v| {
        if l == layer && n == gauge {
            found = Some(v);
        }
    });
    found.expect("the gauge exists")
}

/// The application of `who` stops consuming, or goes on.
pub(crate) fn busy(c: &mut Cluster, who: &str, busy: bool) {
    let appetite = if busy { Appetite::Nothing } else { Appetite::Everything };
    c.appetite(who, appetite);
}

/// The default stack over UDP in which nobody is ever suspected.
pub(crate) fn without_failure_detection() -> StackPlan {
    StackPlan::udp().without("FD_SOCK2").without("FD_ALL3").without("VERIFY_SUSPECT2")
}
