//! A member in a process of its own that sends numbered messages at a rate and checks the numbers
//! that it gets, so that neither its output nor whoever reads it is what limits the rate.
//!
//! It is this test program once more, with its orders in the environment.

use rgroups::{Address, Channel, Config, Event, Events, Message};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::watch;

/// The variable with the orders: transport, name, messages a second, and settings in the form
/// `PROTOCOL.ATTRIBUTE=VALUE`.
pub(crate) const ORDERS: &str = "RGROUPS_NETNS_MEMBER";

/// The size of a message in bytes.
const SIZE: usize = 100;

/// Messages that are due are sent this often.
const TICK: Duration = Duration::from_millis(5);

/// The numbers of one sender.
#[derive(Clone, Copy)]
struct Numbers {
    messages: u64,
    last: u64,
    /// How often one was not followed by the next.
    breaks: u64,
}

type Book = Arc<Mutex<BTreeMap<Address, (String, Numbers)>>>;

/// Does what the orders say, if there are any, and ends the process then.
pub(crate) fn obey_orders() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    tracing_subscriber::fmt()
        .with_env_filter("warn")
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(run(&orders.split(' ').collect::<Vec<_>>()));
    std::process::exit(0);
}

fn config(transport: &str, settings: &[&str]) -> Config {
    let config = if transport == "udp" { Config::udp() } else { Config::tcp([]) };
    settings.iter().fold(config, |config, setting| {
        let (name, value) = setting.split_once('=').expect("NAME=VALUE");
        let (protocol, attribute) = name.split_once('.').expect("PROTOCOL.ATTRIBUTE");
        config.set(protocol, attribute, value).expect("a setting")
    })
}

/// Sends from `go` on until the input says `quiet` or ends, tells what came whenever it says
/// `tally`, leaves when it ends.
async fn run(words: &[&str]) {
    let [transport, name, rate, settings @ ..] = words else { panic!("orders: {words:?}") };
    let rate: f64 = rate.parse().expect("a number");
    let builder = Channel::builder(config(transport, settings)).name(*name);
    let (channel, events) = builder.connect("demo").await.expect("a group to join");
    let book = Book::default();
    let reader = tokio::spawn(read(channel.clone(), events, book.clone()));
    let (stop, stopped) = watch::channel(false);
    let mut sender = None;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        let line = lines.next_line().await.ok().flatten();
        match line.as_deref() {
            Some("go") => sender = Some(tokio::spawn(send(channel.clone(), rate, stopped.clone()))),
            Some("tally") => tally(&book),
            _ => {
                if let Some(sender) = sender.take() {
                    stop.send_replace(true);
                    let sent = sender.await.expect("sending does not fail");
                    say(&json!({"type": "sent", "messages": sent}));
                }
            }
        }
        if line.is_none() {
            break;
        }
    }
    channel.close().await.expect("the group lets us go");
    reader.await.expect("reading does not fail");
    tally(&book);
}

fn say(line: &serde_json::Value) {
    println!("{line}");
}

fn tally(book: &Book) {
    for (name, n) in book.lock().unwrap_or_else(PoisonError::into_inner).values() {
        let (messages, last, breaks) = (n.messages, n.last, n.breaks);
        say(&json!({
            "type": "tally", "from": name, "messages": messages, "last": last, "breaks": breaks,
        }));
    }
}

async fn send(channel: Channel, rate: f64, stop: watch::Receiver<bool>) -> u64 {
    let (began, mut next) = (Instant::now(), 0u64);
    while !*stop.borrow() {
        while (next as f64) < began.elapsed().as_secs_f64() * rate && !*stop.borrow() {
            let mut payload = vec![0; SIZE];
            payload[..8].copy_from_slice(&next.to_be_bytes());
            channel.send(Message::multicast(payload)).await.expect("the channel is open");
            next += 1;
        }
        tokio::time::sleep(TICK).await;
    }
    next
}

async fn read(channel: Channel, mut events: Events, book: Book) {
    while let Some(ev) = events.next().await {
        match ev {
            Event::View(v) => {
                channel.names_known(&v).await;
                let name = |m: &Address| channel.name_of(*m).unwrap_or_default();
                let members: Vec<String> = v.members().iter().map(name).collect();
                say(&json!({"type": "view", "members": members, "merge": v.is_merge()}));
            }
            Event::Message(m) => {
                let (Some(from), Some(payload)) = (m.source(), m.bytes()) else { continue };
                let Some(number) = payload.first_chunk() else { continue };
                let number = u64::from_be_bytes(*number);
                let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
                let (_, n) = book.entry(from).or_insert_with(|| {
                    let name = channel.name_of(from).unwrap_or_default();
                    (name, Numbers { messages: 0, last: number.wrapping_sub(1), breaks: 0 })
                });
                n.breaks += u64::from(n.last.wrapping_add(1) != number);
                (n.messages, n.last) = (n.messages + 1, number);
            }
            _ => {}
        }
    }
}
