//! The handle to one member of one cluster.

mod admin;
mod builder;
mod send;
mod sync;

pub use admin::Admin;
pub use builder::ChannelBuilder;
pub use send::TrySend;
pub(crate) use send::refusal;
pub use sync::{Sync, SyncEnd, SyncLevel, SyncOutcome};

use crate::error::CloseError;
use crate::inbox::{Line, Request};
use crate::shared::{Ended, Shared, Watched};
use crate::stats::{Gauges, Inspection, SendWindow, Stats};
use crate::{Address, Config, Counter, Lock, Primacy, Semaphore, View};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// How long leaving may take before we go without an answer.
pub(crate) const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A handle to one member of one cluster. Cloning gives another handle to the same member; the
/// methods may be called from anywhere, on any executor.
///
/// When the last handle and [`Events`](crate::Events) are dropped, the member leaves in the
/// background. [`Channel::close`] does it in the foreground.
#[derive(Clone, Debug)]
pub struct Channel {
    owner: Arc<Owner>,
    views: watch::Receiver<Watched>,
}

/// Leaves when the last user goes.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.inbox.close();
    }
}

/// The latest view and its changes. A slow reader sees only the newest.
#[derive(Clone, Debug)]
pub struct Views {
    inner: watch::Receiver<Watched>,
}

impl Views {
    /// The view now. Marks it as seen.
    pub fn latest(&mut self) -> View {
        let view = self.inner.borrow_and_update().view.clone();
        // A channel is handed out after its first view, and views do not go away.
        view.expect("a connected channel has a view")
    }

    /// Waits until there is a view that was not seen; `None` when the channel is closed.
    ///
    /// # Cancel safety
    /// Safe: the view stays unseen.
    pub async fn changed(&mut self) -> Option<View> {
        if !self.inner.borrow().closed {
            self.inner.changed().await.ok()?;
        }
        if self.inner.borrow().closed {
            return None;
        }
        Some(self.latest())
    }
}

impl Channel {
    /// Starts to configure a channel.
    pub fn builder(config: Config) -> ChannelBuilder {
        ChannelBuilder::new(config)
    }

    pub(crate) fn new(owner: Arc<Owner>) -> Self {
        let views = owner.shared.view.subscribe();
        Self { owner, views }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// This member. A new one for every connect.
    #[must_use]
    pub fn address(&self) -> Address {
        self.shared().local
    }

    /// The logical name of this member.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared().name
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.shared().cluster
    }

    /// The logical name of a member, if it is known; of members of the view it nearly always is.
    #[must_use]
    pub fn name_of(&self, member: Address) -> Option<String> {
        self.shared().name_of(member).map(|n| n.to_string())
    }

    /// Waits until the names of all members of a view are known, or the view is no longer the
    /// installed one. A newcomer may learn a view moments before the names in it; a member that
    /// does not tell its name keeps this waiting, so put a limit on it.
    ///
    /// # Cancel safety
    /// Safe: nothing happens.
    pub async fn names_known(&self, view: &View) {
        let mut names = self.shared().names.subscribe();
        let mut views = self.views();
        let known = names.wait_for(|n| view.members().iter().all(|m| n.contains_key(&m.0)));
        let mut known = pin!(known);
        let mut replaced = pin!(async {
            while views.latest().id() == view.id() && views.changed().await.is_some() {}
        });
        poll_fn(|cx| {
            let named = known.as_mut().poll(cx).is_ready();
            if named || replaced.as_mut().poll(cx).is_ready() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// A view with logical names: `[A|2] (3) [A, B, C]`.
    #[must_use]
    pub fn describe(&self, view: &View) -> String {
        self.shared().describe(view)
    }

    /// The installed view.
    #[must_use]
    pub fn view(&self) -> View {
        let view = self.views.borrow().view.clone();
        // See `Views::latest`.
        view.expect("a connected channel has a view")
    }

    /// The latest view and its changes, for those who do not read [`Events`](crate::Events).
    #[must_use]
    pub fn views(&self) -> Views {
        Views { inner: self.views.clone() }
    }

    /// What this member says of its view *now*: also a process that was stopped for a while, and has
    /// not looked at its sockets since, says no more than it can know. `None` if the stack has no
    /// PRIMARY.
    #[must_use]
    pub fn primacy(&self) -> Option<Primacy> {
        let claim = *self.shared().claim.lock().unwrap_or_else(PoisonError::into_inner);
        claim.map(|c| c.at(self.shared().clock.now()).into())
    }

    /// Bytes that may be sent to a member (to everybody for `None`) without waiting, and whom a
    /// larger message would wait for: lets a producer look before it makes work. For a member that
    /// nothing was sent to yet it is 0.
    #[must_use]
    pub fn send_window(&self, to: Option<Address>) -> SendWindow {
        let line = to.map_or(Line::Multicast, |a| Line::Unicast(a.0));
        let (bytes, blocked_on) = self.shared().inbox.window(line);
        SendWindow { bytes, blocked_on }
    }

    /// A counter that all members share, which needs COUNTER in the stack. Nothing is sent before it
    /// is used.
    #[must_use]
    pub fn counter(&self, name: &str) -> Counter {
        Counter::new(self.clone(), name)
    }

    /// A lock that all members share, which needs LOCK in the stack. Nothing is sent before it is used.
    #[must_use]
    pub fn lock(&self, name: &str) -> Lock {
        Lock::new(self.clone(), name)
    }

    /// So many permits (at least 1) that all members share; otherwise as [`Channel::lock`]. All members
    /// say the same number.
    #[must_use]
    pub fn semaphore(&self, name: &str, permits: u32) -> Semaphore {
        Semaphore::new(self.clone(), name, permits)
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared().stats()
    }

    /// What is held where, and who makes sends wait.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.shared().gauges()
    }

    /// What the protocols report about themselves; `None` when the channel is closed.
    ///
    /// # Cancel safety
    /// Safe: nothing happens.
    pub async fn inspect(&self) -> Option<Inspection> {
        let (reply, answer) = oneshot::channel();
        if !self.shared().inbox.push(Request::Inspect(reply)) {
            return None;
        }
        answer.await.ok()
    }

    /// Whether the channel can send.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.shared().inbox.is_open()
    }

    /// Leaves properly: sends what was accepted, tells the coordinator, waits until it confirms.
    /// When it returns, all sockets of the member are closed, also with an error. All handles are
    /// closed with it; calls that wait are answered with "closed".
    ///
    /// # Cancel safety
    /// Dropping the future gives up the wait only: the member leaves.
    pub async fn close(self) -> Result<(), CloseError> {
        let began = Instant::now();
        self.shared().inbox.close();
        let mut ended = self.shared().ended.subscribe();
        // The sender lives in `self`, so the wait ends with the value.
        match ended.wait_for(|e| *e != Ended::Running).await.map(|e| *e) {
            Ok(Ended::Unconfirmed) => Err(CloseError::Unconfirmed(began.elapsed())),
            Ok(Ended::Confirmed | Ended::Running) | Err(_) => Ok(()),
        }
    }

    /// Goes without leaving, as a crash would. For tests and demonstrations.
    #[doc(hidden)]
    pub fn kill(&self) {
        self.shared().inbox.push(Request::Abort);
    }

    /// Faults on request.
    #[doc(hidden)]
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }
}
