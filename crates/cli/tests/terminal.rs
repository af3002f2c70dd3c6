//! What a person at a terminal sees: commands end when told to.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A member alone in its group, with standard input that stays open and silent.
fn chat(mcast_port: &str) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rgroups"))
        .args(["chat", "alone", "-n", "A", "-D", "UDP.bind_addr=127.0.0.1", "-D", mcast_port])
        .args(["-D", "GMS.join_timeout=100ms", "-D", "PING.join_wait=100ms"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut first = String::new();
    let out = child.stdout.as_mut().expect("its output is ours");
    BufReader::new(out).read_line(&mut first).expect("it prints");
    assert!(first.contains("[A|0]"), "{first}");
    child
}

fn ended(child: &mut Child, within: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < within {
        if let Some(status) = child.try_wait().expect("our own child") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

#[test]
fn a_signal_ends_a_chat_that_waits_for_a_line() {
    let mut child = chat("UDP.mcast_port=45711");
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(told.expect("kill runs").success());
    let status = ended(&mut child, Duration::from_secs(10));
    let _ = child.kill();
    assert_eq!(status.and_then(|s| s.code()), Some(143));
}
