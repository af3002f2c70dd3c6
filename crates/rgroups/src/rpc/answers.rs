//! How a call is made, and how it ends.

use crate::error::Diagnose;
use crate::{Address, Flags, SendError};
use rgroups_core::rpc::{Failure, Reply, Row, Status, Unreachable, Wait};
use std::time::Duration;

/// How a call is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOptions {
    /// Whose answers are awaited. Default: everybody's.
    pub wait: Wait,
    /// How long the call may take, counted from when it is made. Default 10 s.
    pub timeout: Duration,
    /// Flags of the request; its answers have them too. [`Flags::OOB`] lets it overtake messages
    /// that wait to be in order. Default: none.
    pub flags: Flags,
    /// Who is not called by [`Dispatcher::call_all`](super::Dispatcher::call_all), such as this
    /// member itself. Default: nobody.
    pub exclude: Vec<Address>,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            wait: Wait::All,
            timeout: Duration::from_secs(10),
            flags: Flags::empty(),
            exclude: Vec::new(),
        }
    }
}

/// What went wrong with a call: as a whole, or at one member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RpcError {
    /// The call was not made.
    #[error(transparent)]
    Send(#[from] SendError),
    /// So many calls of this member are unanswered: it was not made.
    #[error("not called: {limit} calls of this member are unanswered")]
    TooManyCalls {
        /// The limit.
        limit: u64,
    },
    /// The arguments cannot be written: it was not made.
    #[error("not called: the arguments cannot be written: {why}")]
    Encode {
        /// Why.
        why: String,
    },
    /// The time was over.
    #[error("no answer of {from} in time{}", if *sent { "" } else { ": the request has not left" })]
    Timeout {
        /// Of whom.
        from: Address,
        /// The request had left, and may have been carried out; else it never leaves.
        sent: bool,
    },
    /// The member left the group during the call, or a merge brought it back; whether it carried the
    /// call out is not known.
    #[error("{0} left the group during the call")]
    Left(Address),
    /// Not called: no member of the view.
    #[error("{0} is not in the view")]
    NotMember(Address),
    /// Not called: a member of JGroups, which understands calls with values only.
    #[error("{0} is a member of JGroups, which can only be called with values")]
    OnlyValues(Address),
    /// The member has no handler of this name.
    #[error("{from} has no method {method}")]
    NoSuchMethod {
        /// The member.
        from: Address,
        /// The method.
        method: String,
    },
    /// The handler says that it failed; of a Java member, an exception.
    #[error("{from} failed: {}{message}", .class.as_ref().map(|c| format!("{c}: ")).unwrap_or_default())]
    Remote {
        /// The member.
        from: Address,
        /// The class of the exception, of a Java member.
        class: Option<String>,
        /// In words.
        message: String,
    },
    /// The member runs as many requests as it can at a time. It was not carried out.
    #[error("{0} is overloaded: it runs as many requests as it can")]
    Overloaded(Address),
    /// The member could not read the request. It was not carried out.
    #[error("{0} cannot read the request")]
    Unreadable(Address),
    /// The member has just joined, or come back, and has what the call did as part of the state that it was
    /// given by another one. It did not carry it out, and has no answer.
    #[error("{0} has what the call did with the state that it was given")]
    InState(Address),
    /// The answer is not of the type that was asked for.
    #[error("cannot read the answer of {from}: {why}")]
    Decode {
        /// Of whom.
        from: Address,
        /// Why.
        why: String,
    },
    /// The call had ended before the member answered: its answer was not needed
    /// ([`CallOptions::wait`]).
    #[error("the answer of {0} was not awaited")]
    NotAwaited(Address),
}

