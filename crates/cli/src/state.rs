//! `state`: the state of a cluster into a file, and a file as the state of a cluster. Both go piece
//! by piece, so that the file may be larger than memory.

use crate::args::{StateAction, StateArgs, StateGetArgs, StatePutArgs};
use crate::failure::Failure;
use crate::signals::{Signals, leave};
use crate::{join, output};
use bytes::BytesMut;
use rgroups::{
    Address, Channel, Diagnose, Event, Events, StateError, StatePart, StateReader, StateResponder,
};
use serde_json::json;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

/// How long the names of members may be unknown.
const NAMES_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of the file that are read at once.
const PIECE: usize = 256_000;
/// How often progress is told: on a terminal, and as JSON.
const OFTEN: Duration = Duration::from_millis(200);
const SOMETIMES: Duration = Duration::from_secs(1);

/// Runs the command.
pub(crate) async fn run(a: &StateArgs, json: bool) -> Result<u8, Failure> {
    match &a.action {
        StateAction::Get(a) => get(a, json).await,
        StateAction::Put(a) => put(a, json).await,
    }
}

async fn get(a: &StateGetArgs, json: bool) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let (ch, events) = join::join_for_state(&a.cluster, &a.join, a.protocol).await?;
    // What is sent meanwhile is not wanted, and must not make its senders wait.
    drop(events);
    let outcome = tokio::select! {
        got = fetch(a, &ch, json) => got,
        code = signals.next() => Ok(code),
    };
    leave(ch, &mut signals).await;
    outcome
}

async fn fetch(a: &StateGetArgs, ch: &Channel, json: bool) -> Result<u8, Failure> {
    let from = match &a.from {
        Some(name) => Some(member_named(ch, name).await?),
        None => None,
    };
    let mut reader = ch.fetch_state_stream(from, a.within).map_err(|e| refused(&e))?;
    let mut sink = Sink::to(&a.file);
    let cannot = |e| Failure::run(format!("cannot write {}: {e}", a.file.display()));
    let mut progress = Progress::new(json);
    while let Some(part) = reader.next().await.map_err(|e| refused(&e))? {
        match part {
            StatePart::Begins(provider) => {
                sink.begin().map_err(cannot)?;
                progress.begins(&output::member(ch, provider));
            }
            StatePart::Bytes(bytes) => sink.write(&bytes).map_err(cannot)?,
        }
        progress.tell(&reader);
    }
    progress.clear();
    let Some(provider) = reader.provider() else {
        let what = format!("no other member of {:?} has a state", a.cluster);
        return Err(Failure::join(what).hint("rgroups view shows who is there"));
    };
    sink.end().map_err(cannot)?;
    let provider = output::member(ch, provider);
    let (bytes, rate) = (reader.bytes(), progress.rate(&reader));
    if json {
        output::object("state", json!({"from": provider, "bytes": bytes, "rate": rate}));
    } else {
        anstream::eprintln!("{bytes} bytes of state from {provider}");
    }
    Ok(0)
}

/// Where a state goes. A file has its name only when it is complete.
enum Sink {
    Stdout { begun: bool },
    File { name: PathBuf, part: PathBuf, file: Option<File> },
}

impl Sink {
    /// `-` is standard output.
    fn to(file: &Path) -> Self {
        if file.as_os_str() == "-" {
            return Sink::Stdout { begun: false };
        }
        let mut part = file.as_os_str().to_owned();
        part.push(".part");
        Sink::File { name: file.to_owned(), part: part.into(), file: None }
    }

