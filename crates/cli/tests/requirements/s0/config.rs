//! S0-7 to S0-11: the configuration as files state it, read by the real parser, and what a group
//! that runs with it does.

use super::*;
use rgroups::{Config, ConfigLoader, Severity};

crate::tests![
    the_sample_line_of_the_seed_is_accepted_and_works => "S0-7";
    an_absolute_threshold_is_obeyed => "S0-9";
    the_fraction_overrides_the_absolute_threshold => "S0-10";
    both_names_of_the_blocking_time_are_accepted => "S0-11";
];

/// A whole stack with this in the place of flow control.
fn read(flow: &str) -> Config {
    let text = format!(
        "<config><UDP/><PING/><MERGE3/><FD_ALL3/><VERIFY_SUSPECT2/><pbcast.NAKACK2/><UNICAST3/>\
         <pbcast.STABLE/><pbcast.GMS/>{flow}<FRAG2/></config>"
    );
    ConfigLoader::new().without_environment().load_xml(&text).expect("it is accepted")
}

fn said(config: &Config, severity: Severity) -> Vec<&str> {
    let all = config.report().findings().iter();
    all.filter(|f| f.severity() == severity).map(|f| f.message()).collect()
}

fn value(config: &Config, protocol: &str, attribute: &str) -> String {
    config.plan().get(protocol, attribute).expect("known")
}

/// After how many multicasts of 100,000 bytes B grants, and how much.
fn first_grant(config: &Config) -> (u64, u64) {
    let mut c = group(config.plan().clone(), &["A", "B"]);
    let since = now(&c);
    for n in 1..=10 {
        cast(&mut c, "A", 1, 100_000);
        c.run_for(ms(50));
        if let [bytes] = granted(&c, "B", "A", since)[..] {
            return (n, bytes);
        }
    }
    panic!("B grants nothing");
}

/// JGroups 5.5.6 does not start with this line: there is no FC any more, and no thread attributes.
fn the_sample_line_of_the_seed_is_accepted_and_works() {
    let sample = "<FC max_credits=\"1000000\"\ndown_thread=\"false\" up_thread=\"false\" \n    \
                  min_threshold=\"0.10\"/>";
    let config = read(sample);
    for protocol in ["MFC", "UFC"] {
        assert_eq!(value(&config, protocol, "max_credits"), "1000000");
        assert_eq!(value(&config, protocol, "min_threshold"), "0.1");
    }
    assert_eq!(said(&config, Severity::Error), [""; 0]);
    for attribute in ["down_thread", "up_thread"] {
        let warned = said(&config, Severity::Warning).iter().any(|m| m.contains(attribute));
        assert!(warned, "{attribute}: {:?}", config.report().findings());
    }
    assert_eq!(first_grant(&config), (9, 900_000));
}

fn an_absolute_threshold_is_obeyed() {
    let config = read("<MFC max_credits=\"1000000\" min_credits=\"300000\"/><UFC/>");
    assert_eq!(first_grant(&config), (7, 700_000));
}

/// In JGroups it is the other way round.
fn the_fraction_overrides_the_absolute_threshold() {
    let both = "<MFC max_credits=\"1000000\" min_credits=\"500000\" min_threshold=\"0.10\"/><UFC/>";
    let config = read(both);
    let told = "min_credits 500000 overridden by min_threshold 0.1";
    let findings = config.report().findings();
    assert!(findings.iter().any(|f| f.message().contains(told)), "{findings:?}");
    assert_eq!(first_grant(&config), (9, 900_000));
}

fn both_names_of_the_blocking_time_are_accepted() {
    let block_time = |attributes: &str| {
        let config = read(&format!("<MFC max_credits=\"100000\" {attributes}/><UFC/>"));
        let mut c = group(config.plan().clone(), &["A", "B"]);
        c.freeze("B");
        let since = now(&c);
        cast(&mut c, "A", 11, 10_000);
        c.run_for(9 * SECOND);
        let began = blocked(&c, "A", since).expect("it waits");
        (asked(&c, "A", "B", since)[0].since(began), config)
    };
    assert_eq!(block_time("").0, 5 * SECOND);
    assert_eq!(block_time("min_block_time=\"3000\"").0, 3 * SECOND);
    assert_eq!(block_time("max_block_time=\"4000\"").0, 4 * SECOND);
    let (time, config) = block_time("min_block_time=\"3000\" max_block_time=\"4000\"");
    assert_eq!(time, 4 * SECOND);
    let findings = config.report().findings();
    let told = findings.iter().any(|f| f.message().contains("min_block_time"));
    assert!(told, "two values that differ: {findings:?}");
}
