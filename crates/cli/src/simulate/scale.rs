//! `sim scale`: tables for people (and documents), or objects.

use super::output;
use rgroups_sim::scale::{self, Measured, Medium};
use serde_json::{Value, json};

/// Exit code 6: a group did not come together.
pub(super) fn run(sizes: &[usize], medium: Medium, kinds: bool, json: bool) -> u8 {
    if !json {
        output::line(
            "| members | step | took | views | messages | per member | bytes | per member |",
        );
        output::line("|--:|:--|--:|--:|--:|--:|--:|--:|");
    }
    let mut all = Vec::new();
    for members in sizes {
        all.extend(scale::measure(*members, medium, &mut |m| {
            match json {
                true => output::object("scale", object(m)),
                false => output::line(&row(m)),
            }
            anstream::eprintln!("{} members, {}: {:.1?}", m.members, m.step.name(), m.real);
        }));
    }
    if kinds && !json {
        all.iter().for_each(of_each_kind);
    }
    if all.iter().all(|m| m.took.is_some()) { 0 } else { 6 }
}

fn object(m: &Measured) -> Value {
    let kind = |(kind, a): (&str, rgroups_sim::traffic::Amount)| {
        (kind.to_owned(), json!({"messages": a.messages, "bytes": a.bytes}))
    };
    let kinds: Value = m.traffic.kinds().map(kind).collect();
    let total = m.traffic.total();
    json!({
        "members": m.members, "step": m.step.name(), "views": m.views,
        "seconds": m.took.map(|t| t.as_secs_f64()), "messages": total.messages,
        "bytes": total.bytes, "kinds": kinds, "real_seconds": m.real.as_secs_f64(),
    })
}

fn row(m: &Measured) -> String {
    let total = m.traffic.total();
    let took = m.took.map_or("never".into(), |t| format!("{:.2} s", t.as_secs_f64()));
    let each = |n: u64| n as f64 / m.members as f64;
    format!(
        "| {} | {} | {took} | {} | {} | {:.1} | {} | {:.0} |",
        m.members,
        m.step.name(),
        m.views,
        total.messages,
        each(total.messages),
        total.bytes,
        each(total.bytes),
    )
}

/// What each kind cost, by members: messages and bytes of one member.
fn of_each_kind(m: &Measured) {
    output::line("");
    output::line(&format!("{} members, {}:", m.members, m.step.name()));
    output::line("");
    output::line("| kind | messages | per member | bytes | per member |");
    output::line("|:--|--:|--:|--:|--:|");
    let each = |n: u64| n as f64 / m.members as f64;
    for (kind, a) in m.traffic.kinds() {
        output::line(&format!(
            "| {kind} | {} | {:.2} | {} | {:.0} |",
            a.messages,
            each(a.messages),
            a.bytes,
            each(a.bytes)
        ));
    }
}
