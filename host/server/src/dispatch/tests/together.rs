//! Messages that share a task.

use super::*;

const SLOW: Duration = Duration::from_secs(7);

#[tokio::test(start_paused = true)]
async fn handlers_that_answer_at_once_are_settled_together() {
    let stage = Stage::new();
    stage.publish("t", 8).await;
    let run = stage.run(Script::new(|_| ok()));
    run.until_settled("t").await;
    assert_eq!(stage.log.batches(), [4, 4]);
    let delivered = run.end().await;
    assert!(delivered.iter().all(|d| d.fate == Fate::Acked { sent: 0 }));
    assert_eq!(delivered.len(), 8);
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_holds_up_nobody_who_was_claimed_with_it() {
    let stage = Stage::new();
    stage.publish("t", 8).await;
    let run = stage.run(Script::new(|delivery| {
        let span = if delivery.message.id.sequence.0 == 1 { SLOW } else { Duration::ZERO };
        failed_after(span, Outcome::Done { sends: vec![] })
    }));
    tokio::time::sleep(S(1)).await;
    assert_eq!(stage.counts("t").await.lag(), 1);
    assert_eq!(run.dispatcher.activity(), (8, 1), "and the others' permits are back");
    run.until_settled("t").await;
    assert_eq!(stage.log.batches(), [3, 4, 1]);
    drop(run.end().await);
}

#[tokio::test(start_paused = true)]
async fn one_whose_task_fails_takes_nobody_along() {
    let stage = Stage::new();
    stage.publish("t", 4).await;
    let run = stage.run(Script::new(|delivery| {
        let fails = delivery.message.id.sequence.0 == 1 && delivery.attempt == 1;
        assert!(!fails, "a fault of ours");
        ok()
    }));
    tokio::time::sleep(S(1)).await;
    assert_eq!(stage.counts("t").await.lag(), 1);
    assert_eq!(run.dispatcher.activity(), (4, 0));
    run.until_settled("t").await;
    let delivered = run.end().await;
    assert_eq!(delivered.iter().map(|d| d.attempt).collect::<Vec<_>>(), [1, 1, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn one_that_storage_does_not_take_holds_up_no_other() {
    let stage = Stage::new();
    stage.publish("t", 4).await;
    stage.log.fail_settles(2);
    let run = stage.run(Script::new(|_| ok()));
    // Storage is looked at again after 100 ms.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(stage.counts("t").await.lag(), 2, "the first two, of a pair, did not get through");
    run.until_settled("t").await;
    assert_eq!(run.end().await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn what_sends_much_is_settled_by_itself() {
    let stage = Stage::new();
    stage.publish("t", 4).await;
    let run = stage.run(Script::new(|delivery| {
        let bytes = if delivery.message.id.sequence.0 == 1 { 100_000 } else { 10 };
        let sends = vec![NewMessage::new(Topic::new("u").unwrap(), vec![7; bytes])];
        failed_after(Duration::ZERO, Outcome::Done { sends })
    }));
    run.until_settled("t").await;
    let mut batches = stage.log.batches();
    batches.sort_unstable();
    assert_eq!(batches, [1, 1, 2]);
    drop(run.end().await);
}
