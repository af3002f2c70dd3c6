//! STATE_SOCK: a state over a TCP connection of its own. Whoever is asked listens and says where;
//! whoever asks connects, says who it is, and reads until the connection ends. That the state is
//! complete is known only when the provider says so through the stack.
//!
//! Each connection has a thread, because blocking reads and writes are what keeps one side from
//! running ahead of the other.

use super::form::SocketForm;
use super::give::{AHEAD, Asked, Outlet};
use super::take::Inflow;
use crate::inbox::Request;
use crate::shared::Shared;
use bytes::Bytes;
use rgroups_core::app::{StateAnswer, TakeState, Taken};
use rgroups_core::wire::address_codec::{decode_addr, encode_addr};
use rgroups_core::wire::{Address as WireAddress, Reader};
use rgroups_core::{Command, OpId, Uuid};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long a connection may take to be made, and to say who it is.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a silent connection is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Connections that may not have said yet who they are.
const STRANGERS: usize = 16;
/// A UUID with its kind in front.
const NAME: usize = 17;

/// The socket of a member that gives its state.
#[derive(Debug)]
pub(crate) struct Acceptor {
    bound: SocketAddr,
    announced: SocketAddr,
    stopped: AtomicBool,
    strangers: AtomicUsize,
    /// Who is expected.
    expected: Mutex<HashMap<Uuid, mpsc::Sender<TcpStream>>>,
}

