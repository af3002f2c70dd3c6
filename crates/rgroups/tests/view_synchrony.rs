//! View synchrony, as applications see it.

mod common;

use common::{Kind, PATIENCE, config, join, next};
use rgroups::Event;

#[test]
fn a_member_that_wants_synchronous_views_is_told_of_one_with_a_member_that_does_not() {
    let plain = config(Kind::Tcp);
    let wanted = plain.clone().set("GMS", "view_synchrony", "true").expect("valid");
    let mut a = join(&wanted, "A");
    let b = join(&plain, "B");
    let of_both = |e: &Option<Event>| matches!(e, Some(Event::View(v)) if v.members().contains(&b.ch.address()));
    let mut told = Vec::new();
    let view = loop {
        match next(&mut a.events, PATIENCE) {
            Some(Event::NotSynchronous { view }) => told.push(view),
            e @ Some(Event::View(_)) if of_both(&e) => break e,
            Some(_) => {}
            None => break None,
        }
    };
    let Some(Event::View(view)) = view else { panic!("A installs a view with B") };
    assert_eq!(told, [view.id()], "told once, before the view");
}
