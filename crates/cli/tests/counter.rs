//! `counter`: what one process leaves the next one finds, as long as a member has it.

mod common;

use common::{Ended, Net, PATIENCE, Proc};

fn start(net: &Net, name: &str, more: &[&str]) -> Proc {
    let mut args = vec!["--json", "counter", "tickets"];
    args.extend(more);
    args.extend(["-n", name]);
    args.extend(net.options());
    Proc::start(&args)
}

fn counter(net: &Net, more: &[&str]) -> Ended {
    let mut all = more.to_vec();
    all.extend(["--members", "2"]);
    start(net, "B", &all).end(PATIENCE * 2)
}

/// What it printed.
fn value(ended: &Ended) -> i64 {
    ended.objects()[0]["value"].as_i64().unwrap_or_else(|| panic!("{ended:?}"))
}

fn shared(net: &Net) {
    let mut keeper = start(net, "A", &["watch", "--every", "100ms"]);
    keeper.find(PATIENCE, |v| v["type"] == "counter" && v["value"] == 0);

    for (words, after, code) in [
        (&["add", "5"][..], 5, 0),
        (&["add", "-7"][..], -2, 0),
        (&["cas", "-2", "40"][..], 40, 0),
        (&["cas", "-2", "50"][..], 40, 6),
        (&["add"][..], 41, 0),
        (&["set", "100"][..], 100, 0),
        (&["get"][..], 100, 0),
    ] {
        let ended = counter(net, words);
        assert_eq!((value(&ended), ended.code), (after, Some(code)), "{words:?}: {ended:?}");
    }
    keeper.find(PATIENCE, |v| v["type"] == "counter" && v["value"] == 100);
}

#[test]
fn what_one_process_leaves_the_next_one_finds_over_udp() {
    shared(&Net::udp());
}

#[test]
fn what_one_process_leaves_the_next_one_finds_over_tcp() {
    shared(&Net::tcp());
}

#[test]
fn a_coordinator_without_counter_costs_the_deadline_and_is_named() {
    let net = Net::udp();
    let mut args = vec!["--json", "view", "shared", "--follow", "-n", "A"];
    args.extend(net.options());
    let mut other = Proc::start(&args);
    other.view(PATIENCE, &["A"]);
    let ended = counter(&net, &["add", "1", "--within", "1s"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let error = &ended.objects()[0]["error"];
    assert_eq!(error["code"], "RG0902", "{error}");
    assert!(error["message"].as_str().is_some_and(|m| m.contains("tickets")), "{error}");
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    for words in [&["add", "five"][..], &["cas", "1"], &["get", "1"], &["double"]] {
        let ended = start(&Net::udp(), "B", words).end(PATIENCE);
        assert_eq!(ended.code, Some(2), "{words:?}: {ended:?}");
    }
}
