//! Errors: one type an operation, each with a stable code and, where there is something to try, a
//! hint.

use crate::config::{ConfigReport, Finding};
use crate::net::bind::{NetInterface, interfaces};
use crate::{Address, Message};
use std::io;
use std::time::Duration;

/// What every error of this crate can say beside its text.
pub trait Diagnose: std::error::Error {
    /// A stable code, such as `RG0301`.
    fn code(&self) -> &'static str;
    /// What to try.
    fn hint(&self) -> Option<String>;
    /// The number by which JGroups says the same, where there is one.
    fn jgrp(&self) -> Option<&'static str> {
        crate::codes::find(self.code()).and_then(|c| c.jgrp)
    }
}

/// A configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The stack has no such protocol.
    #[error("the stack has no protocol {protocol:?}{}", did_you_mean(.suggestion))]
    UnknownProtocol {
        /// What was asked for.
        protocol: String,
        /// The nearest name.
        suggestion: Option<String>,
    },
    /// The protocol has no such attribute.
    #[error("{protocol} has no attribute {attribute:?}{}", did_you_mean(.suggestion))]
    UnknownAttribute {
        /// The protocol.
        protocol: String,
        /// What was asked for.
        attribute: String,
        /// The nearest name.
        suggestion: Option<String>,
    },
    /// The value is no value of this attribute.
    #[error("{protocol}.{attribute}={value:?}: expected {expected}")]
    BadValue {
        /// The protocol.
        protocol: String,
        /// The attribute.
        attribute: String,
        /// What was given.
        value: String,
        /// What it should be.
        expected: String,
    },
    /// The protocols do not fit together.
    #[error("stack: {}", .0.join("; "))]
    Stack(Vec<String>),
    /// A file or its definitions are wrong; everything that is, with places.
    #[error("the configuration cannot be used:\n{0}")]
    File(Box<ConfigReport>),
}

fn did_you_mean(s: &Option<String>) -> String {
    s.as_ref().map(|s| format!(" (did you mean {s:?}?)")).unwrap_or_default()
}

impl Diagnose for ConfigError {
    fn code(&self) -> &'static str {
        match self {
            ConfigError::UnknownProtocol { .. } => "RG0100",
            ConfigError::UnknownAttribute { .. } => "RG0101",
            ConfigError::BadValue { .. } => "RG0102",
            ConfigError::Stack(_) => "RG0104",
            ConfigError::File(report) => report.findings().first().map_or("RG0106", Finding::code),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            ConfigError::UnknownProtocol { .. } => None,
            ConfigError::UnknownAttribute { protocol, .. } => {
                Some(format!("all attributes of {protocol}: rgroups config explain {protocol}"))
            }
            ConfigError::BadValue { .. } | ConfigError::Stack(_) | ConfigError::File(_) => None,
        }
    }
}

