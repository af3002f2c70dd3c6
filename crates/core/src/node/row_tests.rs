//! Rows say what single messages say: the same cluster, once told of its sends as rows and once one by
//! one, sends the group the same packets and delivers the same, also when packets are lost.

use super::{Bound, Cast, Node, NodeEnv, RawEvent, RawOp};
use crate::plan::StackPlan;
use crate::row::{send_of, take_plain};
use crate::testkit::id;
use crate::wire::{Body, Flags, Message};
use crate::{Answer, AppEvent, Command, Delivery, Pool, Query, Rng, Row, Time, Uuid, app, tag};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use core::time::Duration;

const MEMBERS: usize = 3;

/// How a member is told of the sends of a turn.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    InRows,
    OneByOne,
}

struct Cluster {
    nodes: Vec<Node>,
    mailboxes: Vec<VecDeque<(SocketAddr, Bytes)>>,
    now: Time,
    told: Told,
    consuming: bool,
    /// Of a hundred packets so many are lost.
    loss: u64,
    rng: Rng,
    /// Everything that was sent to the group, and everything that was delivered, by member.
    packets: Vec<Vec<Bytes>>,
    delivered: Vec<Vec<(Uuid, Bytes)>>,
    rows: usize,
}

fn at(i: usize) -> SocketAddr {
    ([127, 0, 0, 1], 7000 + i as u16).into()
}

impl Cluster {
    fn formed(told: Told, loss: u64) -> Self {
        let plan = StackPlan::in_process();
        let node = |i: usize| {
            let env = NodeEnv {
                local: tag::tagged((i as u64 + 1) << 32, 5, plan.capabilities()),
                name: "m".into(),
                bound: Bound { transport: at(i), monitor: None },
                seed: i as u64 + 1,
                tracing: false,
            };
            Node::new(&plan, env).expect("a valid plan")
        };
        let mut c = Cluster {
            nodes: (0..MEMBERS).map(node).collect(),
            mailboxes: (0..MEMBERS).map(|_| VecDeque::new()).collect(),
            now: Time::ZERO,
            told,
            consuming: true,
            loss: 0,
            rng: Rng::new(7),
            packets: (0..MEMBERS).map(|_| Vec::new()).collect(),
            delivered: (0..MEMBERS).map(|_| Vec::new()).collect(),
            rows: 0,
        };
        for n in &mut c.nodes {
            n.submit(c.now, Command::Connect { cluster: Bytes::from_static(b"demo") });
        }
        c.pass(Duration::from_secs(10));
        assert!(c.nodes.iter().all(|n| n.stack().group().members().len() == MEMBERS));
        c.loss = loss;
        c
    }

