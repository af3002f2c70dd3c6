//! `up` and `up-ctl`: a cluster of processes, cut and healed.

mod common;

use common::{Ended, Net, PATIENCE, Proc, names};
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A running `up` whose control socket is in a folder of its own.
struct Up {
    proc: Proc,
    folder: PathBuf,
}

impl Up {
    fn start(net: &Net, test: &str, more: &[&str]) -> Up {
        let folder = std::env::temp_dir().join(format!("rgroups-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("created");
        let proc = Self::another(&folder, net, more);
        Up { proc, folder }
    }

    fn another(folder: &std::path::Path, net: &Net, more: &[&str]) -> Proc {
        let mut args = vec!["--json", "up", "--every", "20ms", "--transport", net.transport];
        args.extend(net.settings());
        args.extend(more);
        Proc::start_in(&args, &[("XDG_RUNTIME_DIR", folder.to_str().expect("text"))])
    }

    fn ctl(&self, args: &[&str]) -> Ended {
        let folder = self.folder.to_str().expect("text");
        let all = [&["--json", "up-ctl"], args].concat();
        Proc::start_in(&all, &[("XDG_RUNTIME_DIR", folder)]).end(PATIENCE * 2)
    }

    fn obeys(&self, args: &[&str]) -> Value {
        let ended = self.ctl(args);
        assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.stderr);
        ended.object("reply")
    }

    /// Waits until `member` has installed this view.
    fn view(&mut self, member: &str, members: &[&str]) -> Value {
        let wanted = |v: &Value| v["type"] == "view" && v["member"] == member;
        self.proc.find(PATIENCE, |v| wanted(v) && names(v) == members).1
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn partition_and_heal(net: &Net, test: &str) {
    let mut up = Up::start(net, test, &[]);
    up.view("C", &["A", "B", "C"]);
    let cut = up.obeys(&["partition", "A,B", "/", "C"]);
    assert_eq!(cut["data"]["views"].as_array().map(Vec::len), Some(2), "{cut}");
    let mut alone = false;
    let mut pair = 0;
    while !alone || pair < 2 {
        let (_, v) = up.proc.find(PATIENCE, |v| v["type"] == "view");
        alone |= v["member"] == "C" && names(&v) == ["C"];
        pair += u32::from(v["member"] != "C" && names(&v) == ["A", "B"]);
    }
    let healed = up.obeys(&["heal"]);
    assert_eq!(healed["data"]["merge"], true, "{healed}");
    let mut merged = Vec::new();
    while merged.len() < 3 {
        let (_, v) = up.proc.find(PATIENCE, |v| v["type"] == "view");
        assert_eq!((names(&v).len(), &v["merge"]), (3, &true.into()), "one merge view: {v}");
        merged.push((v["id"].clone(), v["view"].clone()));
    }
    assert!(merged.windows(2).all(|w| w[0] == w[1]), "{merged:?}");
    up.obeys(&["stop"]);
    let Up { proc, .. } = &mut up;
    let ended = std::mem::replace(proc, Proc::start(&["version"])).end(PATIENCE);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let views = ended.objects().into_iter().filter(|o| o["type"] == "view" && o["merge"] == true);
    assert_eq!(views.count(), 0, "nobody merges twice");
}

#[test]
fn udp_a_healed_partition_ends_in_one_merge_view() {
    partition_and_heal(&Net::udp(), "udp");
}

#[test]
fn tcp_a_healed_partition_ends_in_one_merge_view() {
    partition_and_heal(&Net::tcp(), "tcp");
}

#[test]
fn killed_left_and_added_members_show_in_the_views() {
    let mut up = Up::start(&Net::udp(), "members", &[]);
    up.view("C", &["A", "B", "C"]);
    up.obeys(&["kill", "A"]);
    let (_, why) = up.proc.find(PATIENCE, |v| v["type"] == "suspected" && v["suspect"] == "A");
    let said = |key: &str| why[key].as_str().is_some_and(|s| !s.is_empty());
    assert!(why["member"] == "B" && said("by") && said("reason"), "{why}");
    up.view("B", &["B", "C"]);
    up.obeys(&["add", "A"]);
    up.view("A", &["B", "C", "A"]);
    up.obeys(&["leave", "B"]);
    up.view("C", &["C", "A"]);
    let refused = up.ctl(&["kill", "B"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("member B is"), "{}", refused.stderr);
    let status = up.obeys(&["status"]);
    let states = status["data"].as_array().into_iter().flatten();
    let running = states.filter(|m| m["state"] == "member").count();
    assert_eq!(running, 2, "{status}");
}

#[test]
fn a_second_cluster_under_the_same_control_name_is_refused() {
    let mut up = Up::start(&Net::udp(), "second", &["--nodes", "1"]);
    up.view("A", &["A"]);
    let ended = Up::another(&up.folder, &Net::udp(), &["--nodes", "1"]).end(PATIENCE);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("already up"), "{}", ended.stderr);
    let mut other = Up::another(&up.folder, &Net::udp(), &["--nodes", "1", "--control", "other"]);
    other.find(PATIENCE, |v| v["type"] == "joined");
    up.obeys(&["--control", "other", "stop"]);
    assert_eq!(other.end(PATIENCE).code, Some(0));
    assert_eq!(up.obeys(&["status"])["ok"], true, "the first one goes on");
}

#[test]
fn a_cluster_in_one_process_stops_by_itself_after_its_time() {
    let net = Net::udp();
    let began = Instant::now();
    let args = ["--json", "up", "--transport", "inproc", "--for", "3s", "--control", "for-test"];
    let folder = std::env::temp_dir().join(format!("rgroups-{}-for", std::process::id()));
    std::fs::create_dir_all(&folder).expect("created");
    let p = Proc::start_in(&args, &[("XDG_RUNTIME_DIR", folder.to_str().expect("text"))]);
    let ended = p.end(PATIENCE);
    let _ = std::fs::remove_dir_all(&folder);
    assert_eq!(ended.code, Some(0), "{} {net:?}", ended.stderr);
    assert!(began.elapsed() >= Duration::from_secs(3));
    let left: Vec<Value> = ended.objects().into_iter().filter(|o| o["type"] == "left").collect();
    assert_eq!(left.len(), 3);
    assert!(left.iter().all(|o| o["clean"] == true), "{left:?}");
}

#[test]
fn a_signal_to_the_parent_makes_every_member_leave() {
    let mut up = Up::start(&Net::udp(), "signal", &["--nodes", "2"]);
    up.view("B", &["A", "B"]);
    up.proc.signal("TERM");
    let ended = std::mem::replace(&mut up.proc, Proc::start(&["version"])).end(PATIENCE);
    assert_eq!(ended.code, Some(143), "{}", ended.stderr);
    let clean = ended.objects().iter().filter(|o| o["clean"] == true).count();
    assert_eq!(clean, 2, "{ended:?}");
}

/// The left neighbour of the member that stands still goes meanwhile, so another one looks for it.
#[test]
fn a_member_that_stands_still_for_less_than_the_timeout_is_not_excluded() {
    let mut up = Up::start(&Net::tcp(), "pause", &["-D", "FD_ALL3.timeout=10m"]);
    let whole = up.view("C", &["A", "B", "C"]);
    let refused = up.ctl(&["pause", "X", "1s"]);
    assert!(refused.stderr.contains("no member \"X\""), "{}", refused.stderr);
    // It is let go on by hand, so that nothing depends on how fast this machine is.
    up.obeys(&["pause", "C", "9m"]);
    let status = up.obeys(&["status"]);
    let paused = |m: &Value| m["member"] == "C" && m["state"] == "paused";
    assert!(status["data"].as_array().is_some_and(|l| l.iter().any(paused)), "{status}");
    let pair_at = |up: &mut Up, member: &str| {
        up.proc.find(PATIENCE, |v| {
            assert_ne!(v["suspect"], "C", "{v}");
            v["type"] == "view" && v["member"] == member && names(v) == ["A", "C"]
        });
    };
    up.obeys(&["kill", "B"]);
    pair_at(&mut up, "A");
    let status = up.obeys(&["status"]);
    let of_old_view = |m: &Value| m["member"] == "C" && m["view"] == whole["view"];
    assert!(status["data"].as_array().is_some_and(|l| l.iter().any(of_old_view)), "{status}");
    up.obeys(&["pause", "C", "0s"]);
    pair_at(&mut up, "C");
    let status = up.obeys(&["status"]);
    assert!(!status["data"].as_array().is_some_and(|l| l.iter().any(paused)), "{status}");
    up.obeys(&["stop"]);
    let ended = std::mem::replace(&mut up.proc, Proc::start(&["version"])).end(PATIENCE);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.objects().iter().any(|v| v["suspect"] == "C"), "{:?}", ended.stdout);
}
