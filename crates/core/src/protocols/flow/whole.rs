//! A message that was cut is refused or sent whole: when its first fragment is refused, the others,
//! which follow at once, go the same way.

use crate::wire::{self, Header, ProtId};
use crate::{Cx, Message, SendRefusal};

/// The message that was refused last, as long as fragments of it may follow.
#[derive(Debug, Default)]
pub(crate) struct RefusedWhole(Option<i64>);

impl RefusedWhole {
    /// Refuses a message, or its first fragment.
    pub(crate) fn refuse(&mut self, msg: &mut Message, why: SendRefusal, cx: &mut Cx<'_>) {
        self.0 = fragment_of(msg).map(|(id, _)| id);
        cx.discard(msg, why);
    }

    /// Whether `msg` is a later fragment of what was refused. It is discarded then.
    pub(crate) fn takes_too(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> bool {
        let later = fragment_of(msg).filter(|(_, n)| *n > 0);
        if later.is_some_and(|(id, _)| self.0 == Some(id)) {
            cx.discard(msg, SendRefusal::Withdrawn);
            return true;
        }
        self.0 = None;
        false
    }
}

/// The number of the message that `msg` is a fragment of, and which fragment it is.
pub(crate) fn fragment_of(msg: &wire::Message) -> Option<(i64, i32)> {
    [ProtId::FRAG2, ProtId::FRAG3, ProtId::FRAG4].into_iter().find_map(|id| {
        match msg.headers.get(id)? {
            Header::Frag(f) => Some((f.id, f.frag)),
            Header::Frag3(f) => Some((i64::from(f.id), f.frag)),
            _ => None,
        }
    })
}
