//! The rules of TCP connections, over a network with delays.

use super::pipe::{Net, transport};
use super::{Port, RawEvent};
use crate::{DropReason, Trace};
use alloc::vec::Vec;
use core::time::Duration;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn net(n: usize, seed: u64) -> Net {
    Net::new(n, seed, Vec::new)
}

fn happened(net: &Net, i: usize, what: &str) -> usize {
    let is = |t: &Trace| matches!(t, Trace::Link { what: w, .. } if *w == what);
    net.traces.iter().filter(|(who, _, t)| *who == i && is(t)).count()
}

#[test]
fn the_first_message_makes_the_connection_and_the_answer_uses_it() {
    let mut n = net(2, 1);
    n.multicast(0, b"hello");
    n.run(ms(50));
    n.multicast(1, b"hi");
    n.run(ms(50));
    assert_eq!((n.payloads(1), n.payloads(0)), ([&b"hello"[..]].into(), [&b"hi"[..]].into()));
    assert_eq!(n.streams_between(Port::Transport, 0, 1), 1);
}

#[test]
fn simultaneous_connects_leave_one_connection_and_lose_nothing() {
    for seed in 0..1000 {
        let mut n = net(2, seed);
        let apart = Duration::from_micros(seed * 37 % 6_000);
        n.multicast(0, b"a1");
        n.run(apart);
        n.multicast(1, b"b1");
        n.run(ms(1) + apart);
        n.multicast(0, b"a2");
        n.multicast(1, b"b2");
        n.run(ms(3_000));
        assert_eq!(n.streams_between(Port::Transport, 0, 1), 1, "seed {seed}");
        assert_eq!((n.ends_of(0), n.ends_of(1)), (1, 1), "seed {seed}");
        for (i, expected) in [(0, [b"b1", b"b2"]), (1, [b"a1", b"a2"])] {
            for e in expected {
                assert!(n.payloads(i).contains(&&e[..]), "seed {seed}: {i} misses {e:?}");
            }
        }
        n.delivered.clear();
        n.multicast(0, b"after");
        n.multicast(1, b"after");
        n.run(ms(20));
        assert_eq!((n.payloads(0).len(), n.payloads(1).len()), (1, 1), "seed {seed}");
    }
}

#[test]
fn simultaneous_connects_survive_delays_near_every_wait() {
    for seed in 0..300 {
        let mut n = net(2, seed);
        n.delay = (ms(1), ms(400));
        n.multicast(0, b"a");
        n.multicast(1, b"b");
        n.run(ms(8_000));
        n.delivered.clear();
        n.multicast(0, b"after");
        n.multicast(1, b"after");
        n.run(ms(4_000));
        assert_eq!(n.streams_between(Port::Transport, 0, 1), 1, "seed {seed}");
        assert!(!n.payloads(0).is_empty() && !n.payloads(1).is_empty(), "seed {seed}");
    }
}

#[test]
fn a_member_restarted_on_its_address_is_reachable_though_the_old_connection_is_half_open() {
    for (survivor, restarted) in [(0, 1), (1, 0)] {
        for first_to_send in [survivor, restarted] {
            let mut n = net(2, 5);
            n.multicast(survivor, b"x");
            n.run(ms(3_000));
            n.kill(restarted, true);
            n.start(restarted);
            n.multicast(first_to_send, b"probe");
            n.run(ms(100));
            n.multicast(restarted, b"new");
            n.run(ms(700));
            n.delivered.clear();
            n.multicast(survivor, b"to the new one");
            n.multicast(restarted, b"from the new one");
            n.run(ms(100));
            assert_eq!(n.payloads(restarted), [&b"to the new one"[..]]);
            assert_eq!(n.payloads(survivor), [&b"from the new one"[..]]);
            assert_eq!((n.ends_of(0), n.ends_of(1)), (1, 1));
        }
    }
}

