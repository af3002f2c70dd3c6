//! `serve` and `request`: a program answers calls, and every member has a row.

mod common;

use common::{Ended, Net, PATIENCE, Proc};
use serde_json::Value;

/// The rows of a request, by member.
fn rows(ended: &Ended) -> Vec<(String, Value)> {
    let objects = ended.objects();
    let rows = objects.iter().filter(|o| o["type"] == "row");
    rows.map(|o| (o["member"].as_str().unwrap_or_default().to_owned(), o.clone())).collect()
}

fn serving(net: &Net, name: &str, view: &[&str], more: &[&str]) -> Proc {
    let mut p = net.start("serve", name, more);
    p.view(PATIENCE, view);
    p
}

fn request(net: &Net, more: &[&str]) -> Ended {
    net.start("request", "A", more).end(PATIENCE * 2)
}

fn answered(net: &Net) {
    let mut b = serving(net, "B", &["B"], &["greet", "--", "echo", "hello from B to"]);
    let _c = serving(net, "C", &["B", "C"], &["greet", "--", "sh", "-c", "echo no >&2; exit 3"]);
    b.view(PATIENCE, &["B", "C"]);

    let all = request(net, &["greet", "you", "--members", "3"]);
    assert_eq!(all.code, Some(5), "{all:?}");
    let mut of_all = rows(&all);
    of_all.sort_by(|a, b| a.0.cmp(&b.0));
    let [(first, answer), (second, failure)] = &of_all[..] else { panic!("two rows: {all:?}") };
    assert_eq!((first.as_str(), &answer["value"]), ("B", &"hello from B to you".into()));
    assert_eq!((second.as_str(), &failure["error"]["message"]), ("C", &"no".into()));
    assert_eq!(failure["error"]["code"], "RG0807");

    let one = request(net, &["greet", "you", "int:7", "--to", "B", "--members", "3"]);
    assert_eq!(one.code, Some(0), "{one:?}");
    let [(name, row)] = &rows(&one)[..] else { panic!("one row: {one:?}") };
    assert_eq!((name.as_str(), &row["value"]), ("B", &"hello from B to you 7".into()));
    let told = "hello from B to you 7";
    b.find(PATIENCE, |v| v["type"] == "served" && v["value"] == told);

    let unknown = request(net, &["absent", "--to", "B", "--members", "3"]);
    assert_eq!(unknown.code, Some(5), "{unknown:?}");
    assert_eq!(rows(&unknown)[0].1["error"]["code"], "RG0806");
}

#[test]
fn a_program_answers_and_every_member_has_a_row_over_udp() {
    answered(&Net::udp());
}

#[test]
fn a_program_answers_and_every_member_has_a_row_over_tcp() {
    answered(&Net::tcp());
}

#[test]
fn a_value_that_its_type_cannot_have_is_wrong_usage() {
    let ended = request(&Net::udp(), &["m", "int:x"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
}
