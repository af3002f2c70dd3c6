//! A member of ours that gives no credit, in a group whose coordinator is a JGroups member: the
//! sender (`slow_member="exclude"`) asks the coordinator to go on without it, in words that JGroups
//! knows. JGroups verifies what it is told, so it excludes who stands still, and nobody else.

use crate::peer::Peer;
use crate::world::World;
use std::time::{Duration, Instant};

/// Failure detection must not be what excludes: JGroups' own files wait for 40 s.
const MERGING: [&str; 2] = ["MERGE3.min_interval=1000", "MERGE3.max_interval=3000"];
const EXCLUDING: [&str; 2] = ["MFC.slow_member=exclude", "MFC.slow_member_timeout=2s"];

/// More than the credit of 4 MB (UDP) or 2 MB (TCP).
const LOAD: &str = "mcastn 1000 8000";

/// A JGroups coordinator J, our sender R, and S.
fn three(world: &World) -> (Peer, Peer, Peer) {
    let j = world.stock_java("J", 0, &MERGING);
    j.hears("^joined");
    let r = world.stock_rust("R", 1, &[&MERGING[..], &EXCLUDING].concat());
    r.hears("^view 1 J,R");
    let s = world.stock_rust("S", 2, &MERGING);
    r.hears("^view 2 J,R,S");
    s.hears("^view 2 J,R,S");
    (j, r, s)
}

fn asked(r: &Peer) -> u64 {
    let answer = r.answers("counter exclusions_asked");
    let count = answer.iter().find_map(|l| l.strip_prefix("counter "));
    count.expect("it is counted").parse().expect("a number")
}

#[test]
fn a_java_coordinator_excludes_a_member_of_ours_that_stands_still() {
    for transport in ["udp", "tcp"] {
        let Some(world) = World::new(transport) else { return };
        let (j, r, s) = three(&world);
        s.signal("-STOP");
        let began = Instant::now();
        r.told(LOAD);
        j.hears("^view 3 J,R");
        r.hears("^view 3 J,R");
        r.hears(&format!("^done {LOAD}"));
        let took = began.elapsed();
        assert!(
            took < Duration::from_secs(30),
            "{transport}: {took:?}, as failure detection takes"
        );
        assert!(asked(&r) > 0);
        println!("{transport}: excluded, and everything sent, within {took:?}");
        s.signal("-CONT");
        r.hears("^merge ");
        s.hears("^merge ");
    }
}

#[test]
fn a_java_coordinator_keeps_a_member_of_ours_that_only_takes_nothing() {
    for transport in ["udp", "tcp"] {
        let Some(world) = World::new(transport) else { return };
        let (_j, r, s) = three(&world);
        s.answers("pause");
        r.told(LOAD);
        // It asks again and again; the answer of S to the coordinator's question counts.
        assert!(!r.prints("^view 3", Duration::from_secs(12)), "S answered that it lives");
        s.told("resume");
        r.hears(&format!("^done {LOAD}"));
        assert!(asked(&r) > 0, "{transport}: the coordinator was asked");
        assert!(!r.prints("^view 3", Duration::from_secs(3)));
    }
}
