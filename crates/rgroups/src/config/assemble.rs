//! From elements to a stack plan: which protocols, with which values, and where each came from.

use super::bind_rule;
use super::idle::{self, Fate};
use super::names::{self, Standing};
use super::nested;
use super::property::{self, Properties, Unclosed};
use super::source::{Attribute, Element, Form, Session, Span, Text};
use super::units;
use rgroups_core::attributes::{AttrInfo, AttrValue, Attributes, nearest};
use rgroups_core::bind_addr::BindAddr;
use rgroups_core::plan::{DIAG_PREFIX, ProtocolConfig, StackPlan};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// What files start from where JGroups' protocols have other defaults than ours, and a file that
/// says nothing means those. Ours that are better without being visible to others stay.
const DEFAULTS_OF_JGROUPS: [(&str, &str, &str); 5] = [
    ("UDP", "mcast_port", "7600"),
    ("TCP", "sock_conn_timeout", "2s"),
    ("TCPPING", "port_range", "1"),
    ("STABLE", "desired_avg_gossip", "20s"),
    ("STABLE", "max_bytes", "2M"),
];

/// Properties that set an attribute which the file does not give.
const SYSTEM_PROPERTIES: [(&str, &str, &str); 16] = [
    ("jgroups.bind_addr", "UDP", "bind_addr"),
    ("jgroups.bind_addr", "TCP", "bind_addr"),
    ("jgroups.bind_port", "UDP", "bind_port"),
    ("jgroups.bind_port", "TCP", "bind_port"),
    ("jgroups.external_addr", "UDP", "external_addr"),
    ("jgroups.external_addr", "TCP", "external_addr"),
    ("jgroups.external_port", "UDP", "external_port"),
    ("jgroups.external_port", "TCP", "external_port"),
    ("jgroups.udp.mcast_addr", "UDP", "mcast_addr"),
    ("jgroups.udp.mcast_port", "UDP", "mcast_port"),
    ("jgroups.udp.ip_ttl", "UDP", "ip_ttl"),
    ("jgroups.tcpping.initial_hosts", "TCPPING", "initial_hosts"),
    ("jgroups.bind_addr", "MPING", "bind_addr"),
    ("jgroups.mping.mcast_addr", "MPING", "mcast_addr"),
    ("jgroups.mping.mcast_port", "MPING", "mcast_port"),
    ("jgroups.mping.ip_ttl", "MPING", "ip_ttl"),
];

/// A stack with the places of its parts.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    pub(super) plan: StackPlan,
    /// Where values came from, by protocol and attribute.
    pub(super) origins: BTreeMap<(String, String), String>,
    /// Where protocols are, in the order of the file.
    pub(super) places: Vec<(&'static str, Span)>,
    /// Where attributes are.
    pub(super) given: BTreeMap<(&'static str, String), Span>,
    /// Whether a protocol of the file is not in the plan although it has an effect.
    pub(super) incomplete: bool,
}

/// Puts a plan together.
pub(super) struct Assembler<'a> {
    pub(super) session: &'a mut Session,
    pub(super) properties: &'a Properties,
    pub(super) out: Assembly,
    /// Properties that were asked for.
    pub(super) asked: BTreeSet<String>,
}

/// A value with what it stands for.
struct Value {
    text: String,
    /// Where pieces of it came from.
    from: Vec<String>,
}

impl<'a> Assembler<'a> {
    pub(super) fn new(session: &'a mut Session, properties: &'a Properties) -> Self {
        Self { session, properties, out: Assembly::default(), asked: BTreeSet::new() }
    }

    /// Goes on with a stack that is there.
    pub(super) fn onto(mut self, out: Assembly) -> Self {
        self.out = out;
        self
    }

