//! Loads configurations: files, texts and presets, with properties and settings on top.

use super::assemble::{Assembler, Assembly};
use super::files::{self, Files};
use super::property::Properties;
use super::report::{ConfigReport, Severity};
use super::source::{Attribute, Element, Form, Session};
use super::{Config, cross};
use crate::error::ConfigError;
use rgroups_core::plan::ProtocolConfig;
use std::path::Path;
use std::sync::Arc;

/// Loads configurations, with definitions of properties and settings that come on top of a file.
///
/// ```no_run
/// # fn main() -> Result<(), rgroups::ConfigError> {
/// let config = rgroups::ConfigLoader::new()
///     .define("jgroups.udp.mcast_port", "45600") // for ${jgroups.udp.mcast_port:…} in the file
///     .set("MFC", "max_credits", "2M")           // whatever the file says
///     .load("udp.xml")?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ConfigLoader {
    properties: Properties,
    sets: Vec<(String, String, String)>,
}

impl Default for ConfigLoader {
    fn default() -> Self {
        Self::new()
    }
}

impl ConfigLoader {
    /// Properties are looked for in the environment.
    #[must_use]
    pub fn new() -> Self {
        Self { properties: Properties::new(true), sets: Vec::new() }
    }

    /// Without a look at the environment: the same file gives the same configuration everywhere.
    #[must_use]
    pub fn without_environment(mut self) -> Self {
        self.properties.ignore_environment();
        self
    }

    /// Gives a property a value, as `-Dname=value` does in Java. It comes before the environment.
    #[must_use]
    pub fn define(mut self, name: &str, value: &str) -> Self {
        self.properties.define(name, value);
        self
    }

    /// Sets an attribute of a protocol, over what the file says. Units are exact.
    #[must_use]
    pub fn set(mut self, protocol: &str, attribute: &str, value: &str) -> Self {
        self.sets.push((protocol.to_owned(), attribute.to_owned(), value.to_owned()));
        self
    }

    /// A file by its path, or a preset by its name (`udp`, `tcp`, `udp.xml` …) if there is no such
    /// file. Files whose name ends in `.toml` have the TOML form, all others the XML of JGroups.
    pub fn load(&self, name: &str) -> Result<Config, ConfigError> {
        self.make(|files| files.named(name))
    }

    /// A file by its path.
    pub fn load_file(&self, path: impl AsRef<Path>) -> Result<Config, ConfigError> {
        self.load(&path.as_ref().to_string_lossy())
    }

    /// The text of an XML file.
    pub fn load_xml(&self, text: &str) -> Result<Config, ConfigError> {
        self.load_text(text, Form::Xml)
    }

    /// The text of a TOML file.
    pub fn load_toml(&self, text: &str) -> Result<Config, ConfigError> {
        self.load_text(text, Form::Toml)
    }

    fn load_text(&self, text: &str, form: Form) -> Result<Config, ConfigError> {
        self.make(|files| {
            let source = files.session.add(files::inline(text, form));
            files.source(source)
        })
    }

    /// Puts the definitions and settings on top of a configuration that is there.
    pub fn apply(&self, config: Config) -> Result<Config, ConfigError> {
        let mut session = Session::default();
        let Config { plan, origins, .. } = config.clone();
        let made = Assembly { plan, origins, ..Assembly::default() };
        let mut assembler = Assembler::new(&mut session, &self.properties).onto(made);
        assembler.system_properties();
        self.settings(&mut assembler);
        let (made, asked) = (assembler.out, assembler.asked);
        for name in self.properties.defined().filter(|n| !asked.contains(*n)) {
            unused(&mut session, name);
        }
        cross::check(&mut session, &made);
        let config = Config { plan: made.plan, origins: made.origins, ..config };
        finish(config, session)
    }

    /// The elements of a file or preset, with what it includes.
    pub(super) fn elements(&self, name: &str) -> Result<(Session, Vec<Element>), ConfigError> {
        let mut session = Session::default();
        let elements = Files::new(&mut session, &self.properties).named(name);
        let torn = session.findings().iter().any(|f| f.severity() == Severity::Error);
        match elements {
            Some(elements) if !torn => Ok((session, elements)),
            Some(_) | None => Err(refused(session)),
        }
    }

    /// The value of a text with properties, if it has one.
    pub(super) fn expand(&self, text: &str) -> Option<String> {
        self.properties.expand(text).ok().filter(|e| e.missing.is_empty()).map(|e| e.text)
    }

    fn make(
        &self,
        read: impl FnOnce(&mut Files<'_>) -> Option<Vec<Element>>,
    ) -> Result<Config, ConfigError> {
        let mut session = Session::default();
        let mut files = Files::new(&mut session, &self.properties);
        let Some(elements) = read(&mut files) else { return Err(refused(session)) };
        let mut asked = files.asked;
        let torn = session.findings().iter().any(|f| f.severity() == Severity::Error);
        let mut assembler = Assembler::new(&mut session, &self.properties);
        // What could not be read is not missing.
        assembler.out.incomplete = torn;
        elements.iter().for_each(|e| assembler.protocol(e));
        assembler.system_properties();
        self.settings(&mut assembler);
        assembler.derive();
        asked.append(&mut assembler.asked);
        let made = assembler.out;
        for name in self.properties.defined().filter(|n| !asked.contains(*n)) {
            unused(&mut session, name);
        }
        cross::check(&mut session, &made);
        let Assembly { plan, origins, .. } = made;
        finish(Config { plan, origins, ..Config::empty("default") }, session)
    }

    fn settings(&self, assembler: &mut Assembler<'_>) {
        for (protocol, attribute, value) in &self.sets {
            let name = format!("{protocol}.{attribute}");
            let (name, value) = files::definition(assembler.session, &name, value);
            let (mut first, mut second) = (name.clone(), name);
            first.text.clone_from(protocol);
            first.at.end = protocol.len();
            second.text.clone_from(attribute);
            second.at.start = protocol.len() + 1;
            assembler.set(&first, &Attribute { name: second, value });
        }
    }
}

/// A property that nothing asks for is most likely a slip.
fn unused(session: &mut Session, name: &str) {
    let message = format!("the property {name} is used nowhere");
    let finding = session.report(Severity::Warning, "RG0107", None, message);
    let first = name.split_once('.').map_or(name, |(p, _)| p).to_uppercase();
    if ProtocolConfig::named(&first).is_some() {
        finding
            .help
            .push(format!("attributes are set with the protocol in capitals: -D {first}.…"));
    }
}

fn finish(mut config: Config, session: Session) -> Result<Config, ConfigError> {
    let report = ConfigReport::new(session.into_findings());
    if report.is_refused() {
        return Err(ConfigError::File(Box::new(report)));
    }
    config.report = Arc::new(report);
    Ok(config)
}

fn refused(session: Session) -> ConfigError {
    ConfigError::File(Box::new(ConfigReport::new(session.into_findings())))
}
