//! Merges, state transfer and stability.

use crate::catalogue::Shown::{By, InPart, Missing};
use crate::catalogue::{Behaviour, row};

pub(crate) const MERGE: &[Behaviour] = &[
    row(
        "G01",
        "a coordinator that is dead leads no merge, although some still have it in their view",
        By(&[
            "a_dead_coordinator_neither_speaks_nor_leads",
            "a_member_in_two_views_that_is_silent_is_not_waited_for_long",
        ]),
    ),
    row(
        "G03",
        "a merged view is the union of the views that take part, its subgroups are those views, and one is enough",
        By(&[
            "disjoint_views_are_the_parts_themselves",
            "a_merged_view_has_nobody_twice_and_the_highest_numbers",
            "several_parts_merge_at_once",
            "a_healed_split_makes_one_merged_view_and_no_more",
            "any_sequence_of_splits_heals",
            "lost_membership_messages_do_not_keep_members_apart",
            "every_split_of_five_members_heals_with_one_primary_view_at_most",
        ]),
    ),
    row(
        "G04",
        "a merge whose leader dies, is cancelled or meets another one leaves nobody waiting",
        By(&[
            "a_leader_that_dies_in_the_middle_blocks_nobody",
            "members_that_do_not_answer_are_left_out",
            "a_cancellation_counts_only_with_the_right_id_and_from_the_leader",
            "a_second_merge_is_refused_while_one_is_going_on",
            "crashes_during_splits_and_merges_leave_one_group_of_the_survivors",
        ]),
    ),
    row(
        "G05",
        "who leaves or is suspected during a merge is not in its view",
        By(&[
            "a_member_that_leaves_during_the_merge_is_not_merged_back",
            "a_part_that_is_suspected_before_the_merge_ends_is_no_part_of_the_view",
        ]),
    ),
    row(
        "G06",
        "a member that missed a view is sent it and makes no merge; a group at rest makes no views",
        By(&[
            "a_member_that_missed_a_view_is_sent_it_again_instead_of_a_merge",
            "a_stable_group_makes_no_views",
            "differences_that_are_gone_when_looked_into_are_no_split",
        ]),
    ),
    row(
        "G08",
        "views that overlap and old ones of the same coordinator heal too, and all understand each other after",
        By(&[
            "a_view_left_behind_keeps_only_those_who_still_have_it",
            "a_member_of_two_views_is_where_it_announced_to_be",
            "a_member_that_was_excluded_without_noticing_comes_back_by_a_merge",
            "an_excluded_member_sends_on_alone",
            "halves_merge_and_understand_each_other_again",
        ]),
    ),
    row(
        "G09",
        "total order outlasts a merge",
        Missing("there is no total order (SEQUENCER is refused)"),
    ),
    row(
        "G10",
        "applications hear of the parts that merged, and have a rule for what becomes of their data",
        InPart(
            &[
                "two_halves_merge_into_one_view_with_both_as_subgroups",
                "a_minority_refuses_to_send_until_the_group_is_one_again",
            ],
            "the rule is the primary part; there are no replicated maps to reconcile",
        ),
    ),
];

pub(crate) const STATE: &[Behaviour] = &[
    row(
        "X02",
        "a state whose provider or reader dies or fails ends soon, another member gives it, and memory is bounded",
        By(&[
            "when_the_provider_dies_another_one_gives_its_state_from_the_beginning",
            "when_the_provider_leaves_another_one_gives_its_state_from_the_beginning",
            "without_another_provider_the_error_says_how_much_had_come",
            "several_read_at_once_and_one_of_them_dies",
            "a_reader_that_stops_ends_its_call_and_frees_the_provider",
            "a_provider_that_refuses_or_says_nothing_gives_way_to_the_next",
            "a_writer_that_is_dropped_says_so_and_the_next_member_is_asked",
            "views_go_on_and_the_asking_member_may_die",
            "a_state_in_parts_needs_little_memory",
        ]),
    ),
    row(
        "X03",
        "a state and what is delivered after it make one cut: nothing is missing, nothing comes twice",
        By(&[
            "a_joiner_knows_every_message_once_while_everybody_sends",
            "the_cut_is_exact_when_packets_are_lost",
            "the_cut_is_exact_when_packets_are_lost_and_reordered",
            "a_joiner_of_the_counter_misses_no_increment",
        ]),
    ),
    row(
        "X04",
        "a provider that does not know the joiner yet gives it the state all the same",
        By(&["a_joiner_that_the_provider_does_not_know_yet_is_given_the_state"]),
    ),
];

pub(crate) const STABILITY: &[Behaviour] = &[
    row(
        "B01",
        "while messages of stability are lost memory stays bounded, and falls afterwards",
        By(&[
            "b01_stability_messages_are_lost",
            "while_stability_is_lost_memory_stays_below_its_ceiling",
            "with_every_result_lost_memory_stays_bounded_and_then_falls",
            "when_stability_is_back_everything_is_delivered_and_nothing_is_held",
        ]),
    ),
    row(
        "B03",
        "who sends without its own copies counts them for stability all the same",
        By(&[
            "a_sender_without_loopback_counts_its_own_bytes",
            "who_sends_without_loopback_counts_its_own_bytes",
        ]),
    ),
    row(
        "B04",
        "of members that come and go nothing is left",
        InPart(
            &[
                "b04_many_short_lived_members",
                "everything_kept_per_peer_is_gone_when_the_peers_are",
                "nothing_is_remembered_of_members_that_left",
                "unfinished_messages_go_with_their_sender",
                "churn_breaks_nothing",
            ],
            "a handful of short-lived members in each run, not ten thousand in one",
        ),
    ),
    row(
        "B05",
        "what one survivor of a sender has the others get, or nobody delivers it",
        By(&[
            "s0_21_the_tail_of_a_dead_sender",
            "survivors_of_a_killed_sender_agree_and_know_it",
            "survivors_agree_when_holders_and_deciders_die_as_well",
            "whatever_arrives_first_and_whatever_two_packets_are_lost_all_survivors_agree_and_know_it",
        ]),
    ),
];
