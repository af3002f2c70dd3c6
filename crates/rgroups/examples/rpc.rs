//! Calls of methods: two members count together, each asks the other for its share, and a call that
//! nobody answers ends at its deadline.
//!
//! `cargo run -p rgroups --example rpc`

use rgroups::rpc::{CallOptions, Caller, Dispatcher, RpcError};
use rgroups::{Channel, Config, block_on};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

struct Member {
    channel: Channel,
    rpc: Dispatcher,
}

async fn join(name: &str) -> Result<Member, Box<dyn std::error::Error>> {
    // The events of this program are of no interest: dropped, they count as read.
    let (channel, _events) =
        Channel::builder(Config::in_process()).name(name).connect("rpc-example").await?;
    let total = Arc::new(AtomicU64::new(0));
    let share = Arc::clone(&total);
    let rpc = Dispatcher::builder(&channel)
        .handle("add", move |_: Caller, n: u64| {
            let now = total.fetch_add(n, Ordering::Relaxed) + n;
            async move { Ok(now) }
        })
        .handle("share", move |_: Caller, (): ()| {
            let share = share.load(Ordering::Relaxed);
            async move { Ok(share) }
        })
        // A handler that calls the group: its caller is answered when the others have answered it.
        .handle("sum", |who: Caller, (): ()| async move {
            let rpc = who.dispatcher().ok_or("the program ends")?;
            let options = CallOptions { timeout: who.remaining(), ..CallOptions::default() };
            let shares = rpc.call_all::<_, u64>("share", (), options).await;
            let shares = shares.and_then(|s| s.all_ok()).map_err(|e| e.to_string())?;
            Ok(shares.iter().map(|(_, share)| share).sum::<u64>())
        })
        .build();
    Ok(Member { channel, rpc })
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    block_on(async {
        let (a, b) = (join("A").await?, join("B").await?);
        let mut views = a.channel.views();
        while views.latest().members().len() < 2 {
            views.changed().await;
        }
        let to = b.channel.address();
        for n in 1..=10u64 {
            a.rpc.call::<_, u64>(to, "add", n, CallOptions::default()).await?;
        }
        let sum: u64 = a.rpc.call(to, "sum", (), CallOptions::default()).await?;
        println!("the sum of all shares is {sum}");
        assert_eq!(sum, 55);

        let short = CallOptions { timeout: Duration::from_millis(50), ..CallOptions::default() };
        match a.rpc.call::<_, u64>(to, "subtract", 1u64, short).await {
            Err(RpcError::NoSuchMethod { method, .. }) => println!("nobody can {method}"),
            other => println!("{other:?}"),
        }
        a.channel.close().await?;
        b.channel.close().await?;
        Ok(())
    })
}
