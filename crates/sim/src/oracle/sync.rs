//! H: synchronous sends end in time, say who has what, and it is true.

use super::bounds::Bounds;
use super::faults::{Faults, Kind, is_within};
use super::timeliness::TAIL_REPAIR;
use super::{Conditions, Violation};
use crate::connections::Life;
use crate::history::{History, MessageId, Phase, What};
use rgroups_core::app::{SyncEnd, SyncOutcome};
use rgroups_core::{Duration, SendResult, SyncLevel, Time, Uuid, View};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A call, whether it ended or not.
struct Wait {
    message: MessageId,
    sender: Life,
    level: SyncLevel,
    timeout: Option<Duration>,
    from: usize,
    ended: Option<usize>,
}

/// A call that ended with an outcome.
struct Call<'a> {
    message: MessageId,
    sender: Life,
    level: SyncLevel,
    outcome: &'a SyncOutcome,
    from: usize,
    to: usize,
}

impl Call<'_> {
    fn key(&self) -> (MessageId, Life) {
        (self.message, self.sender)
    }
}

/// By how much a call may be late: clocks of nodes run up to a fiftieth too slowly.
fn allowed(timeout: Duration) -> Duration {
    timeout + timeout / 40 + Duration::from_millis(10)
}

/// Checks H1 to H3, and H4 where the conditions have times.
#[must_use]
pub fn check(h: &History, c: &Conditions) -> Vec<Violation> {
    let faults = Faults::of(h);
    let taken = taken(h);
    let arrived = first_deliveries(h);
    let mut found = Vec::new();
    for wait in waits(h) {
        found.extend(in_time(h, &wait, &faults));
        let Some(bounds) = &c.bounds else { continue };
        let Some(calm) = calm_from(h, c) else { continue };
        let limits = Limits { faults: &faults, bounds, calm };
        let until = arrived.get(&wait.message).copied();
        found.extend(outlasts_all(h, &wait, &taken, until, &limits));
    }
    for call in calls(h) {
        found.extend(is_true(h, &call, &taken));
        found.extend(names_the_right_ones(h, &call, arrived.get(&call.message).copied()));
    }
    found
}

fn waits(h: &History) -> Vec<Wait> {
    let mut ends = BTreeMap::new();
    for (i, f) in h.facts.iter().enumerate() {
        if let What::Resolved(m, _) = &f.what {
            ends.entry(*m).or_insert(i);
        }
    }
    let begun = h.facts.iter().enumerate().filter_map(|(from, f)| {
        let What::Sent(message) = f.what else { return None };
        let sent = h.message(message);
        let (level, timeout) = sent.sync?;
        let ended = ends.get(&message).copied();
        Some(Wait { message, sender: sent.sender, level, timeout, from, ended })
    });
    begun.collect()
}

fn calls(h: &History) -> Vec<Call<'_>> {
    let mut began = BTreeMap::new();
    let mut calls = Vec::new();
    for (i, f) in h.facts.iter().enumerate() {
        match &f.what {
            What::Sent(m) => {
                began.insert(*m, i);
            }
            What::Resolved(m, SendResult::Synced(outcome)) => {
                let sent = h.message(*m);
                let (Some(from), Some((level, _))) = (began.get(m), sent.sync) else {
                    continue;
                };
                let (message, sender, from) = (*m, sent.sender, *from);
                calls.push(Call { message, sender, level, outcome, from, to: i });
            }
            _ => {}
        }
    }
    calls
}

/// When which application was given a message, and when it had consumed it.
#[derive(Default)]
struct Progress {
    delivered: BTreeMap<(Uuid, MessageId), usize>,
    taken: BTreeMap<(Uuid, MessageId), usize>,
}

fn taken(h: &History) -> Progress {
    let mut p = Progress::default();
    for (i, f) in h.facts.iter().enumerate() {
        let Some(life) = f.life else { continue };
        match &f.what {
            What::Delivered { message, .. } => {
                p.delivered.entry((h.id(life), *message)).or_insert(i);
            }
            What::Taken(message) => {
                p.taken.entry((h.id(life), *message)).or_insert(i);
            }
            _ => {}
        }
    }
    p
}

