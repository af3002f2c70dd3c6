//! The Chat demo of JGroups and `rgroups chat`.

use crate::peer::Peer;
use crate::world::World;

#[test]
fn the_chat_demo_of_jgroups_and_ours_talk_to_each_other() {
    let Some(world) = World::new("udp") else { return };
    let mut java = world.jvm(&["-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8"]);
    java.args(["org.jgroups.demos.Chat", "-props", "udp.xml", "-name", "J"]);
    let java = Peer::start("J", java);
    java.hears("** view: [J|0] (1) [J]");
    let rust = world.command("chat", "chat", "R", &[]);
    java.hears("** view: [J|1] (2) [J, R]");
    rust.hears("** view [J|1] (2) [J, R]");
    java.told("good morning");
    rust.hears("[J] good morning");
    rust.told("Grüße, 你好");
    java.hears("[R]: Grüße, 你好");
    rust.hears("[R] Grüße, 你好");
    // Text that comes as plain bytes is shown as well.
    let sender = world.command("send", "chat", "S", &["--members", "3", "--", "plain text"]);
    rust.hears("[S] plain text");
    drop(sender);
}
