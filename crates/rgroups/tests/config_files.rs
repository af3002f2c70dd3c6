//! Configurations from files: what they mean.

use rgroups::core::plan::StackPlan;
use rgroups::{Config, ConfigError, ConfigLoader, Setting, Severity};

fn loader() -> ConfigLoader {
    ConfigLoader::new().without_environment()
}

fn value(config: &Config, protocol: &str, attribute: &str) -> String {
    setting(config, protocol, attribute).value
}

fn setting(config: &Config, protocol: &str, attribute: &str) -> Setting {
    let mut all = config.explain().into_iter();
    let found = all.find(|s| s.protocol == protocol && s.attribute == attribute);
    found.unwrap_or_else(|| panic!("{protocol}.{attribute}"))
}

fn protocols(config: &Config) -> Vec<&'static str> {
    config.plan().protocols.iter().map(|p| p.name()).collect()
}

fn messages(config: &Config, severity: Severity) -> Vec<String> {
    let all = config.report().findings().iter().filter(|f| f.severity() == severity);
    all.map(|f| f.message().to_owned()).collect()
}

/// A whole stack with these elements in the place of flow control.
fn stack(flow: &str) -> String {
    format!(
        "<config><UDP/><PING/><MERGE3/><FD_ALL3/><VERIFY_SUSPECT2/><pbcast.NAKACK2/><UNICAST3/>\
         <pbcast.STABLE/><pbcast.GMS/>{flow}<FRAG2/></config>"
    )
}

#[test]
fn the_built_in_files_are_the_presets() {
    let host: std::net::SocketAddr = ([127, 0, 0, 1], 7800).into();
    let new = |plan| Config::from_plan(plan);
    let presets = [
        ("udp", Config::udp()),
        ("tcp", Config::tcp([host])),
        ("udp-new", new(StackPlan::udp_new())),
        ("tcp-new", new(StackPlan::tcp_new([host]))),
    ];
    for (name, preset) in presets {
        let loaded = loader().load(name).expect("sound");
        assert!(loaded.report().findings().is_empty(), "{}", loaded.report());
        assert_eq!(protocols(&loaded), protocols(&preset));
        for expected in preset.explain() {
            let (protocol, attribute) = (expected.protocol.as_str(), expected.attribute.as_str());
            if attribute != "bind_addr" {
                let is = value(&loaded, protocol, attribute);
                assert_eq!(is, expected.value, "{name} {protocol}.{attribute}");
            }
        }
    }
}

#[test]
fn a_file_that_is_there_comes_before_a_preset() {
    let config = loader().load("tests/config/good/udp.xml").expect("sound");
    assert_eq!(value(&config, "UDP", "mcast_port"), "45000");
    assert_eq!(setting(&config, "UDP", "mcast_port").origin, "tests/config/good/udp.xml:4");
    assert_eq!(value(&config, "UDP", "ip_ttl"), "3", "of the included file");
    assert_eq!(setting(&config, "UDP", "ip_ttl").origin, "tests/config/good/transport.xml:5");
    assert_eq!(value(&config, "FD_ALL3", "interval"), "8000ms", "the default");
    assert_eq!(setting(&config, "FD_ALL3", "interval").origin, "default");
}

#[test]
fn defaults_are_those_of_jgroups() {
    let config = loader().load_xml(&stack("<MFC/><UFC/>")).expect("sound");
    for (protocol, attribute, expected) in [
        ("UDP", "mcast_port", "7600"),
        ("STABLE", "max_bytes", "2000000"),
        ("STABLE", "desired_avg_gossip", "20000ms"),
        ("MFC", "max_credits", "5000000"),
        ("GMS", "join_timeout", "2000ms"),
    ] {
        assert_eq!(value(&config, protocol, attribute), expected, "{protocol}.{attribute}");
    }
}

#[test]
fn settings_of_our_own_follow_from_those_of_the_file() {
    let text = stack("<MFC max_credits=\"3M\"/>").replace("GMS/>", "GMS join_timeout=\"7s\"/>");
    let config = loader().load_xml(&text).expect("sound");
    assert_eq!(value(&config, "PING", "join_wait"), "7000ms");
    assert_eq!(value(&config, "MERGE3", "multicast"), "true");
    assert_eq!(value(&config, "NAKACK2", "retain_limit"), "7000000");
    assert_eq!(setting(&config, "NAKACK2", "retain_limit").origin, "derived");
    assert_eq!(value(&loader().load("tcp").expect("sound"), "MERGE3", "multicast"), "false");
}

