//! A line chat. Ends with end of input (Ctrl-D).
//!
//! ```text
//! cargo run --example chat -- alice       # and another one: -- bob
//! ```

use rgroups::{Channel, Config, Event, Message, block_on};
use std::io::BufRead;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "anonymous".into());
    let builder = Channel::builder(Config::udp()).name(name).discard_own_messages(true);
    let (ch, mut events) = block_on(builder.connect("chat"))?;

    let reader = ch.clone();
    std::thread::spawn(move || {
        block_on(async {
            while let Some(ev) = events.next().await {
                match ev {
                    Event::View(v) => println!("** view {}", reader.describe(&v)),
                    Event::Message(m) => {
                        let from = m.source().and_then(|a| reader.name_of(a)).unwrap_or_default();
                        println!("[{from}] {}", m.text().unwrap_or("(not text)"));
                    }
                    Event::Rejoining { reason } => println!("** rejoining: {reason}"),
                    _ => {}
                }
            }
        });
    });

    for line in std::io::stdin().lock().lines() {
        block_on(ch.send(Message::multicast(line?)))?;
    }
    block_on(ch.close())?;
    Ok(())
}
