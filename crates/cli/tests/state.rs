//! `state`: a file goes from one process to another.

mod common;

use common::{Net, PATIENCE};
use std::path::PathBuf;

const PROTOCOLS: [&str; 3] = ["STATE", "STATE_SOCK", "STATE_TRANSFER"];

/// A file of this test that is removed at its end.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        File(std::env::temp_dir().join(format!("rgroups-state-{}-{name}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a name in ASCII")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn a_file_is_given_and_fetched(net: &Net, protocol: &str) {
    let given = File::new(&format!("{}-{protocol}-given", net.transport));
    let fetched = File::new(&format!("{}-{protocol}-fetched", net.transport));
    let with = ["--protocol", protocol];
    let content: Vec<u8> = (0..300_000u32).map(|n| (n >> 3) as u8).collect();
    std::fs::write(&given.0, &content).expect("written");
    let mut put = net.start_words(
        &["state", "put"],
        "A",
        &[&[given.path(), "--count", "1"], &with[..]].concat(),
    );
    put.view(PATIENCE, &["A"]);
    let get = net.start_words(&["state", "get"], "B", &[&[fetched.path()], &with[..]].concat());
    let get = get.end(PATIENCE);
    assert_eq!(get.code, Some(0), "{}", get.stderr);
    let told = get.object("state");
    assert_eq!((&told["from"], &told["bytes"]), (&"A".into(), &300_000.into()));
    assert!(std::fs::read(&fetched.0).expect("written") == content);
    let put = put.end(PATIENCE);
    assert_eq!(put.code, Some(0), "{}", put.stderr);
    assert_eq!(put.object("state")["to"], "B");
}

#[test]
fn udp_a_file_is_given_and_fetched() {
    for protocol in PROTOCOLS {
        a_file_is_given_and_fetched(&Net::udp(), protocol);
    }
}

#[test]
fn tcp_a_file_is_given_and_fetched() {
    for protocol in PROTOCOLS {
        a_file_is_given_and_fetched(&Net::tcp(), protocol);
    }
}

#[test]
fn without_another_member_there_is_no_state() {
    let file = File::new("none");
    let get = Net::udp().start_words(&["state", "get"], "A", &[file.path()]).end(PATIENCE);
    assert_eq!(get.code, Some(4), "{}", get.stderr);
    assert!(!file.0.exists());
}

#[test]
fn a_member_that_gives_no_state_is_named() {
    let net = Net::udp();
    let file = File::new("refused");
    let mut a = net.start("recv", "A", &[]);
    a.view(PATIENCE, &["A"]);
    let get = net.start_words(&["state", "get"], "B", &[file.path()]).end(PATIENCE);
    assert_eq!(get.code, Some(4), "{}", get.stderr);
    assert!(get.stderr.contains("error[RG0602]") && get.stderr.contains("A: "), "{}", get.stderr);
}
