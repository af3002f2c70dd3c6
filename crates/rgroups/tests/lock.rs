//! Locks and semaphores over sockets and in memory.

mod common;

use common::{Kind, Member, cluster, config};
use rgroups::{Diagnose, LockError, LockLoss, block_on};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

fn locking(kind: Kind) -> rgroups::Config {
    config(kind).on_top("LOCK").expect("it fits there")
}

/// Everybody takes the lock many times; nobody meets another one, and tokens grow.
fn take_turns(members: &[Member], times: usize) {
    let (inside, last) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for m in members {
            let (inside, last) = (&inside, &last);
            scope.spawn(move || {
                let lock = m.ch.lock("l");
                for _ in 0..times {
                    let guard = block_on(lock.lock()).expect("it is had");
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                    assert!(last.swap(guard.token(), Ordering::SeqCst) < guard.token());
                    inside.fetch_sub(1, Ordering::SeqCst);
                    block_on(guard.unlock()).expect("it is given back");
                }
            });
        }
    });
}

#[test]
fn members_take_turns_over_udp() {
    take_turns(&cluster(&locking(Kind::Udp), 3), 100);
}

#[test]
fn members_take_turns_over_tcp() {
    take_turns(&cluster(&locking(Kind::Tcp), 3), 100);
}

#[test]
fn what_is_dropped_is_given_back() {
    let members = cluster(&locking(Kind::InProcess), 2);
    let (a, b) = (members[0].ch.lock("l"), members[1].ch.lock("l"));
    block_on(async {
        let guard = a.lock().await.expect("it is had");
        assert_eq!(b.try_lock(Duration::ZERO).await.err(), Some(LockError::Taken));
        let short = Duration::from_millis(50);
        assert_eq!(b.try_lock(short).await.err(), Some(LockError::Timeout));
        // Somebody who waits and gives up.
        {
            let mut gives_up = pin!(b.lock());
            let waits = poll_fn(|cx| Poll::Ready(gives_up.as_mut().poll(cx).is_pending())).await;
            assert!(waits);
        }
        drop(guard);
        let guard = b.lock().await.expect("it is had");
        assert_eq!(guard.unlock().await, Ok(()));
    });
}

#[test]
fn the_lock_of_a_member_that_is_killed_goes_to_the_next() {
    let members = cluster(&locking(Kind::Tcp), 3);
    let first = block_on(members[0].ch.lock("l").lock()).expect("it is had");
    let before = first.token();
    members[0].ch.kill();
    let next = block_on(members[2].ch.lock("l").lock()).expect("it is had");
    assert!(next.token() > before);
    assert_eq!(block_on(first.lost()), LockLoss::Closed);
}

#[test]
fn a_semaphore_has_so_many_permits() {
    let members = cluster(&locking(Kind::InProcess), 2);
    let of = |i: usize, permits| members[i].ch.semaphore("s", permits);
    block_on(async {
        let _one = of(0, 2).acquire().await.expect("it is had");
        let two = of(1, 2).acquire().await.expect("it is had");
        let three = of(0, 2).try_acquire(Duration::ZERO).await;
        assert_eq!(three.err(), Some(LockError::Taken));
        let other = of(0, 3).acquire().await;
        assert_eq!(other.err(), Some(LockError::OtherPermits { permits: 2 }));
        assert_eq!(two.unlock().await, Ok(()));
        assert!(of(0, 2).acquire().await.is_ok());
    });
}

#[test]
fn errors_say_what_is_wrong() {
    let members = cluster(&config(Kind::InProcess), 1);
    let e = block_on(members[0].ch.lock("l").lock()).expect_err("there is no LOCK");
    assert_eq!((e.clone(), e.code()), (LockError::NotInStack, "RG0911"));
    assert!(e.hint().is_some_and(|h| h.contains("on_top")));
    let ch = members[0].ch.clone();
    let lock = ch.lock("l");
    block_on(ch.close()).expect("it leaves");
    assert_eq!(block_on(lock.lock()).err(), Some(LockError::Closed));
}
