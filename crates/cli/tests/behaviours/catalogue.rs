//! The classes, what a behaviour is, and those of membership.

use Shown::{By, InPart};

/// What shows a behaviour.
#[derive(Clone, Copy)]
pub(crate) enum Shown {
    /// These tests and scenarios.
    By(&'static [&'static str]),
    /// These, and what none of them does.
    InPart(&'static [&'static str], &'static str),
    /// Nothing, and why.
    Missing(&'static str),
}

impl Shown {
    pub(crate) fn tests(&self) -> &'static [&'static str] {
        match self {
            Shown::By(tests) | Shown::InPart(tests, _) => tests,
            Shown::Missing(_) => &[],
        }
    }
}

/// A row of the table.
pub(crate) struct Behaviour {
    pub(crate) id: &'static str,
    /// What is right.
    pub(crate) asks: &'static str,
    pub(crate) shown: Shown,
}

/// A behaviour.
pub(crate) const fn row(id: &'static str, asks: &'static str, shown: Shown) -> Behaviour {
    Behaviour { id, asks, shown }
}

/// A class of behaviours.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    /// All ids there are; the numbers between them are not used.
    pub(crate) ids: &'static [&'static str],
    pub(crate) behaviours: &'static [Behaviour],
}

/// All classes.
pub(crate) const CLASSES: [Class; 9] = [
    Class {
        name: "Membership",
        ids: &[
            "M02", "M04", "M06", "M07", "M08", "M09", "M11", "M12", "M13", "M14", "M15", "M16",
            "M17", "M18", "M19", "M20", "M21", "M23", "M24", "M26", "M27",
        ],
        behaviours: MEMBERSHIP,
    },
    Class {
        name: "Merge",
        ids: &["G01", "G03", "G04", "G05", "G06", "G08", "G09", "G10"],
        behaviours: crate::merging::MERGE,
    },
    Class {
        name: "Reliability",
        ids: &[
            "R01", "R04", "R05", "R06", "R07", "R08", "R09", "R11", "R12", "R13", "R14", "R15",
            "R16", "R17", "R18", "R19", "R20", "R21",
        ],
        behaviours: crate::reliability::RELIABILITY,
    },
    Class {
        name: "Concurrency",
        ids: &["T02", "T03", "T04", "T05", "T10", "T11"],
        behaviours: crate::network::CONCURRENCY,
    },
    Class {
        name: "Discovery",
        ids: &["D02", "D03", "D04", "D05", "D06"],
        behaviours: crate::network::DISCOVERY,
    },
    Class {
        name: "Network environment",
        ids: &["T06", "T07", "T08", "T09", "T12", "T13"],
        behaviours: crate::network::ENVIRONMENT,
    },
    Class { name: "State", ids: &["X02", "X03", "X04"], behaviours: crate::merging::STATE },
    Class {
        name: "Stability",
        ids: &["B01", "B03", "B04", "B05"],
        behaviours: crate::merging::STABILITY,
    },
    Class {
        name: "Calls of methods",
        ids: &["P02", "P03", "P04", "P05", "P06"],
        behaviours: crate::rpc::CALLS,
    },
];

