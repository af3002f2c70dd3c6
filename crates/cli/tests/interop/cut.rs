//! A protocol that hears nothing of some members, as JGroups' DISCARD does of those it ignores.

use rgroups::Address;
use rgroups::core::plan::ProtocolConfig;
use rgroups::core::protocol::{Interests, Protocol, Spec, Traffic};
use rgroups::core::{Batch, Cx, Uuid};
use std::sync::{Arc, Mutex, PoisonError};

/// Who is not heard. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cut(Arc<Mutex<Vec<Uuid>>>);

impl Cut {
    /// From now on these, and nobody else.
    pub(crate) fn ignore(&self, members: impl Iterator<Item = Address>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = members.map(Uuid::from).collect();
    }

    /// The protocol, for above the transport.
    pub(crate) fn protocol(&self) -> ProtocolConfig {
        let cut = self.clone();
        ProtocolConfig::custom("CUT", move || cut.clone())
    }
}

impl Protocol for Cut {
    fn spec(&self) -> Spec {
        Spec {
            name: "CUT",
            id: None,
            interests: Interests { up: Traffic::Both, ..Interests::default() },
            provides: &[],
            needs_below: &[],
            needs_above: &[],
        }
    }

    fn up(&mut self, batch: &mut Batch, _cx: &mut Cx<'_>) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&batch.src) {
            batch.take_all();
        }
    }
}
