//! The requirements, from four documents: S0 flow control, S1 a flush per sender, S2 digests,
//! S4 synchronous messages.

/// Requirements without a test, and tests of what does not exist.
pub(crate) fn mistakes(tests: &[(&'static str, &'static [&'static str])]) -> Vec<String> {
    let known = |id: &str| REQUIREMENTS.iter().any(|(known, _)| *known == id);
    let covered = |id: &str| tests.iter().any(|(_, ids)| ids.contains(&id));
    let named = |name: &str| tests.iter().any(|(test, _)| *test == name);
    let uncovered = REQUIREMENTS.iter().filter(|(id, _)| !covered(id));
    let mut all: Vec<String> = uncovered.map(|(id, _)| format!("{id} has no test")).collect();
    let ids = tests.iter().flat_map(|(_, ids)| *ids);
    all.extend(ids.filter(|id| !known(id)).map(|id| format!("there is no requirement {id}")));
    let of_experiments = EXPERIMENTS.iter().flat_map(|e| e.tests);
    all.extend(of_experiments.filter(|n| !named(n)).map(|n| format!("there is no test {n}")));
    all
}

/// Id, and what it asks.
pub(crate) const REQUIREMENTS: &[(&str, &str)] = &[
    ("S0-1", "the sender's rate follows what the receivers take; nothing is lost to overrun"),
    ("S0-2", "credits are bytes; both sides begin with the same number"),
    ("S0-3", "the sender subtracts what it sends"),
    ("S0-4", "the receiver counts what was consumed, not what was queued"),
    ("S0-5", "at the threshold receivers send credits"),
    ("S0-6", "without credit the sender waits; nothing waits for ever"),
    ("S0-7", "the FC element and its attributes are accepted"),
    ("S0-8", "max_credits of any size works; owing more than the budget is told"),
    ("S0-9", "min_credits is an absolute threshold"),
    ("S0-10", "min_threshold overrides min_credits"),
    ("S0-11", "min_block_time: after 5 s without credit the sender asks"),
    ("S0-12", "exactly those who owe credit are asked"),
    ("S0-13", "until all of them answered; a request lets nothing unprocessed pass"),
    ("S0-14", "flow control can be left out where calls are synchronous"),
    ("S0-15", "flow control over TCP"),
    ("S0-16", "a group message travels at the pace of the slowest receiver"),
    ("S0-17", "connections are made when needed; the sender is a receiver too"),
    ("S0-18", "fast peers' socket buffers do not let the sender run ahead"),
    ("S0-19", "without flow control the run-away shows (negative control)"),
    ("S0-20", "connections that break lose no message"),
    ("S0-21", "all members keep messages and serve them after the sender died"),
    ("S0-22", "what everybody has is purged"),
    ("S0-23", "stability runs by time"),
    ("S0-24", "stability runs by volume"),
    ("S0-25", "a slow member holds memory back, within a bound, and is named"),
    ("S0-26", "a member that reads nothing does not block the others"),
    ("S1-1", "flush: everybody has everything of everybody; its cost"),
    ("S1-2", "a view's installer knows who has it, without waiting for stability"),
    ("S1-3", "a lost last message is found"),
    ("S1-4", "stability finds it at the latest"),
    ("S1-5", "a message can ask to be acknowledged"),
    ("S1-6", "it is repeated to those who lack it until all have acknowledged"),
    ("S1-7", "who crashes or leaves is no longer awaited; a suspect still is"),
    ("S1-8", "closing ends the wait and says so"),
    ("S1-9", "acknowledgements are matched to their message and to no other"),
    ("S1-10", "a timeout per call, with who is missing"),
    ("S1-11", "a receiver asks for a gap at once"),
    ("S1-12", "an acknowledgement can wait for the messages before it"),
    ("S1-13", "who has acknowledged contiguously has everything before it"),
    ("S1-14", "the same for unicasts"),
    ("S1-15", "the same for a subset of the members"),
    ("S2-1", "a digest of another view is recognised and discarded"),
    ("S2-2", "a merging coordinator has the digest of all its members"),
    ("S2-3", "each member answers with its own digest alone"),
    ("S2-4", "such an answer is not read against a view"),
    ("S2-5", "the digest of a state survives a join meanwhile"),
    ("S2-6", "and a leave meanwhile"),
    ("S2-7", "reference digests and full digests are two types"),
    ("S2-8", "full digests are not kept, except by the coordinator for stability"),
    ("S2-9", "a join sends no digest to existing members"),
    ("S2-10", "a joiner gets the view and a digest that needs nothing else"),
    ("S2-11", "stability reports are reference digests"),
    ("S2-12", "a state comes with a full digest"),
    ("S2-13", "merge digests of single members are full digests"),
    ("S2-14", "merge answers can be read alone"),
    ("S2-15", "a merge view carries a reference digest to itself"),
    ("S2-16", "regular views carry none"),
    ("S2-17", "how often each kind of digest is sent is counted"),
    ("S2-18", "stability reports are compact"),
    ("S2-19", "a report is read with the view it names, or not at all"),
    ("S2-20", "equal vectors are written once"),
    ("S2-21", "digests cost no memory"),
    ("S2-22", "purge at the least delivered, repair to the most received"),
    ("S4-1", "a synchronous send ends acknowledged, timed out, closed or with who left"),
    ("S4-2", "it covers all earlier messages of its sender"),
    ("S4-3", "reception or delivery, chosen for each message"),
    ("S4-4", "reception is arrival in the receiver's window"),
    ("S4-5", "delivery is consumption by the application, and its failure is told"),
    ("S4-6", "a lost last message does not end the wait"),
    ("S4-7", "nor does the wait depend on stability"),
    ("S4-8", "the four steps of a flush per sender"),
    ("S4-9", "with a timeout or without"),
    ("S4-10", "gaps are asked for, and acknowledgements wait for them if wished"),
];

/// What was tried with JGroups 5.5.6, and the same here.
pub(crate) struct Experiment {
    pub(crate) id: &'static str,
    pub(crate) scenario: &'static str,
    /// What JGroups did, as it was recorded.
    pub(crate) jgroups: &'static str,
    /// What happens here, as these tests assert.
    pub(crate) here: &'static str,
    pub(crate) tests: &'static [&'static str],
}

/// The experiments; there is no X3.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        id: "X1",
        scenario: "synchronous multicast without a timeout, all traffic dropped",
        jgroups: "returns normally after 1.85 s, nobody has it",
        here: "waits (600 s), and completes when the network is back",
        tests: &["traffic_that_is_all_lost_is_no_success"],
    },
    Experiment {
        id: "X2",
        scenario: "synchronous unicast, all traffic dropped",
        jgroups: "returns normally after 0 ms",
        here: "timed out at its timeout of 5 s, the receiver is named missing",
        tests: &["a_unicast_that_is_lost_is_no_success"],
    },
    Experiment {
        id: "X4",
        scenario: "messages lost, the next one synchronous and out of band",
        jgroups: "returns after 8 ms, the receiver has that one alone",
        here: "on_contiguous returns when those before it are there, on_receive within a round trip",
        tests: &["out_of_band_messages_wait_as_well"],
    },
    Experiment {
        id: "X5",
        scenario: "max_credits of 3,000,000,000",
        jgroups: "-1,294,967,296 credits; every unicast blocks for ever, the answer to a join too",
        here: "joins, sends both ways, shows 3,000,000,000 less what was sent",
        tests: &["three_thousand_million_bytes_of_credit_work"],
    },
    Experiment {
        id: "X6",
        scenario: "synchronous send with a timeout of 3 s that flow control does not admit",
        jgroups: "returns normally after 5.0 s, the receiver has nothing",
        here: "not sent, after 3 s, with the name of who blocks; it is not sent later",
        tests: &[
            "a_message_that_was_never_admitted_is_not_sent",
            "a_synchronous_send_without_credit_ends_in_its_time_as_not_sent",
        ],
    },
    Experiment {
        id: "X7",
        scenario: "1,000,000 credits, threshold 0.2: 700,000 bytes, then 500,000, not cut",
        jgroups: "the second send blocks for good, no credit is asked for",
        here: "both are delivered",
        tests: &["credit_that_is_left_but_too_small_blocks_nobody_for_ever"],
    },
    Experiment {
        id: "X8",
        scenario: "a digest of 10, 100, 500 members on the wire",
        jgroups: "222, 2,202, 11,002 bytes in every report",
        here: "at most 6 bytes per member that changed and 1 per member that did not (docs/digests.md)",
        tests: &["bytes_on_the_wire"],
    },
];