#[test]
fn the_old_flow_control_becomes_both_new_ones() {
    let fc = "<FC max_credits=\"1000000\"\ndown_thread=\"false\" up_thread=\"false\" \n    \
              min_threshold=\"0.10\"/>";
    let config = loader().load_xml(&stack(fc)).expect("sound");
    for protocol in ["MFC", "UFC"] {
        assert_eq!(value(&config, protocol, "max_credits"), "1000000");
        assert_eq!(value(&config, protocol, "min_threshold"), "0.1");
    }
    let notes = messages(&config, Severity::Note);
    assert!(notes.iter().any(|n| n.starts_with("FC was divided in two")), "{notes:?}");
    let warnings = messages(&config, Severity::Warning);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("FC.down_thread is obsolete"), "{warnings:?}");
}

#[test]
fn credits_of_three_thousand_million_are_no_overflow() {
    let config = loader().load_xml(&stack("<UFC max_credits=\"3000000000\"/>")).expect("sound");
    assert_eq!(value(&config, "UFC", "max_credits"), "3000000000");
}

#[test]
fn properties_come_from_definitions_before_defaults() {
    let load = |l: ConfigLoader| l.load("udp.xml").expect("sound");
    let config = load(loader().define("jgroups.udp.mcast_port", "45601"));
    assert_eq!(value(&config, "UDP", "mcast_port"), "45601");
    assert_eq!(messages(&config, Severity::Warning), [""; 0]);
    let config = load(loader().define("jgroups.udp.mcast_prot", "45601"));
    assert_eq!(
        messages(&config, Severity::Warning),
        ["the property jgroups.udp.mcast_prot is used nowhere"]
    );
}

#[test]
fn a_property_that_stands_for_an_attribute_yields_to_the_file() {
    let load = |text: &str| {
        let loader = loader().define("jgroups.udp.ip_ttl", "5");
        value(&loader.load_xml(text).expect("sound"), "UDP", "ip_ttl")
    };
    assert_eq!(load(&stack("")), "5");
    assert_eq!(load(&stack("").replace("<UDP/>", "<UDP ip_ttl=\"2\"/>")), "2");
    let applied = loader().define("jgroups.udp.ip_ttl", "5").apply(Config::udp()).expect("sound");
    assert_eq!(value(&applied, "UDP", "ip_ttl"), "5");
}

#[test]
fn the_property_for_the_address_wins_over_the_file() {
    let loader = loader().define("jgroups.bind_addr", "127.0.0.1");
    let file = stack("").replace("<UDP/>", "<UDP bind_addr=\"site_local,loopback\"/>");
    let config = loader.load_xml(&file).expect("sound");
    assert_eq!(value(&config, "UDP", "bind_addr"), "127.0.0.1");
}

#[test]
fn settings_of_the_command_line_win_and_their_mistakes_are_placed() {
    let config = loader().set("MFC", "max_credits", "1M").load("udp").expect("sound");
    assert_eq!(value(&config, "MFC", "max_credits"), "1000000");
    assert_eq!(setting(&config, "MFC", "max_credits").origin, "-D MFC.max_credits=1M");
    let wrong = loader().set("MFC", "max_credit", "1M").set("XFC", "a", "b").load("udp");
    let Err(ConfigError::File(report)) = wrong else { panic!("{wrong:?}") };
    let told = report.to_string();
    for part in [
        "--> -D:1:5\n",
        " 1 | MFC.max_credit=1M\n",
        "    |     ^^^^^^^^^^ did you mean \"max_credits\"?".trim_start(),
        "the stack has no protocol \"XFC\"",
    ] {
        assert!(told.contains(part), "{part:?} in:\n{told}");
    }
}

#[test]
fn settings_on_a_preset_are_checked_against_the_rest_of_it() {
    let wrong = loader().set("FD_ALL3", "timeout", "1s").apply(Config::udp());
    let Err(ConfigError::File(report)) = wrong else { panic!("{wrong:?}") };
    let place = report.findings()[0].place().expect("placed");
    assert_eq!((place.file.as_str(), place.column), ("-D", 17), "{report}");
    let doubted = loader().set("FRAG2", "frag_size", "5M").apply(Config::tcp([]));
    assert!(messages(&doubted.expect("can be used"), Severity::Warning).len() >= 2);
}

