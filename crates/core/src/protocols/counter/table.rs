//! The counters, and what became of the latest requests: what coordinators keep, tell their backups
//! and put together when the coordinator changes.

use crate::Uuid;
use crate::wire::{
    CounterAsk, Decode, DecodeErrorKind, Decoded, Encode, NamedCounter, Reader, WriteExt, Writer,
};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// Requests of one member that are remembered. A member never has more unanswered ones.
pub(super) const REMEMBERED: usize = 1_024;
/// Members whose requests are remembered, in the view or not.
const MOST_OWNERS: usize = 4_096;
/// Deleted counters that are remembered, so that nobody brings them back who has not heard of it.
const MOST_DELETED: usize = 4_096;

/// What a counter is, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// `None`: it was deleted.
    pub(super) value: Option<i64>,
    pub(super) version: i64,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was carried out.
    Done { value: i64, version: i64 },
    /// There is no such counter. Nothing was done, so it need not be remembered.
    NotFound,
}

/// What one request changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) name: String,
    pub(super) state: State,
    pub(super) owner: Uuid,
    pub(super) request: i64,
    /// What it was answered with.
    pub(super) value: i64,
}

/// See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) counters: BTreeMap<String, State>,
    answered: BTreeMap<Uuid, BTreeMap<i64, (i64, i64)>>,
}

impl Table {
    /// What became of a request, if it was carried out before.
    pub(super) fn outcome(&self, owner: Uuid, request: i64) -> Option<Outcome> {
        let (value, version) = *self.answered.get(&owner)?.get(&request)?;
        Some(Outcome::Done { value, version })
    }

    /// Carries a request out. What it changed is not in the table before [`Table::apply`].
    pub(super) fn execute(
        &self,
        owner: Uuid,
        request: i64,
        name: &str,
        ask: CounterAsk,
    ) -> (Outcome, Option<Change>) {
        let known = self.counters.get(name).copied();
        let version = known.map_or(0, |s| s.version);
        let changed = |after: Option<i64>, answer: i64| {
            let state = State { value: after, version: version.saturating_add(1) };
            let (name, value) = (name.into(), answer);
            let outcome = Outcome::Done { value, version: state.version };
            (outcome, Some(Change { name, state, owner, request, value }))
        };
        let same = |value| (Outcome::Done { value, version }, None);
        let Some(value) = known.and_then(|s| s.value) else {
            return match ask {
                CounterAsk::GetOrCreate(initial) => changed(Some(initial), initial),
                CounterAsk::Delete => (Outcome::Done { value: 0, version }, None),
                CounterAsk::Set(_)
                | CounterAsk::CompareAndSet { .. }
                | CounterAsk::AddAndGet(_)
                | CounterAsk::Function => (Outcome::NotFound, None),
            };
        };
        match ask {
            CounterAsk::GetOrCreate(_) | CounterAsk::AddAndGet(0) | CounterAsk::Function => {
                same(value)
            }
            CounterAsk::Delete => changed(None, value),
            CounterAsk::Set(new) => changed(Some(new), new),
            CounterAsk::AddAndGet(delta) => {
                let sum = value.wrapping_add(delta);
                changed(Some(sum), sum)
            }
            CounterAsk::CompareAndSet { expected, update } if expected == value => {
                changed(Some(update), value)
            }
            // It is remembered too: carried out later it might succeed.
            CounterAsk::CompareAndSet { .. } => {
                let state = State { value: Some(value), version };
                let outcome = Outcome::Done { value, version };
                (outcome, Some(Change { name: name.into(), state, owner, request, value }))
            }
        }
    }

    pub(super) fn apply(&mut self, change: &Change) {
        self.take(&change.name, change.state);
        let outcome = (change.value, change.state.version);
        let of_owner = self.answered.entry(change.owner).or_default();
        of_owner.insert(change.request, outcome);
        while of_owner.len() > REMEMBERED {
            of_owner.pop_first();
        }
    }

    /// Takes this for the counter if it is newer. Of two with the same version the greater value is
    /// taken, so that everybody takes the same.
    pub(super) fn take(&mut self, name: &str, state: State) {
        match self.counters.get_mut(name) {
            Some(known) => {
                if (state.version, state.value) > (known.version, known.value) {
                    *known = state;
                }
            }
            None => {
                self.counters.insert(name.into(), state);
            }
        }
    }

