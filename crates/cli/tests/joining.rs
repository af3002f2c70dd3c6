//! What a member says of its join.

mod common;

use common::{Net, PATIENCE, Proc};

#[test]
fn a_first_member_says_whom_it_looked_for() {
    let net = Net::tcp();
    let mut args = vec!["view", "demo", "-n", "A"];
    args.extend(net.options());
    let view = Proc::start_in(&args, &[("RGROUPS_LOG", "info")]).end(PATIENCE);
    assert_eq!(view.code, Some(0), "{}", view.stderr);
    let note = view.stderr.lines().find(|l| l.contains("RG0302")).expect(&view.stderr);
    assert!(note.contains("asked at 127.0.0.1:") && note.contains("nobody answered"), "{note}");
}
