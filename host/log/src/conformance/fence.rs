//! Law 7: only the current token acts, and tokens never repeat.

use super::Harness;
use super::kit::{
    ack, acked, claim, claim_one, counts, declare, extend, let_end, policy, publish, retried, s,
    settle, settlement, topic, until_counts,
};
use crate::DeadLetterFilter;
use crate::{Claim, Extended, Settled};
use std::collections::BTreeSet;
use windlass_core::{Disposition, GroupPolicy, Sequence, Token};

/// The first holder's claim, and the second's after the first one's lease ended.
async fn claimed_twice(h: &dyn Harness) -> (Claim, Claim) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    let first = claim_one(&log, "t", "g").await;
    let_end(h, s(30)).await;
    let second = claim_one(&log, "t", "g").await;
    (first, second)
}

/// W2: whatever it asks.
pub async fn a_late_settle_by_the_first_holder_changes_nothing(h: &dyn Harness) {
    let (first, second) = claimed_twice(h).await;
    let log = h.log();
    for disposition in [acked(), retried(s(1)), Disposition::DeadLetter, Disposition::Release] {
        assert_eq!(settle(&log, &first, disposition).await, Settled::LeaseLost);
        assert_eq!(counts(&log, "t", "g").await, (0, 0, 1, 0));
    }
    ack(&log, &second).await;
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 0));
}

/// The second holder's lease ends when it would have.
pub async fn a_late_extension_by_the_first_holder_is_lost(h: &dyn Harness) {
    let (first, second) = claimed_twice(h).await;
    let log = h.log();
    assert_eq!(extend(&log, &first, s(1_000)).await, Extended::Lost);
    let_end(h, s(30)).await;
    assert_eq!(claim_one(&log, "t", "g").await.attempt, 3);
    assert_eq!(extend(&log, &second, s(1_000)).await, Extended::Lost);
}

/// From now, later or sooner.
pub async fn an_extension_moves_the_lease(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    let held = claim_one(&log, "t", "g").await;
    h.advance(s(20)).await;
    let Extended::Held(until) = extend(&log, &held, s(30)).await else { panic!("held") };
    assert!(until >= held.lease_until.after(s(20)));
    h.advance(s(20)).await;
    assert!(claim(&log, "t", "g", 1).await.is_empty(), "the first end does not count any more");
    assert!(matches!(extend(&log, &held, s(2)).await, Extended::Held(_)));
    h.advance(s(2)).await;
    assert_eq!(claim_one(&log, "t", "g").await.attempt, 2);
}

/// Nobody else wanted it meanwhile, so the work counts.
pub async fn a_token_stays_current_until_somebody_acts_on_the_lease_end(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 2).await;
    let claims = claim(&log, "t", "g", 2).await;
    let_end(h, s(60)).await;
    ack(&log, &claims[0]).await;
    assert!(matches!(extend(&log, &claims[1], s(30)).await, Extended::Held(_)));
    assert!(claim(&log, "t", "g", 1).await.is_empty());
    ack(&log, &claims[1]).await;
}

/// a retried ack is safe, after a reopen too.
pub async fn settling_twice_says_already_settled(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", GroupPolicy::default()).await;
    publish(&log, "t", 2).await;
    let claims = claim(&log, "t", "g", 2).await;
    ack(&log, &claims[1]).await;
    assert_eq!(settle(&log, &claims[1], acked()).await, Settled::AlreadySettled);
    let log = h.reopen().await;
    assert_eq!(settle(&log, &claims[1], acked()).await, Settled::AlreadySettled);
    assert_eq!(settle(&log, &claims[1], retried(s(0))).await, Settled::AlreadySettled);
    assert_eq!(extend(&log, &claims[1], s(9)).await, Extended::Lost);
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 1, 0));
}

/// In one batch: the first applies, the second finds what the first left.
pub async fn two_settlements_of_one_token_apply_once(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 4).await;
    let claims = claim(&log, "t", "g", 4).await;
    let firsts = [acked(), Disposition::DeadLetter, retried(s(5)), Disposition::Release];
    let batch = claims
        .iter()
        .zip(firsts)
        .flat_map(|(claim, first)| {
            [settlement(claim.token, first), settlement(claim.token, acked())]
        })
        .collect();
    let answers: Vec<_> = log.settle(batch).await.into_iter().map(Result::unwrap).collect();
    let expected = [
        [Settled::Applied, Settled::AlreadySettled],
        [Settled::Applied, Settled::AlreadySettled],
        [Settled::Applied, Settled::LeaseLost],
        [Settled::Applied, Settled::LeaseLost],
    ];
    assert_eq!(answers, expected.concat());
    assert_eq!(counts(&log, "t", "g").await, (1, 1, 0, 1));
}

