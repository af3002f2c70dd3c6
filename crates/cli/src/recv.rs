//! `recv`: what a cluster sends, printed, stored or summed up.

use crate::args::RecvArgs;
use crate::failure::Failure;
use crate::signals::{Signals, leave};
use crate::{join, output};
use bytes::Bytes;
use rgroups::{Address, Channel, Event, Message};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

/// What one sender has sent us.
#[derive(Default)]
struct Received {
    messages: u64,
    bytes: u64,
    hash: Sha256,
}

/// Runs the command.
pub(crate) async fn run(a: &RecvArgs, json: bool) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let mut out = match &a.out {
        Some(p) => Some(BufWriter::new(
            File::create(p)
                .map_err(|e| Failure::run(format!("cannot write {}: {e}", p.display())))?,
        )),
        None => None,
    };
    let (ch, mut events) = join::join(&a.cluster, &a.join).await?;
    let end = tokio::time::sleep(a.duration.unwrap_or(Duration::from_secs(u32::MAX.into())));
    tokio::pin!(end);
    let mut by_sender: BTreeMap<Address, Received> = BTreeMap::new();
    let (mut total, mut began) = (0u64, None);
    let mut pace = Pace::default();
    let code = loop {
        tokio::select! {
            ev = events.next() => match ev {
                Some(Event::View(v)) => {
                    output::named(&ch, &v).await;
                    if json {
                        output::object("view", output::view_json(&ch, &v));
                    } else {
                        anstream::eprintln!("** view {}", output::view(&ch, &v));
                    }
                }
                Some(Event::Primary { view, primacy }) if json => {
                    output::primacy(view, primacy, json);
                }
                Some(Event::Primary { primacy, .. }) => {
                    anstream::eprintln!("** primary: {primacy}");
                }
                Some(Event::Message(m)) => {
                    let Some(from) = m.source() else { continue };
                    let bytes = payload(&m);
                    // An empty message is the sender's request for confirmation, no data.
                    if bytes.is_empty() || (from == ch.address() && !a.own) {
                        continue;
                    }
                    began.get_or_insert_with(Instant::now);
                    total += 1;
                    let r = by_sender.entry(from).or_default();
                    r.messages += 1;
                    r.bytes += bytes.len() as u64;
                    r.hash.update(&bytes);
                    if let Some(f) = &mut out {
                        let written = f.write_all(&bytes);
                        written.map_err(|e| Failure::run(format!("cannot write: {e}")))?;
                    }
                    if !a.summary && out.is_none() {
                        print(&ch, from, &bytes, json);
                    }
                    if a.count.is_some_and(|n| total >= n) {
                        break 0;
                    }
                    if let Some(rate) = a.rate {
                        pace.wait(bytes.len() as u64, rate).await;
                    }
                }
                Some(_) => {}
                None => return Err(Failure::run("the channel closed")),
            },
            () = &mut end => break u8::from(a.count.is_some()) * 5,
            code = signals.next() => break code,
        }
    };
    if let Some(f) = &mut out {
        f.flush().map_err(|e| Failure::run(format!("cannot write: {e}")))?;
    }
    // What is still to be confirmed is confirmed while we wait for the sender's last words.
    linger(&mut events).await;
    let seconds = began.map_or(0.0, |b: Instant| b.elapsed().as_secs_f64());
    summary(&ch, by_sender, seconds, a, json);
    leave(ch, &mut signals).await;
    Ok(code)
}

/// Makes this member a slow reader: a message is consumed when the next one is asked for.
#[derive(Default)]
struct Pace {
    /// When the next one may be.
    next: Option<tokio::time::Instant>,
}

/// How late a timer may be.
const LATE: Duration = Duration::from_millis(100);

impl Pace {
    async fn wait(&mut self, bytes: u64, rate: u64) {
        let now = tokio::time::Instant::now();
        // A timer that fires late is made up for, a pause of the sender is not.
        let from = self.next.map_or(now, |next| next.max(now - LATE));
        let next = from + Duration::from_secs_f64(bytes as f64 / rate as f64);
        self.next = Some(next);
        tokio::time::sleep_until(next).await;
    }
}

/// Consumes what follows the last message for a moment, so that a sender that waits for
/// confirmation gets it before we leave.
async fn linger(events: &mut rgroups::Events) {
    let more = async { while events.next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_millis(300), more).await;
}

/// The bytes of a message; of a string object those of its text.
fn payload(m: &Message) -> Bytes {
    m.bytes()
        .cloned()
        .or_else(|| m.text().map(|t| Bytes::copy_from_slice(t.as_bytes())))
        .unwrap_or_default()
}

fn print(ch: &Channel, from: Address, bytes: &Bytes, json: bool) {
    let from = output::member(ch, from);
    if json {
        let text = std::str::from_utf8(bytes).ok();
        output::object("message", json!({"from": from, "bytes": bytes.len(), "text": text}));
    } else {
        output::line(&format!("[{from}] {}", output::payload(bytes)));
    }
}

fn summary(
    ch: &Channel,
    by_sender: BTreeMap<Address, Received>,
    seconds: f64,
    a: &RecvArgs,
    json: bool,
) {
    for (from, r) in by_sender {
        let hash: String = r.hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        let name = output::member(ch, from);
        if json {
            output::object(
                "summary",
                json!({
                    "from": name, "messages": r.messages, "bytes": r.bytes, "sha256": hash,
                    "seconds": seconds, "peak_memory": output::peak_memory(),
                }),
            );
        } else if a.summary || a.out.is_some() {
            output::line(&format!(
                "received {} messages, {} bytes of {name} in {seconds:.2} s; sha256 {hash}",
                r.messages, r.bytes
            ));
        }
    }
}