    /// One protocol of a file.
    pub(super) fn protocol(&mut self, e: &Element) {
        let (written, at) = (&e.name.text, e.name.at);
        match names::standing(written) {
            Standing::Here(config) => self.add(config, e),
            Standing::As { config, why } => {
                let message = format!("{written} is taken as {}: {why}", config.name());
                self.session.note("RG0112", at, message);
                self.add(config, e);
            }
            Standing::FlowControl => {
                let message = "FC was divided in two: MFC (multicasts) and UFC (unicasts) get its \
                               settings";
                self.session.note("RG0112", at, message);
                for name in ["MFC", "UFC"] {
                    if let Some(config) = ProtocolConfig::named(name) {
                        self.add(config, e);
                    }
                }
            }
            Standing::Passive { why } => {
                let message = format!("{written} has no effect here: it {why}");
                self.session.note("RG0112", at, message);
            }
            Standing::NotYet { instead } => {
                self.out.incomplete = true;
                let message = format!("{} does not exist here yet", names::plain(written));
                let finding = self.session.error("RG0105", at, message);
                if let Some(other) = instead {
                    finding.help.push(format!(
                        "{other} serves the same purpose with other messages: all members of a \
                         cluster must use the same one"
                    ));
                }
                finding.help.push("all protocols: rgroups config protocols".into());
                nested::check(self.session, e);
            }
            Standing::Unknown { nearest } => {
                self.out.incomplete = true;
                let finding =
                    self.session.error("RG0100", at, format!("unknown protocol <{written}>"));
                finding.jgrp = Some("JGRP000002");
                if let Some(n) = nearest {
                    finding.label = format!("did you mean {n}?");
                }
                finding.help.push("all protocols: rgroups config protocols".into());
            }
        }
    }

    fn add(&mut self, config: ProtocolConfig, e: &Element) {
        let name = config.name();
        let mut config = with_defaults_of_jgroups(config);
        for attribute in &e.attributes {
            self.attribute(&mut config, e.name.text.as_str(), attribute);
        }
        if let Some(child) = e.children.first() {
            let message = format!("<{}> inside of <{}> is ignored", child.name.text, e.name.text);
            self.session.warn("RG0115", child.name.at, message);
        }
        self.out.places.push((name, e.name.at));
        self.out.plan.protocols.push(config);
    }

    /// One attribute of a protocol of the plan, such as one of the command line.
    pub(super) fn set(&mut self, protocol: &Text, attribute: &Attribute) {
        let name = names::plain(&protocol.text);
        let index =
            self.out.plan.protocols.iter().position(|p| p.name().eq_ignore_ascii_case(name));
        let Some(i) = index else {
            if name.eq_ignore_ascii_case("ENTRY") {
                return self.set_entry(attribute);
            }
            let names = self.out.plan.protocols.iter().map(ProtocolConfig::name);
            let near = nearest(name, names);
            let message = format!("the stack has no protocol {name:?}");
            let finding = self.session.error("RG0100", protocol.at, message);
            if let Some(n) = near {
                finding.label = format!("did you mean {n:?}?");
            }
            return;
        };
        let mut config = self.out.plan.protocols[i].clone();
        let written = config.name();
        self.attribute(&mut config, written, attribute);
        self.out.plan.protocols[i] = config;
    }

    fn set_entry(&mut self, attribute: &Attribute) {
        if let Err(e) = self.out.plan.set("ENTRY", &attribute.name.text, &attribute.value.text) {
            self.session.error("RG0101", attribute.name.at, e.to_string());
        }
    }

    fn attribute(&mut self, config: &mut ProtocolConfig, written: &str, attribute: &Attribute) {
        let protocol = config.name();
        let is_transport = config.transport().is_some();
        let Some(settings) = config.attributes_mut() else { return };
        let name = idle::renamed(&attribute.name.text);
        let Some(value) = self.value(written, attribute) else { return };
        // Diagnostics are a component of the transport, with settings of their own.
        let diag = name.strip_prefix(DIAG_PREFIX).filter(|_| is_transport);
        let diag = diag.and_then(|n| self.out.plan.diag.list().iter().find(|a| a.name == n));
        let Some(info) = diag.or_else(|| settings.list().iter().find(|a| a.name == name)) else {
            let diag = self.out.plan.diag.list().iter().filter(|_| is_transport);
            let diag: Vec<String> = diag.map(|a| format!("{DIAG_PREFIX}{}", a.name)).collect();
            let own = settings.list().iter().map(|a| a.name);
            let known: Vec<&str> = own.chain(diag.iter().map(String::as_str)).collect();
            return self.idle(protocol, written, attribute, &value, &known);
        };
        let Some(text) = self.meaning(protocol, info, &attribute.value, &value) else { return };
        let key = (protocol.to_owned(), name.to_owned());
        let set = match diag {
            Some(info) => self.out.plan.diag.set(info.name, &text),
            None => settings.set(name, &text),
        };
        if let Err(e) = set {
            let expected = expected(&e, info.kind);
            self.bad_value(protocol, &attribute.value, name, &value, &expected);
            return;
        }
        self.out.origins.insert(key, self.session.origin(attribute.name.at));
        self.out.given.insert((protocol, name.to_owned()), attribute.value.at);
    }

