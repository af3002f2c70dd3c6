//! `bench`: how fast it is, measured with members in processes of their own, beside what bare sockets
//! of the same machine do in the same run ([`floor_udp`], [`floor_tcp`]).
//!
//! The parent starts the processes ([`team`]), lets all begin a round at once, and puts what they
//! tell together: throughput ([`mcast`], [`result`]), messages and their answers ([`calls`]), calls of methods
//! ([`rpc`]), members that come and go ([`changes`]). A process is a member of a group ([`member`],
//! [`caller`], [`invoker`], [`watcher`]) or bare sockets; what they send and tell is in [`load`].

mod caller;
mod calls;
mod changes;
mod compare;
mod floor;
mod floor_tcp;
mod floor_udp;
mod invoker;
mod java;
mod load;
mod machine;
mod mcast;
mod member;
mod process;
mod result;
mod rpc;
mod table;
mod team;
mod watcher;

use crate::args::{BenchAction, BenchArgs, BenchMemberArgs, Peer, Transport};
use crate::failure::Failure;
use crate::signals::Signals;
use changes::Change;

/// Runs the command.
pub(crate) async fn run(a: &BenchArgs, json: bool) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    tokio::select! {
        done = measure(&a.action, json) => done,
        code = signals.next() => Ok(code),
    }
}

async fn measure(action: &BenchAction, json: bool) -> Result<u8, Failure> {
    let done = match action {
        BenchAction::Mcast(a) => mcast::run(a, json).await,
        BenchAction::Udp(a) => mcast::bare(a, Transport::Udp, json).await,
        BenchAction::Tcp(a) => mcast::bare(a, Transport::Tcp, json).await,
        BenchAction::Table(a) => table::run(&table::targets(a), a, json).await,
        BenchAction::Overload(a) => table::run(&table::overload(a), a, json).await,
        BenchAction::Rtt(a) => calls::run(a, None, json).await,
        BenchAction::Rsvp { calls, level } => calls::run(calls, Some(*level), json).await,
        BenchAction::Rpc(a) => rpc::run(a, json).await,
        BenchAction::Join(a) => changes::run(a, Change::Join, json).await,
        BenchAction::Crash(a) => changes::run(a, Change::Crash, json).await,
        BenchAction::Compare { before, after, tolerance } => {
            return compare::run(before, after, *tolerance, json);
        }
    };
    done.map(|()| 0)
}

/// The hidden command: one process of a measurement, until its parent goes.
pub(crate) async fn process(a: &BenchMemberArgs) -> Result<u8, Failure> {
    let done = match (a.peer, a.transport) {
        (Peer::Member, _) => member::run(a).await,
        (Peer::Caller, _) => caller::run(a).await,
        (Peer::Invoker, _) => invoker::run(a).await,
        (Peer::Watcher, _) => watcher::run(a).await,
        (Peer::Floor, Transport::Udp) => floor_udp::run(a).await,
        (Peer::Floor, Transport::Tcp | Transport::Inproc) => floor_tcp::run(a).await,
        (Peer::Java, _) => Err("a member of JGroups is a program of its own".to_owned()),
    };
    if let Err(reason) = done {
        process::tell(&load::Report::Failed { reason });
    }
    Ok(0)
}
