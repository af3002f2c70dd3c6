//! Tests of plans.

use super::*;
use crate::attributes::AttrError;
use crate::protocols::failure::{FdAll3Config, VerifySuspect2Config};
use crate::protocols::faults::DiscardConfig;
use crate::protocols::state::StateTransferConfig;
use crate::protocols::transport::{InProcessConfig, TcpConfig, UdpConfig};
use crate::wire::ProtId;
use crate::{Interests, Service, Spec};
use alloc::string::ToString;
use core::net::SocketAddr;
use core::time::Duration;

/// A protocol that is nothing but a spec.
#[derive(Debug)]
struct Paper(Spec);

impl Protocol for Paper {
    fn spec(&self) -> Spec {
        self.0
    }
}

const PLAIN: Spec = Spec {
    name: "PAPER",
    id: None,
    interests: Interests {
        down: crate::Traffic::None,
        up: crate::Traffic::None,
        up_with: None,
        events: false,
        consumed: false,
        end_turn: false,
        patient_timers: false,
    },
    provides: &[],
    needs_below: &[],
    needs_above: &[],
};

fn paper(spec: Spec) -> ProtocolConfig {
    ProtocolConfig::custom(spec.name, move || Paper(spec))
}

fn bottom() -> ProtocolConfig {
    InProcessConfig::default().into()
}

fn names(plan: &StackPlan) -> Vec<&'static str> {
    plan.protocols.iter().map(ProtocolConfig::name).collect()
}

fn errors(plan: &StackPlan) -> Vec<PlanProblem> {
    plan.validate().into_iter().filter(|p| !p.is_warning()).collect()
}

#[test]
fn settings_that_another_one_overrides_are_noted() {
    let mut plan = StackPlan::in_process();
    plan.set("MFC", "min_credits", "500000").expect("known");
    plan.set("MFC", "min_threshold", "0.5").expect("known");
    let noted = plan.validate().into_iter().map(|p| p.to_string());
    let noted: Vec<_> = noted.filter(|n| n.starts_with("MFC: ")).collect();
    assert_eq!(noted, ["MFC: min_credits 500000 overridden by min_threshold 0.5"]);
}

#[test]
fn the_presets_are_sound() {
    let host: SocketAddr = ([127, 0, 0, 1], 7800).into();
    let new = [StackPlan::udp_new(), StackPlan::tcp_new([host])];
    let old = [StackPlan::udp(), StackPlan::tcp([host]), StackPlan::in_process()];
    for plan in old.into_iter().chain(new) {
        assert_eq!(errors(&plan), []);
        assert!(plan.build().is_ok());
    }
}

#[test]
fn the_presets_have_the_values_of_the_files_of_jgroups() {
    let host: SocketAddr = ([127, 0, 0, 1], 7800).into();
    let (udp, tcp) = (StackPlan::udp(), StackPlan::tcp([host]));
    let values = [
        ("GMS", "join_timeout", "1000ms", "2000ms"),
        ("FD_ALL3", "interval", "8000ms", "5000ms"),
        ("FD_ALL3", "timeout", "40000ms", "40000ms"),
        ("FD_SOCK2", "offset", "100", "100"),
        ("VERIFY_SUSPECT2", "timeout", "1500ms", "1500ms"),
        ("MERGE3", "min_interval", "10000ms", "10000ms"),
        ("MERGE3", "max_interval", "30000ms", "30000ms"),
        ("NAKACK2", "xmit_interval", "500ms", "1000ms"),
        ("NAKACK2", "use_mcast_xmit", "true", "false"),
        ("UNICAST3", "xmit_interval", "500ms", "500ms"),
        ("STABLE", "desired_avg_gossip", "50000ms", "50000ms"),
        ("STABLE", "max_bytes", "4000000", "4000000"),
        ("MFC", "max_credits", "4000000", "2000000"),
        ("UFC", "min_threshold", "0.4", "0.4"),
        ("FRAG2", "frag_size", "60000", "60000"),
        ("RSVP", "timeout", "10000ms", "10000ms"),
        ("BARRIER", "flush_timeout", "5000ms", "5000ms"),
    ];
    for (protocol, attribute, in_udp, in_tcp) in values {
        let value = |p: &StackPlan| p.get(protocol, attribute).unwrap();
        assert_eq!((value(&udp), value(&tcp)), (in_udp.into(), in_tcp.into()), "{attribute}");
    }
}