    /// The value with its properties replaced; none if nothing is left of it, which leaves the
    /// default, as in JGroups.
    fn value(&mut self, written: &str, attribute: &Attribute) -> Option<Value> {
        let raw = &attribute.value;
        self.asked.extend(property::names(&raw.text));
        let expanded = match self.properties.expand(&raw.text) {
            Ok(e) => e,
            Err(Unclosed) => {
                let message =
                    format!("\"${{\" without \"}}\" in the value of {}", attribute.name.text);
                self.session.error("RG0107", raw.at, message).label = "needs a }".into();
                return None;
            }
        };
        for names in &expanded.missing {
            let message = format!(
                "${{{names}}} has no value and no default: {written}.{} keeps its default",
                attribute.name.text
            );
            let finding = self.session.warn("RG0107", raw.at, message);
            finding.help.push(format!(
                "define it: -D {}=…, or write ${{{names}:default}}",
                names.split(',').next().unwrap_or(names)
            ));
        }
        if expanded.text.is_empty() && raw.text.contains("${") {
            return None;
        }
        Some(Value { text: expanded.text, from: expanded.from })
    }

    /// The value as the configuration reads it.
    fn meaning(
        &mut self,
        protocol: &'static str,
        info: &AttrInfo,
        written: &Text,
        value: &Value,
    ) -> Option<String> {
        let text = value.text.trim();
        if info.kind == <BindAddr as AttrValue>::KIND {
            return match bind_rule::check(text) {
                Ok(()) => Some(text.to_owned()),
                Err(why) => {
                    self.bad_value(protocol, written, info.name, value, &why);
                    None
                }
            };
        }
        if info.kind == <Vec<SocketAddr> as AttrValue>::KIND {
            return match units::hosts(text) {
                Ok(hosts) => Some(hosts.show()),
                Err(why) => {
                    let expected = format!("hosts with ports, such as 10.0.0.1[7800]; {why}");
                    self.bad_value(protocol, written, info.name, value, &expected);
                    None
                }
            };
        }
        if info.kind == <IpAddr as AttrValue>::KIND && text.eq_ignore_ascii_case("localhost") {
            return Some("127.0.0.1".to_owned());
        }
        match self.session.sources[written.at.source].form {
            Form::Toml | Form::Define => Some(text.to_owned()),
            Form::Xml => {
                let Some(meaning) = units::as_jgroups(info.kind, text) else {
                    self.bad_value(protocol, written, info.name, value, info.kind);
                    return None;
                };
                if let Some(oddity) = meaning.oddity {
                    let finding = self.session.warn("RG0110", written.at, oddity.message);
                    finding.help.push(oddity.help);
                }
                Some(meaning.text)
            }
        }
    }

    fn bad_value(
        &mut self,
        protocol: &str,
        at: &Text,
        attribute: &str,
        value: &Value,
        expected: &str,
    ) {
        let message = format!("{protocol}.{attribute}={:?}: expected {expected}", value.text);
        let finding = self.session.error("RG0102", at.at, message);
        if !value.from.is_empty() {
            finding.help.push(format!("the value came from {}", value.from.join(" and ")));
        }
    }

    /// An attribute that the protocol's configuration does not have.
    fn idle(
        &mut self,
        protocol: &str,
        written: &str,
        attribute: &Attribute,
        value: &Value,
        known: &[&str],
    ) {
        let (name, at) = (attribute.name.text.as_str(), attribute.name.at);
        let what = format!("{written}.{name}");
        let Some(i) = idle::find(protocol, name) else {
            let mut names: Vec<&str> = idle::names(protocol).collect();
            names.extend(known);
            let near = nearest(name, names.into_iter());
            let message = format!("unknown attribute {name:?} in <{written}>");
            let finding = self.session.error("RG0101", at, message);
            finding.jgrp = Some("JGRP000001");
            if let Some(n) = near {
                finding.label = format!("did you mean {n:?}?");
            }
            finding
                .help
                .push(format!("all attributes of {protocol}: rgroups config explain {protocol}"));
            return;
        };
        let asks = |nothing: &str| !value.text.trim().eq_ignore_ascii_case(nothing);
        match i.fate {
            Fate::Meaningless => {
                let message = format!("{what} has no meaning here: {}", i.why);
                self.session.note("RG0111", at, message);
            }
            Fate::Obsolete => {
                let message = format!("{what} is obsolete and ignored: {}", i.why);
                self.session.warn("RG0113", at, message);
            }
            Fate::Wanting(nothing) if asks(nothing) => {
                let message = format!("{what}={:?} has no effect here yet: {}", value.text, i.why);
                self.session.warn("RG0114", at, message);
            }
            Fate::Refused(nothing) if asks(nothing) => {
                let message = format!("{what}={:?} cannot be done here: {}", value.text, i.why);
                let finding = self.session.error("RG0114", at, message);
                finding.help.push("remove it, if the other members do without it too".into());
            }
            Fate::Wanting(_) | Fate::Refused(_) => {
                let message = format!("{what} is as it is here in any case: {}", i.why);
                self.session.note("RG0111", at, message);
            }
        }
    }

