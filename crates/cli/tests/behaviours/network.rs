//! Concurrency, discovery and the network around the group.

use crate::catalogue::Shown::{By, InPart, Missing};
use crate::catalogue::{Behaviour, row};

pub(crate) const CONCURRENCY: &[Behaviour] = &[
    row(
        "T02",
        "two members that connect to each other at once end with one connection, also after a restart",
        By(&[
            "t02_two_nodes_connect_to_each_other_at_once",
            "simultaneous_connects_leave_one_connection_and_lose_nothing",
            "simultaneous_connects_survive_delays_near_every_wait",
            "a_member_restarted_on_its_address_is_reachable_though_the_old_connection_is_half_open",
            "crashes_and_restarts_in_any_order_end_in_one_usable_connection_per_pair",
        ]),
    ),
    row(
        "T03",
        "after the end nothing is made any more, and no socket is left",
        By(&[
            "leaving_announces_the_close_and_nothing_is_made_afterwards",
            "a_closed_or_failed_member_leaves_no_descriptor",
            "a_closed_network_has_no_socket_left",
            "a_stopped_stack_has_no_timers_and_takes_no_packets",
        ]),
    ),
    row(
        "T04",
        "an idle member does nothing, also after somebody left with messages on their way",
        By(&[
            "t04_an_idle_cluster_is_idle",
            "an_idle_mesh_has_no_timers",
            "idle_members_of_udp_sleep",
            "idle_members_of_tcp_sleep",
            "udp_three_idle_members_use_next_to_no_processor",
        ]),
    ),
    row(
        "T05",
        "hosts that cannot be reached cost an attempt now and then and delay nobody",
        By(&[
            "nothing_is_queued_for_an_unreachable_peer_and_attempts_are_spaced",
            "a_connection_that_is_not_made_in_time_is_given_up",
        ]),
    ),
    row(
        "T10",
        "a channel ends at any time, twice, while joining and from within its receiver, and its port is free",
        By(&[
            "a_closed_channel_refuses_and_ends_its_events",
            "dropping_all_handles_leaves",
            "a_join_that_is_given_up_leaves_nobody_behind",
            "a_closed_or_failed_member_leaves_no_descriptor",
            "a_receiver_may_close_its_own_channel",
        ]),
    ),
    row(
        "T11",
        "membership, credit and answers go on while applications take nothing or send from where they receive",
        By(&[
            "t11_membership_goes_on_while_no_application_consumes",
            "members_that_send_from_where_they_receive_do_not_deadlock",
            "synchronous_sends_from_both_reading_tasks_end_and_name_the_other",
        ]),
    ),
];

pub(crate) const DISCOVERY: &[Behaviour] = &[
    row(
        "D02",
        "members that find each other in a store make one group",
        Missing("there is no discovery by a store (FILE_PING, JDBC_PING and the like are refused)"),
    ),
    row(
        "D03",
        "a store that fails disturbs no group that runs",
        Missing("there is no discovery by a store"),
    ),
    row(
        "D04",
        "answers tell the role in the view that is installed, and only own requests are passed over",
        By(&[
            "answers_state_the_role_in_the_installed_view",
            "a_leaving_member_ignores_discovery",
            "only_who_is_wanted_answers",
            "our_own_datagrams_are_ignored",
            "over_tcp_every_port_of_the_range_is_asked_but_the_own_one",
        ]),
    ),
    row(
        "D05",
        "members that are replaced one by one, or all at once, end in one group",
        InPart(
            &[
                "m08_both_members_are_killed_and_restarted",
                "r07_a_node_comes_and_goes_and_sends_each_time",
                "killed_left_and_added_members_show_in_the_views",
                "hosts_that_were_heard_of_are_asked_too_up_to_a_limit",
            ],
            "there is no discovery by DNS or KUBE_PING, so no lists that are late",
        ),
    ),
    row(
        "D06",
        "of the hosts that are named the dead ones cost no time; those that come later are found",
        InPart(
            &[
                "when_all_hosts_refuse_a_member_over_streams_does_not_wait",
                "the_wait_ends_when_every_address_that_was_asked_refuses",
                "over_tcp_every_port_of_the_range_is_asked_but_the_own_one",
                "without_multicast_those_whom_discovery_finds_are_told",
            ],
            "names are looked up once, at the start, and one that is not known is an error there",
        ),
    ),
];

pub(crate) const ENVIRONMENT: &[Behaviour] = &[
    row(
        "T06",
        "a member whose address is not known is asked for; what is meant for it waits within bounds",
        By(&[
            "a_unicast_waits_for_its_address_and_leaves_when_it_is_learned",
            "a_waiting_member_is_asked_for_every_two_seconds_until_a_minute_is_over",
            "unknown_members_of_a_view_are_asked_for_at_once",
            "with_a_view_a_multicast_goes_to_its_members_and_the_unknown_are_asked_for",
            "at_the_limit_nothing_is_dropped_and_one_more_drops_the_oldest",
            "a_member_whose_address_stays_unknown_is_told_of_after_a_while",
        ]),
    ),
    row(
        "T07",
        "the address that is bound is chosen by a rule that is told; what does not fit is an error with its remedy",
        By(&[
            "a_configuration_tells_its_address_and_the_reason",
            "an_address_that_the_host_does_not_have_is_answered_with_those_that_it_has",
            "the_reason_names_the_rule",
            "what_matches_nothing_says_why_and_what_there_is",
            "a_group_does_not_mix_versions_of_ip",
            "addresses_of_both_versions_of_ip_do_not_go_together",
        ]),
    ),
    row(
        "T08",
        "multicast that does not work and buffers that are small are told with the remedy, and lose nothing",
        InPart(
            &[
                "a_network_without_multicast_is_found",
                "a_member_that_can_multicast_to_nobody_is_told",
                "a_lossy_network_breaks_nothing",
            ],
            "buffers are measured by `rgroups doctor`, which no test with a small limit shows",
        ),
    ),
    row(
        "T09",
        "packets of another cluster leave no trace but one line",
        By(&[
            "nothing_of_another_cluster_leaves_a_trace",
            "requests_of_another_cluster_leave_no_trace",
            "a_single_message_is_dropped_only_if_it_names_another_cluster",
            "a_foreign_cluster_on_the_same_group_is_one_line",
        ]),
    ),
    row(
        "T12",
        "members on slow hosts form a group and stay together",
        By(&[
            "three_slow_hosts_form_a_group_and_stay_together",
            "slow_and_frozen_nodes_break_nothing",
        ]),
    ),
    row(
        "T13",
        "a router that dies is replaced by another one",
        Missing("there is no transport over routers (TUNNEL is refused)"),
    ),
];
