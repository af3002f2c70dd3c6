//! What seeds went through, and what none of them did.

use super::output;
use rgroups_sim::coverage::{Change, Coverage, Fate, Order, Row};
use serde_json::{Value, json};

/// Always what is missing; with `whole`, or as JSON, the tables too.
pub(super) fn report(c: &Coverage, whole: bool, json: bool) {
    let missing = c.missing();
    let fates: Vec<&str> = Fate::ALL.iter().map(|f| f.name()).collect();
    let changes: Vec<&str> = Change::ALL.iter().map(|c| c.name()).collect();
    if json {
        let waits: Value = c.waits().into_iter().map(|(w, n)| (w.to_owned(), json!(n))).collect();
        return output::object(
            "coverage",
            json!({
                "messages": cells(&c.messages(), &fates), "waits": waits,
                "then": cells(&c.changes(Order::Then), &changes),
                "at_once": cells(&c.changes(Order::AtOnce), &changes),
                "missing": missing,
            }),
        );
    }
    if whole {
        table("messages", &c.messages(), &fates);
        for (wait, n) in c.waits() {
            output::line(&format!("{wait:<32}{n:>10}"));
        }
        table("then, within 10 s", &c.changes(Order::Then), &changes);
        table("at once", &c.changes(Order::AtOnce), &changes);
    }
    match missing.is_empty() {
        true => output::line("every cell of the coverage table was hit"),
        false => {
            output::line(&format!("{} cells of the coverage table were not hit:", missing.len()));
            missing.iter().for_each(|m| output::line(&format!("  {m}")));
        }
    }
}

fn cells(rows: &[Row], columns: &[&str]) -> Value {
    let row = |counts: &[u64]| -> Value {
        columns.iter().zip(counts).map(|(c, n)| ((*c).to_owned(), json!(n))).collect()
    };
    rows.iter().map(|(name, counts)| (name.clone(), row(counts))).collect()
}

fn table(title: &str, rows: &[Row], columns: &[&str]) {
    let width = |c: &str| c.len().max(9) + 1;
    let heads: String = columns.iter().map(|c| format!("{c:>w$}", w = width(c))).collect();
    output::line(&format!("{title:<32}{heads}"));
    for (name, counts) in rows {
        let cells = columns.iter().zip(counts).map(|(c, n)| format!("{n:>w$}", w = width(c)));
        output::line(&format!("{name:<32}{}", cells.collect::<String>()));
    }
}
