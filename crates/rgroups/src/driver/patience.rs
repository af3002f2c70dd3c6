//! How long timers that judge peers wait for input that is left over (DECISIONS 18).
//!
//! A turn takes a bounded amount of input. What is left may hold the very message that a timer
//! misses, so such timers hold back; but a member that others keep busy without a pause would then
//! never send a heartbeat again nor exclude who died. After a moment they fire all the same: by then
//! what lay in the sockets when they became due has been read.

use rgroups_core::Time;
use std::time::Duration;

/// The moment.
const LONGEST: Duration = Duration::from_secs(2);

/// Since when every turn has left input over.
#[derive(Debug, Default)]
pub(super) struct Patience {
    since: Option<Time>,
}

impl Patience {
    /// Whether timers hold back in a turn that leaves input over, or not.
    pub(super) fn holds_back(&mut self, now: Time, input_left: bool) -> bool {
        if !input_left {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let over = now.since(since) >= LONGEST;
        if over {
            self.since = None;
        }
        !over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_without_a_pause_does_not_hold_timers_back_for_ever() {
        let mut p = Patience::default();
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        assert!(p.holds_back(at(0), true));
        assert!(p.holds_back(at(1_999), true));
        assert!(!p.holds_back(at(2_000), true));
        assert!(p.holds_back(at(2_001), true), "the next ones wait as long");
        assert!(!p.holds_back(at(2_002), false));
        assert!(p.holds_back(at(4_003), true), "a pause begins it anew");
    }
}
