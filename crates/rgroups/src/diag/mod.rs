//! Answers the questions of JGroups' Probe and of `rgroups probe` (WIRE §31): what the protocols
//! report about themselves, as text.
//!
//! Off by default. When it is on, the group of the diagnostics port is joined on the interface of
//! the transport only, requests from other networks are answered only if a passcode is asked for,
//! and requests, answers and their number in a second are bounded. A question never changes
//! anything.

mod answer;
mod request;
mod sockets;

use crate::config::Config;
use crate::inbox::Request as Inside;
use crate::shared::{Ended, Shared};
use crate::stats::Inspection;
use answer::Snapshot;
use mio::Waker;
use request::Request;
use rgroups_core::plan::DiagConfig;
use sockets::Sockets;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

/// How long a busy member may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(1);

/// A handler that runs; it ends, and its sockets are closed, when this is dropped.
#[derive(Debug)]
pub(crate) struct Diagnostics {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// What the handler knows of its member.
#[derive(Debug)]
struct Subject {
    member: Weak<Shared>,
    config: Config,
    physical: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Diagnostics {
    /// Starts the handler of a member if its configuration asks for one.
    pub(crate) fn start(
        config: &Config,
        physical: SocketAddr,
        shared: &Arc<Shared>,
    ) -> io::Result<Option<Diagnostics>> {
        let plan: &DiagConfig = &config.plan().diag;
        if !plan.enabled {
            return Ok(None);
        }
        // What others are told may be an address of somebody else, who translates.
        let own = config.bind_choice().ok().flatten().map_or(physical.ip(), |c| c.ip);
        let mut sockets = Sockets::open(plan, own)?;
        let waker = sockets.waker()?;
        let stop = Arc::new(AtomicBool::new(false));
        let subject = Subject {
            member: Arc::downgrade(shared),
            config: config.clone(),
            physical,
            stop: Arc::clone(&stop),
        };
        let thread = std::thread::Builder::new()
            .name("rgroups-diag".into())
            .spawn(move || sockets.serve(&subject.stop, |bytes| subject.answer(bytes)))?;
        Ok(Some(Diagnostics { stop, waker, thread: Some(thread) }))
    }
}

impl Drop for Diagnostics {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Without its waker the thread would only be late; it looks at `stop` after each question.
        let woken = self.waker.wake().is_ok();
        if let Some(thread) = self.thread.take()
            && woken
        {
            // It may have panicked; then there is nothing left to end.
            let _ = thread.join();
        }
    }
}

impl Subject {
    /// The answer to a request; `None`: it is not for us, not allowed, or not one.
    fn answer(&self, bytes: &[u8]) -> Option<String> {
        let shared = self.member.upgrade()?;
        if *shared.ended.borrow() != Ended::Running {
            return None;
        }
        let passcode = self.config.plan().diag.passcode.as_ref().map(|s| s.reveal());
        let request = Request::parse(bytes, passcode)?;
        if !request.is_for(&shared.cluster) {
            return None;
        }
        let inspection = match request.keys.is_empty() {
            true => Inspection::default(),
            false => self.inspect(&shared)?,
        };
        let stats = *shared.stats.lock().unwrap_or_else(PoisonError::into_inner);
        let view = shared.view.borrow().view.clone();
        let snapshot = Snapshot {
            shared: &shared,
            physical: self.physical,
            config: &self.config,
            view,
            inspection,
            stats,
        };
        Some(snapshot.answer(&request))
    }

    /// Asks the driver. Not for ever: the driver waits for this thread when it ends.
    fn inspect(&self, shared: &Shared) -> Option<Inspection> {
        let (reply, mut answer) = oneshot::channel();
        if !shared.inbox.push(Inside::Inspect(reply)) {
            return None;
        }
        let end = Instant::now() + PATIENCE;
        loop {
            match answer.try_recv() {
                Ok(i) => return Some(i),
                Err(TryRecvError::Closed) => return None,
                Err(TryRecvError::Empty) => {}
            }
            if Instant::now() >= end || self.stop.load(Ordering::Acquire) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
