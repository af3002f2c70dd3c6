//! What agreement on stability costs on the wire, beside JGroups' form (experiment X8): real members
//! in views of up to 2,000, most of whose votes are written here. `cargo test -p rgroups-cli --test
//! requirements bytes_on_the_wire -- --nocapture` prints the table of docs/digests.md.

use super::lone::{Lone, tagged, view_of};
use super::*;
use rgroups::core::attributes::ByteSize;
use rgroups::core::protocols::stable::StableConfig;
use rgroups::core::wire::{Encode, StablePayload};
use rgroups::core::{Digest, View};

crate::tests![
    bytes_on_the_wire => "S2-11", "S2-18", "S2-20";
    of_500_alike_but_ten_a_vector_says_little => "S2-20";
];

const SENT: i64 = 100_000;

fn payload_of(m: &Message) -> StablePayload {
    let bytes = m.body.as_bytes().expect("our form").clone();
    StablePayload::from_bytes(bytes).expect("our form")
}

fn kind_to(all: &[Message], kind: StableKind, to: u64) -> Option<&Message> {
    all.iter().find(|m| stable(m) == Some(kind) && m.dest == Some(tagged(to).into()))
}

/// The digest as JGroups writes it, with the address of each member.
fn jgroups(view: &View, pairs: &[SeqnoPair]) -> usize {
    let all: Digest = view.members.iter().copied().zip(pairs.iter().copied()).collect();
    all.to_wire().encoded_len()
}

/// A view of `n` in which everybody has had 100,000 messages of everybody: its coordinator and one
/// other member, which are real.
struct Pair {
    view: std::sync::Arc<View>,
    coordinator: Lone,
    member: Lone,
    /// What everybody has.
    pairs: Vec<SeqnoPair>,
    /// The last vector, and its number.
    vector: (u64, Vec<SeqnoPair>),
}

/// What one round took: the report of the member, the vector that it was sent.
struct Cost {
    report: usize,
    vector: usize,
    whole_report: bool,
}

impl Pair {
    fn new(n: u64, sent: impl Fn(u64) -> i64) -> Self {
        let view = view_of(n);
        let pair = |m: u64| {
            // A member's own window begins at 0 and nothing else can move it.
            let delivered = if m <= 2 { 0 } else { sent(m) };
            SeqnoPair { delivered, received: delivered }
        };
        let pairs: Vec<SeqnoPair> = (1..=n).map(pair).collect();
        let digest: Digest = view.members.iter().copied().zip(pairs.iter().copied()).collect();
        let config = StableConfig { desired_avg_gossip: SECOND, max_bytes: ByteSize(0) };
        let member = |me| Lone::with_windows(me, &view, config.clone(), &digest);
        let (coordinator, member) = (member(1), member(2));
        let vector = (0, Vec::new());
        Self { view, coordinator, member, pairs, vector }
    }

    /// These multicast once more, and a round follows. The members that are not real report what the
    /// real one reports.
    fn round(&mut self, active: impl Iterator<Item = u64>) -> Cost {
        for m in active {
            let pair = &mut self.pairs[m as usize - 1];
            pair.delivered += 1;
            pair.received += 1;
            self.member.arrive_numbered(tagged(m), pair.delivered);
            self.coordinator.arrive_numbered(tagged(m), pair.delivered);
        }
        // Both report within two seconds; time does not pass otherwise.
        self.member.sent();
        self.member.run(2 * SECOND);
        let sent = self.member.sent();
        let report = kind_to(&sent, StableKind::Gossip, 1).expect("it reports").clone();
        let changes = match payload_of(&report) {
            StablePayload::Report(changes) => changes,
            StablePayload::Vector { .. } => panic!("a report"),
        };
        let cost = (report.length(), changes.base() == 0);
        self.coordinator.run(2 * SECOND);
        for m in 2..=self.view.members.len() as u64 {
            self.coordinator.arrive(tagged(m), report.clone());
        }
        let sent = self.coordinator.sent();
        let vectors = sent.iter().filter(|m| stable(m) == Some(StableKind::Stability)).count();
        assert_eq!(vectors, self.view.members.len() - 1, "one to each");
        let vector = kind_to(&sent, StableKind::Stability, 2).expect("the member is told");
        let StablePayload::Vector { number, changes } = payload_of(vector) else {
            panic!("a vector")
        };
        let base = (changes.base() != 0).then_some(self.vector.1.as_slice());
        let pairs = changes.apply(base, self.pairs.len()).expect("on what the member reported on");
        assert_eq!(pairs, self.pairs);
        self.vector = (number, pairs);
        self.member.arrive(tagged(1), vector.clone());
        assert_eq!(self.member.gauge("num_kept_messages"), 0);
        Cost { report: cost.0, vector: vector.length(), whole_report: cost.1 }
    }
}

fn bytes_on_the_wire() {
    println!(
        "| members | JGroups' form | first report | first vector | 10 % active: report | vector | one active: report | vector |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for n in [10, 100, 500, 2_000] {
        let mut pair = Pair::new(n, |m| SENT + (m as i64 * 7_919) % 2_000);
        let java = jgroups(&pair.view, &pair.pairs);
        let first = pair.round(std::iter::once(3));
        assert!(first.whole_report, "a fresh view begins with the whole form");
        assert!(first.report as u64 <= 6 * n + 4, "{} for {n} members", first.report);
        let tenth = n / 10;
        let some = pair.round((0..tenth).map(|i| 3 + i * 10 % (n - 2)));
        let one = pair.round(std::iter::once(3));
        // Kind, base, and the number of members.
        let head = 4;
        for (cost, active) in [(&some, tenth), (&one, 1)] {
            assert!(!cost.whole_report);
            let most = head + 6 * active + (n - active);
            assert!(cost.report as u64 <= most, "{} above {most}", cost.report);
            assert!(cost.vector as u64 <= most + 2, "{} above {most}", cost.vector);
        }
        println!(
            "| {n} | {java} | {} | {} | {} | {} | {} | {} |",
            first.report, first.vector, some.report, some.vector, one.report, one.vector
        );
        if n == 100 {
            assert!(first.report <= 600 && java == 2_202 - 2 * 4, "{java}");
        }
    }
}

fn of_500_alike_but_ten_a_vector_says_little() {
    let odd = |m: u64| m.is_multiple_of(50);
    let mut pair = Pair::new(500, |m| if odd(m) { SENT + m as i64 } else { SENT });
    let java = jgroups(&pair.view, &pair.pairs);
    let cost = pair.round(std::iter::once(3));
    println!("500 members, 10 of them unlike the rest: {} bytes, JGroups {java}", cost.vector);
    assert!(cost.vector * 100 < java * 15);
    assert!(cost.report * 100 < java * 15);
}
