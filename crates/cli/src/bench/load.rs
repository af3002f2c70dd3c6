//! The messages of a measurement, and what is told about a round.
//!
//! A message begins with 16 bytes: its kind and round, its number, and for one in
//! [`STAMP_EVERY`] when it was sent. After its last message a sender sends one more that says how
//! many there were. Numbers of one sender must come in order and without a gap.

use crate::args::Level;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// The first bytes of every message.
pub(super) const HEAD: usize = 16;
/// Reading the clock for every message would be a part of what is measured.
const STAMP_EVERY: u64 = 64;
/// Marks the last message of a sender; its number is how many came before.
const LAST: u64 = 1 << 63;
const ROUND_SHIFT: u32 = 48;
const NUMBER: u64 = (1 << ROUND_SHIFT) - 1;

/// What all processes do in a round.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Round {
    /// Which one; at most 2^15.
    pub(super) number: u16,
    /// The first so many processes send.
    pub(super) senders: usize,
    /// Bytes of a message.
    pub(super) size: usize,
    /// How long.
    pub(super) for_ms: u64,
    /// So many messages instead, if given.
    pub(super) count: Option<u64>,
    /// The last process pauses so long after each batch that it takes.
    #[serde(default)]
    pub(super) slow_us: u64,
}

/// What a process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub(super) enum Order {
    /// Where the others are, in order (bare sockets only).
    Peers { at: Vec<SocketAddr> },
    /// Begin.
    Go(Round),
    /// Begin to call, or to answer.
    Call(Calls),
    /// Begin to call methods.
    Mix(Mix),
}

/// Calls of methods by the callers of some processes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Mix {
    /// The first so many processes call.
    pub(super) clients: usize,
    /// Callers of each.
    pub(super) callers: u16,
    /// Reads among 100 calls.
    pub(super) reads: u8,
    /// Members that a write calls.
    pub(super) copies: usize,
    /// Bytes of the payload.
    pub(super) size: usize,
    /// Out of band.
    pub(super) oob: bool,
    /// How long.
    pub(super) for_ms: u64,
    /// The deadline of a call.
    pub(super) timeout_ms: u64,
}

/// Calls of process 0, one after the other.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Calls {
    /// A multicast that all have acknowledged at this level; `None`: a message to process 1, and its
    /// answer.
    pub(super) level: Option<Level>,
    /// How many.
    pub(super) count: u64,
    /// Bytes of a message.
    pub(super) size: usize,
    /// An answer may take so long.
    pub(super) timeout_ms: u64,
}

/// What a process tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub(super) enum Report {
    /// It can begin; where it receives (bare sockets only).
    Ready { at: Option<SocketAddr> },
    /// It is in the group, and connecting took this long.
    Joined { took_us: u64 },
    /// It has a view of so many members, since this time of the clock that all share.
    View { members: usize, at: u64 },
    /// So many messages were received since the round began.
    Progress { delivered: u64 },
    /// It has everything.
    Done(Figures),
    /// It cannot go on.
    Failed { reason: String },
    /// It is gone.
    Ended,
}

/// One process in one round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Figures {
    /// Messages received, its own included; calls that have ended.
    pub(super) delivered: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Stands for the order in which the messages of all senders were received.
    #[serde(default)]
    pub(super) order: u64,
    /// From the beginning to the last message.
    pub(super) wall_us: u64,
    /// Processor time of the process.
    pub(super) cpu_us: u64,
    /// The largest memory of the process so far.
    pub(super) peak_kb: u64,
    /// Sending to receiving, in nanoseconds: value, how often.
    pub(super) latency: Vec<(u64, u64)>,
    /// The same of calls that write.
    #[serde(default)]
    pub(super) writes: Vec<(u64, u64)>,
    /// Messages sent again.
    pub(super) retransmitted: u64,
    /// Datagrams sent.
    pub(super) datagrams_sent: u64,
    /// How long a sender waited for credit.
    pub(super) blocked_ms: u64,
    /// Turns of the loop of the member.
    pub(super) turns: u64,
    /// Datagrams of bare sockets that did not arrive.
    pub(super) lost: u64,
}

/// From a nanosecond to an hour, with three digits.
pub(super) fn histogram() -> Option<hdrhistogram::Histogram<u64>> {
    hdrhistogram::Histogram::new_with_bounds(1, 3_600_000_000_000, 3).ok()
}

/// What a histogram has: value, how often.
pub(super) fn recorded(all: &hdrhistogram::Histogram<u64>) -> Vec<(u64, u64)> {
    let values = all.iter_recorded();
    values.map(|v| (v.value_iterated_to(), v.count_since_last_iteration())).collect()
}

/// Nanoseconds of the clock that all processes of the machine share.
pub(super) fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// Writes the beginning of data message `number` of `round`.
pub(super) fn stamp(head: &mut [u8], round: u16, number: u64) {
    let sent = if number.is_multiple_of(STAMP_EVERY) { clock() } else { 0 };
    write(head, u64::from(round) << ROUND_SHIFT | number, sent);
}

