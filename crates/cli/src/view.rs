//! `view`: who is in a cluster. Joins it to see.

use crate::args::ViewArgs;
use crate::failure::Failure;
use crate::signals::{Signals, leave};
use crate::{join, output};
use rgroups::Event;

/// Runs the command.
pub(crate) async fn run(a: &ViewArgs, json: bool) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let (ch, mut events) = join::join(&a.cluster, &a.join).await?;
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
                    if !a.follow {
                        break 0;
                    }
                }
                Some(_) => {}
                None => return Err(Failure::run("the channel closed")),
            },
            code = signals.next() => break code,
        }
    };
    leave(ch, &mut signals).await;
    Ok(code)
}
