//! Configuration: a preset or a file, changed attribute by attribute.
//!
//! A file passes through [`files`] (which finds it and what it includes), [`xml`] or [`toml`] (text to
//! elements with places), [`assemble`] (elements to a plan; [`property`], [`units`], [`names`] and
//! [`idle`] say what the words mean) and [`cross`] (what does not fit together). All of them report
//! into one [`source::Session`], which ends as a [`ConfigReport`].

mod assemble;
mod bind_rule;
mod cross;
mod files;
mod idle;
mod load;
mod names;
mod nested;
mod presets;
mod property;
mod report;
mod source;
mod toml;
mod units;
mod write;
mod xml;

pub use load::ConfigLoader;
pub use presets::presets;
pub use report::{ConfigReport, Finding, Place, Severity};
pub use write::StackFile;

use crate::error::{ConfigError, ConnectError};
use crate::net::beacon::BeaconPlan;
use crate::net::bind::{self, BindChoice, IpVersion, choose_bind_addr};
use crate::net::tcp::ListenPlan;
use crate::net::udp::UdpPlan;
use crate::net::{Endpoint, External, MonitorPlan, NetPlan};
use rgroups_core::attributes::{AttrError, Attributes, nearest};
use rgroups_core::bind_addr::BindAddr;
use rgroups_core::plan::{DIAG_PREFIX, PlanProblem, ProtocolConfig, StackPlan};
use rgroups_core::protocols::transport::TransportConfig;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Which protocols a channel uses, and how. Data: cheap to clone, usable for any number of
/// channels.
#[derive(Clone, Debug)]
pub struct Config {
    plan: StackPlan,
    /// Where values came from that are not those of `base`.
    origins: BTreeMap<(String, String), String>,
    /// What the other values are.
    base: &'static str,
    report: Arc<ConfigReport>,
}

/// One effective value of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The protocol.
    pub protocol: String,
    /// The attribute.
    pub attribute: String,
    /// Its value, as text.
    pub value: String,
    /// Where it came from: `preset`, `default`, `derived` (from another value), `set` (by the
    /// program), or a place: `udp.xml:9`, `-D MFC.max_credits=2M`.
    pub origin: String,
    /// What it means.
    pub doc: String,
}

impl Config {
    /// Datagrams with IP multicast: members of one network find each other. The stack of JGroups'
    /// `udp.xml`, and compatible with it.
    #[must_use]
    pub fn udp() -> Self {
        Self::from_plan(StackPlan::udp())
    }

    /// Streams, for networks without multicast: members find each other by these addresses, of
    /// which one that answers is enough. The stack of JGroups' `tcp.xml`, and compatible with it.
    #[must_use]
    pub fn tcp(initial_hosts: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self::from_plan(StackPlan::tcp(initial_hosts))
    }

    /// As [`Config::udp`], with windows of unacknowledged messages in place of credits. The stack of
    /// JGroups' `udp-new.xml`, and compatible with it. Receivers keep nothing for others: when a
    /// member dies, some may have its last messages and others not.
    #[must_use]
    pub fn udp_new() -> Self {
        Self::from_plan(StackPlan::udp_new())
    }

    /// As [`Config::tcp`], with windows of unacknowledged messages in place of credits. The stack of
    /// JGroups' `tcp-new.xml`, and compatible with it. Receivers keep nothing for others, as with
    /// [`Config::udp_new`].
    #[must_use]
    pub fn tcp_new(initial_hosts: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self::from_plan(StackPlan::tcp_new(initial_hosts))
    }

    /// All members in this process; no socket is opened. For tests and demonstrations.
    #[must_use]
    pub fn in_process() -> Self {
        Self::from_plan(StackPlan::in_process())
    }

    /// A plan made by hand.
    #[doc(hidden)]
    #[must_use]
    pub fn from_plan(plan: StackPlan) -> Self {
        Self { plan, ..Self::empty("preset") }
    }

    fn empty(base: &'static str) -> Self {
        Self { plan: StackPlan::default(), origins: BTreeMap::new(), base, report: Arc::default() }
    }

