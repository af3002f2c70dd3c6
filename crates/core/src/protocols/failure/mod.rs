//! Failure detection: heartbeats, monitored connections, verification of suspects.

pub mod fd_all3;
pub mod fd_sock2;
pub mod verify_suspect2;

pub use fd_all3::{FdAll3, FdAll3Config};
pub use fd_sock2::{FdSock2, FdSock2Config};
pub use verify_suspect2::{
    Verification, VerifySuspect2, VerifySuspect2Config, VerifySuspectConfig,
};

use crate::{Group, Suspicion, Uuid};
use alloc::collections::BTreeMap;

/// Whether this member would be coordinator once `suspects` are gone: the one that acts on a
/// suspicion. The same rule as in GMS, computed from the same view.
pub(crate) fn acts_without(group: &Group, suspects: &BTreeMap<Uuid, Suspicion>) -> bool {
    group.members().iter().find(|m| !suspects.contains_key(m)) == Some(&group.local)
}