    /// What was written before is void.
    fn begin(&mut self) -> std::io::Result<()> {
        match self {
            Sink::Stdout { begun: true } => Err(std::io::Error::other(
                "its provider went, and the state of another one cannot follow what was written",
            )),
            Sink::Stdout { .. } => Ok(()),
            Sink::File { part, file, .. } => {
                *file = Some(File::create(part)?);
                Ok(())
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Sink::Stdout { begun } => {
                *begun = true;
                std::io::stdout().lock().write_all(bytes)
            }
            Sink::File { file: Some(file), .. } => file.write_all(bytes),
            Sink::File { file: None, .. } => Ok(()),
        }
    }

    fn end(&mut self) -> std::io::Result<()> {
        match self {
            Sink::Stdout { .. } => std::io::stdout().lock().flush(),
            Sink::File { name, part, file } => {
                if let Some(mut file) = file.take() {
                    file.flush()?;
                }
                std::fs::rename(part, name)
            }
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Sink::File { part, file: Some(_), .. } = self {
            // What is incomplete is of no use; if it cannot be removed, its name says what it is.
            let _ = std::fs::remove_file(part);
        }
    }
}

/// How far a transfer is: one line on a terminal, now and then an object.
struct Progress {
    json: bool,
    terminal: bool,
    from: String,
    begun: Instant,
    told: Instant,
}

impl Progress {
    fn new(json: bool) -> Self {
        let now = Instant::now();
        let terminal = !json && std::io::stderr().is_terminal();
        Self { json, terminal, from: String::new(), begun: now, told: now }
    }

    fn begins(&mut self, provider: &str) {
        if self.json {
            output::object("state_begins", json!({"from": provider}));
        } else if !self.from.is_empty() {
            self.clear();
            let (old, new) = (&self.from, provider);
            anstream::eprintln!("{old} is gone: beginning anew with the state of {new}");
        }
        self.from = provider.to_owned();
        (self.begun, self.told) = (Instant::now(), Instant::now());
    }

    /// Bytes a second.
    fn rate(&self, reader: &StateReader) -> u64 {
        (reader.bytes() as f64 / self.begun.elapsed().as_secs_f64().max(0.001)) as u64
    }

    fn tell(&mut self, reader: &StateReader) {
        let every = if self.json { SOMETIMES } else { OFTEN };
        if !(self.json || self.terminal) || self.told.elapsed() < every {
            return;
        }
        self.told = Instant::now();
        let (bytes, rate) = (reader.bytes(), self.rate(reader));
        if self.json {
            output::object("progress", json!({"from": self.from, "bytes": bytes, "rate": rate}));
        } else {
            let mb = |n: u64| n as f64 / 1e6;
            let line = format!("{:.1} MB of state, {:.1} MB/s", mb(bytes), mb(rate));
            anstream::eprint!("\r{line:<60}");
        }
    }

    fn clear(&self) {
        if self.terminal {
            anstream::eprint!("\r{:<60}\r", "");
        }
    }
}

fn refused(e: &StateError) -> Failure {
    let f = match e {
        StateError::NoProvider { .. } | StateError::TimedOut { .. } => Failure::join(e.to_string()),
        _ => Failure::run(e.to_string()),
    };
    match e.hint() {
        Some(hint) => f.coded(e.code()).hint(hint),
        None => f.coded(e.code()),
    }
}

async fn member_named(ch: &Channel, name: &str) -> Result<Address, Failure> {
    let find = || {
        let named = |m: &&Address| ch.name_of(**m).as_deref() == Some(name);
        ch.view().members().iter().find(named).copied()
    };
    let search = async {
        loop {
            if let Some(m) = find() {
                return m;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let missing = || Failure::run(format!("no member is named {name:?}"));
    tokio::time::timeout(NAMES_WITHIN, search).await.map_err(|_| missing())
}

async fn put(a: &StatePutArgs, json: bool) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    File::open(&a.file)
        .map_err(|e| Failure::run(format!("cannot read {}: {e}", a.file.display())))?;
    let (ch, mut events) = join::join_for_state(&a.cluster, &a.join, a.protocol).await?;
    let outcome = tokio::select! {
        served = serve(a, &ch, &mut events, json) => served,
        code = signals.next() => Ok(code),
    };
    leave(ch, &mut signals).await;
    outcome
}

async fn serve(
    a: &StatePutArgs,
    ch: &Channel,
    events: &mut Events,
    json: bool,
) -> Result<u8, Failure> {
    let mut given = 0;
    let mut giving: JoinSet<(String, Result<u64, String>)> = JoinSet::new();
    while a.count.is_none_or(|n| given < n) {
        let ev = tokio::select! {
            ev = events.next() => ev,
            Some(done) = giving.join_next() => {
                let Ok((to, done)) = done else { continue };
                match done {
                    Ok(bytes) => {
                        given += 1;
                        told(&to, bytes, json);
                    }
                    Err(why) => anstream::eprintln!("warning: no state for {to}: {why}"),
                }
                continue;
            }
        };
        match ev {
            Some(Event::StateRequested(r)) => {
                let to = output::member(ch, r.requester());
                let file = a.file.clone();
                giving.spawn(async move { (to, give(&file, r).await) });
            }
            Some(Event::View(v)) => {
                output::named(ch, &v).await;
                if json {
                    output::object("view", output::view_json(ch, &v));
                } else {
                    anstream::eprintln!("** view {}", output::view(ch, &v));
                }
            }
            Some(_) => {}
            None => return Err(Failure::run("the channel closed")),
        }
    }
    Ok(0)
}

/// Gives the file to one member; how many bytes it has, or why not.
async fn give(file: &Path, r: StateResponder) -> Result<u64, String> {
    let mut opened = match tokio::fs::File::open(file).await {
        Ok(opened) => opened,
        Err(e) => {
            r.refuse("its file cannot be read");
            return Err(format!("cannot read {}: {e}", file.display()));
        }
    };
    let mut writer = r.stream();
    loop {
        let mut piece = BytesMut::with_capacity(PIECE);
        match opened.read_buf(&mut piece).await {
            Ok(0) => break,
            Ok(_) => writer.write(piece.freeze()).await.map_err(|e| e.to_string())?,
            Err(e) => {
                writer.refuse("its file cannot be read");
                return Err(format!("cannot read {}: {e}", file.display()));
            }
        }
    }
    let bytes = writer.bytes();
    writer.finish().await.map_err(|e| e.to_string())?;
    Ok(bytes)
}

fn told(to: &str, bytes: u64, json: bool) {
    if json {
        output::object("state", json!({"to": to, "bytes": bytes}));
    } else {
        output::line(&format!("gave {bytes} bytes of state to {to}"));
    }
}
