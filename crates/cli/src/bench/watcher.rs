//! A member in a process of its own that tells how long it took to join, and each of its views.

use super::load::{Report, clock};
use super::member::name;
use super::process::{orders, tell};
use crate::args::BenchMemberArgs;
use crate::failure::Failure;
use crate::join;
use rgroups::{Channel, Event};
use std::time::Instant;

/// Runs the process until its parent goes.
pub(super) async fn run(a: &BenchMemberArgs) -> Result<u8, Failure> {
    if let Err(reason) = watch(a).await {
        tell(&Report::Failed { reason });
    }
    Ok(0)
}

async fn watch(a: &BenchMemberArgs) -> Result<(), String> {
    let config =
        join::config(a.transport, &a.hosts, &a.stack).map_err(|f| f.message().to_owned())?;
    let builder = Channel::builder(config).name(name(a.index));
    let began = Instant::now();
    let (ch, mut events) = builder.connect(&a.cluster).await.map_err(|e| e.to_string())?;
    tell(&Report::Joined { took_us: began.elapsed().as_micros() as u64 });
    let mut orders = orders();
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Event::View(v)) => {
                    tell(&Report::View { members: v.members().len(), at: clock() });
                }
                Some(_) => {}
                None => return Err("the channel closed".to_owned()),
            },
            order = orders.recv() => match order {
                Some(_) => {}
                None => break,
            },
        }
    }
    let _ = ch.close().await;
    Ok(())
}
