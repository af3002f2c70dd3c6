//! A counter that all members share: whoever joins begins with the state of the others and misses
//! no increment.
//!
//! ```text
//! cargo run --example state_transfer
//! ```

use rgroups::{Channel, Config, Event, Events, Message, block_on};
use std::time::Duration;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const INCREMENTS: u64 = 1000;

/// One member's copy of the counter.
struct Counter {
    events: Events,
    value: u64,
}

impl Counter {
    /// Applies what happens until the counter stands at `goal` or the channel closes, and gives its
    /// value to whoever asks.
    async fn follow(&mut self, goal: u64) -> Result<(), Failure> {
        while self.value < goal {
            match self.events.next().await {
                Some(Event::Message(m)) if m.text() == Some("+1") => self.value += 1,
                // Everything before this event is in the value, nothing behind it is.
                Some(Event::StateRequested(r)) => r.send(self.value.to_string()).await?,
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }
}

async fn join(config: &Config, name: &str) -> Result<(Channel, Counter), Failure> {
    let builder = Channel::builder(config.clone()).name(name);
    let within = Duration::from_secs(30);
    let (ch, events, state) = builder.connect_with_state("counter", within).await?;
    let value = match state {
        Some(state) => std::str::from_utf8(state.bytes())?.parse()?,
        None => 0, // the first member
    };
    println!("{name} begins at {value}");
    Ok((ch, Counter { events, value }))
}

pub(crate) fn main() -> Result<(), Failure> {
    let config = Config::in_process().set("SHARED_LOOPBACK", "hub", "counter example")?;
    let (a, mut at_a) = block_on(join(&config, "A"))?;
    let first = std::thread::spawn(move || {
        block_on(at_a.follow(u64::MAX))?;
        Ok::<_, Failure>(at_a.value)
    });
    let sender = a.clone();
    let increments = std::thread::spawn(move || {
        (0..INCREMENTS).try_for_each(|_| {
            std::thread::sleep(Duration::from_millis(1));
            block_on(sender.send(Message::multicast("+1")))
        })
    });
    // B joins somewhere in the middle.
    let (b, mut at_b) = block_on(join(&config, "B"))?;
    block_on(at_b.follow(INCREMENTS))?;
    increments.join().map_err(|_| "the sender failed")??;
    block_on(b.close())?;
    block_on(a.close())?;
    let at_a = first.join().map_err(|_| "A failed")??;
    println!("A stands at {at_a}, B at {}", at_b.value);
    if at_a == at_b.value { Ok(()) } else { Err("they differ".into()) }
}
