//! What goes wrong with maps.

use crate::error::Diagnose;
use crate::rpc::RpcError;
use crate::{Address, ConnectError};

/// Why a map could not be opened, read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The stack has no SEQUENCER: copies could differ.
    #[error("the stack has no SEQUENCER, without which the copies of a map may differ")]
    NoTotalOrder,
    /// The group could not be joined, or the state not be had.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The state of the other members is no map of values.
    #[error("cannot take over the map of the others: {why}")]
    State {
        /// What is wrong with it.
        why: String,
    },
    /// This key or value has no place in a map. Nothing was done.
    #[error("cannot {what}: {why}")]
    Unusable {
        /// What was to be done.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// The value is not of the type of this map: another program put it there.
    #[error("the entry has another type: {why}")]
    Type {
        /// What it is.
        why: String,
    },
    /// This member did not carry the change out. What else the error says decides whether it may do so
    /// later: with [`RpcError::Timeout`] and `sent` it is on its way to all.
    #[error("not changed here: {0}")]
    Call(#[from] RpcError),
    /// Changed here, and on its way to these members, which have not said that they did it too.
    #[error("changed here, but not known to be everywhere: {}", listed(.missing))]
    NotEverywhere {
        /// Who, and why not.
        missing: Vec<(Address, RpcError)>,
    },
    /// After a merge this member is fetching the map of the others: what depends on the present value
    /// cannot be decided. Nothing was done.
    #[error("the map is being fetched after a merge; nothing was done")]
    Merging,
}

fn listed(missing: &[(Address, RpcError)]) -> String {
    missing.iter().map(|(_, why)| why.to_string()).collect::<Vec<_>>().join("; ")
}

impl Diagnose for MapError {
    fn code(&self) -> &'static str {
        match self {
            MapError::Connect(e) => e.code(),
            MapError::Call(e) => e.code(),
            MapError::NoTotalOrder => "RG1001",
            MapError::State { .. } => "RG1002",
            MapError::Unusable { .. } | MapError::Type { .. } => "RG1003",
            MapError::NotEverywhere { .. } => "RG1004",
            MapError::Merging => "RG1005",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            MapError::Connect(e) => e.hint(),
            MapError::Call(e) => e.hint(),
            _ => crate::codes::find(self.code()).map(|c| c.remedy.to_owned()),
        }
    }
}
