//! Random splits, crashes and leaves, after which everybody must agree again.

use super::*;
use crate::Rng;

/// Suspects everybody that is not in reach, as failure detection would in the end.
pub(super) fn notice(c: &mut Cluster) {
    let all: Vec<Uuid> = c.members.iter().map(|s| s.stack.local()).collect();
    let alive: Vec<Uuid> = all.into_iter().filter(|m| !c.dead.contains(m)).collect();
    for m in alive.iter().map(|m| m.lsb) {
        let seen = c.seen_by(m);
        let gone: Vec<u64> = seen
            .iter()
            .copied()
            .filter(|o| c.dead.contains(&id(*o)) || c.cut.contains(&(id(m), id(*o))))
            .collect();
        let first = seen.iter().find(|o| !gone.contains(o));
        if !gone.is_empty() && first == Some(&m) {
            c.suspect(m, &gone);
        }
    }
}

pub(super) fn split_at_random(c: &mut Cluster, n: u64, rng: &mut Rng) {
    c.cut.clear();
    let side: Vec<u64> = (0..n).map(|_| rng.below(3)).collect();
    for a in 1..=n {
        for b in 1..=n {
            if side[a as usize - 1] != side[b as usize - 1] {
                c.cut.insert((id(a), id(b)));
            }
        }
    }
}

pub(super) fn notice_for(c: &mut Cluster, rounds: u64) {
    for _ in 0..rounds {
        notice(c);
        c.run(ms(250));
    }
}

pub(super) fn expect_one_group(c: &mut Cluster, members: &[u64], seed: u64) {
    let v = c.view(members[0]);
    let mut sorted: Vec<u64> = v.members.iter().map(|m| m.lsb).collect();
    sorted.sort_unstable();
    assert_eq!(sorted, members, "seed {seed}");
    for m in members {
        assert_eq!(c.view(*m), v, "seed {seed}, member {m}");
    }
}

#[test]
fn any_sequence_of_splits_heals() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let mut c = Cluster::formed(6);
        for _ in 0..4 {
            split_at_random(&mut c, 6, &mut rng);
            notice_for(&mut c, 1 + rng.below(20));
        }
        c.cut.clear();
        notice_for(&mut c, 200);
        expect_one_group(&mut c, &[1, 2, 3, 4, 5, 6], seed);
    }
}

#[test]
fn crashes_during_splits_and_merges_leave_one_group_of_the_survivors() {
    for seed in 100..106 {
        let mut rng = Rng::new(seed);
        let mut c = Cluster::formed(6);
        let mut alive: Vec<u64> = (1..=6).collect();
        for _ in 0..3 {
            split_at_random(&mut c, 6, &mut rng);
            notice_for(&mut c, 1 + rng.below(20));
            c.cut.clear();
            notice_for(&mut c, rng.below(20));
            if alive.len() > 3 {
                let victim = alive.remove(rng.below(alive.len() as u64) as usize);
                c.kill(victim);
            }
        }
        notice_for(&mut c, 240);
        expect_one_group(&mut c, &alive, seed);
    }
}

#[test]
fn lost_membership_messages_do_not_keep_members_apart() {
    for seed in 200..206 {
        let mut rng = Rng::new(seed);
        let mut c = Cluster::formed(5);
        split_at_random(&mut c, 5, &mut rng);
        notice_for(&mut c, 10);
        c.cut.clear();
        for _ in 0..80 {
            notice(&mut c);
            c.run_losing(ms(250), |_, _, _| rng.chance(0.1));
        }
        notice_for(&mut c, 200);
        expect_one_group(&mut c, &[1, 2, 3, 4, 5], seed);
    }
}
