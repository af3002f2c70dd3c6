//! What the handles of a channel and its driver have in common.

use crate::inbox::{Inbox, Line};
use crate::map::MapCopy;
use crate::outbox::Outbox;
use crate::rpc::Service;
use crate::state::{Acceptor, Cut, Form};
use crate::stats::{Gauges, Stats};
use crate::{Address, View};
use rgroups_core::protocols::primary::Minority;
use rgroups_core::{Primacy, PrimaryClaim, Time, Uuid};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How a channel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It has not.
    Running,
    /// We left; the coordinator confirmed it, or there was nobody else.
    Confirmed,
    /// We went without an answer.
    Unconfirmed,
}

/// What those who watch views see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    /// `None` before the first view.
    pub(crate) view: Option<View>,
    /// Nothing follows.
    pub(crate) closed: bool,
}

/// Real time as the stack sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(crate) fn now(&self) -> Time {
        Time(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The same as the system measures it; far in the future at the latest.
    pub(crate) fn instant(&self, at: Time) -> Instant {
        const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
        let now = Instant::now();
        self.origin.checked_add(Duration::from_nanos(at.0)).unwrap_or(now + FAR)
    }
}

/// Shared by all handles and the driver.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) local: Address,
    pub(crate) name: Arc<str>,
    pub(crate) cluster: String,
    pub(crate) clock: Clock,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    /// Larger messages, in payload bytes, may be refused by the stack for their size.
    pub(crate) admits_up_to: usize,
    /// Consumption is reported when this many bytes have come together, or nothing is left to read.
    pub(crate) report_consumed: u64,
    /// Where other members are looked for, in words.
    pub(crate) asked: String,
    pub(crate) view: watch::Sender<Watched>,
    pub(crate) ended: watch::Sender<Ended>,
    /// Names of members, as they are learned.
    pub(crate) names: watch::Sender<HashMap<Uuid, Arc<str>>>,
    pub(crate) stats: Mutex<Stats>,
    /// Who makes a send wait, once that has taken a second.
    pub(crate) blocked: Mutex<Option<Blocked>>,
    pub(crate) cuts: Cuts,
    /// What this member says of its view, if the stack has PRIMARY.
    pub(crate) claim: Mutex<Option<PrimaryClaim>>,
    /// Until then sends may enter without asking the stack about the view, in nanoseconds of the
    /// clock.
    pub(crate) sends_until: AtomicU64,
    /// How states travel, and the socket that others read ours from once one has asked.
    pub(crate) form: Form,
    pub(crate) acceptor: Mutex<Listening>,
    /// The handlers of calls, if the application has any.
    pub(crate) service: Mutex<Option<Arc<Service>>>,
    /// The map that this channel is for, if it is for one.
    pub(crate) map: Mutex<Option<Arc<MapCopy>>>,
}

/// The socket of STATE_SOCK.
#[derive(Debug, Default)]
pub(crate) enum Listening {
    /// Nobody has asked.
    #[default]
    Not,
    At(Arc<Acceptor>),
    /// The channel has ended.
    Ended,
}

/// What the state that was fetched last contains. The reader of events looks at the number only,
/// until it changes.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    number: AtomicU64,
    last: Mutex<Option<Arc<Cut>>>,
}

impl Cuts {
    /// A state was fetched.
    pub(crate) fn add(&self, contains: &[(Uuid, i64)]) -> u64 {
        let number = self.number() + 1;
        let cut = Arc::new(Cut::new(number, contains));
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(cut);
        self.number.store(number, Ordering::Release);
        number
    }

    /// How many states were fetched.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    pub(crate) fn last(&self) -> Option<Arc<Cut>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A wait that was told of.
#[derive(Clone, Debug)]
pub(crate) struct Blocked {
    pub(crate) by: Vec<Address>,
    pub(crate) since: Instant,
}

impl Shared {
    /// Whether sends are stopped because the view is not known to be the primary one.
    pub(crate) fn is_outside(&self) -> bool {
        let until = self.sends_until.load(Ordering::Relaxed);
        until != u64::MAX && until <= self.clock.now().0
    }

    /// What this member says of its view from now on.
    pub(crate) fn set_claim(&self, claim: Option<PrimaryClaim>) {
        let until = match claim {
            Some(PrimaryClaim { minority: Minority::Refuse, primacy: Primacy::Yes, until }) => {
                until.0
            }
            Some(PrimaryClaim { minority: Minority::Refuse, .. }) => 0,
            Some(PrimaryClaim { minority: Minority::Report | Minority::Leave, .. }) | None => {
                u64::MAX
            }
        };
        self.sends_until.store(until, Ordering::Relaxed);
        *self.claim.lock().unwrap_or_else(PoisonError::into_inner) = claim;
    }

    /// Counters, as of the last turn of the driver.
    pub(crate) fn stats(&self) -> Stats {
        let mut s = *self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        s.dropped_over_inbound_limit = self.outbox.gauges().3;
        s
    }

    pub(crate) fn gauges(&self) -> Gauges {
        let (events_queued, events_queued_bytes, unconsumed_bytes, _) = self.outbox.gauges();
        let blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Gauges {
            events_queued,
            events_queued_bytes,
            unconsumed_bytes,
            outbound_bytes: self.inbox.bytes(),
            multicast_window: self.inbox.window(Line::Multicast).0,
            blocked_for: blocked.as_ref().map(|b| b.since.elapsed()),
            blocked_on: blocked.map(|b| b.by).unwrap_or_default(),
        }
    }

    /// The socket that others read our state from; opened when first needed.
    pub(crate) fn acceptor(
        &self,
        open: impl FnOnce() -> io::Result<Arc<Acceptor>>,
    ) -> io::Result<Arc<Acceptor>> {
        let mut listening = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        match &*listening {
            Listening::At(acceptor) => Ok(Arc::clone(acceptor)),
            Listening::Ended => Err(io::Error::other("the channel is closed")),
            Listening::Not => {
                let acceptor = open()?;
                *listening = Listening::At(Arc::clone(&acceptor));
                Ok(acceptor)
            }
        }
    }

    /// This channel is for this map.
    pub(crate) fn keep(&self, map: Arc<MapCopy>) {
        *self.map.lock().unwrap_or_else(PoisonError::into_inner) = Some(map);
    }

    /// The map that it is for.
    pub(crate) fn map(&self) -> Option<Arc<MapCopy>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The handlers of calls.
    pub(crate) fn service(&self) -> Option<Arc<Service>> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requests are over. What handlers hold may be the last handles of this channel.
    pub(crate) fn end_service(&self) {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(service);
        let map = self.map.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(map);
    }

    /// No more connections for states.
    pub(crate) fn stop_listening(&self) {
        let mut listening = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        if let Listening::At(acceptor) = std::mem::replace(&mut *listening, Listening::Ended) {
            drop(listening);
            acceptor.stop();
        }
    }

    pub(crate) fn name_of(&self, member: Address) -> Option<Arc<str>> {
        self.names.borrow().get(&member.0).cloned()
    }

    /// The logical name, or the short address. Names come from the network: control characters
    /// are escaped.
    pub(crate) fn label(&self, member: Address) -> String {
        match self.name_of(member) {
            Some(n) => n.escape_debug().to_string(),
            None => member.to_string(),
        }
    }

    pub(crate) fn labels(&self, members: &[Address]) -> String {
        members.iter().map(|m| self.label(*m)).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn describe(&self, v: &View) -> String {
        crate::view::describe(v, |m| self.label(m))
    }
}
