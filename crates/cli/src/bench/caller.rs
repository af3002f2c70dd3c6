//! A member in a process of its own that calls, one message after the other, or answers.

use super::load::{Calls, Figures, Order, Report, histogram, recorded};
use super::machine;
use super::member::{await_members, builder};
use super::process::{orders, tell};
use crate::args::{BenchMemberArgs, Level};
use bytes::{Bytes, BytesMut};
use rgroups::{Address, Channel, Event, Events, Message, Sync, SyncLevel};
use std::time::{Duration, Instant};

/// The first byte of a message that is to be sent back.
const ASKS: u8 = 0;
/// Of one that is not.
const TELLS: u8 = 1;
/// Of the last one.
const OVER: u8 = 2;

type Latencies = hdrhistogram::Histogram<u64>;

/// Runs the process until its parent goes.
pub(super) async fn run(a: &BenchMemberArgs) -> Result<(), String> {
    let (ch, mut events) = builder(a)?.connect(&a.cluster).await.map_err(|e| e.to_string())?;
    let mut orders = orders();
    let members = await_members(a.nodes, &ch, &mut events).await?;
    tell(&Report::Ready { at: None });
    while let Some(order) = orders.recv().await {
        let Order::Call(calls) = order else { continue };
        let (cpu, began) = (machine::own_us(), Instant::now());
        let latency = match a.index {
            0 => Some(call(calls, &members, &ch, &mut events).await?),
            _ => answer(&ch, &mut events).await.map(|()| None)?,
        };
        tell(&Report::Done(Figures {
            delivered: calls.count,
            wall_us: began.elapsed().as_micros() as u64,
            cpu_us: machine::own_us() - cpu,
            peak_kb: machine::peak_kb(),
            latency: latency.as_ref().map(recorded).unwrap_or_default(),
            ..Figures::default()
        }));
    }
    let _ = ch.close().await;
    Ok(())
}

/// Process 0.
async fn call(
    calls: Calls,
    members: &[Address],
    ch: &Channel,
    events: &mut Events,
) -> Result<Latencies, String> {
    let first = |b: u8| {
        let mut m = BytesMut::zeroed(calls.size);
        m[0] = b;
        m.freeze()
    };
    let timeout = Duration::from_millis(calls.timeout_ms);
    let latencies = match calls.level.map(SyncLevel::from) {
        None => {
            let to = *members.get(1).ok_or("there is nobody to call")?;
            round_trips(calls.count, to, &first(ASKS), timeout, ch, events).await?
        }
        Some(level) => {
            let sync = Sync { level, timeout: Some(timeout), to: None };
            let sending = tokio::spawn(synchronous(
                calls.count,
                first(TELLS),
                sync,
                members.len(),
                ch.clone(),
            ));
            // What this member multicasts comes to itself too, and is acknowledged when it is taken.
            consume_until_done(sending, events).await?
        }
    };
    ch.send(Message::multicast(first(OVER))).await.map_err(|e| e.to_string())?;
    Ok(latencies)
}

impl From<Level> for SyncLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Receive => SyncLevel::OnReceive,
            Level::Contiguous => SyncLevel::OnContiguous,
            Level::Deliver => SyncLevel::OnDeliver,
        }
    }
}

async fn round_trips(
    count: u64,
    to: Address,
    message: &Bytes,
    timeout: Duration,
    ch: &Channel,
    events: &mut Events,
) -> Result<Latencies, String> {
    let mut latencies = histogram().ok_or("no memory for latencies")?;
    for n in 0..count {
        let began = Instant::now();
        let answered = async {
            let sent = ch.send(Message::unicast(to, message.clone())).await;
            sent.map_err(|e| e.to_string())?;
            loop {
                match events.next().await {
                    Some(Event::Message(m)) if m.source() == Some(to) => return Ok(()),
                    Some(_) => {}
                    None => return Err("the channel closed".to_owned()),
                }
            }
        };
        match tokio::time::timeout(timeout, answered).await {
            Ok(answered) => answered?,
            Err(_) => return Err(format!("call {n}: no answer in {timeout:?}")),
        }
        latencies.saturating_record(began.elapsed().as_nanos() as u64);
    }
    Ok(latencies)
}

async fn synchronous(
    count: u64,
    message: Bytes,
    sync: Sync,
    members: usize,
    ch: Channel,
) -> Result<Latencies, String> {
    let mut latencies = histogram().ok_or("no memory for latencies")?;
    for n in 0..count {
        let began = Instant::now();
        let outcome = ch.send_and_wait(Message::multicast(message.clone()), sync.clone()).await;
        let outcome = outcome.map_err(|e| e.to_string())?;
        if outcome.acknowledged.len() != members {
            return Err(format!("call {n}: {outcome:?}"));
        }
        latencies.saturating_record(began.elapsed().as_nanos() as u64);
    }
    Ok(latencies)
}

async fn consume_until_done(
    mut sending: tokio::task::JoinHandle<Result<Latencies, String>>,
    events: &mut Events,
) -> Result<Latencies, String> {
    loop {
        tokio::select! {
            done = &mut sending => return done.map_err(|e| e.to_string())?,
            event = events.next() => {
                if event.is_none() {
                    return Err("the channel closed".to_owned());
                }
            }
        }
    }
}

/// Every other process.
async fn answer(ch: &Channel, events: &mut Events) -> Result<(), String> {
    loop {
        let Some(event) = events.next().await else { return Err("the channel closed".to_owned()) };
        let Event::Message(m) = event else { continue };
        let (Some(bytes), Some(from)) = (m.bytes(), m.source()) else { continue };
        match bytes.first() {
            Some(&ASKS) => {
                let sent = ch.send(Message::unicast(from, bytes.clone())).await;
                sent.map_err(|e| e.to_string())?;
            }
            Some(&OVER) => return Ok(()),
            _ => {}
        }
    }
}
