//! Attributes of JGroups that no protocol here reads: one line for each, and why.

/// What becomes of an attribute that is given nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// There is nothing here that it could change.
    Meaningless,
    /// What it asks for does not exist here yet; without effect unless it is this value, which asks
    /// for nothing.
    Wanting(&'static str),
    /// As `Wanting`, but to go on without it would be wrong.
    Refused(&'static str),
    /// JGroups itself no longer has it.
    Obsolete,
}

/// One attribute, or all of a component's (`thread_pool.*`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    /// The protocols that have it; none means all.
    pub(super) of: &'static [&'static str],
    pub(super) name: &'static str,
    pub(super) fate: Fate,
    /// Why, to follow "has no meaning here: " and the like.
    pub(super) why: &'static str,
}

use Fate::{Meaningless, Obsolete, Refused, Wanting};

const fn idle(
    of: &'static [&'static str],
    name: &'static str,
    fate: Fate,
    why: &'static str,
) -> Idle {
    Idle { of, name, fate, why }
}

const ALL: &[&str] = &[];
const TP: &[&str] = &["UDP", "TCP", "SHARED_LOOPBACK"];
const TCP: &[&str] = &["TCP"];
const UDP: &[&str] = &["UDP"];
const SOCKETS: &[&str] = &["UDP", "TCP", "FD_SOCK2"];
const PINGS: &[&str] = &["PING", "MPING", "TCPPING", "SHARED_LOOPBACK_PING"];
const LOCAL: &[&str] = &["SHARED_LOOPBACK_PING"];
const MPING: &[&str] = &["MPING"];
const RELIABLE: &[&str] = &["NAKACK2", "NAKACK4", "UNICAST3", "UNICAST4"];
const NAKACKS: &[&str] = &["NAKACK2", "NAKACK4"];
const UNICASTS: &[&str] = &["UNICAST3", "UNICAST4"];
const GMS: &[&str] = &["GMS"];
const STATES: &[&str] = &["STATE", "STATE_SOCK"];

const ONE_THREAD: &str = "one thread drives a member, without pools";
const TURNS: &str = "messages of one turn share a packet without a queue or a thread for it";
const LOGS: &str = "what is logged is chosen by RGROUPS_LOG or --log";
const WINDOWS: &str = "windows grow and shrink with what is in them";
const BATCHES: &str = "batches are as large as what arrived in one turn";

