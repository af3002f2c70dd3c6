//! `chat`: lines in, lines out. A line travels as a string object, as JGroups' Chat demo sends it,
//! so that the two can talk; plain bytes of others are shown as well.

use crate::args::ChatArgs;
use crate::failure::Failure;
use crate::signals::{Signals, leave};
use crate::{join, output};
use rgroups::{Channel, Event, Message, ObjectValue};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

/// Runs the command.
pub(crate) async fn run(a: &ChatArgs, json: bool) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let (ch, mut events) = join::join(&a.cluster, &a.join).await?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let code = loop {
        tokio::select! {
            ev = events.next() => match ev {
                Some(ev) => show(&ch, &ev, json).await,
                None => return Err(Failure::run("the channel closed")),
            },
            typed = lines.next_line() => match typed {
                Ok(Some(text)) if text.is_empty() => {}
                Ok(Some(text)) => {
                    // Sending may wait for slow members; what they send must still be read.
                    let line = Message::multicast(ObjectValue::Str(text));
                    let mut sending = Box::pin(ch.send(line));
                    loop {
                        tokio::select! {
                            sent = &mut sending => {
                                sent.map_err(|e| Failure::run(e.to_string()))?;
                                break;
                            }
                            ev = events.next() => if let Some(ev) = ev { show(&ch, &ev, json).await },
                        }
                    }
                }
                Ok(None) => break 0,
                Err(e) => return Err(Failure::run(format!("cannot read standard input: {e}"))),
            },
            code = signals.next() => break code,
        }
    };
    leave(ch, &mut signals).await;
    Ok(code)
}

async fn show(ch: &Channel, ev: &Event, json: bool) {
    match ev {
        Event::View(v) => {
            output::named(ch, v).await;
            if json {
                output::object("view", output::view_json(ch, v));
            } else {
                output::line(&format!("** view {}", output::view(ch, v)));
            }
        }
        Event::Message(m) => {
            let from = m.source().map(|s| output::member(ch, s)).unwrap_or_default();
            if json {
                output::object("message", json!({"from": from, "text": output::text(m)}));
            } else {
                output::line(&format!("[{from}] {}", output::contents(m)));
            }
        }
        Event::Primary { view, primacy } => output::primacy(*view, *primacy, json),
        _ => {}
    }
}
