//! Looking for a member on the ports where its FD_SOCK2 may listen.

use crate::Uuid;
use crate::net::ConnId;
use core::net::SocketAddr;

/// The port number `index` steps above the monitor port of a transport at `port`: `port + offset +
/// index`. What would be beyond the last port goes on from 1024, as in JGroups.
#[must_use]
pub fn monitor_port(port: u16, offset: u16, index: u16) -> u16 {
    const FIRST: u32 = 1024;
    let sum = u32::from(port) + u32::from(offset) + u32::from(index);
    let span = u32::from(u16::MAX) + 1 - FIRST;
    let wrapped = if sum > u32::from(u16::MAX) { FIRST + (sum - FIRST) % span } else { sum };
    wrapped as u16
}

/// What to do when the member is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Watch it.
    Watch,
    /// Nothing: it was only to be seen whether somebody is there.
    Verify,
    /// Nothing either: it has not acted on a suspicion that is repeated. If it is not there, it is
    /// suspected as well.
    Inert,
}

/// What became of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The member answered.
    Member,
    /// Another member answered: the one that is looked for is not there.
    Stranger,
    /// Nobody listens.
    Refused,
    /// The connection was closed before an answer: nothing is known, the port is tried again.
    Closed,
    /// No answer in time, or no route: nothing is known.
    Silent,
}

/// A search, at one of the ports.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) member: Uuid,
    pub(super) found: Found,
    pub(super) conn: ConnId,
    /// Every port so far says that the member is not there.
    pub(super) absent: bool,
    transport: SocketAddr,
    index: u16,
    closed: u8,
}

/// How often a port that closes is tried again.
const TRIES: u8 = 3;

impl Search {
    /// Begins at the first port. `transport`: where the member's transport receives.
    pub(super) fn new(member: Uuid, transport: SocketAddr, found: Found) -> Self {
        let (conn, absent) = (ConnId(0), true);
        Self { member, found, conn, absent, transport, index: 0, closed: 0 }
    }

    /// Goes on under the name `conn`; says where to.
    pub(super) fn dial(&mut self, conn: ConnId, offset: u16) -> SocketAddr {
        self.conn = conn;
        let port = monitor_port(self.transport.port(), offset, self.index);
        SocketAddr::new(self.transport.ip(), port)
    }

    /// Takes note of what became of a port; says whether there is another to try.
    pub(super) fn goes_on_after(&mut self, step: Step, port_range: u16) -> bool {
        match step {
            Step::Closed if self.closed < TRIES => {
                self.closed += 1;
                return true;
            }
            Step::Closed | Step::Silent => self.absent = false,
            Step::Member | Step::Stranger | Step::Refused => {}
        }
        self.index += 1;
        self.index <= port_range
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_wrap_above_the_privileged_ones() {
        assert_eq!(monitor_port(7800, 100, 3), 7903);
        assert_eq!(monitor_port(65_435, 100, 0), 65_535);
        assert_eq!(monitor_port(65_435, 100, 1), 1024);
        assert_eq!(monitor_port(65_535, u16::MAX, u16::MAX), 3069);
    }
}
