//! Names of protocols: those that exist here, those that stand for one that does, and those that
//! JGroups has and this does not.

use rgroups_core::attributes::nearest;
use rgroups_core::plan::ProtocolConfig;

/// What a name in a file means here.
#[derive(Clone, Debug)]
pub(super) enum Standing {
    /// The protocol exists.
    Here(ProtocolConfig),
    /// Another one does the same, with the same messages.
    As {
        /// That one.
        config: ProtocolConfig,
        /// Why it does.
        why: &'static str,
    },
    /// The old flow control, which was divided in two.
    FlowControl,
    /// It has no messages of its own and no effect that would be missed.
    Passive {
        /// What it does in JGroups.
        why: &'static str,
    },
    /// JGroups has it.
    NotYet {
        /// A protocol here that serves the same purpose, with other messages.
        instead: Option<&'static str>,
    },
    /// Nobody has it.
    Unknown {
        /// The nearest name.
        nearest: Option<String>,
    },
}

/// Protocols that speak as another one does.
const SAME: [(&str, &str, &str); 2] = [
    ("TCP_NIO2", "TCP", "both frame messages alike; non-blocking sockets are used in any case"),
    ("LOCAL_PING", "SHARED_LOOPBACK_PING", "both find members of the same process"),
];

/// Protocols that only watch.
const PASSIVE: [(&str, &str); 3] = [
    ("RED", "drops unicasts of the own queue at random before it is full; queues are bounded here"),
    ("STATS", "counts messages; counters are always kept here"),
    ("TIME", "measures how long messages take through the stack"),
];

/// The other protocols of JGroups, and what serves the same purpose here.
const OTHERS: [(&str, Option<&str>); 67] = [
    ("ASYM_ENCRYPT", None),
    ("AUTH", None),
    ("AZURE_PING", None),
    ("BATCH2", None),
    ("BPING", Some("PING")),
    ("CLEAR_FLAGS", None),
    ("CLIENT", None),
    ("COMPRESS", None),
    ("COUNTER", None),
    ("DAISYCHAIN", None),
    ("DH_KEY_EXCHANGE", None),
    ("DISCARD_PAYLOAD", Some("DISCARD")),
    ("DNS_PING", None),
    ("ELECTION", None),
    ("ENCRYPT", None),
    ("EXAMPLE", None),
    ("FD", Some("FD_ALL3")),
    ("FD_ALL", Some("FD_ALL3")),
    ("FD_ALL2", Some("FD_ALL3")),
    ("FD_HOST", None),
    ("FD_SOCK", Some("FD_SOCK2")),
    ("FILE_PING", None),
    ("FLUSH", None),
    ("FORK", None),
    ("FRAG", Some("FRAG2")),
    ("FRAG3", Some("FRAG2")),
    ("FRAG4", Some("FRAG2")),
    ("HDRS", None),
    ("INJECT_VIEW", None),
    ("JDBC_PING", None),
    ("JDBC_PING2", None),
    ("KUBE_PING", None),
    ("MAKE_BATCH", None),
    ("MERGE2", Some("MERGE3")),
    ("MONGO_PING", None),
    ("NAKACK", Some("NAKACK2")),
    ("NAKACK3", Some("NAKACK2")),
    ("NON_BLOCKING_SENDS", None),
    ("OPEN_TELEMETRY", None),
    ("PDC", None),
    ("PERF", None),
    ("RACKSPACE_PING", None),
    ("RAFT", None),
    ("RATE", None),
    ("RATE_LIMITER", Some("MFC")),
    ("RATE_LIMITER2", Some("MFC")),
    ("REDIRECT", None),
    ("RELAY2", None),
    ("RELAY3", None),
    ("REVERSE", None),
    ("REVERSE2", None),
    ("S3_PING", None),
    ("SASL", None),
    ("SEQUENCER2", None),
    ("SERIALIZE", None),
    ("SIZE", None),
    ("SIZE2", None),
    ("SNIFF", None),
    ("SOS", None),
    ("SSL_KEY_EXCHANGE", None),
    ("STOMP", None),
    ("SWIFT_PING", None),
    ("SYM_ENCRYPT", None),
    ("TCPGOSSIP", None),
    ("THREAD_COUNT", None),
    ("TRACE", None),
    ("TUNNEL", None),
];

/// Packages of JGroups that may stand in front of a name.
const PACKAGES: [&str; 6] = ["pbcast.", "relay.", "dns.", "raft.", "azure.", "mongo."];

/// The name without its Java package.
pub(super) fn plain(name: &str) -> &str {
    let name = name.strip_prefix("org.jgroups.protocols.").unwrap_or(name);
    PACKAGES.iter().find_map(|p| name.strip_prefix(p)).unwrap_or(name)
}

/// The name as JGroups' files have it.
pub(super) fn of_jgroups(name: &str) -> String {
    match name {
        "NAKACK2" | "GMS" | "STABLE" | "STATE_TRANSFER" | "STATE" | "STATE_SOCK" => {
            format!("pbcast.{name}")
        }
        _ => name.to_owned(),
    }
}

/// What `name` means here. Case matters, as in JGroups.
pub(super) fn standing(name: &str) -> Standing {
    let name = plain(name);
    if let Some(config) = here(name) {
        return Standing::Here(config);
    }
    if let Some((_, other, why)) = SAME.iter().find(|(n, ..)| *n == name)
        && let Some(config) = here(other)
    {
        return Standing::As { config, why };
    }
    if name == "FC" {
        return Standing::FlowControl;
    }
    if let Some((_, why)) = PASSIVE.iter().find(|(n, _)| *n == name) {
        return Standing::Passive { why };
    }
    if let Some((_, instead)) = OTHERS.iter().find(|(n, _)| *n == name) {
        return Standing::NotYet { instead: *instead };
    }
    Standing::Unknown { nearest: near(name) }
}

fn here(name: &str) -> Option<ProtocolConfig> {
    ProtocolConfig::named(name).filter(|c| c.name() == name)
}

fn near(name: &str) -> Option<String> {
    let here = ProtocolConfig::all();
    let known = here.iter().map(ProtocolConfig::name);
    let known = known
        .chain(SAME.iter().map(|(n, ..)| *n))
        .chain(PASSIVE.iter().map(|(n, _)| *n))
        .chain(OTHERS.iter().map(|(n, _)| *n));
    nearest(&name.to_uppercase(), known).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_in_front_of_a_name_do_not_matter() {
        for name in ["GMS", "pbcast.GMS", "org.jgroups.protocols.pbcast.GMS"] {
            assert!(matches!(standing(name), Standing::Here(c) if c.name() == "GMS"), "{name}");
        }
        assert_eq!(plain("relay.RELAY3"), "RELAY3");
    }

    #[test]
    fn a_protocol_that_only_jgroups_has_is_told_from_a_slip() {
        assert!(matches!(standing("FD_SOCK"), Standing::NotYet { instead: Some("FD_SOCK2") }));
        let slips = [("PNIG", "PING"), ("ping", "PING"), ("FD_SOK2", "FD_SOCK2")];
        for (slip, meant) in slips {
            let Standing::Unknown { nearest } = standing(slip) else { panic!("{slip} is unknown") };
            assert_eq!(nearest.as_deref(), Some(meant));
        }
    }

    #[test]
    fn what_stands_for_another_exists() {
        for (name, ..) in SAME {
            assert!(matches!(standing(name), Standing::As { .. }), "{name}");
        }
        for (_, instead) in OTHERS {
            assert!(instead.is_none_or(|i| here(i).is_some()), "{instead:?}");
        }
    }
}
