//! The parent of a cluster: starts members, shows what they report, serves `up-ctl`.

mod pausing;

use super::control::{Reply, Request, socket_path};
use super::host::{Host, Shape};
use super::{Order, Report, SeenView};
use crate::args::{StackArgs, Transport, UpArgs};
use crate::failure::Failure;
use crate::signals::Signals;
use crate::{join, output};
use rgroups::Config;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// How often traffic is shown.
const SHOW_TRAFFIC: Duration = Duration::from_secs(2);
/// How long members may take to leave when the cluster stops.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// How long a client of the control socket may take for its answer when the cluster stops.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
/// How long `partition` and `heal` may wait for the views.
const VIEWS_WITHIN: Duration = Duration::from_secs(50);

/// Somebody waits until each group of members has a view of its own.
struct Expected {
    since: Instant,
    /// `None`: all members that run, in one group.
    groups: Option<Vec<Vec<String>>>,
    tell: oneshot::Sender<Reply>,
}

/// What is known of one member.
struct Known {
    host: Host,
    address: Option<SocketAddr>,
    view: Option<SeenView>,
    sent: u64,
    delivered: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Joining,
    Member,
    /// Stands still until then.
    Paused(Instant),
    Leaving,
    Killed,
    Gone,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Joining => "joining",
            State::Member => "member",
            State::Paused(_) => "paused",
            State::Leaving => "leaving",
            State::Killed => "killed",
            State::Gone => "gone",
        }
    }

    fn runs(self) -> bool {
        matches!(self, State::Joining | State::Member | State::Paused(_) | State::Leaving)
    }
}

struct Parent {
    shape: Shape,
    members: BTreeMap<String, Known>,
    reports: mpsc::Sender<(String, Report)>,
    shown: Vec<String>,
    expected: Option<Expected>,
    json: bool,
    traffic: (u64, u64),
}

/// Runs the command.
pub(crate) async fn run(a: &UpArgs, json: bool) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let (socket, listener) = listen(&a.control).await?;
    let (reports, mut reported) = mpsc::channel(1024);
    let config = join::config(a.transport, &[], &a.stack)?;
    let transport = match config.transport() {
        Some("UDP") => Transport::Udp,
        Some("TCP") => Transport::Tcp,
        Some(_) | None => Transport::Inproc,
    };
    let hosts = if transport == Transport::Tcp { tcp_hosts(a, &config) } else { Vec::new() };
    let stack = StackArgs {
        config: a.stack.config.clone(),
        define: settings(transport, &config, &a.stack.define),
    };
    let shape = Shape { cluster: a.cluster.clone(), transport, hosts, stack, every: a.every };
    let mut p = Parent {
        shape,
        members: BTreeMap::new(),
        reports,
        shown: Vec::new(),
        expected: None,
        json,
        traffic: (0, 0),
    };
    let (asks, mut asked) = mpsc::channel(16);
    let (stop_answering, told_to_stop) = oneshot::channel();
    let answering = tokio::spawn(accept(listener, asks, told_to_stop));
    let outcome = p.live(a, &mut reported, &mut asked, &mut signals).await;
    let stopped = p.stop(&mut reported, &mut signals).await;
    drop(asked);
    drop(stop_answering);
    let _ = answering.await;
    let _ = std::fs::remove_file(&socket);
    let code = outcome?;
    stopped.map(|()| code)
}

/// All members are on this machine, and partitions should heal while one watches: MERGE3 looks every
/// second or so instead of every ten to thirty. The user's own settings come later and win.
fn settings(transport: Transport, config: &Config, define: &[String]) -> Vec<String> {
    let local = match transport {
        Transport::Udp => Some("UDP.bind_addr=127.0.0.1"),
        Transport::Tcp => Some("TCP.bind_addr=127.0.0.1"),
        Transport::Inproc => None,
    };
    let protocols = config.protocols();
    let has = |setting: &&str| {
        setting.split_once('.').is_some_and(|(protocol, _)| protocols.contains(&protocol))
    };
    local
        .into_iter()
        .chain([
            "MERGE3.min_interval=1s",
            "MERGE3.max_interval=2s",
            "FD_ALL3.timeout=4s",
            "FD_ALL3.interval=1s",
        ])
        .filter(has)
        .map(str::to_owned)
        .chain(define.iter().cloned())
        .collect()
}

