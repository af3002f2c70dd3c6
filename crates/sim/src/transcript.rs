//! A run as text, one line a fact, and its hash: equal seeds must give equal hashes.

use crate::cluster::{StateEnded, number, use_number};
use crate::history::{Asked, Fact, History, MessageId, Phase, What};
use rgroups_core::app::{SendRefusal, SyncEnd};
use rgroups_core::rpc::Row;
use rgroups_core::{Pool, SendResult, Trace, Uuid, View, ViewId};
use std::fmt::Write;

/// The running hash of a transcript, and its lines if they are kept.
#[derive(Debug)]
pub struct Transcript {
    hash: u64,
    line: String,
    lines: Option<Vec<String>>,
}

impl Transcript {
    /// An empty transcript that keeps its lines, or only their hash.
    #[must_use]
    pub fn new(keep_lines: bool) -> Self {
        Self { hash: FNV_OFFSET, line: String::new(), lines: keep_lines.then(Vec::new) }
    }

    /// Adds a fact.
    pub fn add(&mut self, fact: &Fact, history: &History) {
        self.line.clear();
        let wrote = write_fact(&mut self.line, fact, history);
        assert!(wrote.is_ok(), "writing to a string cannot fail");
        for byte in self.line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        if let Some(lines) = &mut self.lines {
            lines.push(self.line.clone());
        }
    }

