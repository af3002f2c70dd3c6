//! Joining.

use super::{Channel, Owner};
use crate::config::Config;
use crate::diag::Diagnostics;
use crate::driver::{Budget, Member, Pump, threads};
use crate::error::ConnectError;
use crate::events::Events;
use crate::inbox::{Inbox, Request};
use crate::net::Net;
use crate::outbox::Outbox;
use crate::receiver::{self, Receiver};
use crate::shared::{Clock, Cuts, Ended, Shared};
use crate::state::{Form, State, StateReader};
use crate::{Address, tag};
use rgroups_core::node::{Node, NodeEnv};
use rgroups_core::plan::{ProtocolConfig, StackPlan};
use rgroups_core::{Command, Query, Uuid};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// A cluster name travels with a 16-bit length.
const CLUSTER_NAME_LIMIT: usize = 32_767;
/// The node gives up connecting earlier; this is for one that forgets.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Default of [`ChannelBuilder::inbound_limit`].
const INBOUND_LIMIT: u64 = 64_000_000;
/// Default of [`ChannelBuilder::memory_budget`].
const MEMORY_BUDGET: u64 = 1_000_000_000;

/// Configures a channel and joins.
#[derive(Clone, Debug)]
#[must_use]
pub struct ChannelBuilder {
    config: Config,
    name: Option<String>,
    discard_own: bool,
    inbound_limit: u64,
    memory_budget: u64,
}

impl ChannelBuilder {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            name: None,
            discard_own: false,
            inbound_limit: INBOUND_LIMIT,
            memory_budget: MEMORY_BUDGET,
        }
    }

    /// The logical name of the member, for people. Default: the host's name and a number. Need not
    /// be unique.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Whether [`Events`] leaves out our own multicasts. Default false.
    pub fn discard_own_messages(mut self, yes: bool) -> Self {
        self.discard_own = yes;
        self
    }

    /// How many bytes of messages *without flow control* may wait for the reader of [`Events`];
    /// more are dropped, counted in
    /// [`Stats::dropped_over_inbound_limit`](crate::Stats::dropped_over_inbound_limit). Messages
    /// with flow control are never dropped: their senders wait. Default 64 MB.
    pub fn inbound_limit(mut self, bytes: usize) -> Self {
        self.inbound_limit = bytes as u64;
        self
    }

    /// How many bytes the program can spare for what it holds. The credit that other members have
    /// here is theirs by protocol: if nobody reads [`Events`], so much may wait. A view in which it
    /// is more than this is warned of once, with both numbers; nothing is refused. Smaller
    /// `max_credits` help. Default 1 GB.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.memory_budget = bytes;
        self
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Joins the cluster, which is created by its first member. Resolves once the first view is
    /// installed; that view is also the first of the events.
    ///
    /// # Cancel safety
    /// Dropping the future gives the join up.
    pub async fn connect(self, cluster: &str) -> Result<(Channel, Events), ConnectError> {
        let (member, owner, joined) = self.prepare(cluster)?;
        threads::spawn(member).map_err(ConnectError::System)?;
        // If this future is dropped, so are the last handles, and the member leaves.
        let events = Events::new(Arc::clone(&owner));
        match joined.await {
            Ok(Ok(())) => Ok((Channel::new(owner), events)),
            Ok(Err(reason)) => Err(ConnectError::Join { cluster: cluster.to_owned(), reason }),
            Err(_) => Err(ConnectError::Closed),
        }
    }

    /// Joins, and fetches the state of another member before any message is delivered: as
    /// [`ChannelBuilder::connect`] and [`Channel::fetch_state`] in one. `timeout` is for the state
    /// and begins with the first view; `None` is what the first member of the cluster gets.
    ///
    /// If the state cannot be had, the member leaves again.
    ///
    /// # Cancel safety
    /// Dropping the future gives the join up.
    pub async fn connect_with_state(
        self,
        cluster: &str,
        timeout: Duration,
    ) -> Result<(Channel, Events, Option<State>), ConnectError> {
        let (channel, events, reader) = self.connect_with_state_stream(cluster, timeout).await?;
        let state = reader.whole().await?;
        Ok((channel, events, state))
    }

    /// As [`ChannelBuilder::connect_with_state`], for a state that is read piece by piece and may be
    /// larger than memory ([`Channel::fetch_state_stream`]). Resolves with the first view, before
    /// the state has come: read it to its end before the events.
    ///
    /// # Cancel safety
    /// Dropping the future gives the join up.
    pub async fn connect_with_state_stream(
        self,
        cluster: &str,
        timeout: Duration,
    ) -> Result<(Channel, Events, StateReader), ConnectError> {
        self.connect_prepared(cluster, timeout, |_| Ok(())).await
    }

    /// The same; what `prepare` does with the channel is done before anything happens there.
    pub(crate) async fn connect_prepared(
        self,
        cluster: &str,
        timeout: Duration,
        prepare: impl FnOnce(&Channel) -> std::io::Result<()>,
    ) -> Result<(Channel, Events, StateReader), ConnectError> {
        let (member, owner, joined) = self.prepare(cluster)?;
        let channel = Channel::new(Arc::clone(&owner));
        prepare(&channel).map_err(ConnectError::System)?;
        // Asked before there is a view, so that nothing is delivered before the state.
        let reader = StateReader::ask(&owner.shared, None, timeout)?;
        threads::spawn(member).map_err(ConnectError::System)?;
        let events = Events::new(owner);
        match joined.await {
            Ok(Ok(())) => Ok((channel, events, reader)),
            Ok(Err(reason)) => Err(ConnectError::Join { cluster: cluster.to_owned(), reason }),
            Err(_) => Err(ConnectError::Closed),
        }
    }

    /// Callback style: joins, and calls `receiver` for everything that happens, on a thread of its
    /// own.
    ///
    /// The thread keeps the member in the cluster: it ends with [`Channel::close`].
    ///
    /// # Cancel safety
    /// Dropping the future gives the join up.
    pub async fn connect_with<R: Receiver>(
        self,
        cluster: &str,
        receiver: R,
    ) -> Result<Channel, ConnectError> {
        let (channel, events) = self.connect(cluster).await?;
        receiver::spawn(events, receiver).map_err(ConnectError::System)?;
        Ok(channel)
    }

    /// As [`ChannelBuilder::connect`], without a thread: the caller drives the member by calling
    /// [`Pump::pump`], in its own loop and on its own thread. Returns before the join: pump until
    /// [`Pump::channel`] has the channel.
    pub fn connect_pumped(self, cluster: &str) -> Result<(Pump, Events), ConnectError> {
        let (member, owner, _joined) = self.prepare(cluster)?;
        let events = Events::new(Arc::clone(&owner));
        Ok((Pump::new(member, owner), events))
    }

    #[expect(clippy::type_complexity, reason = "taken apart at once by the two callers")]
    fn prepare(
        self,
        cluster: &str,
    ) -> Result<(Member, Arc<Owner>, oneshot::Receiver<Result<(), String>>), ConnectError> {
        if cluster.is_empty() || cluster.len() > CLUSTER_NAME_LIMIT {
            return Err(ConnectError::ClusterName(cluster.len()));
        }
        self.config.check()?;
        let (local, seed) = fresh_identity(self.config.plan().capabilities())?;
        let name: Arc<str> = self.name.unwrap_or_else(|| default_name(local)).into();
        let net = Net::bind(&self.config.net_plan(CONNECT_TIMEOUT)?)
            .map_err(|f| ConnectError::Bind { what: f.what, source: f.source })?;
        let physical = net.bound().transport;
        let form = Form::of(&self.config, physical.ip())?;
        let env = NodeEnv { local, name: name.clone(), bound: net.bound(), seed, tracing: false };
        let node = Node::new(self.config.plan(), env)
            .map_err(|problems| crate::config::problems(&problems))?;
        let waker = net.waker().map_err(ConnectError::System)?;
        let shared = Arc::new(Shared {
            asked: self.config.asked(net.bound().transport.ip()),
            local: Address(local),
            name,
            cluster: cluster.to_owned(),
            clock: Clock::start(),
            inbox: Inbox::new(waker),
            outbox: Outbox::new(self.inbound_limit),
            admits_up_to: admits_up_to(&node),
            report_consumed: report_consumed(self.config.plan()),
            view: watch::Sender::default(),
            ended: watch::Sender::new(Ended::Running),
            names: watch::Sender::default(),
            stats: Mutex::default(),
            blocked: Mutex::default(),
            cuts: Cuts::default(),
            claim: Mutex::default(),
            sends_until: AtomicU64::new(u64::MAX),
            form,
            acceptor: Mutex::default(),
            service: Mutex::default(),
            map: Mutex::default(),
        });
        let (join, joined) = oneshot::channel();
        let diagnostics = Diagnostics::start(&self.config, physical, &shared);
        let diagnostics = diagnostics.unwrap_or_else(|e| {
            // A member that cannot be asked is better than none.
            let (code, member) = ("RG0203", &*shared.name);
            tracing::warn!(cluster, member, code, "no answers to diagnostics: {e}");
            None
        });
        let budget = Budget::new(self.memory_budget);
        let shared_with = Arc::clone(&shared);
        let member =
            Member::new(node, net, shared_with, self.discard_own, diagnostics, budget, join);
        let cluster = bytes::Bytes::copy_from_slice(cluster.as_bytes());
        shared.inbox.push(Request::Command(Command::Connect { cluster }));
        Ok((member, Arc::new(Owner { shared }), joined))
    }
}

