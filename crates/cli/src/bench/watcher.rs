//! A member in a process of its own that tells how long it took to join, and each of its views.

use super::load::{Report, clock};
use super::member::builder;
use super::process::{orders, tell};
use crate::args::BenchMemberArgs;
use rgroups::Event;
use std::time::Instant;

/// Runs the process until its parent goes.
pub(super) async fn run(a: &BenchMemberArgs) -> Result<(), String> {
    let builder = builder(a)?;
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
