//! What went wrong, for the terminal and for `--json`.

use serde_json::json;

/// The end of a command that did not do what it was asked to.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    rg: Option<&'static str>,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// It failed at run time.
    pub(crate) fn run(message: impl Into<String>) -> Self {
        Self { code: 1, rg: None, message: message.into(), hint: None }
    }

    /// It was asked for something that makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, ..Self::run(message) }
    }

    /// A configuration value is wrong.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self { code: 3, ..Self::run(message) }
    }

    /// The cluster could not be joined.
    pub(crate) fn join(message: impl Into<String>) -> Self {
        Self { code: 4, ..Self::run(message) }
    }

    /// With the stable code of an error of the library.
    pub(crate) fn coded(mut self, rg: &'static str) -> Self {
        self.rg = Some(rg);
        self
    }

    /// With something to try.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The message alone.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn exit_code(&self) -> u8 {
        self.code
    }

    /// The text form on standard error; with `--json` also an object on standard output.
    pub(crate) fn report(&self, json: bool) {
        if json {
            let e = json!({"schema": 1, "error": {
                "code": self.rg, "message": self.message, "hint": self.hint }});
            println!("{e}");
        }
        match self.rg {
            Some(c) => anstream::eprintln!("error[{c}]: {}", self.message),
            None => anstream::eprintln!("error: {}", self.message),
        }
        if let Some(h) = &self.hint {
            anstream::eprintln!("  = {h}");
        }
    }
}
