//! Files with one fault each: what is said about it names the place and the fix. With
//! RGROUPS_REWRITE the expectations are written anew.

use rgroups::{ConfigError, ConfigLoader};
use std::fs;
use std::path::PathBuf;

/// The files, by their paths relative to the package.
fn broken() -> Vec<PathBuf> {
    let folder = fs::read_dir("tests/config/broken").expect("is there");
    let mut all: Vec<PathBuf> = folder
        .map(|e| e.expect("readable").path())
        .filter(|p| p.extension().is_some_and(|e| e == "xml" || e == "toml"))
        .collect();
    all.sort();
    all
}

fn told(path: &str) -> String {
    match ConfigLoader::new().without_environment().load(path) {
        Ok(config) => config.report().to_string(),
        Err(ConfigError::File(report)) => report.to_string(),
        Err(other) => panic!("{path}: {other}"),
    }
}

#[test]
fn every_fault_is_told_with_its_place_and_its_fix() {
    let rewrite = std::env::var_os("RGROUPS_REWRITE").is_some();
    let mut wrong = Vec::new();
    let files = broken();
    for path in &files {
        let told = told(path.to_str().expect("ASCII"));
        let expected = path.with_extension("expected");
        if rewrite {
            fs::write(&expected, &told).expect("writable");
        } else if fs::read_to_string(&expected).unwrap_or_default() != told {
            wrong.push(format!("{}:\n{told}", path.display()));
        }
    }
    assert!(files.len() >= 20, "{}", files.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_fault_is_told_once() {
    for path in broken() {
        let told = told(path.to_str().expect("ASCII"));
        let heads = told.lines().filter(|l| l.starts_with("error[") || l.starts_with("warning["));
        assert_eq!(heads.count(), 1, "{}:\n{told}", path.display());
    }
}

#[test]
fn all_faults_of_a_file_are_told_at_once() {
    let text = "<config>\n<UDP colour=\"blue\" mcast_port=\"x\"/>\n<PNIG/>\n<MFC/>\n</config>";
    let Err(ConfigError::File(report)) = ConfigLoader::new().load_xml(text) else {
        panic!("refused");
    };
    let codes: Vec<&str> = report.findings().iter().map(rgroups::Finding::code).collect();
    assert_eq!(codes[..3], ["RG0101", "RG0102", "RG0100"], "{report}");
}
