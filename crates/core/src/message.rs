//! A message inside a stack: what travels, plus who waits for it.

use crate::app::SyncRequest;
use crate::protocols::reliable::multicast_number;
use crate::token::{Receipt, SendToken};
use crate::{Uuid, wire};
use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};

/// A [`wire::Message`] with its token and synchronous request (down) and receipt (up). A clone owes
/// nobody: it carries none of them.
#[derive(Debug, Default)]
pub struct Message {
    /// What travels.
    pub wire: wire::Message,
    /// Down: who waits for it.
    pub token: Option<SendToken>,
    /// Up: what its consumption returns.
    pub receipt: Receipt,
    /// Down, from the entry layer to RSVP: somebody waits for acknowledgements.
    pub sync: Option<Box<SyncRequest>>,
    /// Up: the multicast of another member, and its number, in which this one of its sender came
    /// (total order).
    pub ordered: Option<Box<(Uuid, i64)>>,
}

impl Message {
    /// Whose multicast this is, of those that `src` has sent, and under which number; `None` if it has none.
    #[must_use]
    pub fn numbered(&self, src: Uuid) -> Option<(Uuid, i64)> {
        match &self.ordered {
            Some(by) => Some(**by),
            None => multicast_number(self).map(|n| (src, n)),
        }
    }
}

impl Clone for Message {
    fn clone(&self) -> Self {
        self.wire.clone().into()
    }
}

impl From<wire::Message> for Message {
    fn from(wire: wire::Message) -> Self {
        Self { wire, ..Self::default() }
    }
}

impl Deref for Message {
    type Target = wire::Message;
    fn deref(&self) -> &wire::Message {
        &self.wire
    }
}

impl DerefMut for Message {
    fn deref_mut(&mut self) -> &mut wire::Message {
        &mut self.wire
    }
}
