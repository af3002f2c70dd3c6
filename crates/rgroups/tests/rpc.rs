//! Calls of methods between members of one process.
#![cfg(feature = "rpc")]

mod common;

use common::{Kind, Member, PATIENCE, await_view, cluster, config, message};
use rgroups::rpc::{CallOptions, Caller, Dispatcher, RpcError, ValueCall, Wait};
use rgroups::{Message, ObjectValue, SendError, block_on};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

fn members(n: usize) -> Vec<Member> {
    cluster(&config(Kind::InProcess), n)
}

fn options() -> CallOptions {
    CallOptions { timeout: PATIENCE, ..CallOptions::default() }
}

/// Does not end, although somebody could wake it: a future that nobody can wake ends at once.
async fn never<T>() -> T {
    static WAKERS: Mutex<Vec<Waker>> = Mutex::new(Vec::new());
    poll_fn(|cx| {
        WAKERS.lock().expect("nobody panics with it").push(cx.waker().clone());
        Poll::Pending
    })
    .await
}

/// A dispatcher that adds numbers, fails, panics, and never answers.
fn adder(m: &Member) -> Dispatcher {
    Dispatcher::builder(&m.ch)
        .handle("add", |_: Caller, (a, b): (i64, i64)| async move { Ok(a + b) })
        .handle("fail", |_: Caller, why: String| async move { Err::<(), _>(why) })
        .handle("panic", |_: Caller, n: Option<u32>| async move { Ok(n.expect("a number")) })
        .handle("hang", |_: Caller, (): ()| never::<Result<(), String>>())
        .build()
}