/// It waits, so it is not settled; the token is void.
pub async fn a_released_or_retried_token_is_lost(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    for disposition in [Disposition::Release, retried(s(0)), retried(s(9))] {
        let held = claim_one(&log, "t", "g").await;
        assert_eq!(settle(&log, &held, disposition).await, Settled::Applied);
        assert_eq!(settle(&log, &held, acked()).await, Settled::LeaseLost);
        assert_eq!(extend(&log, &held, s(9)).await, Extended::Lost);
    }
    assert_eq!(counts(&log, "t", "g").await, (0, 1, 0, 0));
}

/// Also after it was claimed and settled again.
pub async fn a_redriven_token_is_lost(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    let first = claim_one(&log, "t", "g").await;
    settle(&log, &first, Disposition::DeadLetter).await;
    log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    assert_eq!(settle(&log, &first, acked()).await, Settled::LeaseLost);
    let second = claim_one(&log, "t", "g").await;
    assert_ne!(first.token, second.token);
    assert_eq!((first.attempt, second.attempt), (1, 1));
    assert_eq!(settle(&log, &first, acked()).await, Settled::LeaseLost);
    ack(&log, &second).await;
    assert_eq!(settle(&log, &first, acked()).await, Settled::AlreadySettled);
}

/// Acked and dead both count as settled.
pub async fn a_settle_after_death_says_already_settled(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(1, s(30))).await;
    publish(&log, "t", 1).await;
    let held = claim_one(&log, "t", "g").await;
    let_end(h, s(30)).await;
    until_counts(&log, "t", "g", (0, 0, 0, 1)).await;
    assert_eq!(settle(&log, &held, acked()).await, Settled::AlreadySettled);
    assert_eq!(extend(&log, &held, s(30)).await, Extended::Lost);
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 1));
}

/// No group, no message, another's nonce: nothing happens.
pub async fn a_made_up_token_is_lost(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", GroupPolicy::default()).await;
    publish(&log, "t", 2).await;
    let held = claim_one(&log, "t", "g").await;
    let good = held.token;
    let not_read_yet = Sequence(good.sequence.0 + 1);
    for token in [
        Token { group: 0, ..good },
        Token { group: u64::MAX, ..good },
        Token { nonce: good.nonce.wrapping_add(1), ..good },
        Token { serial: good.serial + 1, ..good },
        Token { sequence: not_read_yet, ..good },
        Token { sequence: Sequence(u64::MAX), ..good },
    ] {
        let answers = log.settle(vec![settlement(token, acked())]).await;
        assert!(matches!(answers[0], Ok(Settled::LeaseLost)), "{token:?} {answers:?}");
    }
    assert_eq!(counts(&log, "t", "g").await, (1, 0, 1, 0));
    ack(&log, &held).await;
}

/// Not over claims, redrives, reopenings.
pub async fn tokens_never_repeat_across_reopen(h: &dyn Harness) {
    declare(&h.log(), "t", "g", policy(100, s(0))).await;
    publish(&h.log(), "t", 3).await;
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        let log = h.crash().await;
        for _ in 0..4 {
            for claim in claim(&log, "t", "g", 3).await {
                assert!(seen.insert(claim.token.to_string()), "{} again", claim.token);
            }
        }
    }
    assert_eq!(seen.len(), 48);
}

/// Each is judged by itself.
pub async fn one_stale_settlement_does_not_spoil_the_batch(h: &dyn Harness) {
    let (first, second) = claimed_twice(h).await;
    let log = h.log();
    publish(&log, "t", 1).await;
    let third = claim_one(&log, "t", "g").await;
    let batch = [&first, &third, &first, &second].map(|claim| settlement(claim.token, acked()));
    let answers: Vec<_> = log.settle(batch.into()).await.into_iter().map(Result::unwrap).collect();
    let (applied, lost) = (Settled::Applied, Settled::LeaseLost);
    assert_eq!(answers, [lost, applied, lost, applied]);
}

/// The holder outlives a restart of the log (an outside client).
pub async fn a_token_outlives_a_reopen(h: &dyn Harness) {
    declare(&h.log(), "t", "g", GroupPolicy::default()).await;
    publish(&h.log(), "t", 1).await;
    let held = claim_one(&h.log(), "t", "g").await;
    let log = h.reopen().await;
    assert!(claim(&log, "t", "g", 1).await.is_empty());
    ack(&log, &held).await;
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 0));
}
