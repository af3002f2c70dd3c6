//! The layouts as data agree with the codecs: every header of the vectors and of the captures is
//! read to its last byte by its layout alone.
#![allow(clippy::unwrap_used, reason = "the vectors are part of the test")]

#[path = "common/net.rs"]
#[allow(dead_code, reason = "only the datagrams")]
mod net;
#[path = "common/mod.rs"]
mod vectors;

use bytes::{Bytes, BytesMut};
use rgroups_wire::header::class;
use rgroups_wire::layout::layout;
use rgroups_wire::{Frame, Header, ProtId, Reader};
use std::collections::BTreeSet;

/// Reads a header, magic id first, and notes the class.
fn reads_to_the_end(name: &str, header: Bytes, seen: &mut BTreeSet<i16>) {
    let mut r = Reader::new(header);
    let magic = r.i16("magic").unwrap();
    let layout = layout(magic).unwrap_or_else(|| panic!("{name}: class {magic}"));
    layout.skip(&mut r).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(r.remaining(), 0, "{name}: bytes that the layout does not have");
    seen.insert(magic);
}

#[test]
fn every_header_of_the_vectors_fits_its_layout() {
    let mut seen = BTreeSet::new();
    for v in vectors::vectors().iter().filter(|v| v.kind == "header") {
        let mut r = Reader::new(v.bytes.clone());
        let prot = ProtId(r.i16("protocol").unwrap());
        let magic = r.clone().i16("magic").unwrap();
        if Header::decode(prot, magic, &mut Reader::new(v.bytes.slice(4..))).is_ok() {
            reads_to_the_end(&v.name, r.rest(), &mut seen);
        }
    }
    // These two have no vector: they are of measurements.
    for header in [Header::Perf(7), Header::RoundTrip(Box::new([1; 8]))] {
        let mut bytes = BytesMut::new();
        header.encode(ProtId::UDP, &mut bytes);
        reads_to_the_end("measurement", bytes.freeze(), &mut seen);
    }
    let without: Vec<&str> =
        class::ALL.iter().filter(|(m, _)| !seen.contains(m)).map(|(_, name)| *name).collect();
    assert_eq!(without, Vec::<&str>::new(), "classes without a vector");
}

#[test]
fn every_header_of_the_captures_fits_its_layout() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/captures");
    let mut seen = BTreeSet::new();
    for file in std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()) {
        for d in net::Capture::parse(&std::fs::read(&file).unwrap()).datagrams {
            let Ok(frame) = Frame::decode(d.payload) else { continue };
            for (prot, header) in frame.messages().iter().flat_map(|m| m.headers.iter()) {
                let mut bytes = BytesMut::new();
                header.encode(prot, &mut bytes);
                reads_to_the_end(&format!("{file:?} {}", d.name), bytes.freeze(), &mut seen);
            }
        }
    }
    assert!(seen.len() > 15, "{seen:?}");
}
