//! Which part of a split group goes on, as applications see it.

mod common;

use common::{Kind, Member, PATIENCE, config, join, next};
use rgroups::{Config, Event, Message, Primacy, SendError, TrySendError, block_on};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

fn with_primary(minority: &str) -> Config {
    config(Kind::Tcp)
        .insert_above("GMS", "PRIMARY")
        .and_then(|c| c.set("PRIMARY", "quorum", "2"))
        .and_then(|c| c.set("PRIMARY", "minority", minority))
        .and_then(|c| c.set("PRIMARY", "lease", "1s"))
        .and_then(|c| c.set("FD_ALL3", "interval", "500ms"))
        .and_then(|c| c.set("FD_ALL3", "timeout", "4s"))
        .and_then(|c| c.set("MERGE3", "min_interval", "1s"))
        .and_then(|c| c.set("MERGE3", "max_interval", "2s"))
        .expect("valid")
}

/// Waits until `m` says this of its view.
fn await_primacy(m: &mut Member, wanted: Primacy) {
    let end = Instant::now() + PATIENCE * 2;
    while m.ch.primacy() != Some(wanted) {
        let _ = next(&mut m.events, Duration::from_millis(50));
        assert!(Instant::now() < end, "{}: {:?}, not {wanted}", m.ch.name(), m.ch.primacy());
    }
}

fn addresses(members: &[Member]) -> Vec<SocketAddr> {
    let physical = block_on(members[0].ch.inspect()).expect("it is open").physical;
    let of = |m: &Member| physical.iter().find(|(a, _)| *a == m.ch.address()).map(|(_, at)| *at);
    members.iter().filter_map(of).collect()
}

/// Cuts the last member off.
fn cut(members: &[Member]) {
    let at = addresses(members);
    let last = members.len() - 1;
    members[..last].iter().for_each(|m| m.ch.admin().block([at[last]]));
    members[last].ch.admin().block(at[..last].iter().copied());
}

#[test]
fn a_minority_refuses_to_send_until_the_group_is_one_again() {
    let config = with_primary("refuse");
    let mut all: Vec<Member> = ["A", "B", "C"].map(|n| join(&config, n)).into();
    all.iter_mut().for_each(|m| await_primacy(m, Primacy::Yes));
    block_on(all[2].ch.send(Message::multicast("together"))).expect("it is primary");

    cut(&all);
    await_primacy(&mut all[2], Primacy::Unknown);
    let refused = all[2].ch.try_send(Message::multicast("perhaps"));
    assert!(matches!(refused, Err(TrySendError::NoCredits { .. })), "{refused:?}");
    // A send waits until it is known, and is refused then.
    let ch = all[2].ch.clone();
    let waits = std::thread::spawn(move || block_on(ch.send(Message::multicast("alone"))));
    await_primacy(&mut all[2], Primacy::No);
    let refused = waits.join().expect("it returns");
    assert!(matches!(refused, Err(SendError::NotPrimary)), "{refused:?}");
    let refused = all[2].ch.try_send(Message::multicast("alone"));
    assert!(matches!(refused, Err(TrySendError::Other(SendError::NotPrimary))), "{refused:?}");
    await_primacy(&mut all[0], Primacy::Yes);
    block_on(all[0].ch.send(Message::multicast("most of us"))).expect("it is primary");

    all.iter().for_each(|m| m.ch.admin().heal());
    await_primacy(&mut all[2], Primacy::Yes);
    block_on(all[2].ch.send(Message::multicast("again"))).expect("it is primary");
}

#[test]
fn a_minority_that_is_to_leave_leaves() {
    let config = with_primary("leave");
    let mut all: Vec<Member> = ["A", "B", "C"].map(|n| join(&config, n)).into();
    all.iter_mut().for_each(|m| await_primacy(m, Primacy::Yes));
    cut(&all);
    let (mut outside, end) = (false, Instant::now() + PATIENCE * 2);
    // What it said is read although it has left since.
    loop {
        let open = all[2].ch.is_open();
        match next(&mut all[2].events, Duration::from_millis(50)) {
            Some(Event::Primary { primacy: Primacy::No, .. }) => outside = true,
            Some(_) => {}
            None if !open => break,
            None => {}
        }
        assert!(Instant::now() < end, "it leaves");
    }
    assert!(outside, "it said so before");
    await_primacy(&mut all[0], Primacy::Yes);
}

#[test]
fn a_member_that_must_join_founds_no_group() {
    let config = config(Kind::Tcp).set("GMS", "must_join_timeout", "1s").expect("valid");
    let connect = rgroups::Channel::builder(config).name("A").connect("test");
    let error = block_on(connect).expect_err("there is no group");
    assert!(error.to_string().contains("must_join_timeout"), "{error}");
}

#[test]
fn without_a_quorum_the_configuration_says_what_is_missing() {
    let config = config(Kind::Tcp).insert_above("GMS", "PRIMARY").expect("it fits there");
    let error = config.check().expect_err("nobody can guess it");
    assert!(error.to_string().contains("PRIMARY.quorum"), "{error}");
}
