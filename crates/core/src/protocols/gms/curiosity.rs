//! Looking for a view that was missed. A view is announced once, and JGroups does not repeat it to
//! those who have not acknowledged it. Where its announcement was the last thing its sender
//! multicast and got lost, nothing is missing by number; but whoever has the view shows it soon, and
//! then the view is asked for.

use super::{CURIOUS, Gms, Role, payload};
use crate::{Cx, Uuid};
use core::time::Duration;

/// A view that is being announced shows up by other ways at the same time: so long it is given.
const GRACE: Duration = Duration::from_millis(500);
/// Where there is no newer view (another part of a split group is heard, say), the pause grows to
/// this.
const LONGEST: Duration = Duration::from_secs(32);

/// What is known of views newer than ours.
#[derive(Debug, Default)]
pub(super) struct Curiosity {
    /// Who showed one last.
    about: Option<Uuid>,
    /// How long to wait before asking; none before the first time.
    pause: Option<Duration>,
}

impl Gms {
    /// `from` says that it has a newer view, or sends although it is in none that we know.
    pub(super) fn hear_of_newer_view(&mut self, from: Uuid, cx: &mut Cx<'_>) {
        // A coordinator makes the views itself, whoever was excluded may be elsewhere, and a view that
        // waits here is known.
        let known = self.pending.is_some();
        if known || !matches!(self.role, Role::Member) || self.excluded.contains(&from) {
            return;
        }
        self.curiosity.about = Some(from);
        if cx.armed(CURIOUS).is_none() {
            cx.arm(CURIOUS, cx.now + self.curiosity.pause.unwrap_or(GRACE));
        }
    }

    /// The view has not come: a member of our own view is asked, if possible who showed the newer
    /// one. It answers only if it has another one.
    pub(super) fn ask_for_newer_view(&mut self, cx: &mut Cx<'_>) {
        let member = matches!(self.role, Role::Member);
        let Some(view) = self.latest().filter(|_| member).cloned() else {
            return;
        };
        let about = self.curiosity.about.take().filter(|m| view.contains(*m));
        let whom = about.or_else(|| self.requests.first_staying(&view, None));
        let Some(whom) = whom.filter(|m| *m != cx.local()) else { return };
        let pause = self.curiosity.pause.unwrap_or(GRACE);
        self.curiosity.pause = Some((pause * 2).min(LONGEST));
        cx.send_down(payload::view_inquiry(whom, view.id));
    }
}