/// When each message was delivered for the first time: by then it had left.
fn first_deliveries(h: &History) -> BTreeMap<MessageId, Time> {
    let mut first = BTreeMap::new();
    for f in &h.facts {
        if let What::Delivered { message, .. } = f.what {
            first.entry(message).or_insert(f.at);
        }
    }
    first
}

/// H1: no call lasts longer than its time.
fn in_time(h: &History, wait: &Wait, faults: &Faults) -> Option<Violation> {
    let timeout = wait.timeout?;
    let began = h.facts[wait.from].at;
    let ended = match (wait.ended, h.end_of(wait.sender)) {
        (Some(i), _) | (None, Some(i)) => h.facts[i].at,
        (None, None) => h.facts.last()?.at,
    };
    // Who does not run cannot return either.
    let stopped = faults.spans().iter().any(|s| {
        matches!(s.kind, Kind::Frozen | Kind::Slow)
            && s.of == Some(wait.sender)
            && s.from <= ended
            && s.to >= began
    });
    let late = ended.since(began) > allowed(timeout);
    let text = || "returned after its time".into();
    (late && !stopped).then(|| violation(h, (wait.message, wait.sender), "H1", text()))
}

/// What H4 counts with.
struct Limits<'a> {
    faults: &'a Faults,
    bounds: &'a Bounds,
    /// From here on the network loses nothing.
    calm: Time,
}

/// `None`: it never stops losing packets.
fn calm_from(h: &History, c: &Conditions) -> Option<Time> {
    match c.loss > 0.0 {
        true => h.phase(Phase::Healed).map(|i| h.facts[i].at),
        false => Some(Time::ZERO),
    }
}

/// H4: when everybody has the message or is gone, or the sender leaves, the call ends within the time
/// of a view change, faults apart; and no call outlives the leave of its sender.
fn outlasts_all(
    h: &History,
    wait: &Wait,
    p: &Progress,
    arrived: Option<Time>,
    limits: &Limits<'_>,
) -> Option<Violation> {
    let broken = |text: String| Some(violation(h, (wait.message, wait.sender), "H4", text));
    let left = h.facts_of(wait.sender).find(|(_, f)| matches!(f.what, What::Left { .. }));
    if left.is_some_and(|(i, _)| i > wait.from && wait.ended.is_none_or(|e| e > i)) {
        return broken("did not end before its sender had left".into());
    }
    let leaves = h.facts_of(wait.sender).find(|(_, f)| matches!(f.what, What::LeaveAsked));
    let leaves = leaves.map(|(i, _)| i.max(wait.from));
    let since = settled(h, wait, p, arrived).into_iter().chain(leaves).min()?;
    let since = h.facts[since].at;
    // The same time as for a view without who failed: the call ends with that view.
    let allowed = limits.bounds.view_change() + limits.bounds.merge_timeout + TAIL_REPAIR;
    let deadline = limits.faults.deadline(since.max(limits.calm), None, allowed);
    let gone = h.end_of(wait.sender).is_some_and(|i| h.facts[i].at <= deadline);
    let ended = wait.ended.is_some_and(|i| h.facts[i].at <= deadline);
    if gone || ended || !is_within(h, deadline) {
        return None;
    }
    broken(format!("has nobody to wait for since {since} and has not ended at {deadline}"))
}

/// From where on everybody whom the call may wait for has the message, as its level says, or is gone.
fn settled(h: &History, wait: &Wait, p: &Progress, arrived: Option<Time>) -> Option<usize> {
    let until = arrived.unwrap_or(Time(u64::MAX));
    let views = views_from(h, wait.sender, wait.from, Time(u64::MAX));
    let (own, sent) = (h.id(wait.sender), h.message(wait.message));
    let mut last = wait.from;
    let possible = views.iter().take_while(|(i, _)| *i < wait.from || h.facts[*i].at <= until);
    let whom: BTreeSet<Uuid> = possible.flat_map(|(_, v)| asked(h, wait.message, v)).collect();
    for m in whom {
        let key = (m, wait.message);
        // Its own copy counts when it comes back, unless the sender is one of those that are named.
        let consumes = wait.level == SyncLevel::OnDeliver && (m != own || sent.to.is_some());
        let has = if consumes { p.taken.get(&key) } else { p.delivered.get(&key) };
        let end = h.life_of(m).and_then(|l| h.end_of(l));
        let member = views.iter().skip_while(|(_, v)| !v.contains(m)).skip(1);
        let mut out = member.filter(|(_, v)| !v.contains(m) || v.reunites(own, m));
        let out = out.next().map(|(i, _)| *i);
        last = last.max([has.copied(), end, out].into_iter().flatten().min()?);
    }
    Some(last)
}

