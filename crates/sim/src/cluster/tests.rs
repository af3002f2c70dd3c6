//! The simulator itself, with a stack of a transport and one layer that sends what it is given.

use super::*;
use rgroups_core::plan::ProtocolConfig;
use rgroups_core::protocols::discovery::PingConfig;
use rgroups_core::protocols::transport::UdpConfig;
use rgroups_core::{Cx, Interests, Protocol, Spec};

/// Sends what the application gives it.
#[derive(Debug)]
struct Shout;

impl Protocol for Shout {
    fn spec(&self) -> Spec {
        Spec {
            name: "SHOUT",
            id: None,
            interests: Interests::default(),
            provides: &[],
            needs_below: &[],
            needs_above: &[],
        }
    }

    fn on_command(&mut self, cmd: Command, cx: &mut Cx<'_>) {
        if let Command::Send(send) = cmd {
            cx.send_down(send.message);
        }
    }
}

fn shouting(transport: impl Into<ProtocolConfig>) -> StackPlan {
    let shout = ProtocolConfig::custom("SHOUT", || Shout);
    StackPlan::new([transport.into(), PingConfig::default().into(), shout])
}

fn trio(seed: u64, plan: StackPlan, link: Link) -> Cluster {
    let mut cluster = Cluster::new(Settings { link, ..Settings::new(seed, plan) });
    for name in ["A", "B", "C"] {
        cluster.start(name);
    }
    cluster.run_for(Duration::from_secs(1));
    cluster
}

fn delivered(cluster: &Cluster, name: &str) -> usize {
    let life = cluster.life(name);
    let delivered = |f: &&Fact| f.life == life && matches!(f.what, What::Delivered { .. });
    cluster.history().facts.iter().filter(delivered).count()
}

fn shout_ten_times(cluster: &mut Cluster) {
    for _ in 0..10 {
        cluster.send("A", &Outgoing::new(None, 100));
        cluster.run_for(Duration::from_millis(10));
    }
}

#[test]
fn a_multicast_datagram_reaches_everybody() {
    let mut cluster = trio(1, shouting(UdpConfig::default()), Link::lan());
    shout_ten_times(&mut cluster);
    assert_eq!((delivered(&cluster, "B"), delivered(&cluster, "C")), (10, 10));
}

#[test]
fn a_partition_stops_datagrams_until_it_is_healed() {
    let mut cluster = trio(1, shouting(UdpConfig::default()), Link::lan());
    cluster.partition(&[&["A", "B"], &["C"]]);
    shout_ten_times(&mut cluster);
    assert_eq!((delivered(&cluster, "B"), delivered(&cluster, "C")), (10, 0));
    cluster.heal();
    shout_ten_times(&mut cluster);
    assert_eq!(delivered(&cluster, "C"), 10);
}

#[test]
fn a_frozen_node_gets_its_datagrams_when_it_resumes() {
    let mut cluster = trio(1, shouting(UdpConfig::default()), Link::lan());
    cluster.freeze("B");
    shout_ten_times(&mut cluster);
    assert_eq!(delivered(&cluster, "B"), 0);
    cluster.resume("B");
    cluster.run_for(Duration::from_secs(1));
    assert_eq!(delivered(&cluster, "B"), 10);
}

#[test]
fn a_killed_node_gets_nothing_and_its_next_incarnation_has_a_name_of_its_own() {
    let mut cluster = trio(1, shouting(UdpConfig::default()), Link::lan());
    cluster.restart("B");
    shout_ten_times(&mut cluster);
    let life = cluster.life("B").unwrap();
    assert_eq!(cluster.history().name(life), "B.2");
    assert_eq!(delivered(&cluster, "B"), 10);
}

#[test]
fn equal_seeds_give_equal_transcripts_and_others_do_not() {
    let run = |seed| {
        let mut cluster = trio(seed, shouting(UdpConfig::default()), Link::lossy());
        for name in ["A", "B", "C"] {
            cluster.send(name, &Outgoing::new(None, 500));
            shout_ten_times(&mut cluster);
        }
        cluster.transcript().hash()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn a_clock_that_runs_fast_still_meets_its_deadlines() {
    let mut cluster = Cluster::new(Settings::new(1, shouting(UdpConfig::default())));
    cluster.drift("A", 200_000);
    cluster.start("A");
    cluster.run_for(Duration::from_secs(10));
    assert!(cluster.turns() < 1_000, "{} turns", cluster.turns());
}
