//! The configurations of reliable unicast, one per dialect, and what they come to.

use super::super::intake::Capacity;
use crate::attributes::ByteSize;
use crate::wire::ProtId;
use core::time::Duration;

crate::attributes! {
    /// Reliable unicast (JGroups `UNICAST3`).
    pub struct Unicast3Config for "UNICAST3" {
        /// How often missing messages are asked for again, acknowledgements are sent at the latest,
        /// and a last message that nobody acknowledged is sent again. Default 500 ms.
        xmit_interval: Duration = Duration::from_millis(500),
        /// How long a message must be missing before it is asked for the first time, ahead of the
        /// rounds; see the attribute of NAKACK2. Default 5 ms. Not in JGroups.
        gap_delay: Duration = Duration::from_millis(5),
        /// After so many messages, or 32,000 bytes of them, an acknowledgement is sent at once.
        /// Default 100.
        ack_threshold: u32 = 100,
        /// Numbers that one request may span, as a bound of its size (8 per byte). Default 9,600,
        /// which fits a packet of 1,400 bytes.
        max_xmit_req_size: u32 = 9600,
        /// A connection without traffic is closed after this; 0: never. Default 2 minutes.
        conn_expiry_timeout: Duration = Duration::from_secs(120),
        /// A connection to a member that left is removed after this. Default 4 minutes.
        conn_close_timeout: Duration = Duration::from_secs(240),
        /// Messages to a peer that is not in the view are given up when it acknowledges nothing
        /// for this long. Default 1 minute.
        max_retransmit_time: Duration = Duration::from_secs(60),
        /// The least time between two requests for the first message of the same peer. Default
        /// 500 ms, not JGroups' 2 s: whoever waits for that message may be joining, and the request
        /// or its answer may be lost as well.
        sync_min_interval: Duration = Duration::from_millis(500),
    }
}

crate::attributes! {
    /// Reliable unicast, slowed down by acknowledgements (JGroups `UNICAST4`).
    pub struct Unicast4Config for "UNICAST4" {
        /// Messages to one member that it has not acknowledged, above which senders wait. Members
        /// acknowledge what their application has consumed. Default 2,048.
        capacity: u32 = 2_048,
        /// The same in bytes of payload, towards members that are not JGroups', which acknowledge
        /// by number alone. Default 8 MB. Not in JGroups.
        capacity_bytes: ByteSize = ByteSize(8_000_000),
        /// After so many messages of a sender an acknowledgement is sent at once, else in the next
        /// round. 0, the default: a quarter of `capacity`.
        ack_threshold: u32 = 0,
        /// How often missing messages are asked for again, acknowledgements are sent at the latest,
        /// and a last message that nobody acknowledged is sent again. Default 500 ms.
        xmit_interval: Duration = Duration::from_millis(500),
        /// How long a message must be missing before it is asked for the first time, ahead of the
        /// rounds; see the attribute of NAKACK2. Default 5 ms. Not in JGroups.
        gap_delay: Duration = Duration::from_millis(5),
        /// Numbers that one request may span, as a bound of its size (8 per byte). Default 9,600,
        /// which fits a packet of 1,400 bytes.
        max_xmit_req_size: u32 = 9600,
        /// A connection without traffic is closed after this; 0: never. Default 10 s.
        conn_expiry_timeout: Duration = Duration::from_secs(10),
        /// A connection to a member that left is removed after this. Default 10 s.
        conn_close_timeout: Duration = Duration::from_secs(10),
        /// Messages to a peer that is not in the view are given up when it acknowledges nothing
        /// for this long. Default 1 minute.
        max_retransmit_time: Duration = Duration::from_secs(60),
        /// The least time between two requests for the first message of the same peer. Default
        /// 500 ms, not JGroups' 2 s: whoever waits for that message may be joining, and the request
        /// or its answer may be lost as well.
        sync_min_interval: Duration = Duration::from_millis(500),
    }
}

/// A configuration, whichever dialect it came from.
#[derive(Clone, Copy, Debug)]
pub struct UnicastSettings {
    pub(super) name: &'static str,
    pub(super) id: ProtId,
    /// What a window holds, in the dialect that bounds it.
    pub(super) capacity: Option<Capacity>,
    pub(super) ack_threshold: u32,
    pub(super) xmit_interval: Duration,
    pub(super) gap_delay: Duration,
    pub(super) max_xmit_req_size: u32,
    pub(super) conn_expiry_timeout: Duration,
    pub(super) conn_close_timeout: Duration,
    pub(super) max_retransmit_time: Duration,
    pub(super) sync_min_interval: Duration,
}

impl From<Unicast3Config> for UnicastSettings {
    fn from(c: Unicast3Config) -> Self {
        Self {
            name: "UNICAST3",
            id: ProtId::UNICAST3,
            capacity: None,
            ack_threshold: c.ack_threshold,
            xmit_interval: c.xmit_interval,
            gap_delay: c.gap_delay,
            max_xmit_req_size: c.max_xmit_req_size,
            conn_expiry_timeout: c.conn_expiry_timeout,
            conn_close_timeout: c.conn_close_timeout,
            max_retransmit_time: c.max_retransmit_time,
            sync_min_interval: c.sync_min_interval,
        }
    }
}

impl From<Unicast4Config> for UnicastSettings {
    fn from(c: Unicast4Config) -> Self {
        let capacity = Capacity::new(c.capacity, c.capacity_bytes.0, c.ack_threshold, true);
        Self {
            name: "UNICAST4",
            id: ProtId::UNICAST4,
            capacity: Some(capacity),
            ack_threshold: capacity.threshold,
            xmit_interval: c.xmit_interval,
            gap_delay: c.gap_delay,
            max_xmit_req_size: c.max_xmit_req_size,
            conn_expiry_timeout: c.conn_expiry_timeout,
            conn_close_timeout: c.conn_close_timeout,
            max_retransmit_time: c.max_retransmit_time,
            sync_min_interval: c.sync_min_interval,
        }
    }
}
