//! What a transaction has changed that somebody may wait for.

use super::rows::TopicId;
use std::collections::BTreeSet;
use windlass_core::{Group, Topic};

/// What the transaction under way has changed, for waking.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub(super) topics: BTreeSet<TopicId>,
    /// Groups that were deleted.
    pub(super) left: Vec<(Topic, Group)>,
    /// Groups whose claimers are to come again.
    pub(super) again: BTreeSet<u64>,
    /// How many messages were passed into rows of their own.
    pub(super) set_aside: usize,
}
