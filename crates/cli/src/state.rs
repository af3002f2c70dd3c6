//! `state`: the state of a cluster into a file, and a file as the state of a cluster.

use crate::args::{StateAction, StateArgs, StateGetArgs, StatePutArgs};
use crate::failure::Failure;
use crate::signals::{Signals, leave};
use crate::{join, output};
use bytes::Bytes;
use rgroups::{Address, Channel, Diagnose, Event, Events, StateError};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// How long the names of members may be unknown.
const NAMES_WITHIN: Duration = Duration::from_secs(5);

/// Runs the command.
pub(crate) async fn run(a: &StateArgs, json: bool) -> Result<u8, Failure> {
    match &a.action {
        StateAction::Get(a) => get(a, json).await,
        StateAction::Put(a) => put(a, json).await,
    }
}

async fn get(a: &StateGetArgs, json: bool) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let (ch, events) = join::join(&a.cluster, &a.join).await?;
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
    let state = match ch.fetch_state(from, a.within).await {
        Ok(Some(state)) => state,
        Ok(None) => {
            let what = format!("no other member of {:?} has a state", a.cluster);
            return Err(Failure::join(what).hint("rgroups view shows who is there"));
        }
        Err(e) => return Err(refused(&e)),
    };
    let provider = output::member(ch, state.provider());
    let bytes = state.into_bytes();
    write(&a.file, &bytes)
        .map_err(|e| Failure::run(format!("cannot write {}: {e}", a.file.display())))?;
    if json {
        output::object("state", json!({"from": provider, "bytes": bytes.len()}));
    } else {
        anstream::eprintln!("{} bytes of state from {provider}", bytes.len());
    }
    Ok(0)
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

/// `-` is standard output.
fn write(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if file.as_os_str() == "-" {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes)?;
        return out.flush();
    }
    std::fs::write(file, bytes)
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
    let state: Bytes = std::fs::read(&a.file)
        .map_err(|e| Failure::run(format!("cannot read {}: {e}", a.file.display())))?
        .into();
    let (ch, mut events) = join::join(&a.cluster, &a.join).await?;
    let outcome = tokio::select! {
        served = serve(a, &ch, &mut events, state, json) => served,
        code = signals.next() => Ok(code),
    };
    leave(ch, &mut signals).await;
    outcome
}

async fn serve(
    a: &StatePutArgs,
    ch: &Channel,
    events: &mut Events,
    state: Bytes,
    json: bool,
) -> Result<u8, Failure> {
    let mut given = 0;
    while a.count.is_none_or(|n| given < n) {
        match events.next().await {
            Some(Event::StateRequested(r)) => {
                let to = output::member(ch, r.requester());
                match r.send(state.clone()).await {
                    Ok(()) => {
                        given += 1;
                        told(&to, state.len(), json);
                    }
                    Err(e) => anstream::eprintln!("warning: no state for {to}: {e}"),
                }
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

fn told(to: &str, bytes: usize, json: bool) {
    if json {
        output::object("state", json!({"to": to, "bytes": bytes}));
    } else {
        output::line(&format!("gave {bytes} bytes of state to {to}"));
    }
}
