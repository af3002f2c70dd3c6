//! The last messages of a member that is gone, as the application sees it.

mod common;

use common::{Kind, PATIENCE, await_view, config, join, next};
use rgroups::{Channel, Config, Event, Events, Pump, View};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn pumped(config: &Config, name: &str) -> (Pump, Events) {
    let builder = Channel::builder(config.clone()).name(name);
    let (mut pump, events) = builder.connect_pumped("test").expect("begins");
    let end = Instant::now() + PATIENCE;
    while pump.channel().is_none() {
        pump.pump(Duration::from_millis(5));
        assert!(Instant::now() < end, "{name} joins");
    }
    (pump, events)
}

#[test]
fn a_survivor_that_does_not_answer_makes_the_tail_unknown_and_the_application_is_told() {
    // On a busy host somebody else may be late as well, and the frozen one be excluded first.
    assert!((0..3).any(|_| told_of_a_crash_beside_a_frozen_member()));
}

/// A crashes while C is frozen. Whether B is told that the tail of A is unknown.
fn told_of_a_crash_beside_a_frozen_member() -> bool {
    let config = config(Kind::Tcp);
    let (mut a, a_events) = pumped(&config, "A");
    let gone = a.channel().expect("it has joined").address();
    let crash = Arc::new(AtomicBool::new(false));
    let crashed = Arc::clone(&crash);
    let a = std::thread::spawn(move || {
        while !crashed.load(Ordering::Relaxed) {
            a.pump(Duration::from_millis(5));
        }
    });
    let mut b = join(&config, "B");
    let (frozen, c_events) = pumped(&config, "C");
    // From here on nobody runs C. D watches A, and A is dropped where it is.
    let d = join(&config, "D");
    let whole = |v: &View| v.members().len() == 4;
    assert!(whole(&await_view(&mut b, whole)));
    std::thread::sleep(Duration::from_millis(500));
    crash.store(true, Ordering::Relaxed);
    a.join().expect("it only pumps");
    let mut told = false;
    loop {
        match next(&mut b.events, PATIENCE) {
            Some(Event::TailUnknown { of }) => told |= of == [gone],
            Some(Event::View(v)) if !v.members().contains(&gone) => break,
            Some(_) => {}
            None => break,
        }
    }
    drop((a_events, c_events, frozen, d));
    told
}
