//! TCP streams, cut into chunks; the checks are in `rgroups_wire::fuzzing`, which the ordinary tests run too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rgroups_wire::fuzzing::tcp_stream(data));
