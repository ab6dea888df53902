//! What was measured, as it is printed.

use serde::Serialize;
use std::collections::BTreeMap;

/// Two percentiles, in milliseconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Spread {
    pub p50: Option<f64>,
    pub p99: Option<f64>,
}

/// The bare references: messages a second.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Bare {
    /// Multi-row inserts, 64 a commit.
    pub insert_64: Option<f64>,
    /// Claiming 256 rows in one commit and deleting them in the next.
    pub claim_delete_256: Option<f64>,
    /// Inserting, and claiming and deleting, one after the other.
    pub row_queue_pipeline: Option<f64>,
    /// Instantiating the component and calling it.
    pub fresh: Option<f64>,
}

/// Ours by the reference's: the median over the rounds.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Ratio {
    pub publish: Option<f64>,
    pub publish_claim_ack: Option<f64>,
    pub end_to_end: Option<f64>,
    pub end_to_end_fresh: Option<f64>,
    pub fresh: Option<f64>,
}

/// How many times as long publishers take where the topic has ten groups, by where it has one.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Crowded {
    /// While nobody claims.
    pub publish: Option<f64>,
    /// While each group claims and acks all of it: ten times the deliveries.
    pub beside_claims: Option<f64>,
}

/// All of it. What is not built yet is nothing, `null` in JSON.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Report {
    /// Overwriting 4 KiB and syncing, before, between and after the rest.
    pub fsync_ms: Spread,
    pub publish_per_s: Option<f64>,
    /// How long a publisher waited for its answer.
    pub publish_ms: Spread,
    pub publish_claim_ack_per_s: Option<f64>,
    /// With warm instances.
    pub end_to_end_per_s: Option<f64>,
    /// The same with fresh ones.
    pub end_to_end_fresh_per_s: Option<f64>,
    pub fresh_per_s: Option<f64>,
    pub idle_latency_ms: Spread,
    pub ten_groups_cost: Crowded,
    /// Publishes of another process, one at a time, while this one publishes as fast as it can.
    pub lone_publish_ms: Spread,
    /// A claim of 64, by what lies in the log.
    pub claim_ms: BTreeMap<String, Option<f64>>,
    pub bare: Bare,
    pub ratio: Ratio,
    /// Whether the disk is as fast as the targets ask for.
    pub binding: bool,
    /// Rounds that the medians are of.
    pub rounds: usize,
    pub messages: usize,
    pub payload: usize,
    pub groups: usize,
    pub keys: usize,
}
