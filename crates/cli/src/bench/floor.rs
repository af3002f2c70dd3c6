//! Bare sockets: what the machine does without any protocol. The same messages in batches of the
//! same size, copied in and copied out, one thread a process; no acknowledgements but what keeps the
//! sender from overrunning a receiver, no ordering, nothing sent again.
//!
//! A batch is a row of messages, each behind a head of [`FRAME`] bytes: its length, the rest as long as
//! the headers of a small message are.

use super::load::{Figures, HEAD, Intake, Order, Report, Round, stamp, stamp_last};
use super::machine;
use super::process::tell;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Before every message in a batch.
pub(super) const FRAME: usize = 24;
/// How large a batch may be: one datagram, or one call to write.
pub(super) const BATCH: usize = 60_000;
/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// Takes a message of the process with this number.
pub(super) type Take<'a> = dyn FnMut(usize, &[u8]) -> Result<(), String> + 'a;

/// Sockets of one kind, connected with those of the others.
pub(super) trait Bare {
    /// Whether a batch may be sent now.
    fn room(&self) -> bool;
    /// Sends a batch to all, itself included.
    fn send(&mut self, batch: &[u8]) -> io::Result<()>;
    /// Takes everything that is there. With `wait` it waits for a moment until there is something, or
    /// room.
    fn receive(&mut self, wait: bool, take: &mut Take<'_>) -> Result<(), String>;
    /// What did not arrive so far.
    fn lost(&self) -> u64;
}

/// Obeys the parent until it goes.
pub(super) fn serve<B: Bare>(
    index: usize,
    at: Option<SocketAddr>,
    connect: impl FnOnce(&[SocketAddr]) -> io::Result<B>,
) -> Result<(), String> {
    tell(&Report::Ready { at });
    let mut connect = Some(connect);
    let mut bare = None;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        match serde_json::from_str(&line).map_err(|e| e.to_string())? {
            Order::Peers { at } => {
                let connect = connect.take().ok_or("told twice where the others are")?;
                bare = Some(connect(&at).map_err(|e| e.to_string())?);
            }
            Order::Call(_) | Order::Mix(_) => {}
            Order::Go(round) => {
                let bare = bare.as_mut().ok_or("not told where the others are")?;
                tell(&Report::Done(take_part(index, round, bare)?));
            }
        }
    }
    Ok(())
}

fn take_part<B: Bare>(index: usize, round: Round, bare: &mut B) -> Result<Figures, String> {
    let (cpu, lost) = (machine::own_us(), bare.lost());
    let began = Instant::now();
    let end = began + Duration::from_millis(round.for_ms);
    let mut intake = Intake::new(round)?;
    let mut batch = Batches::new(round);
    let mut sending = index < round.senders;
    let mut out = vec![0; round.size.max(HEAD)];
    let mut told = began;
    while sending || !intake.is_complete() {
        while sending && bare.room() {
            sending = batch.fill(end);
            bare.send(&batch.bytes).map_err(|e| e.to_string())?;
        }
        bare.receive(true, &mut |from, message| {
            // A message is handed over as a copy.
            let copy = out.get_mut(..message.len()).ok_or("a message that is too long")?;
            copy.copy_from_slice(message);
            intake.take(from, copy)
        })?;
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            tell(&Report::Progress { delivered: intake.delivered });
        }
    }
    Ok(Figures {
        delivered: intake.delivered,
        bytes: intake.bytes,
        wall_us: began.elapsed().as_micros() as u64,
        cpu_us: machine::own_us() - cpu,
        peak_kb: machine::peak_kb(),
        latency: intake.latency(),
        lost: bare.lost() - lost,
        ..Figures::default()
    })
}

/// Makes batches.
struct Batches {
    round: Round,
    number: u64,
    body: Vec<u8>,
    bytes: Vec<u8>,
}

impl Batches {
    fn new(round: Round) -> Self {
        let body = vec![0; round.size];
        Self { round, number: 0, body, bytes: Vec::with_capacity(BATCH + FRAME + round.size) }
    }

    /// The next batch; false if it is the last one.
    fn fill(&mut self, end: Instant) -> bool {
        self.bytes.clear();
        let over = match self.round.count {
            Some(_) => false,
            None => Instant::now() >= end,
        };
        while !over && self.round.count.is_none_or(|count| self.number < count) {
            if !self.bytes.is_empty() && self.bytes.len() + FRAME + self.round.size > BATCH {
                return true;
            }
            stamp(&mut self.body, self.round.number, self.number);
            self.number += 1;
            self.append();
        }
        stamp_last(&mut self.body, self.round.number, self.number);
        self.append();
        false
    }

    fn append(&mut self) {
        let mut frame = [0; FRAME];
        frame[..4].copy_from_slice(&(self.body.len() as u32).to_be_bytes());
        self.bytes.extend_from_slice(&frame);
        self.bytes.extend_from_slice(&self.body);
    }
}

/// Takes the whole messages of a row apart; how many bytes these were.
pub(super) fn split(
    bytes: &[u8],
    mut take: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<usize, String> {
    let mut at = 0;
    while let Some(head) = bytes.get(at..).and_then(|b| b.first_chunk::<4>()) {
        let end = at + FRAME + u32::from_be_bytes(*head) as usize;
        let Some(message) = bytes.get(at + FRAME..end) else { break };
        take(message)?;
        at = end;
    }
    Ok(at)
}

/// How many bytes are missing at least until the row that begins here has a whole message, or a head
/// that tells.
pub(super) fn missing(bytes: &[u8]) -> usize {
    match bytes.first_chunk::<4>() {
        Some(head) => FRAME + u32::from_be_bytes(*head) as usize - bytes.len(),
        None => 4 - bytes.len(),
    }
}

/// Waits until one of `sockets` can be read, or one of `full` written; a moment at most.
pub(super) fn wait<'a, S: AsFd + 'a>(
    sockets: impl Iterator<Item = &'a S>,
    full: impl Iterator<Item = &'a S>,
) -> io::Result<()> {
    let read = sockets.map(|s| PollFd::new(s, PollFlags::IN));
    let mut all: Vec<_> = read.chain(full.map(|s| PollFd::new(s, PollFlags::OUT))).collect();
    let moment = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    match poll(&mut all, Some(&moment)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_taken_apart_as_it_was_filled() {
        let round =
            Round { number: 1, senders: 1, size: 1000, for_ms: 0, count: Some(100), slow_us: 0 };
        let (mut batches, mut intake) = (Batches::new(round), Intake::new(round).expect("fits"));
        let mut goes_on = true;
        let mut rest = Vec::new();
        while goes_on {
            goes_on = batches.fill(Instant::now());
            assert!(batches.bytes.len() <= BATCH + FRAME + round.size);
            // In pieces, as a stream brings them.
            for piece in batches.bytes.chunks(777) {
                rest.extend_from_slice(piece);
                let taken = split(&rest, |m| intake.take(0, m)).expect("in order");
                rest.drain(..taken);
            }
        }
        assert!(intake.is_complete() && rest.is_empty());
        assert_eq!(intake.delivered, 100);
    }
}
