//! Calls of methods.

use crate::catalogue::Shown::{By, InPart};
use crate::catalogue::{Behaviour, row};

pub(crate) const CALLS: &[Behaviour] = &[
    row(
        "P02",
        "a view that comes while a call is made decides its targets",
        By(&[
            "a_target_that_leaves_while_its_request_waits_has_left",
            "whoever_leaves_is_decided_by_the_view_and_joiners_are_not_waited_for",
            "a_target_that_a_merge_brings_back_has_left",
            "calls_end_by_their_deadline_with_true_statuses_when_a_member_crashes",
        ]),
    ),
    row(
        "P03",
        "a row for every target with one final status; a call ends exactly when its mode has what it asks for",
        By(&[
            "the_first_thing_that_happens_to_a_target_decides_it",
            "a_member_that_answers_twice_counts_once",
            "the_first_value_ends_a_call_that_wants_one_and_a_failure_does_not",
            "a_majority_is_more_than_half_of_the_targets",
            "a_call_with_nobody_to_wait_for_is_over_at_once",
            "a_member_can_call_itself",
        ]),
    ),
    row(
        "P04",
        "one deadline for a call, waiting for credit included, whatever is answered",
        By(&[
            "answers_do_not_put_the_deadline_off",
            "a_request_that_flow_control_holds_until_the_deadline_is_never_sent",
            "a_handler_that_hangs_costs_its_caller_the_deadline_and_nobody_else_anything",
            "calls_end_by_their_deadline_with_true_statuses_across_a_partition_and_a_merge",
        ]),
    ),
    row(
        "P05",
        "calls of one member to another run at the same time",
        InPart(
            &["calls_of_one_member_run_at_the_same_time"],
            "calls that are carried out one after the other, in order",
        ),
    ),
    row(
        "P06",
        "a request has exactly one answer or its caller a view; every failure is an answer",
        By(&[
            "what_goes_wrong_at_a_member_is_in_its_row",
            "a_request_that_cannot_be_read_is_answered",
            "a_request_that_comes_twice_is_carried_out_once",
            "one_request_too_many_is_answered_with_overloaded",
            "a_member_of_jgroups_is_answered_in_the_form_of_its_request",
            "nested_calls_of_any_depth_end_with_one_thread_each",
        ]),
    ),
];
