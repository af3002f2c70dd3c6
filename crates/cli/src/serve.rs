//! `serve`: a program answers the calls of a method. Arguments of the call become arguments of the
//! program; what it prints is the answer, and its failure with what it says on standard error is an
//! error. No shell is between them unless it is the program.

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::signals::{Signals, leave};
use crate::{join, output};
use rgroups::rpc::{Caller, Dispatcher};
use rgroups::{Channel, Event, ObjectValue};
use serde_json::json;
use std::process::Stdio;
use std::sync::Arc;
use tokio::process::Command;
use tokio::sync::mpsc;

/// What was answered to whom.
struct Served {
    by: Caller,
    outcome: Result<ObjectValue, String>,
}

/// Runs the command.
pub(crate) async fn run(a: &ServeArgs, json: bool) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let (ch, mut events) = join::join(&a.cluster, &a.join).await?;
    let (tell, mut served) = mpsc::unbounded_channel();
    let command: Arc<[String]> = a.command.clone().into();
    let handler = move |by: Caller, args: Vec<ObjectValue>| {
        let (command, tell) = (Arc::clone(&command), tell.clone());
        async move {
            let outcome = execute(&command, &args).await;
            // When the command ends nobody wants to see it any more.
            let _ = tell.send(Served { by, outcome: outcome.clone() });
            outcome
        }
    };
    let runtime = tokio::runtime::Handle::current();
    let rpc = Dispatcher::builder(&ch)
        .handle_values(a.method.as_str(), handler)
        .spawn_with(move |task| drop(runtime.spawn(task)))
        .build();
    let code = loop {
        tokio::select! {
            ev = events.next() => match ev {
                Some(Event::View(v)) => {
                    output::named(&ch, &v).await;
                    if json {
                        output::object("view", output::view_json(&ch, &v));
                    } else {
                        output::line(&format!("** view {}", output::view(&ch, &v)));
                    }
                }
                Some(_) => {}
                None => return Err(Failure::run("the channel closed")),
            },
            // The handler holds the other end as long as the dispatcher is there.
            Some(one) = served.recv() => show(&ch, &one, json),
            code = signals.next() => break code,
        }
    };
    drop(rpc);
    leave(ch, &mut signals).await;
    Ok(code)
}

/// Runs the program. Values that have no text are refused, as they cannot be arguments.
async fn execute(command: &[String], args: &[ObjectValue]) -> Result<ObjectValue, String> {
    let (program, first) = command.split_first().ok_or("there is no program")?;
    let texts = args.iter().map(text).collect::<Result<Vec<String>, String>>()?;
    let mut program = Command::new(program);
    program.args(first).args(texts).stdin(Stdio::null()).kill_on_drop(true);
    let ended = program.output().await.map_err(|e| format!("cannot run {:?}: {e}", command[0]))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if ended.status.success() {
        return Ok(ObjectValue::Str(text(&ended.stdout)));
    }
    Err(match text(&ended.stderr) {
        said if said.is_empty() => ended.status.to_string(),
        said => said,
    })
}

fn text(value: &ObjectValue) -> Result<String, String> {
    Ok(match value {
        ObjectValue::Null => String::new(),
        ObjectValue::Bool(v) => v.to_string(),
        ObjectValue::Byte(v) => v.to_string(),
        ObjectValue::Short(v) => v.to_string(),
        ObjectValue::Int(v) => v.to_string(),
        ObjectValue::Long(v) => v.to_string(),
        ObjectValue::Float(v) => v.to_string(),
        ObjectValue::Double(v) => v.to_string(),
        ObjectValue::Str(v) if v.contains('\0') => return Err("an argument contains a zero".into()),
        ObjectValue::Str(v) => v.clone(),
        other => return Err(format!("no argument of a program: {other:?}")),
    })
}

fn show(ch: &Channel, served: &Served, json: bool) {
    let from = output::name(ch, served.by.from);
    let (key, text) = match &served.outcome {
        Ok(ObjectValue::Str(text)) => ("value", text.clone()),
        Ok(other) => ("value", format!("{other:?}")),
        Err(why) => ("error", why.clone()),
    };
    if json {
        return output::object("served", json!({"from": from, key: text}));
    }
    let text = output::escaped(&text);
    let mark = if key == "error" { "error: " } else { "" };
    output::line(&format!("[{}] {mark}{text}", output::escaped(&from)));
}
