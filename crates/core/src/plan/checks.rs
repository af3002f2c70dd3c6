//! The checks of a plan. What concerns one protocol and its neighbours follows from the protocols'
//! specs; what concerns values is written out here, rule by rule.

use super::{PlanProblem, ProtocolConfig, StackPlan};
use crate::attributes::{AttrValue, ByteSize};
use crate::bind_addr::BindAddr;
use crate::protocols::transport::{TransportConfig, UdpConfig};
use crate::{Service, Spec, tag};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

/// Beats come five times in a lease, and may take a moment.
const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// Headers and framing around a fragment take at most this many bytes.
const HEADROOM: u64 = 1_000;

pub(super) fn check(plan: &StackPlan, problems: &mut Vec<PlanProblem>) {
    let specs: Vec<Spec> = plan.protocols.iter().map(|p| p.build().spec()).collect();
    for (config, spec) in plan.protocols.iter().zip(&specs) {
        if config.name() != spec.name {
            problems.push(PlanProblem::NameDiffers { plan: config.name(), spec: spec.name });
        }
    }
    if !specs.first().is_some_and(|s| s.provides.contains(&Service::Transport)) {
        problems.push(PlanProblem::NoTransport);
    }
    // The entry layer comes on top; layers are counted in a byte.
    if specs.len() > 254 {
        problems.push(PlanProblem::TooManyLayers(specs.len()));
    }
    check_pairs(&specs, problems);
    check_needs(&specs, problems);
    check_flow_control_above_membership(&specs, problems);
    check_state_transfer_above(&specs, problems);
    check_total_order(&specs, problems);
    check_addresses(plan, problems);
    check_sizes(plan, problems);
    check_times(plan, problems);
    check_overrides(plan, problems);
    check_windows(plan, problems);
    check_merge_detection(plan, problems);
    check_primary(plan, problems);
    check_synchrony(plan, problems);
}

/// No two layers may be taken for each other.
fn check_pairs(specs: &[Spec], problems: &mut Vec<PlanProblem>) {
    for (i, b) in specs.iter().enumerate() {
        for a in &specs[..i] {
            if a.name == b.name {
                problems.push(PlanProblem::Duplicate { protocol: a.name });
                continue;
            }
            let (first, second) = (a.name, b.name);
            match (a.id, b.id) {
                (Some(x), Some(y)) if x == y => {
                    problems.push(PlanProblem::SameHeaderId { id: x.0, first, second });
                }
                _ => {}
            }
            let both = b.provides.iter().find(|s| a.provides.contains(s) && !may_share(**s));
            if let Some(service) = both {
                problems.push(PlanProblem::Rivals { service: *service, first, second });
            }
        }
    }
}

/// Services that several layers of one stack may offer side by side.
fn may_share(service: Service) -> bool {
    match service {
        Service::FailureDetection | Service::Faults | Service::Discovery => true,
        Service::Transport
        | Service::MergeDetection
        | Service::Verification
        | Service::ReliableMulticast
        | Service::ReliableUnicast
        | Service::Stability
        | Service::Membership
        | Service::MulticastCredits
        | Service::UnicastCredits
        | Service::Fragmentation
        | Service::SyncSends
        | Service::Barrier
        | Service::StateTransfer
        | Service::PrimaryViews
        | Service::TotalOrder
        | Service::Counters
        | Service::Locks => false,
    }
}

/// Everybody finds what it needs, on the right side.
fn check_needs(specs: &[Spec], problems: &mut Vec<PlanProblem>) {
    for (i, spec) in specs.iter().enumerate() {
        let sides = [
            (spec.needs_below, true, &specs[..i], &specs[i + 1..]),
            (spec.needs_above, false, &specs[i + 1..], &specs[..i]),
        ];
        for (needs, below, right_side, wrong_side) in sides {
            for need in needs {
                let offers = |s: &&Spec| s.provides.contains(need);
                if right_side.iter().any(|s| offers(&s)) {
                    continue;
                }
                let protocol = spec.name;
                let nowhere = !wrong_side.iter().any(|s| offers(&s));
                if *need == Service::FailureDetection && nowhere {
                    let what = format!("{protocol} has nothing to do: nothing detects failures");
                    problems.push(PlanProblem::Doubtful { what });
                    continue;
                }
                problems.push(match wrong_side.iter().find(offers) {
                    Some(s) => PlanProblem::WrongOrder { protocol, other: s.name, below },
                    None => PlanProblem::Missing { protocol, service: *need, below },
                });
            }
        }
    }
}

