//! One member by itself: its reliable multicast and its STABLE between a floor that stands for the
//! network and a top that stands for the application. What it receives is exactly what a test says.

use bytes::Bytes;
use rgroups::core::net::{NetEvent, NetOp, OutFrame, Route};
use rgroups::core::protocols::reliable::{Nakack2Config, ReliableMulticast};
use rgroups::core::protocols::stable::{Stable, StableConfig};
use rgroups::core::wire::header::NakAckHeader;
use rgroups::core::wire::{
    self, Body, Flags, Frame, FrameBody, Header, Hints, Object, ProtId, SeqnoList, Version,
};
use rgroups::core::{
    Batch, Command, Cx, Digest, Dir, Duration, Env, Event, Flow, GroupChange, Interests, Message,
    Protocol, Query, Service, Spec, Stack, Time, Traffic, Uuid, View, tag,
};
use std::sync::Arc;

/// A tagged identity; ordered like the numbers.
pub(crate) fn tagged(n: u64) -> Uuid {
    tag::tagged(n << 32, n, tag::REFERENCE_DIGESTS)
}

/// A view of the tagged members 1 to `n`.
pub(crate) fn view_of(n: u64) -> Arc<View> {
    let members: Vec<Uuid> = (1..=n).map(tagged).collect();
    Arc::new(View::new(1, members[0], members))
}

#[derive(Debug)]
struct Floor;

impl Protocol for Floor {
    fn spec(&self) -> Spec {
        let interests = Interests { down: Traffic::Both, ..Interests::default() };
        let provides: &[Service] = &[Service::Transport];
        Spec { name: "FLOOR", id: None, interests, provides, needs_below: &[], needs_above: &[] }
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        let mut m = std::mem::take(msg);
        let local = cx.local();
        m.src.get_or_insert(local.into());
        if let Some(token) = m.token.take() {
            cx.resolve(token, Ok(()));
        }
        if m.is_multicast() && !m.hints.contains(Hints::DONT_LOOPBACK) {
            cx.loopback(m.clone());
        }
        cx.net(NetOp::Frame(OutFrame {
            route: Route::Multicast,
            dest: m.dest.clone(),
            src: local,
            cluster: cx.group().cluster.clone(),
            messages: vec![m],
        }));
        Flow::Stop
    }

    fn on_net(&mut self, ev: NetEvent, cx: &mut Cx<'_>) {
        let NetEvent::Frame { frame, .. } = ev else { return };
        let FrameBody::Single(m) = frame.body else { return };
        let Some(src) = m.src.as_ref().and_then(wire::Address::uuid) else { return };
        cx.deliver_up(Batch::of(src, m.into()));
    }
}

#[derive(Debug)]
struct Top;

impl Protocol for Top {
    fn spec(&self) -> Spec {
        let (provides, interests): (&[Service], _) = (&[], Interests::default());
        Spec { name: "TOP", id: None, interests, provides, needs_below: &[], needs_above: &[] }
    }

    fn on_command(&mut self, cmd: Command, cx: &mut Cx<'_>) {
        if let Command::Send(s) = cmd {
            cx.send_down(s.message);
        }
    }
}

/// The member.
pub(crate) struct Lone {
    pub(crate) stack: Stack,
    pub(crate) now: Time,
    sent: Vec<wire::Message>,
}

const LAYERS: usize = 4;

impl Lone {
    /// The tagged member `me` of `view`.
    pub(crate) fn new(me: u64, view: &Arc<View>, stable: StableConfig) -> Self {
        Self::with_windows(me, view, stable, &Digest::default())
    }

