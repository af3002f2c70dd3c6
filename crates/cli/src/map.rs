//! `map`: a map that all members of a cluster have, as of JGroups' `ReplicatedHashMap`.

use crate::args::{MapArgs, MapVerb};
use crate::failure::Failure;
use crate::signals::{Signals, leave};
use crate::values;
use crate::{join, output};
use rgroups::map::{Changes, LostEntry, Map, MapError, MapEvent, ValueMap};
use rgroups::{Channel, Diagnose, ObjectValue};
use serde_json::{Value, json};

/// What is to be done.
#[derive(Debug, PartialEq)]
enum Action {
    Get(ObjectValue),
    Put(ObjectValue, ObjectValue),
    Del(ObjectValue),
    List,
    Watch,
}

/// Runs the command. Exit code 5: there is no such key.
pub(crate) async fn run(a: &MapArgs, json: bool) -> Result<u8, Failure> {
    let action = action(a.verb, &a.args)?;
    let mut signals = Signals::new()?;
    let map = open(a).await?;
    let changes = map.changes();
    let outcome = tokio::select! {
        code = act(a, action, &map, changes, json) => code,
        code = signals.next() => Ok(code),
    };
    leave(map.channel().clone(), &mut signals).await;
    outcome
}

fn action(verb: MapVerb, words: &[String]) -> Result<Action, Failure> {
    let values = words.iter().map(|w| values::value(w)).collect::<Result<Vec<_>, _>>()?;
    match (verb, <[ObjectValue; 1]>::try_from(values)) {
        (MapVerb::Get, Ok([key])) => Ok(Action::Get(key)),
        (MapVerb::Del, Ok([key])) => Ok(Action::Del(key)),
        (MapVerb::Put, Err(values)) if values.len() == 2 => {
            let mut values = values.into_iter();
            match (values.next(), values.next()) {
                (Some(key), Some(value)) => Ok(Action::Put(key, value)),
                _ => Err(Failure::usage("put takes KEY VALUE")),
            }
        }
        (MapVerb::List, Err(none)) if none.is_empty() => Ok(Action::List),
        (MapVerb::Watch, Err(none)) if none.is_empty() => Ok(Action::Watch),
        (MapVerb::Get | MapVerb::Del, Err(_)) => Err(Failure::usage("get and del take one KEY")),
        (MapVerb::Put, _) => Err(Failure::usage("put takes KEY VALUE")),
        (MapVerb::List | MapVerb::Watch, _) => {
            Err(Failure::usage("list and watch take nothing but options"))
        }
    }
}

async fn open(a: &MapArgs) -> Result<ValueMap, Failure> {
    let mut config = join::config(a.join.transport, &a.join.hosts, &a.join.stack)?;
    if !a.unordered {
        config = config.with_total_order().map_err(|e| Failure::config_error(&e))?;
    }
    let mut builder = Channel::builder(config);
    if let Some(n) = &a.join.name {
        builder = builder.name(n.as_str());
    }
    let mut builder = Map::builder(builder).timeout(a.within);
    if a.unordered {
        builder = builder.unordered();
    }
    match tokio::time::timeout(a.join.timeout, builder.open(&a.cluster)).await {
        Ok(Ok(map)) => Ok(map),
        Ok(Err(MapError::Connect(e))) => Err(join::refused(&a.cluster, &e)),
        Ok(Err(e)) => Err(failed(&e)),
        Err(_) => {
            let what = format!("could not join {:?} within {:?}", a.cluster, a.join.timeout);
            Err(Failure::join(what).coded("RG0301"))
        }
    }
}

