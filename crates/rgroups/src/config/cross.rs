//! What does not fit together, with the places of what is concerned.

use super::assemble::Assembly;
use super::report::{Finding, Severity};
use super::source::{Session, Span};
use rgroups_core::Service;
use rgroups_core::plan::{PlanProblem, ProtocolConfig};
use std::collections::BTreeMap;

/// Checks the whole stack.
pub(super) fn check(session: &mut Session, made: &Assembly) {
    let problems = made.plan.validate();
    let mut missing: BTreeMap<Service, Vec<(&'static str, bool)>> = BTreeMap::new();
    for problem in &problems {
        if let PlanProblem::Missing { protocol, service, below } = problem {
            missing.entry(*service).or_default().push((protocol, *below));
        } else if !follows(made, problem, &problems) {
            report(session, made, problem);
        }
    }
    for (service, needy) in missing {
        // Without any transport there is one report of that.
        let told = service == Service::Transport && made.plan.transport().is_none();
        if !told && !made.incomplete {
            lacking(session, made, service, &needy);
        }
    }
}

/// Whether a problem is only the consequence of another one.
fn follows(made: &Assembly, problem: &PlanProblem, all: &[PlanProblem]) -> bool {
    let is_transport = |name: &str| made.plan.find(name).is_some_and(|p| p.transport().is_some());
    match problem {
        PlanProblem::SameHeaderId { first, second, .. } => all.iter().any(|p| {
            matches!(p, PlanProblem::Rivals { first: f, second: s, .. } if f == first && s == second)
        }),
        PlanProblem::WrongOrder { other, .. } => {
            all.contains(&PlanProblem::NoTransport) && is_transport(other)
        }
        _ => false,
    }
}

fn lacking(session: &mut Session, made: &Assembly, service: Service, needy: &[(&str, bool)]) {
    let Some((protocol, below)) = needy.first() else { return };
    let side = if *below { "below" } else { "above" };
    let message = format!("{protocol} needs {} {side} it", words(service));
    let others: Vec<&str> = needy[1..].iter().map(|(p, _)| *p).collect();
    let finding = at(session, place(made, protocol), "RG0104", message, None);
    if !others.is_empty() {
        finding.label = format!("and so do {}", others.join(", "));
    }
    let offers = providers(service).join(" or ");
    finding.help.push(format!("add {offers} {} <{protocol}>", line_side(*below)));
}

fn report(session: &mut Session, made: &Assembly, problem: &PlanProblem) {
    match problem {
        PlanProblem::NoTransport => no_transport(session, made),
        PlanProblem::Duplicate { protocol } => {
            let mut places = made.places.iter().filter(|(n, _)| n == protocol).map(|(_, s)| *s);
            let (first, second) = (places.next(), places.next());
            let message = problem.to_string();
            at(session, second.or(first), "RG0104", message, first.map(|f| (*protocol, f)))
                .help
                .push("remove one of them".into());
        }
        PlanProblem::Rivals { service, first, second } => {
            let message = format!("{first} and {second} both provide {}", words(*service));
            at(session, place(made, second), "RG0104", message, beside(made, first))
                .help
                .push("remove one of them".into());
        }
        PlanProblem::SameHeaderId { first, second, .. } => {
            at(session, place(made, second), "RG0104", problem.to_string(), beside(made, first));
        }
        PlanProblem::WrongOrder { protocol, other, below } => {
            let side = if *below { "below" } else { "above" };
            let message = format!("protocol order: {other} must be {side} {protocol}");
            at(session, place(made, other), "RG0104", message, beside(made, protocol)).help.push(
                format!(
                    "the lowest protocol comes first: <{other}> belongs {} <{protocol}>",
                    line_side(*below)
                ),
            );
        }
        PlanProblem::BadSetting { what } => settings(session, made, what, true),
        PlanProblem::Doubtful { what } => settings(session, made, what, false),
        other => {
            at(session, None, "RG0104", other.to_string(), None);
        }
    }
}

/// Where in the file a protocol stands that is below or above another one in the stack.
fn line_side(below: bool) -> &'static str {
    if below { "in front of" } else { "behind" }
}