/// The view in which a call was made, and those that came after it until then.
fn views_from(h: &History, of: Life, call: usize, until: Time) -> Vec<(usize, Arc<View>)> {
    let mut views = h.views_of(of);
    let before = views.iter().filter(|(i, _)| *i < call).count();
    views.drain(..before.saturating_sub(1));
    views.retain(|(i, _)| *i < call || h.facts[*i].at <= until);
    views
}

/// Whom the call of this message waits for if it leaves in `view`.
fn asked(h: &History, message: MessageId, view: &View) -> BTreeSet<Uuid> {
    let sent = h.message(message);
    let own = h.id(sent.sender);
    let members = view.members.iter().copied();
    match &sent.to {
        Some(to) => members.filter(|m| to.contains(m)).collect(),
        None => members.filter(|m| sent.loopback || *m != own).collect(),
    }
}

/// H2: who is said to have acknowledged has the message, as the level says; a call that is complete
/// misses nobody, and any other does.
fn is_true(h: &History, call: &Call<'_>, p: &Progress) -> Option<Violation> {
    let complete = call.outcome.end == SyncEnd::Complete;
    if complete != call.outcome.missing.is_empty() {
        let end = call.outcome.end;
        let text = format!("ended {end:?} with {} missing", call.outcome.missing.len());
        return Some(violation(h, call.key(), "H2", text));
    }
    let has = |m: &&Uuid| match call.level {
        // It is in a window; nobody outside sees that.
        SyncLevel::OnReceive => true,
        // Its own copy is acknowledged by the sender when it comes back, delivered or not.
        SyncLevel::OnContiguous => {
            **m == h.id(call.sender)
                || p.delivered.get(&(**m, call.message)).is_some_and(|i| *i < call.to)
        }
        SyncLevel::OnDeliver => {
            **m == h.id(call.sender)
                || p.taken.get(&(**m, call.message)).is_some_and(|i| *i < call.to)
        }
    };
    let liar = call.outcome.acknowledged.iter().find(|m| !has(m))?;
    let text = format!("{} acknowledged what it has not", h.name_of(*liar));
    Some(violation(h, call.key(), "H2", text))
}

/// H3: those who are named are exactly those whom the message was for in one view: that in which it
/// left, which is the view of the call or, for a message that waited, a later one, but none after the
/// first delivery. Who is said to have left did leave, and who is said to be missing did not.
fn names_the_right_ones(h: &History, call: &Call<'_>, arrived: Option<Time>) -> Option<Violation> {
    // The application hears of the end of the call just before it hears of the view that ended it.
    let ended = h.facts[call.to].at;
    let views = views_from(h, call.sender, call.from, ended);
    let left_by = arrived.map_or(ended, |at| at.min(ended));
    let mut wrong = None;
    for (k, (i, _)) in views.iter().enumerate() {
        if *i > call.from && h.facts[*i].at > left_by {
            break;
        }
        let why = misnames(h, call, &views[k..])?;
        wrong = wrong.or(Some(why));
    }
    let text = wrong.unwrap_or_else(|| "ended without a view".into());
    Some(violation(h, call.key(), "H3", text))
}

