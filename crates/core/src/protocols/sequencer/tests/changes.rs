//! When the sequencer is another one.

use super::*;
use crate::testkit::pass_time;
use core::time::Duration;

#[test]
fn what_the_dead_sequencer_had_not_ordered_goes_to_the_next_in_order_and_once() {
    let mut g = group(3);
    // The first message comes back before 1 dies; the others reach nobody.
    cast(&mut g[2], "c1");
    exchange(&mut g, none);
    cast(&mut g[2], "c2");
    cast(&mut g[2], "c3");
    cast(&mut g[1], "b1");
    g.remove(0);
    exchange(&mut g, none);
    assert_eq!(gauge(&g[1], "forward_table_size"), 2);
    for m in &mut g {
        m.install(view(2, &[2, 3]));
    }
    cast(&mut g[1], "c4");
    exchange(&mut g, none);
    let order = texts(&mut g[0]);
    assert_eq!(texts(&mut g[1]), order);
    let of_c: Vec<&String> = order.iter().filter(|t| t.starts_with('c')).collect();
    assert_eq!(of_c, ["c1", "c2", "c3", "c4"]);
    assert_eq!(order.len(), 5);
}

#[test]
fn what_some_had_delivered_already_is_delivered_once() {
    let mut g = group(3);
    cast(&mut g[2], "c1");
    // 1 orders it, but only 2 gets it before 1 dies.
    let to_3 = |from: Uuid, to: Uuid, _: &Wire| from == tagged(1) && to == tagged(3);
    exchange(&mut g, to_3);
    g.remove(0);
    for m in &mut g {
        m.install(view(2, &[2, 3]));
    }
    exchange(&mut g, none);
    assert_eq!(texts(&mut g[0]), ["c1"]);
    assert_eq!(texts(&mut g[1]), ["c1"]);
    assert_eq!(gauge(&g[0], "duplicates"), 1);
}

#[test]
fn what_is_forwarded_before_the_view_waits_for_it() {
    let mut g = group(3);
    g.remove(0);
    g[1].install(view(2, &[2, 3]));
    cast(&mut g[1], "c1");
    exchange(&mut g, none);
    assert_eq!(gauge(&g[0], "held_forwards"), 1);
    g[0].install(view(2, &[2, 3]));
    exchange(&mut g, none);
    assert_eq!((texts(&mut g[0]), texts(&mut g[1])), (["c1".into()].into(), ["c1".into()].into()));
}

#[test]
fn what_is_ordered_before_the_view_waits_for_it_behind_what_was_ordered_before() {
    let mut g = group(3);
    // 1 leaves: its last message and 2's first one come to 3 in the wrong order.
    cast(&mut g[0], "a1");
    let last = g[0].sent().remove(0);
    g[1].arrive(1, last.clone());
    g.remove(0);
    g[0].install(view(2, &[2, 3]));
    cast(&mut g[0], "b1");
    exchange(&mut g, none);
    assert_eq!(gauge(&g[1], "held_bcasts"), 1);
    g[1].arrive(1, last);
    assert_eq!(texts(&mut g[1]), ["a1"]);
    g[1].install(view(2, &[2, 3]));
    assert_eq!(texts(&mut g[1]), ["b1"]);
    assert_eq!(texts(&mut g[0]), ["a1", "b1"]);
}

#[test]
fn what_waits_for_a_view_goes_up_after_the_view() {
    let mut g = group(2);
    g.remove(0);
    let m = Wire { src: Some(tagged(2).into()), ..Wire::multicast(Body::bytes("early")) }
        .with_header(ProtId::SEQUENCER, Sequencer::header(SequencerKind::Bcast, 1, false));
    let mut late = member(3, tagged(3));
    late.install(view(1, &[1, 2, 3]));
    late.arrive(2, m);
    late.told();
    late.install(view(2, &[2, 3]));
    let what: Vec<&str> = late
        .told()
        .iter()
        .map(|ev| match ev {
            crate::AppEvent::View(_) => "view",
            crate::AppEvent::Deliver(_) => "message",
            _ => "other",
        })
        .collect();
    assert_eq!(what, ["view", "message"]);
}

#[test]
fn a_sequencer_of_before_a_merge_orders_nothing_any_more() {
    let mut g: Vec<Solo> = (1..=4).map(|i| member(i, tagged(i))).collect();
    let (left, right) = (view(1, &[1, 2]), view(1, &[3, 4]));
    for (i, m) in g.iter_mut().enumerate() {
        m.install(Arc::clone(if i < 2 { &left } else { &right }));
    }
    // 4 has forwarded to 3, which does not hear it before the merge.
    cast(&mut g[3], "d1");
    let forward = g[3].sent().remove(0);
    let members = [1, 2, 3, 4].map(tagged);
    let merged = View {
        subgroups: [(*left).clone(), (*right).clone()].into(),
        ..View::new(2, members[0], members)
    };
    let merged = Arc::new(merged);
    for m in &mut g {
        m.install(Arc::clone(&merged));
    }
    g[2].arrive(4, forward);
    exchange(&mut g, none);
    for m in &mut g {
        assert_eq!(texts(m), ["d1"]);
    }
    // 3 may order again one day; what it has of before is delivered and done with.
    g[2].install(view(3, &[3, 4]));
    g[3].install(view(3, &[3, 4]));
    g.drain(..2);
    exchange(&mut g, none);
    assert_eq!(gauge(&g[0], "held_forwards"), 0);
    assert_eq!(g.iter_mut().map(delivered).collect::<Vec<_>>(), [[], []]);
}

