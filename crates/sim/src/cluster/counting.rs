//! Which messages the network did what to, while a run goes on.

use super::{Cluster, OnTheWay};
use crate::coverage::Fate;
use crate::network::Host;
use bytes::Bytes;
use rgroups_core::{Time, View, ViewId};
use std::sync::Arc;

impl Cluster {
    /// A packet leaves a node.
    pub(super) fn count_packet(&mut self, packet: &Bytes) {
        if let Some(traffic) = &mut self.traffic {
            traffic.packet(packet);
        }
    }

    /// A datagram leaves `from` and comes to `to` at these moments, or not at all.
    pub(super) fn count_departure(
        &mut self,
        from: Host,
        to: Host,
        packet: &Bytes,
        arrivals: &[Time],
    ) -> Option<OnTheWay> {
        if !self.settings.coverage || from == to || self.members[to.0].process.is_none() {
            return None;
        }
        let fate = match arrivals.len() {
            0 if self.network.reaches(from, to) => Some(Fate::Dropped),
            0 => Some(Fate::Cut),
            1 => None,
            _ => Some(Fate::Duplicated),
        };
        if let Some(fate) = fate {
            self.coverage.packet(fate, packet);
        }
        if let Some(first) = arrivals.iter().min() {
            // What left before and comes later was overtaken; it is told of the one that stays behind,
            // which is the same to a receiver.
            let newest = self.newest_arrival.entry((from, to)).or_insert(*first);
            if *first < *newest {
                self.coverage.packet(Fate::Overtaken, packet);
            }
            *newest = (*newest).max(*first);
        }
        let sender = self.members[from.0].process.as_ref()?.life;
        Some(OnTheWay { packet: packet.clone(), sender, view: self.view_at(to).map(|v| v.id) })
    }

    /// It comes.
    pub(super) fn count_arrival(&mut self, to: Host, way: &OnTheWay) {
        let Some(view) = self.view_at(to) else { return };
        let sender = &self.history.lives[way.sender.0];
        let gone =
            self.members[sender.host.0].process.as_ref().is_none_or(|p| p.life != way.sender);
        let late = |before: ViewId| before != view.id;
        for (is_so, fate) in [
            (way.view.is_some_and(late), Fate::Late),
            (!view.contains(sender.id), Fate::OfStranger),
            (gone, Fate::OfGone),
        ] {
            if is_so {
                self.coverage.packet(fate, &way.packet);
            }
        }
    }

    fn view_at(&self, host: Host) -> Option<Arc<View>> {
        self.members[host.0].process.as_ref()?.node.stack().group().view.clone()
    }
}
