//! A protocol of one's own: counts application messages in both directions, and takes its place
//! above FRAG2 like any other layer.
//!
//! ```text
//! cargo run --example custom_protocol
//! ```

use rgroups::core::plan::{ProtocolConfig, StackPlan};
use rgroups::core::protocol::{Interests, Protocol, Spec, Traffic};
use rgroups::core::{Batch, Cx, Flow, Message as CoreMessage};
use rgroups::{Channel, Config, Event, Message, block_on};
use std::sync::Arc;

/// Sees every message and changes none.
#[derive(Debug, Default)]
struct Tally {
    sent: u64,
    received: u64,
}

impl Protocol for Tally {
    fn spec(&self) -> Spec {
        Spec {
            name: "TALLY",
            id: None,
            interests: Interests { down: Traffic::Both, up: Traffic::Both, ..Interests::default() },
            provides: &[],
            needs_below: &[],
            needs_above: &[],
        }
    }

    fn down(&mut self, _msg: &mut CoreMessage, _cx: &mut Cx<'_>) -> Flow {
        self.sent += 1;
        Flow::Pass
    }

    fn up(&mut self, batch: &mut Batch, _cx: &mut Cx<'_>) {
        self.received += batch.len() as u64;
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("sent", self.sent);
        out("received", self.received);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tally =
        ProtocolConfig::Custom { name: "TALLY", build: Arc::new(|| Box::<Tally>::default()) };
    let config = Config::from_plan(StackPlan::in_process().insert_above("FRAG2", tally));
    block_on(async {
        let (ch, mut events) = Channel::builder(config).name("A").connect("tally").await?;
        for i in 0..3 {
            ch.send(Message::multicast(format!("message {i}"))).await?;
        }
        let mut seen = 0;
        while seen < 3 {
            match events.next().await {
                Some(Event::Message(_)) => seen += 1,
                Some(_) => {}
                None => return Err("the channel closed".into()),
            }
        }
        let all = ch.inspect().await.ok_or("the channel closed")?;
        for (protocol, name, value) in all.counters.iter().filter(|(p, _, _)| p == "TALLY") {
            println!("{protocol}.{name} = {value}");
        }
        ch.close().await?;
        Ok(())
    })
}
