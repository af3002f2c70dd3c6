//! What a channel promises, on every transport.

mod common;

use common::{
    Kind, Member, PATIENCE, await_view, cluster, config, join, message, next, numbered, numbers,
};
use rgroups::{Event, Flags, Message, SendError, Sync, SyncEnd, TrySendError, block_on};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

fn three_members_hear_each_other_in_order(kind: Kind) {
    let mut members = cluster(&config(kind), 3);
    let addresses: Vec<_> = members.iter().map(|m| m.ch.address()).collect();
    for m in &members {
        assert_eq!(m.ch.view().members(), addresses, "in the order of joining");
        block_on(m.ch.names_known(&m.ch.view()));
        assert_eq!(m.ch.name_of(addresses[1]).as_deref(), Some("B"));
    }
    for m in &members {
        let ch = m.ch.clone();
        thread::spawn(move || {
            for n in 0..500 {
                block_on(ch.send(Message::multicast(numbered(n, 100)))).expect("sent");
            }
        });
    }
    for m in &mut members {
        let heard = numbers(m, 1500);
        for a in &addresses {
            let of_a: Vec<u32> = heard.iter().filter(|(s, _)| s == a).map(|(_, n)| *n).collect();
            assert_eq!(of_a, (0..500).collect::<Vec<_>>());
        }
    }
}

fn a_unicast_reaches_only_its_destination(kind: Kind) {
    let mut members = cluster(&config(kind), 3);
    let to = members[2].ch.address();
    for n in 0..100 {
        let m = Message::unicast(to, numbered(n, 10));
        block_on(members[0].ch.send(m)).expect("sent");
    }
    block_on(members[0].ch.send(Message::multicast("to all"))).expect("sent");
    let mut heard = Vec::new();
    while heard.len() < 101 {
        let m = message(&mut members[2]);
        if m.dest().is_some() {
            assert_eq!(m.dest(), Some(to));
            assert_eq!(common::number(&m).1 as usize, heard.iter().filter(|d| **d).count());
        }
        heard.push(m.dest().is_some());
    }
    assert_eq!(message(&mut members[1]).text(), Some("to all"));
}

fn a_member_that_leaves_is_gone_from_the_view(kind: Kind) {
    let mut members = cluster(&config(kind), 3);
    let first = members.remove(0);
    let gone = first.ch.address();
    block_on(first.ch.close()).expect("the coordinator leaves in order");
    for m in &mut members {
        let v = await_view(m, |v| !v.contains(gone));
        assert_eq!(v.members().len(), 2);
    }
    block_on(members[0].ch.send(Message::multicast("still here"))).expect("sent");
    assert_eq!(message(&mut members[1]).text(), Some("still here"));
}

fn a_reader_that_stops_makes_senders_wait_and_loses_nothing(kind: Kind) {
    const COUNT: u32 = 3000;
    let mut members = cluster(&config(kind), 2);
    let ch = members[0].ch.clone();
    let (progress, sent) = mpsc::channel();
    let own = thread::spawn({
        let a = members.remove(0);
        // The sender reads its own events.
        move || {
            let mut a = a;
            numbers(&mut a, COUNT as usize).len()
        }
    });
    let sender = thread::spawn(move || {
        for n in 0..COUNT {
            block_on(ch.send(Message::multicast(numbered(n, 10_000)))).expect("sent");
            progress.send(n).expect("somebody counts");
        }
    });
    let mut so_far = 0;
    while let Ok(n) = sent.recv_timeout(Duration::from_millis(1500)) {
        so_far = n;
    }
    assert!(so_far > 10 && so_far < COUNT - 10, "blocked after {so_far}");
    let held = members[0].ch.gauges();
    assert!(held.unconsumed_bytes < 8_000_000, "{held:?}");
    let heard: Vec<u32> =
        numbers(&mut members[0], COUNT as usize).into_iter().map(|(_, n)| n).collect();
    assert_eq!(heard, (0..COUNT).collect::<Vec<_>>());
    sender.join().expect("all sent");
    assert_eq!(own.join().expect("all heard"), COUNT as usize);
}

