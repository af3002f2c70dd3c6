//! Packets: what one datagram or one TCP frame holds (WIRE §5.1).

use crate::{Address, Message, Version};
use alloc::vec::Vec;
use bytes::Bytes;

/// A packet: one message, or a list of messages from one sender to one destination.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The sender's version.
    pub version: Version,
    /// Whether the packet is for the whole group.
    pub multicast: bool,
    /// What is in it.
    pub body: FrameBody,
}

/// The content of a [`Frame`].
#[derive(Clone, Debug, PartialEq)]
pub enum FrameBody {
    /// One message.
    Single(Message),
    /// A list.
    List {
        /// Destination of all; `None`: the group.
        dest: Option<Address>,
        /// Source of every message that does not name its own.
        src: Option<Address>,
        /// Cluster name.
        cluster: Option<Bytes>,
        /// The messages, with `dest` and `src` filled in.
        messages: Vec<Message>,
    },
}
