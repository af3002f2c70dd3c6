//! Links that are cut and heal.

use crate::world::{NAMES, World, all_talk, view_of};
use std::time::{Duration, Instant};

crate::tests![
    two_halves_go_on_alone_and_merge_when_the_cable_is_back,
    a_host_whose_plug_is_pulled_comes_back,
    a_member_that_is_heard_but_does_not_get_through_is_let_go_and_comes_back,
    a_cut_that_is_shorter_than_the_timeout_changes_nothing,
];

const BOTH: [&str; 2] = ["udp", "tcp"];

fn two_halves_go_on_alone_and_merge_when_the_cable_is_back() {
    for transport in BOTH {
        let world = World::new(transport);
        let mut all = world.five(&[]);
        world.cable("down");
        let (here, there) = all.split_at_mut(3);
        here.iter_mut().for_each(|p| drop(view_of(p, &NAMES[..3])));
        there.iter_mut().for_each(|p| drop(view_of(p, &NAMES[3..])));
        all_talk(here, "here");
        all_talk(there, "there");
        world.cable("up");
        let healed = Instant::now();
        for p in &mut all {
            assert_eq!(view_of(p, &NAMES)["merge"], true);
        }
        println!("{transport}: one view {:?} after the cable was back", healed.elapsed());
        all_talk(&mut all, "together");
    }
}

fn a_host_whose_plug_is_pulled_comes_back() {
    for transport in BOTH {
        let world = World::new(transport);
        let mut all = world.five(&[]);
        // The coordinator's.
        world.plug(1, "down");
        all[1..].iter_mut().for_each(|p| drop(view_of(p, &NAMES[1..])));
        view_of(&mut all[0], &NAMES[..1]);
        world.plug(1, "up");
        all.iter_mut().for_each(|p| drop(view_of(p, &NAMES)));
        all_talk(&mut all, "back");
    }
}

/// What E sends to A goes nowhere; all other ways are open.
fn a_member_that_is_heard_but_does_not_get_through_is_let_go_and_comes_back() {
    let world = World::new("tcp");
    let mut all = world.five(&[]);
    world.blackhole("add", 5, 1);
    view_of(&mut all[0], &NAMES[..4]);
    all_talk(&mut all[..4], "without E");
    world.blackhole("del", 5, 1);
    all.iter_mut().for_each(|p| drop(view_of(p, &NAMES)));
    all_talk(&mut all, "with E");
}

fn a_cut_that_is_shorter_than_the_timeout_changes_nothing() {
    for transport in BOTH {
        let world = World::new(transport);
        let mut all = world.five(&[]);
        let before = world.sum(5, "CHANNEL.views");
        world.cable("down");
        // The length of the cut is what is tested.
        std::thread::sleep(Duration::from_secs(2));
        world.cable("up");
        all_talk(&mut all, "still here");
        assert_eq!(world.sum(5, "CHANNEL.views"), before, "{transport}: a view was installed");
    }
}
