//! J2 to J4: what a call says of its targets is true, and they are why it ended.

use super::super::faults::imprecision;
use super::{Course, Violation, Work, first_views, violation};
use crate::cluster::value;
use crate::history::{Given, History};
use rgroups_core::rpc::{Failure, Row, Status, Unreachable, Wait};
use rgroups_core::{Time, Uuid, View};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A call that ended with rows.
pub(super) struct Ended<'a> {
    pub(super) course: &'a Course<'a>,
    pub(super) rows: &'a [Row],
    pub(super) to: usize,
}

impl Ended<'_> {
    pub(super) fn violations(&self, h: &History, work: &Work) -> Vec<Violation> {
        let views = self.views(h);
        let mut found: Vec<Violation> = Vec::new();
        let mut broken = |invariant, text: Option<String>| {
            found.extend(text.map(|t| violation(h, self.course, invariant, &t)));
        };
        broken("J2", self.names_the_right_ones(h));
        for row in self.rows {
            broken("J2", self.untrue(h, row, work, &views));
            broken("J3", self.awaited_though_gone(h, row, work, &views));
        }
        broken("J3", self.waits_for_nobody(h, &views));
        broken("J4", self.too_early());
        found
    }

    fn began(&self, h: &History) -> Time {
        h.facts[self.course.began].at
    }

    fn ended(&self, h: &History) -> Time {
        h.facts[self.to].at
    }

    /// The view in which it began, and those until it ended. What is installed in the turn in which it
    /// began may be its first or its second one.
    fn views(&self, h: &History) -> Vec<(Time, Arc<View>)> {
        let all = h.views_of(self.course.made.caller);
        let before = all.iter().filter(|(i, _)| *i < self.course.began).count();
        let until = self.ended(h);
        let known = all.into_iter().skip(before.saturating_sub(1));
        known.map(|(i, v)| (h.facts[i].at, v)).take_while(|(at, _)| *at <= until).collect()
    }

    /// Views that came when it ran for certain, and those that may have come then.
    fn later<'v>(
        &self,
        h: &History,
        views: &'v [(Time, Arc<View>)],
        certain: bool,
    ) -> impl Iterator<Item = &'v (Time, Arc<View>)> {
        let (began, ended) = (self.began(h), self.ended(h));
        let during = move |at: Time| match certain {
            true => at > began && at < ended,
            false => at >= began,
        };
        views.iter().filter(move |(at, _)| during(*at))
    }

    fn is_out(&self, h: &History, m: Uuid, v: &View) -> bool {
        !v.contains(m) || v.reunites(h.id(self.course.made.caller), m)
    }

    /// Rows are those who were named, each once, or the members of the view in which it began.
    fn names_the_right_ones(&self, h: &History) -> Option<String> {
        let rows: Vec<Uuid> = self.rows.iter().map(|r| r.member).collect();
        let right = match &self.course.made.to {
            Some(to) => {
                let mut once = BTreeSet::new();
                rows == to.iter().copied().filter(|m| once.insert(*m)).collect::<Vec<_>>()
            }
            None => first_views(h, self.course).iter().any(|v| *v.members == *rows),
        };
        let names: Vec<String> = rows.iter().map(|m| h.name_of(*m)).collect();
        (!right).then(|| format!("has the rows {}", names.join(", ")))
    }

    fn untrue(
        &self,
        h: &History,
        row: &Row,
        work: &Work,
        views: &[(Time, Arc<View>)],
    ) -> Option<String> {
        let (op, m) = (self.course.op, row.member);
        let given = work.given.get(&(op, m)).filter(|(i, _)| *i < self.to).map(|(_, g)| *g);
        let done = work.carried_out.contains_key(&(op, m));
        let out = |certain| self.later(h, views, certain).any(|(_, v)| self.is_out(h, m, v));
        let right = match &row.status {
            Status::Answered(reply) => given == Some(Given::Value) && *reply == value(op, m),
            Status::Failed(Failure::Error { message, .. }) => {
                given == Some(Given::Error) && message == "asked for"
            }
            // Nobody is given a state while calls are judged.
            Status::Failed(Failure::Overloaded | Failure::Unreadable | Failure::InState) => false,
            Status::NoSuchMethod => given == Some(Given::NoSuchMethod),
            Status::Left => out(false),
            Status::Unreachable(Unreachable::NotMember) => {
                !done && first_views(h, self.course).iter().any(|v| !v.contains(m))
            }
            Status::Unreachable(Unreachable::OnlyValues) => false,
            Status::TimedOut { sent } => {
                let within = self.course.made.within;
                let early = self.ended(h) + imprecision(within) < self.began(h) + within;
                !early && (*sent || !done)
            }
            Status::NotAwaited => true,
        };
        (!right).then(|| format!("{} is said to be {:?}, gave {given:?}", h.name_of(m), row.status))
    }

    /// J3: who is out of the view is decided with it.
    fn awaited_though_gone(
        &self,
        h: &History,
        row: &Row,
        work: &Work,
        views: &[(Time, Arc<View>)],
    ) -> Option<String> {
        let mut later = self.later(h, views, true);
        let (at, _) = later.find(|(_, v)| self.is_out(h, row.member, v))?;
        let since = |given: &(usize, Given)| h.facts[given.0].at > *at;
        let late = match row.status {
            Status::TimedOut { .. } | Status::NotAwaited => true,
            Status::Answered(_) | Status::Failed(_) | Status::NoSuchMethod => {
                work.given.get(&(self.course.op, row.member)).is_some_and(since)
            }
            Status::Left | Status::Unreachable(_) => false,
        };
        late.then(|| format!("{} was out at {at} and is {:?}", h.name_of(row.member), row.status))
    }

    /// J3: when all are out, the call is over.
    fn waits_for_nobody(&self, h: &History, views: &[(Time, Arc<View>)]) -> Option<String> {
        let mut open: BTreeSet<Uuid> = self.rows.iter().map(|r| r.member).collect();
        for (at, v) in self.later(h, views, true) {
            open.retain(|m| !self.is_out(h, *m, v));
            if open.is_empty() {
                return Some(format!("nobody was left at {at}, and it went on"));
            }
        }
        None
    }

    /// J4: as many values as its mode asks for, each of another member, and nothing else ends a call
    /// while somebody is awaited.
    fn too_early(&self) -> Option<String> {
        if self.rows.iter().all(|r| r.status != Status::NotAwaited) {
            return None;
        }
        let value = |r: &&Row| matches!(r.status, Status::Answered(_));
        let from: BTreeSet<Uuid> = self.rows.iter().filter(value).map(|r| r.member).collect();
        let satisfied = match self.course.made.wait {
            Wait::None => true,
            Wait::First => !from.is_empty(),
            Wait::Majority => 2 * from.len() > self.rows.len(),
            Wait::All => false,
        };
        let of = self.rows.len();
        (!satisfied).then(|| {
            format!("ended with {} values of {of} for {:?}", from.len(), self.course.made.wait)
        })
    }
}