fn failed(e: &MapError) -> Failure {
    let failure = Failure::run(e.to_string()).coded(e.code());
    match e.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

async fn act(
    a: &MapArgs,
    action: Action,
    map: &ValueMap,
    changes: Changes<ObjectValue, ObjectValue>,
    json: bool,
) -> Result<u8, Failure> {
    let mut views = map.channel().views();
    let enough = async {
        while views.latest().members().len() < a.members {
            if views.changed().await.is_none() {
                break;
            }
        }
    };
    if tokio::time::timeout(a.join.timeout, enough).await.is_err() {
        let what = format!("{} members did not come together in time", a.members);
        return Err(Failure::run(what));
    }
    match action {
        Action::Get(key) => Ok(shown(map.get(&key).map_err(|e| failed(&e))?, json)),
        Action::Put(key, value) => {
            map.put(key, value).await.map_err(|e| failed(&e))?;
            Ok(0)
        }
        Action::Del(key) => Ok(shown(map.remove(key).await.map_err(|e| failed(&e))?, json)),
        Action::List => {
            for (key, value) in map.entries().map_err(|e| failed(&e))? {
                entry(&key, &value, json);
            }
            Ok(0)
        }
        Action::Watch => watch(map, changes, json).await,
    }
}

/// A value that there is, or was.
fn shown(value: Option<ObjectValue>, json: bool) -> u8 {
    let code = if value.is_some() { 0 } else { 5 };
    if json {
        output::object("value", json!({"value": value.as_ref().map(values::json)}));
    } else if let Some(value) = value {
        output::line(&output::escaped(&values::text(&value)));
    }
    code
}

fn entry(key: &ObjectValue, value: &ObjectValue, json: bool) {
    if json {
        let fields = json!({"key": values::json(key), "value": values::json(value)});
        return output::object("entry", fields);
    }
    let text = |v| output::escaped(&values::text(v));
    output::line(&format!("{} = {}", text(key), text(value)));
}

/// First what there is, then what happens.
async fn watch(
    map: &ValueMap,
    mut changes: Changes<ObjectValue, ObjectValue>,
    json: bool,
) -> Result<u8, Failure> {
    for (key, value) in map.entries().map_err(|e| failed(&e))? {
        entry(&key, &value, json);
    }
    if json {
        output::object("watching", output::view_json(map.channel(), &map.channel().view()));
    }
    while let Some(event) = changes.next().await {
        let (kind, fields, text) = described(map.channel(), &event);
        match json {
            true => output::object(kind, fields),
            false => output::line(&text),
        }
    }
    Err(Failure::run("the channel closed"))
}

fn described(
    ch: &Channel,
    event: &MapEvent<ObjectValue, ObjectValue>,
) -> (&'static str, Value, String) {
    let text = |v| output::escaped(&values::text(v));
    let names = |members: &[rgroups::Address]| -> Vec<String> {
        members.iter().map(|m| output::name(ch, *m)).collect()
    };
    match event {
        MapEvent::Set { key, value, before } => (
            "set",
            json!({
                "key": values::json(key), "value": values::json(value),
                "before": before.as_ref().map(values::json),
            }),
            format!("set {} = {}", text(key), text(value)),
        ),
        MapEvent::Removed { key, before } => (
            "removed",
            json!({"key": values::json(key), "before": values::json(before)}),
            format!("removed {}", text(key)),
        ),
        MapEvent::Merged { survivors, lost } => {
            let optional = |v: &Option<ObjectValue>| v.as_ref().map(values::json);
            let one = |l: &LostEntry<ObjectValue, ObjectValue>| {
                let (ours, theirs) = (optional(&l.ours), optional(&l.theirs));
                json!({"key": values::json(&l.key), "ours": ours, "theirs": theirs})
            };
            let lost_json: Vec<Value> = lost.iter().map(one).collect();
            let of = output::escaped(&names(survivors).join(", "));
            let text =
                format!("** merged: the map of {of} goes on, {} entries given up", lost.len());
            ("merged", json!({"survivors": names(survivors), "lost": lost_json}), text)
        }
        MapEvent::Diverged { members, why } => {
            let of = output::escaped(&names(members).join(", "));
            let text = format!("** the maps of {of} may differ: {}", output::escaped(why));
            ("diverged", json!({"members": names(members), "why": why}), text)
        }
        MapEvent::Missed(n) => {
            ("missed", json!({"events": n}), format!("** {n} changes were too fast to be shown"))
        }
        other => ("other", json!({"what": format!("{other:?}")}), format!("** {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(args: &[&str]) -> Vec<String> {
        args.iter().map(|a| (*a).to_owned()).collect()
    }

    #[test]
    fn words_are_keys_and_values() {
        let put = action(MapVerb::Put, &words(&["int:1", "x"])).expect("well formed");
        assert_eq!(put, Action::Put(ObjectValue::Int(1), ObjectValue::Str("x".into())));
        assert_eq!(action(MapVerb::List, &[]).expect("well formed"), Action::List);
    }

    #[test]
    fn too_few_and_too_many_words_are_wrong_usage() {
        for (verb, args) in [
            (MapVerb::Get, &[][..]),
            (MapVerb::Get, &["a", "b"]),
            (MapVerb::Put, &["a"]),
            (MapVerb::Put, &["a", "b", "c"]),
            (MapVerb::List, &["a"]),
            (MapVerb::Watch, &["a"]),
            (MapVerb::Get, &["int:x"]),
        ] {
            assert!(action(verb, &words(args)).is_err(), "{verb:?} {args:?}");
        }
    }
}
