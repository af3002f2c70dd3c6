//! I: calls for a state end in time, and a state and what is delivered after it are together what was
//! multicast, each message once.

use super::Violation;
use super::faults::{Faults, by};
use crate::cluster::StateEnded;
use crate::connections::Life;
use crate::history::{History, MessageId, Phase, What};
use rgroups_core::{Duration, OpId, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// A call for a state.
struct Fetch<'a> {
    by: Life,
    began: usize,
    within: Duration,
    /// How it ended, and what the application was given just before.
    ended: Option<(usize, &'a StateEnded)>,
    taken: Option<&'a [MessageId]>,
}

/// Checks I1 and I2.
#[must_use]
pub fn check(h: &History) -> Vec<Violation> {
    let fetches = fetches(h);
    let faults = Faults::of(h);
    let mut found: Vec<Violation> = h.all_lives().filter_map(|l| twice(h, l)).collect();
    for f in &fetches {
        found.extend(in_time(h, f, &faults));
        found.extend(given_at_rest(h, f));
        found.extend(another_cut(h, f));
    }
    let last: BTreeMap<Life, &Fetch<'_>> =
        fetches.iter().filter(|f| f.taken.is_some()).map(|f| (f.by, f)).collect();
    found.extend(last.values().filter_map(|f| gap(h, f)));
    found
}

fn fetches(h: &History) -> Vec<Fetch<'_>> {
    let mut fetches: BTreeMap<(Life, OpId), Fetch<'_>> = BTreeMap::new();
    let mut taken: BTreeMap<Life, &[MessageId]> = BTreeMap::new();
    for (i, f) in h.facts.iter().enumerate() {
        let Some(life) = f.life else { continue };
        match &f.what {
            What::FetchesState(op, within) => {
                let (began, within) = (i, *within);
                let fetch = Fetch { by: life, began, within, ended: None, taken: None };
                fetches.insert((life, *op), fetch);
            }
            What::StateTaken(known) => {
                taken.insert(life, known);
            }
            What::StateFetched(op, end) => {
                if let Some(fetch) = fetches.get_mut(&(life, *op)) {
                    fetch.ended = Some((i, end));
                    fetch.taken = taken.remove(&life);
                }
            }
            _ => {}
        }
    }
    fetches.into_values().collect()
}

impl Fetch<'_> {
    fn violation(&self, h: &History, invariant: &'static str, text: &str) -> Violation {
        by(h, invariant, self.by, &format!("state asked for at {}: {text}", h.facts[self.began].at))
    }

    /// Who gave it.
    fn provider(&self, h: &History) -> Option<Life> {
        match self.ended? {
            (_, StateEnded::Given(provider, _)) => h.life_of(*provider),
            _ => None,
        }
    }

    /// The moments between call and end at which that member was asked.
    fn asked(&self, h: &History, provider: Life) -> Vec<usize> {
        let end = self.ended.map_or(usize::MAX, |(i, _)| i);
        let reader = h.id(self.by);
        let asked = h.facts_of(provider).filter(|(i, f)| {
            (self.began..end).contains(i)
                && matches!(f.what, What::StateRequested(by) if by == reader)
        });
        asked.map(|(i, _)| i).collect()
    }
}

/// I1: no call lasts longer than its time; but who does not run cannot notice.
fn in_time(h: &History, fetch: &Fetch<'_>, faults: &Faults) -> Option<Violation> {
    // The time begins when there is a view.
    let outside = h.facts_of(fetch.by).find(|(_, f)| matches!(f.what, What::View(_)))?.0;
    let began = h.facts[fetch.began.max(outside)].at;
    let ended = match (fetch.ended, h.departure_of(fetch.by)) {
        (Some((i, _)), _) | (None, Some(i)) => h.facts[i].at,
        (None, None) => h.facts.last()?.at,
    };
    let limit = faults.limit(h, fetch.by, began, fetch.within);
    let text = || format!("not over at {ended}, for {:?}", fetch.within);
    (ended > limit).then(|| fetch.violation(h, "I1", &text()))
}