impl Diagnose for RpcError {
    fn code(&self) -> &'static str {
        match self {
            RpcError::Send(e) => e.code(),
            RpcError::TooManyCalls { .. } => "RG0801",
            RpcError::Encode { .. } | RpcError::Decode { .. } => "RG0802",
            RpcError::Timeout { .. } => "RG0803",
            RpcError::Left(_) => "RG0804",
            RpcError::NotMember(_) => "RG0412",
            RpcError::OnlyValues(_) => "RG0805",
            RpcError::NoSuchMethod { .. } => "RG0806",
            RpcError::Remote { .. } => "RG0807",
            RpcError::Overloaded(_) => "RG0808",
            RpcError::Unreadable(_) => "RG0809",
            RpcError::NotAwaited(_) => "RG0810",
            RpcError::InState(_) => "RG0811",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            RpcError::Send(e) => e.hint(),
            RpcError::Timeout { sent: false, .. } => {
                Some("the member named reads slowly: see blocked sends".into())
            }
            RpcError::OnlyValues(_) => Some("use call_values".into()),
            RpcError::TooManyCalls { .. }
            | RpcError::Encode { .. }
            | RpcError::Timeout { .. }
            | RpcError::Left(_)
            | RpcError::NotMember(_)
            | RpcError::NoSuchMethod { .. }
            | RpcError::Remote { .. }
            | RpcError::Overloaded(_)
            | RpcError::Unreadable(_)
            | RpcError::InState(_)
            | RpcError::Decode { .. }
            | RpcError::NotAwaited(_) => None,
        }
    }
}

/// One row per member that was called: in the order of the view, or as the caller named them. Never
/// fewer.
#[derive(Clone, Debug, PartialEq)]
pub struct Responses<T> {
    rows: Vec<(Address, Result<T, RpcError>)>,
}

impl<T> Responses<T> {
    /// From what the stack says, each value read by `read`.
    pub(super) fn new(
        rows: Vec<Row>,
        method: &str,
        read: impl Fn(Reply) -> Result<T, String>,
    ) -> Self {
        let one = |row: Row| {
            let from = Address(row.member);
            (from, outcome(from, row.status, method, &read))
        };
        Self { rows: rows.into_iter().map(one).collect() }
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = (Address, &Result<T, RpcError>)> {
        self.rows.iter().map(|(member, row)| (*member, row))
    }

    /// The values, with their members.
    pub fn ok(&self) -> impl Iterator<Item = (Address, &T)> {
        self.iter().filter_map(|(member, row)| Some((member, row.as_ref().ok()?)))
    }

    /// What went wrong, with the members where it did.
    pub fn errors(&self) -> impl Iterator<Item = (Address, &RpcError)> {
        self.iter().filter_map(|(member, row)| Some((member, row.as_ref().err()?)))
    }

    /// The row of a member, if it was called.
    #[must_use]
    pub fn of(&self, member: Address) -> Option<&Result<T, RpcError>> {
        self.rows.iter().find(|(m, _)| *m == member).map(|(_, row)| row)
    }

    /// How many members were called.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nobody was called.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All values, or the first thing that went wrong.
    pub fn all_ok(self) -> Result<Vec<(Address, T)>, RpcError> {
        self.rows.into_iter().map(|(member, row)| Ok((member, row?))).collect()
    }

    /// The first value in the order of the rows.
    #[must_use]
    pub fn into_first(self) -> Option<(Address, T)> {
        self.rows.into_iter().find_map(|(member, row)| Some((member, row.ok()?)))
    }

    /// The only row, of a call of one member.
    #[cfg(feature = "rpc")]
    pub(super) fn into_only(self, to: Address) -> Result<T, RpcError> {
        let row = self.rows.into_iter().next();
        row.map_or(Err(RpcError::NotMember(to)), |(_, row)| row)
    }
}

impl<T> IntoIterator for Responses<T> {
    type Item = (Address, Result<T, RpcError>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.into_iter()
    }
}

fn outcome<T>(
    from: Address,
    status: Status,
    method: &str,
    read: impl Fn(Reply) -> Result<T, String>,
) -> Result<T, RpcError> {
    Err(match status {
        Status::Answered(reply) => {
            return read(reply).map_err(|why| RpcError::Decode { from, why });
        }
        Status::Failed(Failure::Error { class, message }) => {
            RpcError::Remote { from, class, message }
        }
        Status::Failed(Failure::Overloaded) => RpcError::Overloaded(from),
        Status::Failed(Failure::Unreadable) => RpcError::Unreadable(from),
        Status::Failed(Failure::InState) => RpcError::InState(from),
        Status::NoSuchMethod => RpcError::NoSuchMethod { from, method: method.to_owned() },
        Status::Left => RpcError::Left(from),
        Status::Unreachable(Unreachable::NotMember) => RpcError::NotMember(from),
        Status::Unreachable(Unreachable::OnlyValues) => RpcError::OnlyValues(from),
        Status::TimedOut { sent } => RpcError::Timeout { from, sent },
        Status::NotAwaited => RpcError::NotAwaited(from),
    })
}
