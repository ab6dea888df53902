//! Law 26's guard: an outage downstream does not turn a backlog into dead letters.

use super::stage::{Run, Script, Stage, failed, ok};
use super::*;
use std::sync::atomic::AtomicBool;

/// A backlog of a thousand over an outage of ten minutes. How many died, and what was told.
async fn outage(failures_max: usize) -> (u64, u64, Vec<String>) {
    let stage = Stage::new();
    stage.publish("t", 1_000).await;
    let down = Arc::new(AtomicBool::new(true));
    let is_down = Arc::clone(&down);
    let script = Script::new(move |_| {
        if is_down.load(Ordering::SeqCst) { failed("connection refused") } else { ok() }
    });
    let run = stage.run_with(script, |consumer| consumer.failures_max = failures_max);
    let mut run = Reader::of(run);
    run.read_for(Duration::from_mins(10)).await;
    down.store(false, Ordering::SeqCst);
    run.read_for(Duration::from_hours(1)).await;
    let counts = stage.counts("t").await;
    assert_eq!(counts.lag(), 0, "all are settled: {counts:?}");
    (run.acked, counts.dead, run.others)
}

/// Events are read as they come: deliveries wait for whoever reads.
struct Reader {
    run: Run,
    acked: u64,
    others: Vec<String>,
}

impl Reader {
    fn of(run: Run) -> Self {
        Self { run, acked: 0, others: Vec::new() }
    }

    async fn read_for(&mut self, span: Duration) {
        let until = tokio::time::Instant::now() + span;
        while let Ok(Some(event)) = tokio::time::timeout_at(until, self.run.event()).await {
            if let Event::Delivered(delivered) = &event {
                self.acked += u64::from(delivered.fate.name() == "ack");
            } else if let Event::Paused { reason, .. } = &event {
                self.others.push(format!("paused {reason}"));
            } else {
                self.others.push(format!("{event:?}"));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn with_the_guard_none_of_a_thousand_dies_in_an_outage() {
    let (acked, dead, told) = outage(20).await;
    assert_eq!((acked, dead), (1_000, 0), "{told:?}");
    // 1, 2, 4, .. 60 s apart, over ten minutes; then it goes on by itself.
    let pauses = told.iter().filter(|told| *told == "paused failing").count();
    assert!((10..20).contains(&pauses), "{told:?}");
    assert!(told.last().unwrap().starts_with("Resumed"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn without_it_they_would_die() {
    let (acked, dead, _) = outage(usize::MAX).await;
    assert_eq!(acked + dead, 1_000);
    assert!(dead > 900, "{dead}");
}
