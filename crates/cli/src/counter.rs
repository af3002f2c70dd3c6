//! `counter`: one question to a counter that a cluster shares.

use crate::args::{CounterAction, CounterArgs};
use crate::failure::Failure;
use crate::signals::{Signals, leave};
use crate::{join, output, send};
use rgroups::{Counter, CounterError, Diagnose};
use serde_json::json;
use std::time::Duration;

/// It has another value than the expected one.
const OTHER_VALUE: u8 = 6;

/// Runs the command.
pub(crate) async fn run(a: &CounterArgs, json: bool) -> Result<u8, Failure> {
    let asked = asked(a)?;
    let mut signals = Signals::new()?;
    let s = &a.shared;
    let (ch, mut events) = join::join_on_top(&s.cluster, &s.join, "COUNTER").await?;
    let outcome = tokio::select! {
        code = async {
            send::wait_for_members(s.members, s.join.timeout, &ch, &mut events).await?;
            // What others send is not for us, and must not wait for us either.
            tokio::spawn(async move { while events.next().await.is_some() {} });
            let counter = ch.counter(&a.counter).initially(a.initial).timeout(a.within);
            ask(&counter, asked, json).await.map_err(|e| failed(&a.counter, &e))
        } => code,
        code = signals.next() => Ok(code),
    };
    leave(ch, &mut signals).await;
    outcome
}

/// What the words on the command line say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Get,
    Set(i64),
    Add(i64),
    Cas { expected: i64, update: i64 },
    Watch(Duration),
    Delete,
}

fn asked(a: &CounterArgs) -> Result<Asked, Failure> {
    Ok(match (a.action, &a.numbers[..]) {
        (CounterAction::Get, []) => Asked::Get,
        (CounterAction::Set, [value]) => Asked::Set(*value),
        (CounterAction::Add, []) => Asked::Add(1),
        (CounterAction::Add, [delta]) => Asked::Add(*delta),
        (CounterAction::Cas, [expected, update]) => {
            Asked::Cas { expected: *expected, update: *update }
        }
        (CounterAction::Watch, []) => Asked::Watch(a.every),
        (CounterAction::Delete, []) => Asked::Delete,
        (action, numbers) => {
            let (name, needs) = match action {
                CounterAction::Get => ("get", "no number"),
                CounterAction::Set => ("set", "one number"),
                CounterAction::Add => ("add", "one number, or none"),
                CounterAction::Cas => ("cas", "two numbers: what it must be, and what it becomes"),
                CounterAction::Watch => ("watch", "no number"),
                CounterAction::Delete => ("delete", "no number"),
            };
            return Err(Failure::usage(format!("{name} takes {needs}, not {}", numbers.len())));
        }
    })
}

async fn ask(counter: &Counter, asked: Asked, json: bool) -> Result<u8, CounterError> {
    let value = match asked {
        Asked::Get => counter.get().await?,
        Asked::Set(value) => counter.set(value).await.map(|()| value)?,
        Asked::Add(delta) => counter.add_and_get(delta).await?,
        Asked::Cas { expected, update } => {
            let was = counter.compare_and_swap(expected, update).await?;
            let swapped = was == expected;
            told(counter.name(), if swapped { update } else { was }, Some(swapped), json);
            return Ok(if swapped { 0 } else { OTHER_VALUE });
        }
        Asked::Watch(every) => return watch(counter, every, json).await,
        Asked::Delete => {
            counter.delete().await?;
            if json {
                output::object("counter", json!({"name": counter.name(), "deleted": true}));
            }
            return Ok(0);
        }
    };
    told(counter.name(), value, None, json);
    Ok(0)
}

async fn watch(counter: &Counter, every: Duration, json: bool) -> Result<u8, CounterError> {
    let mut last = None;
    loop {
        let value = counter.get().await?;
        if last.replace(value) != Some(value) {
            told(counter.name(), value, None, json);
        }
        tokio::time::sleep(every).await;
    }
}

fn told(name: &str, value: i64, swapped: Option<bool>, json: bool) {
    if json {
        let mut fields = json!({"name": name, "value": value});
        if let Some(swapped) = swapped {
            fields["swapped"] = json!(swapped);
        }
        output::object("counter", fields);
    } else {
        output::line(&value.to_string());
    }
}

fn failed(name: &str, e: &CounterError) -> Failure {
    let f = Failure::run(format!("counter {}: {e}", output::escaped(name))).coded(e.code());
    match e.hint() {
        Some(hint) => f.hint(hint),
        None => f,
    }
}
