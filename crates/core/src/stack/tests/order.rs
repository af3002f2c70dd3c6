//! In which order things happen.

use super::*;

#[test]
fn what_a_layer_emits_goes_before_what_it_lets_pass() {
    let mut run = Builder::new()
        .layer("1", EVERYTHING, |call, cx| {
            if let Call::Down(m) = call {
                let n = number(m);
                cx.send_down(numbered(n * 10));
                cx.send_down(numbered(n * 10 + 1));
            }
            Flow::Pass
        })
        .passive("2")
        .start();
    run.send(5);
    assert_eq!(run.calls(), ["1 down 5", "0 down 50", "0 down 51", "0 down 5"]);
}

#[test]
fn emissions_are_processed_depth_first() {
    let double = |factor: i64| {
        move |call: Call<'_>, cx: &mut Cx<'_>| {
            if let Call::Down(m) = call {
                cx.send_down(numbered(number(m) * factor));
            }
            Flow::Pass
        }
    };
    let mut run = Builder::new()
        .layer("1", EVERYTHING, double(10))
        .layer("2", EVERYTHING, double(100))
        .passive("3")
        .start();
    run.send(1);
    let bottom: Vec<String> = run.calls().into_iter().filter(|c| c.starts_with('0')).collect();
    assert_eq!(bottom, ["0 down 1000", "0 down 100", "0 down 10", "0 down 1"]);
}

#[test]
fn a_message_is_not_overtaken_while_a_layer_below_emits_something() {
    let mut run = Builder::new()
        .layer("1", EVERYTHING, |call, cx| {
            if let Call::Down(_) = call {
                cx.raise(Dir::Up, Event::RoomAgain);
            }
            Flow::Pass
        })
        .layer("2", EVERYTHING, |call, cx| {
            if let Call::Down(m) = call {
                for n in [1, 2, 3] {
                    cx.send_down(numbered(n));
                }
                *m = Message::default();
                return Flow::Stop;
            }
            Flow::Pass
        })
        .passive("3")
        .start();
    run.send(9);
    let bottom: Vec<String> = run.calls().into_iter().filter(|c| c.starts_with('0')).collect();
    assert_eq!(bottom, ["0 down 1", "0 down 2", "0 down 3"]);
}

#[test]
fn batches_and_events_going_up_keep_the_order_in_which_they_were_emitted() {
    let mut run = Builder::new()
        .layer("1", EVERYTHING, |call, cx| {
            if let Call::Timer(_) = call {
                cx.deliver_up(batch(1));
                cx.raise(Dir::Up, Event::RoomAgain);
                cx.deliver_up(batch(2));
            } else if let Call::Start = call {
                cx.arm(TimerKey(1), at(1));
            }
            Flow::Pass
        })
        .layer("2", EVERYTHING, |call, cx| {
            if let Call::Up(_) = call {
                cx.raise(Dir::Up, Event::AnnounceView);
            }
            Flow::Pass
        })
        .passive("3")
        .start();
    run.advance(1, false);
    let top: Vec<String> = run.calls().into_iter().filter(|c| c.starts_with('3')).collect();
    assert_eq!(top, ["3 Up announce", "3 up 1", "3 Up room again", "3 Up announce", "3 up 2"]);
}

/// A lowest layer that sends every message back.
fn loops_back(call: Call<'_>, cx: &mut Cx<'_>) -> Flow {
    if let Call::Down(m) = call {
        cx.loopback(m.clone());
        take(m, cx);
        return Flow::Stop;
    }
    Flow::Pass
}

#[test]
fn copies_of_own_messages_come_after_everything_else() {
    let mut run = Builder::default()
        .layer("0", EVERYTHING, loops_back)
        .layer("1", EVERYTHING, |call, cx| {
            if let Call::Down(m) = call {
                let n = number(m);
                if n < 10 {
                    cx.send_down(numbered(n + 10));
                }
            }
            Flow::Pass
        })
        .passive("2")
        .start();
    run.send(1);
    let expected = ["1 down 1", "0 down 11", "0 down 1", "1 up 11+1", "2 up 11+1"];
    assert_eq!(run.calls(), expected);
}

#[test]
fn copies_of_what_is_sent_in_a_row_come_back_when_all_have_left_and_those_of_a_class_together() {
    let mut run = Builder::default().layer("0", EVERYTHING, loops_back).passive("1").start();
    let mut urgent = numbered(3);
    urgent.flags |= crate::wire::Flags::OOB;
    run.send_all([numbered(1), numbered(2), urgent, numbered(4)]);
    let down = ["0 down 1", "0 down 2", "0 down 3", "0 down 4"];
    let up = ["1 up 1+2", "1 up 3", "1 up 4"];
    assert_eq!(run.calls(), [&down[..], &up[..]].concat());
}

#[test]
fn a_layer_is_not_entered_while_it_is_running() {
    let mut run = Builder::default()
        .layer("0", EVERYTHING, |call, cx| {
            if let Call::Event(Dir::Down, Event::RoomAgain) = call {
                cx.raise(Dir::Up, Event::AnnounceView);
            }
            Flow::Pass
        })
        .layer("1", EVERYTHING, |call, cx| {
            if let Call::Timer(_) = call {
                cx.raise(Dir::Down, Event::RoomAgain);
            } else if let Call::Start = call {
                cx.arm(TimerKey(1), at(1));
            }
            Flow::Pass
        })
        .start();
    run.advance(1, false);
    let expected =
        ["1 timer 1", "1 done", "0 Down room again", "0 done", "1 Up announce", "1 done"];
    assert_eq!(run.calls_and_returns(), expected);
}
