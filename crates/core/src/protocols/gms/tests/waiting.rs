//! Views that wait: what is below says when the tails are repaired, and a test says it in its place.

use super::*;
use crate::protocols::gms::payload::{self, JoinAnswer};
use crate::{Digest, Message, ViewId, tag};

fn survivor(n: u64) -> Uuid {
    tag::tagged(n << 32, n, tag::TAIL_REPAIR)
}

fn view(n: u64, creator: u64, members: &[u64]) -> View {
    let members: Vec<Uuid> = members.iter().map(|m| survivor(*m)).collect();
    View::new(n, survivor(creator), members)
}

/// A member whose views wait.
struct Waiting {
    node: Solo,
    /// How many messages everybody has sent.
    sent: Arc<Mutex<i64>>,
}

impl Waiting {
    /// Member `n`, that joins `coordinator` or is alone.
    fn new(n: u64, coordinator: Option<u64>) -> Self {
        let found = |c| Found { member: survivor(c), ..answers(c, true, true) };
        let world = Arc::new(Mutex::new(coordinator.map(found).into_iter().collect()));
        let below = Below { world, ..Below::default() };
        let sent = Arc::clone(&below.sent);
        let layers: [Box<dyn Protocol>; 2] =
            [Box::new(below), Box::new(Gms::new(GmsConfig::default()))];
        Waiting { node: Solo::topped(n, survivor(n), layers.into()), sent }
    }

    /// Member 1, the coordinator of 1, 2, 3 and 4.
    fn coordinator() -> Self {
        let mut w = Self::new(1, None);
        for n in [2, 3, 4] {
            w.joins(n);
            w.node.run(ms(100));
            for m in 2..=n {
                w.from(m, payload::view_ack(survivor(1)));
            }
        }
        w.node.sent();
        w
    }

    /// Member 3 of 1 to 5, which are in their view 4.
    fn member() -> Self {
        let mut w = Self::new(3, Some(1));
        let joined = view(4, 1, &[1, 2, 3, 4, 5]);
        let digest: Digest = joined.members.iter().map(|m| (*m, SeqnoPair::default())).collect();
        let welcome = payload::join_response(survivor(3), &joined, &digest, wire::Flags::empty());
        w.from(1, welcome.expect("a digest of all"));
        assert_eq!(w.installed(), joined.id);
        w
    }

    fn from(&mut self, n: u64, m: Message) {
        let mut m = m.wire;
        m.src = Some(survivor(n).into());
        self.node.arrive(n, m);
    }

    fn joins(&mut self, n: u64) {
        self.from(n, payload::join_request(survivor(1), survivor(n)));
    }

    fn suspect(&mut self, n: u64) {
        let (member, by, why) = (survivor(n), survivor(1), Evidence::NobodyListens);
        self.node.event_up(Event::Suspect([Suspicion { member, by, why }].into()));
        self.node.run(ms(100));
    }

    /// What waits for `number` of `creator` is agreed on.
    fn repaired(&mut self, number: u64, creator: u64) {
        let view = ViewId { id: number, creator: survivor(creator) };
        self.node.event_up(Event::Repaired { view, agreed: true });
    }

    fn installed(&mut self) -> ViewId {
        self.node.stack.group().view.as_ref().map(|v| v.id).expect("it is in a group")
    }

    /// Who was let in, into which members, and from which number of each member on.
    fn let_in(&mut self) -> Vec<(Uuid, Vec<Uuid>, Vec<i64>)> {
        let sent = self.node.sent().into_iter().map(Message::from);
        let answers = sent.filter(|m| kind(&m.wire) == Some(GmsKind::JoinRsp));
        let read = |m: Message| match payload::read_join_answer(&m.body) {
            Some(JoinAnswer::Welcome(v, d)) => {
                let to = m.dest.as_ref().and_then(wire::Address::uuid)?;
                Some((to, v.members.to_vec(), d.iter().map(|(_, p)| p.delivered).collect()))
            }
            _ => None,
        };
        answers.filter_map(read).collect()
    }
}

#[test]
fn joiners_of_a_view_that_waits_are_answered_when_it_is_installed() {
    let mut w = Waiting::coordinator();
    w.joins(5);
    w.suspect(4);
    assert_eq!(w.let_in(), []);
    // What is sent from now on, 5 receives too.
    *w.sent.lock().unwrap() = 7;
    w.repaired(4, 1);
    let members = [1, 2, 3, 5].map(survivor).to_vec();
    assert_eq!(w.let_in(), [(survivor(5), members, [0, 0, 0, 0].to_vec())]);
}

#[test]
fn who_asks_to_join_again_while_its_view_waits_is_answered_once() {
    let mut w = Waiting::coordinator();
    w.joins(5);
    w.suspect(4);
    w.joins(5);
    assert_eq!(w.let_in(), []);
    w.repaired(4, 1);
    assert_eq!(w.let_in().len(), 1);
}

#[test]
fn joiners_of_a_view_that_is_replaced_are_answered_with_the_one_in_its_place() {
    let mut w = Waiting::coordinator();
    w.joins(5);
    w.suspect(4);
    w.joins(6);
    // The view waits for what 3 has to say, which is gone.
    w.suspect(3);
    *w.sent.lock().unwrap() = 7;
    assert_eq!(w.let_in(), []);
    w.repaired(5, 1);
    let members = [1, 2, 5, 6].map(survivor).to_vec();
    let answer = |n: u64| (survivor(n), members.clone(), [0, 0, 0, 0].to_vec());
    assert_eq!(w.let_in(), [answer(5), answer(6)]);
}

#[test]
fn joiners_of_a_view_that_waits_for_somebody_who_is_gone_are_answered_at_once() {
    let mut w = Waiting::coordinator();
    w.joins(5);
    w.suspect(4);
    w.suspect(3);
    assert_eq!(w.let_in(), []);
    // Nobody is left to agree with.
    w.suspect(2);
    let answered: Vec<Vec<Uuid>> = w.let_in().into_iter().map(|(_, members, _)| members).collect();
    assert_eq!(answered, [[1, 5].map(survivor).to_vec()]);
}

#[test]
fn the_view_of_the_successor_takes_the_place_of_a_waiting_one_with_the_same_number() {
    let mut w = Waiting::member();
    w.from(1, payload::view_multicast(&view(5, 1, &[1, 2, 3, 4]), None));
    // Its coordinator has died, which is not known here yet. 2 succeeds it.
    w.from(2, payload::view_multicast(&view(5, 2, &[2, 3, 4]), None));
    w.repaired(5, 1);
    assert_eq!(w.installed().id, 4);
    w.repaired(5, 2);
    assert_eq!(w.installed(), view(5, 2, &[2]).id);
}

#[test]
fn a_view_of_whoever_is_not_the_successor_does_not_take_the_place_of_a_waiting_one() {
    let mut w = Waiting::member();
    w.from(1, payload::view_multicast(&view(5, 1, &[1, 2, 3, 4]), None));
    w.from(4, payload::view_multicast(&view(5, 4, &[4, 3]), None));
    w.from(2, payload::view_multicast(&view(5, 2, &[1, 2, 3, 4]), None));
    w.repaired(5, 1);
    assert_eq!(w.installed(), view(5, 1, &[1]).id);
}
