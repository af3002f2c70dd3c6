//! One member's copy.

use super::{Change, Unusable};
use crate::wire::{Value, java_map};
use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;

/// The map as one member has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    /// By the encoding of the key, which tells keys apart.
    entries: BTreeMap<Vec<u8>, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: Value,
    value: Value,
}

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// What is answered: the value from before, or whether it was done, as in Java.
    pub reply: Value,
    /// What is different now, in the order of the change.
    pub differences: Vec<Difference>,
}

/// A key that has another value now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The key.
    pub key: Value,
    /// Its value before; `None`: it had none.
    pub before: Option<Value>,
    /// Its value now; `None`: it is gone.
    pub now: Option<Value>,
}

/// A key that had another value in the part of a group that gave way in a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The key.
    pub key: Value,
    /// The value that is given up; `None`: the key was not there.
    pub ours: Option<Value>,
    /// The value that it has now; `None`: it is gone.
    pub theirs: Option<Value>,
}

/// Why a copy cannot be given to others, or others' not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsuitable {
    /// It has values of Java's own classes.
    Objects,
    /// What came is no java.util.HashMap of values.
    Unreadable,
    /// What came has a key or a value that cannot be in a map.
    Entry(Unusable),
}

impl fmt::Display for Unsuitable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsuitable::Objects => {
                f.write_str("the map has values of Java's own classes, which only Java can give")
            }
            Unsuitable::Unreadable => f.write_str(
                "the state is no java.util.HashMap of boxed numbers, booleans, characters, strings and byte arrays",
            ),
            Unsuitable::Entry(why) => f.write_str(&why.to_string()),
        }
    }
}

impl Replica {
    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &Value) -> Option<&Value> {
        self.entries.get(&encoding(key)).map(|e| &e.value)
    }

    /// All entries, in the same order at all members.
    pub fn iter(&self) -> impl Iterator<Item = (&Value, &Value)> {
        self.entries.values().map(|e| (&e.key, &e.value))
    }

    /// Carries a change out.
    pub fn carry_out(&mut self, change: Change) -> Carried {
        let mut differences = Vec::new();
        let reply = match change {
            Change::Put { key, value } => or_null(self.set(key, Some(value), &mut differences)),
            Change::PutIfAbsent { key, value } => match self.get(&key).cloned() {
                Some(before) => before,
                None => or_null(self.set(key, Some(value), &mut differences)),
            },
            Change::PutAll(entries) => {
                for (key, value) in entries {
                    self.set(key, Some(value), &mut differences);
                }
                Value::Null
            }
            Change::Remove { key } => or_null(self.set(key, None, &mut differences)),
            Change::RemoveIfEquals { key, value } => {
                let equal = self.get(&key) == Some(&value);
                if equal {
                    self.set(key, None, &mut differences);
                }
                Value::Bool(equal)
            }
            Change::Replace { key, value } => match self.get(&key) {
                Some(_) => or_null(self.set(key, Some(value), &mut differences)),
                None => Value::Null,
            },
            Change::ReplaceIfEquals { key, expected, value } => {
                let equal = self.get(&key) == Some(&expected);
                if equal {
                    self.set(key, Some(value), &mut differences);
                }
                Value::Bool(equal)
            }
            Change::Clear => {
                let gone = core::mem::take(&mut self.entries).into_values();
                let gone =
                    gone.map(|e| Difference { key: e.key, before: Some(e.value), now: None });
                differences.extend(gone);
                Value::Null
            }
        };
        Carried { reply, differences }
    }

    /// Gives a key a value, or none. Returns the one from before.
    fn set(
        &mut self,
        key: Value,
        now: Option<Value>,
        differences: &mut Vec<Difference>,
    ) -> Option<Value> {
        let place = encoding(&key);
        let before = match &now {
            Some(value) => {
                self.entries.insert(place, Entry { key: key.clone(), value: value.clone() })
            }
            None => self.entries.remove(&place),
        };
        let before = before.map(|e| e.value);
        if before != now {
            differences.push(Difference { key, before: before.clone(), now });
        }
        before
    }

    /// The copy as a state for a joiner, of either toolkit.
    ///
    /// # Errors
    /// If only Java could write it.
    pub fn snapshot(&self) -> Result<Bytes, Unsuitable> {
        java_map::write(self.entries.values().map(|e| (&e.key, &e.value)))
            .map_err(|_| Unsuitable::Objects)
    }

    /// Takes the state of another member in the place of the own copy. Returns what is different.
    ///
    /// # Errors
    /// If it cannot be taken; then the copy is as it was.
    pub fn install(&mut self, state: &Bytes) -> Result<Vec<Lost>, Unsuitable> {
        let entries = java_map::read(state).map_err(|_| Unsuitable::Unreadable)?;
        let all = Change::PutAll(entries);
        all.check().map_err(Unsuitable::Entry)?;
        let mut new = Replica::default();
        new.carry_out(all);
        let old = core::mem::replace(self, new);
        Ok(old.lost_to(self))
    }

    fn lost_to(self, new: &Replica) -> Vec<Lost> {
        let added = new.entries.iter().filter(|(place, _)| !self.entries.contains_key(*place));
        let added = added.map(|(_, e)| Lost {
            key: e.key.clone(),
            ours: None,
            theirs: Some(e.value.clone()),
        });
        let mut lost: Vec<Lost> = added.collect();
        for (place, old) in self.entries {
            let theirs = new.entries.get(&place).map(|e| e.value.clone());
            if theirs.as_ref() != Some(&old.value) {
                lost.push(Lost { key: old.key, ours: Some(old.value), theirs });
            }
        }
        lost
    }
}

fn encoding(key: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    key.encode_stream(&mut out);
    out
}

fn or_null(value: Option<Value>) -> Value {
    value.unwrap_or(Value::Null)
}
