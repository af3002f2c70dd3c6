//! Counters that all members of a group share.

use crate::error::Diagnose;
use crate::inbox::Request;
use crate::{Address, Channel, SendError};
use rgroups_core::protocols::counter::{CounterAction, CounterCall, CounterFailure};
use rgroups_core::{SendResult, Uuid};
use std::time::Duration;
use tokio::sync::oneshot;

/// A counter that all members of a group share (JGroups `CounterService`). It needs COUNTER in the stack
/// of every member that uses it: `config.on_top("COUNTER")`.
///
/// The coordinator of the view has it; every call is a question to the coordinator and its answer. What
/// was answered survives the coordinator, as far as a backup lives (`COUNTER.num_backups`), and is
/// carried out once. A counter that nobody has used begins with its initial value.
///
/// ```
/// use rgroups::{Channel, Config};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { rgroups::block_on(async {
/// let config = Config::in_process().on_top("COUNTER")?;
/// let (ch, _events) = Channel::builder(config).connect("tickets").await?;
/// let tickets = ch.counter("tickets");
/// assert_eq!(tickets.increment().await?, 1);
/// assert_eq!(tickets.add_and_get(10).await?, 11);
/// assert!(tickets.compare_and_set(11, 0).await?);
/// # ch.close().await?;
/// # Ok(()) }) }
/// ```
///
/// # Cancel safety
/// Dropping the future of a call gives up the wait: what was asked may be carried out all the same.
#[derive(Clone, Debug)]
pub struct Counter {
    channel: Channel,
    name: String,
    initial: i64,
    timeout: Option<Duration>,
}

/// Why something was not done with a counter, or is not known to have been done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CounterError {
    /// The stack has no COUNTER. Nothing was done.
    #[error("the stack has no COUNTER")]
    NotInStack,
    /// The channel is closed; what was on its way may be done.
    #[error("the channel is closed")]
    Closed,
    /// This member's view is not the primary one. Nothing was done.
    #[error("the view is not the primary one")]
    NotPrimary,
    /// No answer in time. If somebody was asked, it may be done.
    #[error("no answer in time{}", match asked {
        Some(who) => format!(" of {who}, which may do it"),
        None => ": nobody could be asked".to_owned(),
    })]
    Timeout {
        /// The coordinator that was asked; `None`: nobody.
        asked: Option<Address>,
    },
    /// The coordinator that was asked is gone, and whether it did it is not known: a JGroups member is
    /// or was coordinator, and those remember no requests.
    #[error("{asked} was asked and is gone; whether it was done is not known")]
    Unknown {
        /// Who was asked.
        asked: Address,
    },
    /// The coordinator said no.
    #[error("the coordinator refuses: {why}")]
    Refused {
        /// Why, in its words.
        why: String,
    },
    /// So many calls of this member are unanswered. Nothing was done.
    #[error("{limit} calls of this member are unanswered")]
    TooMany {
        /// The limit.
        limit: u64,
    },
    /// The name is too long. Nothing was done.
    #[error("the name of the counter is longer than {limit} bytes")]
    NameTooLong {
        /// The limit.
        limit: u64,
    },
}

impl Diagnose for CounterError {
    fn code(&self) -> &'static str {
        match self {
            CounterError::NotInStack => "RG0901",
            CounterError::Closed => SendError::Closed.code(),
            CounterError::NotPrimary => SendError::NotPrimary.code(),
            CounterError::Timeout { .. } => "RG0902",
            CounterError::Unknown { .. } => "RG0903",
            CounterError::Refused { .. } => "RG0904",
            CounterError::TooMany { .. } | CounterError::NameTooLong { .. } => "RG0905",
        }
    }

    fn hint(&self) -> Option<String> {
        crate::codes::find(self.code()).map(|c| c.remedy.to_owned())
    }
}

impl Counter {
    pub(crate) fn new(channel: Channel, name: &str) -> Self {
        Self { channel, name: name.to_owned(), initial: 0, timeout: None }
    }

    /// With this value if nobody has used the counter yet. Default 0.
    #[must_use]
    pub fn initially(self, initial: i64) -> Self {
        Self { initial, ..self }
    }

    /// With so much time for each call. Default: `COUNTER.timeout` (60 s).
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value.
    pub async fn get(&self) -> Result<i64, CounterError> {
        self.ask(CounterAction::Get).await
    }

    /// Gives it a value.
    pub async fn set(&self, value: i64) -> Result<(), CounterError> {
        self.ask(CounterAction::Set(value)).await.map(|_| ())
    }

    /// Adds to it; at the ends of 64 bits it goes around. Returns what it is then.
    pub async fn add_and_get(&self, delta: i64) -> Result<i64, CounterError> {
        self.ask(CounterAction::AddAndGet(delta)).await
    }

    /// Adds 1. Returns what it is then.
    pub async fn increment(&self) -> Result<i64, CounterError> {
        self.add_and_get(1).await
    }

    /// Subtracts 1. Returns what it is then.
    pub async fn decrement(&self) -> Result<i64, CounterError> {
        self.add_and_get(-1).await
    }

    /// Gives it the value `update` if it has the value `expected`. Returns what it was before: if that
    /// is `expected`, it was done.
    pub async fn compare_and_swap(&self, expected: i64, update: i64) -> Result<i64, CounterError> {
        self.ask(CounterAction::CompareAndSwap { expected, update }).await
    }

    /// Gives it the value `update` if it has the value `expected`. Returns whether it had.
    pub async fn compare_and_set(&self, expected: i64, update: i64) -> Result<bool, CounterError> {
        self.compare_and_swap(expected, update).await.map(|was| was == expected)
    }

    /// Deletes it: who uses it next begins with the initial value. A copy at a JGroups member may
    /// bring it back when that becomes coordinator.
    pub async fn delete(&self) -> Result<(), CounterError> {
        self.ask(CounterAction::Delete).await.map(|_| ())
    }

    async fn ask(&self, action: CounterAction) -> Result<i64, CounterError> {
        let (reply, answer) = oneshot::channel();
        let (name, initial, timeout) = (self.name.clone(), self.initial, self.timeout);
        let shared = self.channel.shared();
        let by = timeout.map(|t| shared.clock.now() + t);
        let make = |op| {
            let call = CounterCall { op, name, initial, action, timeout };
            Request::Count { call, by, reply }
        };
        let op = shared.inbox.ask(make).ok_or(CounterError::Closed)?;
        match self.channel.waiting(op).answer(answer).await {
            Ok(SendResult::Counted(result)) => result.map_err(failure),
            // Nothing else ends such a call.
            Ok(_) | Err(_) => Err(CounterError::Closed),
        }
    }
}

fn failure(f: CounterFailure) -> CounterError {
    let address = |m: Uuid| Address(m);
    match f {
        CounterFailure::NotInStack => CounterError::NotInStack,
        CounterFailure::NotPrimary => CounterError::NotPrimary,
        CounterFailure::TimedOut { asked } => CounterError::Timeout { asked: asked.map(address) },
        CounterFailure::Unknown { asked } => CounterError::Unknown { asked: Address(asked) },
        CounterFailure::Refused { why } => CounterError::Refused { why },
        CounterFailure::TooMany { limit } => CounterError::TooMany { limit },
        CounterFailure::NameTooLong { limit } => CounterError::NameTooLong { limit },
        // Calls are withdrawn only where nobody waits any more.
        _ => CounterError::Closed,
    }
}
