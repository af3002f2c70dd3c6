//! Connections that nobody uses (JGroups `conn_expire_time`).

use super::super::link::{Down, LinkEvent};
use super::super::out::Out;
use super::{Links, Sink};
use crate::Time;
use crate::net::ConnId;
use core::net::SocketAddr;

impl Links {
    /// Looks at an established connection when it could have been idle for too long.
    pub(super) fn arm_idle(&mut self, now: Time, conn: ConnId) {
        if let Some(idle) = self.idle {
            self.arm(conn, now + idle);
        }
    }

    /// Closes a connection that was not used for too long; otherwise looks again when it could be.
    pub(super) fn close_if_idle(
        &mut self,
        now: Time,
        peer: SocketAddr,
        conn: ConnId,
        out: &mut Out,
        sink: Sink<'_>,
    ) {
        let (Some(idle), Some(link)) = (self.idle, self.link_mut(conn)) else { return };
        let until = link.used + idle;
        if now < until || link.in_flight > 0 {
            let again = until.max(now + idle / 2);
            return self.arm(conn, again);
        }
        self.close(now, peer, out);
        sink(LinkEvent::Down { peer, why: Down::Graceful });
    }
}
