//! Where exploration begins.

use super::input::Input;
use super::memo::Memo;
use super::world::{World, record};
use crate::addresses;
use crate::history::{Fact, History, MessageId, SentMessage, What};
use crate::network::Host;
use crate::payload;
use rgroups_core::node::{Bound, NodeEnv};
use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, Rng, tag};

/// Which member is excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// One that others follow in the view; the coordinator stays.
    Member,
    /// The coordinator: another one takes over.
    Coordinator,
}

/// Three members survive a fourth, and each has received something else of what it sent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// Who is gone.
    pub victim: Victim,
    /// A deliberately wrong protocol.
    #[cfg(feature = "mutants")]
    pub mutant: Option<rgroups_core::mutants::Mutant>,
}

/// What each survivor got of the victim's messages 1 to 6, of which 4 is out of band: message 1 all
/// of them, 2 the first and the second, 3 only the second, 4 only the third (which delivers it at
/// once), 5 nobody, and 6 the first.
const GOT: [&[usize]; 3] = [&[1, 2, 6], &[1, 2, 3], &[1, 4]];
const OUT_OF_BAND: usize = 4;
const MESSAGES: usize = 6;

/// The moment at which the victim is dead, and the survivors are about to hear of it.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) memo: Memo,
    pub(super) world: World,
    /// What has happened until then.
    pub(super) history: History,
}

impl Situation {
    /// With tail repair as it is.
    #[must_use]
    pub fn new(victim: Victim) -> Self {
        Self {
            victim,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    pub(super) fn set_up(&self) -> Scene {
        let unneeded =
            ["MERGE3", "FD_SOCK2", "FD_ALL3", "VERIFY_SUSPECT2", "UFC", "MFC", "FRAG2", "RSVP"];
        let plan = unneeded.into_iter().fold(StackPlan::udp(), |plan, p| plan.without(p));
        let capabilities = plan.capabilities();
        let mut scene =
            Scene { memo: Memo::new(plan), world: World::new(), history: History::default() };
        let mut rng = Rng::new(7);
        for (i, name) in ["A", "B", "C", "D"].into_iter().enumerate() {
            scene.start(name, capabilities, &mut rng);
            let whole = |w: &World, memo: &Memo| {
                let has = |at: usize| memo.view(w.sites[at].state).map(|v| v.members.len());
                (0..=i).all(|at| has(at) == Some(i + 1))
            };
            assert!(scene.run_until(Duration::from_secs(30), whole), "{name} joins");
        }
        // What is left of the join: acknowledgements, announcements.
        scene.run_until(Duration::from_secs(3), |_, _| false);
        scene.world.packets.clear();
        #[cfg(feature = "mutants")]
        if let Some(mutant) = self.mutant {
            (0..scene.world.sites.len()).for_each(|at| scene.give(at, Input::Mutant(mutant)));
        }
        let victim = match self.victim {
            Victim::Member => scene.world.sites.len() - 1,
            Victim::Coordinator => 0,
        };
        let survivors: Vec<u8> =
            (0_u8..).take(scene.world.sites.len()).filter(|i| usize::from(*i) != victim).collect();
        for n in 1..=MESSAGES {
            scene.send(victim, n == OUT_OF_BAND);
            let Scene { memo, world, .. } = &mut scene;
            world.packets.retain(|p| match memo.input(*p) {
                Input::Packet { to, .. } => {
                    let place = survivors.iter().position(|s| s == to);
                    place.is_some_and(|i| GOT[i].contains(&n))
                }
                _ => false,
            });
            scene.run_until(Duration::ZERO, |w, _| w.packets.is_empty());
            scene.world.packets.clear();
        }
        let Scene { memo, world, history } = &mut scene;
        world.crash(victim, memo, &mut |at, site, what| record(history, at, site, &what));
        world.begin();
        scene
    }
}

impl Scene {
    fn start(&mut self, name: &str, capabilities: u8, rng: &mut Rng) {
        let host = Host(self.world.sites.len());
        let id = tag::make(rng, capabilities);
        let bound = Bound { transport: addresses::transport(host), monitor: None };
        let seed = rng.next_u64();
        let env = NodeEnv { local: id, name: name.into(), bound, seed, tracing: true };
        let life = self.history.add_life(host, name.to_owned(), id);
        self.history.facts.push(Fact { at: self.world.now, life: Some(life), what: What::Started });
        let state = self.memo.add(env);
        let Scene { memo, world, history } = self;
        world.start(state, memo, &mut |at, site, what| record(history, at, site, &what));
    }

    fn give(&mut self, at: usize, input: Input) {
        let Scene { memo, world, history } = self;
        world.give(at, input, memo, &mut |at, site, what| record(history, at, site, &what));
    }

    fn run_until(&mut self, limit: Duration, done: impl Fn(&World, &Memo) -> bool) -> bool {
        let Scene { memo, world, history } = self;
        let mut watch = |at, site, what| record(history, at, site, &what);
        world.run_until(limit, memo, &mut watch, done)
    }

    /// A multicast of node `at`.
    fn send(&mut self, at: usize, oob: bool) {
        let id = MessageId(self.history.messages.len() as u32);
        let sender = crate::connections::Life(at);
        self.history.messages.push(SentMessage {
            sender,
            to: None,
            ordered: !oob,
            reliable: true,
            loopback: true,
            size: payload::SMALLEST,
            sync: None,
        });
        let sent = Fact { at: self.world.now, life: Some(sender), what: What::Sent(id) };
        self.history.facts.push(sent);
        self.give(at, Input::Send { id, oob });
    }
}
