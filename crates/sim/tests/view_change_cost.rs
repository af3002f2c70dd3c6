//! What a change of the view costs, without and with view synchrony: the table of the simulator in
//! docs/view-change-cost.md, of which the small groups are compared here. To measure all of them anew:
//!
//! ```text
//! RGROUPS_REWRITE=1 cargo test --profile swarm -p rgroups-sim --test view_change_cost
//! ```

use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, Time, Trace, View};
use rgroups_sim::connections::Life;
use rgroups_sim::history::What;
use rgroups_sim::network::Link;
use rgroups_sim::{Cluster, Settings};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

const SMALL: [usize; 2] = [3, 10];
const LARGE: [usize; 2] = [50, 200];
/// The table is between these.
const BEGIN: &str = "<!-- simulator -->\n";
const END: &str = "<!-- end -->";
/// How long acknowledgements and the like are counted after the last installation.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// What changes the view.
#[derive(Clone, Copy)]
enum Change {
    Join,
    Leave,
    Crash,
}

impl Change {
    const ALL: [(Change, &str); 3] =
        [(Change::Join, "join"), (Change::Leave, "leave"), (Change::Crash, "crash")];
}

/// A line of the table.
#[derive(Debug)]
struct Row {
    /// Members, change and kind of view.
    what: [String; 3],
    /// From the moment at which the coordinator accepts the view until all have installed it, in ms.
    installed: f64,
    messages: f64,
    bytes: f64,
    /// The longest that a member held back its multicasts, in ms.
    held: f64,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [members, change, views] = &self.what;
        let Row { installed, messages, bytes, held, .. } = self;
        write!(
            f,
            "| {members} | {change} | {views} | {installed:.1} | {messages} | {bytes} | {held:.1} |"
        )
    }
}

impl Row {
    fn read(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [members, change, views, installed, messages, bytes, held] = cells[..] else {
            return None;
        };
        let number = |s: &str| s.parse::<f64>().ok();
        Some(Self {
            what: [members, change, views].map(str::to_owned),
            installed: number(installed)?,
            messages: number(messages)?,
            bytes: number(bytes)?,
            held: number(held)?,
        })
    }

    /// Whether this is still what the other one says, but for a tenth.
    fn is_like(&self, other: &Row) -> bool {
        let like = |a: f64, b: f64, unit: f64| (a - b).abs() <= unit.max(b * 0.1);
        self.what == other.what
            && like(self.installed, other.installed, 0.2)
            && like(self.messages, other.messages, 3.0)
            && like(self.bytes, other.bytes, 200.0)
            && like(self.held, other.held, 0.2)
    }
}

fn millis(d: Duration) -> f64 {
    d.as_nanos() as f64 / 1e6
}

