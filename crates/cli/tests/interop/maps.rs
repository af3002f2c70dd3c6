//! A `ReplicatedHashMap` of JGroups and our map in one group of two members of each kind: states, every
//! change, every kind of value, and the same keys changed by all at once.

use crate::peer::{PATIENCE, Peer};
use crate::table::{Table, versions};
use crate::world::World;
use rgroups::map::{Map, ValueMap};
use rgroups::{Channel, Config, ObjectValue, block_on};
use std::thread;
use std::time::{Duration, Instant};

fn text(value: &ObjectValue) -> String {
    match value {
        ObjectValue::Bool(v) => format!("bool:{v}"),
        ObjectValue::Byte(v) => format!("byte:{v}"),
        ObjectValue::Short(v) => format!("short:{v}"),
        ObjectValue::Int(v) => format!("int:{v}"),
        ObjectValue::Long(v) => format!("long:{v}"),
        ObjectValue::Double(v) => format!("double:{v:?}"),
        ObjectValue::Str(v) => format!("string:{v}"),
        ObjectValue::ByteArray(v) => {
            format!("bytes:{}", v.iter().map(|b| format!("{b:02x}")).collect::<String>())
        }
        other => panic!("no such value here: {other:?}"),
    }
}

/// What a member has, in lines that are equal where the maps are.
fn ours(map: &ValueMap) -> Vec<String> {
    let all = map.entries().expect("values of any kind");
    let mut lines: Vec<String> =
        all.iter().map(|(k, v)| format!("entry {} = {}", text(k), text(v))).collect();
    lines.sort();
    lines
}

fn javas(peer: &Peer) -> Vec<String> {
    let mut lines = peer.answers("list");
    lines.retain(|l| l.starts_with("entry "));
    lines.sort();
    lines
}

/// Two members of each kind, that joined one after the other.
struct Four {
    java: Vec<Peer>,
    ours: Vec<ValueMap>,
}

impl Four {
    /// `first`: which kind leads, and gives the first state.
    fn new(world: &World, first: &str) -> Four {
        let mut four = Four { java: Vec::new(), ours: Vec::new() };
        let others = if first == "java" { "rust" } else { "java" };
        for (i, kind) in [first, others, first, others].into_iter().enumerate() {
            match kind {
                "java" => {
                    let peer = world.java_map(&format!("J{i}"));
                    peer.hears("^joined");
                    four.java.push(peer);
                }
                _ => {
                    let config = Config::from_xml(&world.plan("")).expect("JGroups' file");
                    let channel = Channel::builder(config).name(format!("R{i}"));
                    let map = Map::builder(channel).timeout(PATIENCE);
                    four.ours.push(block_on(map.open(&world.cluster)).expect("it joins"));
                }
            }
            if i == 0 {
                four.first_entries(kind);
            }
        }
        let end = Instant::now() + PATIENCE;
        while four.ours.iter().any(|m| m.channel().view().members().len() < 4) {
            assert!(Instant::now() < end, "no view of all");
            thread::sleep(Duration::from_millis(20));
        }
        four
    }

    /// What the first member has before the others come: a value of every kind.
    fn first_entries(&self, kind: &str) {
        let words = [
            "bool:true",
            "byte:-1",
            "short:7",
            "int:42",
            "long:1099511627776",
            "double:1.5",
            "string:grüße",
            "bytes:00ff",
        ];
        for (n, word) in words.iter().enumerate() {
            match kind {
                "java" => drop(self.java[0].answers(&format!("put int:{n} {word}"))),
                _ => {
                    let value = VALUES[n]();
                    assert_eq!(text(&value), *word);
                    block_on(self.ours[0].put(ObjectValue::Int(n as i32), value)).expect("done");
                }
            }
        }
    }

    /// All four have the same.
    fn agree(&self) -> Vec<String> {
        let first = ours(&self.ours[0]);
        assert_eq!(ours(&self.ours[1]), first);
        for j in &self.java {
            assert_eq!(javas(j), first);
        }
        first
    }
}

const VALUES: [fn() -> ObjectValue; 8] = [
    || ObjectValue::Bool(true),
    || ObjectValue::Byte(-1),
    || ObjectValue::Short(7),
    || ObjectValue::Int(42),
    || ObjectValue::Long(1 << 40),
    || ObjectValue::Double(1.5),
    || ObjectValue::Str("grüße".into()),
    || ObjectValue::ByteArray(vec![0, 255].into()),
];

/// What Java does, what it prints, and what all have then of `string:k`.
const BY_JAVA: [(&str, &str, Option<&str>); 8] = [
    ("put string:k int:1", "null", Some("int:1")),
    ("putIfAbsent string:k int:2", "int:1", Some("int:1")),
    ("replaceIf string:k int:1 int:3", "bool:true", Some("int:3")),
    ("replaceIf string:k int:1 int:4", "bool:false", Some("int:3")),
    ("replace string:k long:5", "int:3", Some("long:5")),
    ("removeIf string:k int:5", "bool:false", Some("long:5")),
    ("remove string:k", "long:5", None),
    ("putAll string:k string:x string:l string:y", "", Some("string:x")),
];