/// What is wrong with the names if the message left in the first of these views.
fn misnames(h: &History, call: &Call<'_>, views: &[(usize, Arc<View>)]) -> Option<String> {
    let ((_, first), later) = views.split_first()?;
    let (o, own) = (call.outcome, h.id(call.sender));
    let lists = [&o.acknowledged, &o.failed, &o.left, &o.missing];
    let named: BTreeSet<Uuid> = lists.into_iter().flatten().copied().collect();
    if named.len() < lists.into_iter().map(Vec::len).sum() {
        return Some("names somebody twice".into());
    }
    let asked = asked(h, call.message, first);
    // A unicast is for its receiver, whether that is a member still or not.
    let receiver = h.message(call.message).to.as_ref().filter(|to| to.len() == 1);
    let is_receiver = |m: &Uuid| receiver.is_some_and(|to| to.contains(m));
    if let Some(m) =
        named.symmetric_difference(&asked).find(|m| !named.contains(m) || !is_receiver(m))
    {
        let how = if named.contains(m) { "is named and was not asked" } else { "is not named" };
        return Some(format!("{} {how}", h.name_of(*m)));
    }
    // By the rule of H2 who is brought back by a merge has left.
    let stayed = |m: &Uuid, before: usize| {
        let mut known = later.iter().filter(|(i, _)| *i < before);
        first.contains(*m) && known.all(|(_, v)| v.contains(*m) && !v.reunites(own, *m))
    };
    if let Some(m) = o.left.iter().find(|m| stayed(m, usize::MAX)) {
        return Some(format!("{} is said to have left and did not", h.name_of(*m)));
    }
    let never_there = |m: &Uuid| is_receiver(m) && !first.contains(*m);
    let gone = o.missing.iter().find(|m| !stayed(m, call.to) && !never_there(m))?;
    Some(format!("{} is said to be missing and has left", h.name_of(*gone)))
}

