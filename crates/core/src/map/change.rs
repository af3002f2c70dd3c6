//! Changes, and the calls that carry them.

use crate::wire::java_map;
use crate::wire::{Method, MethodCall, Value};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// What is done with a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key has this value from now on.
    Put {
        /// The key.
        key: Value,
        /// Its value.
        value: Value,
    },
    /// The key has this value, if it had none.
    PutIfAbsent {
        /// The key.
        key: Value,
        /// Its value.
        value: Value,
    },
    /// Each key has its value from now on.
    PutAll(Vec<(Value, Value)>),
    /// The key is gone.
    Remove {
        /// The key.
        key: Value,
    },
    /// The key is gone, if it had this value.
    RemoveIfEquals {
        /// The key.
        key: Value,
        /// The value that it must have.
        value: Value,
    },
    /// The key has this value, if it had one.
    Replace {
        /// The key.
        key: Value,
        /// Its value.
        value: Value,
    },
    /// The key has another value, if it had this one.
    ReplaceIfEquals {
        /// The key.
        key: Value,
        /// The value that it must have.
        expected: Value,
        /// Its value then.
        value: Value,
    },
    /// All keys are gone.
    Clear,
}

/// Why a key or a value cannot be in a map, or a call changes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// JGroups has no null in its map.
    Null,
    /// A key that is an object of JGroups or of Java: whether two of them are equal only Java knows.
    Object,
    /// A text that is not ASCII and longer than its encoding has room for (65,535 bytes).
    TooLong,
    /// There is no such method, or it is called with something else.
    Call,
    /// What `putAll` is called with is no java.util.HashMap of values.
    NoMap,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unusable::Null => "null can be neither key nor value",
            Unusable::Object => "an object of JGroups or Java can be no key",
            Unusable::TooLong => "a text over 32,767 bytes must be ASCII",
            Unusable::Call => "no such method of a map, or not called like that",
            Unusable::NoMap => {
                "only a java.util.HashMap of boxed numbers, strings and byte arrays can be put"
            }
        })
    }
}

/// `ReplicatedHashMap`'s numbers for its methods.
const PUT: i16 = 1;
const PUT_IF_ABSENT: i16 = 2;
const PUT_ALL: i16 = 3;
const REMOVE: i16 = 4;
const REMOVE_IF_EQUALS: i16 = 5;
const REPLACE: i16 = 6;
const REPLACE_IF_EQUALS: i16 = 7;
const CLEAR: i16 = 8;

impl Change {
    /// The numbers of the methods that carry changes.
    #[must_use]
    pub fn methods() -> core::ops::RangeInclusive<i16> {
        PUT..=CLEAR
    }

    /// The change that this method with these arguments is.
    ///
    /// # Errors
    /// If it is none, or one that is not possible.
    pub fn of_call(method: i16, args: Vec<Value>) -> Result<Self, Unusable> {
        let change = match (method, <[Value; 1]>::try_from(args)) {
            (REMOVE, Ok([key])) => Change::Remove { key },
            (PUT_ALL, Ok([Value::Java(stream)])) => {
                Change::PutAll(java_map::read(&stream).map_err(|_| Unusable::NoMap)?)
            }
            (_, Ok(_)) => return Err(Unusable::Call),
            (_, Err(args)) => match (method, <[Value; 2]>::try_from(args)) {
                (PUT, Ok([key, value])) => Change::Put { key, value },
                (PUT_IF_ABSENT, Ok([key, value])) => Change::PutIfAbsent { key, value },
                (REMOVE_IF_EQUALS, Ok([key, value])) => Change::RemoveIfEquals { key, value },
                (REPLACE, Ok([key, value])) => Change::Replace { key, value },
                (_, Ok(_)) => return Err(Unusable::Call),
                (_, Err(args)) => match (method, <[Value; 3]>::try_from(args)) {
                    (REPLACE_IF_EQUALS, Ok([key, expected, value])) => {
                        Change::ReplaceIfEquals { key, expected, value }
                    }
                    (CLEAR, Err(args)) if args.is_empty() => Change::Clear,
                    _ => return Err(Unusable::Call),
                },
            },
        };
        change.check()?;
        Ok(change)
    }

    /// The call that carries it.
    ///
    /// # Errors
    /// If it is not possible.
    pub fn to_call(&self) -> Result<MethodCall, Unusable> {
        self.check()?;
        let (method, args) = match self {
            Change::Put { key, value } => (PUT, vec![key.clone(), value.clone()]),
            Change::PutIfAbsent { key, value } => (PUT_IF_ABSENT, vec![key.clone(), value.clone()]),
            Change::PutAll(entries) => {
                let written = java_map::write(entries.iter().map(|(k, v)| (k, v)));
                (PUT_ALL, vec![Value::Java(written.map_err(|_| Unusable::Object)?)])
            }
            Change::Remove { key } => (REMOVE, vec![key.clone()]),
            Change::RemoveIfEquals { key, value } => {
                (REMOVE_IF_EQUALS, vec![key.clone(), value.clone()])
            }
            Change::Replace { key, value } => (REPLACE, vec![key.clone(), value.clone()]),
            Change::ReplaceIfEquals { key, expected, value } => {
                (REPLACE_IF_EQUALS, vec![key.clone(), expected.clone(), value.clone()])
            }
            Change::Clear => (CLEAR, vec![]),
        };
        Ok(MethodCall { method: Method::Numbered(method), args })
    }

    /// Whether all keys and values can be in a map.
    pub(super) fn check(&self) -> Result<(), Unusable> {
        match self {
            Change::Put { key, value }
            | Change::PutIfAbsent { key, value }
            | Change::RemoveIfEquals { key, value }
            | Change::Replace { key, value } => {
                check_key(key)?;
                check_value(value)
            }
            Change::PutAll(entries) => entries.iter().try_for_each(|(key, value)| {
                check_key(key)?;
                check_value(value)
            }),
            Change::Remove { key } => check_key(key),
            Change::ReplaceIfEquals { key, expected, value } => {
                check_key(key)?;
                check_value(expected)?;
                check_value(value)
            }
            Change::Clear => Ok(()),
        }
    }

    /// What it is, in a word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Change::Put { .. } => "put",
            Change::PutIfAbsent { .. } => "put if absent",
            Change::PutAll(_) => "put all",
            Change::Remove { .. } => "remove",
            Change::RemoveIfEquals { .. } => "remove if equal",
            Change::Replace { .. } => "replace",
            Change::ReplaceIfEquals { .. } => "replace if equal",
            Change::Clear => "clear",
        }
    }
}

fn check_key(key: &Value) -> Result<(), Unusable> {
    match key {
        Value::Class(_) | Value::Streamable(_) | Value::Java(_) => Err(Unusable::Object),
        other => check_value(other),
    }
}

/// Values may be objects of Java, which are kept as they are; such a map only Java can give to joiners.
fn check_value(value: &Value) -> Result<(), Unusable> {
    match value {
        Value::Null => Err(Unusable::Null),
        Value::Str(_) if !java_map::is_writable(value) => Err(Unusable::TooLong),
        _ => Ok(()),
    }
}
