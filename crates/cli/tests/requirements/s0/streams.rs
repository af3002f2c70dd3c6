//! S0-17, S0-20, S0-26: what is asked of connections, and of the sender as a receiver.

use super::*;
use rgroups::core::plan::ProtocolConfig;
use rgroups::core::protocols::discovery::TcpPingConfig;
use rgroups::core::protocols::transport::TcpConfig;
use rgroups::core::{Command, Cx, GroupChange, Interests, Protocol, Rng, Spec};
use rgroups_sim::cluster::Appetite;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

crate::tests![
    connections_are_made_when_there_is_something_to_send_and_once_for_each_pair => "S0-17";
    a_slow_consumer_at_the_sender_throttles_it => "S0-17";
    messages_without_own_copy_do_not_wait_for_the_sender => "S0-17";
    connections_that_break_lose_nothing => "S0-20";
    a_member_that_reads_nothing_does_not_block_the_others => "S0-26";
];

/// Who is where; known to all before anything is sent.
type Directory = Arc<Mutex<Vec<(Uuid, SocketAddr)>>>;

/// Sends what it is given, to everybody in the directory.
#[derive(Debug)]
struct Shout(Directory);

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
            for (member, at) in self.0.lock().expect("no panic").iter() {
                cx.change(GroupChange::Learn { member: *member, name: None, physical: Some(*at) });
            }
            cx.send_down(send.message);
        }
    }
}

/// How many connections each has.
fn connections(c: &mut Cluster) -> Vec<usize> {
    let since = now(c);
    c.sample();
    let of = |f: &Fact| match f.what {
        What::Handles { connections, .. } => Some(connections),
        _ => None,
    };
    c.history().facts[since..].iter().filter_map(of).collect()
}

fn connections_are_made_when_there_is_something_to_send_and_once_for_each_pair() {
    let places = rgroups_sim::cluster::transport_addresses(4);
    let directory = Directory::default();
    let known = directory.clone();
    let shout = ProtocolConfig::custom("SHOUT", move || Shout(known.clone()));
    let discovery = TcpPingConfig { initial_hosts: places.clone(), ..TcpPingConfig::default() };
    let plan = StackPlan::new([TcpConfig::default().into(), discovery.into(), shout]);
    let mut c = Cluster::new(Settings { sampling: None, ..Settings::new(1, plan) });
    let names = ["A", "B", "C", "D"];
    names.iter().for_each(|n| c.start(n));
    *directory.lock().expect("no panic") = names.iter().map(|n| id(&c, n)).zip(places).collect();
    c.run_for(10 * SECOND);
    assert_eq!(connections(&mut c), [0, 0, 0, 0], "nobody had anything to send");
    send(&mut c, "A", None, 100);
    c.run_for(SECOND);
    assert_eq!(connections(&mut c), [3, 1, 1, 1], "A-B, A-C, A-D");
    for _ in 0..2 {
        for n in names {
            cast(&mut c, n, 1, 100);
        }
        c.run_for(SECOND);
        assert_eq!(connections(&mut c), [3, 3, 3, 3], "one for each pair");
    }
    for n in names {
        let distinct: BTreeSet<MessageId> = delivered(&c, n).into_iter().collect();
        assert_eq!(distinct.len(), 9, "{n} has what all sent");
    }
}

/// A's own call waits, so it grants itself one more maximum ahead, and no more.
fn a_slow_consumer_at_the_sender_throttles_it() {
    let mut c = group(udp(), &["A", "B"]);
    let since = now(&c);
    c.appetite("A", Appetite::Nothing);
    cast(&mut c, "A", 100, 50_000);
    c.run_for(20 * SECOND);
    assert_eq!(total(&c, Sum::Taken("B"), since), 2 * MAX, "B would take more");
    c.appetite("A", Appetite::Rate(100_000));
    c.run_for(20 * SECOND);
    assert_eq!(lead(&c, Sum::Taken("B"), Sum::Taken("A"), since), 2 * MAX);
    let taken = total(&c, Sum::Taken("B"), since);
    assert!((3 * MAX..=4 * MAX).contains(&taken), "{taken}");
}

fn messages_without_own_copy_do_not_wait_for_the_sender() {
    let mut c = group(udp(), &["A", "B"]);
    c.appetite("A", Appetite::Nothing);
    let m = Outgoing { loopback: false, ..Outgoing::new(None, 50_000) };
    let sent: Vec<MessageId> =
        (0..10 * MAX / 50_000).map(|_| c.send("A", &m).expect("A runs")).collect();
    assert!(c.run_until(5 * SECOND, |c| sent.iter().all(|m| is_sent(c, *m))));
    assert_eq!(account(&c, "A", Pool::Multicast, "A").balance, MAX);
}

/// The connections of A are reset at 50 random moments of a stream of multicasts.
fn connections_that_break_lose_nothing() {
    let messages = crate::amount(2_000, 10_000, "messages");
    let mut c = group(tcp(3), &["A", "B", "C"]);
    let before = c.view("A").map(|v| v.id);
    let mut rng = Rng::new(20);
    let mut breaks: Vec<u64> = (0..50).map(|_| rng.below(messages)).collect();
    breaks.sort_unstable();
    let mut sent = Vec::new();
    for i in 0..messages {
        sent.push(send(&mut c, "A", None, 500));
        c.run_for(rng.duration(Duration::ZERO, ms(2)));
        while breaks.first() == Some(&i) {
            breaks.remove(0);
            c.reset_connections("A");
        }
    }
    assert!(c.run_until(60 * SECOND, |c| {
        ["B", "C"].iter().all(|n| delivered(c, n).len() >= sent.len())
    }));
    for n in ["B", "C"] {
        assert_eq!(delivered(&c, n), sent, "{n}: all, in order, once");
    }
    assert_eq!(c.view("A").map(|v| v.id), before, "nobody was excluded for it");
}

/// D's process stands still, and with it its sockets; the kernels hold less than the credit.
fn a_member_that_reads_nothing_does_not_block_the_others() {
    let mut c = group(tcp(4), &["A", "B", "C", "D"]);
    c.freeze("D");
    let since = now(&c);
    cast(&mut c, "A", 20, 100_000);
    c.run_for(ms(500));
    for n in ["B", "C"] {
        assert_eq!(total(&c, Sum::Taken(n), since), MAX, "{n} has what there is credit for");
    }
    assert_eq!(total(&c, Sum::Admitted("A"), since), MAX);
    let unicast = send(&mut c, "A", Some("B"), 500_000);
    c.run_for(ms(100));
    assert!(delivered(&c, "B").contains(&unicast), "and what is for B alone");
    c.resume("D");
    assert!(c.run_until(10 * SECOND, |c| total(c, Sum::Taken("D"), since) == 2 * MAX));
}
