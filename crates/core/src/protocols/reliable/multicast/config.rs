//! The configurations of reliable multicast, one per dialect, and what they come to.

use super::super::intake::Capacity;
use super::super::window::Limits;
use crate::attributes::ByteSize;
use crate::wire::ProtId;
use core::time::Duration;

crate::attributes! {
    /// Reliable multicast, purged by STABLE (JGroups `NAKACK2`).
    pub struct Nakack2Config for "NAKACK2" {
        /// How often missing messages are asked for again and the last number is announced again.
        /// Default 1 s.
        xmit_interval: Duration = Duration::from_secs(1),
        /// How long a message must be missing before it is asked for the first time, ahead of the
        /// rounds. Grows by itself where messages arrive out of order. Not below what the network
        /// reorders by; from xmit_interval on there are no early requests. Default 5 ms. Not in
        /// JGroups.
        gap_delay: Duration = Duration::from_millis(5),
        /// How long after the last multicast of a burst its number is announced for the first time.
        /// Default 20 ms. Not in JGroups, which announces in the next round.
        announce_delay: Duration = Duration::from_millis(20),
        /// Announce the last number of a burst at all. Default true.
        resend_last_seqno: bool = true,
        /// Send missing messages again by multicast, for transports where that costs one packet.
        /// Default true; the TCP presets set false.
        use_mcast_xmit: bool = true,
        /// Numbers that one request may span, as a bound of its size (8 per byte). Default 9,600,
        /// which fits a packet of 1,400 bytes.
        max_xmit_req_size: u32 = 9600,
        /// Drop messages of others once they are delivered, instead of keeping them until stable
        /// to serve them when their sender is gone. Default false (JGroups: true).
        discard_delivered_msgs: bool = false,
        /// Bytes of delivered messages kept per sender; beyond it the oldest go. Not below twice
        /// STABLE.max_bytes plus MFC.max_credits. Default 12 MB. Not in JGroups.
        retain_limit: ByteSize = ByteSize(12_000_000),
        /// Bytes of own multicasts that are not stable from which on no more are admitted, until
        /// three quarters of it are left. 0, the default: three times STABLE.max_bytes plus twice
        /// MFC.max_credits, put in when the stack is built; no limit where STABLE does not report
        /// by volume. Not in JGroups.
        own_limit: ByteSize = ByteSize(0),
        /// Multicasts per sender that wait until the join is complete. Default 50.
        become_server_queue_size: u32 = 50,
    }
}

crate::attributes! {
    /// Reliable multicast, purged and slowed down by acknowledgements (JGroups `NAKACK4`).
    pub struct Nakack4Config for "NAKACK4" {
        /// Own multicasts that not every member has acknowledged, above which senders wait. Members
        /// acknowledge what their application has consumed. Messages, default 16,384 (6,000 in the
        /// udp-new preset, 8,192 in tcp-new).
        capacity: u32 = 16_384,
        /// The same in bytes of payload, in groups without JGroups members, which acknowledge by
        /// number alone. Default 16 MB. Not in JGroups.
        capacity_bytes: ByteSize = ByteSize(16_000_000),
        /// After so many messages of a sender an acknowledgement is sent at once, else in the next
        /// round. 0, the default: a quarter of `capacity`.
        ack_threshold: u32 = 0,
        /// Senders never wait; flow control above (MFC) must bound what they send. Default false.
        dynamic_buffers: bool = false,
        /// How often missing messages are asked for again, acknowledgements are sent at the latest,
        /// and the last number is announced while not everybody acknowledged it. Default 1 s.
        xmit_interval: Duration = Duration::from_secs(1),
        /// How long a message must be missing before it is asked for the first time, ahead of the
        /// rounds; see the attribute of NAKACK2. Default 5 ms. Not in JGroups.
        gap_delay: Duration = Duration::from_millis(5),
        /// How long after the last multicast of a burst its number is announced for the first time.
        /// Default 20 ms. Not in JGroups, which announces in the next round.
        announce_delay: Duration = Duration::from_millis(20),
        /// Send missing messages again by multicast, for transports where that costs one packet.
        /// Default true; the TCP presets set false.
        use_mcast_xmit: bool = true,
        /// Numbers that one request may span, as a bound of its size (8 per byte). Default 9,600,
        /// which fits a packet of 1,400 bytes.
        max_xmit_req_size: u32 = 9600,
        /// Multicasts per sender that wait until the join is complete. Default 50.
        become_server_queue_size: u32 = 50,
    }
}

/// What empties the windows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purging {
    /// STABLE says what everybody has delivered. Above `own_limit` bytes (0: never) of own messages
    /// that are not stable, no more are admitted.
    ByStability { own_limit: u64 },
    /// Every member acknowledges what it has consumed.
    ByAcknowledgement(Capacity),
}

/// A configuration, whichever dialect it came from.
#[derive(Clone, Copy, Debug)]
pub struct MulticastSettings {
    pub(super) name: &'static str,
    pub(super) id: ProtId,
    pub(super) purging: Purging,
    pub(super) xmit_interval: Duration,
    pub(super) gap_delay: Duration,
    pub(super) announce_delay: Duration,
    pub(super) announces: bool,
    pub(super) use_mcast_xmit: bool,
    pub(super) max_xmit_req_size: u32,
    /// Of the windows of others.
    pub(super) limits: Limits,
    pub(super) early_messages: usize,
}

impl From<Nakack2Config> for MulticastSettings {
    fn from(c: Nakack2Config) -> Self {
        let bytes = c.retain_limit.0;
        Self {
            name: "NAKACK2",
            id: ProtId::NAKACK2,
            purging: Purging::ByStability { own_limit: c.own_limit.0 },
            xmit_interval: c.xmit_interval,
            gap_delay: c.gap_delay,
            announce_delay: c.announce_delay,
            announces: c.resend_last_seqno,
            use_mcast_xmit: c.use_mcast_xmit,
            max_xmit_req_size: c.max_xmit_req_size,
            limits: Limits { held: bytes, kept: (!c.discard_delivered_msgs).then_some(bytes) },
            early_messages: c.become_server_queue_size as usize,
        }
    }
}

impl From<Nakack4Config> for MulticastSettings {
    fn from(c: Nakack4Config) -> Self {
        let bytes = c.capacity_bytes.0;
        let capacity = Capacity::new(c.capacity, bytes, c.ack_threshold, !c.dynamic_buffers);
        Self {
            name: "NAKACK4",
            id: ProtId::NAKACK4,
            purging: Purging::ByAcknowledgement(capacity),
            xmit_interval: c.xmit_interval,
            gap_delay: c.gap_delay,
            announce_delay: c.announce_delay,
            // Without it a lost last acknowledgement would stop the sender for good.
            announces: true,
            use_mcast_xmit: c.use_mcast_xmit,
            max_xmit_req_size: c.max_xmit_req_size,
            limits: Limits { held: capacity.bytes, kept: None },
            early_messages: c.become_server_queue_size as usize,
        }
    }
}
