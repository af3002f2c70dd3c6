//! Joins a cluster, says hello, prints what happens.
//!
//! ```text
//! cargo run --example quickstart          # in two terminals
//! ```

use rgroups::{Channel, Config, Event, Message, block_on};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    block_on(async {
        let (ch, mut events) = Channel::builder(Config::udp()).connect("demo").await?;
        ch.send(Message::multicast("hello, group")).await?;
        while let Some(ev) = events.next().await {
            match ev {
                Event::View(v) => println!("view {}", ch.describe(&v)),
                Event::Message(m) => {
                    let from = m.source().and_then(|a| ch.name_of(a)).unwrap_or_default();
                    println!("{from}: {}", m.text().unwrap_or("(not text)"));
                }
                _ => {}
            }
        }
        Ok(())
    })
}
