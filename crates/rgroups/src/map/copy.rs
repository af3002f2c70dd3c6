//! This member's copy, and what the driver tells it: requests, views, and states at their place among them.

use super::events::{LostEntry, MapEvent, Raw};
use crate::shared::Shared;
use crate::state::{StateReader, StateResponder};
use crate::{Address, ObjectValue, block_on};
use bytes::Bytes;
use rgroups_core::map::{Change, Difference, Lost, Replica, surviving_part};
use rgroups_core::wire::Value;
use rgroups_core::{Uuid, View, tag};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::Duration;
use tokio::sync::broadcast;

/// Events that wait for a reader.
const EVENTS: usize = 4_096;

/// What a member has of a map. Changed on the driver's thread only, where requests, views and states come
/// in their order.
#[derive(Debug)]
pub(crate) struct MapCopy {
    local: Uuid,
    content: Mutex<Content>,
    told: broadcast::Sender<Raw>,
    /// States that are being fetched.
    fetching: AtomicUsize,
    jobs: mpsc::Sender<Job>,
    /// For a state.
    timeout: Duration,
}

#[derive(Debug, Default)]
struct Content {
    replica: Replica,
    /// Excluded, and not back yet.
    excluded: bool,
    /// Whose copy is fetched after a merge.
    survivors: Vec<Address>,
    /// Why the last state could not be taken.
    unusable: Option<String>,
}

/// What takes time, and is done on a thread of its own.
#[derive(Debug)]
enum Job {
    Give(StateResponder, Bytes),
    Fetch { from: Vec<Address> },
}

