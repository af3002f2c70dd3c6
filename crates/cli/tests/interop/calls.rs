//! Calls of methods between an `RpcDispatcher` of JGroups and ours: every kind of value, null and
//! exceptions, each way.

use crate::peer::{PATIENCE, Peer};
use crate::table::{Table, versions};
use crate::world::World;
use rgroups::rpc::{CallOptions, Caller, Dispatcher, JavaClass, RpcError, ValueCall};
use rgroups::{Address, Channel, Config, Events, ObjectValue, block_on};

/// A Java member "J" with a dispatcher and one of ours, "R", in one view.
struct Pair {
    java: Peer,
    rpc: Dispatcher,
    j: Address,
    r: Address,
    _events: Events,
}

fn no_such_arguments() -> String {
    "other arguments are needed".to_owned()
}

/// The same methods as `Caller.java` has.
fn ours(channel: &Channel) -> Dispatcher {
    use ObjectValue::{ByteArray, Int, Long, Null, Str};
    Dispatcher::builder(channel)
        .handle_values("add", |_: Caller, args: Vec<ObjectValue>| async move {
            match args[..] {
                [Int(a), Int(b)] => Ok(Int(a + b)),
                _ => Err(no_such_arguments()),
            }
        })
        .handle_values("twice", |_: Caller, args: Vec<ObjectValue>| async move {
            match args[..] {
                [Long(n)] => Ok(Long(2 * n)),
                _ => Err(no_such_arguments()),
            }
        })
        .handle_values("greet", |_: Caller, args: Vec<ObjectValue>| async move {
            match &args[..] {
                [Str(name)] => Ok(Str(format!("hello {name}"))),
                _ => Err(no_such_arguments()),
            }
        })
        .handle_values("reverse", |_: Caller, args: Vec<ObjectValue>| async move {
            match &args[..] {
                [ByteArray(bytes)] => Ok(bytes.iter().rev().copied().collect::<Vec<u8>>().into()),
                _ => Err(no_such_arguments()),
            }
        })
        .handle_values("isNull", |_: Caller, args: Vec<ObjectValue>| async move {
            Ok((args == [Null]).into())
        })
        .handle_values("nothing", |_: Caller, _: Vec<ObjectValue>| async { Ok(Null) })
        .handle_values("fail", |_: Caller, args: Vec<ObjectValue>| async move {
            match &args[..] {
                [Str(why)] => Err(why.clone()),
                _ => Err(no_such_arguments()),
            }
        })
        .build()
}

/// Over each transport.
fn on_every_pair(mut case: impl FnMut(&World, Pair)) {
    for transport in ["udp", "tcp"] {
        let Some(world) = World::new(transport) else { return };
        let java = world.java_caller("J");
        java.hears("^joined");
        let config = Config::from_xml(&world.plan("")).expect("JGroups' file");
        let builder = Channel::builder(config).name("R");
        let (channel, events) = block_on(builder.connect(&world.cluster)).expect("joins");
        let rpc = ours(&channel);
        java.hears("^view 1 J,R");
        let r = channel.address();
        let members = channel.view().members().to_vec();
        let j = members.into_iter().find(|m| *m != r).expect("the Java member");
        case(&world, Pair { java, rpc, j, r, _events: events });
    }
}

impl Pair {
    /// What Java prints of its call of our member.
    fn java_calls(&self, call: &str) -> String {
        let rows = self.java.answers(&format!("call R {call}"));
        assert_eq!(rows.len(), 1, "one row for one member: {rows:?}");
        rows[0].clone()
    }

    /// What we have of our call of the Java member.
    fn we_call(&self, call: ValueCall) -> Result<ObjectValue, RpcError> {
        let options = CallOptions { timeout: PATIENCE, ..CallOptions::default() };
        let rows = block_on(self.rpc.call_values(self.j, call, options)).expect("it is made");
        rows.of(self.j).cloned().expect("one row for one member")
    }
}

/// Every call that Java makes, and what it prints.
const BY_JAVA: [(&str, &str); 9] = [
    ("add int:2 int:-5", "Integer -3"),
    ("twice long:1099511627776", "Long 2199023255552"),
    ("greet string:Jürgen", "String hello Jürgen"),
    ("reverse bytes:010203", "bytes 030201"),
    ("reverse bytes:", "bytes "),
    ("isNull null:", "Boolean true"),
    ("isNull string:x", "Boolean false"),
    ("nothing", "null"),
    ("fail string:broken", "exception java.lang.RuntimeException broken"),
];