const MEMBERSHIP: &[Behaviour] = &[
    row(
        "M02",
        "a coordinator that leaves does not depend on one multicast: members that missed its last view heal by suspicion",
        By(&[
            "m02_a_coordinator_leaves_and_its_last_view_is_lost",
            "survivors_that_missed_the_last_view_of_a_leaver_heal_by_suspicion",
            "a_coordinator_finishes_its_view_before_it_leaves",
        ]),
    ),
    row(
        "M04",
        "a leave that is not answered is asked for again, also of the next coordinator, and twice is harmless",
        By(&[
            "leaves_go_on_with_the_next_coordinator",
            "any_number_of_first_members_can_leave_together",
            "the_answer_to_a_leaver_needs_no_connection_and_comes_before_the_view",
            "a_lost_answer_is_asked_for_again",
            "asking_twice_is_harmless",
            "a_leave_without_any_answer_ends_in_time",
            "members_that_all_leave_at_once_know_that_they_are_out",
        ]),
    ),
    row(
        "M06",
        "views and answers to joiners wait neither for applications nor for a destination that fails",
        By(&[
            "t11_membership_goes_on_while_no_application_consumes",
            "messages_of_the_membership_pass_a_full_window_and_are_never_counted",
            "a_dead_destination_does_not_stop_the_socket",
            "a_frozen_peer_costs_a_bounded_queue_and_delays_nobody",
        ]),
    ),
    row(
        "M07",
        "the first view and the answer to the joiner may come in either order, late and twice",
        By(&[
            "view_and_join_answer_may_come_in_either_order_and_twice",
            "the_digest_is_set_once_and_before_the_view",
            "a_coordinator_that_dies_between_view_and_join_answer_is_replaced_for_the_joiner",
        ]),
    ),
    row(
        "M08",
        "a joiner soon passes over a coordinator that does not answer and looks for another one",
        By(&[
            "m08_both_members_are_killed_and_restarted",
            "a_silent_coordinator_is_asked_twice_and_then_passed_over",
            "of_a_dead_and_a_live_coordinator_the_live_one_is_found",
        ]),
    ),
    row(
        "M09",
        "members that start at once end in one group without a merge, also when the lowest never acts",
        By(&[
            "m09_six_nodes_start_at_once",
            "joiners_that_start_together_end_in_one_group_without_merging",
            "a_joiner_that_never_acts_is_passed_over",
            "a_cold_start_breaks_nothing",
        ]),
    ),
    row(
        "M11",
        "nobody answers for another identity, not even its successor at the same address",
        By(&[
            "nobody_answers_for_another_identity",
            "a_successor_on_the_same_address_does_not_answer_for_the_dead",
            "nobody_speaks_for_the_dead",
        ]),
    ),
    row(
        "M12",
        "each suspect has its own full time of verification",
        By(&["each_suspect_has_its_own_full_time"]),
    ),
    row(
        "M13",
        "nobody waits for the acknowledgement of a suspect, also of one that is suspected meanwhile",
        By(&["nobody_waits_for_the_acknowledgement_of_a_suspect"]),
    ),
    row(
        "M14",
        "who leaves or closes an unused connection is no suspect; a crash is, and a leaver that stays too",
        By(&[
            "m14_a_leaver_is_no_suspect_and_a_killed_node_is",
            "a_leave_is_no_suspicion",
            "a_leaver_that_stays_in_the_view_is_suspected_after_a_while",
            "a_connection_that_is_not_used_is_closed_and_made_again_when_it_is_needed",
            "connections_of_a_leaver_end_with_a_goodbye",
        ]),
    ),
    row(
        "M15",
        "no request to the membership is forgotten, also none that comes while a view or a merge is under way",
        By(&[
            "a_request_that_comes_while_a_view_is_acknowledged_is_not_lost",
            "joiners_that_come_while_a_view_is_acknowledged_go_into_the_next_one",
            "a_leader_that_dies_in_the_middle_blocks_nobody",
        ]),
    ),
    row(
        "M16",
        "of several suspicions at once one member makes one view, in whatever order they come",
        By(&[
            "suspicions_of_one_turn_make_one_view_and_one_coordinator",
            "the_second_member_reports_coordinator_and_others_together",
            "a_member_behind_one_that_stays_does_not_act",
        ]),
    ),
    row(
        "M17",
        "a difference between views is applied to its base only; whoever lacks it asks for the whole view",
        By(&[
            "a_difference_on_another_base_is_answered_by_asking_for_the_whole",
            "a_difference_that_is_applied_to_the_wrong_view_is_noticed",
            "a_view_without_this_member_is_ignored",
            "a_view_that_was_missed_is_asked_for_when_somebody_shows_it",
        ]),
    ),
    row(
        "M18",
        "a member that is frozen costs the others a bounded queue and no time, and is forgotten after its exclusion",
        By(&[
            "m18_a_frozen_member_is_excluded_and_forgotten",
            "a_frozen_peer_costs_a_bounded_queue_and_delays_nobody",
            "a_frozen_member_that_accepts_and_does_not_answer_is_no_suspicion_until_it_dies",
            "a_frozen_member_comes_back",
        ]),
    ),
    row(
        "M19",
        "a view makes failure detection forget who left and begin anew with who came",
        By(&[
            "a_view_forgets_leavers_and_starts_newcomers_fresh",
            "nothing_is_remembered_of_members_that_left",
        ]),
    ),
    row(
        "M20",
        "only time that does not jump decides, and a member that was not run accuses nobody",
        InPart(
            &[
                "a_host_that_was_asleep_accuses_nobody_when_it_goes_on",
                "a_member_that_slept_itself_accuses_nobody",
                "time_in_which_nobody_looked_at_a_timer_does_not_count",
                "a_clock_that_runs_fast_still_meets_its_deadlines",
            ],
            "the protocols know no time of day, and their time begins at 0; no test begins elsewhere",
        ),
    ),
    row(
        "M21",
        "a crash is found while a path for sending is blocked",
        By(&[
            "m21_a_crash_is_found_while_another_member_reads_nothing",
            "frames_of_control_traffic_leave_before_bulk",
        ]),
    ),
    row(
        "M23",
        "a starved member does not get others excluded: it judges after reading, and others are asked too",
        By(&[
            "m23_a_starved_node_does_not_accuse_the_others",
            "nothing_is_judged_while_received_input_waits",
            "a_member_that_stood_still_while_it_waited_waits_on",
            "a_suspect_that_answers_another_member_has_time_to_be_heard",
            "a_member_that_stands_still_for_less_than_the_timeout_is_not_excluded",
        ]),
    ),
    row(
        "M24",
        "a port for failure detection that is filtered is told once, is no suspicion and holds up no view",
        InPart(
            &["a_port_that_does_not_answer_is_no_suspicion"],
            "connections never hold up a protocol here, so no test measures views beside a filtered port",
        ),
    ),
    row(
        "M26",
        "all layers agree who comes next when members go",
        InPart(
            &[
                "only_who_would_be_coordinator_passes_a_suspicion_up",
                "only_the_member_that_would_be_coordinator_reports",
                "the_next_member_takes_over_from_a_dead_coordinator",
                "churn_breaks_nothing",
            ],
            "the order is always that of the view; there is no membership policy to choose",
        ),
    ),
    row(
        "M27",
        "what was agreed on for one view is not applied in another, and joiners learn what holds",
        By(&[
            "votes_of_another_view_of_strangers_and_of_those_who_voted_are_ignored",
            "a_result_counts_only_from_the_coordinator_of_this_view",
            "an_acknowledgement_of_an_earlier_view_does_not_count_for_the_present_one",
            "a_decision_is_not_told_to_those_who_wait_for_the_view_of_another_part_of_the_group",
            "a_leader_that_has_said_that_it_leaves_leads_no_later_view",
        ]),
    ),
];
