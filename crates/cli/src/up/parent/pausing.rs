//! Members that stand still for a time.

use super::{Parent, Reply, State, done, refuse};
use serde_json::json;
use std::time::{Duration, Instant};

impl State {
    fn paused_until(self) -> Option<Instant> {
        match self {
            State::Paused(until) => Some(until),
            State::Joining | State::Member | State::Leaving | State::Killed | State::Gone => None,
        }
    }
}

impl Parent {
    pub(super) fn pause(&mut self, name: &str, time: Duration) -> Reply {
        if let Err(r) = self.running(name) {
            return r;
        }
        let Some(m) = self.members.get_mut(name) else { return refuse("gone") };
        if !matches!(m.state, State::Member | State::Paused(_)) {
            return refuse(format!("member {name} is {}", m.state.name()));
        }
        let Some(until) = Instant::now().checked_add(time) else {
            return refuse(format!("{time:?} is too long"));
        };
        match m.host.stand_still(true) {
            Ok(()) => {
                m.state = State::Paused(until);
                done(format!("{name} stands still for {time:?}"))
            }
            Err(e) => refuse(e.message()),
        }
    }

    /// Waits until the next member is to go on.
    pub(super) async fn next_to_go_on(&self) {
        match self.members.values().filter_map(|m| m.state.paused_until()).min() {
            Some(until) => tokio::time::sleep_until(until.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Lets those go on, by name and the time that they were to stand still until.
    pub(super) fn go_on(&mut self, which: impl Fn(&str, Instant) -> bool) {
        let mut gone_on = Vec::new();
        for (name, m) in &mut self.members {
            if m.state.paused_until().is_some_and(|until| which(name, until)) {
                m.state = State::Member;
                // One that was ended from outside meanwhile will be reported as such.
                if m.host.stand_still(false).is_ok() {
                    gone_on.push(name.clone());
                }
            }
        }
        for name in gone_on {
            self.say("resumed", json!({"member": name}), &format!("{name} goes on"));
        }
    }
}