/// Messages of members outside the view are held by GMS and counted by flow control when they are
/// passed on (DECISIONS 7); the other way round they would be counted and then held.
fn check_flow_control_above_membership(specs: &[Spec], problems: &mut Vec<PlanProblem>) {
    let Some(gms) = specs.iter().position(|s| s.provides.contains(&Service::Membership)) else {
        return;
    };
    for s in &specs[..gms] {
        let credits = [Service::MulticastCredits, Service::UnicastCredits];
        let already = s.needs_below.contains(&Service::Membership);
        if !already && s.provides.iter().any(|p| credits.contains(p)) {
            let (protocol, other) = (s.name, specs[gms].name);
            problems.push(PlanProblem::WrongOrder { protocol, other, below: true });
        }
    }
}

/// A state must be cut into fragments and wait for credit like any other message; and the barrier is
/// for those above it.
fn check_state_transfer_above(specs: &[Spec], problems: &mut Vec<PlanProblem>) {
    let Some(at) = specs.iter().position(|s| s.provides.contains(&Service::StateTransfer)) else {
        return;
    };
    let lower = [
        Service::Fragmentation,
        Service::MulticastCredits,
        Service::UnicastCredits,
        Service::SyncSends,
        Service::Barrier,
    ];
    for s in &specs[at..] {
        if s.provides.iter().any(|p| lower.contains(p)) {
            let (protocol, other) = (specs[at].name, s.name);
            problems.push(PlanProblem::WrongOrder { protocol, other, below: true });
        }
    }
}

/// Messages wait for credit where they are forwarded and ordered, so flow control is below; what asks
/// for acknowledgements, cuts messages and keeps states sees those that are ordered.
fn check_total_order(specs: &[Spec], problems: &mut Vec<PlanProblem>) {
    let Some(at) = specs.iter().position(|s| s.provides.contains(&Service::TotalOrder)) else {
        return;
    };
    let protocol = specs[at].name;
    let mut misplaced = |side: &[Spec], services: &[Service], below| {
        for s in side.iter().filter(|s| s.provides.iter().any(|p| services.contains(p))) {
            problems.push(PlanProblem::WrongOrder { protocol, other: s.name, below });
        }
    };
    misplaced(&specs[at..], &[Service::MulticastCredits, Service::UnicastCredits], true);
    let upper = [Service::Fragmentation, Service::SyncSends, Service::StateTransfer];
    misplaced(&specs[..at], &upper, false);
}

/// A member's own address is told to the others, so it must be one that they can reach, and all
/// addresses of a group are of one version of IP.
fn check_addresses(plan: &StackPlan, problems: &mut Vec<PlanProblem>) {
    let (name, bind, told) = match plan.transport() {
        Some(TransportConfig::Udp(c)) => {
            let group = c.mcast_addr.filter(|_| c.ip_mcast);
            check_group("UDP", group, problems);
            check_version("UDP", c.bind_addr.as_ref(), "UDP.mcast_addr", group, problems);
            ("UDP", c.bind_addr, c.external_addr)
        }
        Some(TransportConfig::Tcp(c)) => ("TCP", c.bind_addr, c.external_addr),
        Some(TransportConfig::InProcess(_)) | None => return,
    };
    for p in &plan.protocols {
        match p {
            ProtocolConfig::Mping(c) => {
                check_group("MPING", c.mcast_addr, problems);
                let own = c.bind_addr.as_ref().or(bind.as_ref());
                check_version(name, own, "MPING.mcast_addr", c.mcast_addr, problems);
            }
            ProtocolConfig::TcpPing(c) => {
                for host in &c.initial_hosts {
                    let ip = Some(host.ip());
                    check_version(name, bind.as_ref(), "TCPPING.initial_hosts", ip, problems);
                }
            }
            _ => {}
        }
    }
    let own = told.or(bind.as_ref().and_then(BindAddr::literal));
    if let Some(addr) = own.filter(IpAddr::is_unspecified) {
        let what = format!(
            "{name}.bind_addr={addr}: members tell it to each other, so it must be the address of \
             one interface"
        );
        problems.push(PlanProblem::BadSetting { what });
    }
}

fn check_group(protocol: &str, group: Option<IpAddr>, problems: &mut Vec<PlanProblem>) {
    if let Some(addr) = group.filter(|g| !g.is_multicast()) {
        let what = format!(
            "{protocol}.mcast_addr={addr}: not a multicast address; use one of 239.0.0.0/8, or a \
             protocol that needs none"
        );
        problems.push(PlanProblem::BadSetting { what });
    }
}

