//! The multicast test, and what is heard of a group in the meantime.

use super::finding::{Finding, Kind};
use super::settings::Settings;
use super::talk::{Heard, Voice};
use bytes::Bytes;
use rgroups::BindChoice;
use rgroups_wire::ProtId;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Probes of the test.
const PROBES: usize = 20;
/// How long the last of them may take to come back.
const RETURN: Duration = Duration::from_secs(1);
/// How often the group is asked for members.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// What a probe begins with: nothing that members send, on a port where none listens.
const MARK: &[u8] = b"rgroups doctor ";

/// The two sockets of a member: one sends and gets answers, one listens to a group.
#[derive(Debug)]
struct Pair {
    sender: UdpSocket,
    receiver: UdpSocket,
}

/// Whether multicasts come back to ourselves. They go to the group's address at a port of their
/// own, where they bother nobody.
pub(crate) fn works(settings: &Settings, choice: &BindChoice, group: SocketAddr) -> Finding {
    let interface = choice.interface.as_deref().unwrap_or("its interface");
    let ttl = settings.value("UDP", "ip_ttl").unwrap_or(8);
    // A port that is free now: the receiver is bound to it without sharing it.
    let own = match UdpSocket::bind((choice.ip, 0)).and_then(|s| s.local_addr()) {
        Ok(at) => SocketAddr::new(group.ip(), at.port()),
        Err(e) => return fail(format!("no socket on {}: {e}", choice.ip)),
    };
    let pair = match Pair::open(choice, own, ttl) {
        Ok(pair) => pair,
        Err(e) => return fail(format!("{group} cannot be joined on {interface}: {e}")),
    };
    let (mut sent, mut why) = (0, None);
    let mut seen = [false; PROBES];
    let mut buffer = [0; 64];
    for i in 0..PROBES {
        let probe = [MARK, &[i as u8]].concat();
        match pair.sender.send_to(&probe, own) {
            Ok(_) => sent += 1,
            Err(e) => why = Some(e),
        }
    }
    let end = Instant::now() + RETURN;
    while seen.iter().filter(|s| **s).count() < sent && Instant::now() < end {
        let Ok((n, _)) = receive(&pair.receiver, &mut buffer, end) else { break };
        if let Some([i]) = buffer[..n].strip_prefix(MARK)
            && let Some(seen) = seen.get_mut(usize::from(*i))
        {
            *seen = true;
        }
    }
    let seen = seen.iter().filter(|s| **s).count();
    let text = format!(
        "sent {sent} probes to {} on {interface}, own copies seen {seen} of {PROBES}",
        group.ip()
    );
    match (seen, why) {
        (PROBES, _) => Finding::new(Kind::Ok, "multicast", text),
        (_, Some(e)) => fail(format!("{text}: {e}")),
        (0, None) => fail(text),
        (_, None) => Finding::new(Kind::Warn, "multicast", text)
            .remedy("copies are lost within this host: larger buffers (see above) or less load"),
    }
}

fn fail(text: String) -> Finding {
    Finding::new(Kind::Fail, "multicast", text).remedy(
        "multicast does not work here: another interface (bind_addr), or no multicast: \
         --transport tcp with the addresses of members in --hosts",
    )
}

/// Listens to the group for a while, and asks for members of `cluster` if it is given.
pub(crate) fn listen(
    settings: &Settings,
    choice: &BindChoice,
    group: SocketAddr,
    cluster: Option<&str>,
    time: Duration,
) -> io::Result<Heard> {
    let pair = Pair::open(choice, group, settings.value("UDP", "ip_ttl").unwrap_or(8))?;
    let voice = Voice::new(pair.sender.local_addr()?, cluster.unwrap_or_default(), ProtId::PING);
    let end = Instant::now() + time;
    let mut heard = Heard::default();
    let mut ask_at = Instant::now();
    let mut buffer = vec![0; 70_000];
    while Instant::now() < end {
        if cluster.is_some() && Instant::now() >= ask_at {
            // If it is not sent, nothing is heard, and that is what is reported.
            let _ = pair.sender.send_to(&voice.request(None), group);
            ask_at += ASK_EVERY;
        }
        for socket in [&pair.receiver, &pair.sender] {
            let until = (Instant::now() + Duration::from_millis(20)).min(end);
            while let Ok((n, from)) = receive(socket, &mut buffer, until) {
                let bytes = Bytes::copy_from_slice(&buffer[..n]);
                heard.packet(from, bytes, voice.identity);
            }
        }
    }
    Ok(heard)
}

fn receive(s: &UdpSocket, buffer: &mut [u8], until: Instant) -> io::Result<(usize, SocketAddr)> {
    let left = until.saturating_duration_since(Instant::now());
    s.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
    s.recv_from(buffer)
}

impl Pair {
    /// As a member opens them.
    fn open(choice: &BindChoice, group: SocketAddr, ttl: u32) -> io::Result<Pair> {
        let domain = Domain::for_address(group);
        let sender = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        let receiver = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        receiver.set_reuse_address(true)?;
        // Bound to the group, a socket sees no other group's packets; elsewhere this is refused.
        let at = if cfg!(windows) { SocketAddr::new(choice.ip, group.port()) } else { group };
        receiver.bind(&at.into())?;
        match (group.ip(), choice.ip) {
            (IpAddr::V4(g), IpAddr::V4(ip)) => {
                sender.set_multicast_if_v4(&ip)?;
                sender.set_multicast_ttl_v4(ttl)?;
                sender.set_multicast_loop_v4(true)?;
                receiver.join_multicast_v4(&g, &ip)?;
            }
            (IpAddr::V6(g), IpAddr::V6(ip)) => {
                let all = rgroups::interfaces();
                let index = all.iter().find(|i| i.ip == IpAddr::V6(ip)).map_or(0, |i| i.index);
                sender.set_multicast_if_v6(index)?;
                sender.set_multicast_hops_v6(ttl)?;
                sender.set_multicast_loop_v6(true)?;
                receiver.join_multicast_v6(&g, index)?;
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {
                let text = "bind_addr and mcast_addr are of different IP versions";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
        sender.bind(&SocketAddr::new(choice.ip, 0).into())?;
        Ok(Pair { sender: sender.into(), receiver: receiver.into() })
    }
}