    /// The hash of all lines so far (FNV-1a, 64 bits).
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The lines, if they are kept.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Writes `time  node: what`.
fn write_fact(w: &mut String, fact: &Fact, h: &History) -> std::fmt::Result {
    write!(w, "{} ", fact.at)?;
    match fact.life {
        Some(life) => write!(w, "{}: ", h.name(life))?,
        None => write!(w, "-: ")?,
    }
    write_what(w, &fact.what, h)
}

/// The text of a fact without time and node.
#[must_use]
pub fn describe(what: &What, h: &History) -> String {
    let mut line = String::new();
    let wrote = write_what(&mut line, what, h);
    assert!(wrote.is_ok(), "writing to a string cannot fail");
    line
}

fn write_what(w: &mut String, what: &What, h: &History) -> std::fmt::Result {
    match what {
        What::Started => write!(w, "starts"),
        What::Died { power_off: false } => write!(w, "killed"),
        What::Died { power_off: true } => write!(w, "power off"),
        What::LeaveAsked => write!(w, "leaves"),
        What::Left { confirmed: true } => write!(w, "left"),
        What::Left { confirmed: false } => write!(w, "left without an answer"),
        What::Frozen(true) => write!(w, "frozen"),
        What::Frozen(false) => write!(w, "resumed"),
        What::Slowed(by) => write!(w, "slowed by {by:?}"),
        What::Consumes(None) => write!(w, "consumes"),
        What::Consumes(Some(0)) => write!(w, "stops consuming"),
        What::Consumes(Some(rate)) => write!(w, "consumes {rate} bytes/s"),
        What::ConnectFailed(why) => write!(w, "could not join: {why}"),
        What::Rejoining(why) => write!(w, "joins anew: {why}"),
        What::View(v) => write!(w, "view {}", view(v, h)),
        What::Sent(m) => write!(w, "sends {}", message(*m, h)),
        What::Resolved(m, how) => write!(w, "#{} {}", m.0, result(how, h)),
        What::Blocked(m, by) => match m {
            Some(m) => write!(w, "#{} blocked by {}", m.0, names(by, h)),
            None => write!(w, "blocked by {}", names(by, h)),
        },
        What::Delivered { message: m, from, multicast } => {
            let kind = if *multicast { "" } else { " (unicast)" };
            write!(w, "delivers #{} of {}{kind}", m.0, h.name_of(*from))
        }
        What::Calls(op) => write!(w, "makes call {}", number(*op)),
        What::CallEnded(op, how) => write!(w, "call {}: {}", number(*op), result(how, h)),
        What::CarriedOut(op, by) => {
            write!(w, "carries out call {} of {}", number(*op), h.name_of(*by))
        }
        What::AnswersCall(op, by, given) => {
            write!(w, "answers call {} of {}: {given:?}", number(*op), h.name_of(*by))
        }
        What::Uses(u) => {
            write!(w, "use {} of {} within {:?}: ", use_number(u.op), u.object, u.within)?;
            match u.asked {
                Asked::Counter(action) => write!(w, "{action:?}"),
                Asked::Lock { hold } => write!(w, "lock for {hold:?}"),
            }
        }
        What::Used(op, how) => write!(w, "use {}: {}", use_number(*op), result(how, h)),
        What::FetchesState(_, within) => write!(w, "asks for a state, within {within:?}"),
        What::StateTaken(known) => write!(w, "takes a state with {} messages", known.len()),
        What::GivesBack(op) => write!(w, "gives back {}", use_number(*op)),
        What::LockLost(op, why) => write!(w, "has lost {}: {why:?}", use_number(*op)),
        What::StateRequested(by) => write!(w, "is asked for its state by {}", h.name_of(*by)),
        What::StateFetched(_, StateEnded::Given(from, n)) => {
            write!(w, "has the state of {} with {n} messages", h.name_of(*from))
        }
        What::StateFetched(_, StateEnded::Nobody) => write!(w, "begins without a state"),
        What::StateFetched(_, StateEnded::Failed(f)) => {
            write!(w, "has no state: {:?}", f.end)?;
            for t in &f.tried {
                write!(w, ", {}: {:?}", h.name_of(t.provider), t.outcome)?;
            }
            Ok(())
        }
        What::Garbled { from, why } => write!(w, "garbled delivery of {}: {why}", h.name_of(*from)),
        What::Trace(t) => write_trace(w, t, h),
        What::Network(what) => write!(w, "{what}"),
        What::Split(cut) => write!(w, "{}", if cut.is_empty() { "whole" } else { "split" }),
        What::Credits(pool, list) => {
            write!(w, "{} credits", pool_name(*pool))?;
            list.iter().try_for_each(|a| write!(w, " {}={}", h.name_of(a.peer), a.shown))
        }
        What::Windows(list) => {
            write!(w, "windows")?;
            list.iter().try_for_each(|g| {
                let name = h.name_of(g.peer);
                write!(w, " {name}:{}/{}/{}", g.low, g.delivered, g.received)
            })
        }
        What::Unread(list) => {
            write!(w, "unread")?;
            list.iter().try_for_each(|(m, n)| write!(w, " {}={n}", h.name_of(*m)))
        }
        What::PurgedTooEarly { of, upto, behind } => {
            write!(w, "purged {} up to {upto} too early for", h.name_of(*of))?;
            behind.iter().try_for_each(|(m, n)| write!(w, " {}@{n}", h.name_of(*m)))
        }
        What::TokensOutstanding(n) => write!(w, "{n} sends unresolved"),
        What::OversizedPacket(n) => write!(w, "packet of {n} bytes"),
        What::SentAgain(m) => write!(w, "sends #{} again, which is unreliable", m.0),
        What::Taken(m) => write!(w, "takes #{}", m.0),
        What::Assembling(n) => write!(w, "{n} bytes not complete"),
        What::Handles { connections, timer: false } => write!(w, "{connections} connections"),
        What::Handles { connections, timer: true } => {
            write!(w, "{connections} connections, a timer")
        }
        What::RequestsPending(n) => write!(w, "{n} requests pending"),
        What::Unserved(n) => write!(w, "{n} numbers were asked of it in vain"),
        What::Livelock => write!(w, "livelock"),
        What::Panicked(why) => write!(w, "panicked: {why}"),
        What::Phase(p) => write!(w, "== {}", phase_name(*p)),
    }
}

fn write_trace(w: &mut String, t: &Trace, h: &History) -> std::fmt::Result {
    let n = |m: &Uuid| h.name_of(*m);
    match t {
        Trace::ViewPassed { layer, view } => {
            write!(w, "layer {layer} view {}", view_id(view, h))
        }
        Trace::Multicast { seqno } => write!(w, "multicast {seqno}"),
        Trace::Unicast { to, seqno } => write!(w, "unicast {seqno} to {}", n(to)),
        Trace::XmitRequested { from, of, count, range: (first, last), .. } => {
            write!(w, "asks {} for {count} of {} in {first}-{last}", n(from), n(of))
        }
        Trace::Retransmitted { to: Some(to), of, seqno } => {
            write!(w, "resends {} of {} to {}", seqno, n(of), n(to))
        }
        Trace::Retransmitted { to: None, of, seqno } => write!(w, "resends {seqno} of {}", n(of)),
        Trace::Purged { of, upto } => write!(w, "purges {} up to {upto}", n(of)),
        Trace::TailRepair { view, step } => write!(w, "{} is {step}", view_id(view, h)),
        Trace::TailUnknown { of } => write!(w, "tail unknown: {}", names(of, h)),
        Trace::NotSynchronous { view } => {
            write!(w, "{} is not synchronous", view_id(view, h))
        }
        Trace::Primary { view, primacy, lasts } => {
            write!(w, "{} is primary: {primacy:?}, for {lasts:?}", view_id(view, h))
        }
        Trace::PrimaryFormed { view } => write!(w, "{} has become primary", view_id(view, h)),
        Trace::Stability { view } => write!(w, "stability in {}", view_id(view, h)),
        Trace::Accused { member, by, why } => {
            write!(w, "{} accused by {}: {why}", n(member), n(by))
        }
        Trace::Suspected { member, .. } => write!(w, "suspects {}", n(member)),
        Trace::Vouched { member, by } => write!(w, "{} has answered {}", n(member), n(by)),
        Trace::Stalled { time } => write!(w, "stood still for {time:?}"),
        Trace::Unsuspected { member } => write!(w, "no longer suspects {}", n(member)),
        Trace::Membership { state } => write!(w, "is {state}"),
        Trace::JoinAttempt { coordinator, attempt } => {
            write!(w, "asks {} to join, attempt {attempt}", n(coordinator))
        }
        Trace::Granted { to, pool, bytes } => {
            write!(w, "grants {} {bytes} ({})", n(to), pool_name(*pool))
        }
        Trace::Credited { from, pool, bytes } => {
            write!(w, "gets {bytes} from {} ({})", n(from), pool_name(*pool))
        }
        Trace::CreditAsked { of, pool, bytes } => {
            write!(w, "asks {} for {bytes} credit ({})", n(of), pool_name(*pool))
        }
        Trace::Blocked { pool, by } => {
            write!(w, "line waits for {} ({})", names(by, h), pool_name(*pool))
        }
        Trace::Unblocked { pool } => write!(w, "line goes on ({})", pool_name(*pool)),
        Trace::RsvpAcked { by, id } => write!(w, "rsvp {id} acknowledged by {}", n(by)),
        Trace::Merge { step } => write!(w, "merge {step}"),
        Trace::Dropped { why, from: Some(from) } => write!(w, "drops ({why:?}) of {}", n(from)),
        Trace::Dropped { why, from: None } => write!(w, "drops ({why:?})"),
        // Facts that were added to the core after this was written read well enough like this.
        other => write!(w, "{other:?}"),
    }
}

/// A view with names: `[A|2] (3) [A, B, C]`.
#[must_use]
pub fn view(v: &View, h: &History) -> String {
    let members: Vec<String> = v.members.iter().map(|m| h.name_of(*m)).collect();
    let merge = if v.is_merge() { "merge " } else { "" };
    format!("{merge}{} ({}) [{}]", view_id(&v.id, h), members.len(), members.join(", "))
}

fn view_id(v: &ViewId, h: &History) -> String {
    format!("[{}|{}]", h.name_of(v.creator), v.id)
}

/// Names, separated by commas.
#[must_use]
pub fn names(list: &[Uuid], h: &History) -> String {
    let names: Vec<String> = list.iter().map(|m| h.name_of(*m)).collect();
    names.join(", ")
}

fn message(m: MessageId, h: &History) -> String {
    let sent = h.message(m);
    let to = sent.to.as_ref().map_or_else(|| "all".to_owned(), |to| names(to, h));
    let oob = if sent.ordered { "" } else { " oob" };
    format!("#{} to {to}, {} bytes{oob}", m.0, sent.size)
}

fn result(how: &SendResult, h: &History) -> String {
    match how {
        SendResult::Sent => "sent".into(),
        SendResult::Synced(o) => {
            let end = match o.end {
                SyncEnd::Complete => "complete",
                SyncEnd::TimedOut => "timed out",
                SyncEnd::Closed => "closed",
                SyncEnd::Abandoned => "abandoned",
            };
            let mut text = format!("acknowledged by {} ({end})", names(&o.acknowledged, h));
            if !o.left.is_empty() {
                text += &format!(", left: {}", names(&o.left, h));
            }
            if !o.missing.is_empty() {
                text += &format!(", missing: {}", names(&o.missing, h));
            }
            text
        }
        SendResult::Called(outcome) => {
            let row = |r: &Row| format!("{} {:?}", h.name_of(r.member), r.status);
            outcome.rows.iter().map(row).collect::<Vec<_>>().join(", ")
        }
        SendResult::Counted(Ok(value)) => format!("{value}"),
        SendResult::Counted(Err(why)) => format!("not done: {why:?}"),
        SendResult::Locked(Ok(token)) => format!("had, with token {token:#x}"),
        SendResult::Locked(Err(why)) => format!("not had: {why:?}"),
        SendResult::Refused(why) => match why {
            SendRefusal::Closed => "refused: closed".into(),
            SendRefusal::NotMember(m) => format!("refused: {} is no member", h.name_of(*m)),
            SendRefusal::TooLarge { size, limit } => format!("refused: {size} above {limit}"),
            SendRefusal::WouldBlock { by } => format!("refused: blocked by {}", names(by, h)),
            SendRefusal::NotSent { by } => format!("not sent in time: {}", names(by, h)),
            SendRefusal::Withdrawn => "withdrawn".into(),
            other => format!("refused: {other:?}"),
        },
        other => format!("{other:?}"),
    }
}

fn pool_name(pool: Pool) -> &'static str {
    match pool {
        Pool::Exempt => "exempt",
        Pool::Multicast => "multicast",
        Pool::Unicast => "unicast",
        Pool::Ordered => "ordered",
    }
}