/// Where members of this cluster are: each takes the first free port from TCP.bind_port on.
fn tcp_hosts(a: &UpArgs, config: &Config) -> Vec<SocketAddr> {
    let first = config.explain().into_iter().find(|s| s.attribute == "bind_port");
    let first: u16 = first.and_then(|s| s.value.parse().ok()).unwrap_or(7800);
    let ports = (0..u16::from(a.nodes.max(3))).map(|i| first.saturating_add(i));
    ports.map(|p| SocketAddr::from(([127, 0, 0, 1], p))).collect()
}

async fn listen(name: &str) -> Result<(std::path::PathBuf, UnixListener), Failure> {
    let path = socket_path(name)?;
    if UnixStream::connect(&path).await.is_ok() {
        return Err(Failure::run(format!("a cluster is already up under the name {name:?}"))
            .hint("stop it with `rgroups up-ctl stop`, or give this one --control NAME"));
    }
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path)
        .map_err(|e| Failure::run(format!("cannot listen at {}: {e}", path.display())))?;
    Ok((path, listener))
}

/// Answers `up-ctl` until the other end of `stop` is gone, and then those whose answer is under way.
async fn accept(
    listener: UnixListener,
    asks: mpsc::Sender<(Request, oneshot::Sender<Reply>)>,
    mut stop: oneshot::Receiver<()>,
) {
    let mut answers = JoinSet::new();
    loop {
        tokio::select! {
            asking = listener.accept() => match asking {
                Ok((stream, _)) => _ = answers.spawn(answer(stream, asks.clone())),
                Err(_) => break,
            },
            _ = answers.join_next(), if !answers.is_empty() => {}
            _ = &mut stop => break,
        }
    }
    let _ = tokio::time::timeout(ANSWERED_WITHIN, answers.join_all()).await;
}

async fn answer(stream: UnixStream, asks: mpsc::Sender<(Request, oneshot::Sender<Reply>)>) {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    if BufReader::new(read).take(1 << 16).read_line(&mut line).await.is_err() {
        return;
    }
    let reply = match serde_json::from_str::<Request>(&line) {
        Ok(r) => {
            let (tell, told) = oneshot::channel();
            match asks.send((r, tell)).await {
                Ok(()) => told.await.unwrap_or_else(|_| refuse("the cluster is stopping")),
                Err(_) => refuse("the cluster is stopping"),
            }
        }
        Err(e) => refuse(format!("not a request: {e}")),
    };
    if let Ok(text) = serde_json::to_string(&reply) {
        let _ = write.write_all((text + "\n").as_bytes()).await;
    }
}

fn refuse(text: impl Into<String>) -> Reply {
    Reply { ok: false, text: text.into(), data: Value::Null }
}

fn done(text: impl Into<String>) -> Reply {
    Reply { ok: true, text: text.into(), data: Value::Null }
}

