//! A member of a group in a process of its own: joins, waits for the others, and then sends and
//! receives rounds.

use super::load::{Figures, HEAD, Intake, Order, Report, Round, stamp, stamp_last};
use super::machine;
use super::process::{orders, tell};
use super::team::in_order;
use crate::args::{BenchMemberArgs, Transport};
use crate::join;
use bytes::{Bytes, BytesMut};
use rgroups::{Address, Channel, ChannelBuilder, Config, ConfigError, Event, Events, Message};
use std::time::{Duration, Instant};

/// Events taken at once.
const BATCH: usize = 512;
/// Messages are cut from buffers of about this size, so that there is no allocation for each.
const SLAB: usize = 256 * 1024;
/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(500);
/// After so many messages a sender looks at the clock.
const LOOK_EVERY: u64 = 64;

/// The counters of the stack that count messages sent again.
const SENT_AGAIN: [&str; 2] = ["retransmissions", "num_xmits"];

/// Runs the process until its parent goes.
pub(super) async fn run(a: &BenchMemberArgs) -> Result<(), String> {
    let (ch, mut events) = builder(a)?.connect(&a.cluster).await.map_err(|e| e.to_string())?;
    let mut orders = orders();
    let members = await_members(a.nodes, &ch, &mut events).await?;
    tell(&Report::Ready { at: None });
    while let Some(order) = orders.recv().await {
        match order {
            Order::Go(round) => {
                let figures = take_part(a.index, round, &members, &ch, &mut events).await?;
                tell(&Report::Done(figures));
            }
            Order::Peers { .. } | Order::Call(_) | Order::Mix(_) => {}
        }
    }
    let _ = ch.close().await;
    Ok(())
}

/// A member with the stack that was asked for, under its name.
pub(super) fn builder(a: &BenchMemberArgs) -> Result<ChannelBuilder, String> {
    let config = join::config(a.transport, &a.hosts, &a.stack);
    let config = config.map_err(|f| f.message().to_owned())?;
    let config = losing(config, a).map_err(|e| e.to_string())?;
    let config = in_order(config, a.order).map_err(|e| e.to_string())?;
    Ok(Channel::builder(config).name(name(a.index)))
}

/// With the loss that was asked for, above the transport.
fn losing(config: Config, a: &BenchMemberArgs) -> Result<Config, ConfigError> {
    if a.loss <= 0.0 {
        return Ok(config);
    }
    let transport = if a.transport == Transport::Tcp { "TCP" } else { "UDP" };
    config.insert_above(transport, "DISCARD")?.set("DISCARD", "up", &a.loss.to_string())
}

/// The members are named by their place.
fn name(index: usize) -> String {
    format!("M{index}")
}

/// Waits until all are there; their addresses by place.
pub(super) async fn await_members(
    n: usize,
    ch: &Channel,
    events: &mut Events,
) -> Result<Vec<Address>, String> {
    while ch.view().members().len() < n {
        events.next().await.ok_or("the channel closed")?;
    }
    let view = ch.view();
    ch.names_known(&view).await;
    let place = |i| view.members().iter().copied().find(|m| ch.name_of(*m) == Some(name(i)));
    let members = (0..n).map(|i| place(i).ok_or(format!("{} is not in the view", name(i))));
    members.collect()
}

async fn take_part(
    index: usize,
    round: Round,
    members: &[Address],
    ch: &Channel,
    events: &mut Events,
) -> Result<Figures, String> {
    let before = counters(ch).await;
    let (cpu, stats) = (machine::own_us(), ch.stats());
    let began = Instant::now();
    let sending = tokio::spawn(send(index < round.senders, round, ch.clone()));
    let slow = if index + 1 == members.len() { round.slow_us } else { 0 };
    let intake = receive(round, slow, members, ch, events).await?;
    let wall = began.elapsed();
    sending.await.map_err(|e| e.to_string())??;
    let cpu = machine::own_us() - cpu;
    let now = ch.stats();
    Ok(Figures {
        delivered: intake.delivered,
        bytes: intake.bytes,
        order: intake.order,
        wall_us: wall.as_micros() as u64,
        cpu_us: cpu,
        peak_kb: machine::peak_kb(),
        latency: intake.latency(),
        retransmitted: counters(ch).await.saturating_sub(before),
        datagrams_sent: now.datagrams_sent - stats.datagrams_sent,
        blocked_ms: (now.blocked_on_credits - stats.blocked_on_credits).as_millis() as u64,
        turns: now.turns - stats.turns,
        ..Figures::default()
    })
}

async fn counters(ch: &Channel) -> u64 {
    let Some(inspection) = ch.inspect().await else { return 0 };
    let again = |name: &String| SENT_AGAIN.contains(&name.as_str());
    inspection.counters.iter().filter(|(_, name, _)| again(name)).map(|(_, _, n)| n).sum()
}

async fn send(sends: bool, round: Round, ch: Channel) -> Result<(), String> {
    if !sends {
        return Ok(());
    }
    let end = Instant::now() + Duration::from_millis(round.for_ms);
    let mut slab = Slab { rest: BytesMut::new(), size: round.size };
    let mut number = 0;
    loop {
        let goes_on = match round.count {
            Some(count) => number < count,
            None => !number.is_multiple_of(LOOK_EVERY) || Instant::now() < end,
        };
        if !goes_on {
            break;
        }
        let message = slab.message(|head| stamp(head, round.number, number));
        ch.send(Message::multicast(message)).await.map_err(|e| e.to_string())?;
        number += 1;
    }
    let last = slab.message(|head| stamp_last(head, round.number, number));
    ch.send(Message::multicast(last)).await.map_err(|e| e.to_string())
}

/// Where payloads are cut from.
struct Slab {
    rest: BytesMut,
    size: usize,
}

impl Slab {
    fn message(&mut self, stamp: impl FnOnce(&mut [u8])) -> Bytes {
        if self.rest.len() < self.size {
            self.rest = BytesMut::zeroed(SLAB.max(self.size));
        }
        let mut message = self.rest.split_to(self.size);
        stamp(&mut message[..HEAD]);
        message.freeze()
    }
}

async fn receive(
    round: Round,
    slow_us: u64,
    members: &[Address],
    ch: &Channel,
    events: &mut Events,
) -> Result<Intake, String> {
    let mut intake = Intake::new(round)?;
    let mut told = Instant::now();
    let mut batch = Vec::with_capacity(BATCH);
    while !intake.is_complete() {
        if events.next_batch(&mut batch, BATCH).await == 0 {
            return Err("the channel closed".to_owned());
        }
        for event in batch.drain(..) {
            match event {
                Event::Message(m) => {
                    let from = m.source();
                    let from = members.iter().position(|a| Some(*a) == from);
                    let from = from.ok_or("a message of a stranger")?;
                    intake.take(from, m.bytes().map_or(&[], |b| b))?;
                }
                // The events of the time before all were there come now, so the event itself is no news.
                Event::View(_) => {
                    let view = ch.view();
                    if members.iter().any(|m| !view.contains(*m)) {
                        return Err(format!("a member is gone: {view}"));
                    }
                }
                _ => {}
            }
        }
        if slow_us > 0 {
            tokio::time::sleep(Duration::from_micros(slow_us)).await;
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            tell(&Report::Progress { delivered: intake.delivered });
        }
    }
    Ok(intake)
}
