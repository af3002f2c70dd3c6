//! Calls that wait for the stack's answer.

use crate::inbox::Line;
use rgroups_core::{OpId, SendResult};
use std::collections::{BTreeMap, HashMap};
use tokio::sync::oneshot;

#[derive(Debug)]
struct Call {
    line: Line,
    reply: Option<oneshot::Sender<SendResult>>,
}

/// The calls of one member.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: HashMap<OpId, Call>,
    answers: Vec<(oneshot::Sender<SendResult>, SendResult)>,
    answered: BTreeMap<Line, u32>,
}

impl Calls {
    pub(crate) fn open(
        &mut self,
        op: OpId,
        line: Line,
        reply: Option<oneshot::Sender<SendResult>>,
    ) {
        self.open.insert(op, Call { line, reply });
    }

    /// The stack answered; the caller is told by [`Calls::reply`].
    pub(crate) fn resolve(&mut self, op: OpId, result: SendResult) {
        let Some(call) = self.open.remove(&op) else { return };
        *self.answered.entry(call.line).or_default() += 1;
        if let Some(reply) = call.reply {
            self.answers.push((reply, result));
        }
    }

    /// Whether anybody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// How many calls of each line were answered since the last time.
    pub(crate) fn take_answered(&mut self) -> BTreeMap<Line, u32> {
        std::mem::take(&mut self.answered)
    }

    /// Tells the callers. After the windows were published, so that those who go on find them.
    pub(crate) fn reply(&mut self) {
        for (reply, result) in self.answers.drain(..) {
            // Whoever no longer waits has withdrawn the call.
            let _ = reply.send(result);
        }
    }
}
