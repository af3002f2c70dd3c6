//! Simulated TCP: connecting, refusing, byte streams with finite buffers, orderly ends and resets.
//!
//! Kernels are simulated, not only processes: a frozen process still accepts connections and fills
//! its buffers; a killed one has its connections closed by its kernel; a machine without power
//! answers nothing, and whoever writes to it finds out late. Loss costs time, never bytes.

mod stream;

use crate::filter_stream::filter_frames;
use crate::network::{Host, Network};
use bytes::Bytes;
use rgroups_core::net::ConnId;
use rgroups_core::node::{self, Port, RawEvent, RawOp};
use rgroups_core::{Duration, Rng, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use stream::{Closing, End, Segment, Stream};

/// One incarnation of a node: a process from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life(pub usize);

/// Properties of the simulated kernels.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Bytes that may be under way or unread in one direction of a connection (both socket
    /// buffers together).
    pub window: usize,
    /// How long an opener waits for an answer.
    pub connect_timeout: Duration,
    /// How long unacknowledged bytes are repeated before the connection is given up.
    pub give_up: Duration,
    /// How long after a heal the first repetition gets through.
    pub repeat: Duration,
    /// Cut what is written into pieces of random size.
    pub chunking: bool,
    /// Connections that may wait for the process to accept them.
    pub backlog: usize,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            window: 256 * 1024,
            connect_timeout: Duration::from_secs(2),
            give_up: Duration::from_secs(60),
            repeat: Duration::from_millis(200),
            chunking: true,
            backlog: 50,
        }
    }
}

/// How a process ends, as its kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// In order: what was written still goes out.
    Orderly,
    /// Killed: the kernel closes what is open.
    Killed,
    /// The machine lost its power: silence.
    PowerOff,
}

/// A step of a connection that was planned for later.
#[derive(Clone, Debug)]
pub enum Step {
    /// The request to connect arrives.
    Request(u64),
    /// The opener learns that the connection stands.
    Established(u64),
    /// The opener learns that it failed.
    Failed {
        /// The connection.
        stream: u64,
        /// Somebody said so.
        refused: bool,
    },
    /// Something arrives at the other side of `from`.
    Arrive {
        /// The connection.
        stream: u64,
        /// Who sent it.
        from: End,
        /// What.
        segment: Segment,
    },
    /// What was held back because of a partition is tried again.
    Retry {
        /// The connection.
        stream: u64,
        /// Whose bytes.
        from: End,
    },
    /// If still nothing got through since then, the connection is given up.
    GiveUp {
        /// The connection.
        stream: u64,
        /// Whose bytes.
        from: End,
        /// Since when it is stuck.
        stuck_since: Time,
    },
}

/// What connections want of their surroundings.
#[derive(Debug)]
pub enum Effect {
    /// Call [`Streams::step`] then.
    Plan(Time, Step),
    /// Tell a process.
    Tell(Life, RawEvent),
}

/// What connections need from their surroundings.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// The time.
    pub now: Time,
    /// The network.
    pub net: &'a mut Network,
    /// Chance.
    pub rng: &'a mut Rng,
    /// What is to be done, in order.
    pub out: &'a mut Vec<Effect>,
}

/// All connections, listeners and kernels.
#[derive(Debug)]
pub struct Streams {
    /// What the kernels are like.
    pub kernel: Kernel,
    streams: BTreeMap<u64, Stream>,
    ends: BTreeMap<(Life, ConnId), (u64, End)>,
    listeners: BTreeMap<SocketAddr, Listener>,
    hosts: BTreeMap<IpAddr, Host>,
    dark: BTreeSet<Host>,
    next_stream: u64,
    next_accepted: u64,
}

#[derive(Debug)]
struct Listener {
    life: Life,
    port: Port,
    /// Accepted by the kernel, not yet taken by the process.
    waiting: usize,
}

