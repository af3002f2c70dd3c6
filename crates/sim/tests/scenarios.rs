//! Runs every scenario in `scenarios/`. With `RGROUPS_REWRITE=1` the transcripts in the files are
//! replaced by what happened; look at the difference before you keep it.

use rgroups_sim::script;
use std::path::PathBuf;

#[test]
fn scenarios_happen_as_they_are_written() {
    let rewrite = std::env::var_os("RGROUPS_REWRITE").is_some();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let mut told = Vec::new();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "txt")) {
        let ran = script::run_file(file, rewrite).unwrap();
        let name = file.file_stem().unwrap().to_string_lossy();
        told.extend(ran.failures.iter().map(|f| format!("{name}, {f}")));
    }
    assert!(told.is_empty(), "\n{}", told.join("\n"));
}
