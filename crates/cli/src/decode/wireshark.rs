//! `decode --wireshark`: a dissector in Lua, written from the tables of `rgroups-wire`: protocol
//! ids, header classes with their layouts, message types and flags. Nothing of them is written down
//! a second time here.

use rgroups_wire::header::class;
use rgroups_wire::layout::{Field, Form, LAYOUTS, Names, When};
use rgroups_wire::{Body, Flags, ProtId, Version};
use std::fmt::Write;

/// What does not depend on the tables: how they are read, and what is shown.
const TEMPLATE: &str = include_str!("jgroups.lua");
const PLACE: &str = "--@TABLES@\n";

/// The script.
pub(crate) fn script() -> String {
    TEMPLATE.replacen(PLACE, &tables(), 1)
}

fn tables() -> String {
    let mut t = format!("local VERSION = 0x{:04x}\n", Version::OURS.0);
    let protocols = ProtId::ALL.iter().map(|p| (i64::from(p.0), p.name().unwrap_or("?")));
    table(&mut t, "PROTOCOLS", protocols);
    table(&mut t, "CLASSES", class::ALL.iter().map(|(n, name)| (i64::from(*n), *name)));
    table(&mut t, "TYPES", Body::TYPES.iter().copied());
    t.push_str("local FLAGS = {\n");
    for (name, flag) in Flags::all().iter_names() {
        line(&mut t, format_args!("  {{ 0x{:04x}, \"{name}\" }},", flag.bits()));
    }
    t.push_str("}\nlocal LAYOUTS = {\n");
    for layout in LAYOUTS {
        line(&mut t, format_args!("  [{}] = {{", layout.magic));
        for f in layout.fields {
            line(&mut t, format_args!("    {{ {} }},", field(f)));
        }
        t.push_str("  },\n");
    }
    t.push_str("}\n");
    t
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{text}");
}

fn table<'a>(out: &mut String, name: &str, entries: impl Iterator<Item = (i64, &'a str)>) {
    line(out, format_args!("local {name} = {{"));
    for (n, text) in entries {
        line(out, format_args!("  [{n}] = \"{text}\","));
    }
    out.push_str("}\n");
}

fn field(f: &Field) -> String {
    let mut text = format!("name = \"{}\", form = \"{}\"", f.name, form(&f.form));
    match &f.form {
        Form::U8(names) | Form::U16(names) if !names.is_empty() => {
            text += &format!(", names = {{ {} }}", entries(names));
        }
        Form::Opt(inner) => text += &format!(", of = \"{}\"", form(inner)),
        Form::List(inner) => {
            let inner: Vec<String> = inner.iter().map(|i| format!("\"{}\"", form(i))).collect();
            text += &format!(", of = {{ {} }}", inner.join(", "));
        }
        _ => {}
    }
    match f.when {
        When::Always => {}
        When::Kind(kinds) => {
            let kinds: Vec<String> = kinds.iter().map(|k| format!("[{k}] = true")).collect();
            text += &format!(", kinds = {{ {} }}", kinds.join(", "));
        }
        When::Bit(bit) => text += &format!(", bit = {bit}"),
    }
    text
}

fn entries(names: Names) -> String {
    names.iter().map(|(n, name)| format!("[{n}] = \"{name}\"")).collect::<Vec<_>>().join(", ")
}

/// The name of the Lua function that reads it.
fn form(f: &Form) -> &'static str {
    match f {
        Form::U8(_) => "u8",
        Form::U16(_) => "u16",
        Form::I32 => "i32",
        Form::I64 => "i64",
        Form::Bool => "bool",
        Form::Cint => "cint",
        Form::Clong => "clong",
        Form::Str => "str",
        Form::Astr => "astr",
        Form::Buf => "buf",
        Form::Counted => "counted",
        Form::Addr => "addr",
        Form::Addrs => "addrs",
        Form::IpBody => "ip",
        Form::ViewId => "viewid",
        Form::MergeId => "mergeid",
        Form::Digest => "digest",
        Form::Token => "token",
        Form::Headers => "headers",
        Form::Opt(_) => "opt",
        Form::List(_) => "list",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_of_the_wire_format_is_in_the_script() {
        let script = script();
        for p in ProtId::ALL {
            let name = p.name().expect("it has a name");
            assert!(script.contains(&format!("  [{}] = \"{name}\",\n", p.0)), "{name}");
        }
        for (magic, name) in class::ALL {
            assert!(script.contains(&format!("  [{magic}] = \"{name}\",\n")), "{name}");
            assert!(script.contains(&format!("  [{magic}] = {{\n")), "layout of {name}");
        }
        assert!(!script.contains("@TABLES@"));
    }

    #[test]
    fn every_form_has_a_function_that_reads_it() {
        let script = script();
        let forms = LAYOUTS.iter().flat_map(|l| l.fields).map(|f| form(&f.form));
        for name in forms.filter(|f| !["opt", "list"].contains(f)) {
            assert!(script.contains(&format!("function read.{name}(r)")), "{name}");
        }
    }
}
