//! The edge of a member: a [`crate::Stack`] of messages on one side, datagrams and byte streams on
//! the other. Drivers and the simulator run a [`Node`] and move bytes, nothing else: codecs, the TCP
//! handshake, the rule for simultaneous connections and the graceful-close marker are all in here,
//! so they are simulated too.

mod datagrams;
mod frames;
mod from_plan;
#[cfg(test)]
mod limits_tests;
mod link;
mod links;
mod mesh;
#[cfg(test)]
mod mesh_tests;
mod monitor;
mod out;
mod peer;
#[cfg(test)]
pub(crate) mod pipe;
#[cfg(test)]
mod plan_tests;
pub mod raw;
#[cfg(test)]
mod row_tests;

pub use link::LinkConfig;
pub use raw::{Bound, Cast, Closing, Port, RawEvent, RawOp, TransportKind};

use crate::app;
use crate::net::{NetEvent, NetOp};
use crate::{AppEvent, Command, Env, Protocol, Stack, Time, Trace, Uuid};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use datagrams::{Datagrams, MAX_DATAGRAM};
use frames::Packet;
use mesh::Mesh;
use monitor::Monitor;
use out::Out;

/// What a node must be told of its surroundings.
#[derive(Clone, Debug)]
pub struct NodeEnv {
    /// The member's identity; fresh for every incarnation.
    pub local: Uuid,
    /// Its logical name.
    pub name: Arc<str>,
    /// Where the driver has bound its sockets.
    pub bound: Bound,
    /// Seeds all randomness of the node.
    pub seed: u64,
    /// Whether facts are collected for [`Node::poll_trace`].
    pub tracing: bool,
}

/// One member with its edge. Call it as a [`Stack`]: any number of inputs, then
/// [`advance`](Node::advance), then [`end_turn`](Node::end_turn), then drain the polls.
#[derive(Debug)]
pub struct Node {
    stack: Stack,
    edge: Edge,
    monitor: Option<Monitor>,
    out: Out,
    finished: bool,
}

/// How packets travel.
#[derive(Debug)]
enum Edge {
    Datagrams(Datagrams),
    Mesh(Mesh),
}

/// In a turn, the layers may answer what the edge tells them at once so many times; what is then
/// left waits for the next turn.
const ROUNDS: usize = 16;

impl Node {
    /// A node of these layers, bottom first.
    #[must_use]
    pub fn from_layers(
        layers: Vec<Box<dyn Protocol>>,
        kind: TransportKind,
        config: LinkConfig,
        env: NodeEnv,
    ) -> Node {
        let own = env.bound.transport;
        let edge = match kind {
            TransportKind::Udp => Edge::Datagrams(Datagrams::new(own, MAX_DATAGRAM)),
            TransportKind::InProcess => Edge::Datagrams(Datagrams::new(own, usize::MAX)),
            TransportKind::Tcp => Edge::Mesh(Mesh::new(own, config)),
        };
        let monitor = env.bound.monitor.map(|at| Monitor::new(at, env.local, config));
        let out = Out { tracing: env.tracing, ..Out::default() };
        let stack = Stack::new(
            layers,
            Env {
                local: env.local,
                name: env.name,
                physical: own,
                seed: env.seed,
                tracing: env.tracing,
            },
        );
        Node { stack, edge, monitor, out, finished: false }
    }

    /// A request of the application.
    pub fn submit(&mut self, now: Time, cmd: Command) {
        self.stack.submit(now, cmd);
    }

    /// Requests of the application to send these messages ([`Stack::submit_sends`]).
    pub fn submit_sends(&mut self, now: Time, sends: impl IntoIterator<Item = app::Send>) {
        self.stack.submit_sends(now, sends);
    }

    /// Multicasts with these payloads and nothing else ([`Stack::submit_row`]).
    pub fn submit_row(&mut self, now: Time, payloads: Vec<Bytes>) {
        self.stack.submit_row(now, payloads);
    }

    /// Something happened on the network.
    pub fn receive(&mut self, now: Time, ev: RawEvent) {
        let Node { stack, edge, monitor, out, finished } = self;
        let (conn, port) = match &ev {
            RawEvent::Datagram { .. } => {
                if let (Edge::Datagrams(edge), RawEvent::Datagram { from, bytes }) = (edge, ev)
                    && let (false, Some(ev)) = (*finished, edge.receive(from, bytes))
                {
                    stack.receive(now, ev);
                }
                return;
            }
            RawEvent::Discovery { .. } => {
                if let (false, RawEvent::Discovery { bytes }) = (*finished, ev) {
                    stack.receive(now, datagrams::decode_discovery(bytes));
                }
                return;
            }
            RawEvent::NobodyThere => return stack.receive(now, NetEvent::NobodyAt(None)),
            RawEvent::Accepted { conn, port, .. } => (*conn, Some(*port)),
            RawEvent::Connected { conn }
            | RawEvent::ConnectFailed { conn, .. }
            | RawEvent::Received { conn, .. }
            | RawEvent::Written { conn, .. }
            | RawEvent::Closed { conn, .. } => (*conn, None),
        };
        match edge {
            Edge::Mesh(mesh) if port == Some(Port::Transport) || mesh.links.knows(conn) => {
                return mesh.receive(now, ev, out, &mut |ev| stack.receive(now, ev));
            }
            Edge::Mesh(_) | Edge::Datagrams(_) => {}
        }
        match monitor {
            Some(m) if port == Some(Port::Monitor) || m.links.knows(conn) => {
                m.receive(now, ev, out);
                while let Some(ev) = m.poll() {
                    stack.receive(now, ev);
                }
            }
            // Nobody waits behind this listener.
            Some(_) | None if port.is_some() => out.abort(conn),
            // News of a connection that was given up.
            Some(_) | None => {}
        }
    }

