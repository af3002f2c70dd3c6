//! Large messages over NAKACK4: they pass a window that is smaller than they are, whole or not at
//! all, and a slow consumer is not sent the next ones (S0-1, S0-16).

use super::{Nakack4Config, ReliableMulticast, ReliableUnicast, Unicast4Config};
use crate::attributes::ByteSize;
use crate::event::WindowGauge;
use crate::protocols::entry::{Entry, EntryConfig};
use crate::protocols::frag::{Frag2, Frag2Config};
use crate::protocols::rsvp::{Rsvp, RsvpConfig};
use crate::testkit::{Solo, id, pass_time, view};
use crate::wire::{Body, Message};
use crate::{
    Answer, AppEvent, Command, Consumed, Duration, Event, OpId, Query, SendRefusal, SendResult, app,
};
use alloc::boxed::Box;
use alloc::vec::Vec;

const CAPACITY: u32 = 8;
const FRAGMENT: usize = 100;
const SECOND: Duration = Duration::from_secs(1);

fn group() -> Vec<Solo> {
    let member = |me| {
        let nakack = Nakack4Config { capacity: CAPACITY, ..Nakack4Config::default() };
        let frag = Frag2Config { frag_size: ByteSize(FRAGMENT as u64) };
        let mut s = Solo::topped(
            me,
            id(me),
            [
                Box::new(ReliableMulticast::new(nakack)) as Box<dyn crate::Protocol>,
                Box::new(ReliableUnicast::new(Unicast4Config::default())),
                Box::new(Frag2::new(frag)),
                Box::new(Rsvp::new(RsvpConfig::default())),
                Box::new(Entry::new(EntryConfig::default())),
            ]
            .into(),
        );
        s.install(view(1, &[1, 2]));
        s.event_down(Event::BecomeServer);
        s
    };
    [member(1), member(2)].into()
}

fn send(s: &mut Solo, op: u64, fragments: usize, try_only: bool) {
    let message = Message::multicast(Body::bytes(alloc::vec![op as u8; fragments * FRAGMENT]));
    let send = app::Send { op: Some(OpId(op)), message, try_only, deadline: None, sync: None };
    s.stack.submit(s.now, Command::Send(send));
}

/// What the application of `s` was told since the last call: lengths of messages, what is owed for
/// them, and how calls ended.
#[derive(Default)]
struct Told {
    lengths: Vec<usize>,
    owed: Vec<Consumed>,
    resolved: Vec<(OpId, SendResult)>,
}

fn told(s: &mut Solo) -> Told {
    let mut all = Told::default();
    for ev in s.told() {
        match ev {
            AppEvent::Deliver(d) => {
                all.lengths.extend(d.messages.iter().map(|m| m.length()));
                all.owed.extend(d.consumed());
            }
            AppEvent::Resolved { op, result } => all.resolved.push((op, result)),
            _ => {}
        }
    }
    all
}

fn consume(s: &mut Solo, owed: Vec<Consumed>) {
    s.stack.submit(s.now, Command::Consumed(owed));
}

fn own_window(s: &Solo) -> WindowGauge {
    let lists = s.stack.ask_all(&Query::Windows);
    let mut gauges = lists.into_iter().flat_map(|a| match a {
        Answer::Windows(list) => list,
        _ => Vec::new(),
    });
    gauges.find(|g| g.peer == s.stack.local()).expect("there is a window")
}

#[test]
fn a_message_larger_than_the_window_arrives_whole() {
    let mut g = group();
    send(&mut g[0], 1, 100, false);
    pass_time(&mut g, SECOND * 40, |_, _, _| false);
    let (sender, receiver) = (told(&mut g[0]), told(&mut g[1]));
    assert_eq!(sender.resolved, [(OpId(1), SendResult::Sent)]);
    assert_eq!((sender.lengths, receiver.lengths), ([10_000].into(), [10_000].into()));
    consume(&mut g[0], sender.owed);
    consume(&mut g[1], receiver.owed);
    pass_time(&mut g, SECOND * 3, |_, _, _| false);
    assert_eq!(own_window(&g[0]).messages, 0);
}

#[test]
fn a_consumer_that_stops_is_sent_one_large_message_and_one_window() {
    let mut g = group();
    for op in 1..=4 {
        send(&mut g[0], op, 20, false);
    }
    pass_time(&mut g, SECOND * 40, |_, _, _| false);
    // The sender's application takes its own copies, so that only the receiver holds it up.
    let sender = told(&mut g[0]);
    consume(&mut g[0], sender.owed);
    pass_time(&mut g, SECOND * 40, |_, _, _| false);
    let receiver = told(&mut g[1]);
    assert_eq!(receiver.lengths, [2_000]);
    let sent = own_window(&g[0]).received;
    assert!(sent <= 20 + i64::from(CAPACITY), "{sent} fragments");
    let (mut owed, mut lengths) = (receiver.owed, receiver.lengths);
    for _ in 0..10 {
        consume(&mut g[1], owed);
        pass_time(&mut g, SECOND * 20, |_, _, _| false);
        let sender = told(&mut g[0]);
        consume(&mut g[0], sender.owed);
        let receiver = told(&mut g[1]);
        owed = receiver.owed;
        lengths.extend(receiver.lengths);
    }
    assert_eq!(lengths, [2_000; 4]);
    assert_eq!(own_window(&g[0]).messages, 0);
}

#[test]
fn a_message_that_must_not_wait_is_refused_whole() {
    let mut g = group();
    send(&mut g[0], 1, CAPACITY as usize, true);
    send(&mut g[0], 2, 5, true);
    let sent = own_window(&g[0]).received;
    assert_eq!(sent, i64::from(CAPACITY), "nothing of the second");
    let resolved = told(&mut g[0]).resolved;
    assert_eq!(resolved[0], (OpId(1), SendResult::Sent));
    let refused = |r: &SendResult| matches!(r, SendResult::Refused(SendRefusal::WouldBlock { by }) if by.contains(&id(2)));
    assert!(refused(&resolved[1].1), "{resolved:?}");
    assert_eq!(g[0].stack.tokens_outstanding(), 0);
}

#[test]
fn a_large_message_that_waits_is_withdrawn_whole_and_one_that_began_is_not() {
    let mut g = group();
    send(&mut g[0], 1, 2 * CAPACITY as usize, false);
    send(&mut g[0], 2, 5, false);
    for op in [1, 2] {
        let now = g[0].now;
        g[0].stack.submit(now, Command::Cancel(OpId(op)));
    }
    let resolved = told(&mut g[0]).resolved;
    let withdrawn = SendResult::Refused(SendRefusal::Withdrawn);
    assert_eq!(resolved, [(OpId(1), SendResult::Sent), (OpId(2), withdrawn)]);
    pass_time(&mut g, SECOND * 10, |_, _, _| false);
    assert_eq!(own_window(&g[0]).received, 2 * i64::from(CAPACITY));
}