/// What a gauge of this member says once `good` holds for it.
fn gauge(m: &Member, name: &str, good: impl Fn(u64) -> bool) -> u64 {
    let end = Instant::now() + PATIENCE;
    loop {
        let inspected = block_on(m.ch.inspect()).expect("it runs");
        let found = inspected.counters.iter().find(|(l, n, _)| l == "ENTRY" && n == name);
        let value = found.expect("the gauge exists").2;
        if good(value) || Instant::now() > end {
            return value;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_call_to_all_has_a_value_of_each_member_in_the_order_of_the_view() {
    for kind in [Kind::InProcess, Kind::Tcp] {
        let group = cluster(&config(kind), 3);
        let all: Vec<Dispatcher> = group.iter().map(adder).collect();
        let sums =
            block_on(all[1].call_all::<_, i64>("add", (2i64, 3i64), options())).expect("made");
        let five: Vec<_> = group.iter().map(|m| (m.ch.address(), 5)).collect();
        assert_eq!(sums.all_ok(), Ok(five));
    }
}

#[test]
fn whoever_is_excluded_has_no_row() {
    let group = members(3);
    let all: Vec<Dispatcher> = group.iter().map(adder).collect();
    let exclude = vec![group[0].ch.address()];
    let options = CallOptions { exclude, ..options() };
    let sums = block_on(all[0].call_all::<_, i64>("add", (2i64, 3i64), options)).expect("made");
    let called: Vec<_> = sums.ok().map(|(m, _)| m).collect();
    assert_eq!(called, [group[1].ch.address(), group[2].ch.address()]);
}

#[test]
fn what_goes_wrong_at_a_member_is_in_its_row() {
    let group = members(2);
    let (a, _b) = (adder(&group[0]), adder(&group[1]));
    let to = group[1].ch.address();
    let call = |method: &str, args: &str| {
        block_on(a.call::<_, ()>(to, method, args.to_owned(), options()))
    };
    let remote =
        |message: &str| RpcError::Remote { from: to, class: None, message: message.into() };
    assert_eq!(call("fail", "no luck"), Err(remote("no luck")));
    let unknown = RpcError::NoSuchMethod { from: to, method: "nothing".into() };
    assert_eq!(call("nothing", ""), Err(unknown));
    let ended = "the handler ended without an answer: it panicked, or was stopped";
    let panicked = block_on(a.call::<_, u32>(to, "panic", None::<u32>, options()));
    assert_eq!(panicked, Err(remote(ended)));
    let Err(RpcError::Remote { message, .. }) = call("add", "no pair of numbers") else {
        panic!("it must not be read")
    };
    assert!(message.starts_with("cannot read the arguments"), "{message}");
    let sum = block_on(a.call::<_, String>(to, "add", (1i64, 2i64), options()));
    assert!(matches!(sum, Err(RpcError::Decode { .. })), "{sum:?}");
    let stranger = members(1)[0].ch.address();
    let sum = block_on(a.call::<_, i64>(stranger, "add", (1i64, 2i64), options()));
    assert_eq!(sum, Err(RpcError::NotMember(stranger)));
    // After all of it the member answers as before.
    assert_eq!(block_on(a.call::<_, i64>(to, "add", (1i64, 2i64), options())), Ok(3));
}

#[test]
fn a_member_without_handlers_says_that_it_has_no_such_method() {
    let group = members(2);
    let a = adder(&group[0]);
    let to = group[1].ch.address();
    let sum = block_on(a.call::<_, i64>(to, "add", (1i64, 2i64), options()));
    let unknown = RpcError::NoSuchMethod { from: to, method: "add".into() };
    assert_eq!(sum, Err(unknown.clone()));
    let b = adder(&group[1]);
    assert_eq!(block_on(a.call::<_, i64>(to, "add", (1i64, 2i64), options())), Ok(3));
    drop(b);
    let sum = block_on(a.call::<_, i64>(to, "add", (1i64, 2i64), options()));
    assert_eq!(sum, Err(unknown), "the handlers went with their dispatcher");
}

/// A handler that calls the other member, which calls back, and so on; one thread each.
fn deep(m: &Member) -> Dispatcher {
    Dispatcher::builder(&m.ch)
        .threads(1)
        .handle("deep", |who: Caller, left: u32| async move {
            if left == 0 {
                return Ok(0u32);
            }
            let options = CallOptions { timeout: who.remaining(), ..CallOptions::default() };
            let rpc = who.dispatcher().ok_or("the dispatcher is gone")?;
            let below = rpc.call::<_, u32>(who.from, "deep", left - 1, options).await;
            below.map(|n| n + 1).map_err(|e| e.to_string())
        })
        .build()
}

#[test]
fn nested_calls_of_any_depth_end_with_one_thread_each() {
    let group = members(2);
    let (a, _b) = (deep(&group[0]), deep(&group[1]));
    let to = group[1].ch.address();
    assert_eq!(block_on(a.call::<_, u32>(to, "deep", 100u32, options())), Ok(100));
}

#[test]
fn calls_of_one_member_run_at_the_same_time() {
    const CALLS: usize = 5;
    let group = members(2);
    let together = Arc::new(tokio::sync::Barrier::new(CALLS));
    // None of them ends before all have begun.
    let handler = move |_: Caller, n: u32| {
        let together = Arc::clone(&together);
        async move {
            together.wait().await;
            Ok(n)
        }
    };
    let a = adder(&group[0]);
    let _b = Dispatcher::builder(&group[1].ch).threads(1).handle("meet", handler).build();
    let to = group[1].ch.address();
    let calls: Vec<_> = (0..CALLS as u32)
        .map(|n| {
            let rpc = a.clone();
            std::thread::spawn(move || block_on(rpc.call::<_, u32>(to, "meet", n, options())))
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.join().expect("it ends"), Ok(n as u32));
    }
}

#[test]
fn a_call_ends_at_its_deadline_whatever_the_handler_does() {
    let group = members(2);
    let (a, b) = (adder(&group[0]), adder(&group[1]));
    let to = group[1].ch.address();
    let timeout = Duration::from_millis(300);
    let began = Instant::now();
    let short = CallOptions { timeout, ..options() };
    let outcome = block_on(a.call::<_, ()>(to, "hang", (), short));
    assert_eq!(outcome, Err(RpcError::Timeout { from: to, sent: true }));
    assert!(began.elapsed() >= timeout);
    let sum = block_on(b.call::<_, i64>(to, "add", (1i64, 2i64), options()));
    assert_eq!(sum, Ok(3), "others are not held up");
}

#[test]
fn a_call_that_waits_for_the_first_value_does_not_wait_for_the_rest() {
    let group = members(3);
    let a = adder(&group[0]);
    let hangs = |m: &Member| {
        let hang = |_: Caller, _: (i64, i64)| never::<Result<i64, String>>();
        Dispatcher::builder(&m.ch).handle("add", hang).build()
    };
    let _others = (hangs(&group[1]), hangs(&group[2]));
    let first = CallOptions { wait: Wait::First, ..options() };
    let sums = block_on(a.call_all::<_, i64>("add", (1i64, 2i64), first)).expect("made");
    assert_eq!(sums.of(group[0].ch.address()), Some(&Ok(3)));
    let other = group[1].ch.address();
    assert_eq!(sums.of(other), Some(&Err(RpcError::NotAwaited(other))));
    assert_eq!(sums.into_first(), Some((group[0].ch.address(), 3)));
}

#[test]
fn a_call_that_is_dropped_is_over() {
    let group = members(2);
    let (a, _b) = (adder(&group[0]), adder(&group[1]));
    let to = group[1].ch.address();
    {
        let mut call = pin!(a.call::<_, ()>(to, "hang", (), options()));
        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
        assert_eq!(gauge(&group[0], "calls_pending", |n| n == 1), 1);
    }
    assert_eq!(gauge(&group[0], "calls_pending", |n| n == 0), 0);
    assert_eq!(gauge(&group[0], "calls_withdrawn", |n| n == 1), 1);
}

#[test]
fn closing_the_channel_ends_its_calls() {
    let group = members(2);
    let (a, _b) = (adder(&group[0]), adder(&group[1]));
    let to = group[1].ch.address();
    let rpc = a.clone();
    let call = std::thread::spawn(move || block_on(rpc.call::<_, ()>(to, "hang", (), options())));
    assert_eq!(gauge(&group[1], "requests_running", |n| n == 1), 1);
    block_on(group[0].ch.clone().close()).expect("leaves");
    assert_eq!(call.join().expect("it ends"), Err(RpcError::Send(SendError::Closed)));
    let after = block_on(a.call::<_, ()>(to, "hang", (), options()));
    assert_eq!(after, Err(RpcError::Send(SendError::Closed)));
}

#[test]
fn a_target_that_leaves_ends_the_call_with_left() {
    let group = members(2);
    let (a, _b) = (adder(&group[0]), adder(&group[1]));
    let to = group[1].ch.address();
    let rpc = a.clone();
    let call = std::thread::spawn(move || block_on(rpc.call::<_, ()>(to, "hang", (), options())));
    assert_eq!(gauge(&group[1], "requests_running", |n| n == 1), 1);
    block_on(group[1].ch.clone().close()).expect("leaves");
    assert_eq!(call.join().expect("it ends"), Err(RpcError::Left(to)));
}

#[test]
fn messages_that_are_no_calls_come_as_events_and_calls_do_not() {
    let mut group = members(2);
    let (a, _b) = (adder(&group[0]), adder(&group[1]));
    let to = group[1].ch.address();
    assert_eq!(block_on(a.call::<_, i64>(to, "add", (1i64, 2i64), options())), Ok(3));
    block_on(group[0].ch.send(Message::unicast(to, "plain"))).expect("sent");
    assert_eq!(message(&mut group[1]).text(), Some("plain"));
}

#[test]
fn values_of_jgroups_go_to_and_fro() {
    let group = members(2);
    let echo = |m: &Member| {
        let first = |_: Caller, args: Vec<ObjectValue>| async move {
            args.into_iter().next().ok_or_else(|| "no argument".to_owned())
        };
        Dispatcher::builder(&m.ch).handle_values("echo", first).handle_values(7, first).build()
    };
    let (a, _b) = (echo(&group[0]), echo(&group[1]));
    let to = group[1].ch.address();
    let values = [
        ObjectValue::Null,
        true.into(),
        7.into(),
        (1i64 << 40).into(),
        0.5.into(),
        "text".into(),
        vec![1u8, 2, 3].into(),
    ];
    for value in values {
        for call in [ValueCall::new("echo"), ValueCall::new(7i16)] {
            let rows = block_on(a.call_values(to, call.arg(value.clone()), options()));
            assert_eq!(rows.expect("made").of(to), Some(&Ok(value.clone())));
        }
    }
    let rows = block_on(a.call_values(to, ValueCall::new("echo"), options())).expect("made");
    let remote = RpcError::Remote { from: to, class: None, message: "no argument".into() };
    assert_eq!(rows.of(to), Some(&Err(remote)));
}

#[test]
fn handlers_can_run_on_an_executor_of_the_program() {
    let group = members(1);
    let started = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&started);
    let a = Dispatcher::builder(&group[0].ch)
        .handle("add", |_: Caller, (a, b): (i64, i64)| async move { Ok(a + b) })
        .spawn_with(move |task| {
            counted.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || block_on(task));
        })
        .build();
    let to = group[0].ch.address();
    assert_eq!(block_on(a.call::<_, i64>(to, "add", (1i64, 2i64), options())), Ok(3));
    assert_eq!(started.load(Ordering::Relaxed), 1);
}

#[test]
fn handlers_on_the_thread_of_the_channel_run_in_order_and_may_call_others() {
    let group = members(2);
    let to = group[1].ch.address();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let a = adder(&group[0]);
    let _b = Dispatcher::builder(&group[1].ch)
        .handle("note", move |_: Caller, n: u32| {
            let thread = std::thread::current().name().map(str::to_owned);
            noted.lock().expect("nobody panics with it").push((n, thread));
            async { Ok(()) }
        })
        .handle("sum", |who: Caller, pair: (i64, i64)| async move {
            let rpc = who.dispatcher().expect("it is there");
            rpc.call::<_, i64>(who.from, "add", pair, options()).await.map_err(|e| e.to_string())
        })
        .on_channel_thread()
        .build();
    for n in 0..20u32 {
        assert_eq!(block_on(a.call::<_, ()>(to, "note", n, options())), Ok(()));
    }
    let seen = seen.lock().expect("nobody panics with it");
    assert!(seen.iter().map(|(n, _)| *n).eq(0..20), "{seen:?}");
    // A channel's thread has its name; those of handlers are called after what they do.
    let of_channel = |t: &Option<String>| t.as_deref().is_some_and(|t| t != "rgroups handler");
    assert!(seen.iter().all(|(_, t)| of_channel(t)), "{seen:?}");
    assert_eq!(block_on(a.call::<_, i64>(to, "sum", (2i64, 3i64), options())), Ok(5));
}

#[test]
fn a_member_leaves_when_its_last_handle_is_dropped_although_it_had_handlers() {
    let mut group = members(2);
    let b = deep(&group[1]);
    drop(group.pop());
    let alone = |m: &mut Member| m.ch.view().members().len();
    assert_eq!(alone(&mut group[0]), 2, "the dispatcher holds the channel");
    drop(b);
    await_view(&mut group[0], |v| v.members().len() == 1);
}

/// The time that a call may take begins when it is made, not when the member gets round to it.
#[test]
fn a_call_that_waited_for_the_driver_is_late_when_its_caller_says_so() {
    let builder = rgroups::Channel::builder(config(Kind::InProcess)).name("A");
    let (mut pump, _events) = builder.connect_pumped("test").expect("prepared");
    let end = Instant::now() + PATIENCE;
    let ch = loop {
        pump.pump(Duration::from_millis(5));
        assert!(Instant::now() < end, "it joins");
        if let Some(ch) = pump.channel() {
            break ch;
        }
    };
    let rpc = Dispatcher::builder(&ch)
        .handle("hang", |_: Caller, (): ()| never::<Result<(), String>>())
        .build();
    let timeout = Duration::from_secs(2);
    let options = CallOptions { timeout, ..options() };
    let mut call = pin!(rpc.call_all::<_, ()>("hang", (), options));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut cx).is_pending());
    std::thread::sleep(timeout);
    assert!((0..3).all(|_| pump.pump(Duration::ZERO)));
    let Poll::Ready(Ok(rows)) = call.as_mut().poll(&mut cx) else { panic!("it waits on") };
    let rows: Vec<_> = rows.iter().map(|(_, row)| row.is_err()).collect();
    assert_eq!(rows, [true]);
}
