//! Tests of the run loop: who is entered when, and in which order things happen.
//!
//! Stacks are made of layers that note every call in a common log and then do what a test tells
//! them. Messages are numbered by their body.

mod order;
mod passing;
mod turns;

use super::*;
use crate::protocol::{Cx, Flow, Spec, Traffic};
use crate::testkit::{id, view};
use crate::wire::{self, Body, Header, ProtId};
use crate::{Batch, Consumed, Message, OpId, SendRefusal, SendResult, TimerKey};
use alloc::string::String;
use core::time::Duration;
use std::format;
use std::sync::Mutex;

type Log = Arc<Mutex<Vec<String>>>;

/// What a layer is entered for.
enum Call<'a> {
    Start,
    Stop,
    Down(&'a mut Message),
    Up(&'a mut Batch),
    Event(Dir, &'a Event),
    Timer(TimerKey),
    Net,
    Consumed,
    Sent(u64, Result<(), SendRefusal>),
    EndTurn,
}

impl Call<'_> {
    fn note(&self) -> String {
        match self {
            Call::Start => "start".into(),
            Call::Stop => "stop".into(),
            Call::Down(m) => format!("down {}", number(m)),
            Call::Up(b) => {
                let numbers: Vec<String> =
                    b.messages().iter().map(|m| format!("{}", number(m))).collect();
                format!("up {}", numbers.join("+"))
            }
            Call::Event(dir, ev) => format!("{dir:?} {}", event_name(ev)),
            Call::Timer(key) => format!("timer {}", key.0),
            Call::Net => "net".into(),
            Call::Consumed => "consumed".into(),
            Call::Sent(key, how) => format!("sent {key} {}", how.is_ok()),
            Call::EndTurn => "end".into(),
        }
    }
}

fn event_name(ev: &Event) -> &'static str {
    match ev {
        Event::Connect => "connect",
        Event::View(_) => "view",
        Event::RoomAgain => "room again",
        Event::AnnounceView => "announce",
        _ => "other",
    }
}

type Script = Box<dyn FnMut(Call<'_>, &mut Cx<'_>) -> Flow + Send>;

/// A layer that notes its calls and does what its script says.
struct Scripted {
    spec: Spec,
    log: Log,
    script: Script,
}

impl core::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Scripted").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Scripted {
    fn call(&mut self, call: Call<'_>, cx: &mut Cx<'_>) -> Flow {
        self.log.lock().unwrap().push(format!("{} {}", self.spec.name, call.note()));
        let flow = (self.script)(call, cx);
        self.log.lock().unwrap().push(format!("{} done", self.spec.name));
        flow
    }
}

impl Protocol for Scripted {
    fn spec(&self) -> Spec {
        self.spec
    }
    fn start(&mut self, cx: &mut Cx<'_>) {
        let _ = self.call(Call::Start, cx);
    }
    fn stop(&mut self, cx: &mut Cx<'_>) {
        let _ = self.call(Call::Stop, cx);
    }
    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        self.call(Call::Down(msg), cx)
    }
    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let _ = self.call(Call::Up(batch), cx);
    }
    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        self.call(Call::Event(dir, ev), cx)
    }
    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        let _ = self.call(Call::Timer(key), cx);
    }
    fn on_consumed(&mut self, _what: &Consumed, cx: &mut Cx<'_>) {
        let _ = self.call(Call::Consumed, cx);
    }
    fn on_sent(&mut self, key: u64, how: Result<(), SendRefusal>, cx: &mut Cx<'_>) {
        let _ = self.call(Call::Sent(key, how), cx);
    }
    fn on_net(&mut self, _ev: NetEvent, cx: &mut Cx<'_>) {
        let _ = self.call(Call::Net, cx);
    }
    fn on_command(&mut self, cmd: Command, cx: &mut Cx<'_>) {
        if let Command::Send(s) = cmd {
            let mut m = Message::from(s.message);
            m.token = s.op.map(|op| cx.app_token(op));
            cx.send_down(m);
        }
    }
    fn end_turn(&mut self, cx: &mut Cx<'_>) {
        let _ = self.call(Call::EndTurn, cx);
    }
}

const EVERYTHING: Interests = Interests {
    down: Traffic::Both,
    up: Traffic::Both,
    up_with: None,
    events: true,
    consumed: true,
    end_turn: true,
    patient_timers: false,
};

const NOTHING: Interests = Interests {
    down: Traffic::None,
    up: Traffic::None,
    up_with: None,
    events: false,
    consumed: false,
    end_turn: false,
    patient_timers: false,
};

