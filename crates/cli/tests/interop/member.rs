//! A member of ours that obeys commands on standard input and reports on standard output, one line
//! each: the same commands and the same lines as `Peer.java`.
//!
//! It runs in a process of its own, which is this test program once more, started for the one test
//! `member_process` with its orders in the environment.

use crate::cut::Cut;
use rgroups::core::plan::ProtocolConfig;
use rgroups::core::protocols::faults::DiscardConfig;
use rgroups::{Address, Channel, Config, ConfigLoader, Event, Events, Flags, Message, SendError};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::watch;

/// The variable of the environment with the orders: configuration file, cluster, name, the
/// multicast port or the hosts, and settings in the form `PROTOCOL.ATTRIBUTE=VALUE`.
pub(crate) const ORDERS: &str = "RGROUPS_INTEROP_MEMBER";

/// Messages that start with their number are checked; shorter ones are shown.
const SHOWN_BELOW: usize = 100;

/// All messages of one sender to one destination: how many, and the hash over their contents.
#[derive(Default)]
struct Stream {
    messages: u64,
    bytes: u64,
    disorder: u64,
    next: Option<u64>,
    hash: Sha256,
}

impl Stream {
    fn add(&mut self, payload: &[u8]) {
        self.messages += 1;
        self.bytes += payload.len() as u64;
        self.hash.update(payload);
        let number = payload.first_chunk().map_or(0, |n| u64::from_be_bytes(*n));
        self.disorder += u64::from(self.next.is_some_and(|next| next != number));
        self.next = Some(number + 1);
    }

    fn show(&self) -> String {
        let hash = self.hash.clone().finalize();
        let hex: String = hash.iter().map(|b| format!("{b:02x}")).collect();
        format!("{} {} {hex} {}", self.messages, self.bytes, self.disorder)
    }
}

/// What came and what went.
#[derive(Default)]
struct Book {
    multicasts: BTreeMap<Address, Stream>,
    unicasts: BTreeMap<Address, Stream>,
    sent: BTreeMap<String, Stream>,
    /// Multicasts or not, from whom, how many.
    expected: Vec<(bool, String, u64)>,
    /// What others get who ask for the state.
    state: Vec<u8>,
    /// Who was ever in the view.
    known: BTreeMap<String, Address>,
}

/// Everything that the tasks of the member share.
#[derive(Clone)]
struct Member {
    channel: Channel,
    book: Arc<Mutex<Book>>,
    paused: Arc<watch::Sender<bool>>,
    cut: Cut,
}

/// Does what the orders say, if there are any, and never returns then.
pub(crate) fn obey_orders() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    tracing_subscriber::fmt()
        .with_env_filter("warn")
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .init();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(run(&orders.split(' ').collect::<Vec<_>>()));
    std::process::exit(0);
}

/// JGroups' own file, with the properties that it asks for, as its members get them too.
fn config(words: &[&str], cut: &Cut) -> Config {
    let file = std::path::Path::new(words[0]).file_name().and_then(|f| f.to_str());
    let udp = !file.is_some_and(|f| f.starts_with("tcp"));
    let transport = if udp { "UDP" } else { "TCP" };
    let loader = ConfigLoader::new().without_environment().set(transport, "bind_addr", "127.0.0.1");
    let loader = match udp {
        true => loader.define("jgroups.udp.mcast_port", words[3]),
        false => loader
            .define("jgroups.tcpping.initial_hosts", words[3])
            .define("jgroups.tcp.port_range", "0"),
    };
    let file = loader.load(words[0]).expect("a file of JGroups");
    let discard: ProtocolConfig = DiscardConfig::default().into();
    let plan = file.plan().clone().insert_above(transport, discard);
    let plan = plan.insert_above(transport, cut.protocol());
    words[4..].iter().fold(Config::from_plan(plan), |config, setting| {
        let (name, value) = setting.split_once('=').expect("NAME=VALUE");
        if name == "states" {
            return config.with_state_protocol(value).expect("a protocol for states");
        }
        let (protocol, attribute) = name.split_once('.').expect("PROTOCOL.ATTRIBUTE");
        config.set(protocol, attribute, value).expect("a setting")
    })
}

async fn run(words: &[&str]) {
    let cut = Cut::default();
    let builder = Channel::builder(config(words, &cut)).name(words[2]);
    say(&format!("versions rgroups {}", env!("CARGO_PKG_VERSION")));
    let (channel, events) = builder.connect(words[1]).await.expect("a group to join");
    say("joined");
    let paused = Arc::new(watch::Sender::new(false));
    let member = Member { channel, book: Arc::default(), paused, cut };
    tokio::spawn(member.clone().read(events));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut steady = None;
    while let Ok(Some(line)) = lines.next_line().await {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["steady", "off"] => steady = stopped(steady).await,
            ["steady", pause, size, ..] => {
                let to: Vec<String> = words[3..].iter().map(|w| (*w).to_owned()).collect();
                let (stop, told) = watch::channel(false);
                let sender =
                    member.clone().steadily(number(pause), number(size) as usize, to, told);
                steady = Some((stop, tokio::spawn(sender)));
            }
            ["leave"] => {
                member.channel.close().await.expect("the group lets us go");
                say("left");
                return;
            }
            _ => member.obey(&words).await,
        }
        say(&format!("done {line}"));
    }
}

