//! A clock that stands still while this process does.

use crate::Time;
use core::time::Duration;

/// Shorter delays happen on every busy host, and mean nothing against timeouts of seconds.
const NOTICEABLE: Duration = Duration::from_millis(250);

/// How long this process was not run although a timer was due: its host was starved, or somebody
/// stopped it. What other members sent meanwhile was not heard, so their deadlines are put off by as
/// much; they are measured on this clock. A process that is always late judges that much later.
#[derive(Debug, Default)]
pub(crate) struct Awake {
    last: Time,
    stalled: Duration,
}

impl Awake {
    /// An input comes at `now`, and the earliest timer is or was due at `deadline`. Says for how long
    /// nobody looked, if that is worth a word.
    pub(super) fn wake(&mut self, now: Time, deadline: Option<Time>) -> Option<Duration> {
        // A timer that was due before the last input was held back on purpose.
        let expected = deadline.map_or(now, |d| d.max(self.last));
        self.last = now;
        let late = now.since(expected);
        if late < NOTICEABLE {
            return None;
        }
        self.stalled += late;
        Some(late)
    }

    /// The time of the last input, on this clock.
    pub(crate) fn time(&self) -> Time {
        Time::ZERO + self.last.since(Time::ZERO + self.stalled)
    }

    pub(super) fn stalled(&self) -> Duration {
        self.stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn time_in_which_nobody_looked_at_a_timer_does_not_count() {
        let mut a = Awake::default();
        a.wake(at(1_000), None);
        a.wake(at(2_000), Some(at(2_000)));
        assert_eq!(a.time(), at(2_000));
        assert_eq!(a.wake(at(9_000), Some(at(3_000))), Some(Duration::from_secs(6)));
        assert_eq!((a.time(), a.stalled()), (at(3_000), Duration::from_secs(6)));
    }

    #[test]
    fn sleep_without_anything_to_do_counts() {
        let mut a = Awake::default();
        a.wake(at(60_000), None);
        a.wake(at(120_000), Some(at(130_000)));
        assert_eq!((a.time(), a.stalled()), (at(120_000), Duration::ZERO));
    }

    #[test]
    fn a_timer_that_is_held_back_while_input_comes_is_no_stall() {
        let mut a = Awake::default();
        for ms in (1_000..3_000).step_by(100) {
            a.wake(at(ms), Some(at(1_000)));
        }
        assert_eq!(a.stalled(), Duration::ZERO);
    }
}