/// A rule that has to be looked up first is checked by the driver.
fn check_version(
    transport: &str,
    bind: Option<&BindAddr>,
    attribute: &str,
    other: Option<IpAddr>,
    problems: &mut Vec<PlanProblem>,
) {
    let (Some(own), Some(other)) = (bind.and_then(BindAddr::literal), other) else { return };
    if own.is_ipv4() != other.is_ipv4() {
        let what = format!(
            "{transport}.bind_addr={own} and {attribute}={other}: members of a group use one \
             version of IP, both IPv4 or both IPv6"
        );
        problems.push(PlanProblem::BadSetting { what });
    }
}

fn check_sizes(plan: &StackPlan, problems: &mut Vec<PlanProblem>) {
    let frag = value::<ByteSize>(plan, "FRAG2", "frag_size").map(|b| b.0);
    if let Some(frag_size) = frag {
        for fc in ["MFC", "UFC"] {
            let credits = value::<ByteSize>(plan, fc, "max_credits").map(|b| b.0);
            if let Some(max) = credits.filter(|max| frag_size >= *max) {
                let what = format!(
                    "FRAG2.frag_size={frag_size} is not below {fc}.max_credits={max}: every \
                     fragment waits for the credit of the one before"
                );
                problems.push(PlanProblem::Doubtful { what });
            }
        }
    }
    let Some(transport) = plan.transport() else { return };
    let max_size = transport.max_size() as u64;
    if max_size < HEADROOM {
        let what = format!("max_size={max_size}: a frame must hold at least {HEADROOM} bytes");
        problems.push(PlanProblem::BadSetting { what });
    }
    let udp = transport.packet_limit().is_some();
    let limit = UdpConfig::MAX_DATAGRAM as u64;
    if udp && max_size > limit {
        let what = format!("UDP.max_size={max_size}: a datagram holds at most {limit} bytes");
        problems.push(PlanProblem::BadSetting { what });
    }
    match frag {
        Some(size) if udp && size + HEADROOM > limit => {
            let what = format!(
                "FRAG2.frag_size={size}: with its headers a fragment must fit in a datagram; use \
                 at most {}",
                limit - HEADROOM
            );
            problems.push(PlanProblem::BadSetting { what });
        }
        Some(size) if size + HEADROOM > max_size => {
            let what = format!(
                "FRAG2.frag_size={size} leaves no room for headers in frames of max_size={max_size}"
            );
            problems.push(PlanProblem::Doubtful { what });
        }
        None if udp => {
            let what = String::from(
                "no FRAG2 above UDP: messages that do not fit in a datagram are refused",
            );
            problems.push(PlanProblem::Doubtful { what });
        }
        Some(_) | None => {}
    }
}

/// MERGE3 must know whether a multicast reaches members of other views.
fn check_merge_detection(plan: &StackPlan, problems: &mut Vec<PlanProblem>) {
    let Some(transport) = plan.transport() else { return };
    let multicast = value::<bool>(plan, "MERGE3", "multicast");
    if multicast == Some(true) && !transport.multicasts() {
        let what = format!(
            "MERGE3.multicast=true, but {} multicasts only to members of the own view: partitions \
             would not find each other; set it to false",
            transport.name()
        );
        problems.push(PlanProblem::BadSetting { what });
    }
}

/// Settings that another one overrides are no error: JGroups' files have them.
fn check_overrides(plan: &StackPlan, problems: &mut Vec<PlanProblem>) {
    for config in &plan.protocols {
        let overridden = match config {
            ProtocolConfig::Mfc(c) => c.overridden(),
            ProtocolConfig::Ufc(c) => c.overridden(),
            _ => continue,
        };
        let doubtful = |what| {
            let what = format!("{}: {what}", config.name());
            PlanProblem::Doubtful { what }
        };
        problems.extend(overridden.into_iter().map(doubtful));
    }
}