/// The table.
pub(super) const TABLE: &[Idle] = &[
    idle(ALL, "stats", Meaningless, "counters are always kept"),
    idle(ALL, "ergonomics", Meaningless, "nothing tunes itself behind the settings"),
    idle(ALL, "level", Meaningless, LOGS),
    idle(ALL, "preview_warning", Meaningless, "no protocol here is a preview"),
    idle(ALL, "id", Refused(""), "protocols keep the ids that JGroups gives them by default"),
    idle(ALL, "after_creation_hook", Refused(""), "it names a Java class"),
    idle(ALL, "policies", Refused(""), "it names Java classes"),
    idle(
        ALL,
        "up_thread",
        Obsolete,
        "protocols have had no threads of their own since JGroups 2.6",
    ),
    idle(
        ALL,
        "down_thread",
        Obsolete,
        "protocols have had no threads of their own since JGroups 2.6",
    ),
    // Transports.
    idle(TP, "thread_pool.*", Meaningless, ONE_THREAD),
    idle(TP, "async_executor.*", Meaningless, ONE_THREAD),
    idle(TP, "use_virtual_threads", Meaningless, ONE_THREAD),
    idle(TP, "use_vthreads", Meaningless, ONE_THREAD),
    idle(TP, "thread_naming_pattern", Meaningless, ONE_THREAD),
    idle(TP, "message_processing_policy", Meaningless, ONE_THREAD),
    idle(TP, "msg_processing_policy.*", Meaningless, ONE_THREAD),
    idle(TP, "time_service_interval", Meaningless, "time is asked once a turn"),
    idle(TP, "bundler_type", Meaningless, TURNS),
    idle(TP, "bundler.*", Meaningless, TURNS),
    idle(TP, "diag.ttl", Meaningless, "members only answer; who asks says how far it goes"),
    idle(TP, "msg_stats.*", Meaningless, "counters are always kept"),
    idle(TP, "rtt.*", Meaningless, "round-trip times are not measured by the transport"),
    idle(TP, "logical_addr_cache_max_size", Meaningless, "members of the view are never forgotten"),
    idle(
        TP,
        "logical_addr_cache_expiration",
        Meaningless,
        "members of the view are never forgotten",
    ),
    idle(
        TP,
        "logical_addr_cache_reaper_interval",
        Meaningless,
        "members of the view are never forgotten",
    ),
    idle(TP, "logical_addr_cache.*", Meaningless, "members of the view are never forgotten"),
    idle(TP, "who_has_cache_timeout", Meaningless, "an address is asked for every 2 s"),
    idle(TP, "log_discard_msgs", Meaningless, LOGS),
    idle(TP, "log_discard_msgs_version", Meaningless, LOGS),
    idle(TP, "suppress_time_different_version_warnings", Meaningless, LOGS),
    idle(TP, "suppress_time_different_cluster_warnings", Meaningless, LOGS),
    idle(TP, "suppress_time_out_of_buffer_space", Meaningless, LOGS),
    idle(
        TP,
        "receive_on_all_interfaces",
        Wanting("false"),
        "multicasts are received on the bound interface",
    ),
    idle(TP, "receive_interfaces", Wanting(""), "multicasts are received on the bound interface"),
    idle(TP, "local_transport_class", Refused(""), "it names a Java class"),
    idle(TP, "local_transport.*", Refused(""), "it names a Java class"),
    idle(UDP, "tos", Wanting("0"), "packets are not marked"),
    idle(UDP, "disable_loopback", Meaningless, "own multicasts are delivered without the network"),
    idle(
        UDP,
        "mcast_send_buf_size",
        Meaningless,
        "unicasts and multicasts leave by one socket; see ucast_send_buf_size",
    ),
    idle(UDP, "ucast_receiver_threads", Meaningless, ONE_THREAD),
    idle(UDP, "mcast_receiver_threads", Meaningless, ONE_THREAD),
    idle(UDP, "unicast_receiver_threads", Meaningless, ONE_THREAD),
    idle(UDP, "multicast_receiver_threads", Meaningless, ONE_THREAD),
    idle(
        TCP,
        "buffered_input_stream_size",
        Meaningless,
        "sockets are read as far as they go, without streams",
    ),
    idle(
        TCP,
        "buffered_output_stream_size",
        Meaningless,
        "sockets are written as far as they go, without streams",
    ),
    idle(
        TCP,
        "reaper_interval",
        Meaningless,
        "idle connections are closed when conn_expire_time is over",
    ),
    idle(TCP, "use_lock_to_send", Meaningless, ONE_THREAD),
    idle(TCP, "non_blocking_sends", Meaningless, "sending never blocks"),
    idle(TCP, "max_send_buffers", Meaningless, "what waits is bounded in bytes"),
    idle(TCP, "copy_on_partial_write", Meaningless, "sending never blocks"),
    idle(TCP, "reader_idle_time", Meaningless, ONE_THREAD),
    idle(TCP, "use_direct_memory", Meaningless, "there is only one kind of memory"),
    idle(TCP, "log_accept_error", Meaningless, LOGS),
    idle(TCP, "log_details", Meaningless, LOGS),
    idle(TCP, "use_acks", Meaningless, "JGroups does not use it any more"),
    idle(TCP, "enable_suspect_events", Wanting("false"), "FD_SOCK2 watches connections"),
    idle(TCP, "defer_client_bind_addr", Wanting("false"), "connections leave from any port"),
    idle(TCP, "client_bind_addr", Wanting(""), "connections leave from bind_addr"),
    idle(SOCKETS, "client_bind_port", Wanting("0"), "connections leave from any port"),
    idle(SOCKETS, "linger", Wanting("-1"), "connections are closed at once"),
    idle(TCP, "tls.enabled", Refused("false"), "there is no TLS"),
    idle(TCP, "tls.*", Meaningless, "there is no TLS, and tls.enabled is not set"),
    idle(
        &["NAKACK4"],
        "discard_delivered_msgs",
        Meaningless,
        "messages are kept until all members have acknowledged them",
    ),
    idle(
        TCP,
        "max_send_queue",
        Meaningless,
        "it counts messages; send_queue_bytes bounds what waits",
    ),
    // Discovery.
    idle(LOCAL, "break_on_coord_rsp", Meaningless, "members of one process are known at once"),
    idle(LOCAL, "return_entire_cache", Meaningless, "members of one process are known at once"),
    idle(
        LOCAL,
        "max_members_in_discovery_request",
        Meaningless,
        "members of one process are known at once",
    ),
    idle(LOCAL, "max_rank_to_reply", Meaningless, "members of one process are known at once"),
    idle(PINGS, "async_discovery", Meaningless, "discovery never blocks"),
    idle(PINGS, "async_discovery_use_separate_thread_per_request", Meaningless, ONE_THREAD),
    idle(
        PINGS,
        "discovery_rsp_expiry_time",
        Meaningless,
        "answers are kept until the join is decided",
    ),
    idle(PINGS, "stagger_timeout", Wanting("0"), "answers leave at once"),
    idle(PINGS, "num_discovery_runs", Wanting("1"), "requests are repeated within join_wait"),
    idle(PINGS, "use_disk_cache", Wanting("false"), "addresses are not kept on disk"),
    idle(PINGS, "send_cache_on_join", Wanting("true"), "a joiner is told only what it asks for"),
    idle(&["TCPPING"], "initial_hosts_file", Refused(""), "hosts are read from initial_hosts only"),
    idle(MPING, "bind_interface", Wanting(""), "the interface of bind_addr is used"),
    idle(MPING, "receive_on_all_interfaces", Wanting("false"), "one interface is used"),
    idle(MPING, "receive_interfaces", Wanting(""), "one interface is used"),
    idle(MPING, "send_on_all_interfaces", Wanting("false"), "one interface is used"),
    idle(MPING, "send_interfaces", Wanting(""), "one interface is used"),
    // Failure detection.
    idle(&["FD_SOCK2"], "bind_addr", Meaningless, "it listens where the transport does"),
    idle(&["FD_SOCK2"], "min_port", Wanting("1024"), "any port may be listened on"),
    idle(&["FD_SOCK2"], "max_port", Wanting("65536"), "any port may be listened on"),
    idle(&["FD_SOCK2"], "external_addr", Wanting(""), "the address of the transport is told"),
    idle(&["FD_SOCK2"], "external_port", Wanting("0"), "the port that is listened on is told"),
    idle(&["FD_ALL3"], "has_suspected_mbrs", Meaningless, "it is no setting"),
    idle(&["VERIFY_SUSPECT"], "use_icmp", Wanting("false"), "suspects are asked by messages"),
    idle(&["VERIFY_SUSPECT"], "bind_addr", Meaningless, "it has no socket of its own"),
    idle(
        &["VERIFY_SUSPECT", "VERIFY_SUSPECT2"],
        "use_mcast_rsps",
        Wanting("false"),
        "answers are unicasts",
    ),
    // Retransmission.
    idle(RELIABLE, "xmit_table_num_rows", Meaningless, WINDOWS),
    idle(RELIABLE, "xmit_table_msgs_per_row", Meaningless, WINDOWS),
    idle(RELIABLE, "xmit_table_resize_factor", Meaningless, WINDOWS),
    idle(RELIABLE, "xmit_table_max_compaction_time", Meaningless, WINDOWS),
    idle(RELIABLE, "max_batch_size", Meaningless, BATCHES),
    idle(RELIABLE, "reuse_message_batches", Meaningless, BATCHES),
    idle(RELIABLE, "log_discard_msgs", Meaningless, LOGS),
    idle(RELIABLE, "log_not_found_msgs", Meaningless, LOGS),
    idle(RELIABLE, "send_atomically", Meaningless, ONE_THREAD),
    idle(NAKACKS, "use_mcast_xmit_req", Wanting("false"), "requests are unicasts"),
    idle(
        NAKACKS,
        "xmit_from_random_member",
        Wanting("false"),
        "senders are asked, and others when they are gone",
    ),
    idle(NAKACKS, "suppress_time_non_member_warnings", Meaningless, LOGS),
    idle(
        NAKACKS,
        "resend_last_seqno_max_times",
        Meaningless,
        "the last number is announced until it is seen",
    ),
    idle(UNICASTS, "xmits_enabled", Wanting("true"), "missing messages are always asked for"),
    idle(UNICASTS, "loopback", Meaningless, "unicasts to oneself never leave the process"),
    // Membership.
    idle(GMS, "print_local_addr", Meaningless, "whoever joins is logged with its view"),
    idle(GMS, "print_physical_addrs", Meaningless, "whoever joins is logged with its view"),
    idle(GMS, "print_view_details", Meaningless, LOGS),
    idle(GMS, "log_collect_msgs", Meaningless, LOGS),
    idle(GMS, "log_view_warnings", Meaningless, LOGS),
    idle(GMS, "num_prev_mbrs", Meaningless, "members that left are not remembered"),
    idle(GMS, "num_prev_views", Meaningless, "views that passed are not remembered"),
    idle(GMS, "max_leave_attempts", Meaningless, "a leave is repeated until leave_timeout"),
    idle(GMS, "membership_change_policy", Refused(""), "it names a Java class"),
    // The rest.
    idle(
        &["RSVP"],
        "throw_exception_on_timeout",
        Meaningless,
        "the outcome of a send lists who is missing",
    ),
    idle(&["DISCARD"], "gui", Wanting("false"), "there is no window for it"),
    idle(&["DISCARD"], "drop_down_unicasts", Wanting("0"), "it drops at random only"),
    idle(&["DISCARD"], "drop_down_multicasts", Wanting("0"), "it drops at random only"),
    idle(&["DELAY"], "in_delay_nanos", Wanting("0"), "delays are whole milliseconds"),
    idle(&["DELAY"], "out_delay_nanos", Wanting("0"), "delays are whole milliseconds"),
    idle(&["DELAY"], "constant_delay", Meaningless, "see spread"),
    idle(
        &["BARRIER"],
        "max_close_time",
        Meaningless,
        "it never closes for longer than a state is taken",
    ),
    idle(&["BARRIER"], "flush_timeout", Meaningless, ONE_THREAD),
    idle(STATES, "pool_thread_keep_alive", Meaningless, "there is no pool; see max_pool"),
    idle(
        &["STATE_SOCK"],
        "bind_interface",
        Wanting(""),
        "bind_addr takes the name of an interface too",
    ),
];