impl Streams {
    /// No connection yet.
    #[must_use]
    pub fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            streams: BTreeMap::new(),
            ends: BTreeMap::new(),
            listeners: BTreeMap::new(),
            hosts: BTreeMap::new(),
            dark: BTreeSet::new(),
            next_stream: 0,
            next_accepted: 0,
        }
    }

    /// `host` has this address.
    pub fn add_host(&mut self, ip: IpAddr, host: Host) {
        self.hosts.insert(ip, host);
    }

    /// The host with this address.
    #[must_use]
    pub fn host_at(&self, ip: IpAddr) -> Option<Host> {
        self.hosts.get(&ip).copied()
    }

    /// `life` listens at `at`.
    pub fn listen(&mut self, life: Life, port: Port, at: SocketAddr) {
        self.listeners.insert(at, Listener { life, port, waiting: 0 });
    }

    /// The machine has power again.
    pub fn power_on(&mut self, host: Host, around: &mut Surroundings<'_>) {
        if self.dark.remove(&host) {
            self.healed(around);
        }
    }

    /// How many connections are known to a process of `life`.
    #[must_use]
    pub fn open_at(&self, life: Life) -> usize {
        self.ends.range((life, ConnId(0))..=(life, ConnId(u64::MAX))).count()
    }

    /// `life` wants something done. Datagrams and the end of the process are not handled here.
    pub fn op(&mut self, host: Host, life: Life, op: RawOp, around: &mut Surroundings<'_>) {
        match op {
            RawOp::Connect { conn, port, to } => self.connect((host, life), conn, port, to, around),
            RawOp::Write { conn, bytes } => self.write(life, conn, bytes, around),
            RawOp::Close { conn, how } => {
                if let Some(&(id, end)) = self.ends.get(&(life, conn)) {
                    let how = match how {
                        node::Closing::Orderly | node::Closing::AfterPeer => Closing::Orderly,
                        node::Closing::Abort => Closing::Abort,
                    };
                    self.close(id, end, how, around);
                }
            }
            RawOp::Datagram { .. } | RawOp::Finished => {}
        }
    }

    fn connect(
        &mut self,
        (host, life): (Host, Life),
        conn: ConnId,
        port: Port,
        to: SocketAddr,
        around: &mut Surroundings<'_>,
    ) {
        let id = self.next_stream;
        self.next_stream += 1;
        let target = self.hosts.get(&to.ip()).copied();
        self.streams.insert(id, Stream::opening((host, life), conn, port, to, target));
        self.ends.insert((life, conn), (id, End::Opener));
        let limit = around.now + self.kernel.connect_timeout;
        around.out.push(Effect::Plan(limit, Step::Failed { stream: id, refused: false }));
        if let Some(target) = target {
            let at = around.now + around.flight(host, target);
            around.out.push(Effect::Plan(at, Step::Request(id)));
        }
    }

    fn write(&mut self, life: Life, conn: ConnId, bytes: Bytes, around: &mut Surroundings<'_>) {
        let Some(&(id, end)) = self.ends.get(&(life, conn)) else { return };
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let bytes = match stream.host(end.other()) {
            Some(to) if stream.port == Port::Transport && around.net.looks_into_packets() => {
                filter_frames(stream.host_of(end), to, bytes, around.net)
            }
            _ => bytes,
        };
        stream.side(end).queued.push_back(bytes);
        stream.pump(id, end, &self.kernel, around);
    }

    /// A planned step is due.
    pub fn step(&mut self, step: Step, around: &mut Surroundings<'_>) {
        match step {
            Step::Request(id) => self.request_arrives(id, around),
            Step::Established(id) => {
                let Some(stream) = self.streams.get_mut(&id) else { return };
                if let Some((life, conn)) = stream.establish() {
                    around.out.push(Effect::Tell(life, RawEvent::Connected { conn }));
                }
                stream.pump(id, End::Opener, &self.kernel, around);
            }
            Step::Failed { stream: id, refused } => {
                let Some(stream) = self.streams.get_mut(&id) else { return };
                if let Some((life, conn)) = stream.fail() {
                    self.ends.remove(&(life, conn));
                    let event = RawEvent::ConnectFailed { conn, refused };
                    around.out.push(Effect::Tell(life, event));
                }
                self.remove_if_over(id);
            }
            Step::Arrive { stream: id, from, segment } => {
                let Some(stream) = self.streams.get_mut(&id) else { return };
                let blocked = stream.is_blocked(from, &self.dark, around.net);
                if blocked || stream.has_held(from) {
                    let since = stream.hold(from, segment, around.now);
                    let at = since + self.kernel.give_up;
                    let step = Step::GiveUp { stream: id, from, stuck_since: since };
                    around.out.push(Effect::Plan(at, step));
                } else {
                    self.arrive(id, from, segment, around);
                }
            }
            Step::Retry { stream: id, from } => self.retry(id, from, around),
            Step::GiveUp { stream: id, from, stuck_since } => {
                let Some(stream) = self.streams.get_mut(&id) else { return };
                if stream.stuck_since(from) == Some(stuck_since) {
                    let told = stream.shut(from);
                    self.tell_closed(told, true, around);
                    self.remove_if_over(id);
                }
            }
        }
    }

    fn request_arrives(&mut self, id: u64, around: &mut Surroundings<'_>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let Some(target) = stream.host(End::Acceptor) else { return };
        let opener = stream.host_of(End::Opener);
        let silent = self.dark.contains(&target)
            || !around.net.reaches(opener, target)
            || !around.net.reaches(target, opener);
        if silent {
            return;
        }
        let answer_at = around.now + around.flight(target, opener);
        match self.listeners.get_mut(&stream.to) {
            Some(l) if l.waiting >= self.kernel.backlog => {}
            Some(l) => {
                l.waiting += 1;
                let conn = ConnId(RawOp::ACCEPTED + self.next_accepted);
                self.next_accepted += 1;
                let from = stream.accept(l.life, conn, answer_at);
                self.ends.insert((l.life, conn), (id, End::Acceptor));
                let event = RawEvent::Accepted { conn, port: l.port, from };
                around.out.push(Effect::Tell(l.life, event));
                around.out.push(Effect::Plan(answer_at, Step::Established(id)));
            }
            None => {
                let step = Step::Failed { stream: id, refused: true };
                around.out.push(Effect::Plan(answer_at, step));
            }
        }
    }

    fn arrive(&mut self, id: u64, from: End, segment: Segment, around: &mut Surroundings<'_>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let at = from.other();
        match (segment, stream.open_at(at)) {
            (Segment::Data(bytes), Some((life, conn))) => {
                around.out.push(Effect::Tell(life, RawEvent::Received { conn, bytes }));
            }
            // Nobody is there who could read it.
            (Segment::Data(_), None) => stream.send_reset(id, at, around),
            (Segment::Fin, _) => {
                let told = stream.shut(at);
                self.tell_closed(told, false, around);
            }
            (Segment::Reset, _) => {
                let told = [stream.shut(at), stream.shut(from)];
                self.tell_closed(told[0], true, around);
                self.tell_closed(told[1], true, around);
            }
        }
        self.remove_if_over(id);
    }

    fn retry(&mut self, id: u64, from: End, around: &mut Surroundings<'_>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.is_blocked(from, &self.dark, around.net) {
            return;
        }
        for segment in stream.release(from) {
            self.arrive(id, from, segment, around);
        }
    }

    /// A process has taken an event out of its kernel's buffers: there is room again.
    pub fn taken(&mut self, life: Life, event: &RawEvent, around: &mut Surroundings<'_>) {
        match event {
            RawEvent::Received { conn, bytes } => {
                let Some(&(id, end)) = self.ends.get(&(life, *conn)) else { return };
                let Some(stream) = self.streams.get_mut(&id) else { return };
                stream.acknowledge(end.other(), bytes.len());
                stream.pump(id, end.other(), &self.kernel, around);
            }
            RawEvent::Accepted { port, .. } => {
                let taken = self.listeners.values_mut().find(|l| l.life == life && l.port == *port);
                if let Some(l) = taken {
                    l.waiting = l.waiting.saturating_sub(1);
                }
            }
            RawEvent::Datagram { .. }
            | RawEvent::Discovery { .. }
            | RawEvent::NobodyThere
            | RawEvent::Connected { .. }
            | RawEvent::ConnectFailed { .. }
            | RawEvent::Written { .. }
            | RawEvent::Closed { .. } => {}
        }
    }

    /// A process is gone.
    pub fn exit(&mut self, host: Host, life: Life, how: Exit, around: &mut Surroundings<'_>) {
        self.listeners.retain(|_, l| l.life != life);
        if how == Exit::PowerOff {
            self.dark.insert(host);
        }
        let mine: Vec<(u64, End)> = self
            .ends
            .range((life, ConnId(0))..=(life, ConnId(u64::MAX)))
            .map(|(_, at)| *at)
            .collect();
        for (id, end) in mine {
            let closing = match how {
                Exit::Orderly => Closing::Orderly,
                Exit::Killed if around.rng.chance(0.5) => Closing::Abort,
                Exit::Killed => Closing::Lost,
                Exit::PowerOff => Closing::Silent,
            };
            self.close(id, end, closing, around);
        }
    }

    /// Drops one connection of `life` as a failing network does: both sides see a reset.
    pub fn reset_all(&mut self, life: Life, around: &mut Surroundings<'_>) {
        let mine: Vec<u64> = self
            .ends
            .range((life, ConnId(0))..=(life, ConnId(u64::MAX)))
            .map(|(_, (id, _))| *id)
            .collect();
        for id in mine {
            self.arrive(id, End::Opener, Segment::Reset, around);
        }
    }

    /// A partition ended: held bytes go on after the next repetition.
    pub fn healed(&mut self, around: &mut Surroundings<'_>) {
        for (&id, stream) in &self.streams {
            for from in [End::Opener, End::Acceptor] {
                if stream.has_held(from) {
                    let jitter = around.rng.duration(Duration::ZERO, self.kernel.repeat);
                    let at = around.now + self.kernel.repeat + jitter;
                    around.out.push(Effect::Plan(at, Step::Retry { stream: id, from }));
                }
            }
        }
    }

    fn close(&mut self, id: u64, end: End, how: Closing, around: &mut Surroundings<'_>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if let Some((life, conn)) = stream.close(id, end, how, &self.kernel, around) {
            self.ends.remove(&(life, conn));
        }
        self.remove_if_over(id);
    }

    fn tell_closed(
        &mut self,
        told: Option<(Life, ConnId)>,
        reset: bool,
        around: &mut Surroundings<'_>,
    ) {
        if let Some((life, conn)) = told {
            self.ends.remove(&(life, conn));
            around.out.push(Effect::Tell(life, RawEvent::Closed { conn, reset }));
        }
    }

    fn remove_if_over(&mut self, id: u64) {
        if self.streams.get(&id).is_some_and(Stream::is_over) {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u64) {
        self.streams.remove(&id);
        self.ends.retain(|_, (stream, _)| *stream != id);
    }
}

impl Surroundings<'_> {
    /// How long a segment takes; what is lost is repeated and takes longer.
    fn flight(&mut self, from: Host, to: Host) -> Duration {
        if from == to {
            return Duration::from_micros(20);
        }
        let link = self.net.link(from, to);
        let repeated =
            if self.rng.chance(link.loss) { Duration::from_millis(200) } else { Duration::ZERO };
        link.delay + self.rng.duration(Duration::ZERO, link.jitter) + repeated
    }
}

#[cfg(test)]
mod tests;