/// A stack under construction, bottom first.
#[derive(Default)]
struct Builder {
    layers: Vec<Box<dyn Protocol>>,
    log: Log,
}

impl Builder {
    /// A stack with a bottom layer named "0" that takes every message going down.
    fn new() -> Self {
        Self::default().layer("0", EVERYTHING, |call, cx| match call {
            Call::Down(m) => {
                take(m, cx);
                Flow::Stop
            }
            _ => Flow::Pass,
        })
    }

    fn layer(
        self,
        name: &'static str,
        interests: Interests,
        script: impl FnMut(Call<'_>, &mut Cx<'_>) -> Flow + Send + 'static,
    ) -> Self {
        self.layer_with_header(name, None, interests, script)
    }

    fn layer_with_header(
        mut self,
        name: &'static str,
        id: Option<ProtId>,
        interests: Interests,
        script: impl FnMut(Call<'_>, &mut Cx<'_>) -> Flow + Send + 'static,
    ) -> Self {
        let (provides, needs_below, needs_above) = (&[][..], &[][..], &[][..]);
        let spec = Spec { name, id, interests, provides, needs_below, needs_above };
        let log = Arc::clone(&self.log);
        self.layers.push(Box::new(Scripted { spec, log, script: Box::new(script) }));
        self
    }

    /// A layer that lets everything pass.
    fn passive(self, name: &'static str) -> Self {
        self.layer(name, EVERYTHING, |_, _| Flow::Pass)
    }

    fn build(self) -> Run {
        let env = Env {
            local: id(1),
            name: "M1".into(),
            physical: ([127, 0, 0, 1], 7001).into(),
            seed: 1,
            tracing: true,
        };
        Run { stack: Stack::new(self.layers, env), log: self.log }
    }

    /// A started stack, its log empty.
    fn start(self) -> Run {
        let mut run = self.build();
        run.connect();
        let _ = run.calls_and_returns();
        run
    }
}

/// A stack of scripted layers.
struct Run {
    stack: Stack,
    log: Log,
}

impl Run {
    fn connect(&mut self) {
        let cluster = Bytes::from_static(b"test");
        self.stack.submit(Time::ZERO, Command::Connect { cluster });
    }

    fn send(&mut self, n: i64) {
        self.send_as(n, None);
    }

    fn send_as(&mut self, n: i64, op: Option<u64>) {
        self.stack.submit(Time::ZERO, Command::Send(sending(numbered(n), op)));
    }

    fn send_all(&mut self, messages: impl IntoIterator<Item = Message>) {
        self.stack.submit_sends(Time::ZERO, messages.into_iter().map(|m| sending(m, None)));
    }

    fn advance(&mut self, secs: u64, input_left: bool) {
        self.stack.advance(at(secs), input_left);
    }

    fn event(&mut self, from: usize, dir: Dir, ev: Event) {
        self.stack.inject_event(Time::ZERO, from, dir, ev);
    }

    fn packet(&mut self) {
        let body = wire::FrameBody::Single(numbered(0).wire);
        let frame = wire::Frame { version: wire::Version::OURS, multicast: true, body };
        self.stack.receive(Time::ZERO, NetEvent::Frame { frame, from: None });
    }

    /// The log since the last look, with the ends of calls.
    fn calls_and_returns(&self) -> Vec<String> {
        core::mem::take(&mut *self.log.lock().unwrap())
    }

    /// The calls since the last look.
    fn calls(&self) -> Vec<String> {
        self.calls_and_returns().into_iter().filter(|c| !c.ends_with("done")).collect()
    }
}

fn at(secs: u64) -> Time {
    Time::ZERO + Duration::from_secs(secs)
}

fn sending(m: Message, op: Option<u64>) -> crate::app::Send {
    let (op, message) = (op.map(OpId), m.wire);
    crate::app::Send { op, message, try_only: false, deadline: None, sync: None }
}

fn numbered(n: i64) -> Message {
    wire::Message::multicast(Body::Long(n)).into()
}

fn number(m: &Message) -> i64 {
    match m.body {
        Body::Long(n) => n,
        _ => -1,
    }
}

fn batch(n: i64) -> Batch {
    Batch::of(id(2), numbered(n))
}

/// Takes a message out of the stack as a transport does.
fn take(m: &mut Message, cx: &mut Cx<'_>) {
    if let Some(t) = core::mem::take(m).token {
        cx.resolve(t, Ok(()));
    }
}
