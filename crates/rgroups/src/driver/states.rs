//! States that are being fetched and given.

use crate::outbox::Item;
use crate::shared::Shared;
use crate::state::{Fetched, Form, Inflow, Outlet, fetch_from_socket};
use bytes::Bytes;
use rgroups_core::{AppEvent, OpId};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Those of one member.
#[derive(Debug, Default)]
pub(crate) struct States {
    fetches: HashMap<OpId, Arc<Inflow>>,
    /// States that their readers have put together, until the stack says where they belong.
    whole: HashMap<OpId, Bytes>,
    fetched: Vec<(Arc<Inflow>, Fetched)>,
    gifts: HashMap<u64, Weak<Outlet>>,
}

impl States {
    pub(crate) fn fetch(&mut self, op: OpId, told: Arc<Inflow>) {
        self.fetches.insert(op, told);
    }

    pub(crate) fn taken(&mut self, op: OpId, whole: Option<Bytes>) {
        if let Some(whole) = whole {
            self.whole.insert(op, whole);
        }
    }

    pub(crate) fn give(&mut self, request: u64, outlet: &Arc<Outlet>) {
        self.gifts.retain(|_, outlet| outlet.strong_count() > 0);
        self.gifts.insert(request, Arc::downgrade(outlet));
    }

    /// What the stack says of states; what it means to the reader of events.
    pub(crate) fn tell(&mut self, shared: &Arc<Shared>, ev: AppEvent) -> Option<Item> {
        match ev {
            AppEvent::StateBegins { op, attempt, provider, socket } => {
                let inflow = self.fetches.get(&op)?;
                inflow.begins(attempt, provider);
                if let (Form::Socket(form), Some(at)) = (&shared.form, socket) {
                    fetch_from_socket(shared, inflow, form, (op, attempt), at);
                }
            }
            AppEvent::StatePart { op, bytes } => self.fetches.get(&op)?.bytes(bytes),
            AppEvent::StateEnds { op } => {
                let inflow = self.fetches.get(&op)?;
                // Of a connection its reader sees the end.
                if let Form::Parts { .. } | Form::Whole = shared.form {
                    inflow.ends();
                }
            }
            AppEvent::StateFetched { op, result } => return self.fetched(shared, op, result),
            AppEvent::StateSent { request, bytes } => self.outlet(request)?.sent(bytes),
            AppEvent::StateAbandoned { request, why } => self.outlet(request)?.over(why),
            _ => {}
        }
        None
    }

    fn outlet(&self, request: u64) -> Option<Arc<Outlet>> {
        self.gifts.get(&request)?.upgrade()
    }

    /// What the application has not read and the state contains is not for it any more.
    fn fetched(&mut self, shared: &Shared, op: OpId, result: Fetched) -> Option<Item> {
        let put_together = self.whole.remove(&op);
        let item = match &result {
            Ok(Some(f)) => {
                let cut = shared.cuts.add(&f.contains);
                let in_one_message = matches!(shared.form, Form::Whole);
                let whole = in_one_message.then(|| f.state.clone().unwrap_or_default());
                Some(Item::State { cut, bytes: put_together.or(whole) })
            }
            Ok(None) | Err(_) => None,
        };
        if let Some(told) = self.fetches.remove(&op) {
            self.fetched.push((told, result));
        }
        item
    }

    /// Tells those whose calls have ended.
    pub(crate) fn reply(&mut self) {
        for (told, fetched) in self.fetched.drain(..) {
            told.close(fetched);
        }
    }

    /// Whatever happens, nobody waits in vain.
    pub(crate) fn close(&mut self) {
        self.reply();
        self.fetches.drain().for_each(|(_, told)| told.shut());
        for (_, outlet) in self.gifts.drain() {
            if let Some(outlet) = outlet.upgrade() {
                outlet.over("the channel is closed".into());
            }
        }
    }
}