/// What every stack can carry: with fragmentation that is everything that has a length, without it
/// a part of a datagram, which has room for headers then.
fn admits_up_to(node: &Node) -> usize {
    const CARRIED: usize = 16_000;
    match node.stack().ask(&Query::FragmentSize) {
        Some(_) => i32::MAX as usize,
        None => CARRIED,
    }
}

/// A part of the credit that is small enough not to be missed by a sender that waits for it.
fn report_consumed(plan: &StackPlan) -> u64 {
    const MOST: u64 = 64_000;
    const PART: u64 = 16;
    let credit = |p: &ProtocolConfig| match p {
        ProtocolConfig::Mfc(c) => Some(c.max_credits.0),
        ProtocolConfig::Ufc(c) => Some(c.max_credits.0),
        _ => None,
    };
    let least = plan.protocols.iter().filter_map(credit).min();
    least.map_or(MOST, |credit| MOST.min(credit / PART))
}

/// A tagged identity that nobody had before, and a seed.
fn fresh_identity(capabilities: u8) -> Result<(Uuid, u64), ConnectError> {
    let mut words = [[0u8; 8]; 3];
    for w in &mut words {
        getrandom::fill(w).map_err(|e| ConnectError::System(std::io::Error::other(e)))?;
    }
    let [msb, lsb, seed] = words.map(u64::from_ne_bytes);
    Ok((tag::tagged(msb, lsb, capabilities), seed))
}

/// Host name and a number, as JGroups does.
fn default_name(local: Uuid) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok());
    let host = host.map(|h| h.trim().to_owned()).filter(|h| !h.is_empty());
    let host = host.unwrap_or_else(|| "member".to_owned());
    let short = host.split('.').next().unwrap_or(&host);
    format!("{short}-{}", local.lsb >> 40 & 0xffff)
}