    fn send(&mut self, i: usize, sends: Vec<app::Send>) {
        match self.told {
            Told::InRows => self.nodes[i].submit_sends(self.now, sends),
            Told::OneByOne => {
                for send in sends {
                    self.nodes[i].submit(self.now, Command::Send(send));
                }
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            while self.turns() {}
            self.now += Duration::from_millis(1);
        }
    }

    fn turns(&mut self) -> bool {
        let mut busy = false;
        for i in 0..MEMBERS {
            while let Some((from, bytes)) = self.mailboxes[i].pop_front() {
                self.nodes[i].receive(self.now, RawEvent::Datagram { from, bytes });
            }
            let node = &mut self.nodes[i];
            node.advance(self.now, false);
            node.end_turn(self.now);
            let events: Vec<AppEvent> = core::iter::from_fn(|| node.poll_app()).collect();
            for ev in events {
                self.rows += usize::from(matches!(ev, AppEvent::Row(_)));
                let d = match ev {
                    AppEvent::Deliver(d) => d,
                    AppEvent::Row(row) => {
                        let consumed = row.consumed();
                        let d = Delivery::from(row);
                        assert_eq!(consumed.as_slice(), d.consumed(), "receipts are the same");
                        d
                    }
                    _ => continue,
                };
                busy = true;
                let content = |m: &crate::Message| m.body.as_bytes().cloned().unwrap_or_default();
                self.delivered[i].extend(d.messages.iter().map(|m| (d.from, content(m))));
                if self.consuming {
                    self.nodes[i].submit(self.now, Command::Consumed(d.consumed()));
                }
            }
            while let Some(op) = self.nodes[i].poll_raw() {
                let RawOp::Datagram { to, bytes } = op else { continue };
                if to == Cast::Group {
                    self.packets[i].push(bytes.clone());
                }
                for j in (0..MEMBERS).filter(|j| *j != i) {
                    let meant = to == Cast::Group || to == Cast::To(at(j));
                    if meant && self.rng.below(100) >= self.loss {
                        busy = true;
                        self.mailboxes[j].push_back((at(i), bytes.clone()));
                    }
                }
            }
        }
        busy
    }

    /// What member `i` has delivered of `of`, in order.
    fn of(&self, i: usize, of: usize) -> Vec<&Bytes> {
        let src = self.nodes[of].stack().local();
        self.delivered[i].iter().filter(|(from, _)| *from == src).map(|(_, b)| b).collect()
    }
}

/// What the members send in one turn: mostly small multicasts, and now and then something else.
fn sends(rng: &mut Rng, count: &mut u32) -> Vec<app::Send> {
    let n = [0, 1, 2, 30, 300][rng.below(5) as usize];
    let one = |_| {
        *count += 1;
        let size = match rng.below(200) {
            0 => 100_000,
            1 => 0,
            _ => 4 + rng.below(100) as usize,
        };
        let mut payload = count.to_be_bytes().to_vec();
        payload.resize(size, 7);
        let mut send = send_of(payload.into());
        match rng.below(100) {
            0 => send.message.flags |= Flags::OOB,
            1 => send.message.flags |= Flags::NO_FC,
            2 => send.message.flags |= Flags::DONT_BUNDLE,
            _ => {}
        }
        send
    };
    (0..n).map(one).collect()
}

/// Everybody sends for a while.
fn history(told: Told, loss: u64) -> Cluster {
    let mut c = Cluster::formed(told, loss);
    let (mut rng, mut count) = (Rng::new(42), 0);
    for _ in 0..60 {
        for i in 0..MEMBERS {
            let sends = sends(&mut rng, &mut count);
            c.send(i, sends);
        }
        c.pass(Duration::from_millis(5));
    }
    c.loss = 0;
    c.pass(Duration::from_secs(20));
    c
}

#[test]
fn rows_and_single_messages_are_the_same_on_the_wire_and_above() {
    let (rows, single) = (history(Told::InRows, 0), history(Told::OneByOne, 0));
    assert!(rows.rows > 100, "{} rows were delivered", rows.rows);
    for i in 0..MEMBERS {
        assert!(rows.delivered[i].len() > 1000);
        for of in 0..MEMBERS {
            assert!(rows.of(i, of) == single.of(i, of), "what {i} has delivered of {of}");
        }
        assert!(rows.packets[i] == single.packets[i], "the packets of {i} to the group");
    }
}

#[test]
fn with_loss_rows_come_apart_and_everything_arrives_in_order() {
    let (rows, single) = (history(Told::InRows, 5), history(Told::OneByOne, 0));
    assert!(rows.rows > 50, "{} rows were delivered", rows.rows);
    for i in 0..MEMBERS {
        for of in 0..MEMBERS {
            let mut got = rows.of(i, of);
            let mut sent = single.of(i, of);
            assert_eq!(got.len(), sent.len(), "what {i} has delivered of {of}");
            got.sort();
            sent.sort();
            assert!(got == sent, "what {i} has delivered of {of}");
        }
    }
}

#[test]
fn a_row_is_charged_and_counted_as_its_messages() {
    let credits = |told| {
        let mut c = Cluster::formed(told, 0);
        c.consuming = false;
        let payloads = (1..=200).map(|n| Bytes::from([9].repeat(n)));
        c.send(1, payloads.map(send_of).collect());
        c.pass(Duration::from_millis(5));
        let of = |n: &Node| match n.stack().ask(&Query::Credits(Pool::Multicast)) {
            Some(Answer::Credits(accounts)) => accounts,
            other => panic!("the stack has flow control, and says {other:?}"),
        };
        (c.rows, c.nodes.iter().map(of).collect::<Vec<_>>())
    };
    let (rows, single) = (credits(Told::InRows), credits(Told::OneByOne));
    assert!(rows.0 >= MEMBERS);
    assert_eq!(rows.1, single.1);
}

#[test]
fn only_a_payload_to_everybody_is_plain() {
    let plain_one = || send_of(Bytes::from_static(b"payload"));
    assert_eq!(take_plain(&mut plain_one()), Some(Bytes::from_static(b"payload")));
    let changes: [fn(&mut app::Send); 7] = [
        |s| s.op = Some(crate::OpId(1)),
        |s| s.try_only = true,
        |s| s.deadline = Some(Time::ZERO),
        |s| s.message.dest = Some(id(1).into()),
        |s| s.message.flags |= Flags::OOB,
        |s| s.message.body = Body::Empty,
        |s| s.message = Message::multicast(Body::bytes(Bytes::new())),
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut send = plain_one();
        change(&mut send);
        assert_eq!(take_plain(&mut send), None, "change {i}");
    }
}

#[test]
fn the_messages_of_a_row_have_its_numbers_and_its_account() {
    let mut row = Row::sent(id(3), [&b"abc"[..], b"de"].map(Bytes::from_static).to_vec());
    row.numbers = Some((crate::wire::ProtId::NAKACK2, i64::MAX));
    row.account.pool = crate::Pool::Multicast;
    row.account.floor = 3;
    let sum = row.consumed().expect("there are messages");
    assert_eq!((sum.messages, sum.bytes, sum.from), (2, 6, id(3)));
    let batch = row.into_batch();
    let numbers: Vec<Option<i64>> =
        batch.messages().iter().map(|m| crate::protocols::reliable::multicast_number(m)).collect();
    assert_eq!(numbers, [Some(i64::MAX), Some(i64::MIN)]);
    assert!(batch.messages().iter().all(|m| m.src == Some(id(3).into())));
    assert!(batch.marks().meets(crate::batch::Marks::of(crate::wire::ProtId::NAKACK2)));
}
