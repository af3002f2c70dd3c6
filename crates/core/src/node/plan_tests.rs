//! Members made from the in-process preset, on a hub that carries every packet at once.

use super::*;
use crate::app::Send;
use crate::plan::StackPlan;
use crate::wire::{self, Body};
use crate::{OpId, SendResult, Time};
use alloc::collections::VecDeque;
use alloc::string::String;
use bytes::Bytes;
use core::net::SocketAddr;
use core::time::Duration;

struct Hub {
    nodes: Vec<Node>,
    now: Time,
    told: Vec<Vec<AppEvent>>,
}

fn at(i: usize) -> SocketAddr {
    ([127, 0, 0, 1], 7001 + i as u16).into()
}

impl Hub {
    /// So many members, connecting at the same time.
    fn of(members: usize) -> Self {
        let mut hub = Hub { nodes: Vec::new(), now: Time::ZERO, told: Vec::new() };
        (0..members).for_each(|_| hub.join());
        hub
    }

    fn join(&mut self) {
        let i = self.nodes.len();
        let env = NodeEnv {
            local: Uuid::new(1 + i as u64, 1),
            name: alloc::format!("M{i}").into(),
            bound: Bound { transport: at(i), monitor: None },
            seed: i as u64,
            tracing: false,
        };
        let mut node = Node::new(&StackPlan::in_process(), env).unwrap();
        node.submit(self.now, Command::Connect { cluster: Bytes::from_static(b"test") });
        self.nodes.push(node);
        self.told.push(Vec::new());
    }

    fn run(&mut self, d: Duration) {
        let end = self.now + d;
        loop {
            self.settle();
            let next = self.nodes.iter().filter_map(Node::poll_deadline).min();
            match next.filter(|at| *at <= end) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
        }
        self.now = end;
    }

    /// Turns, until no packet is left.
    fn settle(&mut self) {
        let mut packets: VecDeque<(usize, RawEvent)> = VecDeque::new();
        for i in 0..self.nodes.len() {
            self.turn(i, &mut packets);
        }
        while let Some((i, ev)) = packets.pop_front() {
            self.nodes[i].receive(self.now, ev);
            self.turn(i, &mut packets);
        }
    }

    fn turn(&mut self, i: usize, packets: &mut VecDeque<(usize, RawEvent)>) {
        let node = &mut self.nodes[i];
        node.advance(self.now, false);
        node.end_turn(self.now);
        self.told[i].extend(core::iter::from_fn(|| node.poll_app()));
        let ops: Vec<RawOp> = core::iter::from_fn(|| node.poll_raw()).collect();
        for op in ops {
            let RawOp::Datagram { to, bytes } = op else { continue };
            for j in 0..self.nodes.len() {
                if to == Cast::Group || to == Cast::To(at(j)) {
                    packets
                        .push_back((j, RawEvent::Datagram { from: at(i), bytes: bytes.clone() }));
                }
            }
        }
    }

    fn send(&mut self, i: usize, text: &str) {
        let message = wire::Message::multicast(Body::bytes(text.as_bytes().to_vec()));
        let op = Some(OpId(1));
        let send = Send { op, message, try_only: false, deadline: None, sync: None };
        self.nodes[i].submit(self.now, Command::Send(send));
    }

    fn sizes(&self) -> Vec<usize> {
        self.nodes.iter().map(|n| n.stack().group().members().len()).collect()
    }

    fn texts(&self, i: usize) -> Vec<String> {
        let deliveries = self.told[i].iter().filter_map(|e| match e {
            AppEvent::Deliver(d) => Some(d),
            _ => None,
        });
        deliveries
            .flat_map(|d| &d.messages)
            .filter_map(|m| String::from_utf8(m.body.as_bytes()?.to_vec()).ok())
            .collect()
    }
}

#[test]
fn members_that_start_together_end_in_one_group() {
    let mut hub = Hub::of(3);
    hub.run(Duration::from_secs(10));
    assert_eq!(hub.sizes(), [3, 3, 3]);
}

#[test]
fn everybody_receives_what_one_sends_and_the_call_is_answered() {
    let mut hub = Hub::of(3);
    hub.run(Duration::from_secs(10));
    hub.send(1, "hello");
    hub.run(Duration::from_secs(1));
    for i in 0..3 {
        assert_eq!(hub.texts(i), ["hello"], "member {i}");
    }
    let sent = |e: &AppEvent| matches!(e, AppEvent::Resolved { result: SendResult::Sent, .. });
    assert!(hub.told[1].iter().any(sent));
}

#[test]
fn a_message_that_needs_fragments_arrives_whole() {
    let mut hub = Hub::of(2);
    hub.run(Duration::from_secs(10));
    hub.send(0, &"x".repeat(200_000));
    hub.run(Duration::from_secs(1));
    assert_eq!(hub.texts(1).iter().map(String::len).collect::<Vec<_>>(), [200_000]);
}

#[test]
fn a_member_joins_late_and_another_leaves() {
    let mut hub = Hub::of(2);
    hub.run(Duration::from_secs(10));
    hub.join();
    hub.run(Duration::from_secs(3));
    assert_eq!(hub.sizes(), [3, 3, 3]);
    hub.nodes[0].submit(hub.now, Command::Disconnect);
    hub.run(Duration::from_secs(3));
    assert_eq!(hub.sizes()[1..], [2, 2]);
    let left = |e: &AppEvent| matches!(e, AppEvent::Disconnected { confirmed: true });
    assert!(hub.told[0].iter().any(left));
}
