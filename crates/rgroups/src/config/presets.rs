//! Stacks that are built in, by the names of the files of JGroups whose values they have.

/// Name, text and what it is for.
const PRESETS: [(&str, &str, &str); 6] = [
    ("udp.xml", include_str!("presets/udp.xml"), "datagrams with IP multicast"),
    ("tcp.xml", include_str!("presets/tcp.xml"), "streams; members are found by a list of hosts"),
    ("udp-new.xml", include_str!("presets/udp-new.xml"), "udp.xml with NAKACK4 and UNICAST4"),
    ("tcp-new.xml", include_str!("presets/tcp-new.xml"), "tcp.xml with NAKACK4 and UNICAST4"),
    (
        "udp-default.xml",
        include_str!("presets/udp-default.xml"),
        "the transport of udp.xml, to be included",
    ),
    (
        "tcp-default.xml",
        include_str!("presets/tcp-default.xml"),
        "the transport of tcp.xml, to be included",
    ),
];

/// The names of all presets.
pub(super) fn names() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, ..)| *name).collect()
}

/// The names and purposes of the stacks that are built in; they are used where no file has such a
/// name, with or without `.xml`.
#[must_use]
pub fn presets() -> Vec<(&'static str, &'static str)> {
    PRESETS.iter().map(|(name, _, purpose)| (*name, *purpose)).collect()
}

/// A preset by its name, with or without `.xml`: its full name and its text.
pub(super) fn text(name: &str) -> Option<(&'static str, &'static str)> {
    let wanted = |p: &&(&str, &str, &str)| p.0 == name || p.0.strip_suffix(".xml") == Some(name);
    PRESETS.iter().find(wanted).map(|(name, text, _)| (*name, *text))
}
