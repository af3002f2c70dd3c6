//! The settings of the diagnostics handler, which answers JGroups' Probe and `rgroups probe`. It is
//! a part of the transport: its attributes are the transport's, with `diag.` in front.

use crate::attributes;
use crate::attributes::AttrValue;
use alloc::string::String;
use core::fmt;
use core::net::IpAddr;

/// What comes before the names of these attributes.
pub const PREFIX: &str = "diag.";

attributes! {
    /// Answers questions about this member (JGroups `DiagnosticsHandler`).
    pub struct DiagConfig for "diag" {
        /// Whether questions are answered. Default false. Whoever can reach the port can read
        /// everything that protocols report, unless a passcode is set.
        enabled: bool = false,
        /// Answer datagrams to the multicast group. Default true.
        enable_udp: bool = true,
        /// Answer over TCP. Default false.
        enable_tcp: bool = false,
        /// The multicast group. Default 224.0.75.75, or ff0e::0:75:75 for members with an IPv6
        /// address.
        mcast_addr: Option<IpAddr> = None,
        /// The port of the group, and the first one tried for TCP. Default 7500.
        port: u16 = 7500,
        /// How many further ports are tried for TCP. Default 50.
        port_range: u16 = 50,
        /// The local address for TCP. Default none: the address that the transport is bound to.
        bind_addr: Option<IpAddr> = None,
        /// Names of the interfaces on which the group is joined, separated by commas. Default none:
        /// only the interface that the transport is bound to, where JGroups takes all there are.
        bind_interfaces: String = String::new(),
        /// Requests must prove that they know this word. Default none.
        passcode: Option<Secret> = None,
    }
}

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text, for whoever must compare it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl AttrValue for Secret {
    const KIND: &'static str = "text";
    fn parse(text: &str) -> Option<Self> {
        Some(Secret(text.into()))
    }
    fn show(&self) -> String {
        String::from("(secret)")
    }
}