    /// Fires what is due. `input_left`: received input is still waiting, so timers that judge peers
    /// hold back, also those of connections (DECISIONS 18).
    pub fn advance(&mut self, now: Time, input_left: bool) {
        if !input_left {
            if let Edge::Mesh(mesh) = &mut self.edge {
                mesh.advance(now, &mut self.out);
            }
            if let Some(m) = &mut self.monitor {
                m.advance(now, &mut self.out);
                while let Some(ev) = m.poll() {
                    self.stack.receive(now, ev);
                }
            }
        }
        self.stack.advance(now, input_left);
    }

    /// Ends the turn: everything that the stack wants sent becomes raw operations.
    pub fn end_turn(&mut self, now: Time) {
        for _ in 0..ROUNDS {
            self.stack.end_turn(now);
            while let Some(op) = self.stack.poll_net() {
                self.perform(now, op);
            }
            let mut told = false;
            while let Some(ev) = self.monitor.as_mut().and_then(Monitor::poll) {
                told = true;
                self.stack.receive(now, ev);
            }
            if !told {
                return;
            }
        }
    }

    fn perform(&mut self, now: Time, op: NetOp) {
        let out = &mut self.out;
        match (op, &mut self.edge, &mut self.monitor) {
            (NetOp::Frame(_) | NetOp::Row(_) | NetOp::Discovery(_), _, _) if self.finished => {}
            (NetOp::Frame(f), Edge::Datagrams(edge), _) => edge.send(now, Packet::Frame(&f), out),
            (NetOp::Frame(f), Edge::Mesh(edge), _) => edge.send(now, Packet::Frame(&f), out),
            (NetOp::Row(r), Edge::Datagrams(edge), _) => edge.send(now, Packet::Row(&r), out),
            (NetOp::Row(r), Edge::Mesh(edge), _) => edge.send(now, Packet::Row(&r), out),
            (NetOp::MonitorConnect { conn, to }, _, Some(m)) => m.connect(now, conn, to, out),
            (NetOp::MonitorSend { conn, header }, _, Some(m)) => m.send(now, conn, header, out),
            (NetOp::MonitorClose { conn }, _, Some(m)) => m.close(now, conn, out),
            (NetOp::MonitorConnect { conn, .. }, _, None) => {
                // The driver bound no port for FD_SOCK2: this node has no such connections.
                self.stack.receive(now, NetEvent::MonitorFailed { conn, refused: false });
            }
            (NetOp::MonitorSend { .. } | NetOp::MonitorClose { .. }, _, None) => {}
            (NetOp::Discovery(request), _, _) => {
                let bytes = datagrams::encode_discovery(&request);
                out.raw.push_back(RawOp::Datagram { to: Cast::Discovery, bytes });
            }
            (NetOp::RetainPeers(keep), Edge::Mesh(mesh), _) => mesh.links.retain(now, &keep, out),
            (NetOp::RetainPeers(_), Edge::Datagrams(_), _) => {}
            (NetOp::Shutdown, edge, monitor) => {
                if let Edge::Mesh(mesh) = edge {
                    mesh.links.shutdown(now, out);
                }
                if let Some(m) = monitor {
                    m.links.shutdown(now, out);
                }
                if !self.finished {
                    self.finished = true;
                    out.raw.push_back(RawOp::Finished);
                }
            }
        }
    }

    /// The next thing for the driver to do.
    pub fn poll_raw(&mut self) -> Option<RawOp> {
        self.out.raw.pop_front()
    }

    /// The next thing to tell the application.
    pub fn poll_app(&mut self) -> Option<AppEvent> {
        self.stack.poll_app()
    }

    /// The next fact, if facts are collected. Facts of the edge come after those of the stack.
    pub fn poll_trace(&mut self) -> Option<(Time, Trace)> {
        self.stack.poll_trace().or_else(|| self.out.traces.pop_front())
    }

    /// When [`Node::advance`] has something to do next.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Time> {
        let mesh = match &self.edge {
            Edge::Mesh(mesh) => mesh.links.deadline(),
            Edge::Datagrams(_) => None,
        };
        let monitor = self.monitor.as_ref().and_then(|m| m.links.deadline());
        self.stack.poll_deadline().into_iter().chain(mesh).chain(monitor).min()
    }

    /// Whether the member has left and everything is closed or told to close. A node does not
    /// start again.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The stack.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The stack, to be acted upon directly.
    pub fn stack_mut(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// Everything on which the later behaviour of this node depends, as text; see
    /// [`Stack::write_state`].
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_state(&self, out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        self.stack.write_state(out)?;
        if let Edge::Mesh(mesh) = &self.edge {
            writeln!(out, "{mesh:?}")?;
        }
        writeln!(out, "{:?} {:?} {}", self.monitor, self.out.raw, self.finished)
    }

    /// Reports every counter and gauge as (layer, name, value); those of the edge as "EDGE".
    pub fn inspect(&self, out: &mut dyn FnMut(&'static str, &str, u64)) {
        self.stack.inspect(out);
        self.out.inspect(out);
        let mesh = match &self.edge {
            Edge::Mesh(mesh) => mesh.links.linked().count(),
            Edge::Datagrams(_) => 0,
        };
        let monitor = self.monitor.as_ref().map_or(0, |m| m.links.linked().count());
        out("EDGE", "connections_open", (mesh + monitor) as u64);
    }
}
