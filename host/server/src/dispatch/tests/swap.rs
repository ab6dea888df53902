//! Law 25: other code or configuration takes the next claim, and what runs finishes.

use super::stage::{Script, Stage, failed_after, ok};
use super::*;
use crate::event::Fate;
use windlass_core::Outcome;
use windlass_log::LogAdmin as _;

const S: fn(u64) -> Duration = Duration::from_secs;

/// Each is handled once, by one revision; both keep to the maximum together.
#[tokio::test(start_paused = true)]
async fn another_revision_takes_the_next_claim_while_the_old_one_finishes() {
    let stage = Stage::new();
    stage.publish("t", 100).await;
    let slow = |span: u64| {
        Script::new(move |_| {
            failed_after(Duration::from_millis(span), Outcome::Done { sends: vec![] })
        })
    };
    let run = stage.run(slow(200));
    for span in [201, 202, 203, 204, 205] {
        tokio::time::sleep(Duration::from_millis(300)).await;
        run.swap(slow(span), 8);
    }
    run.until_settled("t").await;
    assert_eq!(stage.log.leased_most(), 8, "both revisions together");
    let delivered = run.end().await;
    assert_eq!(delivered.len(), 100);
    assert!(delivered.iter().all(|d| d.attempt == 1 && d.fate == Fate::Acked { sent: 0 }));
    let ids: std::collections::BTreeSet<_> = delivered.iter().map(|d| d.message.id).collect();
    assert_eq!(ids.len(), 100);
    let mut spans: Vec<_> = delivered.iter().map(|d| d.elapsed.as_millis()).collect();
    spans.dedup();
    spans.sort_unstable();
    spans.dedup();
    assert_eq!(spans, [200, 201, 202, 203, 204, 205], "every revision had its share");
}

#[tokio::test(start_paused = true)]
async fn a_retired_consumer_finishes_and_claims_nothing_more() {
    let stage = Stage::new();
    stage.publish("t", 10).await;
    let script = Script::new(|_| failed_after(S(5), Outcome::Done { sends: vec![] }));
    let run = stage.run_with(script, |consumer| consumer.concurrency = 2);
    tokio::time::sleep(S(1)).await;
    run.dispatcher.retire("c");
    tokio::time::sleep(S(60)).await;
    assert_eq!(run.dispatcher.activity(), (2, 0));
    assert_eq!(run.end().await.len(), 2);
    assert_eq!(stage.counts("t").await.ready, 8);
}

/// What made the old one pause is not held against the new one.
#[tokio::test(start_paused = true)]
async fn another_revision_of_a_paused_consumer_claims_at_once() {
    let stage = Stage::new();
    stage.publish("t", 1).await;
    let grant = "publish \"x\"".to_owned();
    let refused = Outcome::GrantMissing { grant, text: String::new() };
    let run = stage.run(Script::new(move |_| failed_after(S(0), refused.clone())));
    tokio::time::sleep(S(60)).await;
    assert!(run.dispatcher.is_stuck());
    run.swap(Script::new(|_| ok()), 8);
    run.until_settled("t").await;
    assert!(!run.dispatcher.is_stuck());
}

#[tokio::test(start_paused = true)]
async fn a_group_that_an_operator_deletes_comes_back_as_it_was_wanted() {
    let stage = Stage::new();
    let script =
        Script::new(|_| failed_after(S(0), Outcome::Failed { kind: "other", text: "no".into() }));
    let run = stage.run_with(script, |consumer| {
        consumer.policy.max_attempts = std::num::NonZeroU32::MIN.saturating_add(1);
    });
    tokio::time::sleep(S(1)).await;
    let topic = Topic::new("t").unwrap();
    stage.log.remove_group(&topic, &Group::work_queue(), true).await.unwrap();
    stage.publish("t", 1).await;
    run.until_settled("t").await;
    assert_eq!(stage.counts("t").await.dead, 1);
    let attempts: Vec<_> = run.end().await.iter().map(|d| d.attempt).collect();
    assert_eq!(attempts, [1, 2], "two, and not the default's five");
}

/// The old one's troubles are no longer the consumer's.
#[tokio::test(start_paused = true)]
async fn a_retired_revision_tells_no_pause() {
    let stage = Stage::new();
    stage.publish("t", 25).await;
    let failed = || Outcome::Failed { kind: "other", text: "no".into() };
    let run = stage.run_with(Script::new(move |_| failed_after(S(5), failed())), |consumer| {
        consumer.concurrency = 25;
    });
    tokio::time::sleep(S(1)).await;
    run.swap(Script::new(|_| ok()), 25);
    run.until_settled("t").await;
    let (delivered, others) = run.end_with_events().await;
    assert_eq!(delivered.iter().filter(|d| d.fate.name() == "ack").count(), 25);
    assert!(others.is_empty(), "{others:?}");
}
