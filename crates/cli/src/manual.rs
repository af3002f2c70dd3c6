//! Completions and manual pages, both made from the command line itself.

use crate::args::Cli;
use crate::failure::Failure;
use crate::output;
use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};
use serde_json::json;
use std::path::Path;

/// Prints the completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "rgroups", &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end());
    Ok(0)
}

/// Writes one page for the program and one for each command.
pub(crate) fn pages(dir: &Path, json: bool) -> Result<u8, Failure> {
    let mut command = Cli::command();
    command.build();
    std::fs::create_dir_all(dir).map_err(|e| {
        let dir = output::escaped(&dir.to_string_lossy());
        Failure::run(format!("cannot make the directory {dir}: {e}"))
    })?;
    let mut written = Vec::new();
    page(&command, "rgroups", dir, &mut written)?;
    if json {
        output::line(&json!({"schema": 1, "pages": written}).to_string());
    } else {
        written.iter().for_each(|p| output::line(p));
    }
    Ok(0)
}

fn page(c: &Command, name: &str, dir: &Path, written: &mut Vec<String>) -> Result<(), Failure> {
    let file = dir.join(format!("{name}.1"));
    let mut text = Vec::new();
    let rendered = clap_mangen::Man::new(c.clone()).title(name.to_uppercase()).render(&mut text);
    rendered.and_then(|()| std::fs::write(&file, text)).map_err(|e| {
        let file = output::escaped(&file.to_string_lossy());
        Failure::run(format!("cannot write {file}: {e}"))
    })?;
    written.push(output::escaped(&file.to_string_lossy()));
    for sub in c.get_subcommands().filter(|s| !s.is_hide_set() && s.get_name() != "help") {
        page(sub, &format!("{name}-{}", sub.get_name()), dir, written)?;
    }
    Ok(())
}