/// Why a channel could not join.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No interface has an address as asked for.
    #[error(
        "no address for bind_addr={asked:?}{}; this host has: {}",
        .reasons.iter().map(|r| format!("; {r}")).collect::<String>(),
        .found.join(", ")
    )]
    NoAddress {
        /// What was asked for.
        asked: String,
        /// Why a rule found nothing, where there is more to say than that nothing matched.
        reasons: Vec<String>,
        /// The interfaces and their addresses.
        found: Vec<String>,
    },
    /// A socket could not be bound.
    #[error("cannot bind {what}: {source}")]
    Bind {
        /// Which.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The thread or the randomness that a member needs was refused by the system.
    #[error("the system refused what a member needs: {0}")]
    System(#[source] io::Error),
    /// The cluster name is empty or too long.
    #[error("the cluster name has {0} bytes; it needs 1 to 32767")]
    ClusterName(usize),
    /// The join failed for good.
    #[error("could not join {cluster:?}: {reason}")]
    Join {
        /// The cluster.
        cluster: String,
        /// Why.
        reason: String,
    },
    /// It joined, and could not have the state of another member.
    #[error(transparent)]
    State(#[from] crate::StateError),
    /// The channel was closed while it joined.
    #[error("closed while joining")]
    Closed,
}

impl Diagnose for ConnectError {
    fn code(&self) -> &'static str {
        match self {
            ConnectError::Config(e) => e.code(),
            ConnectError::State(e) => e.code(),
            ConnectError::NoAddress { .. } | ConnectError::Bind { .. } => "RG0201",
            ConnectError::System(_) => "RG0202",
            ConnectError::ClusterName(_) => "RG0103",
            ConnectError::Join { .. } | ConnectError::Closed => "RG0301",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            ConnectError::Config(e) => e.hint(),
            ConnectError::State(e) => e.hint(),
            ConnectError::NoAddress { .. } => {
                Some("set RGROUPS_BIND_ADDR or the attribute bind_addr of the transport".into())
            }
            ConnectError::Bind { what, .. } if what.starts_with("multicast") => Some(
                "IP multicast is not available here: use Config::tcp, or set UDP.ip_mcast=false \
                 with another discovery"
                    .into(),
            ),
            ConnectError::Bind { source, .. }
                if source.kind() == io::ErrorKind::AddrNotAvailable =>
            {
                Some(own_addresses(&interfaces()))
            }
            ConnectError::Bind { .. } => {
                Some("set RGROUPS_BIND_ADDR, or another bind_port or port_range".into())
            }
            ConnectError::Join { .. } => Some(
                "usual causes: AUTH or encryption on one side only; the coordinator cannot connect \
                 back to our address (external_addr of the transport); it is overloaded"
                    .into(),
            ),
            ConnectError::System(_) | ConnectError::ClusterName(_) | ConnectError::Closed => None,
        }
    }
}

/// What a member could bind to instead.
fn own_addresses(all: &[NetInterface]) -> String {
    let list: Vec<String> = all.iter().map(|i| format!("{} {}", i.name, i.ip)).collect();
    let outward = all.iter().find(|i| !i.ip.is_loopback());
    let name = outward.or(all.first()).map_or("lo", |i| i.name.as_str());
    format!("this host has: {}; try bind_addr=match-interface:{name}", list.join(", "))
}

/// Why a message was not sent. Nothing was sent then, and no sequence number was used up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The channel is closed.
    #[error("the channel is closed")]
    Closed,
    /// The destination is not in the view.
    #[error("{0} is not in the view")]
    NotMember(Address),
    /// The stack cannot carry it.
    #[error("message of {size} bytes is over the limit of {limit}")]
    TooLarge {
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// Acknowledgements were asked for, and no protocol of this stack collects them.
    #[error("send_and_wait needs RSVP in the stack")]
    NoRsvp,
    /// This member's view is not the primary one, and PRIMARY is configured with
    /// `minority="refuse"`.
    #[error("not sent: the view is not the primary one of the group")]
    NotPrimary,
    /// It waited for credit of these members for `slow_member_timeout`, and the configuration says
    /// `slow_member="fail"`. Nothing of it was sent.
    #[error("not sent: no credit of {} for too long", list(by))]
    SlowMember {
        /// Who gave too little credit; may be this member itself.
        by: Vec<Address>,
    },
}

fn list(members: &[Address]) -> String {
    members.iter().map(Address::to_string).collect::<Vec<_>>().join(", ")
}

impl Diagnose for SendError {
    fn code(&self) -> &'static str {
        match self {
            SendError::Closed => "RG0411",
            SendError::NotMember(_) => "RG0412",
            SendError::TooLarge { .. } => "RG0413",
            SendError::NoRsvp => "RG0431",
            SendError::NotPrimary => "RG0418",
            SendError::SlowMember { .. } => "RG0417",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            SendError::TooLarge { .. } => Some("put FRAG2 into the stack, which cuts it".into()),
            SendError::NoRsvp => Some("add RSVP to the stack; the presets have it".into()),
            SendError::SlowMember { .. } => Some(
                "the members named read slowly: speed them up, or see slow_member in MFC and UFC"
                    .into(),
            ),
            SendError::NotPrimary => {
                Some("wait for Event::Primary; see minority in PRIMARY".into())
            }
            SendError::Closed | SendError::NotMember(_) => None,
        }
    }
}

/// Why a message was not sent at once.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrySendError {
    /// It would have to wait.
    #[error("no credits{}", .blocked_on.map(|a| format!(" left towards {a}")).unwrap_or_default())]
    NoCredits {
        /// Who limits it, where that is known.
        blocked_on: Option<Address>,
        /// The message.
        message: Box<Message>,
    },
    /// It cannot be sent.
    #[error(transparent)]
    Other(#[from] SendError),
}

impl Diagnose for TrySendError {
    fn code(&self) -> &'static str {
        match self {
            TrySendError::NoCredits { .. } => "RG0410",
            TrySendError::Other(e) => e.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            TrySendError::NoCredits { .. } => Some("wait with send, or drop it".into()),
            TrySendError::Other(e) => e.hint(),
        }
    }
}

/// A leave that was not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// The coordinator did not answer in time. The member is gone all the same; the others find
    /// out by failure detection.
    #[error("left without confirmation of the coordinator after {0:?}")]
    Unconfirmed(Duration),
}

impl Diagnose for CloseError {
    fn code(&self) -> &'static str {
        "RG0303"
    }

    fn hint(&self) -> Option<String> {
        None
    }
}
