//! The command `config`: stack files checked, explained, shown, converted and compared.

mod diff;

use crate::args::{ConfigAction, ConfigArgs, StackArgs, StackForm};
use crate::failure::{Failure, finding};
use crate::{join, output};
use rgroups::core::plan::ProtocolConfig;
use rgroups::{Config, ConfigError, ConfigReport, Setting, Severity};
use serde_json::json;

/// The stack when none is named.
const DEFAULT: &str = "udp.xml";

/// Runs the command.
pub(crate) fn run(a: &ConfigArgs, stack: &StackArgs, json: bool) -> Result<u8, Failure> {
    let named = stack.config.as_deref().unwrap_or(DEFAULT);
    match &a.action {
        ConfigAction::Check { file } => check(file.as_deref().unwrap_or(named), stack, json),
        ConfigAction::Explain { what } => explain(what.as_deref(), &load(named, stack)?, json),
        ConfigAction::Show { to } => {
            write(&load(named, stack)?.stack(), *to, json);
            Ok(0)
        }
        ConfigAction::Convert { file, to } => {
            let file = join::loader(stack)?.read(file).map_err(|e| Failure::config_error(&e))?;
            write(&file, *to, json);
            Ok(0)
        }
        ConfigAction::Diff { a, b } => {
            diff::run((a, &load(a, stack)?), (b, &load(b, stack)?), json)
        }
        ConfigAction::Protocols => {
            protocols(json);
            Ok(0)
        }
        ConfigAction::Presets => {
            presets(json);
            Ok(0)
        }
    }
}

fn load(file: &str, stack: &StackArgs) -> Result<Config, Failure> {
    join::loader(stack)?.load(file).map_err(|e| Failure::config_error(&e))
}

fn write(file: &rgroups::StackFile, to: StackForm, json: bool) {
    let (form, text) = match to {
        StackForm::Xml => ("xml", file.to_xml()),
        StackForm::Toml => ("toml", file.to_toml()),
    };
    if json {
        output::line(&json!({"schema": 1, "form": form, "text": text}).to_string());
    } else {
        output::line(text.trim_end());
    }
}

fn check(file: &str, stack: &StackArgs, json: bool) -> Result<u8, Failure> {
    let (report, protocols) = match join::loader(stack)?.load(file) {
        Ok(config) => (config.report().clone(), config.protocols()),
        Err(ConfigError::File(report)) => (*report, Vec::new()),
        Err(other) => return Err(Failure::config_error(&other)),
    };
    let n = |s| report.count(s);
    let (errors, warnings, notes) = (n(Severity::Error), n(Severity::Warning), n(Severity::Note));
    if json {
        let findings: Vec<_> = report.findings().iter().map(finding).collect();
        let told = json!({
            "schema": 1, "file": file, "errors": errors, "warnings": warnings, "notes": notes,
            "protocols": protocols, "findings": findings,
        });
        output::line(&told.to_string());
    } else {
        let text = report.to_string();
        if !text.is_empty() {
            output::line(text.trim_end());
        }
        output::line(&summary(file, &report, protocols.len()));
    }
    Ok(if report.is_refused() { 3 } else { 0 })
}

fn summary(file: &str, report: &ConfigReport, protocols: usize) -> String {
    let some = |s: Severity| match report.count(s) {
        0 => None,
        1 => Some(format!("1 {}", s.name())),
        n => Some(format!("{n} {}s", s.name())),
    };
    let all = [Severity::Error, Severity::Warning, Severity::Note];
    let counts: Vec<String> = all.into_iter().filter_map(some).collect();
    let what = match (report.is_refused(), counts.is_empty()) {
        (true, _) => format!("cannot be used: {}", counts.join(", ")),
        (false, true) => format!("{protocols} protocols, nothing to say against it"),
        (false, false) => format!("{protocols} protocols, can be used; {}", counts.join(", ")),
    };
    format!("{file}: {what}")
}

/// Explains a stack, one of its protocols, or a protocol that is not in it by its defaults.
fn explain(what: Option<&str>, config: &Config, json: bool) -> Result<u8, Failure> {
    let (protocol, attribute) = match what.map(|w| w.split_once('.').unwrap_or((w, ""))) {
        None => (None, ""),
        Some((p, a)) => (Some(p), a),
    };
    let mut all = config.explain();
    if let Some(p) = protocol {
        if !config.protocols().iter().any(|n| n.eq_ignore_ascii_case(p)) {
            let default = ProtocolConfig::named(p).ok_or_else(|| {
                let of = all.iter().find(|s| s.attribute.eq_ignore_ascii_case(p));
                let hint = match of {
                    Some(s) => format!("{}.{} is an attribute", s.protocol, s.attribute),
                    None => "all protocols: rgroups config protocols".to_owned(),
                };
                Failure::config(format!("there is no protocol {p:?}")).hint(hint)
            })?;
            let plan = rgroups::core::plan::StackPlan::new([default]);
            all = Config::from_plan(plan).explain();
            all.iter_mut().for_each(|s| s.origin = "default".to_owned());
        }
        all.retain(|s| s.protocol.eq_ignore_ascii_case(p));
    }
    if !attribute.is_empty() {
        let wanted = if attribute == "bundler.max_size" { "max_size" } else { attribute };
        let names: Vec<String> = all.iter().map(|s| s.attribute.clone()).collect();
        all.retain(|s| s.attribute == wanted);
        if all.is_empty() {
            let near = rgroups::core::attributes::nearest(wanted, names.iter().map(String::as_str));
            let hint = near.map_or_else(
                || format!("it has: {}", names.join(", ")),
                |n| format!("did you mean {n:?}?"),
            );
            let protocol = protocol.unwrap_or_default();
            return Err(Failure::config(format!("{protocol} has no attribute {attribute:?}"))
                .coded("RG0101")
                .hint(hint));
        }
    }
    if json {
        let all: Vec<_> = all.iter().map(setting).collect();
        output::line(&json!({"schema": 1, "settings": all}).to_string());
    } else {
        let long = protocol.is_some();
        all.iter().for_each(|s| output::line(&told(s, long)));
    }
    Ok(0)
}

fn setting(s: &Setting) -> serde_json::Value {
    json!({
        "protocol": s.protocol, "attribute": s.attribute, "value": s.value, "origin": s.origin,
        "doc": s.doc,
    })
}

fn told(s: &Setting, long: bool) -> String {
    let name = format!("{}.{}", s.protocol, s.attribute);
    let value = if s.value.is_empty() { "-" } else { &s.value };
    let line = format!("{name:<36} {value:<14} {}", s.origin);
    if long { format!("{line}\n    {}", s.doc) } else { line }
}

fn protocols(json: bool) {
    let all: Vec<(&str, &str)> = ProtocolConfig::all()
        .iter()
        .map(|p| (p.name(), p.attributes().map_or("", |a| a.purpose().trim())))
        .collect();
    if json {
        let all: Vec<_> = all.iter().map(|(n, p)| json!({"name": n, "purpose": p})).collect();
        output::line(&json!({"schema": 1, "protocols": all}).to_string());
    } else {
        all.iter().for_each(|(n, p)| output::line(&format!("{n:<21} {p}")));
    }
}

fn presets(json: bool) {
    let all = rgroups::presets();
    if json {
        let all: Vec<_> = all.iter().map(|(n, p)| json!({"name": n, "purpose": p})).collect();
        output::line(&json!({"schema": 1, "presets": all}).to_string());
    } else {
        all.iter().for_each(|(n, p)| output::line(&format!("{n:<16} {p}")));
    }
}
