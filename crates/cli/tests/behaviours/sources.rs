//! Which tests and scenarios there are, found in the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How many lines above a test its attribute is at most.
const ATTRIBUTES: usize = 4;

/// Tests and scenarios by name, with the crates that they are in.
pub(crate) struct Sources(BTreeMap<String, BTreeSet<&'static str>>);

impl Sources {
    pub(crate) fn read() -> Self {
        let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = Self(BTreeMap::new());
        for name in ["core", "wire", "sim", "rgroups", "cli"] {
            found.search(&crates.join(name), name);
        }
        found
    }

    /// In which crates there is a test of this name, or that it is a scenario.
    pub(crate) fn places(&self, name: &str) -> Option<Vec<&'static str>> {
        self.0.get(name).map(|places| places.iter().copied().collect())
    }

    fn search(&mut self, folder: &Path, place: &'static str) {
        for entry in std::fs::read_dir(folder).expect("the sources are there") {
            let path = entry.expect("the sources are there").path();
            if path.is_dir() {
                self.search(&path, place);
                continue;
            }
            let is_scenario = path.parent().is_some_and(|p| p.ends_with("tests/scenarios"));
            match path.extension().and_then(|e| e.to_str()) {
                Some("rs") => {
                    let text = std::fs::read_to_string(&path).expect("the sources are text");
                    for name in tests(&text) {
                        self.add(name, place);
                    }
                }
                Some("txt") if is_scenario => {
                    let name = path.file_stem().and_then(|s| s.to_str()).expect("a name");
                    self.add(name, "scenario");
                }
                Some(_) | None => {}
            }
        }
    }

    fn add(&mut self, name: &str, place: &'static str) {
        self.0.entry(name.to_owned()).or_default().insert(place);
    }
}

/// The functions of a file that are run as tests: by their attribute, or because a list of a macro
/// names them.
fn tests(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let name = |line: &'_ str| -> Option<usize> { line.find("fn ").map(|at| at + 3) };
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let Some(rest) = name(line).map(|at| &line[at..]) else { continue };
        let Some((name, _)) = rest.split_once('(') else { continue };
        let above = &lines[i.saturating_sub(ATTRIBUTES)..i];
        let above = above.iter().rev().take_while(|l| l.starts_with("#[") || l.starts_with("//"));
        let has_attribute =
            above.into_iter().any(|l| *l == "#[test]" || l.starts_with("#[tokio::test"));
        let listed = |l: &&str| {
            l.strip_prefix(name).is_some_and(|end| end == "," || end.starts_with(" => \""))
        };
        if has_attribute || lines.iter().any(listed) {
            found.push(name);
        }
    }
    found
}

#[test]
fn tests_are_told_from_other_functions() {
    let text = "list![\n    a => \"S0\";\n    b,\n];\nfn a() {}\nfn b() {}\nfn c() {}\n\n#[test]\n\
                fn d() {}\nfn e() {}\n";
    assert_eq!(tests(text), ["a", "b", "d"]);
}
