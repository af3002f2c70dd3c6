//! How many instructions the parts of a busy member take, counted by valgrind and compared with what is
//! recorded beside this file: unlike time, a count is the same on a busy machine. Fails if one has grown by
//! more than 5 %. Without valgrind, or without optimisation, it says so and counts nothing:
//!
//! ```sh
//! cargo test --release -p rgroups-core --test instructions              # compare
//! RGROUPS_RECORD=1 cargo test --release -p rgroups-core --test instructions   # record
//! ```

#[path = "../allocations/cluster.rs"]
mod cluster;

use bytes::{Bytes, BytesMut};
use cluster::Cluster;
use rgroups_core::wire::header::NakAckHeader;
use rgroups_core::wire::{
    Address, Body, Flags, Frame, FrameWriter, Header, Message, ProtId, RowStart, Uuid,
};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A count may be so much larger than the recorded one.
const TOLERANCE: f64 = 0.05;
const SRC: Uuid = Uuid::new(7 << 32, 7);
const CLUSTER: Bytes = Bytes::from_static(b"steady");

/// A load by its name: it prepares itself, lets [`measured`] run what counts, and tells how often that
/// was done.
type Load = (&'static str, fn() -> u64);

const LOADS: [Load; 8] = [
    ("a message of 64 bytes: written in a packet that is a row", write_row),
    ("a message of 64 bytes: read from a packet that is a row", read_row),
    ("a message of 64 bytes: written in a packet that is no row", write_list),
    ("a message of 64 bytes: read from a packet that is no row", read_list),
    ("a delivery of 64 bytes: four members, all layers, in rows", || steady(64, 500, false)),
    ("a delivery of 1000 bytes: four members, all layers, in rows", || steady(1000, 200, false)),
    ("a delivery of 64 bytes: four members, all layers, one by one", || steady(64, 500, true)),
    ("a delivery of 64 bytes: four members, one message in a turn", || steady(64, 1, false)),
];

/// Only what runs in here is counted.
#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    work();
}

fn payloads() -> Vec<Bytes> {
    let all = Bytes::from(vec![7; 64 * 600]);
    (0..600).map(|i| all.slice(i * 64..(i + 1) * 64)).collect()
}

fn start() -> RowStart {
    RowStart { src: SRC, cluster: CLUSTER, prot: ProtId::NAKACK2, first: 1_000_000 }
}

fn write_row() -> u64 {
    let (start, payloads) = (start(), payloads());
    let mut packet = BytesMut::with_capacity(100_000);
    measured(&mut || start.encode(black_box(&payloads), &mut packet));
    payloads.len() as u64
}

fn read_row() -> u64 {
    let mut packet = BytesMut::new();
    start().encode(&payloads(), &mut packet);
    let packet = packet.freeze();
    measured(&mut || assert!(RowStart::decode(black_box(&packet)).is_some()));
    payloads().len() as u64
}

fn messages() -> Vec<Message> {
    let numbered = |(payload, n): (Bytes, i64)| {
        let m = Message::multicast(Body::bytes(payload)).with_flags(Flags::NO_FC);
        let m = m.with_header(ProtId::NAKACK2, Header::NakAck(NakAckHeader::Msg(n)));
        Message { src: Some(SRC.into()), ..m }
    };
    payloads().into_iter().zip(1_000_000..).map(numbered).collect()
}

fn write_list() -> u64 {
    let (messages, src) = (messages(), Address::Uuid(SRC));
    let mut packet = BytesMut::with_capacity(100_000);
    measured(&mut || {
        let writer = FrameWriter::new(None, &src, b"steady");
        writer.encode_list(black_box(&messages).iter(), &mut packet);
    });
    messages.len() as u64
}

fn read_list() -> u64 {
    let (messages, src) = (messages(), Address::Uuid(SRC));
    let mut packet = BytesMut::new();
    FrameWriter::new(None, &src, b"steady").encode_list(messages.iter(), &mut packet);
    let packet = packet.freeze();
    measured(&mut || assert!(Frame::decode(black_box(packet.clone())).is_ok()));
    messages.len() as u64
}

/// Members that send so many messages in every turn; once buffers have grown.
fn steady(size: usize, messages: usize, apart: bool) -> u64 {
    let mut cluster = Cluster::formed(4);
    cluster.apart = apart;
    let payload = Bytes::from(vec![7; size]);
    let turns = (2_000 / messages).clamp(10, 200);
    (0..turns).for_each(|_| cluster.burst(messages, &payload));
    let delivered = cluster.delivered();
    measured(&mut || (0..turns).for_each(|_| cluster.burst(messages, &payload)));
    cluster.delivered() - delivered
}

/// Instructions of one unit of the load, by counting in a process of its own.
fn count(name: &str) -> Result<f64, String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.args(["--toggle-collect=*measured*", "--"]).arg(me).args(["--load", name]);
    let done = valgrind.output().map_err(|e| format!("valgrind: {e}"))?;
    let (units, said) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let collected = said.lines().find_map(|l| l.split_once("Collected :"));
    let collected = collected.and_then(|(_, n)| n.trim().parse::<f64>().ok());
    match (collected, units.trim().parse::<f64>()) {
        (Some(n), Ok(units)) if n > 0.0 && units > 0.0 => Ok(n / units),
        _ => Err(format!("valgrind counted nothing for {name:?}:\n{said}")),
    }
}

fn recorded_at() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/instructions/recorded.txt")
}

/// Lines of a count and a name.
fn recorded() -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(recorded_at()).unwrap_or_default();
    let lines = text.lines().filter_map(|l| l.trim().split_once(' '));
    lines.filter_map(|(n, name)| Some((name.trim().to_owned(), n.parse().ok()?))).collect()
}

/// What is wrong with a count, if anything.
fn verdict(before: Option<f64>, now: f64) -> Option<&'static str> {
    match before {
        None => Some("not recorded: see the head of tests/instructions/main.rs"),
        Some(before) if now > before * (1.0 + TOLERANCE) => {
            Some("more than 5 % above what is recorded")
        }
        Some(_) => None,
    }
}

fn compare() -> Result<bool, String> {
    let before = recorded();
    let record = std::env::var_os("RGROUPS_RECORD").is_some();
    let (mut lines, mut good) = (String::new(), true);
    for (name, _) in LOADS {
        let now = count(name)?;
        let was = before.get(name).copied();
        let wrong = verdict(was, now).filter(|_| !record);
        good &= wrong.is_none();
        let was = was.map_or("-".to_owned(), |n| format!("{n:.0}"));
        println!(
            "{now:7.0} {was:>7} {name}{}",
            wrong.map_or(String::new(), |w| format!("  <- {w}"))
        );
        lines += &format!("{now:.0} {name}\n");
    }
    if record {
        std::fs::write(recorded_at(), lines).map_err(|e| e.to_string())?;
    }
    Ok(good)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|a| a == "--load") {
        let load =
            LOADS.iter().find(|(name, _)| Some(*name) == args.get(at + 1).map(String::as_str));
        let Some((_, load)) = load else { return ExitCode::from(2) };
        println!("{}", load());
        return ExitCode::SUCCESS;
    }
    assert_eq!(verdict(Some(100.0), 104.0), None);
    assert!(verdict(Some(100.0), 106.0).is_some() && verdict(None, 1.0).is_some());
    if cfg!(debug_assertions) {
        println!("instructions: skipped, as this build is not optimised (use --release)");
        return ExitCode::SUCCESS;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: skipped, as there is no valgrind on this machine");
        return ExitCode::SUCCESS;
    }
    match compare() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}
