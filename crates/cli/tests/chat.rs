//! Processes that join, crash and leave.

mod common;

use common::{Net, PATIENCE, Proc};
use serde_json::Value;
use std::time::{Duration, Instant};

const JOIN_WITHIN: Duration = Duration::from_secs(1);
const NOTICE_WITHIN: Duration = Duration::from_secs(2);
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// Members that have the view of all. Each but the first joins quickly.
fn cluster(net: &Net, names: &[&str]) -> Vec<Proc> {
    let mut members: Vec<Proc> = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let began = Instant::now();
        let mut p = net.start("chat", name, &[]);
        let (joined, _) = p.view(PATIENCE, &names[..=i]);
        assert!(i == 0 || joined - began < JOIN_WITHIN, "{name}: {:?}", joined - began);
        members.push(p);
    }
    for m in &mut members[..names.len() - 1] {
        m.view(PATIENCE, names);
    }
    members
}

fn crashes_are_noticed(net: &Net) {
    let mut m = cluster(net, &["A", "B", "C", "D"]);
    let killed = m[2].kill();
    for i in [0, 1, 3] {
        let (at, _) = m[i].view(PATIENCE, &["A", "B", "D"]);
        assert!(at - killed < NOTICE_WITHIN, "member: {:?}", at - killed);
    }
    let killed = m[0].kill();
    for i in [1, 3] {
        let (at, v) = m[i].view(PATIENCE, &["B", "D"]);
        assert_eq!(v["coordinator"], "B");
        assert!(at - killed < NOTICE_WITHIN, "coordinator: {:?}", at - killed);
    }
}

#[test]
fn udp_crash_of_a_member_and_of_the_coordinator_is_noticed_within_two_seconds() {
    crashes_are_noticed(&Net::udp());
}

#[test]
fn tcp_crash_of_a_member_and_of_the_coordinator_is_noticed_within_two_seconds() {
    crashes_are_noticed(&Net::tcp());
}

fn says(from: &'static str, text: &'static str) -> impl Fn(&Value) -> bool {
    move |v| v["type"] == "message" && v["from"] == from && v["text"] == text
}

/// The first member to leave is the coordinator, whose place the next one takes.
fn leaves_are_quick(net: &Net) {
    let mut m = cluster(net, &["A", "B", "C"]);
    m[0].write("hello");
    for p in &mut m {
        p.find(PATIENCE, says("A", "hello"));
    }
    let mut a = m.remove(0);
    let began = Instant::now();
    a.close_input();
    for p in &mut m {
        let (at, v) = p.view(PATIENCE, &["B", "C"]);
        assert!(at - began < LEAVE_WITHIN, "{:?}", at - began);
        assert_eq!(v["coordinator"], "B");
    }
    let ended = a.end(PATIENCE);
    assert!(began.elapsed() < LEAVE_WITHIN, "{:?}", began.elapsed());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    m[1].write("still here");
    m[0].find(PATIENCE, says("C", "still here"));

    let began = Instant::now();
    m[1].signal("TERM");
    let (at, _) = m[0].view(PATIENCE, &["B"]);
    assert!(at - began < LEAVE_WITHIN, "{:?}", at - began);
    let ended = m.remove(1).end(PATIENCE);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(143), ""));
    m[0].signal("INT");
    assert_eq!(m.remove(0).end(PATIENCE).code, Some(130));
}

#[test]
fn udp_leaving_by_end_of_input_and_by_signal_is_clean_and_quick() {
    leaves_are_quick(&Net::udp());
}

#[test]
fn tcp_leaving_by_end_of_input_and_by_signal_is_clean_and_quick() {
    leaves_are_quick(&Net::tcp());
}
