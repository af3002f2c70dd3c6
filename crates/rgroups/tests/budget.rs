//! Credit that others have here is memory that they may take.

mod common;

use common::{Kind, config};
use rgroups::{Channel, block_on};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

/// Keeps what is logged, one line an event.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().expect("no panic").push(line.0);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn a_view_whose_credits_exceed_the_budget_is_warned_of_once_with_both_numbers() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).expect("the only one");
    let config = config(Kind::InProcess).set("MFC", "max_credits", "3M").expect("valid");
    let config = config.set("UFC", "max_credits", "2M").expect("valid");
    let join = |budget| {
        let builder = Channel::builder(config.clone()).memory_budget(budget);
        block_on(builder.connect("budget")).expect("joined")
    };
    let warnings = || {
        let all = log.0.lock().expect("no panic");
        all.iter().filter(|l| l.contains("RG0414")).cloned().collect::<Vec<_>>()
    };
    let _first = join(u64::MAX);
    let (_second, mut events) = join(4_000_000);
    let said = warnings();
    assert_eq!(said.len(), 1, "5 MB of one other");
    assert!(said[0].contains("5000000") && said[0].contains("4000000"), "{said:?}");
    let _third = join(u64::MAX);
    loop {
        match block_on(events.next()) {
            Some(rgroups::Event::View(v)) if v.members().len() == 3 => break,
            Some(_) => {}
            None => panic!("the second member is gone"),
        }
    }
    assert_eq!(warnings().len(), 1, "once");
}