    /// The same, with windows of the others that stand where the digest says.
    pub(crate) fn with_windows(
        me: u64,
        view: &Arc<View>,
        stable: StableConfig,
        windows: &Digest,
    ) -> Self {
        let reliable = Nakack2Config { use_mcast_xmit: false, ..Nakack2Config::default() };
        let layers: Vec<Box<dyn Protocol>> = vec![
            Box::new(Floor),
            Box::new(ReliableMulticast::new(reliable)),
            Box::new(Stable::new(stable)),
            Box::new(Top),
        ];
        let env = Env {
            local: tagged(me),
            name: format!("M{me}").into(),
            physical: ([127, 0, 0, 1], 7000).into(),
            seed: me,
            tracing: false,
        };
        let mut stack = Stack::new(layers, env);
        let now = Time::ZERO;
        stack.submit(now, Command::Connect { cluster: Bytes::from_static(b"test") });
        stack.inject_change(GroupChange::View(Some(Arc::clone(view))));
        stack.inject_event(now, LAYERS, Dir::Down, Event::SetDigest(windows.clone()));
        stack.inject_event(now, LAYERS, Dir::Down, Event::View(Arc::clone(view)));
        stack.inject_event(now, LAYERS, Dir::Down, Event::BecomeServer);
        Self { stack, now, sent: Vec::new() }
    }

    /// Its application multicasts.
    pub(crate) fn cast(&mut self, bytes: usize) {
        let message = wire::Message::multicast(Body::bytes(vec![7u8; bytes]));
        let send = rgroups::core::app::Send {
            op: None,
            message,
            try_only: false,
            deadline: None,
            sync: None,
        };
        self.stack.submit(self.now, Command::Send(send));
    }

    /// A message of `from` arrives.
    pub(crate) fn arrive(&mut self, from: Uuid, mut m: wire::Message) {
        m.src = Some(from.into());
        let (multicast, body) = (m.is_multicast(), FrameBody::Single(m));
        let frame = Frame { version: Version::OURS, multicast, body };
        self.stack.receive(self.now, NetEvent::Frame { frame, from: None });
    }

    /// The multicast of this number of `from` arrives.
    pub(crate) fn arrive_numbered(&mut self, from: Uuid, seqno: i64) {
        let header = Header::NakAck(NakAckHeader::Msg(seqno));
        let m = wire::Message::multicast(Body::bytes("x")).with_header(ProtId::NAKACK2, header);
        self.arrive(from, m);
    }

    /// `from` asks for number `seqno` of `of`.
    pub(crate) fn asked_for(&mut self, from: Uuid, of: Uuid, seqno: i64) {
        let list: SeqnoList = [seqno].into_iter().collect();
        let header = Header::NakAck(NakAckHeader::XmitReq(Some(of.into())));
        let to = self.stack.local();
        let m = wire::Message::unicast(to, Body::object(Object::SeqnoList(list)))
            .with_flags(Flags::OOB)
            .with_header(ProtId::NAKACK2, header);
        self.arrive(from, m);
    }

    /// Time passes.
    pub(crate) fn run(&mut self, how_long: Duration) {
        let end = self.now + how_long;
        self.stack.end_turn(self.now);
        while let Some(at) = self.stack.poll_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.stack.advance(self.now, false);
            self.stack.end_turn(self.now);
            self.collect();
        }
        self.now = end;
    }

    fn collect(&mut self) {
        while let Some(op) = self.stack.poll_net() {
            if let NetOp::Frame(f) = op {
                self.sent.extend(f.messages.into_iter().map(|m| m.wire));
            }
        }
    }

    /// What it sent since the last call.
    pub(crate) fn sent(&mut self) -> Vec<wire::Message> {
        self.stack.end_turn(self.now);
        self.collect();
        std::mem::take(&mut self.sent)
    }

    /// The gauge of this name.
    pub(crate) fn gauge(&self, name: &str) -> u64 {
        let mut sum = 0;
        self.stack.inspect(&mut |_, n, value| {
            if n == name {
                sum += value;
            }
        });
        sum
    }

    /// Everything of `of` up to here is gone, up to here delivered, and the highest received.
    pub(crate) fn window(&self, of: Uuid) -> (i64, i64, i64) {
        use rgroups::core::event::{Answer, WindowKind};
        let answers = self.stack.ask_all(&Query::Windows);
        let lists = answers.into_iter().filter_map(|a| match a {
            Answer::Windows(list) => Some(list),
            _ => None,
        });
        let mine = lists.flatten().find(|w| w.peer == of && w.kind == WindowKind::Multicast);
        mine.map(|w| (w.low, w.delivered, w.received)).expect("there is a window")
    }
}
