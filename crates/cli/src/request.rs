//! `request`: one call, one row a member.

use crate::args::{Awaited, RequestArgs};
use crate::failure::Failure;
use crate::signals::{Signals, leave};
use crate::{join, output, send, values};
use rgroups::rpc::{CallOptions, Dispatcher, JavaClass, Responses, RpcError, ValueCall};
use rgroups::{Address, Channel, Diagnose, Events, ObjectValue};
use serde_json::json;

/// Runs the command.
pub(crate) async fn run(a: &RequestArgs, json: bool) -> Result<u8, Failure> {
    let call = call(&a.method, &a.args)?;
    let mut signals = Signals::new()?;
    let (ch, mut events) = join::join(&a.cluster, &a.join).await?;
    let outcome = tokio::select! {
        code = request(a, call, json, &ch, &mut events) => code,
        code = signals.next() => Ok(code),
    };
    leave(ch, &mut signals).await;
    outcome
}

/// What the words on the command line say.
fn call(method: &str, args: &[String]) -> Result<ValueCall, Failure> {
    args.iter().try_fold(ValueCall::new(method), |call, word| {
        Ok(match values::value(word)? {
            ObjectValue::Null => call.arg_as(JavaClass::String, ObjectValue::Null),
            value => call.arg(value),
        })
    })
}

async fn request(
    a: &RequestArgs,
    call: ValueCall,
    json: bool,
    ch: &Channel,
    events: &mut Events,
) -> Result<u8, Failure> {
    send::wait_for_members(a.members, a.join.timeout, ch, events).await?;
    let to = match &a.to {
        Some(name) => vec![send::member_named(name, ch).await?],
        None => {
            output::named(ch, &ch.view()).await;
            ch.view().members().iter().copied().filter(|m| *m != ch.address()).collect()
        }
    };
    let rpc = Dispatcher::builder(ch).build();
    let options = CallOptions { wait: a.wait.into(), timeout: a.within, ..CallOptions::default() };
    let rows = rpc.call_values(to, call, options).await;
    let rows = rows.map_err(|e| Failure::run(e.to_string()).coded(e.code()))?;
    rows.iter().for_each(|(member, row)| show(ch, member, row, json));
    Ok(if is_complete(a.wait, &rows) { 0 } else { 5 })
}

/// Whether everything was answered that was awaited.
fn is_complete(wait: Awaited, rows: &Responses<ObjectValue>) -> bool {
    let not_awaited = |e: &RpcError| matches!(e, RpcError::NotAwaited(_));
    rows.errors().all(|(_, e)| not_awaited(e)) && (wait == Awaited::None || rows.ok().count() > 0)
}

fn show(ch: &Channel, member: Address, row: &Result<ObjectValue, RpcError>, json: bool) {
    if json {
        let mut fields = json!({"member": output::name(ch, member)});
        match row {
            Ok(value) => fields["value"] = values::json(value),
            Err(e) => fields["error"] = json!({"code": e.code(), "message": text_of(e)}),
        }
        return output::object("row", fields);
    }
    let text = match row {
        Ok(value) => output::escaped(&values::text(value)),
        Err(e) => format!("error: {}", output::escaped(&text_of(e))),
    };
    output::line(&format!("{}  {text}", output::member(ch, member)));
}

/// What a row says beside the member that it names anyway.
fn text_of(e: &RpcError) -> String {
    match e {
        RpcError::Remote { class: Some(class), message, .. } => format!("{class}: {message}"),
        RpcError::Remote { class: None, message, .. } => message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(args: &[&str]) -> Vec<String> {
        args.iter().map(|a| (*a).to_owned()).collect()
    }

    #[test]
    fn words_are_values_of_the_type_in_front_of_them() {
        let typed = call("m", &words(&["int:5", "bool:true", "bytes:0aff", "null:", "x:y", "z"]));
        let by_hand = ValueCall::new("m")
            .arg(5)
            .arg(true)
            .arg(vec![10u8, 255])
            .arg_as(JavaClass::String, ObjectValue::Null)
            .arg("x:y")
            .arg("z");
        assert_eq!(typed.expect("well formed"), by_hand);
    }

    #[test]
    fn a_value_that_its_type_cannot_have_is_wrong_usage() {
        for word in ["int:x", "long:", "bool:2", "bytes:0", "bytes:xy"] {
            assert!(call("m", &words(&[word])).is_err(), "{word}");
        }
    }
}
