//! The payloads of STABLE between members of this toolkit: vectors written by hand from the layout,
//! what is refused, sizes, and that reading gives back what was written.
#![allow(clippy::unwrap_used, reason = "the vectors are part of the test")]

mod common;

use bytes::Bytes;
use common::{Vector, hex, own_vectors, unhex};
use rgroups_wire::{
    Address, Changes, Decode, Digest, Encode, SeqnoPair, StablePayload, StablePayloadKind, Uuid,
};
use serde_json::Value as Json;

fn pairs(v: &Json, repeat: u64) -> Vec<SeqnoPair> {
    let n = |v: &Json| v.as_i64().unwrap();
    let mut list: Vec<SeqnoPair> = v
        .as_array()
        .unwrap()
        .iter()
        .map(|p| SeqnoPair { delivered: n(&p[0]), received: n(&p[1]) })
        .collect();
    // "repeat" is how often the first pair stands there.
    let first = list[0];
    for _ in 1..repeat {
        list.insert(0, first);
    }
    list
}

struct Case {
    base: Option<Vec<SeqnoPair>>,
    pairs: Vec<SeqnoPair>,
    payload: StablePayload,
}

fn case(v: &Vector) -> Case {
    let f = &v.fields;
    let repeat = f["repeat"].as_u64().unwrap_or(1);
    let all = pairs(&f["pairs"], repeat);
    let base = f["base"].as_u64().map(|n| (n, pairs(&f["base_pairs"], repeat)));
    let changes = match &base {
        Some((n, base)) => Changes::since(*n, base, &all).unwrap(),
        None => Changes::full(&all),
    };
    let payload = match f["number"].as_u64() {
        Some(number) => StablePayload::Vector { number, changes },
        None => StablePayload::Report(changes),
    };
    Case { base: base.map(|(_, b)| b), pairs: all, payload }
}

fn changes(p: &StablePayload) -> &Changes {
    match p {
        StablePayload::Report(changes) | StablePayload::Vector { changes, .. } => changes,
    }
}

#[test]
fn the_vectors_are_written_and_read() {
    for v in own_vectors() {
        let case = case(&v);
        assert_eq!(hex(&case.payload.to_bytes()), hex(&v.bytes), "{}", v.name);
        let read = StablePayload::from_bytes(v.bytes.clone()).unwrap();
        assert_eq!(read, case.payload, "{}", v.name);
        let applied = changes(&read).apply(case.base.as_deref(), case.pairs.len());
        assert_eq!(applied.as_ref(), Some(&case.pairs), "{}", v.name);
    }
}

#[test]
fn what_makes_no_sense_is_an_error() {
    for (why, bytes) in [
        ("nothing", ""),
        ("a kind of later", "04000100"),
        ("tail repair has a codec of its own", "010000"),
        ("a vector without a number", "0300000100"),
        ("a vector that builds on itself", "0301010100"),
        ("an id that nothing was written under", "02000104"),
        ("a run beyond the members", "0200010100"),
        ("more members than a view can have", "0200808002"),
        ("a number beyond 64 bits", "02ffffffffffffffffff0201"),
        ("a byte too many", "020001000000"),
    ] {
        assert!(StablePayload::from_bytes(unhex(bytes)).is_err(), "{why}");
    }
}

#[test]
fn the_first_byte_tells_the_kinds_apart() {
    use StablePayloadKind::{Report, TailRepair, Vector};
    for kind in [TailRepair, Report, Vector] {
        assert_eq!(StablePayloadKind::of(&[kind.to_wire(), 9]), Some(kind));
    }
    assert_eq!(StablePayloadKind::of(&[0]), None);
    assert_eq!(StablePayloadKind::of(&[]), None);
}

#[test]
fn a_list_is_applied_to_its_base_and_to_a_view_of_its_size_only() {
    let base = [SeqnoPair { delivered: 5, received: 7 }; 3];
    let new = [SeqnoPair { delivered: 7, received: 7 }; 3];
    let changes = Changes::since(4, &base, &new).unwrap();
    assert_eq!(changes.apply(Some(&base), 3).as_deref(), Some(&new[..]));
    assert_eq!(changes.apply(Some(&base), 4), None);
    assert_eq!(changes.apply(Some(&base[..2]), 2), None);
    assert_eq!(changes.apply(None, 3), None);
    assert_eq!(Changes::full(&new).apply(Some(&base), 3), None);
    assert_eq!(Changes::since(4, &base[..2], &new), None, "another number of members");
    assert_eq!(Changes::since(4, &new, &base), None, "delivered numbers never go back");
}

#[test]
fn pairs_that_are_none_are_refused_when_they_are_applied() {
    // Delivered 2^63; received above it; a sum beyond 2^63 - 1.
    for bytes in ["0200010280808080808080808001 00", "02000102ffffffffffffffff7f01"] {
        let payload = StablePayload::from_bytes(unhex(&bytes.replace(' ', ""))).unwrap();
        assert_eq!(changes(&payload).apply(None, 1), None);
    }
}

