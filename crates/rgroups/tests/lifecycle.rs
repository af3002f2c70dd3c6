//! Joining, idling, breaking apart, healing, ending.

mod common;

use common::{Kind, Member, PATIENCE, await_view, cluster, config, join, message, next, numbered};
use rgroups::{
    Channel, Config, ConnectError, Diagnose, Event, Failed, Message, Receiver, Sync, SyncEnd, View,
    block_on, blocking,
};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Waits until `done`, in real time.
fn eventually(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn idle_members_sleep(kind: Kind) {
    let members = cluster(&config(kind), 3);
    // What the joins left to do is done after a moment.
    thread::sleep(Duration::from_millis(1500));
    let before: Vec<u64> = members.iter().map(|m| m.ch.stats().turns).collect();
    thread::sleep(Duration::from_secs(2));
    for (m, before) in members.iter().zip(before) {
        let turns = m.ch.stats().turns - before;
        assert!(turns < 60, "{} took {turns} turns in two idle seconds", m.ch.name());
    }
}

#[test]
fn idle_members_of_udp_sleep() {
    idle_members_sleep(Kind::Udp);
}

#[test]
fn idle_members_of_tcp_sleep() {
    idle_members_sleep(Kind::Tcp);
}

fn a_partition_makes_two_groups_that_merge_when_healed(kind: Kind) {
    let config = config(kind)
        .set("FD_ALL3", "timeout", "1s")
        .and_then(|c| c.set("FD_ALL3", "interval", "200ms"))
        .and_then(|c| c.set("VERIFY_SUSPECT2", "timeout", "300ms"))
        .and_then(|c| c.set("MERGE3", "min_interval", "500ms"))
        .and_then(|c| c.set("MERGE3", "max_interval", "1s"))
        .expect("valid");
    let mut members = cluster(&config, 3);
    let places = block_on(members[0].ch.inspect()).expect("open").physical;
    let place = |m: &Member| {
        let known = places.iter().find(|(a, _)| *a == m.ch.address());
        known.map(|(_, at)| *at).expect("known")
    };
    let (a, b, c) = (place(&members[0]), place(&members[1]), place(&members[2]));
    members[0].ch.admin().block([c]);
    members[1].ch.admin().block([c]);
    members[2].ch.admin().block([a, b]);
    await_view(&mut members[0], |v| v.members().len() == 2);
    await_view(&mut members[1], |v| v.members().len() == 2);
    await_view(&mut members[2], |v| v.members().len() == 1);
    for m in &members {
        m.ch.admin().heal();
    }
    for m in &mut members {
        let v = await_view(m, |v| v.members().len() == 3);
        assert!(v.is_merge() && v.subgroups().len() == 2, "{v}");
    }
    block_on(members[2].ch.send(Message::multicast("together"))).expect("sent");
    assert_eq!(message(&mut members[0]).text(), Some("together"));
}

#[test]
fn the_death_of_a_coordinator_over_tcp_is_verified_by_its_ports_and_not_by_a_timeout() {
    let config =
        config(Kind::Tcp).set("VERIFY_SUSPECT2", "timeout", "10m").expect("an attribute of it");
    let mut members = cluster(&config, 3);
    // The first member has the lowest ports: the next ones listen where it is looked for.
    members.remove(0).ch.kill();
    for m in &mut members {
        await_view(m, |v| v.members().len() == 2);
    }
}

#[test]
fn a_partition_of_udp_heals() {
    a_partition_makes_two_groups_that_merge_when_healed(Kind::Udp);
}

#[test]
fn a_partition_of_tcp_heals() {
    a_partition_makes_two_groups_that_merge_when_healed(Kind::Tcp);
}

#[test]
fn a_partition_in_one_process_heals() {
    a_partition_makes_two_groups_that_merge_when_healed(Kind::InProcess);
}

#[test]
fn a_blocked_sender_learns_who_is_slow() {
    let mut members = cluster(&config(Kind::InProcess), 2);
    let slow = members[1].ch.address();
    let Member { ch, events } = members.remove(0);
    // Its own copies are consumed, those of the other one are not.
    drop(events);
    let sender = ch.clone();
    thread::spawn(move || {
        for n in 0..1000 {
            if block_on(sender.send(Message::multicast(numbered(n, 20_000)))).is_err() {
                return;
            }
        }
    });
    eventually("the slow member is named", || ch.gauges().blocked_on == [slow]);
    assert_eq!(ch.send_window(None).bytes, 0);
    assert!(ch.stats().msgs_sent > 10);
    drop(members);
    eventually("without it the way is free", || ch.gauges().blocked_on.is_empty());
}

#[test]
fn a_caller_can_drive_a_member_itself() {
    let config = config(Kind::InProcess);
    let mut b = join(&config, "B");
    let builder = Channel::builder(config).name("pumped");
    let (mut pump, mut events) = builder.connect_pumped("test").expect("begins");
    let end = Instant::now() + PATIENCE;
    while pump.channel().is_none() {
        assert!(pump.pump(Duration::from_millis(10)) && Instant::now() < end);
    }
    let ch = pump.channel().expect("joined");
    ch.try_send(Message::multicast("by hand")).expect("there is credit");
    while !matches!(events.try_next(), Some(Event::Message(_))) {
        assert!(pump.pump(Duration::from_millis(10)) && Instant::now() < end);
    }
    assert_eq!(message(&mut b).text(), Some("by hand"));
    let leaving = thread::spawn(move || block_on(ch.close()));
    while pump.pump(Duration::from_millis(10)) {
        assert!(Instant::now() < end);
    }
    leaving.join().expect("ends").expect("confirmed");
}

#[test]
fn a_join_that_is_given_up_leaves_nobody_behind() {
    let config = config(Kind::InProcess);
    let mut a = join(&config, "A");
    // Usually the first attempt is still joining when it is given up; one that is through already
    // leaves, and the next one is given up.
    let given_up = (0..100).any(|_| {
        let connecting = Channel::builder(config.clone()).name("B").connect("test");
        let mut connecting = std::pin::pin!(connecting);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match connecting.as_mut().poll(&mut cx) {
            std::task::Poll::Pending => true,
            std::task::Poll::Ready(joined) => {
                block_on(joined.expect("joins").0.close()).expect("leaves");
                false
            }
        }
    });
    assert!(given_up, "joins before it can be given up");
    let c = join(&config, "C");
    await_view(&mut a, |v| v.contains(c.ch.address()) && v.members().len() == 2);
}

struct Collector(mpsc::Sender<String>);

impl Receiver for Collector {
    async fn message(&mut self, m: Message) {
        let _ = self.0.send(m.text().unwrap_or_default().to_owned());
    }

    async fn view(&mut self, v: View) {
        let _ = self.0.send(format!("{} members", v.members().len()));
    }
}

#[test]
fn a_receiver_is_called_for_everything_in_order() {
    let (calls, heard) = mpsc::channel();
    let builder = Channel::builder(config(Kind::InProcess)).name("A");
    let ch = block_on(builder.connect_with("test", Collector(calls))).expect("joins");
    block_on(ch.send(Message::multicast("one"))).expect("sent");
    block_on(ch.send(Message::multicast("two"))).expect("sent");
    let expected = ["1 members", "one", "two"];
    for e in expected {
        assert_eq!(heard.recv_timeout(PATIENCE).as_deref(), Ok(e));
    }
    block_on(ch.close()).expect("leaves");
    assert!(heard.recv_timeout(PATIENCE).is_err(), "the receiver is gone");
}

/// Closes its own channel when it hears something.
struct Closer(Arc<OnceLock<Channel>>, mpsc::Sender<()>);

impl Receiver for Closer {
    async fn message(&mut self, _: Message) {
        let Some(ch) = self.0.get().cloned() else { return };
        // On a slow machine nobody may confirm it in time, which is no matter here.
        let _ = ch.close().await;
        let _ = self.1.send(());
    }
}

#[test]
fn a_receiver_may_close_its_own_channel() {
    for kind in [Kind::InProcess, Kind::Udp, Kind::Tcp] {
        let config = config(kind);
        let mut a = join(&config, "A");
        let (closed, told) = mpsc::channel();
        let own = Arc::new(OnceLock::new());
        let builder = Channel::builder(config).name("B");
        let receiver = Closer(Arc::clone(&own), closed);
        let b = block_on(builder.connect_with("test", receiver)).expect("joins");
        assert!(own.set(b).is_ok());
        await_view(&mut a, |v| v.members().len() == 2);
        block_on(a.ch.send(Message::multicast("close"))).expect("sent");
        assert_eq!(told.recv_timeout(PATIENCE), Ok(()), "the call returns");
        await_view(&mut a, |v| v.members().len() == 1);
    }
}

/// Cannot handle what says so.
struct Picky;

impl Receiver for Picky {
    async fn message(&mut self, _: Message) {
        unreachable!("the other one is called");
    }

    async fn try_message(&mut self, m: Message) -> Result<(), Failed> {
        if m.text() == Some("bad") { Err(Failed) } else { Ok(()) }
    }
}

#[test]
fn a_sender_that_waits_hears_of_a_callback_that_failed_and_of_an_event_that_did() {
    let config = config(Kind::InProcess);
    let mut a = join(&config, "A");
    let b = block_on(Channel::builder(config.clone()).name("B").connect_with("test", Picky));
    let b = b.expect("joins");
    let mut c = join(&config, "C");
    await_view(&mut a, |v| v.members().len() == 3);
    let c_address = c.ch.address();
    let reader = thread::spawn(move || {
        while message(&mut c).text() != Some("bad") {}
        c.events.fail();
        // Read on, or it never counts as consumed.
        let _ = c.events.try_next();
        c
    });
    let send = |text: &'static str| {
        let sync = Sync { timeout: Some(PATIENCE), ..Sync::default() };
        block_on(a.ch.send_and_wait(Message::multicast(text), sync)).expect("sent")
    };
    let bad = send("bad");
    let mut failed = bad.failed.clone();
    failed.sort();
    let mut both = vec![b.address(), c_address];
    both.sort();
    assert_eq!((bad.end, failed), (SyncEnd::Complete, both));
    assert!(bad.is_complete() && !bad.is_success());
    let c = reader.join().expect("it reads");
    drop(c);
    let good = send("good");
    assert!(!good.failed.contains(&b.address()));
    assert!(good.acknowledged.contains(&b.address()));
}

