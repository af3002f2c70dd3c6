//! Why a state could not be had, or given.

use crate::error::Diagnose;
use crate::shared::Shared;
use crate::{Address, View};
use rgroups_core::app::{StateEnd, StateFailure, StateOutcome};
use std::fmt;
use std::time::Duration;

/// A member that was asked for its state, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateAttempt {
    /// The member.
    pub member: Address,
    /// Its logical name, if it is known.
    pub name: String,
    /// What became of it, in words.
    pub outcome: String,
}

impl fmt::Display for StateAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.outcome)
    }
}

/// Why there is no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Everybody who was asked left or refused.
    #[error("nobody gave the state (view {view}): {}", listed(.tried))]
    NoProvider {
        /// The view, with names.
        view: String,
        /// Who was asked.
        tried: Vec<StateAttempt>,
    },
    /// The time was over.
    #[error("no state after {after:?}: {}", listed(.tried))]
    TimedOut {
        /// How long it took.
        after: Duration,
        /// Who was asked.
        tried: Vec<StateAttempt>,
    },
    /// The member that was to be asked is not in the view.
    #[error("cannot ask {0} for its state: it is not in the view")]
    NotMember(Address),
    /// Another call is running.
    #[error("this member is already fetching a state")]
    Busy,
    /// The stack has no protocol for it.
    #[error("fetching a state needs STATE, STATE_SOCK or STATE_TRANSFER in the stack")]
    NotInStack,
    /// Of a state that came in parts this application took nothing more.
    #[error("this application took nothing of the state for {after:?}: {}", listed(.tried))]
    NotTaken {
        /// For so long.
        after: Duration,
        /// Who was asked.
        tried: Vec<StateAttempt>,
    },
    /// The member that a state was being given to has left, has it from somebody else, or has given
    /// up.
    #[error("the state is no longer wanted by {by}: {why}")]
    NotWanted {
        /// Its logical name, if it is known.
        by: String,
        /// Why, in words.
        why: String,
    },
    /// The channel is closed.
    #[error("the channel is closed")]
    Closed,
}

fn listed(tried: &[StateAttempt]) -> String {
    match tried {
        [] => "nobody was asked".to_owned(),
        _ => tried.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

impl StateError {
    pub(super) fn from_core(failure: StateFailure, shared: &Shared) -> Self {
        let mut tried: Vec<StateAttempt> = Vec::new();
        for t in failure.tried {
            let member = Address(t.provider);
            let outcome = match t.outcome {
                StateOutcome::Left if t.bytes > 0 => {
                    format!("left when {} bytes of its state had come", t.bytes)
                }
                StateOutcome::Left => "left".to_owned(),
                StateOutcome::Unanswered if t.bytes > 0 => {
                    format!("said no more when {} bytes of its state had come", t.bytes)
                }
                StateOutcome::Unanswered => "no answer".to_owned(),
                StateOutcome::Refused(why) => why.escape_debug().to_string(),
                // A member that is behind is asked again and again: once is enough to tell.
                StateOutcome::Behind => "its state was too old".to_owned(),
                other => format!("{other:?}"),
            };
            let attempt = StateAttempt { member, name: shared.label(member), outcome };
            if tried.last() != Some(&attempt) {
                tried.push(attempt);
            }
        }
        let view = || {
            let view: Option<View> = shared.view.borrow().view.clone();
            view.map(|v| shared.describe(&v)).unwrap_or_default()
        };
        match failure.end {
            StateEnd::NoProvider => StateError::NoProvider { view: view(), tried },
            StateEnd::TimedOut { after } => StateError::TimedOut { after, tried },
            StateEnd::NotMember(m) => StateError::NotMember(Address(m)),
            StateEnd::Busy => StateError::Busy,
            StateEnd::NotInStack => StateError::NotInStack,
            StateEnd::NotTaken { after } => StateError::NotTaken { after, tried },
            _ => StateError::Closed,
        }
    }
}

impl Diagnose for StateError {
    fn code(&self) -> &'static str {
        match self {
            StateError::NoProvider { .. } => "RG0602",
            StateError::TimedOut { .. } => "RG0603",
            StateError::NotMember(_) => "RG0604",
            StateError::Busy => "RG0605",
            StateError::NotInStack => "RG0606",
            StateError::Closed => "RG0607",
            StateError::NotTaken { .. } => "RG0608",
            StateError::NotWanted { .. } => "RG0609",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            StateError::NoProvider { .. } => Some(
                "a member gives its state by answering Event::StateRequested, or in \
                 Receiver::get_state"
                    .into(),
            ),
            StateError::TimedOut { .. } => Some(
                "is its application reading its events? Otherwise allow more time (at most \
                 BARRIER.max_close_time), or ask another member"
                    .into(),
            ),
            StateError::NotInStack => {
                Some("add STATE_TRANSFER to the stack; the presets have it".into())
            }
            StateError::NotTaken { .. } => Some(
                "call StateReader::next until it says that there is nothing more, or drop it"
                    .into(),
            ),
            StateError::NotMember(_)
            | StateError::Busy
            | StateError::Closed
            | StateError::NotWanted { .. } => None,
        }
    }
}