/// I1: where nothing is wrong, there is a state.
fn given_at_rest(h: &History, fetch: &Fetch<'_>) -> Option<Violation> {
    if fetch.began < h.phase(Phase::FinalRound)? || fetch.provider(h).is_some() {
        return None;
    }
    let how = fetch.ended.map_or_else(|| "nothing".to_owned(), |(_, e)| format!("{e:?}"));
    Some(fetch.violation(h, "I1", &format!("nothing is wrong, and it ended with {how}")))
}

/// What the application of a member knew at a moment: states that it was given, and what was delivered since.
fn known(h: &History, l: Life, until: usize) -> Vec<MessageId> {
    let mut known = Vec::new();
    for (_, f) in h.facts_of(l).take_while(|(i, _)| *i < until) {
        match &f.what {
            What::Delivered { message, multicast: true, .. } => known.push(*message),
            What::StateTaken(state) => known = state.to_vec(),
            _ => {}
        }
    }
    known
}

/// I2: the state is what its provider knew when it was asked.
fn another_cut(h: &History, fetch: &Fetch<'_>) -> Option<Violation> {
    let (provider, taken) = (fetch.provider(h)?, fetch.taken?);
    let asked = fetch.asked(h, provider);
    if asked.iter().any(|i| known(h, provider, *i) == taken) {
        return None;
    }
    let text = format!("{} did not know just that when it was asked", h.name(provider));
    Some(fetch.violation(h, "I2", &text))
}

/// I2: nothing is both in a state and delivered after it.
fn twice(h: &History, l: Life) -> Option<Violation> {
    let mut known: BTreeSet<MessageId> = BTreeSet::new();
    for (_, f) in h.facts_of(l) {
        match &f.what {
            What::StateTaken(state) => known = state.iter().copied().collect(),
            What::Delivered { message, multicast: true, .. } if !known.insert(*message) => {
                return Some(by(h, "I2", l, &format!("#{} twice, at {}", message.0, f.at)));
            }
            _ => {}
        }
    }
    None
}

/// I2: what the provider delivered after the cut the reader knows too, if both stayed in one group.
fn gap(h: &History, fetch: &Fetch<'_>) -> Option<Violation> {
    let rest = h.phase(Phase::AtRest)?;
    let provider = fetch.provider(h)?;
    let taken = fetch.taken?;
    let cut = fetch.asked(h, provider).into_iter().find(|i| known(h, provider, *i) == taken)?;
    if [fetch.by, provider].iter().any(|l| !is_undisturbed(h, *l, cut, rest)) {
        return None;
    }
    let has: BTreeSet<MessageId> = known(h, fetch.by, rest).into_iter().collect();
    let later = h.facts_of(provider).skip_while(|(i, _)| *i < cut).take_while(|(i, _)| *i < rest);
    let lacking = later.filter_map(|(_, f)| match &f.what {
        What::Delivered { message, multicast: true, .. } => Some(*message),
        _ => None,
    });
    // What the reader sends itself it need not be given.
    let due = |m: &MessageId| h.message(*m).reliable && h.message(*m).sender != fetch.by;
    let m = { lacking }.find(|m| due(m) && !has.contains(m))?;
    let text = format!("#{} is neither in it nor delivered after it", m.0);
    Some(fetch.violation(h, "I2", &text))
}