/// A task that sends, and how to stop it.
type Steady = Option<(watch::Sender<bool>, tokio::task::JoinHandle<()>)>;

async fn stopped(steady: Steady) -> Steady {
    if let Some((stop, task)) = steady {
        stop.send_replace(true);
        task.await.expect("sending does not fail");
    }
    None
}

fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}

fn say(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    // Whoever started us may be gone; then nobody listens.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The contents of a message follow from its number, its sender and its destination.
/// With a size of 0 it is the number, as text.
pub(crate) fn contents(number: u64, size: usize, from: &str, to: &str) -> Vec<u8> {
    if size == 0 {
        return format!("{number:08}").into_bytes();
    }
    let both = from.bytes().chain(to.bytes());
    let salt = both.fold(0u64, |salt, b| salt.wrapping_mul(131).wrapping_add(b.into()));
    let mut b = number.to_be_bytes().to_vec();
    let rest = b.len() as u64..size as u64;
    b.extend(rest.map(|i| (salt.wrapping_add(number * 31 + i * 7 + (i >> 8))) as u8));
    b
}

/// A stream of one message, as text.
pub(crate) fn only(payload: &[u8]) -> String {
    let mut stream = Stream::default();
    stream.add(payload);
    stream.show()
}

impl Member {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn obey(&self, words: &[&str]) {
        match *words {
            ["mcast", text] => self.post(Message::multicast(text.to_owned())).await,
            ["ucast", to, text] => {
                let to = self.named(to).expect("a member of this name");
                self.post(Message::unicast(to, text.to_owned())).await;
            }
            ["ignore", ref names @ ..] => {
                let book = self.book();
                self.cut.ignore(names.iter().map(|name| book.known[*name]));
            }
            ["beyond", to, text] => {
                let to = self.book().known[to];
                if let Err(e) = self.channel.send(Message::unicast(to, text.to_owned())).await {
                    say(&format!("refused {text}: {e}"));
                }
            }
            ["mcastn", times, size] => self.load("all", number(times), number(size)).await,
            ["ucastn", to, times, size] => self.load(to, number(times), number(size)).await,
            ["pause"] => drop(self.paused.send_replace(true)),
            ["resume"] => drop(self.paused.send_replace(false)),
            ["expect", kind, from, count] => {
                let expected = (kind == "multicast", from.to_owned(), number(count));
                self.book().expected.push(expected);
                self.check(kind == "multicast");
            }
            ["state", size] => {
                let state = contents(0, number(size) as usize, self.channel.name(), "state");
                say(&format!("state {}", only(&state)));
                self.book().state = state;
            }
            ["fetch", from] => {
                let fetched = self.channel.fetch_state(self.named(from), Duration::from_secs(60));
                let state = fetched.await.expect("a state").expect("somebody else");
                say(&format!("state {}", only(state.bytes())));
            }
            ["tries", from] => {
                let asked = self.channel.fetch_state(self.named(from), Duration::from_secs(60));
                match asked.await {
                    Ok(state) => say(&format!("tried {}", state.map_or(0, |s| s.bytes().len()))),
                    Err(e) => say(&format!("tried in vain: {e}")),
                }
            }
            ["tally"] => self.report(),
            ["kept"] => say(&format!("kept {}", self.kept().await)),
            ["counter", name] => say(&format!("counter {}", self.counter(name).await)),
            ["credits"] => self.credits().await,
            ["memory"] => say(&format!("memory {}", resident())),
            _ => say(&format!("unknown command {}", words.join(" "))),
        }
    }

    /// Nobody, once the member has left or died.
    fn named(&self, name: &str) -> Option<Address> {
        let view = self.channel.view();
        let is = |m: &Address| self.channel.name_of(*m).as_deref() == Some(name);
        view.members().iter().copied().find(is)
    }

    async fn post(&self, m: Message) {
        self.channel.send(m).await.expect("the channel is open");
    }

    async fn load(&self, to: &str, times: u64, size: u64) {
        for _ in 0..times {
            self.send(to, size as usize).await;
        }
    }

    async fn send(&self, to: &str, size: usize) {
        let next = self.book().sent.entry(to.to_owned()).or_default().messages;
        let payload = contents(next, size, self.channel.name(), to);
        let m = match to {
            "all" => Message::multicast(payload.clone()),
            _ => match self.named(to) {
                Some(to) => Message::unicast(to, payload.clone()),
                None => return,
            },
        };
        match self.channel.send(m).await {
            // It has left while the message waited for its credit.
            Err(SendError::NotMember(_)) => return,
            sent => sent.expect("the channel is open"),
        }
        self.book().sent.entry(to.to_owned()).or_default().add(&payload);
    }

    /// One multicast and one unicast to each of these, again and again.
    async fn steadily(self, pause: u64, size: usize, to: Vec<String>, stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            self.send("all", size).await;
            for member in &to {
                self.send(member, size).await;
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    async fn read(self, mut events: Events) {
        let mut paused = self.paused.subscribe();
        loop {
            paused.wait_for(|p| !p).await.expect("we hold the sender");
            match events.next().await {
                Some(Event::Message(m)) => self.received(&m),
                Some(Event::View(v)) => {
                    self.names_known(v.members()).await;
                    let names: Vec<String> = v.members().iter().map(|m| self.name(*m)).collect();
                    let pairs = names.iter().cloned().zip(v.members().iter().copied());
                    self.book().known.extend(pairs);
                    let kind = if v.is_merge() { "merge" } else { "view" };
                    say(&format!("{kind} {} {}", v.id().id, names.join(",")));
                }
                Some(Event::StateRequested(r)) => {
                    let state = self.book().state.clone();
                    tokio::spawn(async move {
                        if let Err(e) = r.send(state).await {
                            say(&format!("gave no state: {e}"));
                        }
                    });
                }
                Some(other) => say(&format!("event {other:?}")),
                None => return say("closed"),
            }
        }
    }

    /// A newcomer may learn the names of others a moment after its first view.
    async fn names_known(&self, members: &[Address]) {
        for _ in 0..1_000 {
            if members.iter().all(|m| self.channel.name_of(*m).is_some()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn name(&self, m: Address) -> String {
        self.channel.name_of(m).unwrap_or_else(|| "null".into())
    }

    fn received(&self, m: &Message) {
        let (Some(from), Some(payload)) = (m.source(), m.bytes()) else { return };
        let multicast = m.dest().is_none();
        if payload.is_empty() {
            return;
        }
        if payload.len() < SHOWN_BELOW {
            let kind = if multicast { "multicast" } else { "unicast" };
            let oob = if m.flags().contains(Flags::OOB) { " (oob)" } else { "" };
            let text = m.text().unwrap_or("no text");
            return say(&format!("{kind} {} {text}{oob}", self.name(from)));
        }
        let mut book = self.book();
        let streams = if multicast { &mut book.multicasts } else { &mut book.unicasts };
        streams.entry(from).or_default().add(payload);
        drop(book);
        self.check(multicast);
    }

    /// Reports the streams that have become as long as expected.
    fn check(&self, multicast: bool) {
        let mut book = self.book();
        let Book { multicasts, unicasts, expected, .. } = &mut *book;
        if expected.is_empty() {
            return;
        }
        let (streams, kind) =
            if multicast { (multicasts, "multicast") } else { (unicasts, "unicast") };
        expected.retain(|(is_multicast, from, count)| {
            let there = |(m, s): &(&Address, &Stream)| {
                s.messages >= *count && self.channel.name_of(**m).as_ref() == Some(from)
            };
            let found = streams.iter().find(there).filter(|_| *is_multicast == multicast);
            if let Some((_, stream)) = found {
                say(&format!("got {kind} {from} {}", stream.show()));
            }
            found.is_none()
        });
    }

    fn report(&self) {
        let book = self.book();
        for (kind, streams) in [("multicast", &book.multicasts), ("unicast", &book.unicasts)] {
            for (m, s) in streams {
                say(&format!("tally {kind} {} {}", self.name(*m), s.show()));
            }
        }
        for (to, s) in &book.sent {
            say(&format!("sent {to} {}", s.show()));
        }
    }

    /// How often and how long sends waited for credit: protocol, number, microseconds on average.
    async fn credits(&self) {
        let all = self.channel.inspect().await.expect("the channel is open").counters;
        let of = |protocol: &str, name: &str| {
            all.iter().find(|c| c.0 == protocol && c.1 == name).map_or(0, |c| c.2)
        };
        for protocol in ["MFC", "UFC"] {
            let blockings = of(protocol, "number_of_blockings");
            let average = of(protocol, "average_time_blocked_us");
            say(&format!("credits {protocol} {blockings} {average}"));
        }
    }

    /// The sum of all counters of this name.
    async fn counter(&self, name: &str) -> u64 {
        let all = self.channel.inspect().await.expect("the channel is open").counters;
        all.iter().filter(|c| c.1 == name).map(|c| c.2).sum()
    }

    /// How many bytes are kept for retransmission.
    async fn kept(&self) -> u64 {
        let all = self.channel.inspect().await.expect("the channel is open").counters;
        let is =
            |c: &&(String, String, u64)| c.0.starts_with("NAKACK") && c.1 == "size_of_all_messages";
        all.iter().find(is).expect("a reliable protocol").2
    }
}

/// The memory that this process has for itself, without pages of its program file, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"));
    let kb = line.and_then(|l| l.split_whitespace().next()).map_or(0, number);
    kb * 1024
}
