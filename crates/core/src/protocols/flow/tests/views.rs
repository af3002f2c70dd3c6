//! What views do to accounts and lines.

use super::*;

#[test]
fn a_view_without_the_debtor_lets_the_multicast_go() {
    let mut c = cluster(3, 100_000, 0.1);
    c.consuming[2] = false;
    c.cast(0, 100_000, 1);
    let waiting = c.cast(0, 50_000, 2);
    c.step();
    assert_eq!(c.result(0, waiting), None);
    c.install(&[0, 1]);
    c.step();
    assert!(c.sent(0, waiting));
}

#[test]
fn a_unicast_to_a_member_that_left_is_refused() {
    let mut c = cluster(3, 100_000, 0.1);
    c.consuming[2] = false;
    c.unicast(0, 2, 100_000, 1);
    let waiting = c.unicast(0, 2, 50_000, 2);
    c.step();
    c.install(&[0, 1]);
    c.step();
    assert_eq!(c.refusal(0, waiting), Some(&SendRefusal::NotMember(c.id(2))));
}

#[test]
fn a_member_that_returns_begins_with_full_credit_on_both_ends() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    c.unicast(0, 1, 100_000, 1);
    c.step();
    for i in [0, 1] {
        c.install(&[i]);
    }
    c.install(&[0, 1]);
    assert_eq!(c.account(0, Pool::Unicast, 1).balance, 100_000);
    assert_eq!(c.account(1, Pool::Unicast, 0).unconsumed, 0);
    // Receipts of the earlier account return nothing to the new one.
    c.resume(1);
    c.step();
    assert_eq!(c.account(1, Pool::Unicast, 0).ungranted, 0);
    assert_eq!(c.account(0, Pool::Unicast, 1).balance, 100_000);
}

#[test]
fn merging_begins_accounts_anew_unless_the_pair_was_together() {
    let mut c = cluster(3, 100_000, 0.1);
    for to in [1, 2] {
        c.consuming[to] = false;
        c.unicast(0, to, 60_000, 1);
    }
    c.step();
    let ids: Vec<Uuid> = (0..3).map(|i| c.id(i)).collect();
    let part = |members: &[Uuid]| View::new(5, members[0], members.to_vec());
    let mut merged = View::new(6, ids[0], ids.clone());
    merged.subgroups = [part(&ids[..2]), part(&ids[2..])].into();
    c.members[0].install(alloc::sync::Arc::new(merged));
    assert_eq!(c.account(0, Pool::Unicast, 1).balance, 40_000);
    assert_eq!(c.account(0, Pool::Unicast, 2).balance, 100_000);
}
