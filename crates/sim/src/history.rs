//! What happened in a run, as the oracles read it: every fact once, in the order in which it
//! happened.

use crate::cluster::Errand;
use crate::connections::Life;
use crate::network::Host;
use rgroups_core::event::{CreditAccount, WindowGauge};
use rgroups_core::protocols::counter::CounterAction;
use rgroups_core::protocols::lock::LockLoss;
use rgroups_core::rpc::Wait;
use rgroups_core::{Duration, OpId, Pool, SendResult, SyncLevel, Time, Trace, Uuid, View};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names an application message of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u32);

/// A run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All incarnations; [`Life`] is the index.
    pub lives: Vec<LifeRecord>,
    /// All application messages; [`MessageId`] is the index.
    pub messages: Vec<SentMessage>,
    /// All calls of methods; [`number`](crate::cluster::number) of one is the index.
    pub calls: Vec<MadeCall>,
    /// What happened.
    pub facts: Vec<Fact>,
    by_identity: BTreeMap<Uuid, Life>,
}

/// An incarnation.
#[derive(Clone, Debug)]
pub struct LifeRecord {
    /// Where it runs.
    pub host: Host,
    /// Its name; later incarnations on a host are told apart by a number.
    pub name: String,
    /// Its identity.
    pub id: Uuid,
}

/// A message that an application sent.
#[derive(Clone, Debug)]
pub struct SentMessage {
    /// By whom.
    pub sender: Life,
    /// To whom, as unicasts; `None`: to all.
    pub to: Option<Vec<Uuid>>,
    /// In order, as opposed to out of band and unreliable.
    pub ordered: bool,
    /// Sent again when lost.
    pub reliable: bool,
    /// The sender gets a copy of its multicast.
    pub loopback: bool,
    /// Bytes.
    pub size: usize,
    /// Its sender waits until it is acknowledged at this level, at most so long.
    pub sync: Option<(SyncLevel, Option<Duration>)>,
}

/// A call of methods that an application made.
#[derive(Clone, Debug)]
pub struct MadeCall {
    /// By whom.
    pub caller: Life,
    /// Of whom; `None`: of all.
    pub to: Option<Vec<Uuid>>,
    /// Whose answers end it.
    pub wait: Wait,
    /// How long it may take.
    pub within: Duration,
    /// What it asks for.
    pub errand: Errand,
    /// The call that its caller carries out with it.
    pub nested_in: Option<OpId>,
}

/// What an application answered to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// Its value.
    Value,
    /// An error.
    Error,
    /// That it has no such method.
    NoSuchMethod,
}

/// A use of an object that all members share.
#[derive(Clone, Debug)]
pub struct ObjectCall {
    /// Its name; [`What::Used`] has it again.
    pub op: OpId,
    /// Which object.
    pub object: Arc<str>,
    /// What is asked of it.
    pub asked: Asked,
    /// How long that may take.
    pub within: Duration,
}

/// What is asked of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Of a counter.
    Counter(CounterAction),
    /// Of a lock: to have it, for so long.
    Lock {
        /// From when it is had.
        hold: Duration,
    },
}

/// Something that happened.
#[derive(Clone, Debug)]
pub struct Fact {
    /// When.
    pub at: Time,
    /// To whom; `None`: to the network, or to the run as a whole.
    pub life: Option<Life>,
    /// What.
    pub what: What,
}

/// Kinds of [`Fact`].
#[derive(Clone, Debug)]
pub enum What {
    /// The process runs and connects.
    Started,
    /// It was killed, or its machine lost its power.
    Died {
        /// The machine, not only the process.
        power_off: bool,
    },
    /// It was asked to leave.
    LeaveAsked,
    /// It has left.
    Left {
        /// The coordinator let it go.
        confirmed: bool,
    },
    /// It was frozen (`true`) or goes on.
    Frozen(bool),
    /// It takes so long from an input to its turn.
    Slowed(Duration),
    /// It consumes nothing (`Some(0)`), so many bytes a second, or everything at once (`None`).
    Consumes(Option<u64>),
    /// It could not join.
    ConnectFailed(Arc<str>),
    /// It was excluded and joins anew.
    Rejoining(Arc<str>),
    /// A view was installed.
    View(Arc<View>),
    /// The application sent a message.
    Sent(MessageId),
    /// The call ended.
    Resolved(MessageId, SendResult),
    /// The message waits for credit from these.
    Blocked(Option<MessageId>, Vec<Uuid>),
    /// A message was delivered.
    Delivered {
        /// Which.
        message: MessageId,
        /// The sender that the stack named.
        from: Uuid,
        /// It came as a multicast.
        multicast: bool,
    },
    /// The application called a method: its stack was given the call.
    Calls(OpId),
    /// That call ended.
    CallEnded(OpId, SendResult),
    /// The application carried out this call of this member.
    CarriedOut(OpId, Uuid),
    /// The application answered this call of this member.
    AnswersCall(OpId, Uuid, Given),
    /// The application uses an object.
    Uses(ObjectCall),
    /// That use ended; a lock is had from here on.
    Used(OpId, SendResult),
    /// The application asks for a state, which is to be there or not within this time.
    FetchesState(OpId, Duration),
    /// It gives back the lock that it acquired so.
    GivesBack(OpId),
    /// It is told that it has lost it.
    LockLost(OpId, LockLoss),
    /// The application was asked for its state.
    StateRequested(Uuid),
    /// What the application knows is this from now on: the state that it is given.
    StateTaken(Arc<[MessageId]>),
    /// A call for a state ended.
    StateFetched(OpId, crate::cluster::StateEnded),
    /// Something was delivered that nobody sent like that.
    Garbled {
        /// The sender that the stack named.
        from: Uuid,
        /// What is wrong.
        why: &'static str,
    },
    /// What the stack says of itself.
    Trace(Trace),
    /// The network changed.
    Network(String),
    /// From here on nothing gets from the first node of each pair to the second; empty: all reach all.
    Split(Arc<[(Host, Host)]>),
    /// Sampled: accounts of flow control.
    Credits(Pool, Vec<CreditAccount>),
    /// Sampled: windows.
    Windows(Vec<WindowGauge>),
    /// Sampled: bytes delivered to the application and not consumed, by sender.
    Unread(Vec<(Uuid, u64)>),
    /// At a purge: members that had not delivered what was purged.
    PurgedTooEarly {
        /// Whose messages.
        of: Uuid,
        /// Up to here.
        upto: i64,
        /// Who lacks some, and up to where it has them.
        behind: Vec<(Uuid, i64)>,
    },
    /// Sampled: bytes of messages that are not complete yet.
    Assembling(u64),
    /// Sampled: connections that are open. At the end of a process, when it says that it is done,
    /// also whether it still waits for a timer.
    Handles {
        /// Connections that it has not closed.
        connections: usize,
        /// It wants to be woken.
        timer: bool,
    },
    /// Sampled at rest: requests to join or leave, suspicions and merges that GMS is not done with.
    RequestsPending(u64),
    /// Sampled at rest: sends that were neither admitted nor refused.
    TokensOutstanding(u64),
    /// A packet larger than the configured maximum was sent.
    OversizedPacket(usize),
    /// An unreliable message left a second time for the same destination.
    SentAgain(MessageId),
    /// The application has taken the next message from its stream.
    Taken(MessageId),
    /// Sampled at rest and at the end of a process: numbers that it was asked for and did not have.
    Unserved(u64),
    /// Too much happened without time passing.
    Livelock,
    /// A stack panicked.
    Panicked(String),
    /// A phase of the run begins.
    Phase(Phase),
}

