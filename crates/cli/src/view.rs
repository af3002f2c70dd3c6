//! `view`: who is in a cluster. Joins it to see.

use crate::args::ViewArgs;
use crate::failure::Failure;
use crate::signals::{Signals, leave};
use crate::{join, output};
use rgroups::{Event, Primacy};
use std::time::Duration;
use tokio::time::Instant;

/// How long the members of a view may take to agree whether it is primary, for `view` to say so.
const DECIDED_WITHIN: Duration = Duration::from_secs(10);

/// Runs the command.
pub(crate) async fn run(a: &ViewArgs, json: bool) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let (ch, mut events) = join::join(&a.cluster, &a.join).await?;
    let mut decided_by = Instant::now() + DECIDED_WITHIN;
    let code = loop {
        tokio::select! {
            ev = events.next() => match ev {
                Some(Event::View(v)) => {
                    output::named(&ch, &v).await;
                    if json {
                        output::object("view", output::view_json(&ch, &v));
                    } else {
                        output::line(&output::view(&ch, &v));
                    }
                    if !a.follow && ch.primacy().is_none() {
                        break 0;
                    }
                    decided_by = Instant::now() + DECIDED_WITHIN;
                }
                Some(Event::Primary { view, primacy }) if a.follow || primacy != Primacy::Unknown => {
                    output::primacy(view, primacy, json);
                    if !a.follow {
                        break 0;
                    }
                }
                Some(_) => {}
                None => return Err(Failure::run("the channel closed")),
            },
            () = tokio::time::sleep_until(decided_by), if !a.follow && ch.primacy().is_some() => {
                output::primacy(ch.view().id(), Primacy::Unknown, json);
                break 0;
            }
            code = signals.next() => break code,
        }
    };
    leave(ch, &mut signals).await;
    Ok(code)
}
