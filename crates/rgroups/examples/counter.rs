//! A counter that all members share: numbers that nobody gives out twice.
//!
//! `cargo run -p rgroups --example counter`

use rgroups::{Channel, Config, CounterError, block_on};
use std::collections::BTreeSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const TICKETS: usize = 100;

/// Draws tickets, each a number of its own in the whole group.
fn draw(channel: &Channel) -> Result<Vec<i64>, CounterError> {
    let tickets = channel.counter("tickets");
    (0..TICKETS).map(|_| block_on(tickets.increment())).collect()
}

pub(crate) fn main() -> Result<(), Failure> {
    let config =
        Config::in_process().set("SHARED_LOOPBACK", "hub", "counter example")?.on_top("COUNTER")?;
    let mut members = Vec::new();
    for name in ["A", "B", "C"] {
        // The events of this program are of no interest: dropped, they count as read.
        let (channel, _events) =
            block_on(Channel::builder(config.clone()).name(name).connect("tickets"))?;
        members.push(channel);
    }
    let drawing: Vec<_> =
        members.iter().cloned().map(|channel| std::thread::spawn(move || draw(&channel))).collect();
    let mut all = BTreeSet::new();
    for d in drawing {
        all.extend(d.join().map_err(|_| "a member failed")??);
    }
    let last = i64::try_from(members.len() * TICKETS)?;
    assert_eq!(all, (1..=last).collect(), "each number once, and none left out");
    println!("{} tickets, none twice", all.len());
    for channel in members.into_iter().rev() {
        block_on(channel.close())?;
    }
    Ok(())
}
