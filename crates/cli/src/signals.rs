//! The first signal leaves the group, the second one ends the program at once.

use crate::failure::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for signals.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Starts listening.
    pub(crate) fn new() -> Result<Self, Failure> {
        let on =
            |kind| signal(kind).map_err(|e| Failure::run(format!("cannot catch signals: {e}")));
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
        })
    }

    /// The next signal, as the exit code that stands for it. Cancel-safe.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        }
    }
}

/// Leaves the group; a second signal ends the program at once.
pub(crate) async fn leave(ch: rgroups::Channel, signals: &mut Signals) {
    tokio::select! {
        left = ch.close() => {
            if let Err(e) = left {
                anstream::eprintln!("warning: {e}");
            }
        }
        code = signals.next() => std::process::exit(i32::from(code)),
    }
}
