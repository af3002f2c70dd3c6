//! The headers of one message: a short list in insertion order, as Java keeps them.

use crate::{Header, ProtId};
use smallvec::SmallVec;

/// At most one header per protocol. Two fit without an allocation: those of a reliable
/// protocol and of the transport, which is what nearly all messages carry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headers {
    list: SmallVec<[(ProtId, Header); 2]>,
}

impl Headers {
    /// The header of protocol `id`.
    #[must_use]
    pub fn get(&self, id: ProtId) -> Option<&Header> {
        self.list.iter().find(|(i, _)| *i == id).map(|(_, h)| h)
    }

    /// The header of protocol `id`, to be changed.
    pub fn get_mut(&mut self, id: ProtId) -> Option<&mut Header> {
        self.list.iter_mut().find(|(i, _)| *i == id).map(|(_, h)| h)
    }

    /// Adds a header, replacing one of the same protocol in its place.
    pub fn put(&mut self, id: ProtId, header: Header) {
        match self.get_mut(id) {
            Some(h) => *h = header,
            None => self.list.push((id, header)),
        }
    }

    /// Removes the header of protocol `id`.
    pub fn remove(&mut self, id: ProtId) -> Option<Header> {
        let at = self.list.iter().position(|(i, _)| *i == id)?;
        Some(self.list.remove(at).1)
    }

    /// All headers in order.
    pub fn iter(&self) -> impl Iterator<Item = (ProtId, &Header)> {
        self.list.iter().map(|(i, h)| (*i, h))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.list.clear();
    }
}
