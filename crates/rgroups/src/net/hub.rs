//! Members of one process that exchange datagrams through memory: the network of the `in_process`
//! preset. Behaves as UDP with multicast does, including its freedom to lose what a receiver has
//! no room for.

use super::NetCounters;
use super::faults::Faults;
use bytes::Bytes;
use mio::Waker;
use rgroups_core::node::{Cast, RawEvent};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// Bytes that may wait for one receiver; more are dropped.
const QUEUE_LIMIT: usize = 64_000_000;
/// Datagrams a receiver takes in one turn.
const PER_TURN: usize = 64;

type Hubs = HashMap<String, Arc<Hub>>;

fn hubs() -> MutexGuard<'static, Hubs> {
    static HUBS: OnceLock<Mutex<Hubs>> = OnceLock::new();
    // The map is consistent whatever a panicking holder did: it is only ever inserted into or
    // removed from.
    HUBS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct Hub {
    ports: RwLock<BTreeMap<u16, Arc<Mailbox>>>,
}

#[derive(Debug)]
struct Mailbox {
    queue: Mutex<Queue>,
    filled: AtomicBool,
    waker: Arc<Waker>,
}

#[derive(Debug, Default)]
struct Queue {
    datagrams: VecDeque<(SocketAddr, Bytes)>,
    bytes: usize,
}

/// What became of a datagram.
enum Put {
    /// The mailbox was empty: its owner may be asleep.
    First,
    /// The owner was woken before and has not looked yet.
    More,
    Full,
}

/// A member's place in a hub.
#[derive(Debug)]
pub(crate) struct Port {
    name: String,
    hub: Arc<Hub>,
    number: u16,
    mailbox: Arc<Mailbox>,
    /// The last datagram to the group was for nobody, which is to be told.
    alone: bool,
    to_wake: Vec<Arc<Mailbox>>,
}

/// Hub addresses are loopback addresses with a port of their own kind.
fn address(number: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, number).into()
}

impl Port {
    /// Takes a place in the hub of this name, which is created for its first member.
    pub(crate) fn open(name: &str, waker: Arc<Waker>) -> io::Result<Port> {
        // Held until the place is taken: a hub without members is removed.
        let mut hubs = hubs();
        let hub = Arc::clone(hubs.entry(name.to_owned()).or_default());
        let mailbox =
            Arc::new(Mailbox { queue: Mutex::default(), filled: AtomicBool::new(false), waker });
        let mut ports = hub.ports.write().unwrap_or_else(PoisonError::into_inner);
        let number = (1..=u16::MAX).find(|n| !ports.contains_key(n));
        let number = number.ok_or_else(|| io::Error::from(ErrorKind::AddrInUse))?;
        ports.insert(number, Arc::clone(&mailbox));
        drop(ports);
        drop(hubs);
        let (name, to_wake) = (name.to_owned(), Vec::new());
        Ok(Port { name, hub, number, mailbox, alone: false, to_wake })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        address(self.number)
    }

    pub(crate) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.mailbox.waker)
    }

    pub(crate) fn has_input(&self) -> bool {
        self.alone || self.mailbox.filled.load(Ordering::Acquire)
    }

    /// Puts a datagram into the mailboxes it is for; their owners are woken by [`Port::flush`].
    pub(crate) fn send(&mut self, to: Cast, bytes: &Bytes, counters: &mut NetCounters) {
        let from = self.address();
        let ports = self.hub.ports.read().unwrap_or_else(PoisonError::into_inner);
        let targets: Vec<&Arc<Mailbox>> = match to {
            Cast::Group => {
                ports.iter().filter(|(n, _)| **n != self.number).map(|(_, m)| m).collect()
            }
            Cast::Discovery => Vec::new(),
            Cast::To(a) => {
                ports.get(&a.port()).filter(|_| a.ip().is_loopback()).into_iter().collect()
            }
        };
        self.alone |= to == Cast::Group && targets.is_empty();
        for m in targets {
            match m.put(from, bytes.clone()) {
                Put::First => self.to_wake.push(Arc::clone(m)),
                Put::More => {}
                Put::Full => counters.datagrams_dropped += 1,
            }
        }
        counters.datagrams_sent += 1;
        counters.bytes_sent += bytes.len() as u64;
    }

    pub(crate) fn flush(&mut self) {
        for m in self.to_wake.drain(..) {
            // A member whose waker fails is going away; its datagrams are lost with it.
            let _ = m.waker.wake();
        }
    }

    pub(crate) fn receive(
        &mut self,
        faults: &Faults,
        counters: &mut NetCounters,
        out: &mut Vec<RawEvent>,
    ) {
        if std::mem::take(&mut self.alone) {
            out.push(RawEvent::NobodyThere);
        }
        let mut queue = self.mailbox.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let n = queue.datagrams.len().min(PER_TURN);
        let taken: Vec<(SocketAddr, Bytes)> = queue.datagrams.drain(..n).collect();
        queue.bytes -= taken.iter().map(|(_, b)| b.len()).sum::<usize>();
        self.mailbox.filled.store(!queue.datagrams.is_empty(), Ordering::Release);
        drop(queue);
        for (from, bytes) in taken {
            counters.datagrams_received += 1;
            counters.bytes_received += bytes.len() as u64;
            if !faults.blocks(from) {
                out.push(RawEvent::Datagram { from, bytes });
            }
        }
    }
}

impl Mailbox {
    fn put(&self, from: SocketAddr, bytes: Bytes) -> Put {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.bytes + bytes.len() > QUEUE_LIMIT {
            return Put::Full;
        }
        queue.bytes += bytes.len();
        queue.datagrams.push_back((from, bytes));
        if self.filled.swap(true, Ordering::AcqRel) { Put::More } else { Put::First }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let mut hubs = hubs();
        let mut ports = self.hub.ports.write().unwrap_or_else(PoisonError::into_inner);
        ports.remove(&self.number);
        let empty = ports.is_empty();
        drop(ports);
        if empty && hubs.get(&self.name).is_some_and(|h| Arc::ptr_eq(h, &self.hub)) {
            hubs.remove(&self.name);
        }
    }
}