#[test]
fn the_form_of_toml_has_the_same_names_and_exact_units() {
    let text = "
        [[stack]]
        protocol = \"UDP\"
        mcast_port = 45001
        bind_addr = [\"match-interface:eth0\", \"loopback\"]
        bundler.max_size = \"60KiB\"
        diag = { enabled = true, passcode = \"word\" }
        thread_pool.enabled = true

        [[stack]]
        protocol = \"DISCARD\"
        up = 0.25
        discard_all = false
    ";
    let config = loader().load_toml(text).expect("sound");
    assert_eq!(value(&config, "UDP", "mcast_port"), "45001");
    assert_eq!(value(&config, "UDP", "max_size"), "61440");
    assert_eq!(value(&config, "UDP", "bind_addr"), "match-interface:eth0,loopback");
    assert_eq!(value(&config, "DISCARD", "up"), "0.25");
    let notes = messages(&config, Severity::Note);
    assert!(notes[0].starts_with("UDP.thread_pool.enabled has no meaning here"), "{notes:?}");
    assert_eq!(value(&config, "UDP", "diag.enabled"), "true");
    assert!(!config.stack().to_toml().contains("word"));
}

#[test]
fn what_only_watches_or_speaks_as_another_is_noted() {
    let text = stack("<RED/>").replace("<UDP/><PING/>", "<TCP_NIO2/><TCPPING/>");
    let config = loader().load_xml(&text).expect("sound");
    assert_eq!(protocols(&config)[..2], ["TCP", "TCPPING"]);
    let notes = messages(&config, Severity::Note);
    assert!(notes[0].starts_with("TCP_NIO2 is taken as TCP"), "{notes:?}");
    assert!(notes[1].starts_with("RED has no effect here"), "{notes:?}");
}

#[test]
fn hosts_are_read_in_the_form_of_jgroups() {
    let hosts = loader().define("jgroups.tcpping.initial_hosts", "10.0.0.1[7800],localhost[7801]");
    let config = hosts.load("tcp").expect("sound");
    assert_eq!(value(&config, "TCPPING", "initial_hosts"), "10.0.0.1:7800,127.0.0.1:7801");
}

#[test]
fn a_rule_for_the_address_is_kept_until_it_is_used() {
    let config = Config::udp().set("UDP", "bind_addr", "match-interface:eth7,loopback");
    let config = config.expect("a rule");
    assert_eq!(value(&config, "UDP", "bind_addr"), "match-interface:eth7,loopback");
    let config = config.set("UDP", "bind_addr", "127.0.0.1").expect("an address");
    assert_eq!(value(&config, "UDP", "bind_addr"), "127.0.0.1");
}

#[test]
fn a_file_is_the_same_in_both_forms() {
    let path = "tests/config/good/udp.xml";
    let (xml, toml) = {
        let file = loader().read(path).expect("read");
        (file.to_xml(), file.to_toml())
    };
    assert!(xml.contains("<pbcast.NAKACK2 xmit_interval=\"0.5s\"/>"), "{xml}");
    assert!(toml.contains("protocol = \"NAKACK2\"\nxmit_interval = \"0.5s\"\n"), "{toml}");
    assert!(toml.contains("thread_pool.max_threads = 200\n"), "{toml}");
    let values = |c: Config| -> Vec<(String, String)> {
        c.explain().into_iter().map(|s| (s.attribute, s.value)).collect()
    };
    let expected = values(loader().load(path).expect("sound"));
    assert_eq!(values(loader().load_xml(&xml).expect("sound")), expected);
    assert_eq!(values(loader().load_toml(&toml).expect("sound")), expected);
}

#[test]
fn the_stack_in_effect_can_be_loaded_again() {
    let config = loader().set("MFC", "max_credits", "1M").load("tcp").expect("sound");
    let text = config.stack().to_xml();
    assert!(text.contains("initial_hosts=\"127.0.0.1[7800]\""), "{text}");
    let values = |c: &Config| -> Vec<String> { c.explain().into_iter().map(|s| s.value).collect() };
    assert_eq!(values(&loader().load_xml(&text).expect("sound")), values(&config));
    let toml = config.stack().to_toml();
    assert_eq!(values(&loader().load_toml(&toml).expect("sound")), values(&config));
}

#[test]
fn every_attribute_of_jgroups_is_read_or_known_to_be_without_meaning() {
    let table = include_str!("config/attributes.txt");
    let rows: Vec<(&str, &str)> = table.lines().filter_map(|l| l.split_once(": ")).collect();
    let common = rows.iter().find(|(p, _)| *p == "*").expect("is there").1;
    let mut unknown = Vec::new();
    for (protocol, own) in rows {
        let known = rgroups::core::plan::ProtocolConfig::named(protocol).is_some();
        if protocol == "*" || !known {
            continue;
        }
        for attribute in own.split(' ').chain(common.split(' ')) {
            let text = format!("<config><{protocol} {attribute}=\"1\"/></config>");
            let told = match loader().load_xml(&text) {
                Ok(config) => config.report().clone(),
                Err(ConfigError::File(report)) => *report,
                Err(other) => panic!("{other}"),
            };
            if told.findings().iter().any(|f| f.code() == "RG0101") {
                unknown.push(format!("{protocol}.{attribute}"));
            }
        }
    }
    assert_eq!(unknown, [""; 0]);
}

/// The first block of that language in the documentation.
fn documented(language: &str) -> &'static str {
    let page = include_str!("../../../docs/configuration.md");
    let block = page.split_once(&format!("```{language}\n")).expect("it is there").1;
    block.split_once("```").expect("it ends").0
}

#[test]
fn the_stack_that_the_documentation_shows_is_sound() {
    let config = loader().load_xml(documented("xml")).expect("it loads");
    assert!(config.report().findings().is_empty(), "{}", config.report());
    assert_eq!(value(&config, "UDP", "mcast_port"), "45600");
}
