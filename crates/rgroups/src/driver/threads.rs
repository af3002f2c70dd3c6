//! One thread per channel.

use super::Member;
use std::io;
use std::thread;

/// Runs the member until it ends.
pub(crate) fn spawn(mut member: Member) -> io::Result<()> {
    let name = format!("rgroups {}", member.name().chars().take(24).collect::<String>());
    // A thread name cannot hold a zero, which a logical name may.
    let name = name.replace('\0', "");
    thread::Builder::new().name(name).spawn(move || while member.turn(None) {})?;
    Ok(())
}
