//! One member: joins, multicasts at a steady pace, reports what it sees, obeys orders.

use super::{Order, Report, SeenView};
use crate::args::UpMemberArgs;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::{join, output};
use rgroups::{Channel, Config, Event, Events, Message, View};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;

/// How often the traffic counters are reported.
const REPORT_EVERY: Duration = Duration::from_millis(500);

/// A member to run.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) cluster: String,
    pub(crate) config: Config,
    pub(crate) every: Duration,
}

/// The hidden command: a member in a process of its own, orders on standard input, reports on
/// standard output. Ends with its parent.
pub(crate) async fn run(a: &UpMemberArgs) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let member = Member {
        name: a.name.clone(),
        cluster: a.cluster.clone(),
        config: join::config(a.transport, &a.hosts, &a.stack)?,
        every: a.every,
    };
    let (orders_in, orders) = mpsc::channel(16);
    let (reports, mut reports_out) = mpsc::channel(256);
    tokio::spawn(async move {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(order) = serde_json::from_str::<Order>(&line) else { continue };
            if orders_in.send(order).await.is_err() {
                return;
            }
        }
        // The parent is gone: leave as if told to.
        let _ = orders_in.send(Order::Leave).await;
    });
    let work = tokio::spawn(serve(member, orders, reports));
    let mut code = 0;
    loop {
        tokio::select! {
            report = reports_out.recv() => match report {
                Some(r) => match serde_json::to_string(&r) {
                    Ok(line) => output::line(&line),
                    Err(e) => return Err(Failure::run(format!("cannot report: {e}"))),
                },
                None => break,
            },
            // The terminal sends its signal to all processes; the parent gives the order.
            c = signals.next() => code = c,
        }
    }
    work.await.map_err(|e| Failure::run(format!("the member failed: {e}")))?;
    Ok(if code == 130 { 0 } else { code })
}

/// Runs a member until it is told to leave; every end is reported.
pub(crate) async fn serve(
    m: Member,
    mut orders: mpsc::Receiver<Order>,
    reports: mpsc::Sender<Report>,
) {
    let began = Instant::now();
    let builder = Channel::builder(m.config.clone()).name(m.name.as_str());
    let (ch, events) = match builder.connect(&m.cluster).await {
        Ok(joined) => joined,
        Err(e) => {
            let _ = reports.send(Report::Failed { reason: e.to_string() }).await;
            return;
        }
    };
    let ms = began.elapsed().as_millis() as u64;
    let address = physical_address(&ch).await;
    let joined = Report::Joined { address, ms };
    if reports.send(joined).await.is_ok() {
        participate(&ch, events, &m, &mut orders, &reports).await;
    }
    let clean = ch.close().await.is_ok();
    let _ = reports.send(Report::Left { clean }).await;
}

async fn participate(
    ch: &Channel,
    mut events: Events,
    m: &Member,
    orders: &mut mpsc::Receiver<Order>,
    reports: &mpsc::Sender<Report>,
) {
    let idle = m.every.is_zero();
    let pace = if idle { Duration::from_secs(3600) } else { m.every };
    let mut beat = tokio::time::interval(pace);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut tell = tokio::time::interval(REPORT_EVERY);
    let (mut sent, mut delivered, mut told) = (0u64, 0u64, (0, 0));
    loop {
        tokio::select! {
            ev = events.next() => match ev {
                Some(Event::View(v)) => {
                    output::named(ch, &v).await;
                    if reports.send(Report::View(seen(ch, &v))).await.is_err() {
                        return;
                    }
                }
                Some(Event::Message(_)) => delivered += 1,
                Some(Event::Suspected { member, by, reason }) => {
                    let name = |m| output::member(ch, m);
                    let r = Report::Suspected { suspect: name(member), by: name(by), reason };
                    if reports.send(r).await.is_err() {
                        return;
                    }
                }
                Some(_) => {}
                None => return,
            },
            _ = beat.tick(), if !idle => {
                // A slow group slows the pace; it does not pile up messages here.
                if ch.try_send(Message::multicast(format!("{} {sent}", m.name))).is_ok() {
                    sent += 1;
                }
            }
            _ = tell.tick() => if told != (sent, delivered) {
                told = (sent, delivered);
                if reports.send(Report::Traffic { sent, delivered }).await.is_err() {
                    return;
                }
            },
            order = orders.recv() => match order {
                Some(Order::Block { peers }) => ch.admin().block(peers),
                Some(Order::Leave) | None => return,
            },
        }
    }
}

/// Where the transport of this member receives.
async fn physical_address(ch: &Channel) -> Option<SocketAddr> {
    let places = ch.inspect().await?.physical;
    places.into_iter().find(|(m, _)| *m == ch.address()).map(|(_, at)| at)
}

fn seen(ch: &Channel, v: &View) -> SeenView {
    SeenView {
        text: output::view(ch, v),
        id: v.id().id,
        members: v.members().iter().map(|m| output::member(ch, *m)).collect(),
        merge: v.is_merge(),
    }
}