/// Whether the member lived on, in one part of the group, in which everybody knew what to deliver.
fn is_undisturbed(h: &History, l: Life, from: usize, to: usize) -> bool {
    let mut facts = h.facts_of(l).filter(|(i, _)| (from..to).contains(i));
    let ended = h.departure_of(l).is_some_and(|i| i < to);
    !ended
        && !facts.any(|(_, f)| match &f.what {
            What::View(v) => v.is_merge(),
            What::Rejoining(_) | What::Trace(Trace::TailUnknown { .. }) => true,
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::super::made::{A, B, deliver, id, names, phase, push, push_at, send, together};
    use super::*;
    use rgroups_core::Time;

    /// B asks for the state of A, which knows one message when it is asked; B is given `state`,
    /// and then `happens` what happens until all is at rest.
    fn given(
        state: impl Fn(MessageId) -> Vec<MessageId>,
        happens: impl FnOnce(&mut History, MessageId),
    ) -> Vec<Violation> {
        let mut h = together();
        let m = send(&mut h, A, None);
        deliver(&mut h, A, m);
        push(&mut h, B, What::FetchesState(OpId(1), Duration::from_secs(1)));
        push(&mut h, A, What::StateRequested(id(B)));
        push(&mut h, B, What::StateTaken(state(m).into()));
        push(&mut h, B, What::StateFetched(OpId(1), StateEnded::Given(id(A), 1)));
        happens(&mut h, m);
        phase(&mut h, Phase::AtRest);
        check(&h)
    }

    #[test]
    fn a_state_and_what_comes_after_it_break_nothing() {
        let found = given(
            |m| vec![m],
            |h, _| {
                let later = send(h, A, None);
                deliver(h, A, later);
                deliver(h, B, later);
            },
        );
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_state_that_its_provider_did_not_have_breaks_i2() {
        assert_eq!(names(&given(|_| Vec::new(), |_, _| {})), ["I2"]);
    }

    #[test]
    fn what_is_in_the_state_and_delivered_breaks_i2() {
        assert_eq!(names(&given(|m| vec![m], |h, m| deliver(h, B, m))), ["I2"]);
    }

    /// A delivers one more message than B is given.
    fn lacks_one(between: impl FnOnce(&mut History)) -> Vec<Violation> {
        given(
            |m| vec![m],
            |h, _| {
                let later = send(h, A, None);
                deliver(h, A, later);
                between(h);
            },
        )
    }

    #[test]
    fn what_is_neither_in_the_state_nor_delivered_breaks_i2_unless_they_were_apart() {
        assert_eq!(names(&lacks_one(|_| {})), ["I2"]);
        let unknown = What::Trace(Trace::TailUnknown { of: vec![id(A)] });
        assert!(lacks_one(|h| push(h, B, unknown)).is_empty());
        assert!(lacks_one(|h| push(h, B, What::Died { power_off: false })).is_empty());
    }

    /// B asks for a state for a second, and it ends so long after, if it does.
    fn ends_after(millis: Option<u64>, frozen: bool) -> Vec<Violation> {
        let mut h = together();
        push(&mut h, B, What::FetchesState(OpId(1), Duration::from_secs(1)));
        if frozen {
            push(&mut h, B, What::Frozen(true));
        }
        let began = h.facts.last().map_or(Time::ZERO, |f| f.at);
        if let Some(ms) = millis {
            let at = began + Duration::from_millis(ms);
            if frozen {
                push_at(&mut h, at, Some(B), What::Frozen(false));
            }
            push_at(&mut h, at, Some(B), What::StateFetched(OpId(1), StateEnded::Nobody));
        }
        push_at(&mut h, began + Duration::from_secs(60), Some(A), What::Consumes(None));
        check(&h)
    }

    #[test]
    fn a_call_for_a_state_that_outlives_its_time_breaks_i1() {
        assert!(ends_after(Some(1_020), false).is_empty());
        assert_eq!(names(&ends_after(Some(1_100), false)), ["I1"]);
        assert_eq!(names(&ends_after(None, false)), ["I1"]);
        assert!(ends_after(Some(1_100), true).is_empty(), "it did not run");
    }

    #[test]
    fn a_call_that_ends_without_a_state_though_nothing_is_wrong_breaks_i1() {
        let mut h = together();
        phase(&mut h, Phase::FinalRound);
        push(&mut h, B, What::FetchesState(OpId(1), Duration::from_secs(1)));
        push(&mut h, B, What::StateFetched(OpId(1), StateEnded::Nobody));
        assert_eq!(names(&check(&h)), ["I1"]);
    }
}
