//! Two members that append to one log at the same time: with total order both have the same log,
//! without asking each other.
//!
//! `cargo run -p rgroups --example total_order`

use rgroups::{Channel, Config, Event, Events, Message, block_on};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LINES: usize = 200;

async fn join(config: &Config, name: &str) -> Result<(Channel, Events), Failure> {
    Ok(Channel::builder(config.clone()).name(name).connect("log").await?)
}

/// The log as one member sees it: all messages, its own too, as they are delivered.
async fn read(mut events: Events, lines: usize) -> Vec<String> {
    let mut log = Vec::new();
    while log.len() < lines {
        match events.next().await {
            Some(Event::Message(m)) => log.extend(m.text().map(str::to_owned)),
            Some(_) => {}
            None => break,
        }
    }
    log
}

pub(crate) fn main() -> Result<(), Failure> {
    let config = Config::in_process()
        .set("SHARED_LOOPBACK", "hub", "total order example")?
        .with_total_order()?;
    let (a, at_a) = block_on(join(&config, "A"))?;
    let (b, at_b) = block_on(join(&config, "B"))?;
    let mut views = a.views();
    while views.latest().members().len() < 2 {
        block_on(views.changed());
    }
    let readers =
        [at_a, at_b].map(|events| std::thread::spawn(|| block_on(read(events, 2 * LINES))));
    let writers = [a.clone(), b.clone()].map(|ch| {
        std::thread::spawn(move || {
            (0..LINES).try_for_each(|n| {
                let line = format!("{} {n}", ch.name());
                block_on(ch.send(Message::multicast(line)))
            })
        })
    });
    for w in writers {
        w.join().map_err(|_| "a writer failed")??;
    }
    let [log_a, log_b] = readers.map(|r| r.join());
    let (log_a, log_b) = (log_a.map_err(|_| "A failed")?, log_b.map_err(|_| "B failed")?);
    block_on(b.close())?;
    block_on(a.close())?;
    println!("{} lines, from {:?} to {:?}", log_a.len(), log_a.first(), log_a.last());
    assert_eq!(log_a.len(), 2 * LINES);
    if log_a == log_b { Ok(()) } else { Err("the logs differ".into()) }
}
