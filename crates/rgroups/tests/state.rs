//! The state of one member comes to another, on every transport.

mod common;

use bytes::Bytes;
use common::{Kind, Member, cluster, config, join, message, next};
use rgroups::{Channel, Event, Message, Receiver, StateError, StateResponder, block_on, blocking};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Long enough for a machine that is busy with other tests.
const LONG: Duration = Duration::from_secs(30);

/// Reads the events of `m` until the channel closes: appends the first byte of every message to its
/// state and gives that to whoever asks.
fn serve(mut m: Member) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut state = Vec::new();
        while let Some(ev) = block_on(m.events.next()) {
            match ev {
                Event::Message(msg) => state.push(msg.bytes().expect("bytes")[0]),
                Event::StateRequested(r) => {
                    // The other member may have gone meanwhile.
                    let _ = block_on(r.send(state.clone()));
                }
                _ => {}
            }
        }
        state
    })
}

fn a_joiner_has_what_was_sent_before_and_gets_what_is_sent_after(kind: Kind) {
    let config = config(kind);
    let a = join(&config, "A");
    let ch = a.ch.clone();
    let served = serve(a);
    for n in 0..100u8 {
        block_on(ch.send(Message::multicast(vec![n]))).expect("sent");
    }
    let sender = ch.clone();
    let more = thread::spawn(move || {
        for n in 100..=250u8 {
            block_on(sender.send(Message::multicast(vec![n]))).expect("sent");
        }
    });
    let builder = Channel::builder(config).name("B");
    let (b, mut events, state) =
        block_on(builder.connect_with_state("test", LONG)).expect("joins with the state");
    let state = state.expect("A has one");
    assert_eq!(state.provider(), ch.address());
    let mut known = state.into_bytes().to_vec();
    assert!(matches!(next(&mut events, LONG), Some(Event::View(_))), "the view comes first");
    while known.len() < 251 {
        if let Event::Message(m) = next(&mut events, LONG).expect("it goes on") {
            known.push(m.bytes().expect("bytes")[0]);
        }
    }
    assert_eq!(known, (0..=250).collect::<Vec<u8>>());
    more.join().expect("all sent");
    block_on(b.close()).expect("left");
    block_on(ch.close()).expect("left");
    assert_eq!(served.join().expect("served").len(), 251);
}

fn a_large_state_arrives_whole(kind: Kind) {
    let mut members = cluster(&config(kind), 2);
    let (b, mut a) = (members.remove(1), members.remove(0));
    let large: Bytes = (0..20_000_000u32).map(|n| (n >> 7) as u8).collect::<Vec<u8>>().into();
    let expected = large.clone();
    let provider = thread::spawn(move || {
        while let Some(ev) = next(&mut a.events, LONG) {
            if let Event::StateRequested(r) = ev {
                block_on(r.send(large)).expect("sent");
                break;
            }
        }
        a
    });
    let state = block_on(b.ch.fetch_state(None, LONG)).expect("a state").expect("of A");
    assert!(state.bytes() == &expected, "{} bytes", state.bytes().len());
    provider.join().expect("provided");
}

mod over_udp {
    #[test]
    fn a_joiner_has_what_was_sent_before_and_gets_what_is_sent_after() {
        super::a_joiner_has_what_was_sent_before_and_gets_what_is_sent_after(super::Kind::Udp);
    }

    #[test]
    fn a_large_state_arrives_whole() {
        super::a_large_state_arrives_whole(super::Kind::Udp);
    }
}

mod over_tcp {
    #[test]
    fn a_joiner_has_what_was_sent_before_and_gets_what_is_sent_after() {
        super::a_joiner_has_what_was_sent_before_and_gets_what_is_sent_after(super::Kind::Tcp);
    }

    #[test]
    fn a_large_state_arrives_whole() {
        super::a_large_state_arrives_whole(super::Kind::Tcp);
    }
}

#[test]
fn the_first_member_gets_no_state() {
    let builder = Channel::builder(config(Kind::InProcess)).name("A");
    let (_a, _events, state) = blocking::connect_with_state(builder, "test", LONG).expect("joins");
    assert_eq!(state, None);
}

