//! The digest of a state names its members: it stays true while members come and go.

use super::*;
use rgroups::core::wire::header::{StateTransferHeader, StateTransferKind};
use rgroups_sim::history::MessageId;

crate::tests![
    the_digest_of_a_state_survives_a_join => "S2-5";
    the_digest_of_a_state_survives_a_leave => "S2-6";
    a_state_comes_with_the_names_of_its_members => "S2-12";
];

fn header(m: &Message) -> Option<&StateTransferHeader> {
    match m.headers.get(ProtId::STATE_TRANSFER) {
        Some(Header::StateTransfer(h)) => Some(h),
        _ => None,
    }
}

/// All of a group send a little.
fn traffic(c: &mut Cluster, names: &[&str]) {
    for _ in 0..20 {
        for n in names {
            cast(c, n, 1, 300);
        }
        c.run_for(Duration::from_millis(20));
    }
}

fn contents(c: &Cluster, name: &str) -> Vec<MessageId> {
    let mut all = c.contents(name).expect("it runs").to_vec();
    all.sort_unstable();
    all
}

/// C asks A for its state; the answer takes three seconds, in which `meanwhile` happens.
fn state_while(meanwhile: impl FnOnce(&mut Cluster), after: &[&str]) -> Cluster {
    let mut c = group(reporting_after(50_000), &["A", "B", "C"]);
    traffic(&mut c, &["A", "B", "C"]);
    c.start_census_keeping(&["STATE_TRANSFER"]);
    rule(&mut c, Some("A"), ("STATE_TRANSFER", "*"), Action::Delay(3 * SECOND));
    c.fetch_state("C", Some("A"), 60 * SECOND);
    traffic(&mut c, &["A", "B", "C"]);
    meanwhile(&mut c);
    assert!(c.run_until(60 * SECOND, |c| is_whole(c, after)), "the view changes");
    let answered = |c: &Cluster| gauge(c, "C", "states_received") > 0;
    assert!(!answered(&c), "the view changed while the state was on its way");
    traffic(&mut c, after);
    assert!(c.run_until(60 * SECOND, answered));
    c.clear_rules();
    traffic(&mut c, after);
    c.run_for(5 * SECOND);
    c
}

/// C knows what A knows, each message once, and both are at the same numbers.
fn agree(c: &Cluster, members: &[&str]) {
    let (a, of_c) = (contents(c, "A"), contents(c, "C"));
    assert!(!a.is_empty() && a.windows(2).all(|w| w[0] != w[1]));
    assert_eq!(of_c, a, "the state and what came behind it, no more and no less");
    for of in members {
        assert_eq!(marks(c, "C", of), marks(c, "A", of), "{of}");
    }
}

fn the_digest_of_a_state_survives_a_join() {
    let members = ["A", "B", "C", "D"];
    let c = state_while(|c| c.start("D"), &members);
    agree(&c, &members);
}

fn the_digest_of_a_state_survives_a_leave() {
    let c = state_while(|c| c.leave("B"), &["A", "C"]);
    agree(&c, &["A", "C"]);
    let left = c.history().lives.iter().find(|l| l.name == "B").expect("it was there").id;
    match c.node("C").expect("it runs").stack().ask(&Query::DigestOf(left)) {
        Some(Answer::Digest(d)) => assert_eq!(d.get(left), None, "nothing of B is left"),
        _ => panic!("no digest"),
    }
}

fn a_state_comes_with_the_names_of_its_members() {
    let c = state_while(|c| c.start("D"), &["A", "B", "C", "D"]);
    let digests: Vec<_> = kept(&c)
        .iter()
        .filter_map(|k| header(&k.message).filter(|h| h.kind == StateTransferKind::Response))
        .map(|h| h.digest.as_ref().expect("with a digest"))
        .collect();
    assert!(!digests.is_empty());
    for digest in digests {
        let named: Vec<_> = digest.entries.iter().map(|(m, _)| m.uuid()).collect();
        assert_eq!(named, ["A", "B", "C"].map(|n| Some(id(&c, n))), "those of the cut");
    }
}