/// Phases of a run; oracles promise more in later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// All faults are over; from here on the group must find together.
    Healed,
    /// It had the time for it. Views must agree and stay.
    Converged,
    /// Everybody sends to everybody and to all.
    FinalRound,
    /// All of it had time to arrive.
    AtRest,
    /// Nothing more is sent; the wire must be quiet.
    Quiet,
    /// That was it; everybody is asked to leave.
    End,
    /// Everybody had the time to do so.
    Closed,
}

impl SentMessage {
    /// Whether `m` is sent it as a unicast.
    #[must_use]
    pub fn names(&self, m: Uuid) -> bool {
        self.to.as_ref().is_some_and(|to| to.contains(&m))
    }
}

impl History {
    /// Adds an incarnation.
    pub fn add_life(&mut self, host: Host, name: String, id: Uuid) -> Life {
        let life = Life(self.lives.len());
        self.lives.push(LifeRecord { host, name, id });
        self.by_identity.insert(id, life);
        life
    }

    /// The incarnation with this identity.
    #[must_use]
    pub fn life_of(&self, id: Uuid) -> Option<Life> {
        self.by_identity.get(&id).copied()
    }

    /// The identity of an incarnation.
    #[must_use]
    pub fn id(&self, life: Life) -> Uuid {
        self.lives[life.0].id
    }

    /// The name of an incarnation.
    #[must_use]
    pub fn name(&self, life: Life) -> &str {
        &self.lives[life.0].name
    }

    /// The name behind an identity, or its short form.
    #[must_use]
    pub fn name_of(&self, id: Uuid) -> String {
        self.life_of(id).map_or_else(|| id.to_string(), |l| self.name(l).to_owned())
    }

    /// A message.
    #[must_use]
    pub fn message(&self, id: MessageId) -> &SentMessage {
        &self.messages[id.0 as usize]
    }

    /// All incarnations.
    pub fn all_lives(&self) -> impl Iterator<Item = Life> + use<> {
        (0..self.lives.len()).map(Life)
    }

    /// The facts of one incarnation with their positions.
    pub fn facts_of(&self, life: Life) -> impl Iterator<Item = (usize, &Fact)> {
        self.facts.iter().enumerate().filter(move |(_, f)| f.life == Some(life))
    }

    /// The position at which a phase begins.
    #[must_use]
    pub fn phase(&self, phase: Phase) -> Option<usize> {
        self.facts.iter().position(|f| matches!(f.what, What::Phase(p) if p == phase))
    }

    /// The views of one incarnation with the positions at which they were installed.
    #[must_use]
    pub fn views_of(&self, life: Life) -> Vec<(usize, Arc<View>)> {
        self.facts_of(life)
            .filter_map(|(i, f)| match &f.what {
                What::View(v) => Some((i, v.clone())),
                _ => None,
            })
            .collect()
    }

    /// Where the incarnation ended (killed, or left), if it did.
    #[must_use]
    pub fn end_of(&self, life: Life) -> Option<usize> {
        self.facts_of(life)
            .find(|(_, f)| matches!(f.what, What::Died { .. } | What::Left { .. }))
            .map(|(i, _)| i)
    }

    /// Where it began to leave or ended: what is promised to members ends here.
    #[must_use]
    pub fn departure_of(&self, life: Life) -> Option<usize> {
        self.facts_of(life)
            .find(|(_, f)| {
                matches!(f.what, What::Died { .. } | What::Left { .. } | What::LeaveAsked)
            })
            .map(|(i, _)| i)
    }
}