fn java_changes(four: &Four, table: &mut Table) {
    let key = ObjectValue::Str("k".into());
    for (change, result, then) in BY_JAVA {
        let said = four.java[1].answers(change);
        let said: Vec<&String> = said.iter().filter(|l| l.starts_with("result")).collect();
        let expected: Vec<String> =
            (!result.is_empty()).then(|| format!("result {result}")).into_iter().collect();
        assert_eq!(said, expected.iter().collect::<Vec<_>>(), "{change}");
        for m in &four.ours {
            assert_eq!(
                m.get(&key).expect("a value").as_ref().map(text).as_deref(),
                then,
                "{change}"
            );
        }
        four.agree();
        table.line(&format!("| Java | `{change}` | `{result}` | `{}` |", then.unwrap_or("-")));
    }
}

fn we_change(four: &Four, table: &mut Table) {
    let map = &four.ours[1];
    let (k, n) = (|| ObjectValue::Str("k".into()), ObjectValue::Int);
    let shown = |v: Option<ObjectValue>| v.as_ref().map_or_else(|| "null".to_owned(), text);
    let mut row = |what: &str, result: String| {
        four.agree();
        let then = map.get(&k()).expect("a value").as_ref().map_or_else(|| "-".to_owned(), text);
        table.line(&format!("| Rust | `{what}` | `{result}` | `{then}` |"));
        (result, then)
    };
    let of = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let done = "done";
    let was = shown(block_on(map.put(k(), n(1))).expect(done));
    assert_eq!(row("put k 1", was), of("string:x", "int:1"));
    let was = shown(block_on(map.put_if_absent(k(), n(2))).expect(done));
    assert_eq!(row("put_if_absent k 2", was), of("int:1", "int:1"));
    let is = block_on(map.replace_if(k(), n(1), n(3))).expect(done);
    assert_eq!(row("replace_if k 1 3", is.to_string()), of("true", "int:3"));
    let is = block_on(map.remove_if(k(), n(1))).expect(done);
    assert_eq!(row("remove_if k 1", is.to_string()), of("false", "int:3"));
    let was = shown(block_on(map.replace(k(), n(4))).expect(done));
    assert_eq!(row("replace k 4", was), of("int:3", "int:4"));
    let was = shown(block_on(map.remove(k())).expect(done));
    assert_eq!(row("remove k", was), of("int:4", "-"));
    block_on(map.put_all([(k(), n(5)), (n(6), n(7))])).expect(done);
    assert_eq!(row("put_all k 5, 6 7", String::new()), of("", "int:5"));
}

/// Ten keys, changed by all four at once.
fn all_change(four: &Four, table: &mut Table) {
    const TIMES: i32 = 100;
    let began = Instant::now();
    thread::scope(|scope| {
        for j in &four.java {
            scope.spawn(move || j.answers(&format!("many int:{TIMES}")));
        }
        for m in &four.ours {
            scope.spawn(move || {
                for i in 0..TIMES {
                    let key = ObjectValue::Str(format!("key {}", i % 10));
                    block_on(m.put(key, ObjectValue::Int(i))).expect("done");
                }
            });
        }
    });
    let entries = four.agree().len();
    table.line(&format!(
        "\nTen keys changed {TIMES} times by each of the four at once, {:.1} s: the same {entries} entries \
         at all.",
        began.elapsed().as_secs_f64()
    ));
}

#[test]
fn two_members_of_each_kind_share_a_map() {
    let mut table = Table::new("map");
    let mut of = None;
    for (transport, first) in [("udp", "rust"), ("tcp", "java")] {
        let Some(world) = World::new(transport) else { return };
        let world = world.with_total_order();
        let four = Four::new(&world, first);
        let entries = four.agree();
        assert_eq!(entries.len(), 8, "joiners have what was there: {entries:?}");
        table.line(&format!(
            "\n## {transport}.xml with SEQUENCER\n\nThe first member is {}; the others have its 8 entries, one of \
             every kind of value, as their state.\n\n| by | change | answer | `k` then, at all |\n|---|---|---|---|",
            if first == "java" { "of JGroups" } else { "ours" }
        ));
        java_changes(&four, &mut table);
        we_change(&four, &mut table);
        all_change(&four, &mut table);
        of = Some(versions(&four.java[..1]));
    }
    if let Some(mut of) = of {
        of.push(format!("rgroups {}", env!("CARGO_PKG_VERSION")));
        table.write(&of);
    }
}
