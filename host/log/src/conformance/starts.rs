//! Law 13: where a new group starts, with counts exact from there on.

use super::Harness;
use super::kit::{ack, claim, counts, declare, ids, policy, publish, request, s, spec, state};
use crate::{ClaimRequest, DynLog, GroupSpec, Start};
use windlass_core::{MessageId, Sequence, Timestamp};

async fn start(log: &DynLog, name: &str, start: Start) {
    let wanted = GroupSpec { start, ..spec("t", name, policy(5, s(30))) };
    log.declare_groups(vec![wanted]).await.unwrap();
}

/// Each start's group has exactly these, by its counts and by its claims.
async fn reads(log: &DynLog, name: &str, expected: &[MessageId]) {
    assert_eq!(counts(log, "t", name).await, (expected.len() as u64, 0, 0, 0), "{name}");
    assert_eq!(ids(&claim(log, "t", name, 1_000).await), expected, "{name}");
}

/// Exactly at it, between two messages, before all, after all; at once and from a claim.
pub async fn a_time_starts_at_the_first_message_not_before_it(h: &dyn Harness) {
    let log = h.log();
    let mut published = Vec::new();
    for _ in 0..12 {
        published.extend(publish(&log, "t", 2).await);
        publish(&log, "u", 3).await;
        h.advance(s(10)).await;
    }
    let times: Vec<u64> = published.iter().map(|id| id.millis.0).collect();
    for (i, at) in times.iter().flat_map(|at| [at - 1, *at, at + 1]).chain([0]).enumerate() {
        let expected: Vec<_> = published.iter().filter(|id| id.millis.0 >= at).copied().collect();
        let name = format!("g{i}");
        start(&log, &name, Start::Time(Timestamp(at))).await;
        reads(&log, &name, &expected).await;
    }
    let from = Some(Start::Time(published[20].millis));
    let claims =
        log.claim(ClaimRequest { start: from, ..request("t", "claimed", 99) }).await.unwrap();
    assert_eq!(ids(&claims), published[20..]);
    let later = Start::Time(Timestamp(log.now().0 + 1));
    start(&log, "later", later).await;
    reads(&log, "later", &[]).await;
    let new = publish(&log, "t", 1).await;
    reads(&log, "later", &new).await;
}

/// Itself, or behind it; of another topic its place decides, and one not there yet hides nothing.
pub async fn an_id_starts_at_it_or_after_it(h: &dyn Harness) {
    let log = h.log();
    let mut published = publish(&log, "t", 3).await;
    let of_other = publish(&log, "u", 1).await[0];
    published.extend(publish(&log, "t", 2).await);
    start(&log, "at", Start::At(published[1])).await;
    reads(&log, "at", &published[1..]).await;
    start(&log, "after", Start::After(published[1])).await;
    reads(&log, "after", &published[2..]).await;
    start(&log, "first", Start::At(published[0])).await;
    reads(&log, "first", &published).await;
    for (name, from) in [("at u", Start::At(of_other)), ("after u", Start::After(of_other))] {
        start(&log, name, from).await;
        reads(&log, name, &published[3..]).await;
    }
    let millis = Timestamp(0);
    let wrong_time = MessageId { millis, ..published[4] };
    start(&log, "wrong time", Start::At(wrong_time)).await;
    reads(&log, "wrong time", &published[4..]).await;
    let never = MessageId { millis, sequence: Sequence(published[4].sequence.0 + 100) };
    start(&log, "never", Start::After(never)).await;
    start(&log, "zero", Start::At(MessageId { millis, sequence: Sequence(0) })).await;
    reads(&log, "zero", &published).await;
    let new = publish(&log, "t", 1).await;
    reads(&log, "never", &new).await;
}

/// Behind a sweep, among what it passed by, and of one that is no longer stored.
pub async fn a_start_counts_only_what_is_still_stored(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 9).await;
    for (i, claim) in claim(&log, "t", "g", 7).await.iter().enumerate() {
        if i % 3 == 1 {
            super::kit::settle(&log, claim, super::kit::retried(s(600))).await;
        } else {
            ack(&log, claim).await;
        }
    }
    log.set_retain(s(0), 0).await.unwrap();
    log.sweep().await.unwrap();
    log.sweep().await.unwrap();
    let left = [1, 4, 7, 8].map(|i| published[i]);
    for (i, id) in published.iter().enumerate() {
        let name = format!("at {i}");
        start(&log, &name, Start::At(*id)).await;
        let expected: Vec<_> = left.into_iter().filter(|left| left >= id).collect();
        reads(&log, &name, &expected).await;
    }
    let log = h.reopen().await;
    assert_eq!(state(&log, "t").await.bytes, 12);
}

/// What no group has claimed before a start waits on, exactly that.
pub async fn what_lies_before_a_first_start_stays_needed(h: &dyn Harness) {
    let log = h.log();
    let mut published = Vec::new();
    for _ in 0..10 {
        published.extend(publish(&log, "t", 1).await);
        publish(&log, "u", 1).await;
    }
    start(&log, "middle", Start::At(published[6])).await;
    for claim in claim(&log, "t", "middle", 99).await {
        ack(&log, &claim).await;
    }
    log.set_retain(s(0), 0).await.unwrap();
    log.sweep().await.unwrap();
    log.sweep().await.unwrap();
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.retained, found.counts.ready), (18, 0, 0));
    assert_eq!(found.oldest, Some(published[0].millis));
    let log = h.reopen().await;
    start(&log, "early", Start::After(published[1])).await;
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.counts.ready), (18, 4));
    reads(&log, "early", &published[2..6]).await;
    start(&log, "all", Start::Earliest).await;
    reads(&log, "all", &published[..6]).await;
}

/// One that cannot be read counts like any other.
pub async fn a_start_among_unreadable_records_counts_them(h: &dyn Harness) {
    let log = h.log();
    let published = publish(&log, "t", 6).await;
    for id in &published[3..5] {
        if !h.corrupt(*id).await {
            return super::skip("a_start_among_unreadable_records_counts_them", "no records");
        }
    }
    for (name, from) in [("a", 2), ("b", 3), ("c", 4), ("d", 5)] {
        start(&log, name, Start::At(published[from])).await;
        assert_eq!(counts(&log, "t", name).await.0, 6 - from as u64, "{name}");
    }
    h.corrupt(published[5]).await;
    start(&log, "e", Start::At(published[4])).await;
    assert_eq!(counts(&log, "t", "e").await.0, 2);
}