#[test]
fn the_new_presets_have_windows_in_place_of_credits() {
    let (udp, tcp) = (StackPlan::udp_new(), StackPlan::tcp_new([]));
    let values = [
        ("NAKACK4", "capacity", "6000", "8192"),
        ("NAKACK4", "xmit_interval", "500ms", "1000ms"),
        ("NAKACK4", "use_mcast_xmit", "true", "false"),
        ("UNICAST4", "capacity", "2048", "2048"),
        ("UNICAST4", "conn_expiry_timeout", "10000ms", "10000ms"),
        ("GMS", "join_timeout", "1000ms", "1000ms"),
        ("FD_ALL3", "interval", "8000ms", "5000ms"),
    ];
    for (protocol, attribute, in_udp, in_tcp) in values {
        let value = |p: &StackPlan| p.get(protocol, attribute).unwrap();
        assert_eq!((value(&udp), value(&tcp)), (in_udp.into(), in_tcp.into()), "{attribute}");
    }
    for absent in ["NAKACK2", "UNICAST3", "STABLE", "MFC", "UFC"] {
        assert!(udp.find(absent).is_none() && tcp.find(absent).is_none(), "{absent}");
    }
}

#[test]
fn what_makes_no_sense_beside_windows_is_said() {
    let base = StackPlan::udp_new;
    assert_eq!(errors(&base().with("NAKACK4", "capacity", "0")).len(), 1);
    let doubtful = [
        base().insert_below("GMS", crate::protocols::stable::StableConfig::default()),
        base().with("NAKACK4", "dynamic_buffers", "true"),
        base().with("UNICAST4", "ack_threshold", "3000"),
    ];
    for plan in doubtful {
        assert_eq!(errors(&plan), []);
        assert_eq!(plan.validate().len(), 1 + base().validate().len());
    }
    let rivals = base().insert_below("GMS", crate::protocols::reliable::Nakack2Config::default());
    assert!(matches!(errors(&rivals)[..], [PlanProblem::Rivals { .. }]));
}

#[test]
fn the_entry_layer_is_on_top_and_its_settings_go_by_its_name() {
    let mut plan = StackPlan::in_process();
    plan.set("entry", "max_waiting", "7").unwrap();
    assert_eq!(plan.get("ENTRY", "max_waiting").unwrap(), "7");
    let layers = plan.build().ok().unwrap();
    assert_eq!(layers.last().map(|l| l.spec().name), Some("ENTRY"));
    assert_eq!(layers.len(), plan.protocols.len() + 1);
}

#[test]
fn fragments_as_large_as_the_credit_are_doubted_but_built() {
    let plan = StackPlan::udp().with("MFC", "max_credits", "60000");
    let doubts = |p: &PlanProblem| p.is_warning() && p.to_string().contains("MFC.max_credits");
    assert!(plan.validate().iter().any(doubts));
    assert!(plan.build().is_ok());
}

#[test]
fn merge_detection_must_know_that_a_stream_transport_has_no_multicast() {
    let plan = StackPlan::tcp([]).with("MERGE3", "multicast", "true");
    assert_eq!(errors(&plan).len(), 1);
}

#[test]
fn attributes_are_read_and_set_by_name() {
    let mut plan = StackPlan::udp();
    plan.set("udp", "mcast_port", "5000").unwrap();
    assert_eq!(plan.get("UDP", "mcast_port").unwrap(), "5000");
    assert!(matches!(plan.find("UDP"), Some(ProtocolConfig::Udp(c)) if c.mcast_port == 5000));
}

