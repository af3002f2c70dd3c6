//! Which of its host's addresses a member uses, as text. What it means is for the driver, which
//! knows the interfaces.

use crate::attributes::AttrValue;
use alloc::string::{String, ToString};
use core::fmt;
use core::net::IpAddr;

/// JGroups' `bind_addr`: an address, the name of an interface or of a host, one of `GLOBAL`,
/// `SITE_LOCAL`, `LINK_LOCAL`, `NON_LOOPBACK` and `LOOPBACK`, a pattern such as
/// `match-interface:eth.*`, or several of these with commas, of which the first that matches counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindAddr(String);

impl BindAddr {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address, if it is written out and nothing else is.
    #[must_use]
    pub fn literal(&self) -> Option<IpAddr> {
        self.0.parse().ok()
    }
}

impl From<IpAddr> for BindAddr {
    fn from(ip: IpAddr) -> Self {
        BindAddr(ip.to_string())
    }
}

impl fmt::Display for BindAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AttrValue for BindAddr {
    const KIND: &'static str = "an address, the name of an interface or host, GLOBAL, SITE_LOCAL, \
        LINK_LOCAL, NON_LOOPBACK, LOOPBACK, match-interface:, match-host: or match-address: with a \
        pattern, or a list of these with commas";

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let rules = text.split(',').any(|rule| !rule.trim().is_empty());
        rules.then(|| BindAddr(text.to_string()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_single_address_is_a_literal() {
        let of = |text| BindAddr::parse(text).unwrap().literal();
        assert_eq!(of(" ::1 "), Some(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])));
        assert_eq!(of("10.0.0.1,LOOPBACK"), None);
        assert_eq!(of("eth0"), None);
        assert_eq!(BindAddr::parse(" , "), None);
    }
}