#[test]
fn blocking_calls_do_the_same() {
    let builder = Channel::builder(config(Kind::InProcess)).name("A");
    let (ch, mut events) = blocking::connect(builder, "test").expect("joins");
    ch.send(Message::multicast("hello")).expect("sent");
    assert!(matches!(events.next(), Some(Event::View(_))));
    assert!(matches!(events.next(), Some(Event::Message(m)) if m.text() == Some("hello")));
    assert_eq!(ch.view().members(), [ch.address()]);
    ch.close().expect("leaves");
    assert_eq!(events.next(), None);
}

#[test]
fn a_multicast_address_that_is_none_is_refused_with_a_hint() {
    let config = config(Kind::Udp).set("UDP", "mcast_addr", "127.0.0.5").expect("an address");
    let e = block_on(Channel::builder(config).connect("test")).expect_err("no multicast");
    match &e {
        ConnectError::Bind { what, .. } => assert!(what.contains("127.0.0.5"), "{e}"),
        // Refused before a socket is made.
        ConnectError::Config(_) => return,
        other => panic!("{other}"),
    }
    assert_eq!(e.code(), "RG0201");
    assert!(e.hint().is_some_and(|h| h.contains("Config::tcp")), "{e}");
}

#[test]
fn an_empty_cluster_name_is_refused() {
    let e = block_on(Channel::builder(Config::in_process()).connect("")).expect_err("empty");
    assert!(matches!(e, ConnectError::ClusterName(0)));
}

#[test]
fn a_stream_of_views_skips_to_the_newest() {
    let config = config(Kind::InProcess);
    let mut a = join(&config, "A");
    let mut views = a.ch.views();
    assert_eq!(views.latest().members().len(), 1);
    let _b = join(&config, "B");
    let _c = join(&config, "C");
    await_view(&mut a, |v| v.members().len() == 3);
    let newest = block_on(views.changed()).expect("open");
    assert_eq!(newest.members().len(), 3);
    assert!(next(&mut a.events, Duration::ZERO).is_none());
}

#[test]
fn a_member_hears_which_other_clusters_use_its_address() {
    let config = config(Kind::Udp);
    let a = join(&config, "A");
    let builder = Channel::builder(config).name("B");
    let (_b, _events) = block_on(builder.connect("stag\x1b[2Jing")).expect("joins");
    eventually("the other cluster is heard", || {
        let inspection = block_on(a.ch.inspect()).expect("open");
        let heard = inspection.clusters_heard.iter().find(|h| h.what == "stag\\u{1b}[2Jing");
        let counted = inspection.dropped.iter().any(|(why, n)| why == "wrong_cluster" && *n > 0);
        counted && heard.is_some_and(|h| h.times > 0 && h.from.is_some())
    });
}
