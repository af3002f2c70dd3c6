//! S0-8 and S0-14: credits of any size, and groups without flow control.

use super::*;
use rgroups::core::SyncLevel;
use rgroups::core::app::{Sync, SyncEnd};
use rgroups::{Channel, Config, Event, block_on};
use rgroups_sim::cluster::Appetite;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::{Metadata, Subscriber, span};

crate::tests![
    three_thousand_million_bytes_of_credit_work => "S0-8";
    owing_more_than_the_budget_is_told_once_with_both_numbers => "S0-8";
    synchronous_calls_are_bounded_without_flow_control => "S0-14";
];

/// X5: with so much UFC of JGroups 5.5.6 has −1,294,967,296 credits, and blocks every unicast for ever,
/// the answer to a join included.
fn three_thousand_million_bytes_of_credit_work() {
    const HUGE: u64 = 3_000_000_000;
    let mut c = group(credits(StackPlan::udp(), HUGE, 0.1), &["A", "B"]);
    let mut sent = Vec::new();
    for (from, to) in [("A", Some("B")), ("B", Some("A")), ("A", None)] {
        sent.push(send(&mut c, from, to, 1_000_000));
    }
    assert!(c.run_until(5 * SECOND, |c| delivered(c, "B").len() == 2));
    assert!(sent.iter().all(|m| is_sent(&c, *m)));
    for pool in [Pool::Multicast, Pool::Unicast] {
        let a = account(&c, "A", pool, "B");
        assert_eq!((a.max, a.balance), (HUGE, HUGE - 1_000_000));
    }
}

/// What is logged with the code of this warning.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        if line.0.contains("RG0414") {
            self.0.lock().expect("no panic").push(line.0);
        }
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Two members owe each other 5 MB in both pools together.
fn owing_more_than_the_budget_is_told_once_with_both_numbers() {
    let warnings = Warnings::default();
    // Members run on threads of their own; nothing else in this program listens.
    tracing::subscriber::set_global_default(warnings.clone()).expect("the only one");
    let config = Config::in_process().set("MFC", "max_credits", "3M").expect("valid");
    let config = config.set("UFC", "max_credits", "2M").expect("valid");
    let join = |budget| {
        let builder = Channel::builder(config.clone()).memory_budget(budget);
        block_on(builder.connect("s0-8")).expect("joined")
    };
    let (_first, mut events) = join(u64::MAX);
    let mut members = |n| {
        let view = async {
            while !matches!(events.next().await, Some(Event::View(v)) if v.members().len() == n) {}
        };
        block_on(view);
    };
    let (enough, _) = join(5_000_000);
    members(2);
    block_on(enough.close()).expect("it leaves");
    // The next one must not meet the one that leaves.
    members(1);
    let _second = join(4_999_999);
    let said = warnings.0.lock().expect("no panic").clone();
    let [line] = &said[..] else { panic!("told {} times", said.len()) };
    assert!(line.contains("5000000") && line.contains("4999999"), "{line}");
}

/// Four callers in a group without flow control, whose calls return when the receiver has consumed
/// the request: the calls themselves are the throttle.
fn synchronous_calls_are_bounded_without_flow_control() {
    const CALLERS: usize = 4;
    const REQUEST: u64 = 10_000;
    let servers = ["B", "C", "D"];
    let mut c = group(StackPlan::udp().without("MFC").without("UFC"), &["A", "B", "C", "D"]);
    servers.iter().for_each(|s| c.appetite(s, Appetite::Rate(100_000)));
    let bound = CALLERS as u64 * REQUEST * servers.len() as u64;
    let sync = Sync { level: SyncLevel::OnDeliver, timeout: None, to: None };
    let (since, end) = (now(&c), c.now() + 60 * SECOND);
    let mut calls: Vec<Vec<MessageId>> = vec![Vec::new(); CALLERS];
    let (mut read, mut done) = (since, 0u64);
    while c.now() < end {
        for call in &mut calls {
            if call.is_empty() {
                for s in servers {
                    let m = Outgoing::new(Some(s), REQUEST as usize);
                    let m = Outgoing { sync: Some(sync.clone()), ..m };
                    call.push(c.send("A", &m).expect("A runs"));
                }
            }
        }
        c.run_for(ms(10));
        for f in &c.history().facts[read..] {
            let What::Resolved(m, how) = &f.what else { continue };
            let SendResult::Synced(outcome) = how else { panic!("{how:?}") };
            assert_eq!(outcome.end, SyncEnd::Complete);
            calls.iter_mut().for_each(|call| call.retain(|open| open != m));
            done += 1;
        }
        read = now(&c);
        let held = ["unacked_bytes", "waiting_bytes"].map(|g| gauge(&c, "A", g));
        // Acknowledgements of requests are messages too.
        assert!(held[0] + held[1] <= bound + 1_000, "{held:?} at A");
    }
    for s in servers {
        let queued = lead(&c, Sum::Delivered(s), Sum::Taken(s), since);
        assert!(queued <= CALLERS as u64 * REQUEST, "{queued} at {s}");
    }
    // 100 kB a second at each server are 10 requests.
    assert!((1_700..=1_800).contains(&done), "{done} requests");
}
