//! `bench`: members and bare sockets in processes of their own, and results side by side.

mod common;

use common::{Ended, PATIENCE, Proc, run};
use serde_json::{Value, json};

fn bench(args: &[&str]) -> Ended {
    Proc::start(&[&["--json", "bench"], args].concat()).end(PATIENCE * 2)
}

/// Three members with two senders, beside bare sockets.
fn everybody_receives_everything(transport: &str) {
    let load = ["mcast", "--transport", transport, "--nodes", "3", "--senders", "2"];
    let amount = ["--size", "100", "--count", "500", "--rounds", "2", "--warm-up", "0", "--floor"];
    let ended = bench(&[&load[..], &amount].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let result = ended.objects().pop().expect("a result");
    assert_eq!(result["rounds"].as_array().map(Vec::len), Some(2), "{result}");
    for round in result["rounds"].as_array().expect("rounds") {
        assert_eq!(round["delivered"], json!(2 * 3 * 500), "{round}");
        assert_eq!(round["floor"]["delivered"], round["delivered"], "{round}");
        let p50 = round["latency_us"]["p50"].as_f64().expect("a number");
        assert!(p50 > 0.0, "{round}");
    }
    assert!(result["rate_ratio_to_floor"].as_f64().is_some_and(|r| r > 0.0), "{result}");
}

#[test]
fn everybody_receives_everything_over_udp() {
    everybody_receives_everything("udp");
}

#[test]
fn everybody_receives_everything_over_tcp() {
    everybody_receives_everything("tcp");
}

/// The command fails if two members received them in different orders.
#[test]
fn all_messages_come_in_one_order_where_that_is_asked_for() {
    for transport in ["udp", "tcp"] {
        let load = ["mcast", "--order", "total", "--transport", transport, "--nodes", "3"];
        let amount = ["--size", "100", "--count", "500", "--rounds", "1", "--warm-up", "0"];
        let ended = bench(&[&load[..], &amount].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let result = ended.objects().pop().expect("a result");
        assert_eq!(result["order"], json!("total"), "{result}");
        assert_eq!(result["rounds"][0]["delivered"], json!(3 * 3 * 500), "{result}");
    }
}

#[test]
fn bare_sockets_can_be_measured_alone() {
    for transport in ["udp", "tcp"] {
        let few = ["--nodes", "3", "--size", "100", "--count", "500", "--rounds", "1"];
        let ended = bench(&[&[transport][..], &few, &["--warm-up", "0"]].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let result = ended.objects().pop().expect("a result");
        assert_eq!(result["bench"], json!(transport));
        assert_eq!(result["rounds"][0]["delivered"], json!(3 * 3 * 500), "{result}");
    }
}

#[test]
fn loss_and_a_slow_receiver_are_survived() {
    for transport in ["udp", "tcp"] {
        let few = ["mcast", "--transport", transport, "--nodes", "3", "--size", "100"];
        let hard = ["--count", "500", "--rounds", "1", "--loss", "0.05", "--slow", "1ms"];
        let ended = bench(&[&few[..], &hard, &["--warm-up", "0"]].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let result = ended.objects().pop().expect("a result");
        assert_eq!(result["rounds"][0]["delivered"], json!(3 * 3 * 500), "{result}");
        assert!(result["rounds"][0]["retransmitted"].as_u64().is_some_and(|n| n > 0), "{result}");
    }
}

#[test]
fn a_table_has_a_line_for_each_load_and_says_what_failed() {
    let one = ["table", "--only", "one sends 1 KB, udp", "--time", "100ms", "--rounds", "1"];
    let ended = bench(&one);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let line = ended.objects().pop().expect("a line");
    assert!(line["result"]["rate_ratio_to_floor"].as_f64().is_some_and(|r| r > 0.0), "{line}");
    assert_eq!(bench(&["overload", "--only", "no such load"]).code, Some(2));
}

#[test]
fn members_of_jgroups_have_the_same_load() {
    let few = ["mcast", "--nodes", "2", "--size", "100", "--count", "500", "--peer", "java"];
    let Ok(_) = std::env::var("RGROUPS_JGROUPS_CP") else {
        println!("skipped: RGROUPS_JGROUPS_CP is not set");
        let ended = bench(&few);
        assert_eq!(ended.code, Some(2));
        assert!(ended.stderr.contains("RGROUPS_JGROUPS_CP is not set"), "{}", ended.stderr);
        return;
    };
    let ended = bench(&[&few[..], &["--rounds", "1", "--warm-up", "0"]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let result = ended.objects().pop().expect("a result");
    assert_eq!(result["rounds"][0]["java"]["delivered"], json!(2 * 2 * 500), "{result}");
    assert!(result["rate_ratio_to_java"].as_f64().is_some_and(|r| r > 0.0), "{result}");
}

fn median(ended: &Ended, of: &str) -> f64 {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let result = ended.objects().pop().expect("a result");
    let value = result["median"][of].as_f64();
    value.unwrap_or_else(|| panic!("no {of} in {result}"))
}

#[test]
fn every_call_is_answered() {
    for transport in ["udp", "tcp"] {
        let few = ["--transport", transport, "--nodes", "3", "--count", "50", "--rounds", "1"];
        let few = [&few[..], &["--warm-up", "5"]].concat();
        assert!(median(&bench(&[&["rtt"][..], &few].concat()), "latency_p50_us") > 0.0);
        for level in ["receive", "contiguous", "deliver"] {
            let rsvp = [&["rsvp", "--level", level][..], &few].concat();
            assert!(median(&bench(&rsvp), "latency_p50_us") > 0.0, "{level}");
        }
    }
}

#[test]
fn members_call_each_other_for_a_time() {
    for transport in ["udp", "tcp"] {
        let few = ["--transport", transport, "--nodes", "3", "--callers", "5", "--size", "100"];
        let short = ["--time", "300ms", "--warm-up", "100ms", "--rounds", "2"];
        let ended = bench(&[&["rpc"][..], &few, &short].concat());
        for value in ["calls_per_s", "read_p50_us", "write_p50_us"] {
            assert!(median(&ended, value) > 0.0, "{value}");
        }
        let result = ended.objects().pop().expect("a result");
        for round in result["rounds"].as_array().expect("rounds") {
            let took = round["wall_s"].as_f64().expect("a number");
            assert!((0.3..20.0).contains(&took), "{round}");
        }
        // One member calls, all of it to all others.
        let one = ["--clients", "1", "--callers", "1", "--reads", "0", "--copies", "2"];
        let ended = bench(&[&["rpc", "--nodes", "3"][..], &one, &short].concat());
        assert!(median(&ended, "write_p50_us") > 0.0);
        assert!(median(&ended, "read_p50_us") <= 0.0);
    }
}

#[test]
fn members_go_and_come_and_all_see_it() {
    for transport in ["udp", "tcp"] {
        let few = ["--transport", transport, "--nodes", "3", "--rounds", "2"];
        let crash = bench(&[&["crash", "--oldest"][..], &few].concat());
        assert!(median(&crash, "last_ms") >= median(&crash, "first_ms"));
        let join = bench(&[&["join"][..], &few].concat());
        assert!(median(&join, "last_ms") > 0.0);
    }
}

#[test]
fn members_that_install_views_together_go_and_come_as_well() {
    let few = ["--nodes", "3", "--rounds", "2", "-D", "GMS.view_synchrony=true"];
    let crash = bench(&[&["crash", "--oldest"][..], &few].concat());
    assert!(median(&crash, "last_ms") >= median(&crash, "first_ms"));
    let join = bench(&[&["join"][..], &few].concat());
    assert!(median(&join, "last_ms") > 0.0);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for wrong in [
        &["mcast", "--nodes", "3", "--senders", "4"][..],
        &["mcast", "--transport", "inproc"],
        &["mcast", "--size", "15"],
        &["mcast", "--loss", "0.6"],
        &["udp", "--floor"],
        &["tcp", "--order", "total"],
        &["rtt", "--nodes", "1"],
        &["rsvp", "--level", "twice"],
        &["rpc", "--nodes", "3", "--copies", "3"],
        &["rpc", "--nodes", "3", "--clients", "4"],
        &["rpc", "--reads", "101"],
        &["crash", "--transport", "inproc"],
    ] {
        assert_eq!(bench(wrong).code, Some(2), "{wrong:?}");
    }
}

#[test]
fn a_slower_result_is_found() {
    let folder = std::env::temp_dir().join(format!("rgroups-{}-compare", std::process::id()));
    std::fs::create_dir_all(&folder).expect("created");
    let write = |name: &str, v: Value| {
        let path = folder.join(name);
        std::fs::write(&path, v.to_string()).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let result = |rate: u64, size: u64| json!({"schema": 1, "bench": "mcast", "size": size, "median": {"msgs_per_s": rate}});
    let (fast, slow) = (write("fast", result(1000, 64)), write("slow", result(900, 64)));
    let compare = |before: &str, after: &str| run(&["--json", "bench", "compare", before, after]);
    assert_eq!(compare(&slow, &fast).code, Some(0));
    let worse = compare(&fast, &slow);
    assert_eq!(worse.code, Some(6), "{}", worse.stderr);
    assert_eq!(worse.objects()[0]["rows"][0]["worse"], json!(true));
    let other = compare(&fast, &write("other", result(1000, 65)));
    assert_eq!(other.code, Some(2));
    assert!(other.stderr.contains("size is 64 and 65"), "{}", other.stderr);
    assert_eq!(compare(&fast, &write("none", json!({"schema": 1}))).code, Some(1));
    let _ = std::fs::remove_dir_all(&folder);
}
