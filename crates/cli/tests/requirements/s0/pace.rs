//! S0-1, S0-15, S0-16, S0-18, S0-19: the sender keeps the pace of the slowest receiver.

use super::*;
use rgroups_sim::cluster::Appetite;
use rgroups_sim::connections::Kernel;
use rgroups_sim::network::Link;

crate::tests![
    the_senders_rate_follows_the_receiver_over_datagrams => "S0-1";
    the_senders_rate_follows_the_receiver_over_streams => "S0-15";
    a_group_message_travels_at_the_speed_of_the_slowest_receiver => "S0-16";
    buffers_of_fast_peers_do_not_let_the_sender_run_ahead => "S0-18";
    without_flow_control_the_run_away_is_detected => "S0-19";
];

/// What the slow consumer takes in a second.
const RATE: u64 = 1_000_000;
/// What one fragment holds at most.
const FRAGMENT: u64 = 60_000;
/// Credit in these tests: small, so that it is soon used up.
const FEW: u64 = 200_000;

fn seconds(bytes: u64) -> f64 {
    bytes as f64 / RATE as f64
}

fn the_senders_rate_follows_the_receiver(plan: StackPlan) {
    let mut c = group(credits(plan, FEW, 0.1), &["A", "B"]);
    c.appetite("B", Appetite::Rate(RATE));
    let (since, began) = (now(&c), c.now());
    let bytes = crate::amount(4_000_000, 200_000_000, "bytes");
    transfer(&mut c, ("A", Some("B")), (bytes / 10_000, 10_000), |c| {
        let held = ["unacked_bytes", "waiting_bytes"].map(|g| gauge(c, "A", g));
        let held = held[0] + held[1];
        assert!(held <= FEW + FRAGMENT, "{held} bytes at A");
        assert!(gauge(c, "B", "undelivered_bytes") <= FEW + FRAGMENT);
    });
    c.run_for(SECOND);
    assert!(lead(&c, Sum::Delivered("B"), Sum::Taken("B"), since) <= FEW + FRAGMENT);
    let done = reached(&c, Sum::Taken("B"), bytes, since).expect("all was taken");
    let rate = bytes as f64 / done.since(began).as_secs_f64();
    assert!((0.95..=1.05).contains(&(rate / RATE as f64)), "{rate} bytes a second");
    assert_eq!([gauge(&c, "A", "xmit_reqs_sent"), gauge(&c, "B", "xmit_reqs_sent")], [0, 0]);
}

/// Nothing is sent again, nobody holds more than the credit and a fragment, and in the long run A
/// sends what B takes.
fn the_senders_rate_follows_the_receiver_over_datagrams() {
    the_senders_rate_follows_the_receiver(StackPlan::udp());
}

fn the_senders_rate_follows_the_receiver_over_streams() {
    let hosts = rgroups_sim::cluster::transport_addresses(2);
    the_senders_rate_follows_the_receiver(StackPlan::tcp(hosts));
}

/// How a transfer to B, C and the slow D went.
struct Race {
    /// When each had taken everything, in seconds.
    finish: [f64; 3],
    /// By how much B was ahead of D at most.
    lag: u64,
    /// By how much what was admitted was ahead of what D had taken at most.
    ahead: u64,
}

fn race(mut c: Cluster, bytes: u64) -> Race {
    c.appetite("D", Appetite::Rate(RATE));
    let (since, began) = (now(&c), c.now());
    transfer(&mut c, ("A", None), (bytes / 10_000, 10_000), |_| {});
    let limit = Duration::from_secs_f64(seconds(bytes) * 2.0);
    assert!(c.run_until(limit, |c| total(c, Sum::Taken("D"), since) == bytes), "D has all of it");
    let finish = ["B", "C", "D"].map(|name| {
        let at = reached(&c, Sum::Taken(name), bytes, since).expect("all was taken");
        at.since(began).as_secs_f64()
    });
    let lag = lead(&c, Sum::Taken("B"), Sum::Taken("D"), since);
    let ahead = lead(&c, Sum::Admitted("A"), Sum::Taken("D"), since);
    Race { finish, lag, ahead }
}

const NAMES: [&str; 4] = ["A", "B", "C", "D"];

impl Race {
    /// Whether somebody ran away from the slowest.
    fn run_away(&self) -> bool {
        self.lag > FEW || self.ahead > FEW
    }
}

fn a_group_message_travels_at_the_speed_of_the_slowest_receiver() {
    let bytes = crate::amount(2_000_000, 100_000_000, "bytes");
    let race = race(group(credits(StackPlan::udp(), FEW, 0.1), &NAMES), bytes);
    let [b, c, d] = race.finish;
    assert!((seconds(bytes)..=seconds(bytes) * 1.05).contains(&d), "D ends after {d} s");
    let earliest = seconds(bytes - FEW);
    assert!(b >= earliest && c >= earliest, "B and C end after {b} and {c} s");
    assert!(!race.run_away(), "lag {}, ahead {}", race.lag, race.ahead);
}

/// The kernels hold four times the credit for each peer, and D's link is narrow as well.
fn buffers_of_fast_peers_do_not_let_the_sender_run_ahead() {
    let bytes = crate::amount(2_000_000, 100_000_000, "bytes");
    let plan = credits(StackPlan::tcp(rgroups_sim::cluster::transport_addresses(4)), FEW, 0.1);
    let kernel = Kernel { window: 4 * FEW as usize, ..Kernel::default() };
    let settings = Settings { sampling: None, keep_lines: false, kernel, ..Settings::new(1, plan) };
    let mut c = grown(settings, &NAMES);
    c.set_link("A", "D", Link { bandwidth: Some(2 * RATE), ..Link::lan() });
    let race = race(c, bytes);
    assert!(!race.run_away(), "lag {}, ahead {}", race.lag, race.ahead);
    let d = race.finish[2];
    assert!((seconds(bytes)..=seconds(bytes) * 1.05).contains(&d), "D ends after {d} s");
}

/// The same load and the same check as above, without flow control: the check must find something.
fn without_flow_control_the_run_away_is_detected() {
    let plan = StackPlan::udp().without("MFC").without("UFC");
    let race = race(group(plan, &NAMES), 2_000_000);
    assert!(race.run_away(), "lag {}, ahead {}", race.lag, race.ahead);
    assert!(race.lag > 1_000_000, "B is far ahead of D: {}", race.lag);
}
