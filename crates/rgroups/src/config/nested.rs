//! The nested blocks of FORK and RELAY: stacks of fork channels, and sites with their bridges.
//! Neither exists here yet; their form is checked all the same, so that a file is known to be right.

use super::names;
use super::source::{Element, Session};

/// Checks the block of a protocol that has one.
pub(super) fn check(session: &mut Session, e: &Element) {
    match names::plain(&e.name.text) {
        "FORK" => e.children.iter().for_each(|c| forks(session, c)),
        "RELAY2" | "RELAY3" => e.children.iter().for_each(|c| {
            sites(session, c);
        }),
        _ => {}
    }
}

/// What a file with such a block at its root is, if it is one.
pub(super) fn root(session: &mut Session, e: &Element) -> Option<&'static str> {
    match e.name.text.as_str() {
        "fork-stacks" => {
            forks(session, e);
            Some("the stacks of FORK, to be named by its attribute config")
        }
        "RelayConfiguration" => {
            sites(session, e);
            Some("the sites of RELAY, to be named by its attribute config")
        }
        _ => None,
    }
}

fn misplaced(session: &mut Session, inner: &Element, outer: &Element, expected: &str) {
    let message = format!("<{}> inside of <{}>", inner.name.text, outer.name.text);
    session.error("RG0115", inner.name.at, message).label = format!("expected <{expected}>");
}

fn required(session: &mut Session, e: &Element, attribute: &str) {
    if e.attribute(attribute).is_none() {
        let message = format!("<{}> has no attribute {attribute:?}", e.name.text);
        session.error("RG0115", e.name.at, message);
    }
}

/// The only kind of children that an element may have.
fn children<'a>(session: &mut Session, e: &'a Element, name: &str) -> Vec<&'a Element> {
    for c in e.children.iter().filter(|c| c.name.text != name) {
        misplaced(session, c, e, name);
    }
    e.children.iter().filter(|c| c.name.text == name).collect()
}

fn forks(session: &mut Session, e: &Element) {
    if e.name.text != "fork-stacks" {
        let message = format!("<{}> inside of <FORK>", e.name.text);
        session.error("RG0115", e.name.at, message).label = "expected <fork-stacks>".into();
        return;
    }
    for stack in children(session, e, "fork-stack") {
        required(session, stack, "id");
        children(session, stack, "config");
    }
}

fn sites(session: &mut Session, e: &Element) {
    if e.name.text != "RelayConfiguration" {
        let message = format!("<{}> inside of RELAY", e.name.text);
        session.error("RG0115", e.name.at, message).label = "expected <RelayConfiguration>".into();
        return;
    }
    for sites in children(session, e, "sites") {
        for site in children(session, sites, "site") {
            required(session, site, "name");
            for part in &site.children {
                match part.name.text.as_str() {
                    "bridges" => {
                        for bridge in children(session, part, "bridge") {
                            required(session, bridge, "config");
                        }
                    }
                    "forwards" => {
                        for forward in children(session, part, "forward") {
                            required(session, forward, "to");
                            required(session, forward, "gateway");
                        }
                    }
                    _ => misplaced(session, part, site, "bridges"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{ConfigError, ConfigLoader};

    fn told(block: &str) -> Vec<String> {
        let text = format!("<config><UDP/>{block}</config>");
        match ConfigLoader::new().load_xml(&text) {
            Err(ConfigError::File(r)) => {
                r.findings().iter().map(|f| f.message().to_owned()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn blocks_of_fork_are_checked() {
        let good = "<FORK><fork-stacks><fork-stack id='a'><config><X/></config></fork-stack>\
                    </fork-stacks></FORK>";
        assert_eq!(told(good), ["FORK does not exist here yet"]);
        let wrong = "<FORK><fork-stacks><fork-stack><stack/></fork-stack></fork-stacks></FORK>";
        assert_eq!(
            told(wrong)[1..],
            ["<fork-stack> has no attribute \"id\"", "<stack> inside of <fork-stack>",]
        );
    }

    #[test]
    fn blocks_of_relay_are_checked() {
        let block = |inner: &str| {
            format!(
                "<relay.RELAY3 site='a'><RelayConfiguration><sites><site name='a'>{inner}</site>\
                 </sites></RelayConfiguration></relay.RELAY3>"
            )
        };
        let good = block("<bridges><bridge config='b.xml'/></bridges>");
        assert_eq!(told(&good), ["RELAY3 does not exist here yet"]);
        let wrong = block("<bridges><bridge/></bridges><forwards><forward to='x'/></forwards>");
        assert_eq!(
            told(&wrong)[1..],
            ["<bridge> has no attribute \"config\"", "<forward> has no attribute \"gateway\"",]
        );
    }
}
