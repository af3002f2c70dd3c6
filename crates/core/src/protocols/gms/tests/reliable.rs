//! The same over NAKACK2, UNICAST3 and STABLE, on a network that loses messages.

use super::churn::{expect_one_group, notice_for, split_at_random};
use super::*;
use crate::Rng;
use bytes::Bytes;

fn data(text: &str) -> wire::Message {
    wire::Message::multicast(wire::Body::bytes(Bytes::copy_from_slice(text.as_bytes())))
}

fn formed(n: u64) -> Cluster {
    Cluster::formed_over(Layers::Reliable, n, &GmsConfig::default())
}

fn texts(c: &mut Cluster, m: u64) -> Vec<Bytes> {
    c.at(m).delivered().into_iter().map(|(_, b)| b).collect()
}

#[test]
fn members_multicast_to_each_other_after_joining() {
    let mut c = formed(3);
    for m in 1..=3 {
        c.at(m).send(data(&std::format!("{m}")), None);
        c.settle();
    }
    for m in 1..=3 {
        assert_eq!(texts(&mut c, m), ["1", "2", "3"], "member {m}");
    }
}

#[test]
fn a_joiner_receives_what_is_sent_right_after_its_view() {
    let mut c = formed(2);
    for n in 0..5 {
        c.at(1).send(data(&std::format!("before {n}")), None);
    }
    c.settle();
    c.add(3, GmsConfig::default());
    c.at(1).send(data("from 1"), None);
    c.at(2).send(data("from 2"), None);
    c.settle();
    assert_eq!(texts(&mut c, 3), ["from 1", "from 2"]);
}

#[test]
fn joins_succeed_while_messages_are_lost() {
    for seed in 0..10 {
        let mut rng = Rng::new(seed);
        let mut c = formed(1);
        for m in 2..=5 {
            c.members.retain(|s| s.stack.local() != id(m));
            c.add(m, GmsConfig::default());
            c.run_losing(ms(1500), |_, _, _| rng.chance(0.2));
        }
        c.run(ms(20_000));
        expect_one_group(&mut c, &[1, 2, 3, 4, 5], seed);
    }
}

#[test]
fn halves_merge_and_understand_each_other_again() {
    for seed in 0..5 {
        let mut rng = Rng::new(seed);
        let mut c = formed(4);
        for m in 1..=4 {
            c.at(m).send(data("before"), None);
        }
        c.settle();
        split_at_random(&mut c, 4, &mut rng);
        notice_for(&mut c, 4);
        for m in 1..=4 {
            for n in 0..m {
                c.at(m).send(data(&std::format!("apart {n}")), None);
            }
        }
        c.run(ms(1000));
        c.cut.clear();
        notice_for(&mut c, 60);
        expect_one_group(&mut c, &[1, 2, 3, 4], seed);
        for m in 1..=4 {
            c.at(m).told();
        }
        for m in 1..=4 {
            c.at(m).send(data(&std::format!("{m}")), None);
            c.settle();
        }
        c.run(ms(3000));
        for m in 1..=4 {
            assert_eq!(texts(&mut c, m), ["1", "2", "3", "4"], "seed {seed}, member {m}");
        }
    }
}

#[test]
fn splits_crashes_and_losses_leave_one_group_that_talks() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let mut c = formed(5);
        for _ in 0..3 {
            split_at_random(&mut c, 5, &mut rng);
            notice_for(&mut c, 1 + rng.below(12));
            c.cut.clear();
            for _ in 0..rng.below(12) {
                super::churn::notice(&mut c);
                c.run_losing(ms(250), |_, _, _| rng.chance(0.1));
            }
        }
        c.kill(5);
        notice_for(&mut c, 200);
        expect_one_group(&mut c, &[1, 2, 3, 4], seed);
        for m in 1..=4 {
            c.at(m).told();
        }
        c.at(2).send(data("all"), None);
        c.run(ms(3000));
        for m in 1..=4 {
            assert_eq!(texts(&mut c, m), ["all"], "seed {seed}, member {m}");
        }
    }
}

#[test]
fn leavers_are_let_go_while_messages_are_lost() {
    for seed in 0..10 {
        let mut rng = Rng::new(seed);
        let mut c = formed(5);
        c.leave(1);
        c.leave(3);
        c.run_losing(ms(3000), |_, _, _| rng.chance(0.1));
        for m in [1, 3] {
            assert!(c.left(m).is_some(), "seed {seed}, member {m}");
            c.kill(m);
        }
        notice_for(&mut c, 60);
        expect_one_group(&mut c, &[2, 4, 5], seed);
    }
}