/// NAKACK4 and UNICAST4: windows that bound what is sent need a size, and what they make needless is
/// a mistake that JGroups forgives.
fn check_windows(plan: &StackPlan, problems: &mut Vec<PlanProblem>) {
    for protocol in ["NAKACK4", "UNICAST4"] {
        let Some(capacity) = value::<u32>(plan, protocol, "capacity") else { continue };
        let threshold = value::<u32>(plan, protocol, "ack_threshold").unwrap_or_default();
        if capacity == 0 {
            let what = format!("{protocol}.capacity=0: nothing could ever be sent");
            problems.push(PlanProblem::BadSetting { what });
        } else if threshold > capacity {
            let what = format!(
                "{protocol}.ack_threshold={threshold} is above {protocol}.capacity={capacity}: \
                 acknowledgements leave once per xmit_interval only"
            );
            problems.push(PlanProblem::Doubtful { what });
        }
    }
    if plan.find("NAKACK4").is_some() && plan.find("STABLE").is_some() {
        let what =
            "STABLE has no effect above NAKACK4, which drops what is acknowledged: remove it";
        problems.push(PlanProblem::Doubtful { what: what.into() });
    }
    if value::<bool>(plan, "NAKACK4", "dynamic_buffers") == Some(true) && plan.find("MFC").is_none()
    {
        let what = "NAKACK4.dynamic_buffers=true without MFC: nothing bounds what is sent";
        problems.push(PlanProblem::Doubtful { what: what.into() });
    }
}

fn check_times(plan: &StackPlan, problems: &mut Vec<PlanProblem>) {
    // A heartbeat in every turn would be a turn for every heartbeat.
    if value::<Duration>(plan, "FD_ALL3", "interval") == Some(Duration::ZERO) {
        let what = "FD_ALL3.interval=0: heartbeats without a pause".into();
        problems.push(PlanProblem::BadSetting { what });
    }
    // The joiner waits for discovery twice as long as for an answer, then it takes it for over.
    let answer = value::<Duration>(plan, "GMS", "join_timeout");
    for discovery in plan.protocols.iter().map(ProtocolConfig::name) {
        let wait = value::<Duration>(plan, discovery, "join_wait");
        let (Some(wait), Some(answer)) = (wait, answer) else { continue };
        if wait > answer * 2 {
            let (wait, answer) = (wait.show(), answer.show());
            let what = format!(
                "{discovery}.join_wait={wait} is more than twice GMS.join_timeout={answer}: joiners \
                 would not wait for the answers that discovery collects; set both alike"
            );
            problems.push(PlanProblem::BadSetting { what });
        }
    }
    let pairs = [
        ("FD_ALL3", "timeout", "interval", "members that live are suspected between heartbeats"),
        ("MERGE3", "max_interval", "min_interval", "the longest interval is below the shortest"),
        ("FD_SOCK2", "suspect_msg_interval", "connect_timeout", "attempts overlap"),
    ];
    for (protocol, longer, shorter, why) in pairs {
        let long = value::<Duration>(plan, protocol, longer);
        let short = value::<Duration>(plan, protocol, shorter);
        let (Some(long), Some(short)) = (long, short) else { continue };
        if long < short {
            let (long, short) = (long.show(), short.show());
            let what =
                format!("{protocol}.{longer}={long} is below {protocol}.{shorter}={short}: {why}");
            problems.push(PlanProblem::BadSetting { what });
        }
    }
}

/// What cannot be guessed must be given: with a quorum that is too small two groups that start apart
/// would both be primary.
fn check_primary(plan: &StackPlan, problems: &mut Vec<PlanProblem>) {
    let Some(quorum) = value::<u32>(plan, "PRIMARY", "quorum") else { return };
    if quorum == 0 {
        let what = "PRIMARY.quorum is not set: give the number of members that the first primary \
                    view must have, more than half of all that are ever started (2 of 3, 3 of 5)";
        problems.push(PlanProblem::BadSetting { what: what.into() });
    }
    let lease = value::<Duration>(plan, "PRIMARY", "lease");
    if let Some(lease) = lease.filter(|l| *l < SHORTEST_LEASE) {
        let what = format!(
            "PRIMARY.lease={} is below {}: members would lose their trust between two beats",
            lease.show(),
            SHORTEST_LEASE.show()
        );
        problems.push(PlanProblem::BadSetting { what });
    }
}

/// Views are installed together only where members keep what the others may lack.
fn check_synchrony(plan: &StackPlan, problems: &mut Vec<PlanProblem>) {
    let wanted = value::<bool>(plan, "GMS", "view_synchrony") == Some(true);
    if wanted && plan.capabilities() & tag::VIEW_SYNCHRONY == 0 {
        let what = "GMS.view_synchrony=true needs NAKACK2 with discard_delivered_msgs=false: members \
                    give each other what they lack";
        problems.push(PlanProblem::BadSetting { what: what.into() });
    }
}

/// An attribute's value, if the plan has the protocol and the protocol has the attribute.
fn value<T: AttrValue>(plan: &StackPlan, protocol: &str, attribute: &str) -> Option<T> {
    T::parse(&plan.get(protocol, attribute).ok()?)
}
