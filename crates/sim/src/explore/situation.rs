//! Where exploration begins.

use super::world::{Packet, World};
use rgroups_core::Duration;
use rgroups_core::plan::StackPlan;

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
    /// Whether the members repair tails at all; else the oracles must notice what is missing.
    pub repairs: bool,
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

impl Situation {
    /// With tail repair as it is.
    #[must_use]
    pub fn new(victim: Victim) -> Self {
        Self {
            victim,
            repairs: true,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// The moment at which the victim is dead, and the survivors are about to hear of it.
    pub(super) fn set_up(&self) -> World {
        let unneeded =
            ["MERGE3", "FD_SOCK2", "FD_ALL3", "VERIFY_SUSPECT2", "UFC", "MFC", "FRAG2", "RSVP"];
        let plan = unneeded.into_iter().fold(StackPlan::udp(), |plan, p| plan.without(p));
        let mut w = World::new(plan, self.repairs);
        for (i, name) in ["A", "B", "C", "D"].into_iter().enumerate() {
            w.start(name);
            let whole =
                |w: &World| (0..=i).all(|at| w.view(at).is_some_and(|v| v.members.len() == i + 1));
            assert!(w.run_until(Duration::from_secs(30), whole), "{name} joins");
        }
        // What is left of the join: acknowledgements, announcements.
        w.run_until(Duration::from_secs(3), |_| false);
        w.packets.clear();
        #[cfg(feature = "mutants")]
        if let Some(mutant) = self.mutant {
            w.enable(mutant);
        }
        let victim = match self.victim {
            Victim::Member => w.sites.len() - 1,
            Victim::Coordinator => 0,
        };
        let survivors: Vec<usize> = (0..w.sites.len()).filter(|i| *i != victim).collect();
        for n in 1..=MESSAGES {
            w.send(victim, n == OUT_OF_BAND);
            let sent: Vec<Packet> = w.packets.drain(..).collect();
            let got = |p: &Packet| {
                survivors.iter().position(|s| *s == p.to).is_some_and(|i| GOT[i].contains(&n))
            };
            w.packets = sent.into_iter().filter(got).collect();
            w.run_until(Duration::ZERO, |w| w.packets.is_empty());
            w.packets.clear();
        }
        w.crash(victim);
        w.begin();
        w
    }
}