    /// Properties that stand for an attribute of their own.
    pub(super) fn system_properties(&mut self) {
        for (property, protocol, attribute) in SYSTEM_PROPERTIES {
            let has = self.out.plan.get(protocol, attribute).is_ok();
            let given = self.out.given.contains_key(&(protocol, attribute.to_owned()));
            // JGroups yields to the file, except for the address: the files that it ships give one,
            // and `-Djgroups.bind_addr` is what everybody starts them with.
            if !has || (given && attribute != "bind_addr") {
                continue;
            }
            self.asked.insert(property.to_owned());
            let Some((value, from)) = self.properties.get(property) else { continue };
            let source = self.session.add(super::source::Source {
                name: from,
                text: value.clone(),
                form: Form::Xml,
                folder: None,
            });
            let at = Span { source, start: 0, end: value.len() };
            let text = |t: &str| Text { text: t.to_owned(), at };
            let attribute = Attribute { name: text(attribute), value: text(&value) };
            self.set(&text(protocol), &attribute);
        }
    }

    /// Settings of ours that follow from others, as in the presets, unless they were given.
    pub(super) fn derive(&mut self) {
        let plan = &self.out.plan;
        let get = |p: &str, a: &str| plan.get(p, a).ok();
        let number = |p: &str, a: &str| get(p, a).and_then(|t| t.parse::<u64>().ok());
        let mut derived: Vec<(&'static str, &str, String)> = Vec::new();
        if let Some(join) = get("GMS", "join_timeout") {
            for ping in ["PING", "TCPPING", "SHARED_LOOPBACK_PING", "MPING"] {
                derived.push((ping, "join_wait", join.clone()));
            }
        }
        if let Some(t) = plan.transport() {
            derived.push(("MERGE3", "multicast", t.multicasts().to_string()));
        }
        let (stable, credits) = (number("STABLE", "max_bytes"), number("MFC", "max_credits"));
        if let (Some(stable), Some(credits)) = (stable, credits) {
            let retained = stable.saturating_mul(2).saturating_add(credits);
            derived.push(("NAKACK2", "retain_limit", retained.to_string()));
        }
        if let Some(credits) = credits {
            derived.push(("GMS", "max_held_bytes", credits.to_string()));
        }
        for (protocol, attribute, value) in derived {
            let given = self.out.given.contains_key(&(protocol, attribute.to_owned()));
            if !given && self.out.plan.get(protocol, attribute).is_ok() {
                // The values come from attributes of the same kinds.
                let _ = self.out.plan.set(protocol, attribute, &value);
                let key = (protocol.to_owned(), attribute.to_owned());
                self.out.origins.insert(key, "derived".to_owned());
            }
        }
    }
}

/// What a file starts from.
pub(super) fn with_defaults_of_jgroups(mut config: ProtocolConfig) -> ProtocolConfig {
    let name = config.name();
    for (protocol, attribute, value) in DEFAULTS_OF_JGROUPS {
        if let (true, Some(a)) = (protocol == name, config.attributes_mut()) {
            // Names and values of the table are tested against the protocols.
            let _ = a.set(attribute, value);
        }
    }
    config
}

fn expected(e: &rgroups_core::attributes::AttrError, kind: &str) -> String {
    match e {
        rgroups_core::attributes::AttrError::BadValue { expected, .. } => (*expected).to_owned(),
        rgroups_core::attributes::AttrError::Unknown { .. } => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_name_attributes_that_exist() {
        for (protocol, attribute, value) in DEFAULTS_OF_JGROUPS {
            let mut config = ProtocolConfig::named(protocol).expect("exists");
            config.attributes_mut().expect("has some").set(attribute, value).expect(attribute);
        }
    }
}