impl Parent {
    async fn live(
        &mut self,
        a: &UpArgs,
        reported: &mut mpsc::Receiver<(String, Report)>,
        asked: &mut mpsc::Receiver<(Request, oneshot::Sender<Reply>)>,
        signals: &mut Signals,
    ) -> Result<u8, Failure> {
        // The first member founds the group; the others then find it, one after the other.
        let mut to_start: Vec<String> = (0..a.nodes).rev().map(letter).collect();
        self.start_next(&mut to_start)?;
        let end = tokio::time::sleep(a.duration.unwrap_or(Duration::from_secs(u32::MAX.into())));
        tokio::pin!(end);
        let mut show = tokio::time::interval(SHOW_TRAFFIC);
        loop {
            tokio::select! {
                r = reported.recv() => if let Some((name, r)) = r {
                    let joined = matches!(r, Report::Joined { .. });
                    if let Report::Failed { reason } = &r {
                        return Err(Failure::join(format!("member {name} could not join: {reason}")));
                    }
                    self.report(&name, r);
                    if joined {
                        self.start_next(&mut to_start)?;
                    }
                },
                q = asked.recv() => if let Some((request, tell)) = q {
                    if matches!(request, Request::Stop) {
                        let _ = tell.send(done("stopping"));
                        return Ok(0);
                    }
                    self.act(request, tell).await;
                },
                _ = show.tick() => self.show_traffic(),
                () = self.next_to_go_on() => self.go_on(|_, until| until <= Instant::now()),
                () = &mut end => return Ok(0),
                code = signals.next() => return Ok(code),
            }
            self.check_views();
        }
    }

    fn start_next(&mut self, to_start: &mut Vec<String>) -> Result<(), Failure> {
        match to_start.pop() {
            Some(name) => self.start(&name),
            None => Ok(()),
        }
    }

    fn start(&mut self, name: &str) -> Result<(), Failure> {
        let host = Host::start(name, &self.shape, self.reports.clone())?;
        let known =
            Known { host, address: None, view: None, sent: 0, delivered: 0, state: State::Joining };
        self.members.insert(name.to_owned(), known);
        Ok(())
    }

    fn report(&mut self, name: &str, r: Report) {
        let json = self.json;
        let Some(m) = self.members.get_mut(name) else { return };
        match r {
            Report::Joined { address, ms } => {
                m.address = address;
                m.state = State::Member;
                let address = address.map_or_else(|| "-".to_owned(), |a| a.to_string());
                if json {
                    let o = json!({"member": name, "address": address, "ms": ms});
                    output::object("joined", o);
                } else {
                    output::line(&format!("  {name}  {address:<16}  joined in {ms} ms"));
                }
            }
            Report::View(v) => {
                m.view = Some(v.clone());
                self.show_view(name, &v);
            }
            Report::Suspected { suspect, by, reason } => {
                let text = format!("{name} excludes {suspect}, accused by {by}: {reason}");
                let o = json!({"member": name, "suspect": suspect, "by": by, "reason": reason});
                self.say("suspected", o, &text);
            }
            Report::Traffic { sent, delivered } => (m.sent, m.delivered) = (sent, delivered),
            Report::Left { clean } => {
                m.state = State::Gone;
                let how = if clean { "left" } else { "left without confirmation" };
                self.say("left", json!({"member": name, "clean": clean}), &format!("{name} {how}"));
            }
            Report::Failed { reason } => {
                m.state = State::Gone;
                self.say("failed", json!({"member": name, "reason": reason}), &reason);
            }
            Report::Ended => {
                let expected = matches!(m.state, State::Gone | State::Killed);
                m.state = if m.state == State::Killed { State::Killed } else { State::Gone };
                if !expected {
                    self.say("ended", json!({"member": name}), &format!("{name} ended"));
                }
            }
        }
    }

    fn say(&self, kind: &str, fields: Value, text: &str) {
        if self.json {
            output::object(kind, fields);
        } else {
            output::line(&format!("  {text}"));
        }
    }

    /// Programs get every installation; people get each view once.
    fn show_view(&mut self, name: &str, v: &SeenView) {
        if self.json {
            let o = json!({"member": name, "view": v.text, "id": v.id, "members": v.members,
                "merge": v.merge});
            return output::object("view", o);
        }
        if !self.shown.contains(&v.text) {
            output::line(&format!("  view {}", v.text));
            self.shown.push(v.text.clone());
        }
    }