/// Each member reads one message and sends one, while two arrive: what is unread grows beyond the
/// credit of 2 MB, which the overdraft of a member that waits in `send` allows, up to 4 MB.
fn sending_from_the_receive_loop_does_not_hang(kind: Kind) {
    const EACH: usize = 64;
    let config = config(kind).set("MFC", "max_credits", "2M").expect("valid");
    let members = cluster(&config, 2);
    let (done, finished) = mpsc::channel();
    for mut m in members {
        let done = done.clone();
        thread::spawn(move || {
            for n in 0..EACH as u32 {
                if n >= 20 {
                    message(&mut m);
                }
                block_on(m.ch.send(Message::multicast(numbered(n, 60_000)))).expect("sent");
            }
            numbers(&mut m, 2 * EACH - (EACH - 20));
            done.send(()).expect("somebody waits");
            // Stay until the other one is done as well.
            thread::sleep(Duration::from_secs(2));
        });
    }
    for _ in 0..2 {
        finished.recv_timeout(Duration::from_secs(40)).expect("both finish");
    }
}

fn a_message_of_100_mb_arrives(kind: Kind) {
    let mut members = cluster(&config(kind), 2);
    let big: Vec<u8> = (0..100_000_000u32).map(|i| (i >> 8) as u8).collect();
    let big = bytes::Bytes::from(big);
    let mut b = members.pop().expect("two");
    let a = members.pop().expect("one");
    let Member { ch, mut events } = a;
    let own = thread::spawn(move || block_on(async { while events.next().await.is_some() {} }));
    let sent = big.clone();
    let sender = ch.clone();
    let sending = thread::spawn(move || {
        block_on(sender.send(Message::multicast(sent))).expect("sent");
        block_on(sender.send(Message::multicast("behind it"))).expect("sent");
    });
    assert!(message(&mut b).bytes() == Some(&big), "whole and unchanged");
    assert_eq!(message(&mut b).text(), Some("behind it"));
    sending.join().expect("both sent");
    block_on(ch.close()).expect("leaves");
    own.join().expect("ends with the channel");
}

fn a_pending_send_that_is_dropped_is_never_heard(kind: Kind) {
    let mut members = cluster(&config(kind), 2);
    // Nobody reads: after a while a send waits.
    let mut sent = 0;
    loop {
        match members[0].ch.try_send(Message::multicast(numbered(sent, 50_000))) {
            Ok(()) => sent += 1,
            Err(TrySendError::NoCredits { message, .. }) => {
                assert_eq!(message.len(), 50_000, "the message comes back");
                break;
            }
            Err(e) => panic!("{e}"),
        }
        assert!(sent < 10_000, "nobody reads, so credit must end");
    }
    let ch = members[0].ch.clone();
    {
        let pending = ch.send(Message::multicast(numbered(u32::MAX, 5_000_000)));
        let mut pending = std::pin::pin!(pending);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(pending.as_mut().poll(&mut cx).is_pending());
        thread::sleep(Duration::from_millis(50));
        assert!(pending.as_mut().poll(&mut cx).is_pending());
    }
    let mut b = members.pop().expect("two");
    let mut a = members.pop().expect("one");
    let own = thread::spawn(move || numbers(&mut a, sent as usize + 1).len());
    let last = thread::spawn(move || block_on(ch.send(Message::multicast(numbered(sent, 4)))));
    let heard: Vec<u32> = numbers(&mut b, sent as usize + 1).into_iter().map(|(_, n)| n).collect();
    assert_eq!(heard, (0..=sent).collect::<Vec<_>>());
    last.join().expect("ends").expect("sent");
    own.join().expect("heard too");
}

fn a_synchronous_send_returns_when_all_have_consumed(kind: Kind) {
    let members = cluster(&config(kind), 3);
    let ch = members[0].ch.clone();
    let send = move |timeout| {
        let sync = Sync { timeout: Some(timeout), ..Sync::default() };
        block_on(ch.send_and_wait(Message::multicast("read this"), sync)).expect("sent")
    };
    let c = members[2].ch.address();
    let outcome = send(Duration::from_millis(700));
    assert_eq!(outcome.end, SyncEnd::TimedOut, "nobody reads");
    assert!(outcome.missing.contains(&c));
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = members
        .into_iter()
        .map(|mut m| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    next(&mut m.events, Duration::from_millis(20));
                }
            })
        })
        .collect();
    let outcome = send(Duration::from_secs(10));
    assert!(outcome.is_complete(), "{outcome:?}");
    assert!(outcome.acknowledged.contains(&c));
    stop.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|r| r.join().expect("reads"));
}

