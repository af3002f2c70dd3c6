//! A state piece by piece: in parts, over a connection, and in one message.

mod common;

use bytes::Bytes;
use common::{Kind, Member, cluster, config, join, next};
use rgroups::{
    Address, Channel, Config, Diagnose, Event, Message, StateError, StatePart, StateReader,
    StateWriter, block_on,
};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Long enough for a machine that is busy with other tests.
const LONG: Duration = Duration::from_secs(30);
const PIECE: usize = 10_000;

fn with(kind: Kind, protocol: &str) -> Config {
    config(kind).with_state_protocol(protocol).expect("there is such a protocol")
}

/// So many pieces, each of which says which it is, and whose.
async fn write(w: &mut StateWriter, whose: u8, pieces: usize) -> Result<(), StateError> {
    for n in 0..pieces {
        w.write(vec![whose ^ n as u8; PIECE]).await?;
    }
    Ok(())
}

/// Answers everybody who asks `m`, on a thread of its own, until `stop` says how it is to end.
fn serve(mut m: Member, whose: u8, pieces: usize) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        while let Some(ev) = block_on(m.events.next()) {
            if let Event::StateRequested(r) = ev {
                thread::spawn(move || {
                    let mut w = r.stream();
                    // The other member may have gone meanwhile.
                    let _ = block_on(async {
                        write(&mut w, whose, pieces).await?;
                        w.finish().await
                    });
                });
            }
        }
    })
}

/// Reads to the end: who gave the state, and what it is.
fn read(reader: &mut StateReader) -> Result<(Option<Address>, Vec<u8>), StateError> {
    let mut state = Vec::new();
    while let Some(part) = block_on(reader.next())? {
        match part {
            StatePart::Begins(_) => state.clear(),
            StatePart::Bytes(b) => state.extend_from_slice(&b),
        }
    }
    Ok((reader.provider(), state))
}

fn expected(whose: u8, pieces: usize) -> Vec<u8> {
    (0..pieces).flat_map(|n| vec![whose ^ n as u8; PIECE]).collect()
}

fn a_state_comes_in_pieces(kind: Kind, protocol: &str) {
    let config = with(kind, protocol);
    let a = join(&config, "A");
    let ch = a.ch.clone();
    let served = serve(a, 7, 1000);
    let builder = Channel::builder(config).name("B");
    let joins = builder.connect_with_state_stream("test", LONG);
    let (b, mut events, mut reader) = block_on(joins).expect("joins");
    let (provider, state) = read(&mut reader).expect("a state");
    assert_eq!((provider, reader.bytes()), (Some(ch.address()), 10_000_000));
    assert!(state == expected(7, 1000), "{} bytes", state.len());
    drop(reader);
    assert!(matches!(next(&mut events, LONG), Some(Event::View(_))), "the view comes first");
    block_on(ch.send(Message::multicast("after"))).expect("sent");
    let text = loop {
        if let Event::Message(m) = next(&mut events, LONG).expect("it goes on") {
            break m.text().expect("text").to_owned();
        }
    };
    assert_eq!(text, "after");
    block_on(b.close()).expect("left");
    block_on(ch.close()).expect("left");
    served.join().expect("served");
}

#[test]
fn a_state_comes_in_parts_over_tcp() {
    a_state_comes_in_pieces(Kind::Tcp, "STATE");
}

#[test]
fn a_state_comes_in_parts_over_udp() {
    a_state_comes_in_pieces(Kind::Udp, "STATE");
}

#[test]
fn a_state_comes_over_a_connection_of_its_own() {
    a_state_comes_in_pieces(Kind::Tcp, "STATE_SOCK");
    a_state_comes_in_pieces(Kind::Udp, "STATE_SOCK");
}

#[test]
fn pieces_are_put_together_for_a_state_in_one_message() {
    a_state_comes_in_pieces(Kind::Tcp, "STATE_TRANSFER");
}

#[test]
fn a_state_at_once_is_the_same_with_every_protocol() {
    for protocol in ["STATE", "STATE_SOCK", "STATE_TRANSFER"] {
        let [mut a, b]: [Member; 2] =
            cluster(&with(Kind::Tcp, protocol), 2).try_into().expect("two");
        let large = Bytes::from(expected(3, 300));
        let given = large.clone();
        let provider = thread::spawn(move || {
            while let Some(ev) = next(&mut a.events, LONG) {
                if let Event::StateRequested(r) = ev {
                    block_on(r.send(given)).expect("sent");
                    break;
                }
            }
            a
        });
        let state = block_on(b.ch.fetch_state(None, LONG)).expect("a state").expect("of A");
        assert!(state.bytes() == &large, "{protocol}: {} bytes", state.bytes().len());
        let a = provider.join().expect("provided");
        assert_eq!(state.provider(), a.ch.address(), "{protocol}");
    }
}

#[test]
fn the_first_member_reads_nothing() {
    for protocol in ["STATE", "STATE_SOCK", "STATE_TRANSFER"] {
        let builder = Channel::builder(with(Kind::InProcess, protocol)).name("A");
        let joins = builder.connect_with_state_stream("test", LONG);
        let (_a, _events, mut reader) = block_on(joins).expect("joins");
        assert_eq!(read(&mut reader), Ok((None, Vec::new())), "{protocol}");
    }
}

