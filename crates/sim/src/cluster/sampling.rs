//! Reading gauges of running nodes, for the oracles.

use super::{Cluster, Happening};
use crate::connections::Life;
use crate::history::What;
use rgroups_core::event::{Answer, WindowGauge};
use rgroups_core::{Pool, Query, Stack, Uuid};

impl Cluster {
    pub(super) fn sample_and_plan_next(&mut self) {
        let Some(interval) = self.settings.sampling else { return };
        self.sample();
        let at = self.now + interval;
        self.agenda.plan(at, Happening::Sample);
    }

    /// Notes the gauges of every running node.
    pub fn sample(&mut self) {
        for i in 0..self.members.len() {
            let Some(process) = self.members[i].process.as_ref() else { continue };
            let life = process.life;
            let stack = process.node.stack();
            let mut samples = vec![What::Windows(windows(stack))];
            for pool in [Pool::Multicast, Pool::Unicast] {
                if let Some(Answer::Credits(list)) = stack.ask(&Query::Credits(pool)) {
                    samples.push(What::Credits(pool, list));
                }
            }
            samples.push(What::Assembling(assembling(stack)));
            samples.push(What::Unread(process.unread_bytes()));
            let connections = self.streams.open_at(life);
            samples.push(What::Handles { connections, timer: true });
            for what in samples {
                self.record(Some(life), what);
            }
        }
    }

    /// Notes what must be nothing at rest: sends of each running node that are unresolved, and
    /// numbers that it was asked for in vain.
    pub fn sample_rest(&mut self) {
        for i in 0..self.members.len() {
            let Some(process) = self.members[i].process.as_ref() else { continue };
            let (life, stack) = (process.life, process.node.stack());
            let (tokens, unserved) = (stack.tokens_outstanding(), unserved(stack));
            let pending = gauge(stack, &["view_handler_size", "merge_in_progress"]);
            self.record(Some(life), What::TokensOutstanding(tokens));
            self.record(Some(life), What::Unserved(unserved));
            self.record(Some(life), What::RequestsPending(pending));
        }
    }

    /// Members of the view of `life` that have not delivered `of` up to `upto`. Who does not have
    /// `life` in its own view yet, or any more, is not asked: its windows start elsewhere.
    pub(super) fn who_lacks(&self, life: Life, of: Uuid, upto: i64) -> Vec<(Uuid, i64)> {
        let local = self.history.id(life);
        let running = self.members.iter().filter_map(|m| m.process.as_ref());
        let Some(view) = running
            .clone()
            .find(|p| p.life == life)
            .and_then(|p| p.node.stack().group().view.clone())
        else {
            return Vec::new();
        };
        let others = running.filter(|p| p.life != life);
        others
            .filter_map(|p| {
                let stack = p.node.stack();
                let theirs = stack.group().view.as_ref()?;
                let common = view.contains(stack.local())
                    && theirs.contains(local)
                    && theirs.contains(of)
                    && theirs.id.id <= view.id.id;
                let has = match stack.ask(&Query::DigestOf(of)) {
                    Some(Answer::Digest(d)) => d.get(of)?.delivered,
                    _ => return None,
                };
                (common && has < upto).then(|| (stack.local(), has))
            })
            .collect()
    }
}

/// How many numbers reliable multicast was asked for and did not have.
pub(super) fn unserved(stack: &Stack) -> u64 {
    gauge(stack, &["not_found"])
}

/// The sum of what all layers report under these names.
fn gauge(stack: &Stack, names: &[&str]) -> u64 {
    let mut sum = 0;
    stack.inspect(&mut |_, name, value| {
        if names.contains(&name) {
            sum += value;
        }
    });
    sum
}

fn assembling(stack: &Stack) -> u64 {
    let of = |m: &Uuid| match stack.ask(&Query::Reassembling(*m)) {
        Some(Answer::Bytes(bytes)) => bytes,
        _ => 0,
    };
    stack.group().members().iter().map(of).sum()
}

fn windows(stack: &Stack) -> Vec<WindowGauge> {
    let answers = stack.ask_all(&Query::Windows);
    let lists = answers.into_iter().filter_map(|a| match a {
        Answer::Windows(list) => Some(list),
        _ => None,
    });
    lists.flatten().collect()
}