fn violation(
    h: &History,
    (message, sender): (MessageId, Life),
    invariant: &'static str,
    why: String,
) -> Violation {
    Violation::new(invariant, format!("#{} of {}: {why}", message.0, h.name(sender)))
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;
    use crate::history::SentMessage;

    fn found(h: &History) -> Vec<Violation> {
        check(h, &conditions())
    }

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    /// A waits at most `timeout` for all to have consumed what it sends.
    fn begin(h: &mut History, timeout: Option<Duration>) -> MessageId {
        let m = MessageId(h.messages.len() as u32);
        h.messages.push(SentMessage {
            sender: A,
            to: None,
            ordered: true,
            reliable: true,
            loopback: true,
            size: 100,
            sync: Some((SyncLevel::OnDeliver, timeout)),
        });
        push(h, A, What::Sent(m));
        for l in [A, B] {
            deliver(h, l, m);
            push(h, l, What::Taken(m));
        }
        m
    }

    fn end(h: &mut History, m: MessageId, [acknowledged, left, missing]: [&[Life]; 3]) {
        let ids = |lives: &[Life]| lives.iter().map(|l| id(*l)).collect::<Vec<_>>();
        let end = if missing.is_empty() { SyncEnd::Complete } else { SyncEnd::TimedOut };
        let (acknowledged, left, missing) = (ids(acknowledged), ids(left), ids(missing));
        let outcome = SyncOutcome {
            acknowledged,
            left,
            missing,
            end,
            by_stability: Vec::new(),
            failed: Vec::new(),
        };
        push(h, A, What::Resolved(m, SendResult::Synced(outcome)));
    }

    fn ended(timeout: Option<Duration>, lists: [&[Life]; 3]) -> Vec<Violation> {
        let mut h = together();
        let m = begin(&mut h, timeout);
        end(&mut h, m, lists);
        found(&h)
    }

    #[test]
    fn a_call_that_names_everybody_rightly_is_fine() {
        let c_gone = |h: &mut History| install(h, A, 4, A, &[A, B]);
        let mut h = together();
        let m = begin(&mut h, None);
        c_gone(&mut h);
        end(&mut h, m, [&[A, B], &[C], &[]]);
        assert_eq!(found(&h), []);
        assert_eq!(ended(None, [&[A, B], &[], &[C]]), []);
    }

    #[test]
    fn a_call_that_returns_after_its_time_breaks_h1() {
        let early = ended(Some(Duration::from_nanos(1)), [&[A, B], &[], &[C]]);
        assert!(early.is_empty(), "within what clocks differ by");
        let mut h = together();
        let m = begin(&mut h, Some(Duration::from_millis(1)));
        for _ in 0..20 {
            push(&mut h, B, What::Slowed(Duration::ZERO));
        }
        end(&mut h, m, [&[A, B], &[], &[C]]);
        assert_eq!(names(&found(&h)), ["H1"]);
    }

    #[test]
    fn an_acknowledgement_of_who_has_not_consumed_it_breaks_h2() {
        assert_eq!(names(&ended(None, [&[A, B, C], &[], &[]])), ["H2"]);
    }

    #[test]
    fn a_member_that_is_said_to_have_left_and_did_not_breaks_h3() {
        assert_eq!(names(&ended(None, [&[A, B], &[C], &[]])), ["H3"]);
    }

    #[test]
    fn a_member_that_is_not_named_breaks_h3() {
        assert_eq!(names(&ended(None, [&[A, B], &[], &[]])), ["H3"]);
    }

    #[test]
    fn a_joiner_that_is_named_breaks_h3_unless_the_message_left_in_its_view() {
        const D: Life = Life(3);
        for (joins_first, expected) in [(false, ["H3"].as_slice()), (true, &[])] {
            let mut h = together();
            add(&mut h, D, "D");
            let mut m = MessageId(0);
            if !joins_first {
                m = begin(&mut h, None);
            }
            install(&mut h, A, 4, A, &[A, B, C, D]);
            if joins_first {
                m = begin(&mut h, None);
            }
            end(&mut h, m, [&[A, B], &[], &[C, D]]);
            assert_eq!(names(&found(&h)), expected);
        }
    }

    #[test]
    fn a_member_that_is_missing_though_it_had_left_breaks_h3() {
        let mut h = together();
        let m = begin(&mut h, None);
        install(&mut h, A, 4, A, &[A, B]);
        end(&mut h, m, [&[A, B], &[], &[C]]);
        assert_eq!(names(&found(&h)), ["H3"]);
    }

    #[test]
    fn a_member_that_is_named_twice_breaks_h3() {
        assert_eq!(names(&ended(None, [&[A, B, B], &[], &[C]])), ["H3"]);
    }

    /// A waits, without a time, for C, which dies in the second second; the run lasts a minute.
    fn c_dies(h: &mut History) -> MessageId {
        let m = begin(h, None);
        push_at(h, at(1), Some(C), What::Died { power_off: false });
        m
    }

    fn a_minute_later(h: &mut History) -> Vec<&'static str> {
        push_at(h, at(60), None, What::Network("on".into()));
        names(&found(h))
    }

    #[test]
    fn a_call_that_waits_for_a_dead_member_alone_breaks_h4() {
        let mut h = together();
        c_dies(&mut h);
        assert_eq!(a_minute_later(&mut h), ["H4"]);
    }

    #[test]
    fn a_call_that_ends_with_the_view_without_the_dead_member_is_fine() {
        let mut h = together();
        let m = c_dies(&mut h);
        push_at(&mut h, at(12), Some(B), What::Consumes(None));
        install(&mut h, A, 4, A, &[A, B]);
        end(&mut h, m, [&[A, B], &[C], &[]]);
        assert!(a_minute_later(&mut h).is_empty());
    }

    #[test]
    fn a_call_may_wait_for_whoever_lives_and_has_not_consumed_it() {
        let mut h = together();
        begin(&mut h, None);
        assert!(a_minute_later(&mut h).is_empty());
    }

    #[test]
    fn the_time_of_h4_begins_when_faults_and_losses_end() {
        use crate::network::Host;
        let mut h = together();
        push(&mut h, A, What::Split([(Host(0), Host(2))].into()));
        h.facts.last_mut().unwrap().life = None;
        c_dies(&mut h);
        assert!(a_minute_later(&mut h).is_empty());
        let mut h = together();
        c_dies(&mut h);
        push_at(&mut h, at(60), None, What::Phase(Phase::Healed));
        let lossy = Conditions { loss: 0.1, ..conditions() };
        assert!(check(&h, &lossy).is_empty());
        push_at(&mut h, at(90), None, What::Network("on".into()));
        assert_eq!(names(&check(&h, &lossy)), ["H4"]);
    }

    #[test]
    fn a_call_that_outlives_the_leave_of_its_sender_breaks_h4() {
        let mut h = together();
        begin(&mut h, None);
        push(&mut h, A, What::Left { confirmed: true });
        assert_eq!(names(&found(&h)), ["H4"]);
        let mut h = together();
        begin(&mut h, None);
        push(&mut h, A, What::LeaveAsked);
        assert_eq!(a_minute_later(&mut h), ["H4"]);
    }

    #[test]
    fn a_call_that_never_ends_breaks_h1_if_it_has_a_time() {
        let mut h = together();
        begin(&mut h, Some(Duration::from_secs(5)));
        assert_eq!(a_minute_later(&mut h), ["H1"]);
    }
}