impl Acceptor {
    fn open(form: &SocketForm) -> io::Result<Arc<Self>> {
        let at = SocketAddr::new(form.ip, form.port);
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        if form.recv_buf > 0 {
            socket.set_recv_buffer_size(form.recv_buf)?;
        }
        socket.bind(&at.into())?;
        socket.listen(16)?;
        let listener = TcpListener::from(socket);
        let bound = listener.local_addr()?;
        let acceptor = Arc::new(Self {
            bound,
            announced: form.external.announced(bound),
            stopped: AtomicBool::new(false),
            strangers: AtomicUsize::new(0),
            expected: Mutex::default(),
        });
        let serves = Arc::clone(&acceptor);
        let name = "rgroups state socket".to_owned();
        thread::Builder::new().name(name).spawn(move || serves.accept(&listener))?;
        Ok(acceptor)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, mpsc::Sender<TcpStream>>> {
        // No code that can panic leaves the map half changed.
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while !self.stopped.load(Ordering::Acquire) {
            let Ok((stream, _)) = listener.accept() else {
                // Nothing that one connection can do ends this loop.
                thread::sleep(LOOK);
                continue;
            };
            if self.strangers.fetch_add(1, Ordering::AcqRel) >= STRANGERS {
                self.strangers.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let me = Arc::clone(self);
            let greets = thread::Builder::new().spawn(move || {
                me.greet(stream);
                me.strangers.fetch_sub(1, Ordering::AcqRel);
            });
            if greets.is_err() {
                self.strangers.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Hands the connection to whoever expects it; any other one is closed.
    fn greet(&self, mut stream: TcpStream) {
        let mut name = [0u8; NAME];
        let said = stream
            .set_read_timeout(Some(CONNECT_TIMEOUT))
            .and_then(|()| stream.read_exact(&mut name));
        if said.is_err() {
            return;
        }
        let address = decode_addr(&mut Reader::new(Bytes::copy_from_slice(&name)));
        let who = address.ok().flatten().and_then(|a| a.uuid());
        let expects = who.and_then(|who| self.lock().remove(&who));
        if let Some(expects) = expects {
            // It no longer waits: then the connection is closed.
            let _ = expects.send(stream);
        }
    }

    /// No more connections. Those that are being served go on.
    pub(crate) fn stop(&self) {
        if !self.stopped.swap(true, Ordering::AcqRel) {
            let ip = match self.bound.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                ip => ip,
            };
            // Wakes the thread that accepts; it looks at `stopped` then.
            let at = SocketAddr::new(ip, self.bound.port());
            let _ = TcpStream::connect_timeout(&at, CONNECT_TIMEOUT);
            self.lock().clear();
        }
    }
}

/// The writer's end of a connection.
pub(super) struct Gift {
    /// Bytes that are written at once.
    pub(super) buffer: usize,
    pieces: Option<mpsc::Sender<Bytes>>,
    done: Option<oneshot::Receiver<()>>,
}

impl Gift {
    pub(super) fn write(&self, bytes: Bytes) {
        if let Some(pieces) = &self.pieces {
            // Fails only when the thread has ended, which the outlet tells.
            let _ = pieces.send(bytes);
        }
    }

    /// Everything has been written, or cannot be.
    pub(super) async fn finish(&mut self) {
        self.pieces = None;
        if let Some(done) = self.done.take() {
            let _ = done.await;
        }
    }
}

/// Tells the member that asked where it can read, and starts to write what it will be given.
pub(super) fn offer(asked: &Asked, form: &SocketForm, outlet: Arc<Outlet>) -> Gift {
    let (pieces, line) = mpsc::channel();
    let (done, finished) = oneshot::channel();
    let gift = Gift { buffer: form.buffer, pieces: Some(pieces), done: Some(finished) };
    let fail = |why: String| {
        outlet.over(why.as_str().into());
        asked.tell(StateAnswer::Refused(why.into()));
    };
    let acceptor = match asked.shared.acceptor(|| Acceptor::open(form)) {
        Ok(acceptor) => acceptor,
        Err(e) => {
            fail(format!("no socket at {}:{}: {e}", form.ip, form.port));
            return gift;
        }
    };
    let (expects, comes) = mpsc::channel();
    acceptor.lock().insert(asked.by.0, expects);
    let begins = StateAnswer::Begins { socket: Some(acceptor.announced) };
    let (answer, told) = (asked.answer(begins), Arc::clone(&outlet));
    asked.shared.inbox.push(Request::GiveState { answer, outlet: told });
    let (patience, teller, writes) = (form.patience, asked.clone(), Arc::clone(&outlet));
    let buffer = form.buffer;
    let spawned = thread::Builder::new().name("rgroups state out".to_owned()).spawn(move || {
        if let Err(e) = give(&comes, &line, &writes, patience, buffer) {
            let why = format!("the connection failed: {e}");
            writes.over(why.as_str().into());
            teller.tell(StateAnswer::Refused(why.into()));
        }
        let _ = done.send(());
    });
    if let Err(e) = spawned {
        fail(format!("no thread for a connection: {e}"));
    }
    gift
}

fn give(
    comes: &mpsc::Receiver<TcpStream>,
    line: &mpsc::Receiver<Bytes>,
    outlet: &Outlet,
    patience: Duration,
    buffer: usize,
) -> io::Result<()> {
    let nobody = || io::Error::new(io::ErrorKind::TimedOut, "nobody connected");
    let mut stream = comes.recv_timeout(patience).map_err(|_| nobody())?;
    socket2::SockRef::from(&stream).set_send_buffer_size(buffer.max(AHEAD as usize / 4))?;
    stream.set_write_timeout(Some(LOOK))?;
    let mut sent = 0u64;
    for piece in line {
        write_all(&mut stream, &piece, outlet, patience)?;
        sent += piece.len() as u64;
        outlet.sent(sent);
    }
    if outlet.why_over().is_some() {
        return Ok(());
    }
    stream.shutdown(std::net::Shutdown::Write)
}

/// Writes while the reader takes something within `patience`, and somebody wants it.
fn write_all(
    stream: &mut TcpStream,
    mut bytes: &[u8],
    outlet: &Outlet,
    patience: Duration,
) -> io::Result<()> {
    let mut moved = Instant::now();
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = bytes.get(n..).unwrap_or_default();
                moved = Instant::now();
            }
            Err(e) if is_pause(&e) => {
                if outlet.why_over().is_some() || moved.elapsed() >= patience.max(READER) {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "the reader takes nothing",
                    ));
                }
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// A reader may take its time: its own stack ends the transfer when it takes nothing at all.
const READER: Duration = Duration::from_secs(90);

fn is_pause(e: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(e.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Reads the state of attempt `attempt` from `at`, on a thread of its own.
pub(crate) fn fetch(
    shared: &Arc<Shared>,
    inflow: &Arc<Inflow>,
    form: &SocketForm,
    (op, attempt): (OpId, u64),
    at: SocketAddr,
) {
    let (reader, into, form) = (Arc::clone(shared), Arc::clone(inflow), form.clone());
    let fail = move |shared: &Shared, why: String| {
        let take = TakeState { op, attempt, taken: Taken::Failed(why.into()) };
        shared.inbox.push(Request::Command(Command::TakeState(take)));
    };
    let spawned = thread::Builder::new().name("rgroups state in".to_owned()).spawn(move || {
        if let Err(e) = read(&reader, &into, &form, attempt, at) {
            fail(&reader, format!("the connection to {at} failed: {e}"));
        }
    });
    if let Err(e) = spawned {
        fail(shared, format!("no thread for a connection: {e}"));
    }
}

fn read(
    shared: &Shared,
    inflow: &Inflow,
    form: &SocketForm,
    attempt: u64,
    at: SocketAddr,
) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    if form.ip.is_ipv4() == at.is_ipv4() {
        socket.bind(&SocketAddr::new(form.ip, 0).into())?;
    }
    socket.connect_timeout(&at.into(), CONNECT_TIMEOUT)?;
    let mut stream = TcpStream::from(socket);
    let mut name = bytes::BytesMut::new();
    encode_addr(Some(&WireAddress::Uuid(shared.local.0)), &mut name);
    stream.write_all(&name)?;
    stream.set_read_timeout(Some(LOOK))?;
    let mut buffer = vec![0u8; form.buffer];
    let mut moved = Instant::now();
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => {
                inflow.feed(attempt, None, usize::MAX);
                return Ok(());
            }
            Ok(n) => {
                let bytes = Bytes::copy_from_slice(buffer.get(..n).unwrap_or_default());
                if !inflow.feed(attempt, Some(bytes), AHEAD as usize) {
                    return Ok(());
                }
                moved = Instant::now();
            }
            Err(e) if is_pause(&e) => {
                if inflow.is_over(attempt) {
                    return Ok(());
                }
                if moved.elapsed() >= form.patience {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "nothing came"));
                }
            }
            Err(e) => return Err(e),
        }
    }
}