fn no_transport(session: &mut Session, made: &Assembly) {
    let transport = made.plan.protocols.iter().find(|p| p.transport().is_some());
    let first = made.places.first().copied();
    if made.incomplete && transport.is_none() {
        return;
    }
    let message = "the lowest protocol must be a transport";
    match (transport, first) {
        (Some(t), Some((other, _))) => {
            at(session, place(made, t.name()), "RG0104", message.into(), beside(made, other))
                .help
                .push(format!("the lowest protocol comes first: move <{}> to the top", t.name()));
        }
        (_, first) => {
            at(session, first.map(|(_, s)| s), "RG0104", message.into(), None)
                .help
                .push("add <UDP/> or <TCP/> at the top".into());
        }
    }
}

/// An error at a place, which may be unknown.
fn at<'a>(
    session: &'a mut Session,
    place: Option<Span>,
    code: &'static str,
    message: String,
    other: Option<(&str, Span)>,
) -> &'a mut Finding {
    let beside = match (place, other) {
        (Some(p), Some((name, o))) => session.beside(name, o, p),
        _ => String::new(),
    };
    let finding = session.report(Severity::Error, code, place, message);
    finding.beside = beside;
    finding
}

fn place(made: &Assembly, protocol: &str) -> Option<Span> {
    made.places.iter().find(|(n, _)| *n == protocol).map(|(_, s)| *s)
}

fn beside<'a>(made: &Assembly, protocol: &'a str) -> Option<(&'a str, Span)> {
    place(made, protocol).map(|s| (protocol, s))
}

/// A sentence about values: it names them as PROTOCOL.attribute, which is where they are.
fn settings(session: &mut Session, made: &Assembly, what: &str, is_error: bool) {
    let mut named: Vec<(String, Span)> = Vec::new();
    for word in what.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))) {
        let Some((protocol, attribute)) = word.trim_matches('.').split_once('.') else { continue };
        let mut given = made.given.iter();
        if let Some((_, span)) = given.find(|((p, a), _)| *p == protocol && a == attribute) {
            named.push((format!("{protocol}.{attribute}"), *span));
        }
    }
    if made.incomplete && named.is_empty() && !is_error {
        return;
    }
    // Without a value in the file it is a default that does not fit: the protocol is the place.
    let by_protocol = || {
        let mut words = what.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        words.find_map(|w| place(made, w))
    };
    let first = named.first().map(|(_, s)| *s).or_else(by_protocol);
    let beside = match (named.first(), named.get(1)) {
        (Some((_, a)), Some((name, b))) => session.beside(name, *b, *a),
        _ => String::new(),
    };
    let severity = if is_error { Severity::Error } else { Severity::Warning };
    let finding = session.report(severity, "RG0109", first, what.to_owned());
    finding.beside = beside;
    if let [(a, _), (b, _)] = &named[..] {
        if what.contains(" is below ") {
            finding.help.push(format!("raise {a} or lower {b}"));
        } else if what.contains(" is not below ") {
            finding.help.push(format!("lower {a} or raise {b}"));
        }
    }
    if what.contains(".bind_addr=") {
        finding.help.push("for example site_local, match-interface:eth0 or loopback".into());
    }
}

/// Which protocols offer a service.
fn providers(service: Service) -> Vec<&'static str> {
    let all = ProtocolConfig::all();
    let offers = |p: &&ProtocolConfig| p.build().spec().provides.contains(&service);
    all.iter().filter(offers).map(ProtocolConfig::name).collect()
}

fn words(service: Service) -> String {
    let name = match service {
        Service::Transport => "a transport",
        Service::Discovery => "discovery",
        Service::MergeDetection => "detection of partitions",
        Service::FailureDetection => "failure detection",
        Service::Verification => "verification of suspects",
        Service::ReliableMulticast => "reliable multicasts",
        Service::ReliableUnicast => "reliable unicasts",
        Service::Stability => "stability of messages",
        Service::Membership => "membership",
        Service::MulticastCredits => "flow control of multicasts",
        Service::UnicastCredits => "flow control of unicasts",
        Service::Fragmentation => "fragmentation",
        Service::SyncSends => "acknowledged sends",
        Service::Faults => "faults",
        Service::Barrier => "a barrier",
        Service::StateTransfer => "state transfer",
        Service::PrimaryViews => "agreement on primary views",
        Service::TotalOrder => "total order of multicasts",
        // Services that are added before they have words here.
        #[allow(unreachable_patterns)]
        other => return format!("{other:?}"),
    };
    name.to_owned()
}