#[test]
fn a_silent_restart_behind_a_filter_that_swallows_resets_is_noticed_by_the_new_connection() {
    // The survivor has the higher address, so the rule of addresses speaks for its dead connection.
    let mut n = net(2, 5);
    n.multicast(1, b"x");
    n.run(ms(3_000));
    n.kill(0, true);
    n.start(0);
    n.multicast(0, b"new");
    n.run(ms(600));
    n.delivered.clear();
    n.multicast(1, b"answer");
    n.run(ms(20));
    assert_eq!(n.payloads(0), [b"answer"]);
}

#[test]
fn garbage_closes_its_own_connection_only() {
    let mut n = net(2, 3);
    n.multicast(0, b"one");
    n.run(ms(20));
    let web = n.stranger_connects(transport(1), Port::Transport);
    n.run(ms(5));
    n.stranger_writes(web, b"GET / HTTP/1.1\r\n\r\n");
    n.run(ms(20));
    assert!(n.heard.iter().any(|(_, ev)| matches!(ev, RawEvent::Closed { .. })));
    let node = n.nodes[1].as_ref().expect("it runs");
    assert_eq!(node.stack().dropped(DropReason::Undecodable), 1);
    n.multicast(0, b"two");
    n.run(ms(20));
    assert_eq!(n.payloads(1), [b"one", b"two"]);
    assert_eq!(happened(&n, 0, "connected"), 1);
}

#[test]
fn a_frame_of_absurd_length_closes_the_connection_without_allocation() {
    let mut n = net(2, 3);
    let s = n.stranger_connects(transport(1), Port::Transport);
    n.run(ms(5));
    n.stranger_writes(s, b"bela\x29\x46\x00\x07\x04\x7f\x00\x00\x01\x1e\xff\x7f\xff\xff\xff");
    n.run(ms(20));
    assert!(n.heard.iter().any(|(_, ev)| matches!(ev, RawEvent::Closed { .. })));
}

#[test]
fn an_undecodable_packet_spoils_itself_only() {
    let mut n = net(2, 3);
    let s = n.stranger_connects(transport(1), Port::Transport);
    n.run(ms(5));
    n.stranger_writes(
        s,
        b"bela\x29\x46\x00\x07\x04\x7f\x00\x00\x01\x1e\xff\x00\x00\x00\x02\x29\x46",
    );
    n.run(ms(20));
    assert!(!n.heard.iter().any(|(_, ev)| matches!(ev, RawEvent::Closed { .. })));
    let node = n.nodes[1].as_ref().expect("it runs");
    assert_eq!(node.stack().dropped(DropReason::Undecodable), 1);
}

#[test]
fn who_does_not_say_who_it_is_within_a_second_is_closed() {
    let mut n = net(1, 3);
    let s = n.stranger_connects(transport(0), Port::Transport);
    n.run(ms(5));
    n.stranger_writes(s, b"bela\x29");
    n.run(ms(900));
    assert!(!n.heard.iter().any(|(_, ev)| matches!(ev, RawEvent::Closed { .. })));
    n.run(ms(120));
    assert!(n.heard.iter().any(|(_, ev)| matches!(ev, RawEvent::Closed { .. })));
}

#[test]
fn nothing_is_queued_for_an_unreachable_peer_and_attempts_are_spaced() {
    let mut n = net(2, 3);
    n.kill(1, false);
    for _ in 0..100 {
        n.multicast(0, b"anybody?");
        n.run(ms(20));
    }
    let refused = happened(&n, 0, "refused");
    assert!((3..=7).contains(&refused), "{refused} attempts in two seconds");
    n.start(1);
    n.run(ms(1_000));
    n.multicast(0, b"there you are");
    n.run(ms(20));
    assert_eq!(n.payloads(1), [b"there you are"]);
}

#[test]
fn a_connection_that_is_not_made_in_time_is_given_up() {
    let mut n = net(2, 3);
    n.filtered.push(transport(1));
    n.multicast(0, b"anybody?");
    n.run(ms(1_990));
    assert_eq!(happened(&n, 0, "unreachable"), 0);
    n.run(ms(20));
    assert_eq!(happened(&n, 0, "unreachable"), 1);
    assert_eq!(n.ends_of(0), 0);
}

