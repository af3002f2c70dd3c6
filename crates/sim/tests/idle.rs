//! What an idle group sends: what keeps it together, at the configured rates, and nothing else.

use rgroups_core::Duration;
use rgroups_core::plan::StackPlan;
use rgroups_sim::cluster::transport_addresses;
use rgroups_sim::{Cluster, Outgoing, Settings};

const MEMBERS: [&str; 3] = ["A", "B", "C"];
const MINUTES: u64 = 10;

/// A group of three that has exchanged a few messages and has then been quiet for a while.
fn quiet_group(plan: StackPlan) -> Cluster {
    let mut cluster = Cluster::new(Settings { sampling: None, ..Settings::new(7, plan) });
    cluster.form(&MEMBERS);
    for from in MEMBERS {
        cluster.send(from, &Outgoing::new(None, 1000));
        cluster.send(from, &Outgoing::new(Some("A"), 1000));
    }
    cluster.run_for(Duration::from_secs(180));
    cluster
}

/// Each kind of message that may travel in an idle minute, with the most there may be of it over
/// `MINUTES`, all receivers counted. Whatever is not named must not travel.
fn sends_at_most(plan: StackPlan, allowed: &[(&str, u64)]) {
    let mut cluster = quiet_group(plan);
    cluster.start_census();
    cluster.run_for(Duration::from_secs(60 * MINUTES));
    let census = cluster.network().census().expect("started");
    for (label, sent) in census.iter() {
        println!("{label}: {sent}");
        let limit = allowed.iter().find(|(l, _)| *l == label).map_or(0, |(_, limit)| *limit);
        assert!(sent <= limit, "{label}: {sent} in {MINUTES} minutes, allowed {limit}");
    }
    for (label, limit) in allowed {
        let sent = census.count(label);
        assert!(sent > 0, "{label} was expected up to {limit} times, and never sent");
    }
}

/// Three members tell two others every so many seconds.
const fn every(seconds: u64) -> u64 {
    60 * MINUTES / seconds * 6 + 6
}

/// MERGE3.min_interval.
const INFOS: u64 = every(10);
/// STABLE.desired_avg_gossip is 50 s, of which each wait is a random multiple up to two.
const GOSSIP: u64 = every(50) * 3 / 2;

#[test]
fn an_idle_group_over_udp_sends_heartbeats_merge_information_and_stability() {
    sends_at_most(
        StackPlan::udp(),
        &[
            ("FD_ALL3 HEARTBEAT", every(8)),
            ("MERGE3 INFO", INFOS),
            ("STABLE STABLE_GOSSIP", GOSSIP),
            ("STABLE STABILITY", GOSSIP),
        ],
    );
}

#[test]
fn an_idle_group_over_tcp_refreshes_discovery_besides() {
    sends_at_most(
        StackPlan::tcp(transport_addresses(3)),
        &[
            ("FD_ALL3 HEARTBEAT", every(5)),
            ("MERGE3 INFO", INFOS),
            ("STABLE STABLE_GOSSIP", GOSSIP),
            ("STABLE STABILITY", GOSSIP),
            ("TCPPING GET_MBRS_REQ", INFOS),
            ("TCPPING GET_MBRS_RSP", INFOS),
        ],
    );
}
