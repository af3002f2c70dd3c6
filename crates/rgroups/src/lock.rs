//! Locks and semaphores that all members of a group share.

use crate::error::Diagnose;
use crate::inbox::Request;
use crate::{Channel, SendError};
use rgroups_core::protocols::lock::{
    LockCall, LockFailure, LockLoss as CoreLoss, LockName, LockWait,
};
use rgroups_core::{Command, OpId, SendResult};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// A lock that one member of a group has at a time. It needs LOCK in the stack of every member that
/// uses it: `config.on_top("LOCK")`. Guarantees, and what a split does to them: docs/locks.md.
///
/// ```
/// use rgroups::{Channel, Config};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { rgroups::block_on(async {
/// let config = Config::in_process().on_top("LOCK")?;
/// let (ch, _events) = Channel::builder(config).connect("depot").await?;
/// let guard = ch.lock("printer").lock().await?;
/// println!("ours, with token {}", guard.token());
/// guard.unlock().await?;
/// # ch.close().await?;
/// # Ok(()) }) }
/// ```
#[derive(Clone, Debug)]
pub struct Lock {
    channel: Channel,
    name: LockName,
}

/// So many permits that all members of a group share: at most as many are had at a time. Otherwise as
/// [`Lock`]; the names of locks and semaphores have nothing to do with each other.
#[derive(Clone, Debug)]
pub struct Semaphore(Lock);

/// A lock, or a permit, that is had. Dropping it gives it back, without waiting for that.
#[derive(Debug)]
#[must_use = "what is dropped is given back"]
pub struct LockGuard {
    hold: Hold,
    token: u64,
    lost: watch::Receiver<Option<CoreLoss>>,
}

/// Why a lock is not had any more that was not given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockLoss {
    /// This member's view is not, or may not be, the primary one (PRIMARY).
    #[error("the view may not be the primary one any more")]
    NotPrimary,
    /// A merge brought this member's part of the group under a larger one.
    #[error("the group was split, and the other part keeps its locks")]
    Merged,
    /// Somebody else has it.
    #[error("somebody else has it")]
    Taken,
    /// The channel is closed.
    #[error("the channel is closed")]
    Closed,
}

/// Why a lock is not had, or was not given back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The stack has no LOCK.
    #[error("the stack has no LOCK")]
    NotInStack,
    /// The channel is closed.
    #[error("the channel is closed")]
    Closed,
    /// This member's view is not the primary one.
    #[error("the view is not the primary one")]
    NotPrimary,
    /// Somebody has it, and it was not to be waited for.
    #[error("somebody else has it")]
    Taken,
    /// It was not to be had in time.
    #[error("it could not be had in time")]
    Timeout,
    /// Another member uses the semaphore with this number of permits.
    #[error("the semaphore has {permits} permits")]
    OtherPermits {
        /// So many.
        permits: u32,
    },
    /// This member holds and waits for as much as it may (`LOCK.max_requests`).
    #[error("this member holds and waits for {limit} locks, and may no more")]
    TooMany {
        /// The limit.
        limit: u64,
    },
    /// The name is too long.
    #[error("the name is longer than {limit} bytes")]
    NameTooLong {
        /// The limit.
        limit: u64,
    },
    /// It was lost before it was given back.
    #[error("it was lost before")]
    Lost,
}

impl Diagnose for LockError {
    fn code(&self) -> &'static str {
        match self {
            LockError::NotInStack => "RG0911",
            LockError::Closed => SendError::Closed.code(),
            LockError::NotPrimary => SendError::NotPrimary.code(),
            LockError::Taken | LockError::Timeout => "RG0912",
            LockError::OtherPermits { .. } => "RG0913",
            LockError::TooMany { .. } | LockError::NameTooLong { .. } => "RG0914",
            LockError::Lost => "RG0915",
        }
    }

    fn hint(&self) -> Option<String> {
        crate::codes::find(self.code()).map(|c| c.remedy.to_owned())
    }
}

impl Lock {
    pub(crate) fn new(channel: Channel, name: &str) -> Self {
        Self { channel, name: LockName { name: name.to_owned(), permits: None } }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name.name
    }

    /// Waits until it is had; who asked first has it first. Every call is a request of its own: a
    /// member that has it and asks again waits for itself.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the request; what was granted meanwhile is given back.
    pub async fn lock(&self) -> Result<LockGuard, LockError> {
        self.acquire(None).await
    }

    /// The same, for so long at most. With [`Duration::ZERO`] it is had if nobody has it and nobody
    /// waits for it, and the error is [`LockError::Taken`] otherwise; asking takes a round trip.
    ///
    /// # Cancel safety
    /// As [`Lock::lock`].
    pub async fn try_lock(&self, within: Duration) -> Result<LockGuard, LockError> {
        self.acquire(Some(within)).await
    }