#[test]
fn who_was_excluded_and_comes_back_to_the_same_sequencer_forwards_again() {
    let mut g = group(2);
    cast(&mut g[1], "b1");
    // 1 has excluded 2 when it comes.
    g[1].sent();
    let parts = [(*view(2, &[1])).clone(), (*view(1, &[1, 2])).clone()];
    g[0].install(view(2, &[1]));
    let members = [1, 2].map(tagged);
    let merged = View { subgroups: parts.into(), ..View::new(3, members[0], members) };
    for m in &mut g {
        m.install(Arc::new(merged.clone()));
    }
    exchange(&mut g, none);
    assert_eq!((texts(&mut g[0]), texts(&mut g[1])), (["b1".into()].into(), ["b1".into()].into()));
}

#[test]
fn a_message_that_its_sender_has_multicast_itself_meanwhile_does_not_come_back_to_it() {
    let mut g = group(2);
    let mut m = Wire::multicast(Body::bytes("x"));
    m.hints |= crate::wire::Hints::DONT_LOOPBACK;
    g[1].send(m, None);
    let forward = g[1].sent().remove(0);
    // 2 orders it itself, alone, and then 1 comes back with what it was sent before.
    g[1].install(view(2, &[2]));
    g[1].install(view(3, &[1, 2]));
    g[1].sent();
    g[0].install(view(3, &[1, 2]));
    g[0].arrive(2, Wire { src: Some(tagged(2).into()), ..forward });
    exchange(&mut g, none);
    assert_eq!(texts(&mut g[0]), ["x"]);
    assert_eq!(texts(&mut g[1]), [""; 0]);
}

#[test]
fn without_the_forward_table_what_was_on_its_way_is_lost_and_what_comes_later_is_not() {
    let config = SequencerConfig { flush_forward_table: false, ..SequencerConfig::default() };
    let probe = crate::testkit::Probe(Arc::default());
    let layers: Vec<Box<dyn Protocol>> =
        [Box::new(Sequencer::new(config)) as Box<dyn Protocol>, Box::new(probe)].into();
    let mut m = Solo::topped(2, tagged(2), layers);
    m.install(view(1, &[1, 2]));
    cast(&mut m, "lost");
    m.install(view(2, &[2]));
    cast(&mut m, "kept");
    assert_eq!(texts(&mut m), ["kept"]);
}

#[test]
fn a_sequencer_that_changes_many_times_loses_and_repeats_nothing() {
    let mut g = group(5);
    for n in 0..4u64 {
        for m in &mut g {
            cast(m, "x");
        }
        // The first one dies with everything that it was sent.
        g.remove(0);
        let left: Vec<u64> = (n + 2..=5).collect();
        for m in &mut g {
            m.install(view(n + 2, &left));
        }
    }
    exchange(&mut g, none);
    assert_eq!(texts(&mut g[0]), ["x"; 4]);
}

#[test]
fn a_leaver_waits_until_its_messages_have_come_back_but_not_for_ever() {
    for comes_back in [true, false] {
        let mut g = group(2);
        cast(&mut g[1], "b1");
        g[1].event_down(Event::Disconnect);
        let asked = |m: &Solo| {
            let below = m.below.lock().expect("no panic");
            below.iter().any(|(_, ev)| matches!(ev, Event::Disconnect))
        };
        assert!(!asked(&g[1]));
        if comes_back {
            exchange(&mut g, none);
            assert!(asked(&g[1]));
            continue;
        }
        pass_time(&mut g, Duration::from_millis(999), |_, _, _| true);
        assert!(!asked(&g[1]));
        pass_time(&mut g, Duration::from_millis(2), |_, _, _| true);
        assert!(asked(&g[1]));
    }
}

#[test]
fn what_was_forwarded_to_who_had_excluded_its_sender_does_not_go_before_what_was_lost() {
    let mut g = group(2);
    cast(&mut g[1], "lost");
    g[1].sent();
    g[0].install(view(2, &[1]));
    cast(&mut g[1], "late");
    let late = g[1].sent().remove(0);
    let parts = [(*view(2, &[1])).clone(), (*view(1, &[1, 2])).clone()];
    let members = [1, 2].map(tagged);
    let merged = View { subgroups: parts.into(), ..View::new(3, members[0], members) };
    // It comes when 1 has the view already, and 2 not yet.
    g[0].install(Arc::new(merged.clone()));
    g[0].arrive(2, Wire { src: Some(tagged(2).into()), ..late });
    assert_eq!(gauge(&g[0], "outdated_forwards"), 1);
    g[1].install(Arc::new(merged));
    cast(&mut g[1], "new");
    exchange(&mut g, none);
    assert_eq!(texts(&mut g[0]), ["lost", "late", "new"]);
    assert_eq!(texts(&mut g[1]), ["lost", "late", "new"]);
}