/// A group on links of 1 ms, in which nobody sends, and one change of its view.
fn measure(members: usize, change: (Change, &str), together: bool) -> Row {
    let plan = StackPlan::udp();
    let plan = if together { plan.with("GMS", "view_synchrony", "true") } else { plan };
    let link = Link { delay: Duration::from_millis(1), jitter: Duration::ZERO, ..Link::lan() };
    let settings = Settings { link, sampling: None, keep_lines: false, ..Settings::new(5, plan) };
    let mut c = Cluster::new(settings);
    let names: Vec<String> = (0..members).map(|n| format!("M{n}")).collect();
    c.start(&names[0]);
    c.run_for(Duration::from_secs(5));
    names[1..].iter().for_each(|n| c.start(n));
    until_all_have(&mut c, members);
    c.run_for(Duration::from_secs(5));

    c.count_traffic();
    let seen = c.history().facts.len();
    let (change, name) = change;
    let expected = match change {
        Change::Join => {
            c.start("J");
            members + 1
        }
        Change::Leave => {
            c.leave(&names[members / 2]);
            members - 1
        }
        Change::Crash => {
            c.crash(&names[members / 2]);
            members - 1
        }
    };
    let view = until_all_have(&mut c, expected);
    c.run_for(AFTERWARDS);
    let traffic = c.count_traffic();
    let made =
        |kind: &str| ["GMS", "STABLE", "NAKACK2", "UNICAST3"].iter().any(|p| kind.starts_with(p));
    let (mut messages, mut bytes) = (0, 0);
    for (_, amount) in traffic.kinds().filter(|(kind, _)| made(kind)) {
        messages += amount.messages;
        bytes += amount.bytes;
    }

    let facts = &c.history().facts[seen..];
    let mut frozen: Vec<(Life, Time)> = Vec::new();
    let mut installed: Vec<(Life, Time)> = Vec::new();
    for f in facts {
        match (&f.what, f.life) {
            (What::Trace(Trace::TailRepair { view: v, step: "frozen" }), Some(life))
                if *v == view.id =>
            {
                frozen.push((life, f.at));
            }
            (What::View(v), Some(life)) if v.id == view.id => installed.push((life, f.at)),
            _ => {}
        }
    }
    let coordinator = c.life(&names[0]).expect("it runs");
    let of = |list: &[(Life, Time)], life| list.iter().find(|(l, _)| *l == life).map(|(_, at)| *at);
    let accepted =
        of(&frozen, coordinator).or(of(&installed, coordinator)).expect("it has the view");
    let last = installed.iter().map(|(_, at)| *at).max().expect("all have it");
    let hold = |(life, at): &(Life, Time)| of(&installed, *life).map(|i| i.since(*at));
    let held = frozen.iter().filter_map(hold).max().filter(|_| together).unwrap_or_default();
    let views = if together { "together" } else { "plain" };
    Row {
        what: [members.to_string(), name.to_owned(), views.to_owned()],
        installed: millis(last.since(accepted)),
        messages: messages as f64,
        bytes: bytes as f64,
        held: millis(held),
    }
}

/// Runs until all who run have one view of so many members.
fn until_all_have(c: &mut Cluster, members: usize) -> Arc<View> {
    let one = |c: &Cluster| {
        let mut first = None;
        c.views().all(|v| {
            v.is_some_and(|v| v.members.len() == members && *first.get_or_insert(v.id) == v.id)
        })
    };
    assert!(c.run_until(Duration::from_secs(120), one), "a view of {members}");
    let view = c.views().flatten().next().map(Arc::clone);
    view.expect("somebody runs")
}

fn rows(sizes: &[usize]) -> Vec<Row> {
    let mut rows = Vec::new();
    for members in sizes {
        for change in Change::ALL {
            for together in [false, true] {
                rows.push(measure(*members, change, together));
            }
        }
    }
    rows
}

#[test]
fn the_table_of_what_changes_of_the_view_cost_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/view-change-cost.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = page.split_once(BEGIN).expect("the table begins");
    let (table, after) = rest.split_once(END).expect("the table ends");
    if std::env::var_os("RGROUPS_REWRITE").is_some() {
        let mut text = String::from(
            "| members | change | views | installed everywhere (ms) | messages | bytes | sends held (ms) |\n\
             |---:|---|---|---:|---:|---:|---:|\n",
        );
        for row in rows(&[SMALL, LARGE].concat()) {
            println!("{row}");
            text += &format!("{row}\n");
        }
        std::fs::write(&path, format!("{before}{BEGIN}{text}{END}{after}")).expect("written");
        return;
    }
    let written: Vec<Row> = table.lines().filter_map(Row::read).collect();
    assert_eq!(written.len(), (SMALL.len() + LARGE.len()) * 6, "lines of the table");
    let wrong: Vec<String> = rows(&SMALL)
        .iter()
        .filter(|row| !written.iter().any(|w| row.is_like(w)))
        .map(Row::to_string)
        .collect();
    assert!(
        wrong.is_empty(),
        "the page says otherwise (see the top of this file):\n{}",
        wrong.join("\n")
    );
}
