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

use common::{Vector, hex, reencode, vectors};

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
    assert_eq!(vectors.len(), 432);
}

fn check(v: &Vector, summary: &mut Summary) {
    match reencode(&v.kind, &v.bytes) {
        None => {
            summary.out_of_scope.push(format!("{} ({})", v.name, v.kind));
            return;
        }
        Some(Err(e)) => {
            summary.failures.push(format!("{}: {e}", v.name));
            return;
        }
        Some(Ok(bytes)) => {
            summary.decoded += 1;
            if bytes == v.bytes {
                summary.reencoded += 1;
            } else {
                summary.failures.push(format!(
                    "{}: {} became {}",
                    v.name,
                    hex(&v.bytes),
                    hex(&bytes)
                ));
            }
        }
    }
    match build::encoding(v) {
        Some(bytes) if bytes == v.bytes => summary.built += 1,
        Some(bytes) => summary.failures.push(format!(
            "{}: built {} for {}",
            v.name,
            hex(&bytes),
            hex(&v.bytes)
        )),
        None => summary.not_built.push(v.name.clone()),
    }
    match compare::fields(v) {
        Some(Ok(())) => summary.compared += 1,
        Some(Err(difference)) => summary.failures.push(format!("{}: {difference}", v.name)),
        None => {}
    }
}
