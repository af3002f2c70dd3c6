//! The table of the invariants is whole and true.

use std::path::{Path, PathBuf};

/// What the simulator has to judge.
const REQUIRED: &str = "A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12 A13 A14 A15 A16 B1 B2 \
    C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 C11a C11b C12 C13 C14 C15 C16 C17 D1 D2 D3 E1 E2 E3 E4 E5 E6 E7 E8 E9 \
    F1 F2 F3 F4 F5 F6 F7 G1 G2 G3 H1 H2 H3 H4 I1 I2 J1 J2 J3 J4 J5 J6 K1 K2 K3 K4 K5 O1 P1 P2 P3";

struct Row {
    invariant: String,
    oracle: String,
    test: String,
}

fn rows() -> Vec<Row> {
    let cells = |line: &str| -> Vec<String> {
        line.split('|').map(|c| c.trim().trim_matches('`').to_owned()).collect()
    };
    let table = include_str!("invariants.md").lines().filter(|l| l.starts_with('|'));
    let row =
        |c: Vec<String>| Row { invariant: c[1].clone(), oracle: c[3].clone(), test: c[4].clone() };
    table.skip(2).map(|l| row(cells(l))).collect()
}

/// What judges and what tests an oracle: a file, or a folder of files.
fn sources(oracle: &str) -> (String, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/oracle");
    let mut files: Vec<PathBuf> = vec![folder.join(format!("{oracle}.rs"))];
    let inside = std::fs::read_dir(folder.join(oracle)).into_iter().flatten();
    files.extend(inside.map(|f| f.unwrap().path()));
    let (mut judging, mut testing) = (String::new(), String::new());
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let all_tests = file.file_name().is_some_and(|n| n == "tests.rs");
        match text.split_once("#[cfg(test)]\nmod tests {") {
            _ if all_tests => testing += &text,
            Some((before, after)) => {
                judging += before;
                testing += after;
            }
            None => judging += &text,
        }
    }
    (judging, testing)
}

#[test]
fn every_invariant_of_the_list_has_an_oracle_and_a_test_that_fails_by_its_name() {
    let rows = rows();
    let listed: Vec<&str> = rows.iter().map(|r| r.invariant.as_str()).collect();
    let missing: Vec<&str> =
        REQUIRED.split_whitespace().filter(|id| !listed.contains(id)).collect();
    assert!(missing.is_empty(), "no oracle for {missing:?}");
    for Row { invariant, oracle, test } in &rows {
        let (judging, testing) = sources(oracle);
        let name = format!("\"{invariant}\"");
        assert!(judging.contains(&name), "{oracle} does not judge {invariant}");
        let body = testing.split_once(&format!("fn {test}()"));
        let body = body.map(|(_, rest)| rest.split("#[test]").next().unwrap_or_default());
        assert!(body.is_some_and(|b| b.contains(&name)), "{test} does not show {invariant}");
    }
}
