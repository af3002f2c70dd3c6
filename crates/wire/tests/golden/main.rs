//! Every vector of a kind that this crate knows decodes, encodes to the same bytes again, and, where
//! its fields say all there is to say, is what the value built from the fields alone encodes to.
//! Vectors whose fields say only a part have that part compared with what was decoded.
#![allow(clippy::unwrap_used, reason = "the vectors are part of the test")]

#[path = "../common/mod.rs"]
mod common;

mod build;
mod compare;
mod headers;
mod messages;
mod parse;

use common::{Vector, hex, recode, vectors};

/// What became of one vector.
#[derive(Default)]
struct Summary {
    decoded: usize,
    reencoded: usize,
    built: usize,
    compared: usize,
    out_of_scope: Vec<String>,
    not_built: Vec<String>,
    failures: Vec<String>,
}

#[test]
fn vectors_decode_compare_and_encode() {
    let mut summary = Summary::default();
    let vectors = vectors();
    for v in &vectors {
        check(v, &mut summary);
    }
    println!(
        "{} vectors: {} decoded, {} re-encoded, {} built from their fields, {} compared field by \
         field, {} of kinds that are not in this crate",
        vectors.len(),
        summary.decoded,
        summary.reencoded,
        summary.built,
        summary.compared,
        summary.out_of_scope.len(),
    );
    println!("not in this crate: {}", summary.out_of_scope.join(", "));
    println!("fields are not complete, so not built: {}", summary.not_built.join(", "));
    assert!(summary.failures.is_empty(), "\n{}", summary.failures.join("\n"));
    // Fewer than these means that a vector was lost on the way, not that all is well.
    let counts = (summary.decoded, summary.reencoded, summary.built, summary.compared);
    assert_eq!((vectors.len(), counts), (432, (420, 420, 310, 219)));
}

fn check(v: &Vector, summary: &mut Summary) {
    let decoded = match recode(&v.kind, &v.bytes) {
        None => {
            summary.out_of_scope.push(format!("{} ({})", v.name, v.kind));
            return;
        }
        Some(Err(e)) => {
            summary.failures.push(format!("{}: {e}", v.name));
            return;
        }
        Some(Ok(decoded)) => decoded,
    };
    summary.decoded += 1;
    if decoded.bytes == v.bytes {
        summary.reencoded += 1;
    } else {
        let (bytes, again) = (hex(&v.bytes), hex(&decoded.bytes));
        summary.failures.push(format!("{}: {bytes} became {again}", v.name));
    }
    match build::built(v) {
        None => summary.not_built.push(v.name.clone()),
        Some(built) if built.bytes != v.bytes => {
            let (bytes, ours) = (hex(&v.bytes), hex(&built.bytes));
            summary.failures.push(format!("{}: built {ours} for {bytes}", v.name));
        }
        // As text, since equality of addresses leaves fields out.
        Some(built) if built.value != decoded.value => {
            let (built, decoded) = (built.value, decoded.value);
            summary.failures.push(format!("{}: decoded {decoded}, built {built}", v.name));
        }
        Some(_) => summary.built += 1,
    }
    match compare::fields(v) {
        Some(Ok(())) => summary.compared += 1,
        Some(Err(difference)) => summary.failures.push(format!("{}: {difference}", v.name)),
        None => {}
    }
}
