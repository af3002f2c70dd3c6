//! `send`: lines, a file or generated messages, confirmed by everybody before it returns.

use crate::args::SendArgs;
use crate::failure::Failure;
use crate::signals::{Signals, leave};
use crate::{join, output};
use bytes::Bytes;
use rgroups::{Address, Channel, Events, Message, Sync, SyncEnd, SyncLevel};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};

/// What was sent, for the summary.
#[derive(Default)]
struct Sent {
    messages: u64,
    bytes: u64,
    hash: Sha256,
}

/// Runs the command.
pub(crate) async fn run(a: &SendArgs, json: bool) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let file = match &a.file {
        Some(p) => Some(
            std::fs::read(p)
                .map_err(|e| Failure::run(format!("cannot read {}: {e}", p.display())))?,
        ),
        None => None,
    };
    let (ch, mut events) = join::join(&a.cluster, &a.join).await?;
    let mut outcome = Ok(0);
    tokio::select! {
        sent = send_all(a, json, file, &ch, &mut events) => outcome = sent,
        code = signals.next() => outcome = outcome.map(|_: u8| code),
    }
    leave(ch, &mut signals).await;
    outcome
}

async fn send_all(
    a: &SendArgs,
    json: bool,
    file: Option<Vec<u8>>,
    ch: &Channel,
    events: &mut Events,
) -> Result<u8, Failure> {
    wait_for_members(a.members, a.join.timeout, ch, events).await?;
    let to = match &a.to {
        Some(name) => Some(member_named(name, ch).await?),
        None => None,
    };
    let began = Instant::now();
    let mut sent = Sent::default();
    // Our own copies must be taken, or flow control would wait for ourselves.
    let drain = async {
        while events.next().await.is_some() {}
        Err(Failure::run("the channel closed"))
    };
    let work = async {
        if let Some(bytes) = file {
            post(ch, to, bytes.into(), &mut sent).await?;
        } else if let Some(n) = a.count {
            for i in 0..n {
                post(ch, to, generated(i, a.size), &mut sent).await?;
            }
        } else if !a.text.is_empty() {
            post(ch, to, a.text.join(" ").into(), &mut sent).await?;
        } else {
            let mut lines = BufReader::new(tokio::io::stdin()).lines();
            loop {
                let next = lines.next_line().await;
                match next.map_err(|e| Failure::run(format!("cannot read standard input: {e}")))? {
                    Some(l) => post(ch, to, l.into(), &mut sent).await?,
                    None => break,
                }
            }
        }
        confirm(a, ch, to).await
    };
    let code = tokio::select! {
        done = work => done?,
        closed = drain => closed?,
    };
    let others = match &a.to {
        None => ch.view().members().len().saturating_sub(1),
        Some(_) => 1,
    };
    summary(json, &sent, began, (code == 0).then_some(others));
    Ok(code)
}

/// Message number `i`: its number, then a pattern, cut to `size`.
fn generated(i: u64, size: usize) -> Bytes {
    let mut b = vec![i as u8; size];
    let n = size.min(8);
    b[..n].copy_from_slice(&i.to_be_bytes()[8 - n..]);
    b.into()
}

/// Waits until the view has so many members.
pub(crate) async fn wait_for_members(
    members: usize,
    within: Duration,
    ch: &Channel,
    events: &mut Events,
) -> Result<(), Failure> {
    let enough = async {
        while ch.view().members().len() < members {
            if events.next().await.is_none() {
                return Err(Failure::run("the channel closed"));
            }
        }
        Ok(())
    };
    match tokio::time::timeout(within, enough).await {
        Ok(r) => r,
        Err(_) => {
            let n = ch.view().members().len();
            Err(Failure::join(format!(
                "{n} of {members} members are there after {within:?}: {}",
                output::view(ch, &ch.view())
            )))
        }
    }
}

/// A newcomer learns the names of the others within moments of joining; until then it waits.
pub(crate) async fn member_named(name: &str, ch: &Channel) -> Result<Address, Failure> {
    output::named(ch, &ch.view()).await;
    let view = ch.view();
    let found = view.members().iter().copied().find(|m| output::name(ch, *m) == name);
    found.ok_or_else(|| Failure::run(format!("no member {name:?} in {}", output::view(ch, &view))))
}

async fn post(
    ch: &Channel,
    to: Option<Address>,
    bytes: Bytes,
    sent: &mut Sent,
) -> Result<(), Failure> {
    sent.messages += 1;
    sent.bytes += bytes.len() as u64;
    sent.hash.update(&bytes);
    let m = match to {
        None => Message::multicast(bytes),
        Some(a) => Message::unicast(a, bytes),
    };
    ch.send(m).await.map_err(|e| Failure::run(e.to_string()))
}

/// An empty synchronous message covers everything before it: when it is acknowledged, everybody has
/// consumed all.
async fn confirm(a: &SendArgs, ch: &Channel, to: Option<Address>) -> Result<u8, Failure> {
    let m = match to {
        None => Message::multicast(Bytes::new()),
        Some(to) => Message::unicast(to, Bytes::new()),
    };
    let sync = Sync { level: SyncLevel::OnDeliver, timeout: Some(a.confirm), to: None };
    let done = ch.send_and_wait(m, sync).await.map_err(|e| Failure::run(e.to_string()))?;
    let names = |list: &[Address]| {
        list.iter().map(|m| output::member(ch, *m)).collect::<Vec<_>>().join(", ")
    };
    match done.end {
        SyncEnd::Complete if done.is_success() => Ok(0),
        SyncEnd::Complete => {
            anstream::eprintln!("warning: could not be handled by {}", names(&done.failed));
            Ok(5)
        }
        _ => {
            anstream::eprintln!(
                "warning: not confirmed within {:?} by {}",
                a.confirm,
                names(&done.missing)
            );
            Ok(5)
        }
    }
}

/// `confirmed`: by how many others, if they did confirm.
fn summary(json: bool, sent: &Sent, began: Instant, confirmed: Option<usize>) {
    let took = began.elapsed();
    let hash: String = sent.hash.clone().finalize().iter().map(|b| format!("{b:02x}")).collect();
    if json {
        output::object(
            "summary",
            json!({
                "messages": sent.messages, "bytes": sent.bytes, "sha256": hash,
                "confirmed": confirmed.is_some(), "others": confirmed, "seconds": took.as_secs_f64(), "peak_memory": output::peak_memory(),
            }),
        );
    } else {
        output::line(&told(sent, confirmed, took.as_secs_f64(), &hash));
    }
}

/// The summary for people. It claims a confirmation only where there was one.
fn told(sent: &Sent, confirmed: Option<usize>, seconds: f64, hash: &str) -> String {
    let by = match confirmed {
        None => String::new(),
        Some(0) => ", to nobody: no other member is there".to_owned(),
        Some(1) => ", confirmed by the other member".to_owned(),
        Some(n) => format!(", confirmed by all {n} others"),
    };
    let what = if sent.messages == 1 { "message" } else { "messages" };
    format!(
        "sent {} {what}, {} bytes in {seconds:.2} s{by}; sha256 {hash}",
        sent.messages, sent.bytes
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_confirmation_is_not_claimed() {
        let sent = Sent { messages: 2, bytes: 6, ..Sent::default() };
        assert!(!told(&sent, None, 1.0, "00").contains("confirmed"));
        assert!(!told(&sent, Some(0), 1.0, "00").contains("confirmed"));
        assert!(told(&sent, Some(2), 1.0, "00").contains("confirmed by all 2 others"));
    }
}
