//! Maps that members of a group share: in memory, over sockets, across joins, deaths and merges.
#![cfg(feature = "rpc")]

mod common;

use common::{Kind, PATIENCE, config};
use rgroups::map::{Changes, Item, LostEntry, Map, MapError, MapEvent, ValueMap};
use rgroups::{Channel, Config, Diagnose, ObjectValue, block_on};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

fn ordered(kind: Kind) -> Config {
    config(kind).with_total_order().expect("it fits there")
}

fn open<K: Item, V: Item>(config: &Config, name: &str) -> Map<K, V> {
    let builder = Map::builder(Channel::builder(config.clone()).name(name));
    block_on(builder.timeout(PATIENCE).open("map")).expect("it joins")
}

fn group(config: &Config, n: usize) -> Vec<Map<String, u64>> {
    let maps: Vec<Map<String, u64>> =
        ["A", "B", "C", "D"][..n].iter().map(|name| open(config, name)).collect();
    until(|| maps.iter().all(|m| m.channel().view().members().len() == n));
    maps
}

fn until(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "it does not come to that");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The events of a map, for tests that wait for them with a limit.
fn watch<K: Item + Send + 'static, V: Item + Send + 'static>(
    mut changes: Changes<K, V>,
) -> mpsc::Receiver<MapEvent<K, V>> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        while let Some(event) = block_on(changes.next()) {
            if tell.send(event).is_err() {
                break;
            }
        }
    });
    told
}

fn all_equal(maps: &[Map<String, u64>]) -> Vec<(String, u64)> {
    let first = maps[0].entries().expect("typed");
    for m in maps {
        assert_eq!(m.entries().expect("typed"), first);
    }
    first
}

#[test]
fn what_one_puts_all_have_when_it_returns() {
    let maps = group(&ordered(Kind::InProcess), 3);
    let key = || "k".to_owned();
    assert_eq!(block_on(maps[0].put(key(), 1)).expect("done"), None);
    for m in &maps {
        assert_eq!(m.get(&key()).expect("typed"), Some(1));
    }
    assert_eq!(block_on(maps[1].put(key(), 2)).expect("done"), Some(1));
    assert_eq!(block_on(maps[2].put_if_absent(key(), 3)).expect("done"), Some(2));
    assert!(!block_on(maps[2].replace_if(key(), 1, 3)).expect("done"));
    assert!(block_on(maps[2].replace_if(key(), 2, 3)).expect("done"));
    assert_eq!(block_on(maps[0].replace("new".into(), 3)).expect("done"), None);
    assert!(!block_on(maps[1].remove_if(key(), 2)).expect("done"));
    assert!(block_on(maps[1].remove_if(key(), 3)).expect("done"));
    block_on(maps[1].put_all([("a".to_owned(), 1), ("b".to_owned(), 2)])).expect("done");
    assert_eq!(block_on(maps[2].remove("a".into())).expect("done"), Some(1));
    assert_eq!(all_equal(&maps), [("b".to_owned(), 2)]);
    block_on(maps[0].clear()).expect("done");
    assert!(maps.iter().all(Map::is_empty));
}

