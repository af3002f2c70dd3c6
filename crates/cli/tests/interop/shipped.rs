//! The other files that JGroups ships and that load here: a member of each kind, first one way
//! round, then the other. They join, send, compare, and the first one leaves.

use crate::matrix::compared;
use crate::peer::{PATIENCE, Peer};
use crate::table::{Table, versions, warnings};
use crate::world::World;

/// Those that are stacks for more than one process and not in the matrix.
const FILES: [&str; 3] = ["fast", "tcp-nio", "tcp-nio-new"];

/// Of each member, to all and to the other.
const MESSAGES: u64 = 1_000;
const SIZE: u64 = 1_000;

#[test]
fn every_other_file_works_with_a_member_of_each_kind() {
    let mut table = Table::new("other-files");
    table.line("| file | members in the order of joining | what was seen |\n|---|---|---|");
    let (mut all, mut hashes) = (Vec::new(), String::new());
    for file in FILES {
        for names in [["J", "R"], ["R", "J"]] {
            let Some(world) = World::new(file) else { return };
            let members = exchanged(&world, names);
            hashes.push_str(&format!("| **{file}.xml, {}** | | | |\n", names.join(", ")));
            compared(&members, &mut hashes);
            members[0].told("leave");
            members[0].hears("^left");
            members[1].hears(&format!("^view 2 {}$", names[1]));
            table.line(&format!(
                "| {file}.xml | {} | one view; {MESSAGES} multicasts and {MESSAGES} unicasts of \
                 each, equal in content; {} leaves |",
                names.join(", "),
                names[0],
            ));
            all.extend(members);
        }
    }
    table.line("\n| warnings | |\n|---|---|");
    for (kind, count) in warnings(&all) {
        table.line(&format!("| {kind} | {count} |"));
    }
    table.line("\n| stream | messages | bytes | SHA-256 of the contents, the same everywhere |");
    table.line("|---|---|---|---|");
    table.line(hashes.trim_end());
    table.write(&versions(&all));
}

fn exchanged(world: &World, names: [&str; 2]) -> Vec<Peer> {
    let mut members: Vec<Peer> = Vec::new();
    for (place, name) in names.iter().enumerate() {
        members.push(match *name {
            "J" => world.stock_java(name, place as u16, &[]),
            _ => world.stock_rust(name, place as u16, &[]),
        });
        for m in &members {
            m.hears(&format!("^view {place} {}$", names[..=place].join(",")));
        }
    }
    for (m, other) in [(0, 1), (1, 0)] {
        members[m].told(&format!("expect multicast {} {MESSAGES}", names[other]));
        members[m].told(&format!("expect multicast {} {MESSAGES}", names[m]));
        members[m].told(&format!("expect unicast {} {MESSAGES}", names[other]));
    }
    for (m, other) in [(0, 1), (1, 0)] {
        members[m].told(&format!("mcastn {MESSAGES} {SIZE}"));
        members[m].told(&format!("ucastn {} {MESSAGES} {SIZE}", names[other]));
    }
    for (m, other) in [(0, 1), (1, 0)] {
        for kind in [format!("multicast {}", names[m]), format!("multicast {}", names[other])] {
            members[m].has_heard(&format!("^got {kind} {MESSAGES} "), PATIENCE);
        }
        members[m].has_heard(&format!("^got unicast {} {MESSAGES} ", names[other]), PATIENCE);
    }
    members
}
