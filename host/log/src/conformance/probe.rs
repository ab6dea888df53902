//! Law 26: a paused consumer's probe takes what has been tried least.

use super::Harness;
use super::kit::{
    claim, claim_one, counts, declare, let_end, policy, publish, request, retried, s, settle,
};
use crate::{Claim, ClaimRequest, DynLog, Prefer};
use std::num::NonZeroU32;
use windlass_core::{GroupPolicy, MessageId};

async fn probe(log: &DynLog, max: usize) -> Vec<Claim> {
    let request = ClaimRequest { prefer: Prefer::Untried, ..request("t", "g", max) };
    log.claim(request).await.unwrap()
}

/// New ones, then the fewest attempts, then by due time; one by one and in a batch.
pub async fn a_probe_takes_new_ones_then_the_least_tried(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(9, s(300))).await;
    let published = publish(&log, "t", 4).await;
    // 0 fails three times, 1 twice, 2 and 3 once; 3 is due before 2.
    for (i, times) in [(0, 3), (1, 2)] {
        for n in 0..times {
            let held = claim_one(&log, "t", "g").await;
            assert_eq!(held.message.id, published[i]);
            let delay = if n + 1 == times { s(2) } else { s(0) };
            settle(&log, &held, retried(delay)).await;
        }
    }
    let held = claim(&log, "t", "g", 2).await;
    settle(&log, &held[0], retried(s(9))).await;
    settle(&log, &held[1], retried(s(8))).await;
    h.advance(s(10)).await;
    let new = publish(&log, "t", 1).await;
    let expected = [new[0], published[3], published[2], published[1], published[0]];
    for id in expected {
        let found = probe(&log, 1).await.remove(0);
        assert_eq!(found.message.id, id);
    }
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 5, 0));
    assert!(probe(&log, 9).await.is_empty());
    h.advance(s(300)).await;
    let ids: Vec<MessageId> = probe(&log, 9).await.iter().map(|one| one.message.id).collect();
    assert_eq!(ids.len(), 5, "ended leases come too");
}

/// In a batch, within the limits; what is not due stays; an ended lease comes last.
pub async fn a_probe_keeps_to_the_limits(h: &dyn Harness) {
    let log = h.log();
    let limit = NonZeroU32::new(3).unwrap();
    declare(&log, "t", "g", GroupPolicy { in_flight_max: limit, ..policy(3, s(30)) }).await;
    let published = publish(&log, "t", 3).await;
    let held = claim(&log, "t", "g", 3).await;
    settle(&log, &held[0], retried(s(0))).await;
    settle(&log, &held[2], retried(s(600))).await;
    let_end(h, s(30)).await;
    let new = publish(&log, "t", 1).await;
    let found: Vec<_> = probe(&log, 9).await.iter().map(|one| one.message.id).collect();
    assert_eq!(found, [new[0], published[0], published[1]]);
    assert!(probe(&log, 9).await.is_empty());
    assert_eq!(counts(&log, "t", "g").await, (0, 1, 3, 0));
}
