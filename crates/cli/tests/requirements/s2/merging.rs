//! Digests in a merge: each member answers for itself, each part hands in a digest with names, and the
//! merged view comes with one that refers to it.

use super::*;
use rgroups::core::wire::{DigestKind, Encode, RefDigest, View, ViewId, ViewKind};
use rgroups_sim::history::What;
use std::collections::{BTreeMap, BTreeSet};

crate::tests![
    each_part_hands_in_the_digest_of_all_its_members => "S2-2", "S2-14";
    each_member_answers_with_its_own_entry_alone => "S2-3", "S2-13";
    windows_go_on_where_their_senders_are => "S2-4";
    who_does_not_answer_is_not_in_the_view_that_is_handed_in => "S2-14";
    a_merged_view_names_each_member_once => "S2-15";
];

const ALL: [&str; 4] = ["A", "B", "C", "D"];

/// Two parts that have both sent something, before and after they were split.
fn split() -> Cluster {
    let mut c = group(reporting_after(1_000_000), &ALL);
    for n in ALL {
        cast(&mut c, n, 10, 500);
    }
    c.run_for(SECOND);
    c.partition(&[&["A", "B"], &["C", "D"]]);
    let apart = |c: &Cluster| is_whole(c, &["A", "B"]) && is_whole(c, &["C", "D"]);
    assert!(c.run_until(180 * SECOND, apart));
    for (n, times) in [("A", 3), ("B", 5), ("C", 7), ("D", 9)] {
        cast(&mut c, n, times, 500);
    }
    c.run_for(SECOND);
    c.start_census_keeping(&["GMS"]);
    c
}

fn merged() -> Cluster {
    let mut c = split();
    c.heal();
    assert!(c.run_until(180 * SECOND, |c| is_whole(c, &ALL)));
    c.run_for(2 * SECOND);
    c
}

fn members(v: &ViewDigest) -> &[rgroups::core::wire::Address] {
    match &v.view {
        Some(ViewKind::Full(view)) => view.members(),
        _ => panic!("no view"),
    }
}

fn each_part_hands_in_the_digest_of_all_its_members() {
    let c = merged();
    let answers = view_digests(&c, GmsKind::MergeRsp);
    assert!(!answers.is_empty());
    for (from, _, answer) in answers {
        let part = if ["A", "B"].contains(&from.as_str()) { ["A", "B"] } else { ["C", "D"] };
        let Some(DigestKind::Full(digest)) = &answer.digest else { panic!("{answer:?}") };
        let named: Vec<_> = digest.entries.iter().map(|(m, _)| m.uuid()).collect();
        assert_eq!(named, part.map(|n| Some(id(&c, n))));
        assert_eq!(members(&answer).len(), 2);
        // Views take numbers too: no fewer than what was sent.
        let least: BTreeMap<&str, i64> = [("A", 13), ("B", 15), ("C", 17), ("D", 19)].into();
        for ((_, pair), name) in digest.entries.iter().zip(part) {
            assert!(pair.delivered >= least[name], "{name}: {pair:?}");
        }
    }
}

fn each_member_answers_with_its_own_entry_alone() {
    let c = merged();
    let answers = view_digests(&c, GmsKind::GetDigestRsp);
    let from: BTreeSet<&str> = answers.iter().map(|(from, _, _)| from.as_str()).collect();
    assert_eq!(from, ["B", "D"].into(), "the speakers ask, the others answer");
    for (from, _, answer) in &answers {
        let Some(DigestKind::Full(digest)) = &answer.digest else { panic!("{answer:?}") };
        let named: Vec<_> = digest.entries.iter().map(|(m, _)| m.uuid()).collect();
        assert_eq!(named, [Some(id(&c, from))]);
        assert!(answer.view.is_none());
    }
}

/// Nothing begins at 0 again, and nothing comes twice.
fn windows_go_on_where_their_senders_are() {
    let mut c = merged();
    for n in ALL {
        cast(&mut c, n, 2, 500);
    }
    c.run_for(3 * SECOND);
    for of in ALL {
        let own = marks(&c, of, of);
        assert!(own.delivered >= 15);
        for at in ALL {
            assert_eq!(marks(&c, at, of), own, "{of} at {at}");
        }
    }
    for at in ALL {
        let life = c.life(at);
        let mut given = BTreeSet::new();
        for f in c.history().facts.iter().filter(|f| f.life == life) {
            if let What::Delivered { message, .. } = &f.what {
                assert!(given.insert(*message), "{at} got {message:?} twice");
            }
        }
    }
}

fn who_does_not_answer_is_not_in_the_view_that_is_handed_in() {
    let mut c = split();
    rule(&mut c, Some("D"), ("GMS", "GET_DIGEST_RSP"), Action::Drop);
    c.heal();
    let three = |c: &Cluster| c.view("A").is_some_and(|v| v.is_merge() && v.contains(id(c, "C")));
    assert!(c.run_until(180 * SECOND, three));
    let d = id(&c, "D");
    let handed_in = view_digests(&c, GmsKind::MergeRsp);
    let installed = view_digests(&c, GmsKind::InstallMergeView);
    let of_c = handed_in.iter().filter(|(from, _, _)| from == "C").chain(&installed);
    let mut seen = 0;
    for (_, _, v) in of_c {
        assert!(members(v).iter().all(|m| m.uuid() != Some(d)), "{v:?}");
        let digest = v.resolved_digest().expect("it can be read alone");
        assert!(digest.entries.iter().all(|(m, _)| m.uuid() != Some(d)));
        seen += 1;
    }
    assert!(seen > 0);
}

/// How often the identity of `m` stands in the bytes.
fn times(bytes: &[u8], m: Uuid) -> usize {
    let body = [m.lsb.to_be_bytes(), m.msb.to_be_bytes()].concat();
    bytes.windows(body.len()).filter(|w| *w == body).count()
}

fn a_merged_view_names_each_member_once() {
    let c = merged();
    let of_kind = |k: &&Kept| gms(&k.message).is_some_and(|h| h.kind == GmsKind::InstallMergeView);
    let sent = kept(&c).iter().find(of_kind).expect("one part is told");
    let bytes = sent.message.body.as_bytes().expect("a payload");
    let read = ViewDigest::from_bytes(bytes.clone()).expect("it can be read alone");
    assert!(matches!(read.digest, Some(DigestKind::Reference(_))), "{read:?}");
    let Some(ViewKind::Full(view)) = &read.view else { panic!("a view") };
    for n in ALL {
        let m = id(&c, n);
        // The creator also stands in the view's id.
        let expected = 1 + usize::from(view.id.creator.uuid() == Some(m));
        assert_eq!(times(bytes, m), expected, "{n}");
    }

    // The same with a hundred members in two parts.
    let all: Vec<Uuid> = (1..=100).map(super::lone::tagged).collect();
    let part = |range: std::ops::Range<usize>| View {
        id: ViewId { creator: all[range.start].into(), id: 7 },
        members: Some(all[range].iter().map(|m| (*m).into()).collect()),
        subgroups: None,
    };
    let merged = View { subgroups: Some(vec![part(0..60), part(60..100)]), ..part(0..100) };
    let digest = RefDigest { seqnos: vec![SeqnoPair { delivered: 9, received: 9 }; 100] };
    let bytes = ViewDigest::view_and_reference(merged, digest).to_bytes();
    let counts = all.iter().map(|m| times(&bytes, *m));
    let expected = (0..100).map(|i| if i == 0 { 2 } else { 1 });
    assert!(counts.eq(expected), "each once, the creator also in the id");
}
