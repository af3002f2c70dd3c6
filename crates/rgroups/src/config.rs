//! Configuration: a preset, changed attribute by attribute.

use crate::error::{ConfigError, ConnectError};
use crate::net::beacon::BeaconPlan;
use crate::net::bind::{BindChoice, IpVersion, Place, choose_bind_addr};
use crate::net::tcp::ListenPlan;
use crate::net::udp::UdpPlan;
use crate::net::{Endpoint, External, MonitorPlan, NetPlan};
use rgroups_core::attributes::{AttrError, Attributes};
use rgroups_core::bind_addr::BindAddr;
use rgroups_core::plan::{DIAG_PREFIX, PlanProblem, ProtocolConfig, StackPlan};
use rgroups_core::protocols::transport::TransportConfig;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Which protocols a channel uses, and how. Data: cheap to clone, usable for any number of
/// channels.
#[derive(Clone, Debug)]
pub struct Config {
    plan: StackPlan,
    origins: BTreeMap<(String, String), String>,
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
    /// Where it came from: `preset`, or `set`.
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
    /// JGroups' `udp-new.xml`, and compatible with it.
    #[must_use]
    pub fn udp_new() -> Self {
        Self::from_plan(StackPlan::udp_new())
    }

    /// As [`Config::tcp`], with windows of unacknowledged messages in place of credits. The stack of
    /// JGroups' `tcp-new.xml`, and compatible with it.
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
        Self { plan, origins: BTreeMap::new() }
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

    /// All effective values, from the bottom of the stack up.
    #[must_use]
    pub fn explain(&self) -> Vec<Setting> {
        let mut all = Vec::new();
        for attributes in self.plan.protocols.iter().filter_map(ProtocolConfig::attributes) {
            for attr in attributes.list() {
                let protocol = attributes.protocol().to_owned();
                let attribute = attr.name.to_owned();
                let key = (protocol, attribute);
                let origin = self.origins.get(&key).map_or("preset", String::as_str).to_owned();
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
                let origin = self.origins.get(&key).map_or("preset", String::as_str).to_owned();
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
        for w in warnings {
            tracing::warn!("{w}");
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
        let place = choice.as_ref().map(Place::from);
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
    fn beacon(&self, transport: Place) -> Result<Option<BeaconPlan>, ConnectError> {
        let Some(ProtocolConfig::Mping(c)) = self.plan.find("MPING") else { return Ok(None) };
        let place = match &c.bind_addr {
            Some(asked) => Place::from(&self.choose(Some(asked))?),
            None => transport,
        };
        Ok(Some(BeaconPlan { place, group: c.group(place.ip), ttl: c.ip_ttl }))
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
mod tests {
    use super::*;

    #[test]
    fn a_slip_in_a_name_is_refused_with_a_suggestion() {
        let e = Config::udp().set("UDP", "bind_prot", "1").expect_err("no such attribute");
        assert_eq!(
            e.to_string(),
            "UDP has no attribute \"bind_prot\" (did you mean \"bind_port\"?)"
        );
        let e = Config::udp().set("UDPP", "bind_port", "1").expect_err("no such protocol");
        assert!(e.to_string().contains("did you mean \"UDP\""), "{e}");
    }

    #[test]
    fn a_value_that_cannot_be_read_is_refused() {
        let e = Config::udp().set("UDP", "bind_port", "high").expect_err("no number");
        assert!(matches!(e, ConfigError::BadValue { .. }), "{e}");
    }

    #[test]
    fn explain_tells_value_and_origin() {
        let c = Config::udp().set("UDP", "bind_port", "7800").expect("valid");
        let all = c.explain();
        let port = all.iter().find(|s| s.attribute == "bind_port").expect("listed");
        assert_eq!((port.value.as_str(), port.origin.as_str()), ("7800", "set"));
        let ttl = all.iter().find(|s| s.attribute == "ip_ttl").expect("listed");
        assert_eq!((ttl.value.as_str(), ttl.origin.as_str()), ("8", "preset"));
    }
}
