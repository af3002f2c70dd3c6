//! A message inside a stack: what travels, plus who waits for it.

use crate::token::{Receipt, SendToken};
use crate::wire;
use core::ops::{Deref, DerefMut};

/// A [`wire::Message`] with its token (down) and receipt (up). A clone owes nobody: it carries
/// neither.
#[derive(Debug, Default)]
pub struct Message {
    /// What travels.
    pub wire: wire::Message,
    /// Down: who waits for it.
    pub token: Option<SendToken>,
    /// Up: what its consumption returns.
    pub receipt: Receipt,
}

impl Clone for Message {
    fn clone(&self) -> Self {
        Self { wire: self.wire.clone(), token: None, receipt: Receipt::default() }
    }
}

impl From<wire::Message> for Message {
    fn from(wire: wire::Message) -> Self {
        Self { wire, token: None, receipt: Receipt::default() }
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
