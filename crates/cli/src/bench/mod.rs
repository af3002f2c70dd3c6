//! `bench`: how fast it is, measured with members in processes of their own, beside what bare sockets
//! of the same machine do in the same run ([`floor_udp`], [`floor_tcp`]).
//!
//! The parent ([`parent`]) starts the processes, lets all begin a round at once, and puts what they
//! tell together ([`result`]). A process is a member of a group ([`member`]) or bare sockets; both
//! send the same messages ([`load`]) and check what they receive.

mod compare;
mod floor;
mod floor_tcp;
mod floor_udp;
mod load;
mod machine;
mod member;
mod parent;
mod process;
mod result;

use crate::args::{BenchAction, BenchArgs, BenchMemberArgs, Peer, Transport};
use crate::failure::Failure;

/// Runs the command.
pub(crate) async fn run(a: &BenchArgs, json: bool) -> Result<u8, Failure> {
    match &a.action {
        BenchAction::Mcast(m) => parent::run(m, json).await,
        BenchAction::Compare { before, after, tolerance } => {
            compare::run(before, after, *tolerance, json)
        }
    }
}

/// The hidden command: one process of a measurement.
pub(crate) async fn process(a: &BenchMemberArgs) -> Result<u8, Failure> {
    match (a.peer, a.transport) {
        (Peer::Member, _) => member::run(a).await,
        (Peer::Floor, Transport::Udp) => floor_udp::run(a).await,
        (Peer::Floor, Transport::Tcp | Transport::Inproc) => floor_tcp::run(a).await,
    }
}
