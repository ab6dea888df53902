//! The suite that every backend runs: one named case for each thing the law promises.
//!
//! A backend writes a [`Harness`] and lists the cases with [`conformance!`](crate::conformance!).
//! What a backend cannot show (no second process, no clock to move) a case skips, saying so. Cases
//! wait for signals, or look again; they never sleep. A case's comment names the rows of the list
//! of seed behaviours (`A-`) and faults (`W`) that it covers:
//!
//! | row | cases |
//! |---|---|
//! | A-01 | `publish_is_there_after_reopen`, `a_claimed_message_comes_again_after_a_crash`, `lease_end_makes_it_claimable_with_a_higher_attempt` |
//! | A-02 | `concurrent_publishers_lose_nothing`, `a_dropped_publish_is_never_half_stored` |
//! | A-03 | `claim_gives_the_oldest_first`, `claim_takes_no_more_than_asked`, `two_claimers_never_hold_the_same_message` |
//! | A-04 | `a_leased_message_is_not_given_again`, `used_up_attempts_are_not_charged_to_the_batch` |
//! | A-05 | `an_acked_message_is_never_given_again`, `retry_keeps_the_attempt_count_over_reopen` |
//! | A-06 | `two_groups_each_get_every_message_of_one_copy`, `the_work_queue_holds_nothing_back_until_declared` |
//! | A-07 | `a_claim_with_a_start_declares_the_group`, `latest_never_sees_what_came_before`, `a_known_group_keeps_its_position_and_takes_the_policy` |
//! | A-08 | `a_claim_without_a_start_on_an_unknown_group_is_refused` |
//! | A-09 | `counts_follow_a_message_through_its_life`, `a_topic_never_includes_its_subtopics` |
//! | A-10 | `purge_removes_for_good_and_says_how_many`, `redrive_gives_each_once_with_fresh_attempts`, `redriven_messages_are_live_after_a_crash` |
//! | A-11 | `sweep_never_removes_what_a_group_needs`, `settled_messages_go_after_the_span`, `settled_messages_beyond_the_count_go` |
//! | A-12 | `ended_leases_come_first_then_due_ones_then_new_ones` (the cost is measured elsewhere) |
//! | A-13 | `an_ack_of_one_group_leaves_the_other_groups_alone`, `settling_twice_says_already_settled` |
//! | A-14 | the memory log is made of such functions; `model` compares backends with it |
//! | A-15 | `ids_rise_in_publish_order_and_as_strings`, `ids_never_fall_across_reopen`, `ids_never_fall_when_the_wall_clock_steps_back`, `two_processes_never_make_the_same_id` |
//! | A-16 | `a_topic_never_includes_its_subtopics` |
//! | A-17 | `opening::a_newer_schema_is_refused_and_left_alone`, `record::tests` |
//! | A-18 | `opening::each_folder_is_a_log_of_its_own` |
//! | A-20 | `a_topic_without_groups_loses_nothing` |
//! | A-21 | the runtime's `guests` and the whole system's `law26` tests |
//! | A-22 | `a_zero_lease_is_claimable_at_once` |
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a suite: what fails is a panic, with its place"
)]

pub mod admin;
pub mod age;
pub mod cancel;
mod cases;
pub mod claim;
pub mod copies;
pub mod counts;
pub mod dedup;
pub mod delay;
pub mod deliveries;
pub mod fence;
pub mod groups;
pub mod keys;
pub mod kit;
pub mod live;
pub mod probe;
pub mod publish;
pub mod purge;
pub mod quota;
pub mod removal;
pub mod retain;
pub mod seek;
pub mod sends;
pub mod settle;
pub mod starts;
pub mod stream;
pub mod time;
pub mod topics;
pub mod transfer;

use crate::DynLog;
use crate::clock::TestClock;
use crate::memory::{MemoryLog, MemoryOptions};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::MessageId;

/// One backend under test. Each case opens its own, empty.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The log as it is open now.
    fn log(&self) -> DynLog;

    /// Closes the log and opens it again, as by a restart. A log that is not durable stays as it is.
    async fn reopen(&self) -> DynLog;

    /// Opens the log again without closing it, as after a kill.
    async fn crash(&self) -> DynLog {
        self.reopen().await
    }

    /// A second opening of the same log, as by another process.
    async fn second_process(&self) -> Option<DynLog> {
        None
    }

    /// The clock, where it can be moved.
    fn clock(&self) -> Option<&TestClock>;

    /// Lets time pass: at once where the clock can be moved, else by waiting.
    async fn advance(&self, span: Duration) {
        if let Some(clock) = self.clock() {
            clock.advance(span);
        } else {
            tokio::time::sleep(span).await;
        }
    }

    /// Makes the stored record of a message unreadable; whether the backend has such a thing.
    async fn corrupt(&self, _id: MessageId) -> bool {
        false
    }
}

/// Says that a case does not apply to this backend.
#[expect(clippy::print_stderr, reason = "a skip is said aloud")]
pub fn skip(case: &str, why: &str) {
    eprintln!("SKIPPED {case}: {why}");
}

/// The memory log's harness.
#[derive(Debug)]
pub struct MemoryHarness {
    log: Arc<MemoryLog>,
    clock: Arc<TestClock>,
}

impl MemoryHarness {
    /// An empty memory log on a clock that stands still.
    #[must_use]
    pub fn open() -> Self {
        Self::with_options(MemoryOptions::default())
    }

    /// One that does by itself what `options` say.
    #[must_use]
    pub fn with_options(options: MemoryOptions) -> Self {
        let clock = Arc::new(TestClock::default());
        Self { log: MemoryLog::with_options(Arc::<TestClock>::clone(&clock), options), clock }
    }
}

#[async_trait]
impl Harness for MemoryHarness {
    fn log(&self) -> DynLog {
        Arc::<MemoryLog>::clone(&self.log)
    }

    async fn reopen(&self) -> DynLog {
        self.log()
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }
}
