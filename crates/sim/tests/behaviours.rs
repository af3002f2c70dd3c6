//! Rules of behaviour that no other test shows: flags in any mix, senders that come back, slow hosts.

use rgroups_core::app::Sync;
use rgroups_core::plan::StackPlan;

use rgroups_core::event::{Answer, Query, WindowKind};
use rgroups_core::{Duration, Rng, SyncLevel};
use rgroups_sim::cluster::{Appetite, Cluster, Outgoing, Settings};
use rgroups_sim::history::{MessageId, What};

const NAMES: [&str; 3] = ["A", "B", "C"];
const SECOND: Duration = Duration::from_secs(1);

fn formed(seed: u64, plan: StackPlan) -> Cluster {
    let mut c = Cluster::new(Settings { keep_lines: false, ..Settings::new(seed, plan) });
    c.form(&NAMES);
    c.run_for(SECOND * 5);
    c
}

fn is_whole(c: &Cluster) -> bool {
    NAMES.iter().all(|n| c.view(n).is_some_and(|v| v.members.len() == NAMES.len()))
}

/// What the application of `name` was given, in order.
fn delivered(c: &Cluster, name: &str) -> Vec<MessageId> {
    let given = |w: &What| match w {
        What::Delivered { message, .. } => Some(*message),
        _ => None,
    };
    let life = c.life(name).expect("it runs");
    c.history().facts_of(life).filter_map(|(_, f)| given(&f.what)).collect()
}

/// Payload bytes of multicasts that `name` still keeps, as a sender or for others.
fn kept(c: &Cluster, name: &str) -> u64 {
    let answers = c.node(name).expect("it runs").stack().ask_all(&Query::Windows);
    let lists = answers.into_iter().filter_map(|a| match a {
        Answer::Windows(list) => Some(list),
        _ => None,
    });
    lists.flatten().filter(|w| w.kind == WindowKind::Multicast).map(|w| w.bytes).sum()
}

/// With a chance of one half each.
fn in_any_way(rng: &mut Rng) -> Outgoing {
    let to = rng.chance(0.3).then_some("B");
    let unreliable = rng.chance(0.5);
    let oob = rng.chance(0.5);
    let sync = Sync { level: SyncLevel::OnReceive, timeout: None, to: None };
    Outgoing {
        oob,
        unreliable,
        loopback: rng.chance(0.5),
        sync: (!unreliable && rng.chance(0.5)).then_some(sync),
        ..Outgoing::new(to, if unreliable { 100 } else { rng.below(20_000) as usize })
    }
}

/// Several of them leave in one packet, and arrive in one batch.
#[test]
fn messages_with_any_mix_of_flags_arrive_once_and_are_let_go() {
    for seed in 0..4 {
        let plan = StackPlan::udp().with("STABLE", "max_bytes", "200000");
        let mut c = formed(seed, plan);
        let mut rng = Rng::new(seed);
        let mut expected: [Vec<MessageId>; 3] = Default::default();
        for _ in 0..20 {
            for _ in 0..20 {
                let m = in_any_way(&mut rng);
                let id = c.send("A", &m).expect("it runs");
                for (name, list) in NAMES.iter().zip(&mut expected) {
                    let is_meant = m.to.as_ref().is_none_or(|to| to == name);
                    if is_meant && (*name != "A" || m.loopback) {
                        list.push(id);
                    }
                }
            }
            c.run_for(SECOND);
        }
        let empty = |c: &Cluster| NAMES.iter().all(|n| kept(c, n) == 0);
        assert!(c.run_until(SECOND * 180, empty), "seed {seed}: all is stable in the end");
        for (name, expected) in NAMES.iter().zip(&expected) {
            let mut got = delivered(&c, name);
            got.sort();
            assert_eq!(got, *expected, "seed {seed}: {name} has each once");
        }
    }
}

/// The application of B stands still while A is excluded and comes back.
#[test]
fn what_a_sender_sends_after_its_return_is_taken_after_what_it_sent_before() {
    let mut c = formed(1, StackPlan::udp());
    c.appetite("B", Appetite::Nothing);
    let mut sent: Vec<_> = (0..5).filter_map(|_| c.send("A", &Outgoing::new(None, 100))).collect();
    c.run_for(SECOND);
    c.partition(&[&["A"], &["B", "C"]]);
    let without_a = |c: &Cluster| c.view("B").is_some_and(|v| v.members.len() == 2);
    assert!(c.run_until(SECOND * 120, without_a), "A is excluded");
    c.heal();
    assert!(c.run_until(SECOND * 120, is_whole), "A is back");
    sent.extend((0..3).filter_map(|_| c.send("A", &Outgoing::new(None, 100))));
    c.run_for(SECOND * 5);
    let taken = |c: &Cluster| -> Vec<MessageId> {
        let life = c.life("B").expect("it runs");
        let taken = |w: &What| match w {
            What::Taken(m) => Some(*m),
            _ => None,
        };
        c.history().facts_of(life).filter_map(|(_, f)| taken(&f.what)).collect()
    };
    assert_eq!(taken(&c), [], "the application stood still");
    c.appetite("B", Appetite::Everything);
    c.run_for(SECOND * 5);
    assert_eq!(taken(&c), sent);
}

/// Each turn comes a third of a second late, as on a host with a small share of a processor.
#[test]
fn three_slow_hosts_form_a_group_and_stay_together() {
    for plan in [StackPlan::udp(), StackPlan::tcp(rgroups_sim::cluster::transport_addresses(3))] {
        let mut c = Cluster::new(Settings { keep_lines: false, ..Settings::new(5, plan) });
        for name in NAMES {
            c.start(name);
            c.slow(name, Duration::from_millis(333));
        }
        assert!(c.run_until(SECOND * 120, is_whole), "one group");
        let view = c.view("A");
        let mut sent = Vec::new();
        for i in 0..600 {
            sent.extend(c.send(NAMES[i % 3], &Outgoing::new(None, 100)));
            c.run_for(SECOND);
        }
        assert!(NAMES.iter().all(|n| c.view(n) == view), "nobody is excluded");
        c.run_for(SECOND * 10);
        for name in NAMES {
            let mut got = delivered(&c, name);
            got.sort();
            assert_eq!(got, sent, "{name}");
        }
    }
}