/// Nobody hears of a refusal of what entered without an answer.
fn a_message_to_somebody_outside_the_view_is_refused_every_time(kind: Kind) {
    let stranger = join(&config(kind), "S").ch.address();
    let mut members = cluster(&config(kind), 2);
    let gone = members[1].ch.address();
    block_on(members[0].ch.send(Message::unicast(gone, "welcome"))).expect("sent");
    drop(members.pop());
    let m = &mut members[0];
    await_view(m, |v| !v.contains(gone));
    for to in [stranger, gone, stranger, gone] {
        let refused = Err(SendError::NotMember(to));
        for flags in [Flags::empty(), Flags::NO_FC] {
            let message = || Message::unicast(to, "who is there?").with_flags(flags);
            assert_eq!(block_on(m.ch.send(message())), refused);
            match m.ch.try_send(message()) {
                Err(TrySendError::Other(SendError::NotMember(a))) => assert_eq!(a, to),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Without fragmentation, only the transport knows what a datagram can carry.
#[test]
fn a_message_that_no_packet_can_carry_is_refused_every_time() {
    let plan = config(Kind::Udp).plan().clone().without("FRAG2");
    let m = join(&rgroups::Config::from_plan(plan), "A");
    for _ in 0..3 {
        block_on(m.ch.send(Message::multicast(numbered(0, 60_000)))).expect("it fits");
        let refused = block_on(m.ch.send(Message::multicast(numbered(0, 70_000))));
        assert!(matches!(refused, Err(SendError::TooLarge { .. })), "{refused:?}");
    }
}

/// A send that waits because the member is behind keeps its place in the order of submission.
#[test]
fn a_send_that_waits_for_the_driver_is_not_overtaken() {
    let builder = rgroups::Channel::builder(config(Kind::InProcess)).name("A");
    let (mut pump, mut events) = builder.connect_pumped("test").expect("prepared");
    let end = Instant::now() + PATIENCE;
    let ch = loop {
        pump.pump(Duration::from_millis(5));
        assert!(Instant::now() < end, "it joins");
        if let Some(ch) = pump.channel() {
            break ch;
        }
    };
    let exempt = |n, len| Message::multicast(numbered(n, len)).with_flags(Flags::NO_FC);
    let mut n = 0;
    while ch.try_send(exempt(n, 500_000)).is_ok() {
        n += 1;
    }
    let mut waits = Box::pin(ch.send(exempt(n, 10)));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    while ch.try_send(exempt(n + 1, 10)).is_err() {
        assert!(pump.pump(Duration::ZERO));
    }
    let mut heard = Vec::new();
    let mut pending = true;
    while heard.len() < n as usize + 2 {
        assert!(Instant::now() < end, "{heard:?}");
        pending = pending && waits.as_mut().poll(&mut cx).is_pending();
        pump.pump(Duration::from_millis(1));
        while let Some(ev) = events.try_next() {
            if let Event::Message(m) = ev {
                heard.push(common::number(&m).1);
            }
        }
    }
    assert_eq!(heard, (0..n + 2).collect::<Vec<_>>());
}

fn a_closed_channel_refuses_and_ends_its_events(kind: Kind) {
    let mut members = cluster(&config(kind), 2);
    let Member { ch, mut events } = members.remove(0);
    let other = ch.clone();
    let mut views = ch.views();
    block_on(ch.close()).expect("leaves");
    assert!(!other.is_open());
    let refused = block_on(other.send(Message::multicast("too late")));
    assert_eq!(refused, Err(SendError::Closed));
    block_on(async { while events.next().await.is_some() {} });
    views.latest();
    assert_eq!(block_on(views.changed()), None);
    assert_eq!(block_on(other.inspect()), None);
    block_on(other.close()).expect("closing twice is no error");
}

fn dropping_all_handles_leaves(kind: Kind) {
    let mut members = cluster(&config(kind), 2);
    let a = members.remove(0);
    let gone = a.ch.address();
    drop(a);
    await_view(&mut members[0], |v| !v.contains(gone));
}

fn a_killed_member_is_found_out(kind: Kind) {
    let mut members = cluster(&config(kind), 3);
    let gone = members[1].ch.address();
    members[1].ch.kill();
    await_view(&mut members[0], |v| !v.contains(gone));
    await_view(&mut members[2], |v| !v.contains(gone));
}

fn an_unread_exempt_flood_is_bounded(kind: Kind) {
    let config = config(kind);
    let a = join(&config, "A");
    let limit = 1_000_000;
    let builder = rgroups::Channel::builder(config).name("B").inbound_limit(limit);
    let (b, _events) = block_on(builder.connect("test")).expect("joins");
    let drained = thread::spawn(move || {
        let Member { ch, events } = a;
        drop(events);
        for n in 0..600 {
            let m = Message::multicast(numbered(n, 10_000)).with_flags(Flags::NO_FC);
            block_on(ch.send(m)).expect("sent");
        }
        ch
    });
    let end = Instant::now() + PATIENCE;
    while b.stats().dropped_over_inbound_limit == 0 {
        assert!(Instant::now() < end, "{:?}", b.gauges());
        thread::sleep(Duration::from_millis(5));
    }
    assert!(b.gauges().events_queued_bytes <= limit as u64);
    drop(drained.join());
}

fn an_own_multicast_can_be_left_out(kind: Kind) {
    let config = config(kind);
    let builder = rgroups::Channel::builder(config.clone()).name("A").discard_own_messages(true);
    let (ch, events) = block_on(builder.connect("test")).expect("joins");
    let mut a = Member { ch, events };
    let mut b = join(&config, "B");
    await_view(&mut a, |v| v.members().len() == 2);
    for n in 0..500 {
        // More than all credit: also what is left out is consumed.
        block_on(a.ch.send(Message::multicast(numbered(n, 20_000)))).expect("sent");
        assert_eq!(common::number(&message(&mut b)).1, n);
    }
    block_on(b.ch.send(Message::multicast("from B"))).expect("sent");
    assert_eq!(message(&mut a).text(), Some("from B"));
}

macro_rules! suite {
    ($($module:ident: $kind:expr => [$($test:ident),* $(,)?]);* $(;)?) => {
        $(mod $module {
            $(#[test]
            fn $test() {
                super::$test($kind);
            })*
        })*
    };
}

suite! {
    udp: super::Kind::Udp => [
        three_members_hear_each_other_in_order,
        a_unicast_reaches_only_its_destination,
        a_member_that_leaves_is_gone_from_the_view,
        a_reader_that_stops_makes_senders_wait_and_loses_nothing,
        sending_from_the_receive_loop_does_not_hang,
        a_message_of_100_mb_arrives,
        a_pending_send_that_is_dropped_is_never_heard,
        a_synchronous_send_returns_when_all_have_consumed,
        a_message_to_somebody_outside_the_view_is_refused_every_time,
        a_closed_channel_refuses_and_ends_its_events,
        a_killed_member_is_found_out,
    ];
    tcp: super::Kind::Tcp => [
        three_members_hear_each_other_in_order,
        a_unicast_reaches_only_its_destination,
        a_member_that_leaves_is_gone_from_the_view,
        a_reader_that_stops_makes_senders_wait_and_loses_nothing,
        sending_from_the_receive_loop_does_not_hang,
        a_message_of_100_mb_arrives,
        a_pending_send_that_is_dropped_is_never_heard,
        a_synchronous_send_returns_when_all_have_consumed,
        a_message_to_somebody_outside_the_view_is_refused_every_time,
        a_closed_channel_refuses_and_ends_its_events,
        a_killed_member_is_found_out,
    ];
    in_process: super::Kind::InProcess => [
        three_members_hear_each_other_in_order,
        a_unicast_reaches_only_its_destination,
        a_member_that_leaves_is_gone_from_the_view,
        a_reader_that_stops_makes_senders_wait_and_loses_nothing,
        sending_from_the_receive_loop_does_not_hang,
        a_message_of_100_mb_arrives,
        a_pending_send_that_is_dropped_is_never_heard,
        a_synchronous_send_returns_when_all_have_consumed,
        a_message_to_somebody_outside_the_view_is_refused_every_time,
        a_closed_channel_refuses_and_ends_its_events,
        dropping_all_handles_leaves,
        an_unread_exempt_flood_is_bounded,
        an_own_multicast_can_be_left_out,
    ];
}