#[test]
fn a_slip_in_a_name_is_answered_with_the_nearest_one() {
    let mut plan = StackPlan::udp();
    let problem = plan.set("PNIG", "join_wait", "1s").unwrap_err();
    assert_eq!(problem.to_string(), "the stack has no protocol \"PNIG\"; did you mean PING?");
    let problem = plan.set("UDP", "mcast_prt", "1").unwrap_err();
    assert_eq!(
        problem.to_string(),
        "UDP: unknown attribute \"mcast_prt\"; did you mean \"mcast_port\"?"
    );
    assert!(matches!(
        plan.set("UDP", "mcast_port", "many"),
        Err(PlanProblem::Attribute { protocol: "UDP", error: AttrError::BadValue { .. } })
    ));
}

#[test]
fn protocols_are_inserted_replaced_and_removed_by_name() {
    let plan = StackPlan::udp()
        .insert_above("UDP", DiscardConfig::default())
        .replace(UdpConfig { mcast_port: 9, ..UdpConfig::default() })
        .without("PING");
    assert_eq!(names(&plan)[..2], ["UDP", "DISCARD"]);
    assert!(!names(&plan).contains(&"PING"));
    assert_eq!(plan.get("UDP", "mcast_port").unwrap(), "9");
}

#[test]
fn all_problems_are_reported_at_once() {
    let plan = StackPlan::udp()
        .without("NOSUCH")
        .with("UDP", "mcast_addr", "10.0.0.1")
        .with("UDP", "bind_addr", "0.0.0.0")
        .with("PING", "join_wait", "soon")
        .with("UDP", "colour", "blue");
    let problems = plan.validate();
    assert_eq!(problems.iter().filter(|p| !p.is_warning()).count(), 5, "{problems:#?}");
    assert_eq!(plan.build().err(), Some(errors(&plan)));
}

#[test]
fn addresses_of_both_versions_of_ip_do_not_go_together() {
    let mixed = |plan: StackPlan| {
        let named = |p: &PlanProblem| p.to_string().contains("one version of IP");
        plan.validate().iter().filter(|p| named(p)).count()
    };
    let udp = StackPlan::udp().with("UDP", "bind_addr", "::1");
    assert_eq!(mixed(udp.clone()), 0, "the default group follows the address");
    assert_eq!(mixed(udp.with("UDP", "mcast_addr", "239.8.8.8")), 1);
    let hosts = ["[::1]:7800", "[::1]:7801"].map(|h| h.parse().unwrap());
    assert_eq!(mixed(StackPlan::tcp(hosts).with("TCP", "bind_addr", "127.0.0.1")), 2);
    assert_eq!(mixed(StackPlan::tcp(hosts).with("TCP", "bind_addr", "LOOPBACK")), 0);
    let mping = StackPlan::tcp_mping().with("MPING", "mcast_addr", "ff0e::5:6:7");
    assert_eq!(mixed(mping.with("TCP", "bind_addr", "127.0.0.1")), 1);
}

#[test]
fn the_bottom_must_be_a_transport() {
    let plan = StackPlan::new([FdAll3Config::default().into()]);
    assert!(plan.validate().contains(&PlanProblem::NoTransport));
    let empty = StackPlan::default();
    assert!(empty.validate().contains(&PlanProblem::NoTransport));
}

#[test]
fn a_second_transport_is_a_rival() {
    let plan = StackPlan::new([bottom(), TcpConfig::default().into()]);
    let (first, second) = ("SHARED_LOOPBACK", "TCP");
    let rivals = PlanProblem::Rivals { service: Service::Transport, first, second };
    assert!(plan.validate().contains(&rivals));
}

#[test]
fn the_same_protocol_twice_is_reported() {
    let twice = VerifySuspect2Config::default();
    let plan = StackPlan::new([bottom(), twice.clone().into(), twice.into()]);
    let protocol = "VERIFY_SUSPECT2";
    assert!(plan.validate().contains(&PlanProblem::Duplicate { protocol }));
}

#[test]
fn what_a_protocol_needs_must_be_there_and_on_the_right_side() {
    let needy = Spec { needs_below: &[Service::Stability], ..PLAIN };
    let offer = Spec { name: "OFFER", provides: &[Service::Stability], ..PLAIN };
    let check = |ps: &[Spec]| {
        let layers = ps.iter().map(|s| paper(*s));
        StackPlan::new(core::iter::once(bottom()).chain(layers)).validate()
    };
    let service = Service::Stability;
    let missing = PlanProblem::Missing { protocol: "PAPER", service, below: true };
    assert_eq!(check(&[needy]), [missing]);
    let order = PlanProblem::WrongOrder { protocol: "PAPER", other: "OFFER", below: true };
    assert_eq!(check(&[needy, offer]), [order]);
    assert_eq!(check(&[offer, needy]), []);
}