fn java_calls_ours(pair: &Pair, table: &mut Table) {
    for (call, row) in BY_JAVA {
        assert_eq!(pair.java_calls(call), format!("row R {row}"), "{call}");
        table.line(&format!("| Java | `{call}` | `{row}` |"));
    }
    let unknown = pair.java_calls("absent int:1");
    assert!(unknown.starts_with("row R exception java.lang.NoSuchMethodException"), "{unknown}");
    table.line("| Java | `absent int:1` | a `NoSuchMethodException` |");
}

fn we_call_java(pair: &Pair, table: &mut Table) {
    let null = ValueCall::new("isNull").arg_as(JavaClass::String, ObjectValue::Null);
    let failed = RpcError::Remote {
        from: pair.j,
        class: Some("java.lang.IllegalStateException".into()),
        message: "broken".into(),
    };
    let unknown = RpcError::NoSuchMethod { from: pair.j, method: "absent".into() };
    for (text, call, outcome) in [
        ("add 2 -5", ValueCall::new("add").arg(2).arg(-5), Ok(ObjectValue::Int(-3))),
        ("twice 2^40", ValueCall::new("twice").arg(1i64 << 40), Ok(ObjectValue::Long(1 << 41))),
        ("greet Jürgen", ValueCall::new("greet").arg("Jürgen"), Ok("hello Jürgen".into())),
        ("reverse 1 2 3", ValueCall::new("reverse").arg(vec![1, 2, 3]), Ok(vec![3, 2, 1].into())),
        ("isNull null", null, Ok(true.into())),
        ("isNull x", ValueCall::new("isNull").arg("x"), Ok(false.into())),
        ("nothing", ValueCall::new("nothing"), Ok(ObjectValue::Null)),
        ("fail broken", ValueCall::new("fail").arg("broken"), Err(failed)),
        ("absent", ValueCall::new("absent"), Err(unknown)),
    ] {
        assert_eq!(pair.we_call(call), outcome, "{text}");
        let row = match outcome {
            Ok(value) => format!("{value:?}"),
            Err(RpcError::Remote { class, message, .. }) => format!("{class:?}: {message}"),
            Err(_) => "no such method".to_owned(),
        };
        table.line(&format!("| Rust | `{text}` | `{row}` |"));
    }
    let list = pair.we_call(ValueCall::new("list"));
    assert!(matches!(list, Ok(ObjectValue::JavaSerialized(_))), "{list:?}");
    table.line("| Rust | `list` | an opaque blob |");
}

#[test]
fn calls_with_every_kind_of_value_and_failure_go_both_ways() {
    let mut table = Table::new("calls");
    let mut of = None;
    on_every_pair(|world, pair| {
        table.line(&format!("\n## {}.xml\n\n| by | call | row |\n|---|---|---|", world.stack));
        java_calls_ours(&pair, &mut table);
        we_call_java(&pair, &mut table);
        of = Some(versions(&[pair.java]));
    });
    if let Some(mut of) = of {
        of.push(format!("rgroups {}", env!("CARGO_PKG_VERSION")));
        table.write(&of);
    }
}

#[test]
fn a_call_of_all_has_a_row_for_members_of_both_kinds() {
    on_every_pair(|_, pair| {
        let options = CallOptions { timeout: PATIENCE, ..CallOptions::default() };
        let add = ValueCall::new("add").arg(20).arg(22);
        let rows = block_on(pair.rpc.call_values(vec![pair.j, pair.r], add, options.clone()));
        let both = vec![(pair.j, ObjectValue::Int(42)), (pair.r, ObjectValue::Int(42))];
        assert_eq!(rows.expect("it is made").all_ok(), Ok(both));
        let rows = block_on(pair.rpc.call_all::<_, i64>("add", (1i64, 2i64), options))
            .expect("it is made");
        assert_eq!(rows.of(pair.j), Some(&Err(RpcError::OnlyValues(pair.j))));
        assert_eq!(pair.java_calls("add int:1 int:2"), "row R Integer 3", "it goes on");
        pair.java.answers("call * add int:3 int:4");
        pair.java.has_heard("^row R Integer 7", PATIENCE);
    });
}