fn phase_name(p: Phase) -> &'static str {
    match p {
        Phase::Healed => "healed",
        Phase::Converged => "converged",
        Phase::FinalRound => "final round",
        Phase::AtRest => "at rest",
        Phase::Quiet => "quiet",
        Phase::End => "end",
        Phase::Closed => "closed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::Life;
    use crate::network::Host;
    use rgroups_core::Time;
    use std::sync::Arc;

    fn history() -> History {
        let mut h = History::default();
        h.add_life(Host(0), "A".into(), Uuid::new(1, 1));
        h.add_life(Host(1), "B".into(), Uuid::new(2, 2));
        h
    }

    fn installed(members: &[Uuid]) -> Fact {
        let v = View::new(2, members[0], members);
        Fact { at: Time(1_500_000), life: Some(Life(0)), what: What::View(Arc::new(v)) }
    }

    #[test]
    fn a_view_is_written_with_names() {
        let h = history();
        let mut t = Transcript::new(true);
        t.add(&installed(&[h.id(Life(0)), h.id(Life(1))]), &h);
        assert_eq!(t.lines(), ["0.001500s A: view [A|2] (2) [A, B]"]);
    }

    #[test]
    fn the_hash_tells_transcripts_apart_and_needs_no_lines() {
        let h = history();
        let hash = |members: &[Uuid], keep| {
            let mut t = Transcript::new(keep);
            t.add(&installed(members), &h);
            t.hash()
        };
        let (a, b) = (h.id(Life(0)), h.id(Life(1)));
        assert_eq!(hash(&[a, b], true), hash(&[a, b], false));
        assert_ne!(hash(&[a, b], true), hash(&[b, a], true));
    }
}
