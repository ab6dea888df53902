//! That commits wait for a checkpoint no longer than they must.

use super::*;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Goal: commits wait a little for passes that cannot keep up, so that the write-ahead log does
/// not grow for as long as somebody writes, and for passes that can they do not. Method: passes
/// that end when they are told, on a clock that moves only where somebody waits for it.
#[tokio::test(start_paused = true)]
async fn a_commit_waits_a_little_for_a_checkpoint_that_falls_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut checkpoints = Checkpoints::new(&Location::new(folder.path()), None);
    let mut writer = SqliteConnectOptions::new().in_memory(true).connect().await.unwrap();
    let mut turnstile = Turnstile::new(folder.path());
    let (end, ended) = oneshot::channel();
    checkpoints.work = Work::Running(tokio::spawn(async move {
        ended.await.unwrap();
        (None, Ok(Reached::Hindrance), 0)
    }));
    let mut waited = async |checkpoints: &mut Checkpoints| {
        let start = Instant::now();
        let ended = checkpoints.go_on(&mut writer, &mut turnstile).await;
        (ended, start.elapsed())
    };
    assert_eq!(waited(&mut checkpoints).await, (false, Duration::ZERO), "they keep up");
    checkpoints.signs.behind.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        let (ended, span) = waited(&mut checkpoints).await;
        assert!(!ended && span >= PAUSE && span < PAUSE * 2, "{span:?}");
    }
    assert!(matches!(checkpoints.work, Work::Running(_)), "they go on");
    end.send(()).unwrap();
    assert_eq!(waited(&mut checkpoints).await, (true, Duration::ZERO));
    assert!(matches!(checkpoints.work, Work::Idle(None)));
    assert_eq!(checkpoints.written, EVERY - AGAIN, "the next one comes soon");
}
