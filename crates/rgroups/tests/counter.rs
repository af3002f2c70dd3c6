//! Counters over sockets and in memory.

mod common;

use common::{Kind, Member, cluster, config};
use rgroups::{CounterError, Diagnose, block_on};
use std::thread;
use std::time::Duration;

fn counting(kind: Kind) -> rgroups::Config {
    config(kind).on_top("COUNTER").expect("it fits there")
}

fn count_together(members: &[Member], times: i64) {
    thread::scope(|scope| {
        for m in members {
            scope.spawn(move || {
                let c = m.ch.counter("sum");
                for _ in 0..times {
                    block_on(c.increment()).expect("it is done");
                }
            });
        }
    });
    for m in members {
        assert_eq!(block_on(m.ch.counter("sum").get()), Ok(times * members.len() as i64));
    }
}

#[test]
fn members_count_together_over_udp() {
    count_together(&cluster(&counting(Kind::Udp), 3), 200);
}

#[test]
fn members_count_together_over_tcp() {
    count_together(&cluster(&counting(Kind::Tcp), 3), 200);
}

#[test]
fn what_was_counted_outlives_the_coordinator() {
    let members = cluster(&counting(Kind::InProcess), 3);
    for m in &members {
        block_on(m.ch.counter("sum").add_and_get(5)).expect("it is done");
    }
    members[0].ch.kill();
    let c = members[2].ch.counter("sum").timeout(Duration::from_secs(50));
    assert_eq!(block_on(c.increment()), Ok(16));
}

#[test]
fn a_counter_can_be_set_swapped_and_deleted() {
    let members = cluster(&counting(Kind::InProcess), 2);
    let c = members[1].ch.counter("c").initially(7);
    block_on(async {
        assert_eq!(c.get().await, Ok(7));
        assert_eq!(c.set(3).await, Ok(()));
        assert_eq!(c.compare_and_set(4, 9).await, Ok(false));
        assert_eq!(c.compare_and_swap(3, 9).await, Ok(3));
        assert_eq!(c.decrement().await, Ok(8));
        assert_eq!(c.delete().await, Ok(()));
        assert_eq!(c.get().await, Ok(7));
    });
}

#[test]
fn errors_say_what_is_wrong() {
    let members = cluster(&config(Kind::InProcess), 1);
    let e = block_on(members[0].ch.counter("c").get()).expect_err("there is no COUNTER");
    assert_eq!((e.clone(), e.code()), (CounterError::NotInStack, "RG0901"));
    assert!(e.hint().is_some_and(|h| h.contains("on_top")));
    let ch = members[0].ch.clone();
    let c = ch.counter("c");
    block_on(ch.close()).expect("it leaves");
    assert_eq!(block_on(c.get()), Err(CounterError::Closed));
}
