//! A few members on a network without loss, in one thread, under a steady load.

use bytes::Bytes;
use rgroups_core::node::{Bound, Cast, Node, NodeEnv, RawEvent, RawOp};
use rgroups_core::plan::StackPlan;
use rgroups_core::wire::{Body, Message};
use rgroups_core::{AppEvent, Command, Time, app, tag};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The members, and what is on its way between them.
pub(crate) struct Cluster {
    members: Vec<Member>,
    now: Time,
    /// Each message is a request of its own.
    pub(crate) apart: bool,
}

struct Member {
    node: Node,
    at: SocketAddr,
    mailbox: VecDeque<(SocketAddr, Bytes)>,
    delivered: u64,
    view: usize,
}

impl Cluster {
    /// So many members in one view.
    pub(crate) fn formed(n: usize) -> Self {
        let plan = StackPlan::in_process();
        let members = (1..=n as u64).map(|i| {
            let at = SocketAddr::from((Ipv4Addr::LOCALHOST, i as u16));
            let env = NodeEnv {
                local: tag::tagged(i << 32, i, plan.capabilities()),
                name: format!("m{i}").into(),
                bound: Bound { transport: at, monitor: None },
                seed: i,
                tracing: false,
            };
            let node = Node::new(&plan, env).expect("a valid plan");
            Member { node, at, mailbox: VecDeque::new(), delivered: 0, view: 0 }
        });
        let mut c = Cluster { members: members.collect(), now: Time(0), apart: false };
        for i in 0..n {
            let cluster = Bytes::from_static(b"steady");
            c.members[i].node.submit(c.now, Command::Connect { cluster });
            for _ in 0..10_000 {
                c.turns();
                if c.members[..=i].iter().all(|m| m.view == i + 1) {
                    break;
                }
                c.now += Duration::from_millis(1);
            }
        }
        assert!(c.members.iter().all(|m| m.view == n), "the group forms");
        c
    }

    /// Each member multicasts `payload` so many times; all is delivered and consumed everywhere.
    pub(crate) fn burst(&mut self, messages: usize, payload: &Bytes) {
        self.now += Duration::from_millis(1);
        for m in &mut self.members {
            let send = |_| {
                let message = Message::multicast(Body::bytes(payload.clone()));
                app::Send { op: None, message, try_only: false, deadline: None, sync: None }
            };
            match self.apart {
                false => m.node.submit_sends(self.now, (0..messages).map(send)),
                true => (0..messages).for_each(|i| m.node.submit(self.now, Command::Send(send(i)))),
            }
        }
        while self.turns() {}
    }

    /// Messages delivered so far, at all members together.
    pub(crate) fn delivered(&self) -> u64 {
        self.members.iter().map(|m| m.delivered).sum()
    }

    /// One turn of each member. Whether anything happened.
    fn turns(&mut self) -> bool {
        let mut busy = false;
        for i in 0..self.members.len() {
            let now = self.now;
            let m = &mut self.members[i];
            while let Some((from, bytes)) = m.mailbox.pop_front() {
                m.node.receive(now, RawEvent::Datagram { from, bytes });
            }
            m.node.advance(now, false);
            m.node.end_turn(now);
            let from = m.at;
            while let Some(op) = self.members[i].node.poll_raw() {
                let RawOp::Datagram { to, bytes } = op else { continue };
                for (j, other) in self.members.iter_mut().enumerate() {
                    if j != i && (to == Cast::Group || to == Cast::To(other.at)) {
                        busy = true;
                        other.mailbox.push_back((from, bytes.clone()));
                    }
                }
            }
            let m = &mut self.members[i];
            while let Some(ev) = m.node.poll_app() {
                match ev {
                    AppEvent::Deliver(d) => {
                        m.delivered += d.messages.len() as u64;
                        m.node.submit(now, Command::Consumed(d.consumed()));
                        busy = true;
                    }
                    AppEvent::Row(row) => {
                        m.delivered += row.len() as u64;
                        let consumed = row.consumed().into_iter().collect();
                        m.node.submit(now, Command::Consumed(consumed));
                        busy = true;
                    }
                    AppEvent::View(v) => m.view = v.members.len(),
                    _ => {}
                }
            }
        }
        busy
    }
}