    async fn acquire(&self, timeout: Option<Duration>) -> Result<LockGuard, LockError> {
        let (reply, answer) = oneshot::channel();
        let (lose, lost) = watch::channel(None);
        let name = self.name.clone();
        let shared = self.channel.shared();
        let by = timeout.map(|t| shared.clock.now() + t);
        let wait = match timeout {
            None => LockWait::Forever,
            Some(Duration::ZERO) => LockWait::NotAtAll,
            Some(t) => LockWait::For(t),
        };
        let make = |op| Request::Acquire { op, name, wait, by, lose, reply };
        let op = shared.inbox.ask(make).ok_or(LockError::Closed)?;
        // From here on whatever is granted is given back, also if this future is dropped.
        let hold = Hold { channel: self.channel.clone(), op, given_back: false };
        match self.channel.waiting(op).answer(answer).await {
            Ok(SendResult::Locked(Ok(token))) => Ok(LockGuard { hold, token, lost }),
            Ok(SendResult::Locked(Err(why))) => Err(failure(why)),
            // Nothing else ends such a call.
            Ok(_) | Err(_) => Err(LockError::Closed),
        }
    }
}

impl Semaphore {
    pub(crate) fn new(channel: Channel, name: &str, permits: u32) -> Self {
        let name = LockName { name: name.to_owned(), permits: Some(permits.max(1)) };
        Self(Lock { channel, name })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Waits for a permit, as [`Lock::lock`].
    pub async fn acquire(&self) -> Result<LockGuard, LockError> {
        self.0.lock().await
    }

    /// The same, for so long at most, as [`Lock::try_lock`].
    pub async fn try_acquire(&self, within: Duration) -> Result<LockGuard, LockError> {
        self.0.try_lock(within).await
    }
}

impl LockGuard {
    /// Grows with every grant of this lock. Hand it to whatever the lock protects, and let that refuse
    /// lower ones than it has seen: then a member that stood still and does not know yet that it has
    /// lost the lock does no harm.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Whether it is lost, and why.
    #[must_use]
    pub fn is_lost(&self) -> Option<LockLoss> {
        let why = *self.lost.borrow();
        why.map(LockLoss::from)
    }

    /// Waits until it is lost: what was done under it from then on may not be alone.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LockLoss {
        let mut lost = self.lost.clone();
        let why = lost.wait_for(Option::is_some).await.ok().and_then(|why| *why);
        why.map_or(LockLoss::Closed, LockLoss::from)
    }

    /// Gives it back, and waits until the member that keeps the locks knows.
    ///
    /// # Cancel safety
    /// Dropping the future gives it back all the same.
    pub async fn unlock(mut self) -> Result<(), LockError> {
        if self.is_lost().is_some() {
            return Err(LockError::Lost);
        }
        let (reply, answer) = oneshot::channel();
        let hold = self.hold.op;
        let make = |op| Request::Release { op, hold, reply };
        let inbox = &self.hold.channel.shared().inbox;
        let op = inbox.ask(make).ok_or(LockError::Closed)?;
        self.hold.given_back = true;
        match self.hold.channel.waiting(op).answer(answer).await {
            Ok(SendResult::Unlocked(result)) => result.map_err(failure),
            Ok(_) | Err(_) => Err(LockError::Closed),
        }
    }
}

/// What is asked for, and given back when nobody wants it any more.
#[derive(Debug)]
struct Hold {
    channel: Channel,
    op: OpId,
    given_back: bool,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.given_back {
            let release = LockCall::Release { op: None, hold: self.op };
            self.channel.shared().inbox.push(Request::Command(Command::Lock(release)));
        }
    }
}

impl From<CoreLoss> for LockLoss {
    fn from(why: CoreLoss) -> Self {
        match why {
            CoreLoss::NotPrimary => LockLoss::NotPrimary,
            CoreLoss::Merged => LockLoss::Merged,
            CoreLoss::Taken => LockLoss::Taken,
            _ => LockLoss::Closed,
        }
    }
}

fn failure(f: LockFailure) -> LockError {
    match f {
        LockFailure::NotInStack => LockError::NotInStack,
        LockFailure::NotPrimary => LockError::NotPrimary,
        LockFailure::Taken => LockError::Taken,
        LockFailure::TimedOut => LockError::Timeout,
        LockFailure::OtherPermits { permits } => LockError::OtherPermits { permits },
        LockFailure::TooMany { limit } => LockError::TooMany { limit },
        LockFailure::NameTooLong { limit } => LockError::NameTooLong { limit },
        LockFailure::NotHeld => LockError::Lost,
        // Calls are withdrawn only where nobody waits any more.
        _ => LockError::Closed,
    }
}
