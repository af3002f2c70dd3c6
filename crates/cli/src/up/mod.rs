//! `up`: a cluster on this machine, for trying and for demonstrations. Over UDP and TCP every member
//! is a process of its own, so that killing one is real; in-process members are tasks.

pub(crate) mod control;
pub(crate) mod host;
pub(crate) mod member;
pub(crate) mod parent;

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// What a member is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub(crate) enum Order {
    /// Exchange nothing with these addresses from now on.
    Block {
        /// Transport addresses of the members behind the cut.
        peers: Vec<SocketAddr>,
    },
    /// Leave the group and end.
    Leave,
}

/// What a member tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub(crate) enum Report {
    /// It joined.
    Joined {
        /// Where it is.
        address: Option<SocketAddr>,
        /// How long it took.
        ms: u64,
    },
    /// It could not join.
    Failed {
        /// Why.
        reason: String,
    },
    /// It installed a view.
    View(SeenView),
    /// How many messages it has multicast and delivered so far.
    Traffic {
        /// Multicast.
        sent: u64,
        /// Delivered, its own included.
        delivered: u64,
    },
    /// It is about to exclude a member.
    Suspected {
        /// Whom.
        suspect: String,
        /// Who accused that member first.
        by: String,
        /// Why.
        reason: String,
    },
    /// It left the group.
    Left {
        /// Whether the coordinator confirmed it.
        clean: bool,
    },
    /// It is gone.
    Ended,
}

/// A view, with names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SeenView {
    /// As it is printed.
    pub(crate) text: String,
    /// Its number.
    pub(crate) id: u64,
    /// Member names in order.
    pub(crate) members: Vec<String>,
    /// It is a merge view.
    pub(crate) merge: bool,
}