/// Attributes that have another name here.
const RENAMED: [(&str, &str); 2] =
    [("bundler.max_size", "max_size"), ("excludeItself", "excludes_self")];

/// The name of an attribute here.
pub(super) fn renamed(attribute: &str) -> &str {
    RENAMED.iter().find(|(theirs, _)| *theirs == attribute).map_or(attribute, |(_, ours)| ours)
}

/// The name of an attribute in JGroups.
pub(super) fn of_jgroups(attribute: &str) -> &str {
    RENAMED.iter().find(|(_, ours)| *ours == attribute).map_or(attribute, |(theirs, _)| theirs)
}

/// What is known of an attribute that the protocol's configuration does not have.
pub(super) fn find(protocol: &str, attribute: &str) -> Option<&'static Idle> {
    TABLE.iter().find(|i| {
        let mine = i.of.is_empty() || i.of.contains(&protocol);
        mine && match i.name.strip_suffix('*') {
            Some(component) => attribute.starts_with(component),
            None => i.name == attribute,
        }
    })
}

/// The names of all such attributes of a protocol, without those of components.
pub(super) fn names(protocol: &str) -> impl Iterator<Item = &'static str> + '_ {
    let mine = move |i: &&Idle| i.of.is_empty() || i.of.contains(&protocol);
    TABLE.iter().filter(mine).map(|i| i.name).filter(|n| !n.ends_with('*'))
}