    fn show_traffic(&mut self) {
        let total = self.members.values().fold((0, 0), |t, m| (t.0 + m.sent, t.1 + m.delivered));
        if total == self.traffic {
            return;
        }
        self.traffic = total;
        let each: Vec<String> = self
            .members
            .iter()
            .filter(|(_, m)| m.state == State::Member)
            .map(|(n, m)| format!("{n} {}", m.delivered))
            .collect();
        let (sent, delivered) = total;
        let text = format!("sent {sent}, delivered {delivered} ({})", each.join(", "));
        self.say("traffic", json!({"sent": sent, "delivered": delivered}), &text);
    }

    async fn act(&mut self, request: Request, tell: oneshot::Sender<Reply>) {
        let reply = match request {
            Request::Kill { member } => self.kill(&member),
            Request::Leave { member } => self.leave(&member).await,
            Request::Pause { member, ms } => self.pause(&member, Duration::from_millis(ms)),
            Request::Add { member } => self.add(member),
            Request::Status => self.status(),
            Request::Stop => done("stopping"),
            Request::Partition { groups } => match self.partition(&groups).await {
                Ok(()) => return self.expect(Some(groups), tell),
                Err(refused) => refused,
            },
            Request::Heal => {
                for m in self.members.values() {
                    m.host.order(Order::Block { peers: Vec::new() }).await;
                }
                return self.expect(None, tell);
            }
        };
        let _ = tell.send(reply);
    }

    fn running(&self, name: &str) -> Result<(), Reply> {
        match self.members.get(name) {
            Some(m) if m.state.runs() => Ok(()),
            Some(m) => Err(refuse(format!("member {name} is {}", m.state.name()))),
            None => {
                let names: Vec<&str> = self.members.keys().map(String::as_str).collect();
                Err(refuse(format!("no member {name:?}; there are {}", names.join(", "))))
            }
        }
    }

    fn kill(&mut self, name: &str) -> Reply {
        if let Err(r) = self.running(name) {
            return r;
        }
        let Some(m) = self.members.get_mut(name) else { return refuse("gone") };
        match m.host.kill() {
            Ok(()) => {
                m.state = State::Killed;
                done(format!("killed {name}"))
            }
            Err(_) => refuse(format!("could not kill {name}")),
        }
    }

    async fn leave(&mut self, name: &str) -> Reply {
        if let Err(r) = self.running(name) {
            return r;
        }
        self.go_on(|n, _| n == name);
        let Some(m) = self.members.get_mut(name) else { return refuse("gone") };
        m.state = State::Leaving;
        m.host.order(Order::Leave).await;
        done(format!("{name} leaves"))
    }

    fn add(&mut self, name: Option<String>) -> Reply {
        let free = (0..26).map(letter).find(|n| !self.members.contains_key(n));
        let Some(name) = name.or(free) else { return refuse("all 26 letters are taken") };
        if self.running(&name).is_ok() {
            return refuse(format!("{name} is running"));
        }
        match self.start(&name) {
            Ok(()) => done(format!("{name} joins")),
            Err(_) => refuse(format!("could not start {name}")),
        }
    }

    /// Members that are named in no group stay with everybody.
    /// Answers as soon as the views are there. Whoever waited for others hears that they will not be.
    fn expect(&mut self, groups: Option<Vec<Vec<String>>>, tell: oneshot::Sender<Reply>) {
        let expected = Expected { since: Instant::now(), groups, tell };
        if let Some(before) = self.expected.replace(expected) {
            let _ = before.tell.send(refuse("another partition or heal came before the views"));
        }
    }

    async fn partition(&mut self, groups: &[Vec<String>]) -> Result<(), Reply> {
        for name in groups.iter().flatten() {
            self.running(name)?;
        }
        for (i, group) in groups.iter().enumerate() {
            let others: Vec<SocketAddr> = groups
                .iter()
                .enumerate()
                .filter(|(j, _)| *j != i)
                .flat_map(|(_, g)| g)
                .filter_map(|n| self.members.get(n)?.address)
                .collect();
            for name in group {
                if let Some(m) = self.members.get(name) {
                    m.host.order(Order::Block { peers: others.clone() }).await;
                }
            }
        }
        Ok(())
    }

