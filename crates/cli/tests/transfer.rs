//! `send` and `recv`: everything arrives, once, in order, and nobody holds more than it may.

mod common;

use common::{Net, PATIENCE, Proc, names};
use serde_json::Value;
use std::time::Duration;

const MB: u64 = 1_000_000;
const MEMBERS: u64 = 3;
/// The program itself, its threads and buffers.
const BASE: u64 = 24 * MB;
/// STABLE.max_bytes in both presets.
const STABLE_BYTES: u64 = 4 * MB;

/// What a member may hold besides the messages: credit it granted or was granted (MFC and UFC), and
/// what is kept until it is stable, for each member.
fn allowed(net: &Net, message: u64) -> u64 {
    let max_credits = if net.transport == "udp" { 4 * MB } else { 2 * MB };
    BASE + message + MEMBERS * (2 * max_credits + STABLE_BYTES)
}

fn receivers(net: &Net, count: u64) -> Vec<Proc> {
    let count = count.to_string();
    let start = |name| net.start("recv", name, &["--summary", "--count", &count]);
    let mut b = start("B");
    b.view(PATIENCE, &["B"]);
    vec![b, start("C")]
}

/// One member sends as `how` says, two receive: their counts and hashes are the sender's.
fn transfer(net: &Net, messages: u64, bytes: u64, how: &[&str]) {
    let receivers = receivers(net, messages);
    let more = [&["--members", "3"], how].concat();
    let sender = net.start("send", "A", &more);
    let sent = sender.end(PATIENCE * 2);
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    let sent = sent.object("summary");
    assert_eq!((&sent["messages"], &sent["bytes"]), (&messages.into(), &bytes.into()));
    let mut all = vec![sent.clone()];
    for r in receivers {
        let r = r.end(PATIENCE);
        assert_eq!(r.code, Some(0), "{}", r.stderr);
        let got = r.object("summary");
        for field in ["messages", "bytes", "sha256"] {
            assert_eq!(got[field], sent[field], "{field}");
        }
        assert_eq!(got["from"], "A");
        all.push(got);
    }
    let limit = allowed(net, bytes / messages);
    for peak in all.iter().filter_map(|s| s["peak_memory"].as_u64()) {
        assert!(peak <= limit, "peak memory {peak}, allowed {limit}");
    }
}

/// How much more than usual to send: `RGROUPS_TRANSFER_FACTOR=20` with a release build sends a million
/// small messages, and files of 100 MB.
fn factor() -> u64 {
    std::env::var("RGROUPS_TRANSFER_FACTOR").ok().and_then(|f| f.parse().ok()).unwrap_or(1)
}

fn small_messages(net: &Net) {
    let count = 50_000 * factor();
    let how = ["--count", &count.to_string(), "--size", "100"];
    transfer(net, count, 100 * count, &how);
}

#[test]
fn udp_many_small_messages_arrive_once_and_in_order() {
    small_messages(&Net::udp());
}

#[test]
fn tcp_many_small_messages_arrive_once_and_in_order() {
    small_messages(&Net::tcp());
}

fn large_message(net: &Net) {
    let name = format!("rgroups-transfer-{}-{}", net.transport, std::process::id());
    let path = std::env::temp_dir().join(name);
    let content: Vec<u8> = (0..5 * MB * factor()).map(|i| (i.wrapping_mul(i) >> 8) as u8).collect();
    std::fs::write(&path, &content).expect("written");
    let file = path.to_str().expect("text");
    transfer(net, 1, content.len() as u64, &["--file", file]);
    let _ = std::fs::remove_file(&path);
}

#[test]
fn udp_one_large_message_arrives_whole() {
    large_message(&Net::udp());
}

#[test]
fn tcp_one_large_message_arrives_whole() {
    large_message(&Net::tcp());
}

#[test]
fn a_unicast_reaches_the_member_it_names_and_nobody_else() {
    let net = Net::udp();
    let mut b = net.start("recv", "B", &[]);
    b.view(PATIENCE, &["B"]);
    let mut c = net.start("recv", "C", &[]);
    c.find(PATIENCE, |v| names(v).len() == 2);
    let sent = net.start("send", "A", &["--members", "3", "--to", "C", "--", "just", "you"]);
    assert_eq!(sent.end(PATIENCE).code, Some(0));
    let is_message = |v: &Value| v["type"] == "message";
    let (_, got) = c.find(PATIENCE, is_message);
    assert_eq!((&got["from"], &got["text"]), (&"A".into(), &"just you".into()));
    let to_all = net.start("send", "A2", &["--members", "3", "--", "everybody"]);
    assert_eq!(to_all.end(PATIENCE).code, Some(0));
    assert_eq!(b.find(PATIENCE, is_message).1["text"], "everybody");
}

#[test]
fn a_receiver_that_gets_too_little_in_its_time_says_so_by_its_exit_code() {
    let r = Net::udp().start("recv", "B", &["--count", "1", "--for", "200ms"]);
    assert_eq!(r.end(PATIENCE).code, Some(5));
}

#[test]
fn a_sender_that_waits_for_members_in_vain_fails_and_names_who_is_there() {
    let s = Net::udp().start("send", "A", &["--members", "2", "--timeout", "2s", "--", "x"]);
    let ended = s.end(Duration::from_secs(20));
    assert_eq!(ended.code, Some(4));
    assert!(ended.stderr.contains("1 of 2 members"), "{}", ended.stderr);
}
