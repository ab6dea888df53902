//! The suite's list: every case by its area and name.

/// Lists every case as a test. `$open` is an async block or call that gives a [`Harness`].
#[macro_export]
macro_rules! conformance {
    ($open:expr) => {
        $crate::conformance! { @list $open;
            publish {
                publish_is_there_after_reopen
                concurrent_publishers_lose_nothing
                a_dropped_publish_is_never_half_stored
                ids_rise_in_publish_order_and_as_strings
                ids_never_fall_across_reopen
                ids_never_fall_when_the_wall_clock_steps_back
                two_processes_never_make_the_same_id
                every_part_of_a_message_survives
                empty_and_largest_messages_survive
                too_large_a_message_stores_nothing
                an_undeclared_topic_takes_nothing_where_topics_are_declared
                one_bad_message_stores_none_of_its_batch
                an_empty_batch_is_an_empty_answer
                a_closed_log_says_so
            }
            claim {
                claim_gives_the_oldest_first
                claim_takes_no_more_than_asked
                a_claim_carries_what_a_worker_needs
                a_leased_message_is_not_given_again
                lease_end_makes_it_claimable_with_a_higher_attempt
                ended_leases_come_first_then_due_ones_then_new_ones
                ended_leases_come_by_their_end
                due_ones_come_by_due_time
                two_claimers_never_hold_the_same_message
                the_in_flight_limit_is_never_passed
                waiting_retries_do_not_count_as_in_flight
                an_ended_lease_comes_again_at_the_in_flight_limit
                used_up_attempts_are_not_charged_to_the_batch
                a_zero_lease_is_claimable_at_once
                a_huge_lease_does_not_overflow
                a_claimed_message_comes_again_after_a_crash
                an_unreadable_record_never_costs_the_batch
            }
            fence {
                a_late_settle_by_the_first_holder_changes_nothing
                a_late_extension_by_the_first_holder_is_lost
                an_extension_moves_the_lease
                a_token_stays_current_until_somebody_acts_on_the_lease_end
                settling_twice_says_already_settled
                two_settlements_of_one_token_apply_once
                a_released_or_retried_token_is_lost
                a_redriven_token_is_lost
                a_settle_after_death_says_already_settled
                a_made_up_token_is_lost
                tokens_never_repeat_across_reopen
                one_stale_settlement_does_not_spoil_the_batch
                a_token_outlives_a_reopen
            }
            settle {
                an_acked_message_is_never_given_again
                acks_may_come_out_of_order
                a_retry_is_never_given_before_its_time
                retry_keeps_the_attempt_count_over_reopen
                an_uncounted_retry_gives_the_attempt_back
                an_uncounted_retry_on_the_last_attempt_never_kills
                a_release_is_claimable_at_once_and_costs_no_attempt
                a_release_leaves_no_history
                the_last_retry_is_a_dead_letter
                dead_letter_keeps_message_reason_and_history
                the_last_lease_end_is_a_dead_letter_with_nobody_claiming
                a_worker_that_always_dies_uses_up_the_attempts
                fewer_attempts_allowed_kill_ended_leases_with_nobody_claiming
                history_keeps_the_first_five_and_last_twenty
                history_text_is_cut_never_refused
                a_message_is_never_in_two_places_or_in_none
            }
            sends {
                sends_commit_with_the_ack_in_order
                a_refused_send_leaves_the_message_leased_and_publishes_nothing
                one_refused_settlement_does_not_spoil_the_batch
                sends_of_a_stale_ack_never_appear
                sends_to_the_own_topic_come_after
                sends_and_ack_are_there_after_a_crash
            }
            groups {
                a_claim_without_a_start_on_an_unknown_group_is_refused
                a_claim_with_a_start_declares_the_group
                earliest_sees_everything_stored
                latest_never_sees_what_came_before
                a_known_group_keeps_its_position_and_takes_the_policy
                groups_survive_a_reopen
                two_groups_each_get_every_message_of_one_copy
                an_ack_of_one_group_leaves_the_other_groups_alone
                the_work_queue_holds_nothing_back_until_declared
                a_topic_never_includes_its_subtopics
            }
            starts {
                a_time_starts_at_the_first_message_not_before_it
                an_id_starts_at_it_or_after_it
                a_start_counts_only_what_is_still_stored
                what_lies_before_a_first_start_stays_needed
                a_start_among_unreadable_records_counts_them
            }
            removal {
                a_group_is_added_once
                a_policy_is_replaced_where_it_is_as_it_was_seen
                a_removed_group_is_not_there_any_more
                claims_of_a_removed_group_are_void
                a_group_with_dead_letters_goes_only_by_force
                a_removed_group_settles_its_share
                a_late_group_removed_lets_go_what_it_had_not_read
                after_the_last_group_messages_wait_for_a_first_one
                who_waits_on_a_removed_group_is_told
            }
            retain {
                sweep_never_removes_what_a_group_needs
                sweep_never_removes_what_is_dead
                settled_messages_go_after_the_span
                settled_messages_beyond_the_count_go
                a_slow_group_holds_the_copy_for_all
                a_topic_without_groups_loses_nothing
                a_first_group_at_latest_leaves_the_earlier_ones_needed
                what_only_a_dead_letter_held_goes_with_it
                a_late_group_reads_what_is_retained
            }
            age {
                a_topic_keeps_what_is_settled_as_it_says
                what_grows_too_old_unread_is_a_gap
                what_a_group_has_begun_on_never_grows_too_old
                what_a_group_has_read_is_never_a_gap
                what_was_redriven_behind_the_position_is_no_gap
                gaps_add_up_until_they_are_acknowledged
                what_waits_for_a_first_group_grows_too_old
                what_a_late_group_had_to_read_behind_the_sweep_grows_too_old
            }
            counts {
                counts_follow_a_message_through_its_life
                counts_of_a_topic_are_sums_over_its_groups
                bytes_count_each_needed_message_once
                the_oldest_is_the_oldest_unsettled
                each_group_says_how_old_its_oldest_is
                counts_are_the_same_after_reopen
                topics_are_listed_by_name
                reading_counts_never_changes_them
            }
            admin {
                dead_letters_are_listed_by_group_and_sequence_in_pages
                one_dead_letter_is_shown_by_id
                redrive_gives_each_once_with_fresh_attempts
                redrive_of_one_group_leaves_the_others
                redrive_takes_only_what_the_filter_means
                redrive_keeps_the_history
                redriven_messages_are_live_after_a_crash
                purge_removes_for_good_and_says_how_many
                purge_never_touches_a_live_message
                unknown_topics_and_groups_are_named
                dead_letters_survive_a_reopen
            }
            deployments {
                what_is_deployed_is_kept
                a_deployment_undoes_nothing_that_was_not_seen
                an_earlier_revision_serves_again
                so_many_revisions_are_kept
                what_a_server_says_is_kept
            }
            deliveries {
                pending_lists_what_is_leased_and_what_waits_in_order
                pending_says_who_holds_it_and_since_when
                pending_keeps_ended_leases_and_names_what_is_unknown
                a_message_is_shown_wherever_it_lies
                a_message_that_is_not_stored_is_not_shown
                a_message_that_cannot_be_read_is_shown_without_it
            }
            cancel {
                a_message_cancelled_before_it_is_read_is_passed_by
                cancelled_messages_never_hide_what_lies_behind_them
                a_cancelled_claim_is_void
                a_waiting_message_is_cancelled_and_a_settled_one_is_not
                a_cancel_in_one_group_leaves_the_others_alone
                a_message_or_group_that_is_not_there_is_named
                a_waiting_message_is_made_due
                a_cancelled_message_is_let_go
                a_delayed_message_that_was_cancelled_and_removed_is_not_counted
            }
            probe {
                a_probe_takes_new_ones_then_the_least_tried
                a_probe_keeps_to_the_limits
            }
            copies {
                each_death_publishes_a_copy
                a_refused_copy_is_counted_and_the_dead_letter_stands
                copies_of_copies_come_to_an_end
                copies_come_after_what_was_sent_with_them
                an_unreadable_dead_letter_has_no_copy
                a_redriven_message_that_dies_again_is_copied_again
            }
            keys {
                messages_of_one_key_come_one_at_a_time
                a_failing_message_keeps_those_behind_it
                a_dead_message_lets_the_next_of_its_key_pass
                redriven_messages_of_one_key_come_one_at_a_time
                whoever_waits_is_woken_when_a_key_becomes_free
                a_parked_message_is_listed_and_cancelled
                a_busy_key_of_one_group_is_free_in_another
                a_long_queue_of_one_key_hides_nothing_behind_it
                beyond_so_many_parked_the_cursor_stops_and_says_so
                counts_and_claims_agree_over_many_keys
            }
            delay {
                a_delayed_message_is_never_given_before_its_time
                delayed_messages_are_counted_without_a_claim
                a_delay_that_is_over_wakes
                the_stream_shows_a_delayed_message_at_once
                a_delayed_message_is_made_due_or_cancelled
                a_delay_holds_its_key
                a_delay_is_log_time_and_bounded
            }
            dedup {
                a_known_dedup_id_is_answered_with_the_first_id
                a_batch_knows_its_own_dedup_ids
                a_dedup_id_is_known_for_its_window
                a_known_dedup_id_needs_no_room_and_a_refused_one_is_not_known
                a_known_send_is_dropped
                two_processes_know_each_others_dedup_ids
            }
            quota {
                a_full_topic_refuses_what_is_new
                a_quota_counts_what_is_needed
                a_cancelled_message_makes_room
                several_groups_share_a_quota
                what_waits_for_a_first_group_counts
                an_ack_is_judged_by_its_net_effect
                a_redrive_keeps_to_the_quota
                a_full_dead_letter_topic_misses_the_copy
                limits_below_what_is_there_are_refused
                limits_are_replaced_where_they_are_as_they_were_seen
                a_quota_holds_under_concurrency
            }
            purge {
                a_purged_topic_keeps_nothing_but_its_dead_letters
                claims_of_a_purged_topic_are_void
                ids_go_on_rising_after_a_purge
                dead_letters_are_purged_where_that_is_asked
                a_purge_forgets_dedup_ids
                a_purge_makes_room
                a_topic_without_groups_is_purged
                a_reader_of_a_purged_topic_is_told_of_a_gap
                a_purge_frees_keys_and_forgets_delays
                what_the_sweep_had_passed_by_is_purged
                a_large_topic_is_purged_under_load
                a_purge_of_one_process_holds_in_the_other
            }
            seek {
                a_group_moved_back_reads_again
                a_group_moved_forward_settles_what_it_skips
                claims_of_a_moved_group_are_void
                dead_letters_stay_dead_wherever_a_group_moves
                a_moved_group_forgets_what_waited
                a_moved_group_takes_over_what_it_reads
                a_dead_letter_that_a_group_was_moved_back_before_counts_once
                a_moved_group_is_given_what_was_redriven_while_it_reads_past
            }
            topics {
                a_topic_with_messages_goes_only_by_force
                a_removed_topic_is_not_there_any_more
                claims_of_a_removed_topic_are_void
                a_topic_made_again_is_another_one
                a_reader_of_a_removed_topic_is_told_of_a_gap
                a_removed_topic_is_not_declared
                a_topic_removed_by_one_process_is_gone_in_the_other
                a_topic_in_the_place_of_a_removed_one_is_another_in_every_process
                who_waits_on_a_removed_topic_is_told
                a_large_topic_is_removed_in_steps
            }
            transfer {
                idle_deliveries_go_to_another_worker
                named_deliveries_are_transferred
                what_has_no_attempt_left_is_not_transferred
                what_a_removed_worker_held_is_released
            }
            live {
                a_publish_wakes_every_group
                a_due_time_wakes
                a_lease_end_wakes
                a_release_wakes
                a_redrive_wakes
                room_under_the_in_flight_limit_wakes
                a_wake_up_before_the_wait_is_not_lost
                sends_of_an_ack_wake
                another_processs_publish_wakes
                another_processs_lease_end_wakes
            }
            stream {
                pages_go_on_without_miss_or_repeat
                latest_reads_only_what_comes
                a_time_reads_what_was_published_at_or_after_it
                an_id_is_a_place_whether_it_is_stored_or_not
                what_was_removed_unread_is_a_gap
                what_a_dead_letter_held_is_read_until_it_is_purged
                a_page_is_bounded_by_its_bytes
                a_message_that_cannot_be_read_keeps_its_place
                what_comes_wakes_a_reader
                what_another_process_publishes_wakes_a_reader
            }
            time {
                wall_steps_touch_neither_leases_nor_retries
                wall_steps_touch_neither_delays_nor_windows_nor_ages
                log_time_never_goes_back_over_a_reboot
                a_reboot_touches_neither_leases_nor_retries
                a_log_time_far_ahead_stays_there_and_goes_on
                time_goes_on_while_the_log_is_closed
                two_processes_agree_on_the_time
                two_processes_agree_on_the_time_of_a_new_boot
                two_processes_never_hold_the_same_message
                one_process_settles_what_the_other_claimed
                two_processes_agree_on_counts_and_groups
                a_dead_letter_of_one_process_is_redriven_by_the_other
            }
        }
    };
    (@list $open:expr; $($area:ident { $($case:ident)* })*) => {
        $(mod $area {
            #[expect(unused_imports, reason = "where the harness is made")]
            use super::*;
            $(#[tokio::test]
            async fn $case() {
                $crate::conformance::$area::$case(&$open.await).await;
            })*
        })*
    };
}
