//! Vectors cut short: every cut is a clean error, except where the format itself says "the rest".
#![allow(clippy::unwrap_used, reason = "the vectors are part of the test")]

mod common;

use common::{own_vectors, reencode, vectors};
use rgroups_wire::tcp::StreamDecoder;

/// Object buffers whose last part has no length: byte arrays, objects of any class and Java's own
/// serialisation end where the buffer ends. What is left of them is a shorter value of the same type.
const TAKES_THE_REST: &[&str] = &[
    "objbuf_bytes",
    "objbuf_uuid",
    "objbuf_ipaddress",
    "objbuf_viewid",
    "objbuf_arraylist_serialized",
    "objstream_arraylist_serialized",
];

/// An answer to a joiner that writes the subgroups of its MergeView where the digest belongs: the
/// number of subgroups and the zeros behind it are themselves a digest, so that the first 61 bytes
/// are a complete plain answer. That is how Java reads the whole.
const PLAIN_ANSWER_INSIDE: (&str, usize) = ("joinrsp_quirk_mergeview", 61);

fn is_a_shorter_value(name: &str, length: usize) -> bool {
    TAKES_THE_REST.contains(&name) || (name, length) == PLAIN_ANSWER_INSIDE
}

#[test]
fn every_prefix_of_a_vector_is_an_error() {
    let (mut cuts, mut shorter_values) = (0, 0);
    for v in vectors().into_iter().chain(own_vectors()) {
        for n in 0..v.bytes.len() {
            let cut = v.bytes.slice(..n);
            match reencode(&v.kind, &cut) {
                None => {}
                Some(Err(_)) => cuts += 1,
                Some(Ok(again)) => {
                    assert!(
                        is_a_shorter_value(&v.name, n),
                        "{} cut at {n} of {} was accepted",
                        v.name,
                        v.bytes.len()
                    );
                    assert_eq!(again, cut, "{} cut at {n}", v.name);
                    shorter_values += 1;
                }
            }
        }
    }
    println!("{cuts} cuts refused, {shorter_values} are shorter values of their type");
    assert!(cuts > 10_000);
}

#[test]
fn a_byte_too_many_is_an_error() {
    for v in vectors().into_iter().chain(own_vectors()) {
        let mut longer = v.bytes.to_vec();
        longer.push(0);
        if TAKES_THE_REST.contains(&v.name.as_str()) || v.name == "objbuf_bytes_empty" {
            continue;
        }
        if let Some(outcome) = reencode(&v.kind, &longer.into()) {
            assert!(outcome.is_err(), "{} with a byte behind it was accepted", v.name);
        }
    }
}

#[test]
fn a_stream_that_stops_yields_nothing_more_and_no_error() {
    for v in vectors().iter().filter(|v| v.kind == "tcp_frame" || v.kind == "tcp_close") {
        for n in 0..v.bytes.len() {
            let mut stream = StreamDecoder::connector(1 << 16);
            stream.push(v.bytes.slice(..n));
            assert_eq!(stream.next_item(), Ok(None), "{} cut at {n}", v.name);
        }
    }
}
