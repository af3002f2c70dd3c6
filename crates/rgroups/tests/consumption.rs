//! Reading is what keeps senders going: what is held while nobody reads, and who is told.

mod common;

use common::{Kind, Member, PATIENCE, cluster, config, join, message, numbered, numbers};
use rgroups::{Channel, Message, Sync, block_on};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::{Metadata, Subscriber, span};

const CREDITS: u64 = 2_000_000;

/// Flow control costs a message at least this much.
const LEAST_COST: u64 = 128;

fn limited(kind: Kind) -> rgroups::Config {
    config(kind).set("MFC", "max_credits", "2M").expect("valid")
}

/// Waits until a thread that reports its progress has stopped for a while; tells how far it got.
fn stalled(progress: &mpsc::Receiver<u32>) -> u32 {
    let mut last = 0;
    while let Ok(n) = progress.recv_timeout(Duration::from_millis(700)) {
        last = n;
    }
    last
}

/// What `m` holds of `from`, wherever it is: delivered and unread, and waiting for its turn.
fn held(m: &Channel, from: rgroups::Address) -> (u64, u64) {
    let inspection = block_on(m.inspect()).expect("open");
    let account = inspection.multicast_credits.iter().find(|c| c.peer == from).expect("a member");
    let windows = inspection.windows.iter().filter(|w| w.kind == "multicast" && w.peer == from);
    let waiting = windows.map(|w| (w.received - w.delivered) as u64).sum();
    (account.unconsumed, waiting)
}

/// Between the socket and the application there is never more than the credit and one message.
fn unread_bytes_are_bounded_by_the_credit(kind: Kind, count: u32, size: usize) {
    let mut members = cluster(&limited(kind), 2);
    let (a, mut b) = (members.remove(0), members.remove(0));
    let Member { ch, mut events } = a;
    let reader = thread::spawn(move || while block_on(events.next()).is_some() {});
    let (progress, sent) = mpsc::channel();
    let from = ch.address();
    let sender = thread::spawn({
        let ch = ch.clone();
        move || {
            for n in 1..=count {
                block_on(ch.send(Message::multicast(numbered(n, size)))).expect("sent");
                let _ = progress.send(n);
            }
        }
    });
    let cost = (size as u64).max(LEAST_COST);
    let so_far = stalled(&sent);
    assert!(so_far < count, "the sender waits");
    assert!(u64::from(so_far) * cost > CREDITS / 2, "blocked early: {so_far}");
    let (unconsumed, waiting) = held(&b.ch, from);
    let total = unconsumed + waiting * cost;
    assert!(total <= CREDITS + cost, "{total} bytes held, {unconsumed} of them delivered");
    let queued = b.ch.gauges().unconsumed_bytes;
    assert!(queued <= CREDITS + cost, "{queued} bytes queued");
    let heard: Vec<u32> = numbers(&mut b, count as usize).into_iter().map(|(_, n)| n).collect();
    assert_eq!(heard, (1..=count).collect::<Vec<_>>(), "nothing is lost");
    sender.join().expect("all sent");
    block_on(ch.close()).expect("left");
    reader.join().expect("ended");
}

#[test]
fn unread_large_messages_of_udp_are_bounded_by_the_credit() {
    unread_bytes_are_bounded_by_the_credit(Kind::Udp, 400, 20_000);
}

#[test]
fn unread_large_messages_of_tcp_are_bounded_by_the_credit() {
    unread_bytes_are_bounded_by_the_credit(Kind::Tcp, 400, 20_000);
}

#[test]
fn unread_tiny_messages_are_bounded_by_the_credit() {
    unread_bytes_are_bounded_by_the_credit(Kind::Udp, 40_000, 4);
}

#[test]
fn unread_fragmented_messages_are_bounded_by_the_credit_and_one_message() {
    let kind = Kind::InProcess;
    unread_bytes_are_bounded_by_the_credit(kind, 16, 500_000);
}

/// Warnings of this process, as text.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl Subscriber for Log {
    fn enabled(&self, m: &Metadata<'_>) -> bool {
        *m.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().expect("no panic").push(text.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// 100 MB in a loop that never reads: the sender is one of its own receivers.
#[test]
fn a_sender_that_does_not_read_is_told_that_it_blocks_itself_and_goes_on_when_it_reads() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).expect("the only one");
    let mut a = join(&limited(Kind::InProcess), "nobody reads");
    let ch = a.ch.clone();
    let (progress, sent) = mpsc::channel();
    let sender = thread::spawn(move || {
        for n in 1..=1000 {
            block_on(ch.send(Message::multicast(numbered(n, 100_000)))).expect("sent");
            let _ = progress.send(n);
        }
    });
    let so_far = stalled(&sent);
    let state = (
        held(&a.ch, a.ch.address()),
        a.ch.gauges(),
        block_on(a.ch.inspect()).map(|i| i.multicast_credits),
    );
    assert!(so_far < 60, "one credit, and one more while a call waits: {so_far}: {state:?}");
    let end = Instant::now() + PATIENCE;
    while a.ch.gauges().blocked_on != [a.ch.address()] {
        assert!(Instant::now() < end, "{:?}", a.ch.gauges());
        thread::sleep(Duration::from_millis(10));
    }
    let said = log.0.lock().expect("no panic").clone();
    let own = said.iter().find(|l| l.contains("nobody reads")).expect("said");
    assert!(own.contains("RG0410") && own.contains("nobody polls its Events"), "{own}");
    assert_eq!(numbers(&mut a, 1000).len(), 1000);
    sender.join().expect("all sent");
}

#[test]
fn a_synchronous_send_from_the_reading_task_needs_nobody_else_to_read_for_it() {
    let mut members = cluster(&config(Kind::Udp), 2);
    let (mut a, mut b) = (members.remove(0), members.remove(0));
    let reader = thread::spawn(move || {
        for _ in 0..20 {
            message(&mut b);
        }
        b.events.try_next();
        b
    });
    for n in 0..20 {
        let sent = a.ch.send_and_wait(Message::multicast(numbered(n, 1000)), Sync::default());
        let outcome = block_on(sent).expect("open");
        assert!(outcome.is_complete(), "{outcome:?}");
        message(&mut a);
    }
    reader.join().expect("all read");
}

/// Both wait for the other to read, and neither does: the wait is over when its time is.
#[test]
fn synchronous_sends_from_both_reading_tasks_end_and_name_the_other() {
    let members = cluster(&config(Kind::InProcess), 2);
    let addresses: Vec<_> = members.iter().map(|m| m.ch.address()).collect();
    let sync = Sync { timeout: Some(Duration::from_secs(1)), ..Sync::default() };
    let wait = |m: &Member| {
        let (ch, sync) = (m.ch.clone(), sync.clone());
        thread::spawn(move || block_on(ch.send_and_wait(Message::multicast("x"), sync)))
    };
    let waits: Vec<_> = members.iter().map(wait).collect();
    for (i, w) in waits.into_iter().enumerate() {
        let outcome = w.join().expect("ends").expect("open");
        assert_eq!(outcome.missing, [addresses[1 - i]], "{outcome:?}");
    }
}
