//! SEQUENCER: two members of each kind multicast, all at once, and the sequencer is killed.

use crate::peer::{PATIENCE, Peer};
use crate::table::{Table, versions, warnings};
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The first is the sequencer, the second follows.
const ORDERS: [[&str; 4]; 4] = [
    ["J1", "R1", "J2", "R2"],
    ["R1", "J1", "J2", "R2"],
    ["J1", "J2", "R1", "R2"],
    ["R1", "R2", "J1", "J2"],
];

/// How long everybody sends before the sequencer is killed, and after the view without it.
const LOAD: Duration = Duration::from_secs(2);

#[test]
fn one_order_in_a_mixed_group_whose_sequencer_is_killed() {
    let mut table = Table::new("order");
    table.line(
        "SEQUENCER above MFC and UFC. All four multicast every millisecond or two; after 2 s the first \
         member, the sequencer, is killed (SIGKILL), and the other three go on for 2 s. The order is \
         compared of every two: messages that both delivered, they delivered in the same order, and none \
         twice. Ours have the same last messages of the sequencer, and lack none of a survivor unless they say that a \
         tail is not known (`tails_unknown`). That happens where JGroups members alone have got it \
         from the dead sequencer: they repair no tails and are not asked. What survivors lack of each other is counted, \
         Java and ours.\n",
    );
    table.line(
        "| stack | members, the sequencer first | delivered by all three | of the sequencer | view after \
         | missing at Java | at ours |",
    );
    table.line("|---|---|---|---|---|---|---|");
    let (mut seen, mut said) = (BTreeMap::<String, u64>::new(), BTreeSet::new());
    for stack in ["udp", "tcp"] {
        for names in ORDERS {
            let Some(world) = World::new(stack) else { return };
            let members = group(&world.with_total_order(), names);
            run(stack, &members, &mut table);
            for (kind, count) in warnings(&members) {
                *seen.entry(kind).or_default() += count;
            }
            said.extend(versions(&members));
        }
    }
    table.line("\n| warnings | |\n|---|---|");
    for (kind, count) in seen {
        table.line(&format!("| {kind} | {count} |"));
    }
    table.write(&said.into_iter().collect::<Vec<_>>());
}

fn group(world: &World, names: [&str; 4]) -> Vec<Peer> {
    let mut members: Vec<Peer> = Vec::new();
    for (place, name) in names.iter().enumerate() {
        members.push(match name.starts_with('J') {
            true => world.java(name),
            false => world.rust(name, place as u16),
        });
        for m in &members {
            m.hears(&format!("^view {place} {}$", names[..=place].join(",")));
        }
    }
    members
}

fn run(stack: &str, members: &[Peer], table: &mut Table) {
    for m in members {
        m.told("steady 1 0");
    }
    sleep(LOAD);
    members[0].signal("-KILL");
    let killed = Instant::now();
    let names: Vec<&str> = members.iter().map(|m| m.name.as_str()).collect();
    let survivors = &members[1..];
    for m in survivors {
        m.hears(&format!("^view 4 {}$", names[1..].join(",")));
    }
    let view = killed.elapsed();
    sleep(LOAD);
    for m in survivors {
        m.answers("steady off");
    }
    for from in survivors {
        // A last one, which comes behind all others of its sender.
        from.answers("mcastn 1 0");
        let last = format!("^multicast {} {:08}", from.name, sent(from) - 1);
        survivors.iter().for_each(|to| drop(to.has_heard(&last, PATIENCE)));
    }
    let heard: Vec<(&str, Vec<(String, u64)>)> =
        survivors.iter().map(|m| (m.name.as_str(), multicasts(m))).collect();
    let what = format!("{stack}, {names:?}");
    let (mut at_java, mut at_ours) = (0, 0);
    for (m, (name, all)) in survivors.iter().zip(&heard) {
        let unique: BTreeSet<_> = all.iter().collect();
        assert_eq!(unique.len(), all.len(), "{what}: {name} has some twice");
        for from in survivors {
            let of: Vec<u64> =
                all.iter().filter(|(f, _)| *f == from.name).map(|(_, n)| *n).collect();
            assert!(of.is_sorted(), "{what}: {name} has those of {} out of order", from.name);
            let lacks = of.windows(2).map(|w| w[1] - w[0] - 1).sum::<u64>();
            match name.starts_with('J') {
                true => at_java += lacks,
                false => {
                    let why = || format!("{what}: {name} lacks {lacks} of {}", from.name);
                    assert!(lacks == 0 || says_so(m), "{}", why());
                    at_ours += lacks;
                }
            }
        }
    }
    for (i, (a, of_a)) in heard.iter().enumerate() {
        for (b, of_b) in &heard[i + 1..] {
            let (in_a, in_b): (BTreeSet<_>, BTreeSet<_>) =
                (of_a.iter().collect(), of_b.iter().collect());
            let mine = of_a.iter().filter(|m| in_b.contains(m));
            let theirs = of_b.iter().filter(|m| in_a.contains(m));
            let other = mine.zip(theirs).find(|(x, y)| x != y);
            assert_eq!(other, None, "{what}: the orders of {a} and {b}");
        }
    }
    let of_sequencer = |all: &[(String, u64)]| -> BTreeSet<u64> {
        all.iter().filter(|(f, _)| f == names[0]).map(|(_, n)| *n).collect()
    };
    let ours = heard.iter().filter(|(name, _)| name.starts_with('R'));
    let ours: BTreeSet<_> = ours.map(|(_, all)| of_sequencer(all)).collect();
    assert_eq!(ours.len(), 1, "{what}: ours have other messages of the sequencer");
    let common = heard.iter().map(|(_, all)| all.iter().collect::<BTreeSet<_>>());
    let common = common.reduce(|a, b| a.intersection(&b).copied().collect()).expect("three");
    let of_first = common.iter().filter(|(f, _)| f == names[0]).count();
    assert!(of_first > 100, "{what}: {of_first} messages of the sequencer");
    table.line(&format!(
        "| {stack} | {} | {} | {of_first} | {:.1} s | {at_java} | {at_ours} |",
        names.join(", "),
        common.len(),
        view.as_secs_f64(),
    ));
}

/// Whether a member of ours knows that it may lack last messages of the sequencer.
fn says_so(m: &Peer) -> bool {
    let answer = m.answers("counter tails_unknown");
    answer.iter().any(|l| l.starts_with("counter ") && l != "counter 0")
}

/// How many messages it has sent to all.
fn sent(m: &Peer) -> u64 {
    let answer = m.answers("tally");
    let all = answer.iter().find_map(|l| l.strip_prefix("sent all "));
    let count = all.and_then(|l| l.split(' ').next());
    count.expect("it has sent some").parse().expect("a number")
}

/// What it has delivered to all, in order.
fn multicasts(m: &Peer) -> Vec<(String, u64)> {
    let lines = m.lines();
    let told = lines.iter().filter_map(|l| l.strip_prefix("multicast "));
    told.filter_map(|l| {
        let (from, number) = l.split_once(' ')?;
        Some((from.to_owned(), number.parse().ok()?))
    })
    .collect()
}