#[test]
fn a_peer_that_connects_while_our_attempt_hangs_is_used() {
    // Member 1 has the higher address; packets that open connections to 0 vanish.
    let mut n = net(2, 3);
    n.filtered.push(transport(0));
    n.multicast(1, b"held up");
    n.run(ms(100));
    n.multicast(0, b"this way");
    n.run(ms(600));
    assert_eq!(n.payloads(1), [b"this way"]);
    assert_eq!(n.payloads(0), [b"held up"]);
}

#[test]
fn leaving_announces_the_close_and_nothing_is_made_afterwards() {
    let mut n = net(2, 3);
    n.multicast(0, b"x");
    n.run(ms(20));
    n.leave(0);
    n.run(ms(20));
    assert!(n.nodes[0].as_ref().expect("it is there").is_finished());
    assert_eq!(happened(&n, 1, "closed by the peer"), 1);
    n.multicast(0, b"too late");
    n.run(ms(100));
    assert_eq!(n.payloads(1), [b"x"]);
    assert_eq!((n.ends_of(0), n.ends_of(1)), (0, 0));
}

#[test]
fn an_idle_mesh_has_no_timers() {
    let mut n = net(3, 3);
    n.multicast(0, b"x");
    n.multicast(1, b"x");
    n.run(ms(5_000));
    n.leave(2);
    n.run(ms(5_000));
    assert_eq!(n.nodes.iter().flatten().filter_map(super::Node::poll_deadline).min(), None);
}

#[test]
fn a_view_closes_connections_with_non_members_unless_they_are_young() {
    let mut n = net(3, 3);
    n.multicast(0, b"x");
    n.run(ms(100));
    n.install(1, &[0, 1]);
    n.run(ms(20));
    assert_eq!(n.ends_of(0), 2, "the third may be about to join");
    n.run(ms(2_000));
    n.install(2, &[0, 1]);
    n.run(ms(20));
    assert_eq!((n.streams_between(Port::Transport, 0, 1), n.ends_of(2)), (1, 0));
    assert_eq!(happened(&n, 2, "closed by the peer"), 1);
}

#[test]
fn a_frozen_peer_costs_a_bounded_queue_and_delays_nobody() {
    let mut n = net(3, 3);
    n.multicast(0, b"x");
    n.run(ms(20));
    n.frozen[2] = true;
    for _ in 0..10 {
        n.multicast(0, b"y");
    }
    n.run(ms(20));
    assert_eq!(n.payloads(1).len(), 11);
    n.thaw(2);
    n.run(ms(20));
    assert_eq!(n.payloads(2).len(), 11);
}

#[test]
fn crashes_and_restarts_in_any_order_end_in_one_usable_connection_per_pair() {
    for seed in 0..200 {
        let mut n = net(3, seed);
        let mut dice = crate::Rng::new(seed);
        for _ in 0..12 {
            let i = dice.below(3) as usize;
            match dice.below(4) {
                0 => {
                    n.kill(i, dice.chance(0.5));
                    n.start(i);
                }
                1 => n.leave(i),
                _ => {}
            }
            if n.nodes[i].as_ref().is_none_or(super::Node::is_finished) {
                n.run(Duration::from_micros(dice.below(3_000)));
                n.kill(i, false);
                n.start(i);
            }
            n.multicast(dice.below(3) as usize, b"noise");
            n.run(Duration::from_micros(dice.below(4_000)));
        }
        for _ in 0..4 {
            (0..3).for_each(|i| n.multicast(i, b"settling"));
            n.run(ms(1_000));
        }
        n.delivered.clear();
        (0..3).for_each(|i| n.multicast(i, b"after"));
        n.run(ms(50));
        for i in 0..3 {
            assert_eq!(n.payloads(i), [b"after", b"after"], "seed {seed}, member {i}");
            assert_eq!(n.ends_of(i), 2, "seed {seed}, member {i}");
        }
    }
}