#[test]
fn a_few_bytes_that_claim_many_members_cost_nothing_until_the_view_fits() {
    // 32,767 members, unchanged: nine bytes.
    let payload = StablePayload::from_bytes(unhex("0201ffff0101fdff01")).unwrap();
    assert_eq!(changes(&payload).members(), 32_767);
    assert_eq!(changes(&payload).apply(Some(&[]), 0), None);
}

/// A small deterministic generator (splitmix64).
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }

    /// A pair that is not before `old`: often the same, often one of few, sometimes any.
    fn after(&mut self, old: SeqnoPair) -> SeqnoPair {
        let limit = 1 << self.below(33);
        let (more, ahead) = match self.below(4) {
            0 => return old,
            1 => (7, 0),
            2 => (self.below(3), self.below(3)),
            _ => (self.below(limit), self.below(300)),
        };
        let delivered = old.delivered + more as i64;
        SeqnoPair { delivered, received: delivered + ahead as i64 }
    }
}

#[test]
fn reading_gives_back_what_was_written() {
    let mut rng = Rng(11);
    for _ in 0..2_000 {
        let members = rng.below(40) as usize;
        let base: Vec<_> = (0..members).map(|_| rng.after(SeqnoPair::default())).collect();
        let next: Vec<_> = base.iter().map(|p| rng.after(*p)).collect();
        let number = 1 + rng.below(1 << 40);
        let full = StablePayload::Report(Changes::full(&base));
        let changes = Changes::since(number, &base, &next).unwrap();
        let delta = StablePayload::Vector { number: number + 1, changes };
        for (payload, base, pairs) in [(full, None, &base), (delta, Some(&base), &next)] {
            let read = StablePayload::from_bytes(payload.to_bytes()).unwrap();
            assert_eq!(read, payload);
            let list = self::changes(&read).apply(base.map(Vec::as_slice), members);
            assert_eq!(list.as_ref(), Some(pairs));
        }
    }
}

fn java_form(pairs: &[SeqnoPair]) -> usize {
    let member = |i: usize| Address::from(Uuid::new(i as u64, !(i as u64)));
    let entries = pairs.iter().enumerate().map(|(i, p)| (member(i), *p)).collect();
    Digest { entries }.encoded_len()
}

#[test]
fn of_five_hundred_members_490_alike_take_less_than_15_percent_of_the_form_of_jgroups() {
    let mut rng = Rng(3);
    let usual = SeqnoPair { delivered: 100_020, received: 100_022 };
    let mut all = vec![usual; 500];
    for i in 0..10 {
        let delivered = 100_000 + 31 * i;
        all[rng.below(500) as usize] = SeqnoPair { delivered, received: delivered + 5 };
    }
    let payload = StablePayload::Vector { number: 1, changes: Changes::full(&all) };
    let (ours, java) = (payload.encoded_len(), java_form(&all));
    println!("500 members, 490 alike: {ours} bytes, JGroups {java}");
    assert!(ours * 100 < java * 15, "{ours} of {java}");
    let read = StablePayload::from_bytes(payload.to_bytes()).unwrap();
    assert_eq!(changes(&read).apply(None, 500), Some(all));
}

#[test]
fn a_changed_member_takes_at_most_six_bytes_and_an_unchanged_one_at_most_one() {
    let mut rng = Rng(17);
    for members in [10u64, 100, 500, 2_000] {
        for active in [0, 1, members / 10, members / 2, members] {
            let any = |rng: &mut Rng| rng.below(1 << 32) as i64;
            let base: Vec<SeqnoPair> = (0..members)
                .map(|_| any(&mut rng))
                .map(|n| SeqnoPair { delivered: n, received: n })
                .collect();
            let mut next = base.clone();
            for k in 0..active {
                let i = (k * members / active.max(1)) as usize;
                next[i].delivered += 1 + rng.below(1 << 20) as i64;
                next[i].received = next[i].delivered + rng.below(128) as i64;
            }
            let changes = Changes::since(9_999, &base, &next).unwrap();
            let (changed, size) = (changes.changed(), StablePayload::Report(changes).encoded_len());
            // Kind, number of the base, number of members.
            let head = 1 + 2 + 2;
            assert_eq!(changed, active);
            assert!(
                size as u64 <= head + 6 * active + (members - active),
                "{members} {active}: {size}"
            );
        }
    }
}

#[test]
fn a_report_of_a_hundred_on_nothing_stays_below_600_bytes() {
    let mut rng = Rng(5);
    let pair = |n| SeqnoPair { delivered: n, received: n + 3 };
    let all: Vec<_> = (0..100).map(|_| pair(99_000 + rng.below(2_000) as i64)).collect();
    let size = StablePayload::Report(Changes::full(&all)).encoded_len();
    println!("100 members: {size} bytes, JGroups {}", java_form(&all));
    assert!(size <= 600);
}

#[test]
fn every_cut_of_a_large_payload_is_an_error() {
    let mut rng = Rng(23);
    let all: Vec<_> = (0..200).map(|_| rng.after(SeqnoPair::default())).collect();
    let bytes: Bytes = StablePayload::Report(Changes::full(&all)).to_bytes();
    for n in 0..bytes.len() {
        assert!(StablePayload::from_bytes(bytes.slice(..n)).is_err(), "cut at {n}");
    }
}
