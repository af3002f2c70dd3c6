//! States in parts and over connections, from members of either kind to those of the other.

use crate::member::{contents, only};
use crate::peer::{PATIENCE, Peer};
use crate::world::World;
use rgroups::{Address, Config, Event, StatePart, StateReader, StateResponder, block_on, blocking};
use std::time::{Duration, Instant};

const SIZE: usize = 9_000_000;

/// Each protocol over each transport.
fn worlds(mut test: impl FnMut(World)) {
    for transport in ["udp", "tcp"] {
        for state in ["STATE", "STATE_SOCK"] {
            let Some(world) = World::new(transport) else { return };
            println!("{state} over {transport}");
            test(world.with_state(state));
        }
    }
}

/// A member of ours in this process that fetches the state when it joins.
fn joins(world: &World, name: &str) -> (blocking::Channel, blocking::Events, StateReader) {
    let config = Config::from_xml(&world.plan("")).expect("JGroups' file");
    let builder = rgroups::Channel::builder(config).name(name);
    blocking::connect_with_state_stream(builder, &world.cluster, PATIENCE).expect("joins")
}

fn read(reader: &mut StateReader) -> (Option<Address>, Vec<u8>) {
    let mut state = Vec::new();
    while let Some(part) = block_on(reader.next()).expect("a state") {
        match part {
            StatePart::Begins(_) => state.clear(),
            StatePart::Bytes(bytes) => state.extend_from_slice(&bytes),
        }
    }
    (reader.provider(), state)
}

fn holds(java: &Peer, size: usize) {
    assert_eq!(java.answers(&format!("state {size}")).len(), 1, "it has a state");
}

#[test]
fn a_java_member_gives_its_state_to_one_of_ours() {
    worlds(|world| {
        let java = world.java("J");
        java.hears("^joined");
        holds(&java, SIZE);
        java.told("mcast before");
        java.hears("^multicast J before");
        // It sends on while the state is on its way.
        java.told("steady 5 200");
        let (_channel, mut events, mut reader) = joins(&world, "R");
        let (_, state) = read(&mut reader);
        assert!(state == contents(0, SIZE, "J", "state"), "{} bytes", state.len());
        java.told("steady off");
        java.told("mcast after");
        let after = |ev: Event| match ev {
            Event::Message(m) => m.text() == Some("after"),
            _ => false,
        };
        assert!(events.any(after), "it goes on");
    });
}

fn given(events: blocking::Events, give: impl Fn(StateResponder) + Send + 'static) {
    std::thread::spawn(move || {
        for ev in events {
            if let Event::StateRequested(r) = ev {
                give(r);
            }
        }
    });
}

/// Gives the state piece by piece, pieces of all sizes.
fn give(r: StateResponder) {
    let state = contents(0, SIZE, "R", "state");
    let mut writer = r.stream();
    let (mut rest, mut size) = (&state[..], 1);
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(size.min(rest.len()));
        block_on(writer.write(piece.to_vec())).expect("it reads");
        (rest, size) = (more, size * 3 % 100_003);
    }
    block_on(writer.finish()).expect("all of it");
}

#[test]
fn a_member_of_ours_gives_its_state_to_a_java_member() {
    worlds(|world| {
        let (channel, events, mut reader) = joins(&world, "R");
        assert_eq!(read(&mut reader), (None, Vec::new()), "it is the first");
        given(events, give);
        let java = world.java("J");
        java.hears("^joined");
        java.told("fetch R");
        let expected = format!("^state {}$", only(&contents(0, SIZE, "R", "state")));
        java.has_heard(&expected, PATIENCE);
        java.hears("^done fetch R");
        let said = rgroups::Message::multicast("after");
        channel.send(said).expect("sent");
        java.hears("^multicast R after");
    });
}

#[test]
fn when_a_java_provider_is_killed_another_member_gives_its_state() {
    worlds(|world| {
        let first = world.java("J");
        first.hears("^joined");
        let second = world.java("K");
        second.hears("^view 1 J,K");
        holds(&first, SIZE);
        holds(&second, SIZE);
        let (_channel, _events, mut reader) = joins(&world, "R");
        let begun = block_on(reader.next()).expect("it begins");
        let Some(StatePart::Begins(from)) = begun else { panic!("{begun:?}") };
        assert!(matches!(block_on(reader.next()), Ok(Some(StatePart::Bytes(_)))));
        first.signal("-KILL");
        let killed = Instant::now();
        let (provider, state) = read(&mut reader);
        assert_ne!(provider, Some(from));
        assert!(state == contents(0, SIZE, "K", "state"), "{} bytes", state.len());
        assert!(killed.elapsed() < Duration::from_secs(30));
    });
}

#[test]
fn a_reader_of_ours_that_gives_up_leaves_a_java_provider_as_it_was() {
    worlds(|world| {
        let java = world.java("J");
        java.hears("^joined");
        holds(&java, SIZE);
        let (channel, _events, mut reader) = joins(&world, "R");
        assert!(matches!(block_on(reader.next()), Ok(Some(StatePart::Begins(_)))));
        drop(reader);
        let mut again = channel.fetch_state_stream(None, PATIENCE).expect("asks again");
        let (_, state) = read(&mut again);
        assert!(state == contents(0, SIZE, "J", "state"), "{} bytes", state.len());
    });
}
