//! An accusation: who is taken for dead, by whom, on what evidence.

use crate::Uuid;
use core::fmt;
use core::time::Duration;

/// A member that is taken for dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// Who.
    pub member: Uuid,
    /// Who says so first, as far as is known here.
    pub by: Uuid,
    /// Why.
    pub why: Evidence,
}

/// On what evidence a member is accused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// Nothing was heard of it for so long, which is more than the timeout of FD_ALL3.
    Silence(Duration),
    /// The connection on which FD_SOCK2 watches it broke.
    ConnectionClosed,
    /// Nobody, or somebody else, listens where its FD_SOCK2 should.
    NobodyListens,
    /// Messages wait for it, and it gives no credit.
    NoCredit,
    /// The accuser says so in a message, which has no room for a reason: its FD_SOCK2 has lost the
    /// member, or its flow control has.
    Hearsay,
    /// It holds up a synchronous change of the view.
    HoldsUpView,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Silence(time) => write!(f, "no heartbeat for {:.1} s", time.as_secs_f64()),
            Evidence::ConnectionClosed => f.write_str("its connection broke"),
            Evidence::NobodyListens => f.write_str("nobody listens where it should"),
            Evidence::NoCredit => f.write_str("it gives no credit"),
            Evidence::Hearsay => f.write_str("it is said to be gone"),
            Evidence::HoldsUpView => f.write_str("it holds up a synchronous change of the view"),
        }
    }
}
