//! Looking for members that were lost: for the first minutes after a view without them, the coordinator
//! announces its view to them every few seconds. A network that breaks is often whole again soon, and
//! the regular announcements are up to three quarters of a minute apart.

use crate::{Cx, Time, Uuid, View};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

/// For so long members that were lost are looked for.
const LOOKS_FOR: Duration = Duration::from_secs(300);
/// The time between two looks, at least and at most.
const PAUSE: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(5));
/// So many are told at a time where there is no multicast.
const AT_A_TIME: usize = 8;
/// So many are remembered.
const MOST: usize = 512;

/// The members that were lost, and when each is given up.
#[derive(Debug, Default)]
pub(super) struct Recall {
    lost: Vec<(Uuid, Time)>,
    /// Those that said that they leave.
    leaving: BTreeSet<Uuid>,
}

impl Recall {
    /// A member has asked to leave: it will not be missed.
    pub(super) fn leaves(&mut self, member: Uuid) {
        if self.leaving.len() < MOST {
            self.leaving.insert(member);
        }
    }

    /// A view takes the place of another one.
    pub(super) fn view(&mut self, previous: Option<&View>, view: &View, now: Time) {
        let until = now + LOOKS_FOR;
        let gone = previous.map(|p| p.without(view)).unwrap_or_default();
        self.lost.retain(|(m, end)| !view.contains(*m) && *end > now && !gone.contains(m));
        let missed = gone.into_iter().filter(|m| !self.leaving.contains(m));
        self.lost.extend(missed.map(|m| (m, until)));
        let too_many = self.lost.len().saturating_sub(MOST);
        self.lost.drain(..too_many);
        self.leaving.retain(|m| view.contains(*m));
    }

    /// Whether anybody is looked for.
    pub(super) fn is_looking(&mut self, now: Time) -> bool {
        self.lost.retain(|(_, end)| *end > now);
        !self.lost.is_empty()
    }

    /// Who is told this time. All have their turn.
    pub(super) fn next(&mut self) -> Vec<Uuid> {
        let n = self.lost.len().min(AT_A_TIME);
        self.lost.rotate_left(n);
        self.lost.iter().rev().take(n).map(|(m, _)| *m).collect()
    }

    /// When to look again.
    pub(super) fn again(cx: &mut Cx<'_>) -> Time {
        let pause = cx.rng().duration(PAUSE.0, PAUSE.1);
        cx.now + pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{id, view};

    #[test]
    fn who_is_missing_in_a_view_is_looked_for_until_it_is_back_or_the_time_is_over() {
        let mut r = Recall::default();
        r.view(None, &view(1, &[1, 2, 3]), Time::ZERO);
        assert!(!r.is_looking(Time::ZERO));
        r.view(Some(&view(1, &[1, 2, 3])), &view(2, &[1]), Time::ZERO);
        assert!(r.is_looking(Time::ZERO));
        r.view(Some(&view(2, &[1])), &view(3, &[1, 2]), Time::ZERO);
        assert_eq!(r.next(), [id(3)]);
        assert!(!r.is_looking(Time::ZERO + LOOKS_FOR));
    }

    #[test]
    fn who_leaves_is_not_looked_for() {
        let mut r = Recall::default();
        r.leaves(id(2));
        r.view(Some(&view(1, &[1, 2])), &view(2, &[1]), Time::ZERO);
        assert!(!r.is_looking(Time::ZERO));
    }

    #[test]
    fn of_many_all_have_their_turn() {
        let mut r = Recall::default();
        let all: Vec<u64> = (1..=20).collect();
        r.view(Some(&view(1, &all)), &view(2, &[1]), Time::ZERO);
        let told: BTreeSet<Uuid> = (0..3).flat_map(|_| r.next()).collect();
        assert_eq!(told.len(), 19);
    }
}
