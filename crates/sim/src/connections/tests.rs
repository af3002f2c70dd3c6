use super::*;
use crate::addresses;
use crate::agenda::Agenda;
use crate::network::Link;

const A: Host = Host(0);
const B: Host = Host(1);
const LIFE_A: Life = Life(0);
const LIFE_B: Life = Life(1);
const CONN: ConnId = ConnId(1);

/// Two hosts; the process on B listens.
struct Pair {
    streams: Streams,
    net: Network,
    rng: Rng,
    agenda: Agenda<Step>,
    now: Time,
    told: Vec<(Life, RawEvent)>,
    /// B's process does not take anything out of its kernel.
    frozen: bool,
}

impl Pair {
    fn new() -> Self {
        let mut streams = Streams::new(Kernel::default());
        for host in [A, B] {
            streams.add_host(addresses::ip(host), host);
        }
        streams.listen(LIFE_B, Port::Transport, addresses::transport(B));
        Pair {
            streams,
            net: Network::new(Link::lan()),
            rng: Rng::new(5),
            agenda: Agenda::default(),
            now: Time::ZERO,
            told: Vec::new(),
            frozen: false,
        }
    }

    fn with(&mut self, f: impl FnOnce(&mut Streams, &mut Surroundings<'_>)) {
        let mut out = Vec::new();
        let (net, rng) = (&mut self.net, &mut self.rng);
        f(&mut self.streams, &mut Surroundings { now: self.now, net, rng, out: &mut out });
        while !out.is_empty() {
            for effect in std::mem::take(&mut out) {
                match effect {
                    Effect::Plan(at, step) => self.agenda.plan(at, step),
                    Effect::Tell(life, event) => {
                        if !(self.frozen && life == LIFE_B) {
                            let (net, rng) = (&mut self.net, &mut self.rng);
                            let mut around =
                                Surroundings { now: self.now, net, rng, out: &mut out };
                            self.streams.taken(life, &event, &mut around);
                        }
                        self.told.push((life, event));
                    }
                }
            }
        }
    }

    fn op(&mut self, host: Host, life: Life, op: RawOp) {
        self.with(|s, around| s.op(host, life, op, around));
    }

    fn connect(&mut self) {
        let to = addresses::transport(B);
        self.op(A, LIFE_A, RawOp::Connect { conn: CONN, port: Port::Transport, to });
    }

    fn write(&mut self, bytes: &'static [u8]) {
        self.op(A, LIFE_A, RawOp::Write { conn: CONN, bytes: Bytes::from_static(bytes) });
    }

    fn run(&mut self, how_long: Duration) {
        let end = self.now + how_long;
        while let Some((at, step)) = self.agenda.take_until(end) {
            self.now = at;
            self.with(|s, around| s.step(step, around));
        }
        self.now = end;
    }

    fn received(&self) -> Vec<u8> {
        let bytes = self.told.iter().filter_map(|(life, e)| match e {
            RawEvent::Received { bytes, .. } if *life == LIFE_B => Some(bytes.to_vec()),
            _ => None,
        });
        bytes.flatten().collect()
    }

    fn was_told(&self, life: Life, wanted: impl Fn(&RawEvent) -> bool) -> bool {
        self.told.iter().any(|(l, e)| *l == life && wanted(e))
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn bytes_written_before_and_after_connecting_arrive_in_order() {
    let mut t = Pair::new();
    t.connect();
    t.write(b"hello ");
    t.run(SECOND);
    t.write(b"world");
    t.run(SECOND);
    assert_eq!(t.received(), b"hello world");
    assert!(t.was_told(LIFE_A, |e| matches!(e, RawEvent::Connected { .. })));
}

#[test]
fn connecting_where_nobody_listens_is_refused() {
    let mut t = Pair::new();
    t.with(|s, around| s.exit(B, LIFE_B, Exit::Killed, around));
    t.connect();
    t.run(SECOND);
    assert!(t.was_told(LIFE_A, |e| matches!(e, RawEvent::ConnectFailed { refused: true, .. })));
}

#[test]
fn connecting_to_a_dark_machine_gets_no_answer() {
    let mut t = Pair::new();
    t.with(|s, around| s.exit(B, LIFE_B, Exit::PowerOff, around));
    t.connect();
    t.run(SECOND);
    assert!(t.told.is_empty());
    t.run(SECOND * 2);
    assert!(t.was_told(LIFE_A, |e| matches!(e, RawEvent::ConnectFailed { refused: false, .. })));
}

#[test]
fn an_orderly_close_arrives_after_all_bytes() {
    let mut t = Pair::new();
    t.connect();
    t.write(b"last words");
    t.op(A, LIFE_A, RawOp::Close { conn: CONN, how: node::Closing::Orderly });
    t.run(SECOND);
    assert_eq!(t.received(), b"last words");
    assert!(matches!(t.told.last(), Some((LIFE_B, RawEvent::Closed { reset: false, .. }))));
    assert_eq!(t.streams.open_at(LIFE_A) + t.streams.open_at(LIFE_B), 0);
}

#[test]
fn an_abort_is_a_reset_at_the_other_side() {
    let mut t = Pair::new();
    t.connect();
    t.run(SECOND);
    t.op(A, LIFE_A, RawOp::Close { conn: CONN, how: node::Closing::Abort });
    t.run(SECOND);
    assert!(t.was_told(LIFE_B, |e| matches!(e, RawEvent::Closed { reset: true, .. })));
}

#[test]
fn a_killed_process_has_its_connections_closed_by_its_kernel() {
    let mut t = Pair::new();
    t.connect();
    t.run(SECOND);
    t.with(|s, around| s.exit(B, LIFE_B, Exit::Killed, around));
    t.run(SECOND);
    assert!(t.was_told(LIFE_A, |e| matches!(e, RawEvent::Closed { .. })));
}

#[test]
fn a_dark_machine_is_noticed_only_by_writing_and_late() {
    let mut t = Pair::new();
    t.connect();
    t.run(SECOND);
    t.with(|s, around| s.exit(B, LIFE_B, Exit::PowerOff, around));
    t.write(b"anybody there?");
    t.run(SECOND * 50);
    assert!(!t.was_told(LIFE_A, |e| matches!(e, RawEvent::Closed { .. })));
    t.run(SECOND * 20);
    assert!(t.was_told(LIFE_A, |e| matches!(e, RawEvent::Closed { reset: true, .. })));
}

#[test]
fn a_machine_that_is_back_answers_old_connections_with_a_reset() {
    let mut t = Pair::new();
    t.connect();
    t.run(SECOND);
    t.with(|s, around| s.exit(B, LIFE_B, Exit::PowerOff, around));
    t.write(b"anybody there?");
    t.run(SECOND);
    t.with(|s, around| s.power_on(B, around));
    t.run(SECOND);
    assert!(t.was_told(LIFE_A, |e| matches!(e, RawEvent::Closed { reset: true, .. })));
}

#[test]
fn a_frozen_reader_fills_the_window_and_stops_the_writer() {
    let mut t = Pair::new();
    t.frozen = true;
    t.connect();
    let piece: &'static [u8] = &[0; 100_000];
    for _ in 0..5 {
        t.write(piece);
    }
    t.run(SECOND);
    let written: usize = t
        .told
        .iter()
        .map(|(_, e)| if let RawEvent::Written { bytes, .. } = e { *bytes } else { 0 })
        .sum();
    assert_eq!(written, t.streams.kernel.window);
}

#[test]
fn bytes_held_by_a_partition_arrive_after_it_in_order() {
    let mut t = Pair::new();
    t.connect();
    t.run(SECOND);
    t.net.cut(A, B);
    t.write(b"one ");
    t.run(SECOND * 5);
    t.write(b"two");
    t.run(SECOND);
    assert!(t.received().is_empty());
    t.net.heal();
    t.with(|s, around| s.healed(around));
    t.run(SECOND);
    assert_eq!(t.received(), b"one two");
}
