//! `doctor`: why members do not see each other. Checks what a member would use, in the order in
//! which it would fail, and says of each line what to do.

mod connect;
mod finding;
mod host;
mod machine;
mod multicast;
mod settings;
mod talk;

use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::output::escaped;
use connect::There;
use finding::{Finding, Findings, Kind};
use rgroups::{BindChoice, Config};
use rgroups_wire::Version;
use settings::{Settings, Transport};
use std::net::SocketAddr;
use std::time::Duration;
use talk::{Heard, Peer, Traffic};

/// Exit code when something does not work.
const FOUND_SOMETHING: u8 = 6;
/// How long a member over TCP may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// Runs the command.
pub(crate) fn run(a: &DoctorArgs, json: bool) -> Result<u8, Failure> {
    let config = crate::join::config(a.transport, &a.hosts, &a.stack)?;
    let settings = Settings::of(&config);
    let mut found = Findings::new(json);
    match config.check() {
        Ok(()) => {
            let n = settings.protocols().len();
            let file = a.stack.config.as_deref().map(|f| format!("{}: ", escaped(f)));
            let text = format!("{}{n} protocols, order sane", file.unwrap_or_default());
            found.add(Finding::new(Kind::Ok, "config", text));
        }
        Err(e) => found.add(Finding::new(Kind::Fail, "config", escaped(&e.to_string()))),
    }
    match settings.transport() {
        Some(t) => examine(&config, &settings, t, a, &mut found),
        None => {
            let text = "members of one process only: there is no network to look at";
            found.add(Finding::new(Kind::Note, "transport", text));
        }
    }
    found.extend(secrecy(&settings));
    let failed = found.finish();
    if let Some(file) = &a.report {
        let text = report(&settings, &found);
        std::fs::write(file, text).map_err(|e| {
            Failure::run(format!("cannot write {}: {e}", escaped(&file.to_string_lossy())))
        })?;
    }
    Ok(if failed { FOUND_SOMETHING } else { 0 })
}

fn examine(
    config: &Config,
    settings: &Settings,
    t: Transport,
    a: &DoctorArgs,
    found: &mut Findings,
) {
    let (bind, choice) = host::bind(config, settings, t);
    found.extend(bind);
    let Some(choice) = choice else { return };
    found.extend(host::mtu(settings, t, &choice));
    found.extend(host::buffers(settings, t, choice.ip));
    let (ports, taken) = host::ports(settings, t, choice.ip);
    found.extend(ports);
    found.add(machine::firewall(settings, t, &choice));
    found.extend(machine::clock_and_cpu());
    match (t, settings.group(choice.ip)) {
        (Transport::Udp, Some(group)) => over_multicast(settings, &choice, group, a, found),
        (Transport::Udp, None) => {
            let text = "ip_mcast=false: members are not looked for here";
            found.add(Finding::new(Kind::Note, "multicast", text));
        }
        (Transport::Tcp, _) => {
            let beacon = settings.beacon(choice.ip);
            found.extend(beacon.map(|group| multicast::works(settings, &choice, group)));
            over_tcp(settings, &choice, &taken, a, found);
        }
    }
}

fn over_multicast(
    settings: &Settings,
    choice: &BindChoice,
    group: SocketAddr,
    a: &DoctorArgs,
    found: &mut Findings,
) {
    let works = multicast::works(settings, choice, group);
    let dead = works.kind == Kind::Fail;
    found.add(works);
    if dead {
        return;
    }
    match multicast::listen(settings, choice, group, a.cluster.as_deref(), a.listen) {
        Ok(heard) => {
            let listened = format!("listened to {group} for {:?}", a.listen);
            tell(&heard, &listened, a.cluster.as_deref(), found);
        }
        Err(e) => {
            let text = format!("cannot listen to {group}: {e}");
            let remedy = "another process has the port for itself: set mcast_port";
            found.add(Finding::new(Kind::Fail, "multicast", text).remedy(remedy));
        }
    }
}

fn over_tcp(
    settings: &Settings,
    choice: &BindChoice,
    taken: &[SocketAddr],
    a: &DoctorArgs,
    found: &mut Findings,
) {
    let mut addresses = settings.initial_hosts();
    addresses.extend(taken.iter().filter(|t| !addresses.contains(t)).copied().collect::<Vec<_>>());
    if addresses.is_empty() && settings.beacon(choice.ip).is_some() {
        let text = "MPING asks by multicast; whom it finds shows when a member joins";
        found.add(Finding::new(Kind::Note, "discovery", text));
        return;
    }
    if addresses.is_empty() {
        let text = "nobody is named where members could be";
        let remedy = "--hosts, or TCPPING.initial_hosts in the configuration";
        found.add(Finding::new(Kind::Warn, "discovery", text).remedy(remedy));
        return;
    }
    let cluster = a.cluster.as_deref().unwrap_or_default();
    let mut all = Heard::default();
    let mut nobody = Vec::new();
    for (to, there) in connect::ask(&addresses, choice.ip, cluster, ANSWER) {
        match there {
            There::Nobody => nobody.push(to.to_string()),
            There::Silent => {
                let text = format!("{to}: no answer to a connection");
                let remedy = "a firewall drops it, or there is no such host";
                found.add(Finding::new(Kind::Warn, "discovery", text).remedy(remedy));
            }
            There::Member(heard) => all.join(heard),
            There::Closed => {
                let text = format!("{to}: closed the connection at our handshake");
                let remedy = format!(
                    "a member of another version than {} does so, and so does a program that is \
                     no member; see its log",
                    Version::OURS
                );
                let kind = if taken.contains(&to) { Kind::Warn } else { Kind::Fail };
                found.add(Finding::new(kind, "versions", text).remedy(remedy).jgrp("JGRP000010"));
            }
            There::Mute => found.add(mute(to, a)),
        }
    }
    if !nobody.is_empty() {
        let text = format!("nobody listens at {}", nobody.join(", "));
        found.add(Finding::new(Kind::Note, "discovery", text));
    }
    tell(&all, &format!("asked {} addresses", addresses.len()), a.cluster.as_deref(), found);
}

