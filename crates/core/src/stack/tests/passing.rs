//! Who is entered, and what passing and stopping mean.

use super::*;

#[test]
fn a_stopped_event_goes_no_further_but_what_was_emitted_does() {
    let mut run = Builder::new()
        .layer("1", EVERYTHING, |call, cx| match call {
            Call::Event(Dir::Up, Event::RoomAgain) => {
                cx.raise(Dir::Up, Event::AnnounceView);
                Flow::Stop
            }
            _ => Flow::Pass,
        })
        .passive("2")
        .start();
    run.event(0, Dir::Up, Event::RoomAgain);
    assert_eq!(run.calls(), ["0 Up room again", "1 Up room again", "2 Up announce"]);
}

#[test]
fn a_stopped_message_goes_no_further() {
    let mut run = Builder::new()
        .layer("1", EVERYTHING, |call, cx| match call {
            Call::Down(m) => {
                cx.discard(m, SendRefusal::Closed);
                Flow::Stop
            }
            _ => Flow::Pass,
        })
        .passive("2")
        .start();
    run.send(1);
    assert_eq!(run.calls(), ["1 down 1"]);
}

#[test]
#[should_panic(expected = "1 stopped a message without taking it")]
fn stopping_a_message_without_taking_it_is_our_bug() {
    let mut run = Builder::new()
        .layer("1", EVERYTHING, |call, _| match call {
            Call::Down(m) => {
                m.headers.put(ProtId::GMS, Header::Heartbeat);
                Flow::Stop
            }
            _ => Flow::Pass,
        })
        .passive("2")
        .start();
    run.send(1);
}

#[test]
fn an_emptied_batch_goes_no_further() {
    let mut run = Builder::new()
        .layer("1", EVERYTHING, |call, cx| {
            match call {
                Call::Up(b) => drop(b.take_all()),
                Call::Start => cx.arm(TimerKey(1), at(1)),
                _ => {}
            }
            Flow::Pass
        })
        .passive("2")
        .start();
    run.stack.inner.loopback.push_back((0, Copies::Batch(batch(1))));
    run.event(0, Dir::Down, Event::RoomAgain);
    assert_eq!(run.calls(), ["0 up 1", "1 up 1"]);
    assert!(run.stack.poll_app().is_none());
}

#[test]
fn what_passes_the_top_is_told_to_the_application_in_order() {
    let mut run = Builder::new().passive("1").start();
    run.stack.inner.loopback.push_back((0, Copies::Batch(batch(1))));
    run.event(0, Dir::Up, Event::View(view(1, &[1])));
    let told: Vec<AppEvent> = core::iter::from_fn(|| run.stack.poll_app()).collect();
    assert!(matches!(&told[..], [AppEvent::View(_), AppEvent::Deliver(_)]), "{told:?}");
}

#[test]
fn layers_are_passed_by_for_what_they_do_not_want() {
    let unicasts = Interests { down: Traffic::Unicast, up: Traffic::Unicast, ..NOTHING };
    let mut run = Builder::new()
        .layer("1", NOTHING, |_, _| Flow::Pass)
        .layer("2", unicasts, |_, _| Flow::Pass)
        .passive("3")
        .passive("4")
        .start();
    run.send(1);
    run.event(0, Dir::Up, Event::RoomAgain);
    let expected =
        ["3 down 1", "0 down 1", "0 Up room again", "3 Up room again", "4 Up room again"];
    assert_eq!(run.calls(), expected);
}

#[test]
fn a_layer_is_entered_for_messages_with_its_header() {
    let mut run = Builder::new()
        .layer_with_header("1", Some(ProtId::GMS), NOTHING, |_, _| Flow::Pass)
        .layer_with_header("2", Some(ProtId::STABLE), NOTHING, |_, _| Flow::Pass)
        .start();
    let m = numbered(1).wire.with_header(ProtId::GMS, Header::Heartbeat);
    run.stack.inner.loopback.push_back((1, Copies::Batch(Batch::of(id(2), m.into()))));
    run.event(0, Dir::Down, Event::RoomAgain);
    assert_eq!(run.calls(), ["1 up 1"]);
}

#[test]
fn consumption_is_told_to_the_layers_below_who_settles_it() {
    let mut run = Builder::new()
        .passive("1")
        .layer("2", EVERYTHING, |call, cx| {
            match call {
                Call::Start => cx.arm(TimerKey(1), at(1)),
                Call::Timer(_) => cx.settle(consumed()),
                _ => {}
            }
            Flow::Pass
        })
        .passive("3")
        .start();
    run.advance(1, false);
    assert_eq!(run.calls(), ["2 timer 1", "1 consumed", "0 consumed"]);
    run.stack.submit(Time::ZERO, Command::Consumed([consumed()].into()));
    assert_eq!(run.calls(), ["3 consumed", "2 consumed", "1 consumed", "0 consumed"]);
}

fn consumed() -> Consumed {
    Consumed::one(id(2), crate::Receipt::default())
}

#[test]
fn packets_enter_at_the_bottom() {
    let mut run = Builder::new().passive("1").start();
    run.packet();
    assert_eq!(run.calls(), ["0 net"]);
}