/// The provider dies in the middle: the reader begins anew with the next one.
fn another_one_takes_over(protocol: &str) {
    let config = with(Kind::Tcp, protocol);
    let mut members = cluster(&config, 3);
    let (c, b, mut a) = (members.remove(2), members.remove(1), members.remove(0));
    let dying = a.ch.clone();
    let (begun, has_begun) = mpsc::channel();
    let half = thread::spawn(move || {
        while let Some(ev) = next(&mut a.events, LONG) {
            if let Event::StateRequested(r) = ev {
                let mut w = r.stream();
                block_on(write(&mut w, 1, 20)).expect("written");
                begun.send(()).expect("the test waits");
                // It is cut off without a word.
                std::mem::forget(w);
                return;
            }
        }
    });
    let second = b.ch.clone();
    let _served = serve(b, 2, 100);
    let mut reader = c.ch.fetch_state_stream(None, LONG).expect("asks");
    assert_eq!(block_on(reader.next()), Ok(Some(StatePart::Begins(dying.address()))));
    assert!(matches!(block_on(reader.next()), Ok(Some(StatePart::Bytes(_)))));
    has_begun.recv_timeout(LONG).expect("A has begun");
    dying.kill();
    half.join().expect("half");
    let (provider, state) = read(&mut reader).expect("a state");
    assert_eq!(provider, Some(second.address()));
    assert!(state == expected(2, 100), "{protocol}: {} bytes", state.len());
    assert!(reader.bytes_in_all() > reader.bytes());
}

#[test]
fn when_a_provider_dies_another_one_takes_over() {
    another_one_takes_over("STATE");
    another_one_takes_over("STATE_SOCK");
}

#[test]
fn a_writer_that_is_dropped_says_so_and_the_next_member_is_asked() {
    for protocol in ["STATE", "STATE_SOCK"] {
        let mut members = cluster(&with(Kind::Tcp, protocol), 2);
        let (b, mut a) = (members.remove(1), members.remove(0));
        let gives_up = thread::spawn(move || {
            while let Some(ev) = next(&mut a.events, LONG) {
                if let Event::StateRequested(r) = ev {
                    let mut w = r.stream();
                    block_on(write(&mut w, 1, 3)).expect("written");
                    drop(w);
                    break;
                }
            }
            a
        });
        let mut reader = b.ch.fetch_state_stream(None, LONG).expect("asks");
        let failed = read(&mut reader).expect_err("there is nobody else");
        assert_eq!(failed.code(), "RG0602");
        assert!(failed.to_string().contains("A: its application gave the state up"), "{failed}");
        gives_up.join().expect("it gave up");
    }
}

#[test]
fn a_writer_waits_for_a_slow_reader_and_hears_that_it_is_gone() {
    for protocol in ["STATE", "STATE_SOCK"] {
        let mut members = cluster(&with(Kind::Tcp, protocol), 2);
        let (b, mut a) = (members.remove(1), members.remove(0));
        let mut reader = b.ch.fetch_state_stream(None, LONG).expect("asks");
        let written = thread::spawn(move || {
            let r = loop {
                if let Some(Event::StateRequested(r)) = next(&mut a.events, LONG) {
                    break r;
                }
            };
            let mut w = r.stream();
            // Without a reader it stops after what is on the way.
            let failed = block_on(write(&mut w, 1, 100_000)).expect_err("nobody reads");
            (failed, w.bytes())
        });
        assert!(matches!(block_on(reader.next()), Ok(Some(StatePart::Begins(_)))));
        assert!(matches!(block_on(reader.next()), Ok(Some(StatePart::Bytes(_)))));
        drop(reader);
        let (failed, bytes) = written.join().expect("it ends");
        assert!(matches!(failed, StateError::NotWanted { .. }), "{failed}");
        assert!(bytes < 100_000_000, "{protocol}: {bytes} bytes for nobody");
    }
}

#[test]
fn a_closed_channel_ends_reading_and_writing() {
    for protocol in ["STATE", "STATE_SOCK"] {
        let mut members = cluster(&with(Kind::Tcp, protocol), 2);
        let (b, mut a) = (members.remove(1), members.remove(0));
        let mut reader = b.ch.fetch_state_stream(None, LONG).expect("asks");
        let closing = a.ch.clone();
        let written = thread::spawn(move || {
            let r = loop {
                if let Some(Event::StateRequested(r)) = next(&mut a.events, LONG) {
                    break r;
                }
            };
            let mut w = r.stream();
            block_on(write(&mut w, 1, 100_000)).expect_err("the channel closes")
        });
        assert!(matches!(block_on(reader.next()), Ok(Some(StatePart::Begins(_)))));
        let asking = b.ch.clone();
        let closes = thread::spawn(move || block_on(asking.close()));
        let ended = loop {
            match block_on(reader.next()) {
                Ok(Some(_)) => {}
                other => break other,
            }
        };
        assert_eq!(ended, Err(StateError::Closed), "{protocol}");
        closes.join().expect("no panic").expect("left");
        assert!(matches!(written.join().expect("it ends"), StateError::NotWanted { .. }));
        block_on(closing.close()).expect("left");
    }
}
