//! Digests and views: joiners get a digest, the others get none.

use super::*;
use rgroups::core::wire::header::NakAckHeader;
use rgroups::core::wire::{self, DigestKind, JoinRsp};
use rgroups_sim::history::{MessageId, What};
use rgroups_sim::payload;
use std::collections::BTreeMap;

crate::tests![
    existing_members_get_the_view_of_a_join_without_a_digest => "S2-9", "S2-16";
    a_joiner_begins_where_its_answer_says => "S2-10";
    only_merged_views_carry_a_digest => "S2-16";
];

fn existing_members_get_the_view_of_a_join_without_a_digest() {
    let mut c = group(reporting_after(50_000), &["A", "B", "C"]);
    c.start_census_keeping(&["GMS"]);
    c.start("D");
    assert!(c.run_until(20 * SECOND, |c| is_whole(c, &["A", "B", "C", "D"])));
    let views = view_digests(&c, GmsKind::View);
    let to: Vec<&str> = views.iter().map(|(_, to, _)| to.as_str()).collect();
    assert!(["B", "C"].iter().all(|n| to.contains(n)), "{to:?}");
    assert!(views.iter().all(|(_, _, v)| v.view.is_some() && v.digest.is_none()));
}

/// The numbers of A's application messages, as they went over the wire.
fn numbers_of(c: &Cluster, sender: &str) -> BTreeMap<MessageId, i64> {
    let host = c.host(sender).expect("it was started");
    let from_it = kept(c).iter().filter(|k| k.from == host);
    let numbered = from_it.filter_map(|k| {
        let Some(Header::NakAck(NakAckHeader::Msg(n))) = k.message.headers.get(ProtId::NAKACK2)
        else {
            return None;
        };
        Some((payload::read(k.message.body.as_bytes()?)?, *n))
    });
    numbered.collect()
}

/// D joins while A sends. What D is given of A begins right behind the number in its JOIN_RSP, which
/// is read by itself.
fn a_joiner_begins_where_its_answer_says() {
    let mut c = group(reporting_after(50_000), &["A", "B"]);
    c.start_census_keeping(&["GMS", "NAKACK2"]);
    let traffic = |c: &mut Cluster, times: u32| {
        for _ in 0..times {
            cast(c, "A", 1, 200);
            c.run_for(Duration::from_millis(5));
        }
    };
    traffic(&mut c, 50);
    c.start("D");
    while !is_whole(&c, &["A", "B", "D"]) {
        assert!(c.now().since(rgroups::core::Time::ZERO) < 120 * SECOND, "D joins");
        traffic(&mut c, 1);
    }
    traffic(&mut c, 50);
    c.run_for(2 * SECOND);

    let is_answer = |k: &&Kept| gms(&k.message).is_some_and(|h| h.kind == GmsKind::JoinRsp);
    let answer = kept(&c).iter().find(is_answer).expect("D was answered");
    let bytes = answer.message.body.as_bytes().expect("a payload").clone();
    let answer = JoinRsp::from_bytes(bytes).expect("it can be read alone");
    let (view, digest) = (answer.view.expect("in"), answer.digest.expect("with a digest"));
    let full = digest.resolve(view.members()).expect("one pair for each member of its own view");
    let a = id(&c, "A");
    let begins = full.entries.iter().find(|(m, _)| m.uuid() == Some(a)).expect("A").1.delivered;

    let numbers = numbers_of(&c, "A");
    let life = c.life("D");
    let given: Vec<i64> = c
        .history()
        .facts
        .iter()
        .filter(|f| f.life == life)
        .filter_map(|f| match &f.what {
            What::Delivered { message, from, .. } if *from == a => Some(numbers[message]),
            _ => None,
        })
        .collect();
    let mut behind: Vec<i64> = numbers.values().copied().filter(|n| *n > begins).collect();
    behind.sort_unstable();
    assert!(begins > 0 && !behind.is_empty());
    assert_eq!(given, behind, "all of A behind {begins}, in order, once each");
}

fn only_merged_views_carry_a_digest() {
    let mut c = group(reporting_after(50_000), &["A", "B", "C"]);
    c.start_census_keeping(&["GMS"]);
    c.leave("C");
    assert!(c.run_until(20 * SECOND, |c| is_whole(c, &["A", "B"])));
    c.restart("C");
    assert!(c.run_until(20 * SECOND, |c| is_whole(c, &["A", "B", "C"])));
    c.partition(&[&["A", "B"], &["C"]]);
    assert!(c.run_until(120 * SECOND, |c| is_whole(c, &["A", "B"]) && is_whole(c, &["C"])));
    c.heal();
    assert!(c.run_until(120 * SECOND, |c| is_whole(c, &["A", "B", "C"])));
    let (mut regular, mut merged) = (0, 0);
    for (_, _, v) in view_digests(&c, GmsKind::View) {
        let is_merge = matches!(&v.view, Some(wire::ViewKind::Full(view)) if view.is_merge());
        match is_merge {
            false => assert_eq!((v.digest, regular += 1), (None, ())),
            true => {
                assert!(matches!(v.digest, Some(DigestKind::Reference(_))));
                merged += 1;
            }
        }
    }
    assert!(regular >= 3 && merged >= 1, "{regular} and {merged}");
}
