//! Tests of configurations made in the program.

use super::*;

#[test]
fn a_slip_in_a_name_is_refused_with_a_suggestion() {
    let e = Config::udp().set("UDP", "bind_prot", "1").expect_err("no such attribute");
    assert_eq!(e.to_string(), "UDP has no attribute \"bind_prot\" (did you mean \"bind_port\"?)");
    let e = Config::udp().set("UDPP", "bind_port", "1").expect_err("no such protocol");
    assert!(e.to_string().contains("did you mean \"UDP\""), "{e}");
}

#[test]
fn a_value_that_cannot_be_read_is_refused() {
    let e = Config::udp().set("UDP", "bind_port", "high").expect_err("no number");
    assert!(matches!(e, ConfigError::BadValue { .. }), "{e}");
}

#[test]
fn explain_tells_value_and_origin() {
    let c = Config::udp().set("UDP", "bind_port", "7800").expect("valid");
    let all = c.explain();
    let port = all.iter().find(|s| s.attribute == "bind_port").expect("listed");
    assert_eq!((port.value.as_str(), port.origin.as_str()), ("7800", "set"));
    let ttl = all.iter().find(|s| s.attribute == "ip_ttl").expect("listed");
    assert_eq!((ttl.value.as_str(), ttl.origin.as_str()), ("8", "preset"));
}
