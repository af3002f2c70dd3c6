//! Whether a history of calls is *linearizable*: whether every call can be given one moment between
//! its beginning and its end at which it took effect, so that the answers are those of one object
//! used by one caller at a time (Herlihy and Wing: Linearizability, 1990).
//!
//! The search is that of Wing and Gong (1993) with the memory of Lowe (2017): depth first over the
//! calls that may come next, never twice from the same calls done and the same state. Calls whose
//! outcome nobody knows (a deadline, a caller that died) may have taken effect at any time after
//! their beginning, or never.
//!
//! What the object does is said by a [`Model`]; [`models`] has a counter, a register, a map and a
//! lock. Objects that do not depend on each other are best checked one by one: a history that is
//! linearizable for each is so as a whole.

pub mod models;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// What an object does when it is used by one caller at a time.
pub trait Model {
    /// What it holds.
    type State: Clone + Eq + Hash + Debug;
    /// What is asked of it.
    type Op: Debug;
    /// What it answers.
    type Answer: Debug;

    /// What it holds at first.
    fn initial(&self) -> Self::State;

    /// What it holds after `op`; `None` if `answer` is not what it would answer in `state`. Without
    /// an answer nobody knows it.
    fn step(
        &self,
        state: &Self::State,
        op: &Self::Op,
        answer: Option<&Self::Answer>,
    ) -> Option<Self::State>;
}

/// A call: when it began and, if its outcome is known, when it ended and with what. Times are any
/// numbers that grow; a call that ends at the time at which another begins was not before it.
#[derive(Clone, Debug)]
pub struct Call<Op, Answer> {
    /// What was asked.
    pub op: Op,
    /// When.
    pub begun: u64,
    /// When it was answered, and what; `None`: not known whether it took effect.
    pub ended: Option<(u64, Answer)>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order.
    Linearizable,
    /// There is none.
    Not {
        /// The most calls that could be put in order, and those that could not come next then.
        stuck: String,
    },
    /// The search was given up.
    Undecided {
        /// After so many steps.
        steps: usize,
    },
}

/// After so many steps a search is given up: some seconds.
pub const MAX_STEPS: usize = 5_000_000;

/// Looks for an order of `calls` that `model` explains.
pub fn check<M: Model>(model: &M, calls: &[Call<M::Op, M::Answer>]) -> Verdict {
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_key(|i| calls[*i].begun);
    let calls: Vec<&Call<M::Op, M::Answer>> = order.into_iter().map(|i| &calls[i]).collect();
    Search { model, calls: &calls, seen: HashSet::new(), best: (0, String::new()) }.run()
}

struct Search<'a, M: Model> {
    model: &'a M,
    /// In the order in which they began.
    calls: &'a [&'a Call<M::Op, M::Answer>],
    /// From where it was looked on already.
    seen: HashSet<(Done, M::State)>,
    /// The most calls that were put in order, and what came next.
    best: (usize, String),
}

/// Which calls are in the order: all before `first`, and these behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Done {
    first: usize,
    behind: Vec<usize>,
}

impl Done {
    fn contains(&self, i: usize) -> bool {
        i < self.first || self.behind.binary_search(&i).is_ok()
    }

    fn count(&self) -> usize {
        self.first + self.behind.len()
    }

    fn with(&self, i: usize) -> Done {
        let mut done = self.clone();
        if let Err(at) = done.behind.binary_search(&i) {
            done.behind.insert(at, i);
        }
        let joined = done.behind.iter().zip(done.first..).take_while(|(a, b)| **a == *b).count();
        done.behind.drain(..joined);
        done.first += joined;
        done
    }
}

impl<M: Model> Search<'_, M> {
    fn run(mut self) -> Verdict {
        let mut steps = 0;
        let mut open = vec![(Done::default(), self.model.initial())];
        while let Some((done, state)) = open.pop() {
            let next = self.next(&done);
            if next.iter().all(|i| self.calls[*i].ended.is_none()) && self.all_known_are_in(&done) {
                return Verdict::Linearizable;
            }
            self.note(&done, &state, &next);
            // The last one is looked at first: the call that ended first should be it.
            for i in next.into_iter().rev() {
                steps += 1;
                let call = self.calls[i];
                let answer = call.ended.as_ref().map(|(_, a)| a);
                let Some(after) = self.model.step(&state, &call.op, answer) else { continue };
                let following = (done.with(i), after);
                if self.seen.insert(following.clone()) {
                    open.push(following);
                }
            }
            if steps > MAX_STEPS {
                return Verdict::Undecided { steps };
            }
        }
        Verdict::Not { stuck: self.best.1 }
    }

    /// Those that may come next: they are not in, and began before any of the others that are not in
    /// has ended. Those that ended first come first.
    fn next(&self, done: &Done) -> Vec<usize> {
        let mut next: Vec<usize> = Vec::new();
        let mut first_end = u64::MAX;
        for i in done.first..self.calls.len() {
            let call = self.calls[i];
            if call.begun > first_end {
                break;
            }
            if done.contains(i) {
                continue;
            }
            next.push(i);
            first_end = first_end.min(call.ended.as_ref().map_or(u64::MAX, |(at, _)| *at));
        }
        next.retain(|i| self.calls[*i].begun <= first_end);
        next.sort_by_key(|i| self.calls[*i].ended.as_ref().map_or(u64::MAX, |(at, _)| *at));
        next
    }

    fn all_known_are_in(&self, done: &Done) -> bool {
        (done.first..self.calls.len()).all(|i| done.contains(i) || self.calls[i].ended.is_none())
    }

    fn note(&mut self, done: &Done, state: &M::State, next: &[usize]) {
        if done.count() < self.best.0 || (done.count() == 0 && !self.best.1.is_empty()) {
            return;
        }
        let calls: Vec<_> = next.iter().take(8).map(|i| self.calls[*i]).collect();
        let words = format!("{} calls in order, then {state:?}; next {calls:?}", done.count());
        self.best = (done.count(), words);
    }
}