/// A member says nothing to a request for another cluster.
fn mute(to: SocketAddr, a: &DoctorArgs) -> Finding {
    let text = format!("{to}: something listens and does not answer");
    let remedy = match &a.cluster {
        Some(c) => format!("a member of another cluster than {:?}, or no member", escaped(c)),
        None => "with --cluster NAME its members answer".to_owned(),
    };
    Finding::new(Kind::Note, "ports", text).remedy(remedy)
}

/// What was heard of others.
fn tell(heard: &Heard, how: &str, cluster: Option<&str>, found: &mut Findings) {
    found.extend(heard.peers.values().map(member));
    for (name, traffic) in &heard.clusters {
        let mine = cluster == Some(name.as_str());
        let text = format!("cluster \"{}\": {}", escaped(name), from(traffic));
        let other = cluster.is_some() && !mine;
        found.add(match other {
            true => Finding::new(Kind::Warn, "clusters", format!("{text}; it is not ours"))
                .remedy(
                    "its packets are dropped after they have cost time: give each cluster a \
                     group or port of its own (mcast_addr, mcast_port)",
                )
                .jgrp("JGRP000012"),
            false => Finding::new(Kind::Seen, "clusters", text),
        });
    }
    for (version, traffic) in &heard.foreign_versions {
        let text = format!(
            "version {}, ours is {}: {}; members of them and we do not hear each other",
            Version(*version),
            Version::OURS,
            from(traffic)
        );
        let remedy = "bring all members to one minor version, or give them a group of their own";
        found.add(Finding::new(Kind::Fail, "versions", text).remedy(remedy).jgrp("JGRP000010"));
    }
    if heard.garbage.packets > 0 {
        let text = format!("no JGroups: {}", from(&heard.garbage));
        let remedy = "another program uses the same group and port: set mcast_port";
        found.add(Finding::new(Kind::Warn, "multicast", text).remedy(remedy));
    }
    let members = match (cluster, heard.peers.len()) {
        (None, _) => {
            let text = format!("{how}; with --cluster NAME its members are asked");
            Finding::new(Kind::Note, "discovery", text)
        }
        (Some(c), 0) => {
            let text = format!("{how}: no member of \"{}\" answered", escaped(c));
            let remedy = "if there should be one: run doctor there too, and compare the lines \
                          bind and multicast";
            Finding::new(Kind::Note, "discovery", text).remedy(remedy)
        }
        (Some(c), n) => {
            let text = format!("{how}: {n} member(s) of \"{}\" answered", escaped(c));
            Finding::new(Kind::Ok, "discovery", text)
        }
    };
    found.add(members);
}

fn member(p: &Peer) -> Finding {
    let at = p.physical.map_or_else(|| "unknown address".to_owned(), |a| a.to_string());
    let role = if p.coordinator { ", coordinator" } else { "" };
    let what = if p.rgroups { "rgroups" } else { "JGroups" };
    let text = format!("{} ({at}{role}, {what}, speaks {})", escaped(&p.name), p.version);
    Finding::new(Kind::Seen, "members", text)
}

fn from(t: &Traffic) -> String {
    let mut from: Vec<String> = t.from.iter().take(4).map(ToString::to_string).collect();
    if t.from.len() > from.len() {
        from.push(format!("{} more", t.from.len() - from.len()));
    }
    format!("{} packets from {}", t.packets, from.join(", "))
}

fn secrecy(settings: &Settings) -> Option<Finding> {
    let guards = ["SYM_ENCRYPT", "ASYM_ENCRYPT", "AUTH"];
    let guarded = settings.protocols().iter().any(|p| guards.contains(p));
    let text = "no ENCRYPT or AUTH in this stack: anyone on the network can join and read";
    (!guarded && settings.transport().is_some()).then(|| Finding::new(Kind::Note, "crypto", text))
}

/// What to paste into a bug report.
fn report(settings: &Settings, found: &Findings) -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "rgroups {} (speaks JGroups {}), {} {} {}\n\n{}\n{}\n\n{}",
        env!("CARGO_PKG_VERSION"),
        Version::OURS,
        std::env::consts::OS,
        std::env::consts::ARCH,
        kernel.trim(),
        found.text(),
        found.verdict(),
        settings.lines(),
    )
}
