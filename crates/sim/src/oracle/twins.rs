//! C17 and O1: two runs of one seed, compared. The same stack gives the same run; another packaging
//! (smaller packets, messages cut into more parts) gives other runs with the same deliveries.

use super::Violation;
use crate::connections::Life;
use crate::history::{History, MessageId, What};
use rgroups_core::SendResult;
use std::collections::{BTreeMap, BTreeSet};

/// O1: the hashes of the transcripts of the same seed, run twice.
#[must_use]
pub fn same_run(seed: u64, first: u64, second: u64) -> Option<Violation> {
    (first != second).then(|| {
        let text = format!("seed {seed} gave the transcripts {first:016x} and {second:016x}");
        Violation::new("O1", text)
    })
}

/// C17: each pair of processes has the same sequence of ordered deliveries in both runs. Compared is
/// what was sent when everybody was in its last view, and accepted in both runs: who had joined
/// when, and for what there was room, is a matter of time.
#[must_use]
pub fn same_deliveries(one: &History, other: &History) -> Vec<Violation> {
    let common: BTreeSet<MessageId> =
        comparable(one).intersection(&comparable(other)).copied().collect();
    let (a, b) = (sequences(one, &common), sequences(other, &common));
    let pairs: BTreeSet<Pair> = a.keys().chain(b.keys()).copied().collect();
    let nothing = Vec::new();
    let differ = pairs.into_iter().filter_map(|pair| {
        let (x, y) = (a.get(&pair).unwrap_or(&nothing), b.get(&pair).unwrap_or(&nothing));
        let at = (0..x.len().max(y.len())).find(|i| x.get(*i) != y.get(*i))?;
        let shown = |m: Option<&MessageId>| m.map_or("nothing".into(), |m| format!("#{}", m.0));
        let (receiver, sender, _) = pair;
        let text = format!(
            "{} got of {} as number {at}: {} in one run, {} in the other",
            one.name(receiver),
            one.name(sender),
            shown(x.get(at)),
            shown(y.get(at))
        );
        Some(Violation::new("C17", text))
    });
    differ.collect()
}

/// Receiver, sender, and whether to all.
type Pair = (Life, Life, bool);

fn sequences(h: &History, wanted: &BTreeSet<MessageId>) -> BTreeMap<Pair, Vec<MessageId>> {
    let mut found: BTreeMap<Pair, Vec<MessageId>> = BTreeMap::new();
    for f in &h.facts {
        if let (Some(to), What::Delivered { message, multicast, .. }) = (f.life, &f.what)
            && wanted.contains(message)
        {
            let pair = (to, h.message(*message).sender, *multicast);
            found.entry(pair).or_default().push(*message);
        }
    }
    found
}

/// Ordered messages that were sent after the last view before the end, and accepted.
fn comparable(h: &History) -> BTreeSet<MessageId> {
    let end = h.phase(crate::history::Phase::End).unwrap_or(h.facts.len());
    let views = h.facts[..end].iter().rposition(|f| matches!(f.what, What::View(_)));
    let mut sent = BTreeSet::new();
    let mut accepted = BTreeSet::new();
    for f in h.facts[..end].iter().skip(views.unwrap_or_default()) {
        match &f.what {
            What::Sent(m) if h.message(*m).ordered => {
                sent.insert(*m);
            }
            What::Resolved(m, SendResult::Sent | SendResult::Synced(_)) if sent.contains(m) => {
                accepted.insert(*m);
            }
            _ => {}
        }
    }
    accepted
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;

    fn names_of(one: &History, other: &History) -> Vec<&'static str> {
        names(&same_deliveries(one, other))
    }

    fn run(order: [usize; 2]) -> History {
        let mut h = together();
        let sent = [send(&mut h, A, None), send(&mut h, A, None)];
        for i in order {
            deliver(&mut h, B, sent[i]);
        }
        h
    }

    #[test]
    fn runs_with_the_same_deliveries_break_nothing() {
        assert!(names_of(&run([0, 1]), &run([0, 1])).is_empty());
    }

    #[test]
    fn runs_with_different_deliveries_break_c17() {
        assert_eq!(names_of(&run([0, 1]), &run([1, 0])), ["C17"]);
        assert_eq!(names_of(&run([0, 1]), &run([0, 0])), ["C17"]);
    }

    #[test]
    fn different_transcripts_of_one_seed_break_o1() {
        assert_eq!(same_run(7, 1, 1), None);
        assert_eq!(same_run(7, 1, 2).map(|v| v.invariant), Some("O1"));
    }
}