/// Writes the message behind `count` others.
pub(super) fn stamp_last(head: &mut [u8], round: u16, count: u64) {
    write(head, LAST | u64::from(round) << ROUND_SHIFT | count, 0);
}

fn write(head: &mut [u8], first: u64, second: u64) {
    head[..8].copy_from_slice(&first.to_be_bytes());
    head[8..HEAD].copy_from_slice(&second.to_be_bytes());
}

/// What has been received of one sender.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    next: u64,
    over: bool,
}

/// Checks and counts what comes in a round.
#[derive(Debug)]
pub(super) struct Intake {
    round: Round,
    streams: Vec<Stream>,
    over: usize,
    pub(super) delivered: u64,
    pub(super) bytes: u64,
    pub(super) order: u64,
    latency: hdrhistogram::Histogram<u64>,
}

impl Intake {
    pub(super) fn new(round: Round) -> Result<Self, String> {
        let latency = histogram().ok_or("no memory for latencies")?;
        let streams = vec![Stream::default(); round.senders];
        Ok(Self { round, streams, over: 0, delivered: 0, bytes: 0, order: 0, latency })
    }

    /// A message of the sender with this index.
    pub(super) fn take(&mut self, from: usize, message: &[u8]) -> Result<(), String> {
        let Some((first, rest)) = message.split_first_chunk::<8>() else {
            return Err(format!("a message of {} bytes", message.len()));
        };
        let first = u64::from_be_bytes(*first);
        let round = ((first & !LAST) >> ROUND_SHIFT) as u16;
        if round != self.round.number {
            return Err(format!("a message of round {round} in round {}", self.round.number));
        }
        let Some(stream) = self.streams.get_mut(from) else {
            return Err(format!("process {from} does not send"));
        };
        let number = first & NUMBER;
        if number != stream.next || stream.over {
            return Err(format!("message {number} of process {from} instead of {}", stream.next));
        }
        if first & LAST != 0 {
            stream.over = true;
            self.over += 1;
            return Ok(());
        }
        stream.next += 1;
        // Numbers come one after the other, so the senders say it all.
        self.order = (self.order ^ (from as u64 + 1)).wrapping_mul(0x0000_0100_0000_01b3);
        self.delivered += 1;
        self.bytes += message.len() as u64;
        let sent = rest.first_chunk::<8>().map_or(0, |b| u64::from_be_bytes(*b));
        if sent != 0 {
            self.latency.saturating_record(clock().saturating_sub(sent).max(1));
        }
        Ok(())
    }

    /// Everything of every sender is there.
    pub(super) fn is_complete(&self) -> bool {
        self.over == self.streams.len()
    }

    pub(super) fn latency(&self) -> Vec<(u64, u64)> {
        recorded(&self.latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Round =
        Round { number: 3, senders: 2, size: 16, for_ms: 0, count: Some(2), slow_us: 0 };

    fn message(round: u16, number: u64) -> [u8; HEAD] {
        let mut m = [0; HEAD];
        stamp(&mut m, round, number);
        m
    }

    fn last(count: u64) -> [u8; HEAD] {
        let mut m = [0; HEAD];
        stamp_last(&mut m, ROUND.number, count);
        m
    }

    #[test]
    fn a_round_is_complete_when_every_sender_has_ended() {
        let mut intake = Intake::new(ROUND).expect("fits");
        for from in 0..2 {
            for number in 0..2 {
                intake.take(from, &message(3, number)).expect("in order");
            }
            assert!(!intake.is_complete());
            intake.take(from, &last(2)).expect("in order");
        }
        assert!(intake.is_complete());
        assert_eq!((intake.delivered, intake.bytes), (4, 64));
        assert_eq!(intake.latency().iter().map(|(_, n)| n).sum::<u64>(), 2, "the first of each");
    }

    #[test]
    fn the_order_of_messages_of_several_senders_is_told_by_one_number() {
        let order = |senders: [usize; 4]| {
            let mut intake = Intake::new(ROUND).expect("fits");
            let mut next = [0; 2];
            for from in senders {
                intake.take(from, &message(3, next[from])).expect("in order");
                next[from] += 1;
            }
            intake.order
        };
        assert_eq!(order([0, 1, 1, 0]), order([0, 1, 1, 0]));
        assert_ne!(order([0, 1, 1, 0]), order([0, 1, 0, 1]));
    }

    #[test]
    fn what_is_missing_doubled_or_of_another_round_is_noticed() {
        let mut intake = Intake::new(ROUND).expect("fits");
        intake.take(0, &message(3, 0)).expect("in order");
        let wrong =
            [(0, message(3, 0)), (0, message(3, 2)), (0, message(2, 1)), (2, message(3, 0))];
        for (from, m) in wrong {
            assert!(intake.take(from, &m).is_err());
        }
        assert!(intake.take(0, &last(2)).is_err(), "one is missing");
        assert!(intake.take(0, &[1; 7]).is_err(), "too short");
    }
}