fn changed_by_all_at_once(kind: Kind) {
    const TIMES: u64 = 60;
    let maps = group(&ordered(kind), 3);
    thread::scope(|scope| {
        for m in &maps {
            scope.spawn(move || {
                for _ in 0..TIMES {
                    // A counter of all, by the oldest means: read, and replace what was read.
                    loop {
                        let was = block_on(m.put_if_absent("sum".into(), 0)).expect("done");
                        let was = was.unwrap_or(0);
                        if block_on(m.replace_if("sum".into(), was, was + 1)).expect("done") {
                            break;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(all_equal(&maps), [("sum".to_owned(), 3 * TIMES)]);
}

#[test]
fn what_all_change_at_once_is_changed_one_after_the_other() {
    changed_by_all_at_once(Kind::InProcess);
}

#[test]
fn what_all_change_at_once_over_tcp_is_changed_one_after_the_other() {
    changed_by_all_at_once(Kind::Tcp);
}

#[test]
fn who_joins_while_others_change_has_what_they_have() {
    let config = ordered(Kind::InProcess);
    let mut maps = group(&config, 2);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let joined = thread::scope(|scope| {
        for (i, m) in maps.iter().enumerate() {
            let stop = &stop;
            scope.spawn(move || {
                let mut n = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    block_on(m.put(format!("{i} {}", n % 50), n)).expect("done");
                    block_on(m.put("same".into(), n)).expect("done");
                    n += 1;
                }
            });
        }
        thread::sleep(Duration::from_millis(50));
        let joined: Map<String, u64> = open(&config, "C");
        assert!(!joined.is_empty(), "it begins with what the others have");
        thread::sleep(Duration::from_millis(50));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        joined
    });
    maps.push(joined);
    all_equal(&maps);
}

#[test]
fn a_map_outlives_the_member_that_orders() {
    let maps = group(&ordered(Kind::Tcp), 3);
    block_on(maps[0].put("k".into(), 1)).expect("done");
    maps[0].channel().kill();
    until(|| maps[1..].iter().all(|m| m.channel().view().members().len() == 2));
    assert_eq!(block_on(maps[2].put("k".into(), 2)).expect("done"), Some(1));
    assert_eq!(all_equal(&maps[1..]), [("k".to_owned(), 2)]);
}

#[test]
fn changes_are_told_in_their_order() {
    let maps = group(&ordered(Kind::InProcess), 2);
    let told = watch(maps[1].changes());
    block_on(maps[0].put("k".into(), 1)).expect("done");
    block_on(maps[0].put("k".into(), 1)).expect("done");
    block_on(maps[1].put("k".into(), 2)).expect("done");
    block_on(maps[0].remove("k".into())).expect("done");
    let key = || "k".to_owned();
    for expected in [
        MapEvent::Set { key: key(), value: 1, before: None },
        MapEvent::Set { key: key(), value: 2, before: Some(1) },
        MapEvent::Removed { key: key(), before: 2 },
    ] {
        assert_eq!(told.recv_timeout(PATIENCE).expect("told"), expected);
    }
}

fn addresses(maps: &[Map<String, u64>]) -> Vec<SocketAddr> {
    let physical = block_on(maps[0].channel().inspect()).expect("it is open").physical;
    let of = |m: &Map<String, u64>| {
        physical.iter().find(|(a, _)| *a == m.channel().address()).map(|(_, at)| *at)
    };
    maps.iter().filter_map(of).collect()
}

#[test]
fn after_a_merge_the_larger_part_goes_on_and_the_other_says_what_it_lost() {
    let config = ordered(Kind::InProcess)
        .set("FD_ALL3", "timeout", "1s")
        .and_then(|c| c.set("FD_ALL3", "interval", "200ms"))
        .and_then(|c| c.set("VERIFY_SUSPECT2", "timeout", "300ms"))
        .and_then(|c| c.set("MERGE3", "min_interval", "500ms"))
        .and_then(|c| c.set("MERGE3", "max_interval", "1s"))
        .expect("valid");
    let maps = group(&config, 3);
    for key in ["same", "other", "mine"] {
        block_on(maps[0].put(key.into(), 1)).expect("done");
    }
    let at = addresses(&maps);
    maps[..2].iter().for_each(|m| m.channel().admin().block([at[2]]));
    maps[2].channel().admin().block([at[0], at[1]]);
    until(|| maps[2].channel().view().members().len() == 1);
    until(|| maps[0].channel().view().members().len() == 2);
    let (majority, minority) = (watch(maps[0].changes()), watch(maps[2].changes()));
    block_on(maps[0].put("other".into(), 2)).expect("done");
    block_on(maps[1].remove("mine".into())).expect("done");
    block_on(maps[2].put("other".into(), 3)).expect("done");
    block_on(maps[2].put("alone".into(), 3)).expect("done");
    maps.iter().for_each(|m| m.channel().admin().heal());

    let merged = |told: &mpsc::Receiver<MapEvent<String, u64>>| loop {
        let event = told.recv_timeout(PATIENCE).expect("the merge is told");
        if let MapEvent::Merged { survivors, lost } = event {
            break (survivors, lost);
        }
    };
    let survivors: Vec<_> = maps[..2].iter().map(|m| m.channel().address()).collect();
    let (mut named, lost) = merged(&majority);
    named.sort();
    let mut sorted = survivors.clone();
    sorted.sort();
    assert_eq!((named, lost), (sorted, vec![]));
    let (_, mut lost) = merged(&minority);
    lost.sort_by(|a, b| a.key.cmp(&b.key));
    let one = |key: &str, ours, theirs| LostEntry { key: key.to_owned(), ours, theirs };
    let expected =
        [one("alone", Some(3), None), one("mine", Some(1), None), one("other", Some(3), Some(2))];
    assert_eq!(lost, expected);
    until(|| maps[2].entries().expect("typed") == maps[0].entries().expect("typed"));
    block_on(maps[2].put("together".into(), 4)).expect("done");
    assert_eq!(all_equal(&maps).len(), 3);
}

#[test]
fn values_of_jgroups_keep_their_types() {
    let config = ordered(Kind::InProcess);
    let maps: Vec<ValueMap> = ["A", "B"].iter().map(|n| open(&config, n)).collect();
    let values = [
        ObjectValue::Bool(true),
        ObjectValue::Int(1),
        ObjectValue::Long(1),
        ObjectValue::Str("1".into()),
        ObjectValue::ByteArray(vec![1].into()),
    ];
    for v in &values {
        block_on(maps[0].put(v.clone(), v.clone())).expect("done");
    }
    let joined: ValueMap = open(&config, "C");
    for v in &values {
        assert_eq!(joined.get(v).expect("any").as_ref(), Some(v));
    }
    assert_eq!(joined.len(), values.len());
}

#[test]
fn what_has_no_place_is_refused_and_says_why() {
    let config = ordered(Kind::InProcess);
    let map: ValueMap = open(&config, "A");
    let (key, null) = (|| ObjectValue::Str("k".into()), ObjectValue::Null);
    for (k, v) in [
        (key(), null.clone()),
        (null, key()),
        (ObjectValue::JavaSerialized(vec![1].into()), key()),
        (key(), ObjectValue::JGroups("a view".into())),
    ] {
        let refused = block_on(map.put(k, v)).expect_err("it has no place");
        assert_eq!(refused.code(), "RG1003", "{refused}");
    }
    assert!(map.is_empty());
    block_on(map.put(key(), ObjectValue::Int(1))).expect("done");
    let typed: Map<String, u64> = open(&config, "B");
    assert_eq!(typed.entries().expect_err("others' values").code(), "RG1003");
}

#[test]
fn without_an_order_a_map_is_opened_only_if_that_is_said() {
    let config = config(Kind::InProcess);
    let builder = || Map::<String, u64>::builder(Channel::builder(config.clone()));
    let refused = block_on(builder().open("map")).expect_err("no SEQUENCER");
    assert!(matches!(refused, MapError::NoTotalOrder));
    assert!(refused.hint().is_some_and(|h| h.contains("with_total_order")), "{refused}");
    let map = block_on(builder().unordered().open("map")).expect("it joins");
    assert_eq!(block_on(map.put("k".into(), 1)).expect("done"), None);
}

#[test]
fn a_map_that_is_closed_changes_no_more() {
    let maps = group(&ordered(Kind::InProcess), 2);
    let told = watch(maps[0].changes());
    block_on(maps[0].clone().close()).expect("it leaves");
    let refused = block_on(maps[0].put("k".into(), 1)).expect_err("it is closed");
    assert!(matches!(refused, MapError::Call(_)), "{refused}");
    until(|| maps[1].channel().view().members().len() == 1);
    assert_eq!(block_on(maps[1].put("k".into(), 1)).expect("done"), None);
    drop(maps);
    assert!(told.recv_timeout(PATIENCE).is_err(), "no events, and an end");
}
