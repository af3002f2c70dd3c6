//! `decode`: live captures of JGroups members, and forged ones for what those do not have.

mod common;
#[path = "decode/forge.rs"]
mod forge;

use common::{Ended, run};
use forge::{File, datagram, fragment6, segment, tcp, udp};
use serde_json::Value;
use std::path::PathBuf;

fn captures() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/testdata/captures"))
}

fn decode(file: &str) -> Ended {
    run(&["--json", "decode", file])
}

fn decoded(file: &File) -> Ended {
    decode(file.path())
}

fn count(summary: &Value, kind: &str) -> u64 {
    summary["decoded"][kind].as_u64().unwrap_or(0)
}

#[test]
fn everything_in_the_captures_of_java_members_is_decoded_or_listed() {
    let kinds = ["packet", "fd_sock2", "handshake", "graceful_close"];
    let mut totals = [0; 4];
    let files = std::fs::read_dir(captures()).expect("test data");
    for file in files.map(|f| f.expect("an entry").path()) {
        let ended = decode(file.to_str().expect("text"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let summary = ended.object("summary");
        for (total, kind) in totals.iter_mut().zip(kinds) {
            *total += count(&summary, kind);
        }
        let other = summary["not_decoded"].as_array().expect("a list");
        let gossip_router = file.ends_with("tunnel2-gossiprouter.pcap");
        assert_eq!(other.len(), if gossip_router { 4 } else { 0 }, "{file:?} {other:?}");
    }
    assert_eq!(totals, [674, 91, 38, 38]);
}

#[test]
fn a_packet_is_printed_as_a_tree_with_its_place_in_the_capture() {
    let file = captures().join("udp3-join-leave.pcap");
    let ended = run(&["decode", file.to_str().expect("text")]);
    let text = ended.stdout.join("\n");
    assert!(text.contains("udp 127.0.0.1:17901 > 239.77.8.8:46588"), "{text}");
    assert!(text.contains("\n  packet version=5.5.6 multicast single\n    message: "), "{text}");
    assert!(text.contains("GMS:JOIN_REQ"), "{text}");
    assert!(text.contains("FD_SOCK2\n  message: EmptyMessage"), "{text}");
}

#[test]
fn the_json_tree_names_ids_and_fields() {
    let file = captures().join("udp3-join-leave.pcap");
    let ended = decode(file.to_str().expect("text"));
    let gms = ended.objects().into_iter().find_map(|o| {
        let headers = o["messages"][0]["headers"].as_array()?.clone();
        headers.into_iter().find(|h| h["label"] == "GMS:JOIN_REQ")
    });
    let gms = gms.expect("somebody joins");
    assert_eq!(
        (&gms["protocol"], &gms["id"], &gms["magic"]),
        (&"GMS".into(), &12.into(), &55.into())
    );
}

#[test]
fn pcapng_is_read_as_pcap_is() {
    let pcap = captures().join("tcp3-crash.pcap");
    let ng = File::pcapng_of(&std::fs::read(&pcap).expect("test data"));
    let (old, new) = (decode(pcap.to_str().expect("text")), decoded(&ng));
    let body = |e: &Ended| {
        let mut all = e.objects();
        all.pop();
        all
    };
    assert_eq!(body(&old), body(&new));
    assert!(body(&new).len() > 50);
}

#[test]
fn datagrams_in_fragments_over_ipv6_are_put_together() {
    let payload = forge::multicast("demo", &[7; 5000]);
    let whole = udp(1000, 2000, &payload);
    let (first, rest) = whole.split_at(2400);
    // The last fragment first.
    let parts = [fragment6(9, 2400, false, rest), fragment6(9, 0, true, first)];
    let ended = decoded(&File::pcap(parts));
    assert_eq!(ended.object("packet")["messages"][0]["payload"]["length"], 5000);
    let alone = decoded(&File::pcap([fragment6(9, 0, true, first)]));
    let listed = &alone.object("summary")["not_decoded"][0];
    assert_eq!(listed["reason"], "fragments are missing");
}

#[test]
fn segments_out_of_order_and_repeated_are_one_stream() {
    let stream =
        forge::stream(&[forge::multicast("demo", b"one"), forge::multicast("demo", b"two")]);
    let (a, rest) = stream.split_at(20);
    let (b, c) = rest.split_at(30);
    let start = u32::MAX - 10;
    let at = |n: usize| start.wrapping_add(1 + n as u32);
    let segments = [
        segment(start, "S", b""),
        segment(at(50), "A", c),
        segment(at(0), "A", a),
        segment(at(0), "A", a),
        segment(at(20), "A", b),
    ];
    let ended = decoded(&File::pcap(segments));
    let summary = ended.object("summary");
    assert_eq!((count(&summary, "handshake"), count(&summary, "packet")), (1, 2), "{summary}");
    assert_eq!(summary["not_decoded"], Value::Array(vec![]));
}

#[test]
fn after_missing_segments_the_stream_is_taken_up_at_the_next_frame() {
    let frame = |text: &[u8]| forge::frame(&forge::multicast("demo", text));
    let start = forge::stream(&[]);
    let (one, two, three) = (frame(b"one"), frame(b"two"), frame(b"three"));
    let at = |before: &[&[u8]]| 1 + before.iter().map(|b| b.len()).sum::<usize>() as u32;
    let segments = [
        segment(0, "S", b""),
        segment(1, "A", &start),
        segment(at(&[&start]), "A", &one[..10]),
        segment(at(&[&start, &one, &two]), "A", &three),
    ];
    let ended = decoded(&File::pcap(segments));
    let summary = ended.object("summary");
    assert_eq!(count(&summary, "packet"), 1, "{summary}");
    let missing = one.len() - 10 + two.len();
    let listed = summary["not_decoded"].as_array().expect("a list");
    let bytes = |why: &str| listed.iter().find(|u| u["reason"] == why).map(|u| u["bytes"].clone());
    assert_eq!(bytes("missing in the capture"), Some(missing.into()), "{summary}");
    // Of the ten bytes, four were the length.
    assert_eq!(bytes("the start of a frame whose rest is missing"), Some(6.into()), "{summary}");
}

#[test]
fn questions_to_the_diagnostics_port_and_answers_are_shown() {
    let answer =
        "A [ip=127.0.0.1:7800, 1 mbr(s), cluster=demo, version=5.5.6]\r\nkeys=jmx \x1b[2J\r\n";
    let file = File::pcap([
        datagram("224.0.75.75:7500", b"jmx=UDP keys"),
        datagram("127.0.0.1:5000", answer.as_bytes()),
        tcp(7500, 1, "S", b""),
        tcp(7500, 2, "A", b"member-addrs\n"),
    ]);
    let ended = decoded(&file);
    let requests: Vec<Value> =
        ended.objects().into_iter().filter(|o| o["type"] == "probe_request").collect();
    assert_eq!(requests[0]["text"], "jmx=UDP keys");
    assert_eq!(requests[1]["text"], "member-addrs");
    assert_eq!(ended.object("probe_response")["text"], answer);
    let text = run(&["decode", file.path()]).stdout.join("\n");
    assert!(text.contains("\\u{1b}[2J") && !text.contains('\x1b'), "{text}");
}

#[test]
fn a_packet_of_another_version_is_shown_and_marked() {
    let mut packet = forge::multicast("demo", b"old");
    packet[..2].copy_from_slice(&[0x29, 0x00]);
    let file = File::pcap([datagram("239.8.8.8:45588", &packet)]);
    let shown = decoded(&file).object("packet");
    assert_eq!((&shown["version"], &shown["compatible"]), (&"5.4.0".into(), &false.into()));
}

#[test]
fn what_looks_like_jgroups_and_is_broken_is_listed_and_exits_with_5() {
    let mut packet = forge::multicast("demo", b"text");
    packet.truncate(packet.len() - 2);
    let ended = decoded(&File::pcap([datagram("239.8.8.8:45588", &packet)]));
    assert_eq!(ended.code, Some(5));
    let summary = ended.object("summary");
    let why = summary["undecodable"][0].as_str().expect("a line");
    assert!(why.starts_with("#1 udp 10.0.0.1:1000 > 239.8.8.8:45588: "), "{why}");
    assert!(why.contains("at byte"), "{why}");
}

#[test]
fn packets_that_were_cut_or_are_something_else_are_listed() {
    let mut cut = File::pcap([datagram("239.8.8.8:45588", &forge::multicast("demo", b"text"))]);
    cut.shorten_last_packet(10);
    let ended = decoded(&cut);
    let listed = ended.object("summary")["not_decoded"].clone();
    let why = listed[0]["reason"].as_str().expect("a reason");
    assert!(why.contains("10 bytes of the datagram were not captured"), "{why}");
    let dns = decoded(&File::pcap([datagram("10.0.0.2:53", b"\x12\x34\x01\x00\x00\x01")]));
    assert_eq!(dns.object("summary")["not_decoded"][0]["reason"], "not JGroups");
}

#[test]
fn a_broken_file_is_named_with_the_offset_and_the_reason() {
    let mut file = File::pcap([datagram("239.8.8.8:45588", &forge::multicast("demo", b"text"))]);
    let whole = file.length();
    file.truncate(whole - 3);
    let ended = decoded(&file);
    assert_eq!(ended.code, Some(1));
    let error = ended.stderr.clone();
    assert!(error.contains(file.path()), "{error}");
    assert!(error.contains("byte 24: it ends in the middle of a record"), "{error}");
    for (content, why) in [
        (&b"no capture at all, just some text"[..], "byte 0: neither pcap nor pcapng"),
        (b"", "byte 0: the file is empty"),
    ] {
        let ended = decoded(&File::of(content));
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
        assert_eq!(ended.code, Some(1));
    }
}

#[test]
fn what_is_neither_a_file_nor_hex_says_so() {
    let ended = run(&["decode", "./no-such.pcap"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("there is no file ./no-such.pcap"), "{}", ended.stderr);
    let ended = run(&["decode", "2946zz"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("'z' at position 4 is not a hex digit"), "{}", ended.stderr);
    assert!(ended.stderr.contains("nor is there a file 2946zz"), "{}", ended.stderr);
}

#[test]
fn a_capture_may_come_from_standard_input() {
    let file = captures().join("udp2-merge.pcap");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rgroups"));
    let stdin = std::fs::File::open(file).expect("test data");
    let out = command.args(["decode", "-"]).stdin(stdin).output().expect("runs");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("63 packets captured"), "{text}");
    assert!(text.contains("31 JGroups packets"), "{text}");
}

/// The protocols of the headers in each packet, as decode tells them: number, then names.
fn protocols_by_decode(file: &str) -> Vec<(u64, String)> {
    let mut all: Vec<(u64, String)> = Vec::new();
    for o in decode(file).objects() {
        let messages = match (&o["messages"], &o["message"]) {
            (Value::Array(list), _) => list.clone(),
            (_, m @ Value::Object(_)) => vec![m.clone()],
            _ => continue,
        };
        let names = |m: &Value| -> Vec<String> {
            let headers = m["headers"].as_array().expect("a list");
            headers.iter().map(|h| h["protocol"].as_str().expect("known").to_owned()).collect()
        };
        let names: Vec<String> = messages.iter().flat_map(names).collect();
        let number = o["packet"].as_u64().expect("a number");
        match all.last_mut() {
            Some((n, list)) if *n == number => *list = format!("{list},{}", names.join(",")),
            _ => all.push((number, names.join(","))),
        }
    }
    all
}

#[test]
fn the_dissector_sees_in_wireshark_what_decode_sees() {
    let script = run(&["decode", "--wireshark"]).stdout.join("\n");
    assert!(script.contains("function jgroups.dissector"));
    let script = File::of(script.as_bytes());
    let option = format!("lua_script:{}", script.path());
    let tshark = |file: &str| {
        let fields = ["-e", "frame.number", "-e", "jgroups.protocol"];
        let mut command = std::process::Command::new("tshark");
        command.args(["-X", &option, "-r", file, "-Y", "jgroups", "-T", "fields"]).args(fields);
        command.args(["-e", "_ws.expert.message"]).output()
    };
    for name in ["tcp3-crash", "udp3-join-leave", "udp3-rsvp-frag-coordleave", "udp3-relay3"] {
        let file = captures().join(format!("{name}.pcap"));
        let file = file.to_str().expect("text");
        let Ok(out) = tshark(file) else {
            println!("skipped: tshark is not installed");
            return;
        };
        let text = String::from_utf8_lossy(&out.stdout);
        let complaints = String::from_utf8_lossy(&out.stderr);
        assert!(!complaints.contains("Lua"), "{complaints}");
        assert!(!text.contains("end is not known"), "{name}: {text}");
        let mut seen = Vec::new();
        for line in text.lines() {
            let mut columns = line.split('\t');
            let number: u64 = columns.next().and_then(|n| n.parse().ok()).expect("a number");
            match columns.next() {
                Some(protocols) if !protocols.is_empty() => seen.push((number, protocols.into())),
                _ => {}
            }
        }
        assert_eq!(seen, protocols_by_decode(file), "{name}");
    }
}
