//! What may be asked of the driver.

use super::Line;
use crate::state::{Inflow, Outlet};
use bytes::Bytes;
use rgroups_core::protocols::counter::CounterCall;
use rgroups_core::protocols::lock::{LockLoss, LockName, LockWait};
use rgroups_core::{Command, OpId, SendResult, Time, app};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// What the driver is asked to do.
///
/// `by` is when an answer is due, reckoned from the moment of asking. A turn reads the clock before it
/// takes requests, and it may take them late: a timeout that began with the turn would be over too early
/// or too late, so the one within `call` is set anew then.
#[derive(Debug)]
pub(crate) enum Request {
    Send {
        send: app::Send,
        line: Line,
        cost: u64,
        /// Who waits for the answer; without, it was admitted already (unless it has a call).
        reply: Option<oneshot::Sender<SendResult>>,
    },
    /// Multicasts with these payloads and nothing else, which were admitted. None is empty.
    Row {
        payloads: Vec<Bytes>,
        cost: u64,
    },
    Command(Command),
    /// Do something with a counter.
    Count {
        call: CounterCall,
        by: Option<Time>,
        reply: oneshot::Sender<SendResult>,
    },
    /// Acquire a lock, and tell if it is lost.
    Acquire {
        op: OpId,
        name: LockName,
        wait: LockWait,
        by: Option<Time>,
        lose: watch::Sender<Option<LockLoss>>,
        reply: oneshot::Sender<SendResult>,
    },
    /// Give back what was acquired by the call `hold`.
    Release {
        op: OpId,
        hold: OpId,
        reply: oneshot::Sender<SendResult>,
    },
    /// Fetch a state, and tell what comes and how it ended.
    FetchState {
        call: app::FetchState,
        by: Time,
        told: Arc<Inflow>,
    },
    /// The reader of a state has it all; what it is, if the reader put it together.
    TakeState {
        take: app::TakeState,
        whole: Option<Bytes>,
    },
    /// Begin to give our state, and tell how far it has left.
    GiveState {
        answer: app::AnswerState,
        outlet: Arc<Outlet>,
    },
    /// Give our state, and tell when flow control has accepted it.
    AnswerState {
        answer: app::AnswerState,
        reply: oneshot::Sender<SendResult>,
    },
    /// Call a method at other members.
    Call {
        call: Box<rgroups_core::rpc::Call>,
        by: Time,
        reply: oneshot::Sender<SendResult>,
    },
    /// Wait until everybody has delivered what anybody has sent.
    Flush {
        op: OpId,
        by: Option<Time>,
        reply: oneshot::Sender<SendResult>,
    },
    Inspect(oneshot::Sender<crate::stats::Inspection>),
    /// These peers cannot be reached from now on.
    Faults(Vec<SocketAddr>),
    /// Stop without leaving.
    Abort,
}