impl MapCopy {
    /// The copy of a channel that is about to join, with its thread.
    pub(super) fn start(shared: &Arc<Shared>, timeout: Duration) -> std::io::Result<Arc<Self>> {
        let (jobs, work) = mpsc::channel();
        let copy = Arc::new(Self {
            local: shared.local.0,
            content: Mutex::default(),
            told: broadcast::Sender::new(EVENTS),
            fetching: AtomicUsize::new(0),
            jobs,
            timeout,
        });
        let (shared, worker) = (Arc::downgrade(shared), Arc::downgrade(&copy));
        let thread = std::thread::Builder::new().name("rgroups-map".to_owned());
        thread.spawn(move || run(&work, &shared, &worker))?;
        Ok(copy)
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        // No code that can panic leaves the content half changed.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: Raw) {
        // Without readers nobody wants it.
        let _ = self.told.send(event);
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Raw> {
        self.told.subscribe()
    }

    /// Reads the copy.
    pub(super) fn read<T>(&self, f: impl FnOnce(&Replica) -> T) -> T {
        f(&self.lock().replica)
    }

    /// Whether the map of others is being fetched.
    pub(super) fn is_fetching(&self) -> bool {
        self.fetching.load(Ordering::Acquire) > 0
    }

    /// Why the state that came last could not be taken.
    pub(super) fn unusable(&self) -> Option<String> {
        self.lock().unusable.clone()
    }

    /// A request of any member.
    pub(super) fn carry_out(
        &self,
        method: i16,
        args: Vec<ObjectValue>,
    ) -> Result<ObjectValue, String> {
        if args.iter().any(|a| matches!(a, ObjectValue::JGroups(_))) {
            return Err("an object of JGroups has no place in a map".to_owned());
        }
        let args = args.into_iter().map(ObjectValue::into_value).collect();
        let change = Change::of_call(method, args).map_err(|why| why.to_string())?;
        let mut content = self.lock();
        let carried = content.replica.carry_out(change);
        // Under the lock, so that events are in the order of the changes.
        for Difference { key, before, now } in carried.differences {
            let key = ObjectValue::from_value(key);
            let before = before.map(ObjectValue::from_value);
            match (now, before) {
                (Some(value), before) => {
                    let value = ObjectValue::from_value(value);
                    self.tell(MapEvent::Set { key, value, before });
                }
                (None, Some(before)) => self.tell(MapEvent::Removed { key, before }),
                (None, None) => {}
            }
        }
        Ok(ObjectValue::from_value(carried.reply))
    }

    /// Somebody asks for the state: what was carried out so far is in it, what comes is not.
    pub(crate) fn give(&self, responder: StateResponder) {
        match self.lock().replica.snapshot() {
            Ok(state) => {
                // Without a thread the member that asks hears of it when the responder is dropped.
                let _ = self.jobs.send(Job::Give(responder, state));
            }
            Err(why) => responder.refuse(why.to_string()),
        }
    }

    /// A state came, and belongs here.
    pub(crate) fn take(&self, state: &Bytes) {
        let mut content = self.lock();
        let taken = content.replica.install(state);
        content.unusable = taken.as_ref().err().map(ToString::to_string);
        let survivors = std::mem::take(&mut content.survivors);
        if let (Ok(lost), false) = (taken, survivors.is_empty()) {
            let lost = lost.into_iter().map(lost_entry).collect();
            self.tell(MapEvent::Merged { survivors, lost });
        }
    }

    /// The group excluded this member, which joins anew: what it has is old.
    pub(crate) fn excluded(&self) {
        self.lock().excluded = true;
    }

    /// A view was installed.
    pub(crate) fn installed(&self, view: &View) {
        let mut content = self.lock();
        let others = |members: &[Uuid]| -> Vec<Address> {
            members.iter().filter(|m| **m != self.local).map(|m| Address(*m)).collect()
        };
        let excluded = std::mem::take(&mut content.excluded);
        let survivors = match surviving_part(view) {
            Some(part) if part.members.contains(&self.local) => {
                let survivors = part.members.iter().map(|m| Address(*m)).collect();
                self.tell(MapEvent::Merged { survivors, lost: Vec::new() });
                self.tell_of_java(view, &part.members);
                return;
            }
            Some(part) => {
                self.tell_of_java(view, &part.members);
                others(&part.members)
            }
            None if excluded => others(&view.members),
            None => return,
        };
        if survivors.is_empty() {
            return;
        }
        content.survivors.clone_from(&survivors);
        self.fetching.fetch_add(1, Ordering::AcqRel);
        if self.jobs.send(Job::Fetch { from: survivors }).is_err() {
            self.fetching.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Members of JGroups keep what they have, whatever others agree on.
    fn tell_of_java(&self, view: &View, survivors: &[Uuid]) {
        let keeps = |m: &&Uuid| !survivors.contains(m) && !tag::is_rgroups(**m);
        let members: Vec<Address> =
            view.members.iter().filter(keeps).map(|m| Address(*m)).collect();
        if !members.is_empty() {
            let why = "members of JGroups keep their own map in a merge".to_owned();
            self.tell(MapEvent::Diverged { members, why });
        }
    }

    /// Tries one survivor after the other.
    fn fetch(&self, shared: &Arc<Shared>, from: &[Address]) {
        let mut whys = Vec::new();
        for member in from {
            let reader = StateReader::ask(shared, Some(*member), self.timeout);
            let taken = reader.and_then(|r| block_on(r.whole()));
            let why = match (taken, self.unusable()) {
                (Ok(Some(_)), None) => {
                    whys.clear();
                    break;
                }
                (Ok(_), Some(why)) => why,
                (Ok(None), None) => "it has no state to give".to_owned(),
                (Err(why), _) => why.to_string(),
            };
            whys.push(format!("{}: {why}", shared.label(*member)));
        }
        self.fetching.fetch_sub(1, Ordering::AcqRel);
        if !whys.is_empty() {
            let why = format!("their map could not be fetched: {}", whys.join("; "));
            tracing::warn!(
                cluster = shared.cluster,
                member = &*shared.name,
                code = "RG1006",
                "{why}"
            );
            self.tell(MapEvent::Diverged { members: from.to_vec(), why });
        }
    }
}

fn lost_entry(l: Lost) -> LostEntry<ObjectValue, ObjectValue> {
    let value = |v: Option<Value>| v.map(ObjectValue::from_value);
    LostEntry { key: ObjectValue::from_value(l.key), ours: value(l.ours), theirs: value(l.theirs) }
}

/// Ends with the last handle of the map, and the channel.
fn run(work: &mpsc::Receiver<Job>, shared: &Weak<Shared>, copy: &Weak<MapCopy>) {
    while let Ok(job) = work.recv() {
        match job {
            // If it cannot be sent, the member that asked has left.
            Job::Give(responder, state) => drop(block_on(responder.send(state))),
            Job::Fetch { from } => {
                if let (Some(shared), Some(copy)) = (shared.upgrade(), copy.upgrade()) {
                    copy.fetch(&shared, &from);
                }
            }
        }
    }
}
