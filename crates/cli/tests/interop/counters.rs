//! COUNTER between a `CounterService` of JGroups and ours: everything that both add is there, whoever
//! is coordinator, and it is still there when the coordinator has left.

use crate::peer::{PATIENCE, Peer};
use crate::table::{Table, versions};
use crate::world::World;
use rgroups::{Channel, Config, block_on};

const EACH: i64 = 10_000;

fn ours(world: &World) -> Channel {
    let config =
        Config::from_xml(&world.plan("<COUNTER num_backups='1'/>")).expect("JGroups' file");
    let builder = Channel::builder(config).name("R");
    let (channel, mut events) = block_on(builder.connect(&world.cluster)).expect("joins");
    std::thread::spawn(move || block_on(async { while events.next().await.is_some() {} }));
    channel
}

fn java(world: &World) -> Peer {
    let java = world.java_counting("J", "<COUNTER num_backups='1'/>");
    java.has_heard("^joined", PATIENCE);
    java
}

/// What Java prints of a use.
fn java_says(java: &Peer, command: &str) -> i64 {
    let value = java
        .answers(command)
        .into_iter()
        .find_map(|l| l.strip_prefix("value orders ").and_then(|v| v.parse().ok()));
    value.unwrap_or_else(|| panic!("{command}: {:?}", java.lines().last()))
}

fn both_count(java: &Peer, channel: &Channel) {
    let counter = channel.counter("orders");
    java.told(&format!("increment orders {EACH}"));
    block_on(async {
        for _ in 0..EACH {
            counter.increment().await.expect("the coordinator answers");
        }
    });
    java.hears(&format!("^done increment orders {EACH}"));
    assert_eq!(block_on(counter.get()), Ok(2 * EACH), "as we see it");
    assert_eq!(java_says(java, "get orders"), 2 * EACH, "as Java sees it");
}

#[test]
fn what_both_sides_add_is_exactly_there_and_survives_the_coordinator() {
    let mut table = Table::new("counters");
    let mut of = None;
    for transport in ["udp", "tcp"] {
        let Some(world) = World::new(transport) else { return };
        table.line(&format!("\n## {}.xml with COUNTER\n\n| | |\n|---|---|", world.stack));
        of = Some(java_first(&world, &mut table));
        let Some(world) = World::new(transport) else { return };
        rust_first(&world, &mut table);
    }
    if let Some(mut of) = of {
        of.push(format!("rgroups {}", env!("CARGO_PKG_VERSION")));
        table.write(&of);
    }
}

fn java_first(world: &World, table: &mut Table) -> Vec<String> {
    let java = java(world);
    let channel = ours(world);
    java.hears("^view 1 J,R");
    both_count(&java, &channel);
    table.timed(&format!(
        "Java is coordinator; both increment one counter {EACH} times: it is {}",
        2 * EACH
    ));
    let counter = channel.counter("orders");
    assert_eq!(block_on(counter.compare_and_swap(2 * EACH, 5)), Ok(2 * EACH));
    assert_eq!(java_says(&java, "cas orders 5 6"), 5);
    assert_eq!(java_says(&java, "cas orders 5 7"), 6, "it has changed");
    table.timed("each compares and swaps what the other has left");
    java.told("stop");
    java.hears("^stopped");
    assert_eq!(block_on(counter.increment()), Ok(7));
    table.timed("Java leaves; the Rust member goes on where it was");
    block_on(channel.close()).expect("leaves");
    versions(&[java])
}

fn rust_first(world: &World, table: &mut Table) {
    let channel = ours(world);
    let java = java(world);
    java.hears("^view 1 R,J");
    both_count(&java, &channel);
    table.timed(&format!(
        "Rust is coordinator; both increment one counter {EACH} times: it is {}",
        2 * EACH
    ));
    block_on(channel.close()).expect("leaves");
    java.hears("^view 2 J");
    assert_eq!(java_says(&java, "increment orders 1"), 2 * EACH + 1);
    table.timed("Rust leaves; the Java member goes on where it was");
}