#[test]
fn what_was_unread_and_is_in_the_state_is_not_read_any_more() {
    let mut members = cluster(&config(Kind::InProcess), 2);
    let (mut b, a) = (members.remove(1), members.remove(0));
    let ch = a.ch.clone();
    let _served = serve(a);
    for n in 0..10u8 {
        block_on(ch.send(Message::multicast(vec![n]))).expect("sent");
    }
    // B reads one of them, and has the others at hand, before it asks.
    assert_eq!(message(&mut b).bytes().map(|b| b[0]), Some(0));
    let to_b = Message::unicast(b.ch.address(), "after them");
    block_on(ch.send(to_b)).expect("sent");
    let state = block_on(b.ch.fetch_state(None, LONG)).expect("a state").expect("of A");
    let known = state.into_bytes();
    assert!(known.len() >= 10, "{known:?}");
    block_on(ch.send(Message::multicast(vec![99]))).expect("sent");
    let mut read = Vec::new();
    while read.last() != Some(&99) {
        let m = message(&mut b);
        if m.dest().is_none() {
            read.push(m.bytes().expect("bytes")[0]);
        }
    }
    assert_eq!(read, [99]);
}

#[test]
fn an_application_that_ignores_the_question_is_named() {
    let members = cluster(&config(Kind::InProcess), 2);
    let [mut a, b]: [Member; 2] = members.try_into().expect("two");
    let alone = |ev: &Event| matches!(ev, Event::View(v) if v.members().len() == 1);
    let ignores =
        thread::spawn(move || while next(&mut a.events, LONG).is_some_and(|ev| !alone(&ev)) {});
    let failed = block_on(b.ch.fetch_state(None, LONG)).expect_err("nobody has a state");
    let StateError::NoProvider { tried, .. } = &failed else { panic!("{failed}") };
    assert_eq!(tried[0].name, "A");
    assert!(failed.to_string().contains("A: its application does not answer"), "{failed}");
    drop(b);
    ignores.join().expect("it read");
}

#[test]
fn a_call_ends_after_its_time() {
    let members = cluster(&config(Kind::InProcess), 2);
    let asked = block_on(members[1].ch.fetch_state(None, Duration::from_millis(200)));
    let failed = asked.expect_err("A does not read its events");
    assert!(failed.to_string().contains("A: no answer"), "{failed}");
}

#[test]
fn a_call_ends_when_the_channel_closes() {
    let mut members = cluster(&config(Kind::InProcess), 2);
    let b = members.remove(1);
    let ch = b.ch.clone();
    let asking = thread::spawn(move || block_on(ch.fetch_state(None, LONG)));
    block_on(b.ch.close()).expect("left");
    assert_eq!(asking.join().expect("it ends"), Err(StateError::Closed));
}

/// A receiver whose state is a list of first bytes.
struct List {
    state: Vec<u8>,
    told: mpsc::Sender<Vec<u8>>,
}

impl Receiver for List {
    async fn message(&mut self, m: Message) {
        self.state.push(m.bytes().expect("bytes")[0]);
        let _ = self.told.send(self.state.clone());
    }

    async fn get_state(&mut self, request: StateResponder) {
        let _ = request.send(self.state.clone()).await;
    }

    async fn set_state(&mut self, state: Bytes) {
        self.state = state.to_vec();
    }
}

#[test]
fn receivers_give_and_take_states() {
    let config = config(Kind::InProcess);
    let connect = |name: &str| {
        let (told, hears) = mpsc::channel();
        let builder = Channel::builder(config.clone()).name(name);
        let receiver = List { state: Vec::new(), told };
        (block_on(builder.connect_with("test", receiver)).expect("joins"), hears)
    };
    let (a, at_a) = connect("A");
    for n in [1, 2] {
        block_on(a.send(Message::multicast(vec![n]))).expect("sent");
    }
    while at_a.recv_timeout(LONG).expect("it hears itself") != [1, 2] {}
    let (b, at_b) = connect("B");
    let state = block_on(b.fetch_state(None, LONG)).expect("a state").expect("of A");
    assert_eq!(state.bytes()[..], [1, 2]);
    block_on(a.send(Message::multicast(vec![3]))).expect("sent");
    assert_eq!(at_b.recv_timeout(LONG).expect("it hears"), [1, 2, 3]);
    for ch in [b, a] {
        block_on(ch.close()).expect("left");
    }
}
