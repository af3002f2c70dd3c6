//! In what two stacks differ, and which of it keeps their members apart.

use crate::failure::Failure;
use crate::output;
use rgroups::{Config, Setting};
use serde_json::json;

/// Attributes that all members must have alike, and what happens otherwise.
const ALIKE: [(&str, &str, &str); 6] = [
    ("UDP", "mcast_addr", "members do not hear each other"),
    ("UDP", "mcast_port", "members do not hear each other"),
    ("UDP", "ip_mcast", "members of one side do not find those of the other"),
    ("PRIMARY", "policy", "no view with members of both sides can be primary"),
    ("PRIMARY", "quorum", "no view with members of both sides can be primary"),
    ("FD_SOCK2", "offset", "members watch each other on the wrong ports"),
];

/// Attributes that members may have differently, and what is lost then.
const BETTER_ALIKE: [(&str, &str, &str); 1] =
    [("GMS", "view_synchrony", "no view with members of both sides is installed by all together")];

/// Protocols that a part of the members may lack, and what is lost then.
const OPTIONAL: [(&str, &str); 14] = [
    ("MERGE3", "partitions are found by one side only"),
    ("STABLE", "messages of the other side become stable later"),
    ("VERIFY_SUSPECT2", "suspects of one side are excluded without being asked"),
    ("RSVP", "who waits for acknowledgements of the other side waits in vain"),
    ("PRIMARY", "members of one side have no vote on primary views"),
    ("BARRIER", "nothing that others see"),
    ("STATE_TRANSFER", "the other side gives no state"),
    ("STATE", "the other side gives no state"),
    ("STATE_SOCK", "the other side gives no state"),
    ("DISCARD", "nothing that others must know of"),
    ("DELAY", "nothing that others must know of"),
    ("DROP", "nothing that others must know of"),
    ("DUPL", "nothing that others must know of"),
    ("SHUFFLE", "nothing that others must know of"),
];

/// One difference.
struct Difference {
    /// Members of both sides do not work together.
    breaks: bool,
    what: String,
    a: String,
    b: String,
    why: &'static str,
}

/// Runs the command.
pub(super) fn run(a: (&str, &Config), b: (&str, &Config), json: bool) -> Result<u8, Failure> {
    let mut all = protocols(a.1, b.1);
    all.extend(order(a.1, b.1));
    all.extend(values(a.1, b.1));
    // What keeps members apart comes first.
    all.sort_by_key(|d| !d.breaks);
    let breaks = all.iter().any(|d| d.breaks);
    if json {
        let list: Vec<_> = all
            .iter()
            .map(|d| json!({"breaks": d.breaks, "what": d.what, "a": d.a, "b": d.b, "why": d.why}))
            .collect();
        let told = json!({"schema": 1, "a": a.0, "b": b.0, "works": !breaks, "differences": list});
        output::line(&told.to_string());
    } else {
        for d in &all {
            let kind = if d.breaks { "breaks" } else { "differs" };
            let why = if d.why.is_empty() { String::new() } else { format!("  ({})", d.why) };
            output::line(&format!("{kind:<8} {:<32} {} | {}{why}", d.what, d.a, d.b));
        }
        output::line(match (breaks, all.is_empty()) {
            (true, _) => "members of these stacks do not work together",
            (false, true) => "no difference",
            (false, false) => "members of these stacks work together",
        });
    }
    Ok(if breaks { 6 } else { 0 })
}

fn protocols(a: &Config, b: &Config) -> Vec<Difference> {
    let (in_a, in_b) = (a.protocols(), b.protocols());
    let only = |x: &[&'static str], y: &[&'static str]| -> Vec<&'static str> {
        x.iter().filter(|p| !y.contains(p)).copied().collect()
    };
    let difference = |p: &'static str, a: &str, b: &str| {
        let optional = OPTIONAL.iter().find(|(name, _)| *name == p);
        Difference {
            breaks: optional.is_none(),
            what: p.to_owned(),
            a: a.to_owned(),
            b: b.to_owned(),
            why: optional.map_or("all members must have it, or none", |(_, why)| why),
        }
    };
    let mut all: Vec<Difference> =
        only(&in_a, &in_b).into_iter().map(|p| difference(p, "yes", "no")).collect();
    all.extend(only(&in_b, &in_a).into_iter().map(|p| difference(p, "no", "yes")));
    all
}

/// The order of protocols decides what they see; on the wire it does not show.
fn order(a: &Config, b: &Config) -> Option<Difference> {
    let common = |x: &Config, y: &Config| -> Vec<&'static str> {
        let other = y.protocols();
        x.protocols().into_iter().filter(|p| other.contains(p)).collect()
    };
    let (a, b) = (common(a, b), common(b, a));
    let at = (0..a.len()).find(|i| a[*i] != b[*i])?;
    Some(Difference {
        breaks: false,
        what: "order".to_owned(),
        a: a[at..].join(" "),
        b: b[at..].join(" "),
        why: "from the bottom up",
    })
}

fn values(a: &Config, b: &Config) -> Vec<Difference> {
    let b = b.explain();
    let counterpart = |s: &Setting| {
        b.iter().find(|t| t.protocol == s.protocol && t.attribute == s.attribute).cloned()
    };
    let differing = |s: Setting| {
        let t = counterpart(&s).filter(|t| in_effect(t) != in_effect(&s))?;
        let meant = |(p, a, _): &&(&str, &str, &str)| *p == s.protocol && *a == s.attribute;
        let alike = ALIKE.iter().find(meant);
        let better = BETTER_ALIKE.iter().find(meant);
        Some(Difference {
            breaks: alike.is_some(),
            what: format!("{}.{}", s.protocol, s.attribute),
            a: s.value,
            b: t.value,
            why: alike.or(better).map_or("", |(.., why)| why),
        })
    };
    a.explain().into_iter().filter_map(differing).collect()
}

/// The value that an attribute without one has in the end.
fn in_effect(s: &Setting) -> &str {
    match (s.protocol.as_str(), s.attribute.as_str(), s.value.as_str()) {
        ("UDP", "mcast_addr", "") => "239.8.8.8",
        (_, _, value) => value,
    }
}
