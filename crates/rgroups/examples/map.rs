//! A map that two members share: whoever joins has what is there, a race has one winner, and both are
//! told of every change.
//!
//! `cargo run -p rgroups --example map`

use rgroups::map::{Map, MapEvent};
use rgroups::{Channel, Config, block_on};

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Seats = Map<u32, String>;

async fn join(config: &Config, name: &str) -> Result<Seats, Failure> {
    let channel = Channel::builder(config.clone()).name(name);
    Ok(Map::builder(channel).open("seats").await?)
}

/// Takes the first seat that is free, of so many.
async fn take(seats: &Seats, who: &str, of: u32) -> Result<Option<u32>, Failure> {
    for seat in 1..=of {
        if seats.put_if_absent(seat, who.to_owned()).await?.is_none() {
            return Ok(Some(seat));
        }
    }
    Ok(None)
}

pub(crate) fn main() -> Result<(), Failure> {
    // Copies are equal because all members carry out all changes in the same order.
    let config =
        Config::in_process().set("SHARED_LOOPBACK", "hub", "map example")?.with_total_order()?;
    let a = block_on(join(&config, "A"))?;
    block_on(a.put(1, "the first".into()))?;
    let b = block_on(join(&config, "B"))?;
    assert_eq!(b.get(&1)?.as_deref(), Some("the first"));

    let mut changes = b.changes();
    let passengers: Vec<_> = ["Ada", "Ben", "Cleo", "Dan"]
        .into_iter()
        .enumerate()
        .map(|(i, who)| {
            let seats = if i % 2 == 0 { a.clone() } else { b.clone() };
            std::thread::spawn(move || block_on(take(&seats, who, 4)))
        })
        .collect();
    let mut taken = Vec::new();
    for p in passengers {
        taken.extend(p.join().map_err(|_| "a passenger is lost")??);
    }
    taken.sort_unstable();
    assert_eq!(taken, [2, 3, 4], "three seats for four, each taken once");

    for _ in taken {
        if let Some(MapEvent::Set { key, value, .. }) = block_on(changes.next()) {
            println!("seat {key}: {value}");
        }
    }
    assert_eq!(a.entries()?, b.entries()?);
    block_on(b.close())?;
    block_on(a.close())?;
    Ok(())
}
