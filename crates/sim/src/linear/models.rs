//! Objects that members share, as one caller sees them.

use super::Model;
use std::collections::BTreeMap;

/// A counter that begins with a value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter(pub i64);

/// What is asked of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterOp {
    /// What it is.
    Get,
    /// It becomes this.
    Set(i64),
    /// It grows by this, and answers with what it is then.
    AddAndGet(i64),
    /// It becomes `update` if it is `expected`, and answers with what it was.
    CompareAndSwap {
        /// What it must be.
        expected: i64,
        /// What it becomes.
        update: i64,
    },
}

impl Model for Counter {
    type State = i64;
    type Op = CounterOp;
    /// To `Set` any.
    type Answer = i64;

    fn initial(&self) -> i64 {
        self.0
    }

    fn step(&self, state: &i64, op: &CounterOp, answer: Option<&i64>) -> Option<i64> {
        let (after, says) = match op {
            CounterOp::Get => (*state, Some(*state)),
            CounterOp::Set(value) => (*value, None),
            CounterOp::AddAndGet(delta) => {
                let sum = state.wrapping_add(*delta);
                (sum, Some(sum))
            }
            CounterOp::CompareAndSwap { expected, update } => {
                (if state == expected { *update } else { *state }, Some(*state))
            }
        };
        agree(answer, says.as_ref()).then_some(after)
    }
}

/// A lock, and who has it. Who waits for it is not said: only who got it when.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lock;

/// What is asked of a lock. The number names whoever asks, and its hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOp {
    /// It is had from here on.
    Acquire(u64),
    /// It is not had any more; whoever has lost it may say so too.
    Release(u64),
}

impl Model for Lock {
    type State = Option<u64>;
    type Op = LockOp;
    type Answer = ();

    fn initial(&self) -> Option<u64> {
        None
    }

    fn step(&self, state: &Option<u64>, op: &LockOp, _: Option<&()>) -> Option<Option<u64>> {
        match (op, state) {
            (LockOp::Acquire(who), None) => Some(Some(*who)),
            (LockOp::Acquire(_), Some(_)) => None,
            (LockOp::Release(who), Some(holder)) if who == holder => Some(None),
            (LockOp::Release(_), _) => Some(*state),
        }
    }
}

/// A map. With one key it is a register.
#[derive(Clone, Copy, Debug, Default)]
pub struct Map;

/// What is asked of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapOp {
    /// What the key has.
    Get(String),
    /// The key has this; answered with what it had.
    Put(String, Vec<u8>),
    /// The key has nothing; answered with what it had.
    Remove(String),
    /// The key has this if it had nothing; answered with what it had.
    PutIfAbsent(String, Vec<u8>),
    /// The key has `new` if it had `old`; answered with what it had.
    Replace {
        /// Which key.
        key: String,
        /// What it must have.
        old: Vec<u8>,
        /// What it has then.
        new: Vec<u8>,
    },
}

impl MapOp {
    /// Which key it is about: histories of different keys can be checked one by one.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            MapOp::Get(key)
            | MapOp::Put(key, _)
            | MapOp::Remove(key)
            | MapOp::PutIfAbsent(key, _)
            | MapOp::Replace { key, .. } => key,
        }
    }
}

/// What a map answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapAnswer {
    /// What the key had.
    Had(Option<Vec<u8>>),
    /// It was done, and the object does not say what the key had.
    Done,
}

impl Model for Map {
    type State = BTreeMap<String, Vec<u8>>;
    type Op = MapOp;
    type Answer = MapAnswer;

    fn initial(&self) -> Self::State {
        BTreeMap::new()
    }

    fn step(
        &self,
        state: &Self::State,
        op: &MapOp,
        answer: Option<&MapAnswer>,
    ) -> Option<Self::State> {
        let had = state.get(op.key()).cloned();
        match answer {
            Some(MapAnswer::Had(says)) if *says != had => return None,
            Some(MapAnswer::Had(_) | MapAnswer::Done) | None => {}
        }
        let mut after = state.clone();
        let value = match op {
            MapOp::Get(_) => return Some(after),
            MapOp::Put(_, value) => Some(value),
            MapOp::Remove(_) => None,
            MapOp::PutIfAbsent(_, value) => Some(had.as_ref().unwrap_or(value)),
            MapOp::Replace { old, new, .. } if had.as_ref() == Some(old) => Some(new),
            MapOp::Replace { .. } => had.as_ref(),
        };
        match value {
            Some(value) => after.insert(op.key().to_owned(), value.clone()),
            None => after.remove(op.key()),
        };
        Some(after)
    }
}

/// An answer that is not known, or that the object does not determine, fits anything.
fn agree<T: PartialEq>(answer: Option<&T>, says: Option<&T>) -> bool {
    match (answer, says) {
        (Some(a), Some(s)) => a == s,
        (None, _) | (_, None) => true,
    }
}
