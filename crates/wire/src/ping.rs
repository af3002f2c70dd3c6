//! What discovery says of a member (WIRE §10.2).

use crate::{Address, IpAddress};
use alloc::string::String;
use alloc::vec::Vec;

/// A member as described in discovery traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingData {
    /// The member.
    pub sender: Option<Address>,
    /// It is a member of the cluster.
    pub server: bool,
    /// It is the coordinator (implies `server`).
    pub coordinator: bool,
    /// Its logical name.
    pub name: Option<String>,
    /// Where it is.
    pub physical: Option<IpAddress>,
    /// In requests: who is looked for; `None`: everybody.
    pub wanted: Option<Vec<Address>>,
}
