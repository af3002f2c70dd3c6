//! A member in a process of its own that calls methods of the others, and has them: `get` answers
//! with a payload, `put` takes one. What is stored is not the point; both cost their messages.

use super::load::{Figures, Mix, Order, Report, histogram, recorded};
use super::machine;
use super::member::{await_members, builder};
use super::process::{orders, tell};
use crate::args::BenchMemberArgs;
use bytes::Bytes;
use rgroups::rpc::{CallOptions, Dispatcher};
use rgroups::{Address, Channel, Flags};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type Latencies = hdrhistogram::Histogram<u64>;

/// Reads and writes; what they have taken.
struct Taken {
    reads: Latencies,
    writes: Latencies,
}

/// Runs the process until its parent goes.
pub(super) async fn run(a: &BenchMemberArgs) -> Result<(), String> {
    let (ch, mut events) = builder(a)?.connect(&a.cluster).await.map_err(|e| e.to_string())?;
    let size = Arc::new(AtomicUsize::new(0));
    let rpc = dispatcher(&ch, &size);
    let mut orders = orders();
    let members = await_members(a.nodes, &ch, &mut events).await?;
    // Views and messages of no interest must not pile up.
    tokio::spawn(async move { while events.next().await.is_some() {} });
    tell(&Report::Ready { at: None });
    while let Some(order) = orders.recv().await {
        let Order::Mix(mix) = order else { continue };
        size.store(mix.size, Ordering::Relaxed);
        tell(&Report::Done(take_part(a.index, mix, &members, &rpc).await?));
    }
    let _ = ch.close().await;
    Ok(())
}

fn dispatcher(ch: &Channel, size: &Arc<AtomicUsize>) -> Dispatcher {
    let size = Arc::clone(size);
    Dispatcher::builder(ch)
        .handle_bytes("get", move |_, _key| {
            let size = size.load(Ordering::Relaxed);
            async move { Ok(Bytes::from(vec![0; size])) }
        })
        .handle_bytes("put", |_, _value| async { Ok(Bytes::new()) })
        .on_channel_thread()
        .build()
}

async fn take_part(
    index: usize,
    mix: Mix,
    members: &[Address],
    rpc: &Dispatcher,
) -> Result<Figures, String> {
    let (cpu, began) = (machine::own_us(), Instant::now());
    let callers = if index < mix.clients { usize::from(mix.callers) } else { 0 };
    let end = began + Duration::from_millis(mix.for_ms);
    let start = |n| {
        let caller = Invoker { members: members.to_vec(), own: index, mix, rpc: rpc.clone() };
        tokio::spawn(caller.call_until(end, n))
    };
    let running: Vec<_> = (0..callers).map(start).collect();
    let mut all = Taken::new()?;
    for caller in running {
        let taken = caller.await.map_err(|e| e.to_string())??;
        let together = all.reads.add(taken.reads).and(all.writes.add(taken.writes));
        together.map_err(|e| e.to_string())?;
    }
    if callers == 0 {
        // It answers meanwhile, which is to be counted too.
        tokio::time::sleep_until(end.into()).await;
    }
    Ok(Figures {
        delivered: all.reads.len() + all.writes.len(),
        wall_us: began.elapsed().as_micros() as u64,
        cpu_us: machine::own_us() - cpu,
        peak_kb: machine::peak_kb(),
        latency: recorded(&all.reads),
        writes: recorded(&all.writes),
        ..Figures::default()
    })
}

impl Taken {
    fn new() -> Result<Self, String> {
        let empty = || histogram().ok_or("no memory for latencies");
        Ok(Self { reads: empty()?, writes: empty()? })
    }
}

/// One of the callers of a process.
struct Invoker {
    members: Vec<Address>,
    own: usize,
    mix: Mix,
    rpc: Dispatcher,
}

impl Invoker {
    /// Calls, waits for the end of the call, and calls again.
    async fn call_until(self, end: Instant, number: usize) -> Result<Taken, String> {
        let Mix { reads, size, oob, timeout_ms, .. } = self.mix;
        let flags = if oob { Flags::OOB } else { Flags::empty() };
        let timeout = Duration::from_millis(timeout_ms);
        let options = CallOptions { timeout, flags, ..CallOptions::default() };
        let (key, payload) = (Bytes::from_static(&[0; 8]), Bytes::from(vec![0; size]));
        let copies = self.copies();
        let mut taken = Taken::new()?;
        // So that the callers of a process neither read at the same time nor at the same member.
        let (mut share, mut to) = (number * 29 % 100, number);
        loop {
            let began = Instant::now();
            if began >= end {
                return Ok(taken);
            }
            share += usize::from(reads);
            let is_read = share >= 100;
            let (method, to, args) = if is_read {
                share -= 100;
                to += 1;
                ("get", vec![self.members[to % self.members.len()]], key.clone())
            } else {
                ("put", copies.clone(), payload.clone())
            };
            let rows = self.rpc.call_bytes(to, method, args, options.clone()).await;
            rows.and_then(|rows| rows.all_ok()).map_err(|e| format!("{method}: {e}"))?;
            let all = if is_read { &mut taken.reads } else { &mut taken.writes };
            all.saturating_record(began.elapsed().as_nanos() as u64);
        }
    }

    /// The members that a write calls.
    fn copies(&self) -> Vec<Address> {
        let n = self.members.len();
        (1..=self.mix.copies).map(|i| self.members[(self.own + i) % n]).collect()
    }
}
