//! Processes that join, crash and leave.

mod common;

use common::{Net, PATIENCE, Proc};
use serde_json::Value;
use std::time::{Duration, Instant};

const JOIN_WITHIN: Duration = Duration::from_secs(1);
const NOTICE_WITHIN: Duration = Duration::from_secs(2);
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// A limit is broken when it is broken each time: a machine that is busy with something else makes
/// a run late, a defect makes every run late. Anything but lateness fails at once.
fn in_time(net: fn() -> Net, scenario: fn(&Net, &mut Late)) {
    const RUNS: usize = 3;
    let mut runs = Vec::new();
    while runs.len() < RUNS {
        let mut late = Late::default();
        scenario(&net(), &mut late);
        if late.0.is_empty() {
            return;
        }
        runs.push(late.0);
    }
    panic!("late in each run: {runs:#?}");
}

/// What took longer than it may.
#[derive(Default)]
struct Late(Vec<String>);

impl Late {
    fn check(&mut self, what: &str, took: Duration, limit: Duration) {
        if took >= limit {
            self.0.push(format!("{what}: {took:?}, at most {limit:?}"));
        }
    }
}

/// Members that have the view of all. Each but the first joins quickly.
fn cluster(net: &Net, late: &mut Late, names: &[&str]) -> Vec<Proc> {
    let mut members: Vec<Proc> = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let began = Instant::now();
        let mut p = net.start("chat", name, &[]);
        let (joined, _) = p.view(PATIENCE, &names[..=i]);
        if i > 0 {
            late.check("join", joined - began, JOIN_WITHIN);
        }
        members.push(p);
    }
    for m in &mut members[..names.len() - 1] {
        m.view(PATIENCE, names);
    }
    members
}

fn crashes_are_noticed(net: &Net, late: &mut Late) {
    let mut m = cluster(net, late, &["A", "B", "C", "D"]);
    let killed = m[2].kill();
    for i in [0, 1, 3] {
        let (at, _) = m[i].view(PATIENCE, &["A", "B", "D"]);
        late.check("view without the member", at - killed, NOTICE_WITHIN);
    }
    let killed = m[0].kill();
    for i in [1, 3] {
        let (at, v) = m[i].view(PATIENCE, &["B", "D"]);
        assert_eq!(v["coordinator"], "B");
        late.check("view without the coordinator", at - killed, NOTICE_WITHIN);
    }
}

#[test]
fn udp_crash_of_a_member_and_of_the_coordinator_is_noticed_within_two_seconds() {
    in_time(Net::udp, crashes_are_noticed);
}

#[test]
fn tcp_crash_of_a_member_and_of_the_coordinator_is_noticed_within_two_seconds() {
    in_time(Net::tcp, crashes_are_noticed);
}

fn says(from: &'static str, text: &'static str) -> impl Fn(&Value) -> bool {
    move |v| v["type"] == "message" && v["from"] == from && v["text"] == text
}

/// The first member to leave is the coordinator, whose place the next one takes.
fn leaves_are_quick(net: &Net, late: &mut Late) {
    let mut m = cluster(net, late, &["A", "B", "C"]);
    m[0].write("hello");
    for p in &mut m {
        p.find(PATIENCE, says("A", "hello"));
    }
    let mut a = m.remove(0);
    let began = Instant::now();
    a.close_input();
    for p in &mut m {
        let (at, v) = p.view(PATIENCE, &["B", "C"]);
        late.check("view after a leave", at - began, LEAVE_WITHIN);
        assert_eq!(v["coordinator"], "B");
    }
    let ended = a.end(PATIENCE);
    late.check("leave", began.elapsed(), LEAVE_WITHIN);
    assert_eq!((ended.code, ended.complaints().as_str()), (Some(0), ""));
    m[1].write("still here");
    m[0].find(PATIENCE, says("C", "still here"));

    let began = Instant::now();
    m[1].signal("TERM");
    let (at, _) = m[0].view(PATIENCE, &["B"]);
    late.check("view after a leave", at - began, LEAVE_WITHIN);
    let ended = m.remove(1).end(PATIENCE);
    assert_eq!((ended.code, ended.complaints().as_str()), (Some(143), ""));
    m[0].signal("INT");
    assert_eq!(m.remove(0).end(PATIENCE).code, Some(130));
}

#[test]
fn udp_leaving_by_end_of_input_and_by_signal_is_clean_and_quick() {
    in_time(Net::udp, leaves_are_quick);
}

#[test]
fn tcp_leaving_by_end_of_input_and_by_signal_is_clean_and_quick() {
    in_time(Net::tcp, leaves_are_quick);
}