#[test]
fn flow_control_below_membership_is_refused() {
    let credits = Spec { name: "FC", provides: &[Service::MulticastCredits], ..PLAIN };
    let gms = Spec { name: "MEMBERS", provides: &[Service::Membership], ..PLAIN };
    let order = PlanProblem::WrongOrder { protocol: "FC", other: "MEMBERS", below: true };
    let plan = |a, b| StackPlan::new([bottom(), paper(a), paper(b)]);
    assert_eq!(plan(credits, gms).validate(), [order]);
    assert_eq!(plan(gms, credits).validate(), []);
}

#[test]
fn state_transfer_goes_above_what_its_messages_need() {
    for lower in ["UFC", "FRAG2", "RSVP", "BARRIER"] {
        let plan = StackPlan::udp().without("STATE_TRANSFER");
        let plan = plan.insert_below(lower, StateTransferConfig::default());
        let wrong = |p: &PlanProblem| {
            *p == PlanProblem::WrongOrder { protocol: "STATE_TRANSFER", other: lower, below: true }
        };
        assert!(plan.validate().iter().any(wrong), "{lower}");
    }
}

#[test]
fn a_joiner_must_wait_for_its_discovery() {
    let plan = StackPlan::udp().with("PING", "join_wait", "3s");
    let wrong = |p: &PlanProblem| p.to_string().contains("PING.join_wait=3000ms");
    assert!(errors(&plan).iter().any(wrong));
    assert_eq!(errors(&plan.with("GMS", "join_timeout", "3s")), []);
}

#[test]
fn a_timeout_below_its_heartbeat_interval_is_refused() {
    let fd = FdAll3Config { timeout: Duration::from_secs(1), interval: Duration::from_secs(8) };
    let plan = StackPlan::new([bottom(), fd.into()]);
    let names_it = |p: &PlanProblem| p.to_string().starts_with("FD_ALL3.timeout=1000ms is below");
    assert!(plan.validate().iter().any(names_it));
}

#[test]
fn headers_that_cannot_be_told_apart_are_reported() {
    let a = Spec { name: "A", id: Some(ProtId(999)), ..PLAIN };
    let b = Spec { name: "B", ..a };
    let plan = StackPlan::new([bottom(), paper(a), paper(b)]);
    let problem = PlanProblem::SameHeaderId { id: 999, first: "A", second: "B" };
    assert_eq!(plan.validate(), [problem]);
}

#[test]
fn a_custom_protocol_bears_the_name_that_the_plan_gives_it() {
    let plan = StackPlan::new([bottom(), ProtocolConfig::custom("MINE", || Paper(PLAIN))]);
    let problem = PlanProblem::NameDiffers { plan: "MINE", spec: "PAPER" };
    assert_eq!(plan.validate(), [problem]);
}

#[test]
fn every_protocol_is_found_by_its_name() {
    for config in ProtocolConfig::all() {
        let found = ProtocolConfig::named(&config.name().to_lowercase());
        assert_eq!(found.map(|c| c.name()), Some(config.name()));
        assert_eq!(config.build().spec().name, config.name());
    }
    assert!(ProtocolConfig::named("NOSUCH").is_none());
}

#[test]
fn the_own_window_is_limited_by_what_stability_and_credits_allow() {
    assert_eq!(StackPlan::udp().own_limit(), 3 * 4_000_000 + 2 * 4_000_000);
    let tuned =
        StackPlan::udp().with("STABLE", "max_bytes", "1000").with("MFC", "max_credits", "10");
    assert_eq!(tuned.own_limit(), 3020);
}

#[test]
fn without_reports_by_volume_the_own_window_has_no_limit() {
    assert_eq!(StackPlan::udp().with("STABLE", "max_bytes", "0").own_limit(), 0);
}
