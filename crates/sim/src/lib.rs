//! A whole cluster on one simulated clock, from one seed.
//!
//! A [`Cluster`] runs real nodes ([`rgroups_core::node::Node`], with all codecs and connection
//! rules) over a simulated [`network`] and simulated [`connections`], with faults of every kind.
//! What happens is recorded as a [`history`]; the [`oracle`]s judge it by named invariants; a
//! [`transcript`] makes it readable and comparable.

pub mod addresses;
pub mod agenda;
pub mod census;
pub mod cluster;
pub mod connections;
pub mod coverage;
pub mod explore;
pub mod filter;
mod filter_stream;
pub mod headers;
pub mod history;
pub mod linear;
pub mod network;
pub mod oracle;
mod panics;
pub mod payload;
pub mod scale;
pub mod script;
pub mod swarm;
pub mod traffic;
pub mod transcript;

pub use cluster::{Cluster, Outgoing, Settings};
