//! Reliability of messages.

use crate::catalogue::Shown::{By, InPart};
use crate::catalogue::{Behaviour, row};

pub(crate) const RELIABILITY: &[Behaviour] = &[
    row(
        "R01",
        "a lost first or last message and a lost acknowledgement are made good, and then the wire is quiet",
        By(&[
            "r01_the_last_message_of_a_burst_is_lost",
            "a_lost_last_message_is_repaired_soon_after_the_burst",
            "a_lost_last_message_is_repaired_within_two_rounds",
            "the_only_message_is_repeated_if_it_is_lost",
            "a_lost_first_message_is_asked_for",
            "lost_acknowledgements_are_repeated_and_then_the_wire_is_quiet",
            "after_the_repair_the_wire_is_quiet_and_no_timer_runs",
        ]),
    ),
    row(
        "R04",
        "ordered and out-of-band messages in any order of arrival, single and in batches, one lost: each once",
        By(&[
            "r04_mixed_messages_with_one_lost",
            "every_order_of_arrival_delivers_each_message_once_and_ordered_ones_in_order",
        ]),
    ),
    row(
        "R05",
        "requests for what is missing and their answers are cut to packets",
        By(&[
            "a_big_burst_of_gaps_is_repaired_with_bounded_packets",
            "a_long_gap_is_split_into_lists_of_bounded_size",
            "what_the_requests_of_one_turn_are_answered_with_is_bounded",
        ]),
    ),
    row(
        "R06",
        "what comes in another order without being lost is not asked for",
        By(&[
            "reordering_causes_no_requests",
            "without_loss_reordering_causes_almost_no_retransmissions",
            "a_former_member_is_not_asked_for_numbers_of_its_former_life",
        ]),
    ),
    row(
        "R07",
        "an endpoint that leaves and joins again begins from one, and all of every life arrives",
        By(&[
            "r07_a_node_comes_and_goes_and_sends_each_time",
            "an_endpoint_that_reconnects_starts_from_one_and_everything_arrives",
            "an_endpoint_that_restarts_uses_new_connection_numbers",
        ]),
    ),
    row(
        "R08",
        "what a joiner sends before others have its view is delivered after it, in order",
        By(&[
            "r08_a_joiner_sends_before_the_others_have_its_view",
            "what_a_joiner_sent_before_the_view_arrived_is_asked_for_once_it_is_a_member",
            "unicasts_of_a_sender_outside_the_view_wait_for_the_view_and_keep_their_order",
            "the_membership_speaks_to_strangers_without_a_bound",
        ]),
    ),
    row(
        "R09",
        "what comes before the first view is delivered after it, and whoever receives may answer at once",
        By(&[
            "early_multicasts_wait_for_the_end_of_the_join_and_the_digest_decides",
            "the_view_comes_before_what_waited_for_it",
            "a_joiner_receives_what_is_sent_right_after_its_view",
            "sending_from_the_receive_loop_does_not_hang",
        ]),
    ),
    row(
        "R11",
        "what a sender sends after it came back is taken after what it sent before",
        By(&[
            "what_a_sender_sends_after_its_return_is_taken_after_what_it_sent_before",
            "receipts_of_an_earlier_window_return_nothing",
        ]),
    ),
    row(
        "R12",
        "messages with any mix of flags, bundled with others, arrive once",
        By(&[
            "messages_with_any_mix_of_flags_arrive_once_and_are_let_go",
            "out_of_band_messages_of_a_list_go_up_first_and_unbundled_ones_alone",
        ]),
    ),
    row(
        "R13",
        "deliveries are the same whether large messages are cut or not",
        By(&[
            "r13_large_messages_are_cut_and_put_together",
            "deliveries_are_the_same_with_and_without_fragmentation",
            "regular_messages_keep_their_order_whatever_their_size",
            "fragments_in_any_order_make_the_message",
            "unfinished_messages_go_with_their_sender",
            "a_large_message_to_oneself_without_loopback",
        ]),
    ),
    row(
        "R14",
        "garbage harms its own connection only and costs no memory",
        By(&[
            "r14_garbage_from_strangers_changes_nothing",
            "mutated_vectors_neither_panic_nor_take_more_memory_than_their_bytes_justify",
            "garbage_closes_its_own_connection_only",
            "a_frame_of_absurd_length_closes_the_connection_without_allocation",
            "who_does_not_say_who_it_is_within_a_second_is_closed",
            "every_prefix_of_a_vector_is_an_error",
        ]),
    ),
    row(
        "R15",
        "windows do what a model does, from any first number on",
        By(&[
            "a_window_does_what_the_model_does_from_any_start",
            "a_number_at_the_limit_is_held_and_one_beyond_is_refused",
            "a_connection_number_that_wrapped_is_newer",
        ]),
    ),
    row(
        "R16",
        "a message that may not wait is refused before it has a number, so receivers wait for no hole",
        By(&[
            "trying_while_the_own_window_is_full_would_block",
            "a_message_that_must_not_wait_is_refused_with_the_reason",
            "a_try_that_would_wait_names_who_limits_it_and_sends_nothing",
            "a_number_that_is_left_out_breaks_c12",
            "synchronous_sends_break_nothing",
        ]),
    ),
    row(
        "R17",
        "acknowledgements of who is no member count for nothing and leave nothing",
        By(&[
            "acknowledgements_of_strangers_and_of_the_future_count_for_nothing",
            "acknowledgements_of_strangers_and_other_connections_are_ignored",
            "a_member_that_leaves_holds_up_nobody",
            "credit_of_strangers_and_nonsense_changes_nothing",
        ]),
    ),
    row(
        "R18",
        "every wait of a sender ends when its receiver goes, the channel closes or its time is over",
        By(&[
            "r18_a_blocked_sender_is_released_when_its_receiver_goes",
            "a_view_without_the_debtor_lets_the_multicast_go",
            "a_unicast_to_a_member_that_left_is_refused",
            "a_deadline_ends_the_wait_with_the_name_of_the_member_that_limits",
            "stopping_answers_every_waiting_call",
            "a_connection_that_is_closing_is_reopened_by_traffic",
            "a_message_to_somebody_outside_the_view_is_refused_every_time",
        ]),
    ),
    row(
        "R19",
        "own messages without a copy are freed and move the window, in any mix with others",
        By(&[
            "messages_with_any_mix_of_flags_arrive_once_and_are_let_go",
            "messages_without_loopback_count_as_delivered_at_once",
            "own_messages_without_a_copy_count_as_consumed",
            "accounts_are_whole_at_quiescence_whatever_the_flags",
        ]),
    ),
    row(
        "R20",
        "views and digests of large groups are not lost for their size",
        InPart(
            &[
                "views_after_the_first_travel_as_differences",
                "a_report_of_a_hundred_on_nothing_stays_below_600_bytes",
                "a_message_that_fits_in_no_datagram_is_refused",
                "a_datagram_is_at_most_as_large_as_udp_allows",
            ],
            "no test joins 300 members where packets above 1,400 bytes are dropped: a first view is \
             not cut into several messages, as in JGroups, and needs datagrams that IP may cut",
        ),
    ),
    row(
        "R21",
        "no error of the system ends reading, sending or accepting",
        InPart(
            &[
                "a_dead_destination_does_not_stop_the_socket",
                "a_datagram_that_is_too_large_is_dropped_and_the_next_one_leaves",
            ],
            "ECONNREFUSED and EMSGSIZE are provoked; a full system (ENOBUFS, EMFILE) is not",
        ),
    ),
];
