//! Every vector decodes and encodes to the same bytes again.
mod common;

#[test]
fn every_vector_reencodes_to_its_bytes() {
    let mut bad = Vec::new();
    let (mut ok, mut skipped) = (0, Vec::new());
    for v in common::vectors() {
        match common::reencode(&v.kind, &v.bytes) {
            None => skipped.push(v.name),
            Some(Ok(b)) if b == v.bytes => ok += 1,
            Some(Ok(b)) => {
                bad.push(format!("{}: {} != {}", v.name, common::hex(&b), common::hex(&v.bytes)))
            }
            Some(Err(e)) if matches!(e.kind, rgroups_wire::DecodeErrorKind::UnknownHeader(_)) => {
                skipped.push(v.name)
            }
            Some(Err(e)) => bad.push(format!("{}: {e}", v.name)),
        }
    }
    println!("{ok} ok, skipped {skipped:?}");
    assert!(bad.is_empty(), "{}\n{}", bad.len(), bad.join("\n"));
}