    /// Takes what is newer in `other`, and what it remembers.
    pub(super) fn merge(&mut self, other: &Table) {
        for (name, state) in &other.counters {
            self.take(name, *state);
        }
        for (owner, outcomes) in &other.answered {
            let mine = self.answered.entry(*owner).or_default();
            for (request, outcome) in outcomes {
                mine.entry(*request).or_insert(*outcome);
            }
            while mine.len() > REMEMBERED {
                mine.pop_first();
            }
        }
    }

    /// Forgets what there is no room for: first of members that `stays` does not name.
    pub(super) fn prune(&mut self, stays: impl Fn(Uuid) -> bool) {
        if self.answered.len() > MOST_OWNERS {
            self.answered.retain(|m, _| stays(*m));
        }
        let deleted = self.counters.values().filter(|s| s.value.is_none()).count();
        let mut too_many = deleted.saturating_sub(MOST_DELETED);
        if too_many > 0 {
            self.counters.retain(|_, s| {
                let goes = s.value.is_none() && too_many > 0;
                too_many -= usize::from(goes);
                !goes
            });
        }
    }

    /// Counters that exist, as JGroups writes them.
    pub(super) fn named(&self) -> Vec<NamedCounter> {
        let existing = |(name, s): (&String, &State)| {
            let value = s.value?;
            Some(NamedCounter { name: name.clone(), value, version: s.version })
        };
        self.counters.iter().filter_map(existing).collect()
    }

    /// Those that are newer here than in `theirs`, or not there.
    pub(super) fn newer_than(&self, theirs: &[NamedCounter]) -> Vec<NamedCounter> {
        let known: BTreeMap<&str, i64> =
            theirs.iter().map(|c| (c.name.as_str(), c.version)).collect();
        let newer = |c: &NamedCounter| known.get(c.name.as_str()).is_none_or(|v| c.version > *v);
        self.named().into_iter().filter(newer).collect()
    }
}

impl State {
    fn encode(self, w: &mut impl Writer) {
        w.bool(self.value.is_some());
        w.i64(self.value.unwrap_or(0));
        w.i64(self.version);
    }

    fn decode(r: &mut Reader) -> Decoded<Self> {
        let exists = r.bool("existence")?;
        let value = r.i64("value")?;
        Ok(State { value: exists.then_some(value), version: r.i64("version")? })
    }
}

/// utf name, u8 exists, i64 value, i64 version, uuid owner, i64 request, i64 answer.
impl Encode for Change {
    fn encode(&self, w: &mut impl Writer) {
        w.utf(&self.name);
        self.state.encode(w);
        self.owner.encode(w);
        w.i64(self.request);
        w.i64(self.value);
    }
}

impl Decode for Change {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(Change {
            name: r.utf("counter name")?,
            state: State::decode(r)?,
            owner: Uuid::decode(r)?,
            request: r.i64("request number")?,
            value: r.i64("answer")?,
        })
    }
}

/// u32 counters: utf name, u8 exists, i64 value, i64 version. u32 members: uuid, u16 requests: i64
/// number, i64 answer, i64 version.
impl Encode for Table {
    fn encode(&self, w: &mut impl Writer) {
        w.u32(self.counters.len() as u32);
        for (name, state) in &self.counters {
            w.utf(name);
            state.encode(w);
        }
        w.u32(self.answered.len() as u32);
        for (owner, outcomes) in &self.answered {
            owner.encode(w);
            // At most REMEMBERED.
            w.u16(outcomes.len() as u16);
            for (request, (value, version)) in outcomes {
                w.i64(*request);
                w.i64(*value);
                w.i64(*version);
            }
        }
    }
}

impl Decode for Table {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let mut table = Table::default();
        let n = i64::from(r.u32("counters")?);
        for _ in 0..r.count(n, 2 + 17, "counters")? {
            let name = r.utf("counter name")?;
            table.counters.insert(name, State::decode(r)?);
        }
        let n = i64::from(r.u32("members")?);
        for _ in 0..r.count(n, 16 + 2, "members")? {
            let owner = Uuid::decode(r)?;
            let n = r.u16("requests")?;
            if usize::from(n) > REMEMBERED {
                return Err(r.error("requests", DecodeErrorKind::TooLong(u64::from(n))));
            }
            let mut outcomes = BTreeMap::new();
            for _ in 0..r.count(i64::from(n), 24, "requests")? {
                let request = r.i64("request number")?;
                outcomes.insert(request, (r.i64("answer")?, r.i64("version")?));
            }
            table.answered.insert(owner, outcomes);
        }
        Ok(table)
    }
}
