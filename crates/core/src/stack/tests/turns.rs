//! Tokens, timers, the group, starting and stopping.

use super::*;

#[test]
fn a_resolved_token_reaches_its_owner() {
    let mut run = Builder::new()
        .passive("1")
        .layer("2", EVERYTHING, |call, cx| {
            match call {
                Call::Start => cx.arm(TimerKey(1), at(1)),
                Call::Timer(_) => {
                    let mut m = numbered(4);
                    m.token = Some(cx.own_token(44));
                    cx.send_down(m);
                }
                _ => {}
            }
            Flow::Pass
        })
        .start();
    run.advance(1, false);
    assert_eq!(run.calls(), ["2 timer 1", "1 down 4", "0 down 4", "2 sent 44 true"]);
    assert_eq!(run.stack.tokens_outstanding(), 0);
}

#[test]
fn a_call_of_the_application_is_answered_once() {
    let mut run = Builder::new().passive("1").start();
    run.send_as(1, Some(3));
    let told: Vec<AppEvent> = core::iter::from_fn(|| run.stack.poll_app()).collect();
    let [AppEvent::Resolved { op: OpId(3), result: SendResult::Sent }] = &told[..] else {
        panic!("one answer, not {told:?}");
    };
}

#[test]
fn patient_timers_hold_back_while_input_is_left() {
    let armed = |call: Call<'_>, cx: &mut Cx<'_>| {
        if let Call::Start = call {
            cx.arm(TimerKey(1), at(1));
        }
        Flow::Pass
    };
    let patient = Interests { patient_timers: true, ..NOTHING };
    let mut run = Builder::new().layer("1", patient, armed).layer("2", NOTHING, armed).start();
    run.advance(1, true);
    assert_eq!(run.calls(), ["2 timer 1"]);
    run.advance(1, false);
    assert_eq!(run.calls(), ["1 timer 1"]);
}

#[test]
fn a_timer_disarmed_by_an_earlier_one_does_not_fire() {
    let mut run = Builder::new()
        .layer("1", NOTHING, |call, cx| {
            match call {
                Call::Start => {
                    cx.arm(TimerKey(1), at(1));
                    cx.arm(TimerKey(2), at(1));
                    cx.arm(TimerKey(3), at(1));
                }
                Call::Timer(TimerKey(1)) => {
                    cx.disarm(TimerKey(2));
                    cx.arm(TimerKey(3), at(5));
                }
                _ => {}
            }
            Flow::Pass
        })
        .start();
    run.advance(1, false);
    assert_eq!(run.calls(), ["1 timer 1"]);
    assert_eq!(run.stack.poll_deadline(), Some(at(5)));
}

#[test]
fn a_timer_rearmed_for_now_does_not_occupy_the_turn() {
    let mut run = Builder::new()
        .layer("1", NOTHING, |call, cx| {
            if let Call::Start | Call::Timer(_) = call {
                cx.arm(TimerKey(1), at(0));
            }
            Flow::Pass
        })
        .start();
    run.advance(1, false);
    assert_eq!(run.calls(), ["1 timer 1"]);
}

#[test]
fn a_turn_ends_from_the_top_down_so_that_the_transport_closes_its_frames_last() {
    let mut run = Builder::new()
        .layer("1", EVERYTHING, |call, cx| {
            if let Call::EndTurn = call {
                cx.send_down(numbered(1));
            }
            Flow::Pass
        })
        .passive("2")
        .start();
    run.stack.end_turn(Time::ZERO);
    assert_eq!(run.calls(), ["2 end", "1 end", "0 down 1", "0 end"]);
}

#[test]
fn a_change_of_the_group_is_seen_by_the_next_layer_but_not_in_the_same_call() {
    let seen = Log::default();
    let note = {
        let seen = Arc::clone(&seen);
        move |who: &str, cx: &Cx<'_>| {
            seen.lock().unwrap().push(format!("{who} {}", cx.group().members().len()));
        }
    };
    let below = note.clone();
    let mut run = Builder::new()
        .layer("1", EVERYTHING, move |call, cx| {
            if let Call::Event(Dir::Down, Event::View(_)) = call {
                below("below", cx);
            }
            Flow::Pass
        })
        .layer("2", EVERYTHING, move |call, cx| {
            match call {
                Call::Start => cx.arm(TimerKey(1), at(1)),
                Call::Timer(_) => {
                    let v = view(1, &[1, 2]);
                    cx.change(GroupChange::View(Some(Arc::clone(&v))));
                    note("writer", cx);
                    cx.raise(Dir::Down, Event::View(v));
                }
                _ => {}
            }
            Flow::Pass
        })
        .start();
    run.advance(1, false);
    assert_eq!(*seen.lock().unwrap(), ["writer 0", "below 2"]);
}

#[test]
fn layers_start_from_the_bottom_and_stop_from_the_top() {
    let mut run = Builder::new().passive("1").build();
    run.connect();
    run.stack.stop(Time::ZERO);
    let expected = ["0 start", "1 start", "1 Down connect", "0 Down connect", "1 stop", "0 stop"];
    assert_eq!(run.calls(), expected);
}

#[test]
fn a_stopped_stack_has_no_timers_and_takes_no_packets() {
    let mut run = Builder::new()
        .layer("1", NOTHING, |call, cx| {
            if let Call::Start | Call::Stop = call {
                cx.arm(TimerKey(1), at(1));
            }
            Flow::Pass
        })
        .start();
    run.stack.stop(Time::ZERO);
    let _ = run.calls();
    run.packet();
    run.advance(9, false);
    assert_eq!(run.calls(), [] as [String; 0]);
    assert_eq!(run.stack.poll_deadline(), None);
}

#[test]
fn nothing_is_received_before_the_start() {
    let mut run = Builder::new().passive("1").build();
    run.packet();
    assert_eq!(run.calls(), [] as [String; 0]);
}
