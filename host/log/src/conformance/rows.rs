//! The rows of the list of seed behaviours (`A-`, `B-`) and of the faults found in them (`W`,
//! `B-w`), each with the tests that show it: that a behaviour is there, that a fault is not.
//!
//! A bare name is a case of this suite; `file::name` is a test in a file of that name anywhere in the
//! repository. `tests/log/rows.rs` reads this table and looks for each.
//!
//! | row | shown by |
//! |---|---|
//! | A-01 | `publish_is_there_after_reopen`, `a_claimed_message_comes_again_after_a_crash`, `lease_end_makes_it_claimable_with_a_higher_attempt` |
//! | A-02 | `concurrent_publishers_lose_nothing`, `a_dropped_publish_is_never_half_stored` |
//! | A-03 | `claim_gives_the_oldest_first`, `claim_takes_no_more_than_asked`, `two_claimers_never_hold_the_same_message` |
//! | A-04 | `a_leased_message_is_not_given_again`, `used_up_attempts_are_not_charged_to_the_batch`, `a_claim_carries_what_a_worker_needs` |
//! | A-05 | `an_acked_message_is_never_given_again`, `retry_keeps_the_attempt_count_over_reopen` |
//! | A-06 | `two_groups_each_get_every_message_of_one_copy`, `the_work_queue_holds_nothing_back_until_declared` |
//! | A-07 | `a_claim_with_a_start_declares_the_group`, `earliest_sees_everything_stored`, `latest_never_sees_what_came_before`, `a_known_group_keeps_its_position_and_takes_the_policy` |
//! | A-08 | `a_claim_without_a_start_on_an_unknown_group_is_refused` |
//! | A-09 | `counts_follow_a_message_through_its_life`, `a_topic_never_includes_its_subtopics` |
//! | A-10 | `purge_removes_for_good_and_says_how_many`, `redrive_gives_each_once_with_fresh_attempts`, `redriven_messages_are_live_after_a_crash` |
//! | A-11 | `sweep_never_removes_what_a_group_needs`, `settled_messages_go_after_the_span`, `settled_messages_beyond_the_count_go`, `what_grows_too_old_unread_is_a_gap` |
//! | A-12 | `ended_leases_come_first_then_due_ones_then_new_ones`, `claim::no_statement_of_a_claim_scans_or_sorts` |
//! | A-13 | `an_ack_of_one_group_leaves_the_other_groups_alone`, `settling_twice_says_already_settled`, `claims_of_a_removed_group_are_void` |
//! | A-14 | `model::sqlite_and_memory_agree`, `settle::law_26_as_a_table`, `policy::waits_double_up_to_the_maximum_and_jitter_only_lengthens` |
//! | A-15 | `ids_rise_in_publish_order_and_as_strings`, `ids_never_fall_across_reopen`, `ids_never_fall_when_the_wall_clock_steps_back`, `two_processes_never_make_the_same_id` |
//! | A-16 | `a_topic_never_includes_its_subtopics`, `a_removed_topic_is_not_there_any_more` |
//! | A-17 | `opening::a_newer_schema_is_refused_and_left_alone` |
//! | A-18 | `opening::each_folder_is_a_log_of_its_own` |
//! | A-19 | `pages_go_on_without_miss_or_repeat`, `an_id_is_a_place_whether_it_is_stored_or_not`, `what_was_removed_unread_is_a_gap`, `a_page_is_bounded_by_its_bytes`, `what_comes_wakes_a_reader` |
//! | A-20 | `a_topic_without_groups_loses_nothing` |
//! | A-21 | `law26::each_way_to_end_has_its_disposition_its_name_and_its_text` |
//! | A-22 | `a_zero_lease_is_claimable_at_once` |
//! | B-01 | `a_claim_with_a_start_declares_the_group`, `two_claimers_never_hold_the_same_message`, `the_in_flight_limit_is_never_passed` |
//! | B-02 | `a_group_is_added_once`, `a_claim_without_a_start_on_an_unknown_group_is_refused`, `an_id_starts_at_it_or_after_it`, `a_removed_group_is_not_there_any_more` |
//! | B-03 | `pending_says_who_holds_it_and_since_when`, `pending_lists_what_is_leased_and_what_waits_in_order` |
//! | B-04 | `ended_leases_come_first_then_due_ones_then_new_ones`, `claim_takes_no_more_than_asked`, `a_late_settle_by_the_first_holder_changes_nothing` |
//! | B-05 | `acks_may_come_out_of_order`, `one_stale_settlement_does_not_spoil_the_batch` |
//! | B-06 | `pending_lists_what_is_leased_and_what_waits_in_order`, `pending_says_who_holds_it_and_since_when` |
//! | B-07 | `idle_deliveries_go_to_another_worker`, `named_deliveries_are_transferred`, `what_has_no_attempt_left_is_not_transferred` |
//! | B-08 | `what_grows_too_old_unread_is_a_gap`, `gaps_add_up_until_they_are_acknowledged`, `what_a_group_has_read_is_never_a_gap` |
//! | W1 | `two_groups_each_get_every_message_of_one_copy`, `bytes_count_each_needed_message_once`, `the_work_queue_holds_nothing_back_until_declared` |
//! | W2 | `a_late_settle_by_the_first_holder_changes_nothing`, `a_late_extension_by_the_first_holder_is_lost`, `a_made_up_token_is_lost` |
//! | W3 | `a_message_is_never_in_two_places_or_in_none`, `two_settlements_of_one_token_apply_once`, `one_process_settles_what_the_other_claimed` |
//! | W4 | `an_unreadable_record_never_costs_the_batch` |
//! | W5 | `claim::no_statement_of_a_claim_scans_or_sorts`, `keys::no_statement_of_keys_scans_or_sorts`, `a_long_queue_of_one_key_hides_nothing_behind_it` |
//! | W6 | `a_large_topic_is_purged_under_load`, `a_large_topic_is_removed_in_steps` |
//! | W7 | `a_dropped_publish_is_never_half_stored`, `one_bad_message_stores_none_of_its_batch`, `kills::whatever_moment_the_process_dies_nothing_is_lost_repeated_or_doubled` |
//! | W8 | `purge_never_touches_a_live_message`, `redriven_messages_are_live_after_a_crash`, `a_message_is_never_in_two_places_or_in_none` |
//! | W9 | `a_publish_wakes_every_group`, `another_processs_publish_wakes`, `a_wake_up_before_the_wait_is_not_lost` |
//! | W10 | `two_processes_never_make_the_same_id`, `ids_never_fall_when_the_wall_clock_steps_back`, `processes::two_processes_share_the_work_and_no_message_goes_to_both` |
//! | W11 | `ids_never_fall_across_reopen`, `two_processes_never_make_the_same_id`, `a_topic_made_again_is_another_one` |
//! | W12 | `a_topic_without_groups_loses_nothing`, `two_processes_agree_on_counts_and_groups` |
//! | W13 | `name::topics_follow_the_rules`, `name::groups_may_be_empty_but_have_no_slash` |
//! | W14 | `earliest_sees_everything_stored`, `a_group_is_added_once`, `a_removed_group_settles_its_share`, `a_group_moved_back_reads_again` |
//! | W15 | `an_unreadable_record_never_costs_the_batch` |
//! | W16 | `sweep_never_removes_what_is_dead`, `dead_letters_are_listed_by_group_and_sequence_in_pages`, `redrive_of_one_group_leaves_the_others`, `what_only_a_dead_letter_held_goes_with_it` |
//! | W17 | `what_grows_too_old_unread_is_a_gap`, `what_a_group_has_begun_on_never_grows_too_old`, `a_topic_without_groups_loses_nothing`, `wall_steps_touch_neither_leases_nor_retries` |
//! | W18 | `the_in_flight_limit_is_never_passed`, `waiting_retries_do_not_count_as_in_flight` |
//! | W19 | `the_last_lease_end_is_a_dead_letter_with_nobody_claiming` |
//! | W20 | `wall_steps_touch_neither_leases_nor_retries`, `a_huge_lease_does_not_overflow`, `log_time_never_goes_back_over_a_reboot` |
//! | W21 | `an_extension_moves_the_lease`, `a_retry_is_never_given_before_its_time`, `a_delayed_message_is_never_given_before_its_time`, `a_known_dedup_id_is_answered_with_the_first_id`, `a_full_topic_refuses_what_is_new`, `too_large_a_message_stores_nothing`, `every_part_of_a_message_survives`, `messages_of_one_key_come_one_at_a_time`, `policy::waits_double_up_to_the_maximum_and_jitter_only_lengthens` |
//! | W22 | `pages_go_on_without_miss_or_repeat`, `what_was_removed_unread_is_a_gap`, `what_another_process_publishes_wakes_a_reader` |
//! | W23 | `settled_messages_go_after_the_span`, `what_only_a_dead_letter_held_goes_with_it`, `a_late_group_removed_lets_go_what_it_had_not_read` |
//! | W24 | `counts_follow_a_message_through_its_life`, `counts_of_a_topic_are_sums_over_its_groups`, `each_group_says_how_old_its_oldest_is` |
//! | B-w1 | `lease_end_makes_it_claimable_with_a_higher_attempt`, `a_worker_that_always_dies_uses_up_the_attempts`, `pending_says_who_holds_it_and_since_when` |
//! | B-w2 | `what_a_group_has_begun_on_never_grows_too_old`, `a_message_is_never_in_two_places_or_in_none`, `an_unreadable_record_never_costs_the_batch` |
//! | B-w3 | `a_worker_that_always_dies_uses_up_the_attempts` |
//! | B-w4 | `ended_leases_come_by_their_end`, `due_ones_come_by_due_time`, `claim_gives_the_oldest_first` |
//! | B-w5 | `claim_takes_no_more_than_asked` |
//! | B-w6 | `a_made_up_token_is_lost`, `acks_may_come_out_of_order`, `an_ack_of_one_group_leaves_the_other_groups_alone` |
//! | B-w7 | `what_a_group_has_read_is_never_a_gap`, `gaps_add_up_until_they_are_acknowledged` |
//! | B-w8 | `named_deliveries_are_transferred`, `idle_deliveries_go_to_another_worker` |
//! | B-w9 | `a_claimed_message_comes_again_after_a_crash`, `a_token_outlives_a_reopen`, `time_goes_on_while_the_log_is_closed` |
//! | B-w10 | `pending_lists_what_is_leased_and_what_waits_in_order`, `a_removed_group_settles_its_share`, `what_a_removed_worker_held_is_released`, `counts_follow_a_message_through_its_life` |
