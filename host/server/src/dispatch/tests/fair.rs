//! Law 24: a consumer with a backlog of slow messages holds up no other one.

use super::*;

/// Goal: another consumer's message waits for no more than one slow one, no lease ends while its
/// message waits for a permit, and all is well after. Method: 5,000 messages of 200 ms each take every
/// permit; meanwhile one comes in for another consumer, ten times.
#[tokio::test(start_paused = true)]
async fn five_thousand_slow_messages_hold_up_no_other_consumer() {
    let stage = Stage::new();
    stage.publish("t", 5_000).await;
    let slow = Duration::from_millis(200);
    let script = Script::new(move |_| failed_after(slow, Outcome::Done { sends: vec![] }));
    let mut run = stage.run_with(script, |consumer| consumer.concurrency = 100);
    let reading = run.read_on();
    run.add_other("other", "u", Script::new(|_| ok())).await;
    let mut waited = Vec::new();
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(730)).await;
        assert_eq!(run.dispatcher.activity().1, 64, "every permit is out");
        let since = tokio::time::Instant::now();
        stage.publish("u", 1).await;
        run.until_empty("u").await;
        waited.push(since.elapsed());
    }
    let most = slow + Duration::from_millis(20);
    assert!(waited.iter().all(|wait| *wait <= most), "{waited:?}");
    run.until_settled("t").await;
    run.end().await;
    let delivered = reading.await.unwrap();
    assert_eq!(delivered.len(), 5_010);
    assert!(delivered.iter().all(|one| one.attempt == 1 && one.fate == Fate::Acked { sent: 0 }));
}
