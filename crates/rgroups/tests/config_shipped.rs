//! The XML files that JGroups ships: which of them load here. They are read from the class path in
//! RGROUPS_JGROUPS_CP (folders and jars); without it this is skipped. With RGROUPS_WRITE_TABLE=1 the
//! table in docs/interop is written.

use rgroups::{ConfigError, ConfigLoader, ConfigReport, Finding, Severity};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What became of a file.
enum Outcome {
    Loads(ConfigReport),
    Refused(ConfigReport),
    /// Not a stack, but a part of one, or nothing of ours.
    Other(&'static str),
}

/// The folders of the class path; jars are unpacked.
fn folders() -> Option<Vec<PathBuf>> {
    let Ok(class_path) = std::env::var("RGROUPS_JGROUPS_CP") else {
        println!("skipped: RGROUPS_JGROUPS_CP is not set");
        return None;
    };
    let mut all = Vec::new();
    for (i, entry) in std::env::split_paths(&class_path).enumerate() {
        if entry.is_dir() {
            all.push(entry);
        } else if entry.extension().is_some_and(|e| e == "jar") {
            let into = std::env::temp_dir().join(format!("rgroups-jar-{}-{i}", std::process::id()));
            fs::create_dir_all(&into).expect("writable");
            let jar = fs::canonicalize(&entry).expect("is there");
            let unpacked = Command::new("jar").arg("xf").arg(jar).current_dir(&into).status();
            assert!(unpacked.expect("a JDK").success(), "{}", entry.display());
            all.push(into);
        }
    }
    Some(all)
}

/// The XML files below a folder, by their relative names.
fn files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let mut all = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(f) = open.pop() {
        for entry in fs::read_dir(&f).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "xml") {
                let name = path.strip_prefix(folder).expect("below").display().to_string();
                all.insert(name, path);
            }
        }
    }
    all
}

fn outcome(path: &Path) -> Outcome {
    let loader = ConfigLoader::new().without_environment();
    match loader.load_file(path) {
        Ok(config) => Outcome::Loads(config.report().clone()),
        Err(ConfigError::File(report)) => {
            let first = report.findings()[0].message();
            if first.starts_with("<RelayConfiguration> is no stack") {
                Outcome::Other("sites of RELAY, which does not exist here yet")
            } else if first.starts_with("<fork-stacks> is no stack") {
                Outcome::Other("stacks of FORK, which does not exist here yet")
            } else if first.starts_with("the root element is") {
                Outcome::Other("something else")
            } else {
                Outcome::Refused(*report)
            }
        }
        Err(other) => panic!("{}: {other}", path.display()),
    }
}

fn shipped() -> Option<BTreeMap<String, Outcome>> {
    let mut all = BTreeMap::new();
    for folder in folders()? {
        for (name, path) in files(&folder) {
            all.entry(name).or_insert_with(|| outcome(&path));
        }
    }
    assert!(!all.is_empty(), "no XML file on the class path");
    Some(all)
}

fn missing(report: &ConfigReport) -> Vec<String> {
    let mut all: Vec<String> = report
        .findings()
        .iter()
        .filter_map(|f| f.message().strip_suffix(" does not exist here yet").map(str::to_owned))
        .collect();
    all.dedup();
    all
}

#[test]
fn every_attribute_of_the_shipped_files_is_read_or_known_to_be_without_meaning() {
    let Some(all) = shipped() else { return };
    for (name, outcome) in &all {
        let (Outcome::Loads(report) | Outcome::Refused(report)) = outcome else { continue };
        // A protocol that is not here is the only reason to refuse one of these files.
        let wrong: Vec<&Finding> = report
            .findings()
            .iter()
            .filter(|f| f.severity() == Severity::Error && f.code() != "RG0105")
            .collect();
        assert!(wrong.is_empty(), "{name}:\n{report}");
    }
}

#[test]
fn the_table_of_the_shipped_files_is_written() {
    let Some(all) = shipped() else { return };
    let mut table = String::from(
        "# The XML files that JGroups 5.5.6 ships\n\n\
         Written by `RGROUPS_JGROUPS_CP=… RGROUPS_WRITE_TABLE=1 cargo test -p rgroups --test \
         config_shipped`.\n\n| file | outcome | |\n|---|---|---|\n",
    );
    let (mut loads, mut refused) = (0, 0);
    for (name, outcome) in &all {
        let (what, details) = match outcome {
            Outcome::Loads(r) => {
                loads += 1;
                let (warnings, notes) = (r.count(Severity::Warning), r.count(Severity::Note));
                match (warnings, notes) {
                    (0, 0) => ("loads", String::new()),
                    (0, n) => ("loads with notes", format!("{n} notes")),
                    (w, n) => ("loads with notes", format!("{n} notes, {w} warnings")),
                }
            }
            Outcome::Refused(r) => {
                refused += 1;
                ("refused", format!("not here yet: {}", missing(r).join(", ")))
            }
            Outcome::Other(what) => ("is no stack", (*what).to_owned()),
        };
        table += &format!("| {name} | {what} | {details} |\n");
    }
    table += &format!("\n{loads} load, {refused} are refused.\n");
    println!("{table}");
    if std::env::var_os("RGROUPS_WRITE_TABLE").is_some() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/interop");
        fs::create_dir_all(&folder).expect("writable");
        fs::write(folder.join("xml-files.md"), table).expect("writable");
    }
}