    /// Reads a file: TOML if its name ends in `.toml`, else XML as JGroups reads it, with the
    /// protocols and attributes that JGroups' files have. All mistakes are reported at once.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        ConfigLoader::new().load_file(path)
    }

    /// Reads the text of an XML file.
    pub fn from_xml(text: &str) -> Result<Self, ConfigError> {
        ConfigLoader::new().load_xml(text)
    }

    /// Reads the text of a TOML file.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        ConfigLoader::new().load_toml(text)
    }

    /// A file by its path, or a preset by its name (`udp`, `tcp.xml` …) if there is no such file.
    /// To define properties or to set attributes beside it: [`ConfigLoader`].
    pub fn load(name: &str) -> Result<Self, ConfigError> {
        ConfigLoader::new().load(name)
    }

    /// What was doubtful or worth knowing when it was loaded.
    #[must_use]
    pub fn report(&self) -> &ConfigReport {
        &self.report
    }

    /// The plan.
    #[doc(hidden)]
    #[must_use]
    pub fn plan(&self) -> &StackPlan {
        &self.plan
    }

    /// Sets one attribute of one protocol, checked at once: `set("UDP", "bind_port", "7800")`.
    /// Names are those of JGroups; units too (`500ms`, `4M`).
    pub fn set(
        mut self,
        protocol: &str,
        attribute: &str,
        value: &str,
    ) -> Result<Self, ConfigError> {
        self.plan.set(protocol, attribute, value).map_err(|p| mistake(protocol, p))?;
        let name = self.plan.find(protocol).map_or("", ProtocolConfig::name);
        self.origins.insert((name.to_owned(), attribute.to_owned()), "set".to_owned());
        Ok(self)
    }

    /// With the protocol `name` and its defaults directly above `below`, which is in the stack:
    /// `insert_above("GMS", "PRIMARY")`. Whether it fits there is seen by [`Config::check`].
    pub fn insert_above(mut self, below: &str, name: &str) -> Result<Self, ConfigError> {
        let unknown = |name: &str, all: &[ProtocolConfig]| ConfigError::UnknownProtocol {
            protocol: name.to_owned(),
            suggestion: nearest(name, all.iter().map(ProtocolConfig::name)).map(str::to_owned),
        };
        let config = ProtocolConfig::named(name);
        let config = config.ok_or_else(|| unknown(name, &ProtocolConfig::all()))?;
        if self.plan.find(below).is_none() {
            return Err(unknown(below, &self.plan.protocols));
        }
        self.plan = self.plan.insert_above(below, config);
        Ok(self)
    }

    /// With the protocol `name` and its defaults on top of the stack: `on_top("COUNTER")`.
    pub fn on_top(self, name: &str) -> Result<Self, ConfigError> {
        match self.plan.protocols.last().map(ProtocolConfig::name) {
            Some(top) => self.insert_above(top, name),
            None => Err(ConfigError::Stack(vec![format!("nothing to put {name} on")])),
        }
    }

    /// With SEQUENCER, which makes all members deliver all multicasts in the same order, below the
    /// fragmentation. All members of a cluster need it. A stack that has it stays as it is.
    pub fn with_total_order(mut self) -> Result<Self, ConfigError> {
        const ABOVE: &str = "FRAG2";
        if self.plan.find("SEQUENCER").is_some() {
            return Ok(self);
        }
        let sequencer =
            ProtocolConfig::named("SEQUENCER").filter(|_| self.plan.find(ABOVE).is_some());
        let Some(sequencer) = sequencer else {
            return Err(ConfigError::Stack(vec![format!(
                "SEQUENCER belongs below {ABOVE}, which is not in the stack"
            )]));
        };
        self.plan = self.plan.insert_below(ABOVE, sequencer);
        Ok(self)
    }

    /// With this protocol for states, in the place of the one there is: `STATE` (in parts, for states
    /// of any size), `STATE_SOCK` (over a connection of its own) or `STATE_TRANSFER` (in one
    /// message; what the presets have). All members of a cluster need the same one.
    pub fn with_state_protocol(mut self, name: &str) -> Result<Self, ConfigError> {
        const NAMES: [&str; 3] = ["STATE", "STATE_SOCK", "STATE_TRANSFER"];
        let known = NAMES.into_iter().find(|n| n.eq_ignore_ascii_case(name));
        let Some(config) = known.and_then(ProtocolConfig::named) else {
            let suggestion =
                rgroups_core::attributes::nearest(name, NAMES.into_iter()).map(str::to_owned);
            return Err(ConfigError::UnknownProtocol { protocol: name.to_owned(), suggestion });
        };
        let old = self.plan.protocols.iter_mut().find(|p| NAMES.contains(&p.name()));
        match old {
            Some(old) if old.name() == config.name() => {}
            Some(old) => *old = config,
            None => self.plan.protocols.push(config),
        }
        Ok(self)
    }

    /// The names of the protocols, from the bottom of the stack up.
    #[must_use]
    pub fn protocols(&self) -> Vec<&'static str> {
        self.plan.protocols.iter().map(ProtocolConfig::name).collect()
    }

    /// The name of the transport: `UDP`, `TCP` or `SHARED_LOOPBACK`.
    #[must_use]
    pub fn transport(&self) -> Option<&'static str> {
        self.plan.transport().map(|t| t.name())
    }

    /// All effective values, from the bottom of the stack up.
    #[must_use]
    pub fn explain(&self) -> Vec<Setting> {
        let mut all = Vec::new();
        for attributes in self.plan.protocols.iter().filter_map(ProtocolConfig::attributes) {
            for attr in attributes.list() {
                let protocol = attributes.protocol().to_owned();
                let attribute = attr.name.to_owned();
                let key = (protocol, attribute);
                let origin = self.origins.get(&key).map_or(self.base, String::as_str).to_owned();
                let (protocol, attribute) = key;
                let value = attributes.show(attr.name).unwrap_or_default();
                let doc = attr.doc.trim().to_owned();
                all.push(Setting { protocol, attribute, value, origin, doc });
            }
        }
        if let Some(transport) = self.plan.transport() {
            let diag = &self.plan.diag;
            for attr in diag.list() {
                let attribute = format!("{DIAG_PREFIX}{}", attr.name);
                let key = (transport.name().to_owned(), attribute);
                let origin = self.origins.get(&key).map_or(self.base, String::as_str).to_owned();
                let (protocol, attribute) = key;
                let value = diag.show(attr.name).unwrap_or_default();
                let doc = attr.doc.trim().to_owned();
                all.push(Setting { protocol, attribute, value, origin, doc });
            }
        }
        all
    }

    /// What does not fit together, as far as that can be told without starting.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (warnings, errors): (Vec<PlanProblem>, Vec<PlanProblem>) =
            self.plan.validate().into_iter().partition(PlanProblem::is_warning);
        // The report of a file has these too, with places.
        let reported = self.report.findings();
        for w in warnings.iter().filter(|_| reported.is_empty()) {
            tracing::warn!("{w}");
        }
        for f in reported {
            match f.severity() {
                Severity::Note => tracing::debug!(code = f.code(), "{}", f.one_line()),
                Severity::Warning | Severity::Error => {
                    tracing::warn!(code = f.code(), "{}", f.one_line());
                }
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(problems(&errors)) }
    }

    /// The address that the transport binds to, and why it is that one; `None` if the stack needs
    /// none.
    pub fn bind_choice(&self) -> Result<Option<BindChoice>, ConnectError> {
        let asked = match self.plan.transport() {
            Some(TransportConfig::Udp(c)) => c.bind_addr,
            Some(TransportConfig::Tcp(c)) => c.bind_addr,
            Some(TransportConfig::InProcess(_)) | None => return Ok(None),
        };
        let choice = self.choose(asked.as_ref())?;
        let mixed: Vec<String> = self
            .other_addresses()
            .into_iter()
            .filter(|(_, ip)| ip.is_ipv4() != choice.ip.is_ipv4())
            .map(|(attribute, ip)| {
                format!(
                    "{attribute}={ip}, but the member binds to {choice}: members of a group use \
                     one version of IP, both IPv4 or both IPv6"
                )
            })
            .collect();
        if mixed.is_empty() { Ok(Some(choice)) } else { Err(ConfigError::Stack(mixed).into()) }
    }

    /// The address that `asked` means, if it says anything.
    pub(crate) fn place(&self, asked: Option<&BindAddr>) -> Result<Option<IpAddr>, ConnectError> {
        let choice = asked.map(|asked| self.choose(Some(asked))).transpose()?;
        Ok(choice.map(|c| bind::Place::from(&c).ip))
    }

    fn choose(&self, asked: Option<&BindAddr>) -> Result<BindChoice, ConnectError> {
        let version = self.other_addresses().first().map(|(_, ip)| IpVersion::of(*ip));
        choose_bind_addr(asked.map(BindAddr::as_str), version).map_err(|e| {
            ConnectError::NoAddress { asked: e.asked, reasons: e.reasons, found: e.found }
        })
    }

    /// Addresses that are written out; the member's own must be of the same version of IP.
    fn other_addresses(&self) -> Vec<(&'static str, IpAddr)> {
        let mut all = Vec::new();
        for p in &self.plan.protocols {
            match p {
                ProtocolConfig::Udp(c) if c.ip_mcast => {
                    all.extend(c.mcast_addr.map(|ip| ("UDP.mcast_addr", ip)));
                }
                ProtocolConfig::Mping(c) => {
                    all.extend(c.mcast_addr.map(|ip| ("MPING.mcast_addr", ip)));
                }
                ProtocolConfig::TcpPing(c) => {
                    all.extend(c.initial_hosts.iter().map(|h| ("TCPPING.initial_hosts", h.ip())));
                }
                _ => {}
            }
        }
        all
    }

    /// What the driver must bind for this configuration.
    pub(crate) fn net_plan(&self, connect_timeout: Duration) -> Result<NetPlan, ConnectError> {
        let size =
            |s: rgroups_core::attributes::ByteSize| usize::try_from(s.0).unwrap_or(usize::MAX);
        let choice = self.bind_choice()?;
        let place = choice.as_ref().map(bind::Place::from);
        let endpoint = match (self.plan.transport(), place) {
            (Some(TransportConfig::Udp(c)), Some(place)) => Endpoint::Udp(UdpPlan {
                place,
                port: c.bind_port,
                port_range: c.port_range,
                group: c.group(place.ip),
                ttl: c.ip_ttl,
                ucast_recv_buf: size(c.ucast_recv_buf_size),
                ucast_send_buf: size(c.ucast_send_buf_size),
                mcast_recv_buf: size(c.mcast_recv_buf_size),
                external: External { addr: c.external_addr, port: c.external_port },
            }),
            (Some(TransportConfig::Tcp(c)), Some(place)) => Endpoint::Tcp(ListenPlan {
                place,
                port: c.bind_port,
                port_range: c.port_range,
                recv_buf: size(c.recv_buf_size),
                send_buf: size(c.send_buf_size),
                nodelay: c.tcp_nodelay,
                external: External { addr: c.external_addr, port: c.external_port },
            }),
            (Some(TransportConfig::InProcess(c)), _) => Endpoint::Hub(c.hub),
            (Some(TransportConfig::Udp(_) | TransportConfig::Tcp(_)), None) | (None, _) => {
                return Err(ConnectError::Config(problems(&[PlanProblem::NoTransport])));
            }
        };
        let beacon = place.map(|place| self.beacon(place)).transpose()?.flatten();
        Ok(NetPlan { endpoint, monitor: self.monitor(), beacon, connect_timeout })
    }

    /// The sockets of MPING, if the stack has it; on the transport's interface unless another one
    /// is asked for.
    fn beacon(&self, transport: bind::Place) -> Result<Option<BeaconPlan>, ConnectError> {
        let Some(ProtocolConfig::Mping(c)) = self.plan.find("MPING") else { return Ok(None) };
        let place = match &c.bind_addr {
            Some(asked) => bind::Place::from(&self.choose(Some(asked))?),
            None => transport,
        };
        Ok(Some(BeaconPlan { place, group: c.group(place.ip), ttl: c.ip_ttl }))
    }

    /// Where a member looks for others, in words. `place`: where it is itself.
    pub(crate) fn asked(&self, place: IpAddr) -> String {
        let mut asked = Vec::new();
        for p in &self.plan.protocols {
            match p {
                ProtocolConfig::Ping(_) => {
                    if let Some(TransportConfig::Udp(c)) = self.plan.transport() {
                        asked.extend(c.group(place).map(|group| format!("multicast {group}")));
                    }
                }
                ProtocolConfig::Mping(c) => asked.push(format!("multicast {}", c.group(place))),
                ProtocolConfig::TcpPing(c) => {
                    let hosts = c.initial_hosts.iter().map(ToString::to_string);
                    let hosts = hosts.collect::<Vec<_>>().join(", ");
                    asked.push(format!("{hosts} and the {} ports above each", c.port_range));
                }
                ProtocolConfig::LocalPing(_) => asked.push("this process".into()),
                _ => {}
            }
        }
        if asked.is_empty() { "nobody".into() } else { asked.join(", ") }
    }

    /// Where FD_SOCK2 listens, if the stack has it.
    pub(crate) fn monitor(&self) -> Option<MonitorPlan> {
        let number = |attribute: &str, default: u16| {
            let text = self.plan.get("FD_SOCK2", attribute).ok();
            text.and_then(|t| t.parse().ok()).unwrap_or(default)
        };
        self.plan.find("FD_SOCK2")?;
        Some(MonitorPlan { offset: number("offset", 100), port_range: number("port_range", 3) })
    }
}

fn mistake(protocol: &str, p: PlanProblem) -> ConfigError {
    match p {
        PlanProblem::NoSuchProtocol { name, nearest } => {
            ConfigError::UnknownProtocol { protocol: name, suggestion: nearest.map(str::to_owned) }
        }
        PlanProblem::Attribute { protocol, error: AttrError::Unknown { name, nearest } } => {
            ConfigError::UnknownAttribute {
                protocol: protocol.to_owned(),
                attribute: name,
                suggestion: nearest.map(str::to_owned),
            }
        }
        PlanProblem::Attribute {
            protocol,
            error: AttrError::BadValue { name, value, expected },
        } => ConfigError::BadValue {
            protocol: protocol.to_owned(),
            attribute: name.to_owned(),
            value,
            expected: expected.to_owned(),
        },
        other => ConfigError::Stack(vec![format!("{protocol}: {other}")]),
    }
}

pub(crate) fn problems(list: &[PlanProblem]) -> ConfigError {
    ConfigError::Stack(list.iter().map(ToString::to_string).collect())
}

#[cfg(test)]
mod tests;
