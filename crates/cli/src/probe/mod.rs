//! `probe`: asks the diagnostics handlers of members, of Java and of this toolkit, without joining.

mod answer;
mod ask;

use crate::args::ProbeArgs;
use crate::failure::Failure;
use crate::output;
use answer::Answer;
use ask::Question;
use serde_json::json;
use sha1::{Digest, Sha1};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

/// The group of JGroups' diagnostics handlers.
const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(224, 0, 75, 75));

/// Runs the command.
pub(crate) fn run(a: &ProbeArgs, json: bool) -> Result<u8, Failure> {
    let question = Question {
        request: request(a),
        members: with_proof(a, "member-addrs"),
        timeout: a.timeout,
        port_range: a.port_range,
    };
    let groups = |ip: &IpAddr| ip.is_multicast();
    let tcp = a.tcp || !a.addr.is_empty() && !a.addr.iter().any(groups);
    let with_port = |ip: &IpAddr| SocketAddr::new(*ip, a.port);
    let answers = if tcp {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let hosts = if a.addr.is_empty() { vec![local] } else { a.addr.clone() };
        question.over_tcp(hosts.iter().map(with_port).collect())
    } else {
        let groups = if a.addr.is_empty() { vec![GROUP] } else { a.addr.clone() };
        let groups: Vec<SocketAddr> = groups.iter().map(with_port).collect();
        question.over_udp(&groups, a.bind)?
    };
    let matches = |x: &&Answer| a.matching.as_ref().is_none_or(|m| x.text.contains(m));
    let shown: Vec<&Answer> = answers.iter().filter(matches).collect();
    for (i, x) in shown.iter().enumerate() {
        if json {
            output::object("member", x.json());
        } else {
            show(i + 1, x);
        }
    }
    if json {
        let counts = json!({"answers": answers.len(), "shown": shown.len()});
        output::object("summary", counts);
    } else {
        let what = if answers.len() == 1 { "answer" } else { "answers" };
        output::line(&format!("{} {what}, {} shown", answers.len(), shown.len()));
    }
    if answers.is_empty() {
        return Err(Failure::join(format!("nobody answered within {:?}", a.timeout)).hint(
            "members answer with diag.enabled=true in their transport (and diag.enable_tcp=true \
             for --tcp), on the interface that they are bound to; see --bind and --addr",
        ));
    }
    Ok(0)
}

/// The words of the request, behind the proof of the passcode.
fn request(a: &ProbeArgs) -> Vec<u8> {
    let mut words = a.keys.clone();
    if let Some(cluster) = &a.cluster {
        words.insert(0, format!("cluster={cluster}"));
    }
    with_proof(a, &words.join(" "))
}

/// JGroups' form: two numbers that make requests differ, then the digest of the passcode alone.
fn with_proof(a: &ProbeArgs, words: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(passcode) = &a.passcode {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        bytes.extend((now.as_millis() as u64).to_be_bytes());
        bytes.extend((f64::from(now.subsec_nanos()) / 1e9).to_be_bytes());
        let digest = Sha1::digest(passcode.as_bytes());
        bytes.extend((digest.len() as u32).to_be_bytes());
        bytes.extend(digest);
    }
    bytes.extend(words.as_bytes());
    bytes
}

fn show(number: usize, x: &Answer) {
    output::line(&format!("#{number} from {} ({} bytes)", x.from, x.text.len()));
    for line in x.text.lines() {
        output::line(&format!("  {}", output::escaped(line)));
    }
}
