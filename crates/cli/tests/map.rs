//! `map`: what one member puts another reads, and whoever watches sees it.

mod common;

use common::{Ended, Net, PATIENCE};
use serde_json::{Value, json};

fn run(net: &Net, words: &[&str]) -> Ended {
    let members = ["--members", "2"];
    net.start("map", "A", &[words, &members].concat()).end(PATIENCE * 2)
}

fn of_type(ended: &Ended, kind: &str) -> Vec<Value> {
    ended.objects().iter().filter(|o| o["type"] == kind).cloned().collect()
}

fn shared(net: &Net) {
    let mut watching = net.start("map", "W", &["watch"]);
    watching.find(PATIENCE, |v| v["type"] == "watching");

    assert_eq!(run(net, &["put", "colour", "blue"]).code, Some(0));
    assert_eq!(run(net, &["put", "int:1", "long:2"]).code, Some(0));
    watching.find(PATIENCE, |v| v["type"] == "set" && v["key"] == "colour" && v["value"] == "blue");

    let got = run(net, &["get", "colour"]);
    assert_eq!((got.code, &of_type(&got, "value")[0]["value"]), (Some(0), &json!("blue")));
    let none = run(net, &["get", "1"]);
    assert_eq!((none.code, &of_type(&none, "value")[0]["value"]), (Some(5), &Value::Null));
    let listed = run(net, &["list"]);
    let entries = of_type(&listed, "entry");
    assert_eq!(entries.len(), 2, "{listed:?}");
    assert!(entries.iter().any(|e| e["key"] == 1 && e["value"] == 2), "{entries:?}");

    let deleted = run(net, &["del", "colour"]);
    assert_eq!((deleted.code, &of_type(&deleted, "value")[0]["value"]), (Some(0), &json!("blue")));
    watching.find(PATIENCE, |v| v["type"] == "removed" && v["key"] == "colour");
}

#[test]
fn members_share_a_map_over_udp() {
    shared(&Net::udp());
}

#[test]
fn members_share_a_map_over_tcp() {
    shared(&Net::tcp());
}

#[test]
fn what_is_no_key_is_wrong_usage() {
    let net = Net::udp();
    for words in [&["get"][..], &["put", "k"], &["get", "int:x"], &["list", "k"]] {
        assert_eq!(net.start("map", "A", words).end(PATIENCE).code, Some(2), "{words:?}");
    }
    let null = net.start("map", "A", &["put", "k", "null:"]).end(PATIENCE);
    assert_eq!(null.code, Some(1), "{null:?}");
}