    fn status(&self) -> Reply {
        let mut text = String::new();
        let mut data = Vec::new();
        for (name, m) in &self.members {
            let view = m.view.as_ref().map_or("-", |v| v.text.as_str());
            let address = m.address.map_or_else(|| "-".into(), |a| a.to_string());
            let state = m.state.name();
            text += &format!("{name}  {address:<16}  {state:<8}  {view}\n");
            data.push(json!({"member": name, "address": address, "state": state, "view": view,
                "sent": m.sent, "delivered": m.delivered}));
        }
        Reply { ok: true, text: text.trim_end().to_owned(), data: data.into() }
    }

    /// Whether `partition` or `heal` can be answered: all members of each group have the same view,
    /// of as many members.
    fn check_views(&mut self) {
        let Some(expected) = &self.expected else { return };
        let seconds = expected.since.elapsed().as_secs_f64();
        let groups: Vec<Vec<&Known>> = match &expected.groups {
            Some(groups) => groups.iter().map(|g| self.members_among(Some(g))).collect(),
            None => vec![self.members_among(None)],
        };
        let views: Option<Vec<&SeenView>> =
            groups.iter().filter(|g| !g.is_empty()).map(|g| common_view(g)).collect();
        let reply = match views {
            Some(views) if !views.is_empty() => {
                let texts: Vec<&str> = views.iter().map(|v| v.text.as_str()).collect();
                let many = if views.len() == 1 { "one view" } else { "a view on each side" };
                let text = format!("{many} after {seconds:.1} s: {}", texts.join(" / "));
                let data = json!({"seconds": seconds, "view": texts[0], "views": texts,
                    "merge": views[0].merge});
                Reply { ok: true, text, data }
            }
            Some(_) | None if seconds > VIEWS_WITHIN.as_secs_f64() => refuse(format!(
                "not everybody has its view after {seconds:.0} s; see `up-ctl status`"
            )),
            Some(_) | None => return,
        };
        if let Some(expected) = self.expected.take() {
            let _ = expected.tell.send(reply);
        }
    }

    /// Those of `names`, or of all, that are in the group.
    fn members_among(&self, names: Option<&Vec<String>>) -> Vec<&Known> {
        let wanted = |n: &String| names.is_none_or(|names| names.contains(n));
        let of_group = self.members.iter().filter(|(n, m)| m.state == State::Member && wanted(n));
        of_group.map(|(_, m)| m).collect()
    }

    /// Lets every member leave; whoever takes too long, or a second signal, ends it at once.
    async fn stop(
        &mut self,
        reported: &mut mpsc::Receiver<(String, Report)>,
        signals: &mut Signals,
    ) -> Result<(), Failure> {
        self.go_on(|_, _| true);
        for m in self.members.values().filter(|m| m.state.runs()) {
            m.host.order(Order::Leave).await;
        }
        let deadline = tokio::time::sleep(STOP_WITHIN);
        tokio::pin!(deadline);
        while self.members.values().any(|m| m.state.runs()) {
            tokio::select! {
                r = reported.recv() => if let Some((name, r)) = r { self.report(&name, r) },
                () = &mut deadline => {
                    return Err(Failure::run(format!("not everybody left within {STOP_WITHIN:?}")));
                }
                code = signals.next() => std::process::exit(i32::from(code)),
            }
        }
        Ok(())
    }
}

/// The view that all of these have, and nobody else.
fn common_view<'a>(members: &[&'a Known]) -> Option<&'a SeenView> {
    let first = members.first()?.view.as_ref()?;
    let agreed = members.iter().all(|m| m.view.as_ref() == Some(first));
    (agreed && first.members.len() == members.len()).then_some(first)
}

fn letter(i: u8) -> String {
    char::from(b'A' + i).to_string()
}
