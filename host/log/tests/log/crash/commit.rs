//! A COMMIT that fails is never answered with a success.

use super::*;
use rand::RngExt;
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::sync::atomic::Ordering;
use windlass_log::LogError;
use windlass_log::sqlite::Faults;

/// A log whose next commits can be made to fail.
async fn faulty() -> (tempfile::TempDir, DynLog, Faults) {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let options = OpenOptions { create: true, faults: faults.clone(), ..OpenOptions::default() };
    let log: Arc<SqliteLog> = SqliteLog::open(folder.path(), options).await.unwrap();
    let log: DynLog = log;
    kit::declare(&log, "t", "g", GroupPolicy::default()).await;
    (folder, log, faults)
}

fn fail_next(faults: &Faults) {
    faults.failing_commits.store(1, Ordering::Relaxed);
}

#[tokio::test]
async fn a_publish_whose_commit_fails_is_an_error_and_stores_nothing() {
    let (_folder, log, faults) = faulty().await;
    let before = kit::publish(&log, "t", 1).await;
    fail_next(&faults);
    let answer = log.publish(vec![kit::message("t", "lost"), kit::message("new", "lost")]).await;
    assert!(matches!(answer, Err(LogError::Unavailable { .. })), "{answer:?}");
    assert_eq!(kit::counts(&log, "t", "g").await, (1, 0, 0, 0));
    assert!(log.topic(&kit::topic("new")).await.unwrap().is_none(), "nor is its topic made");
    let after = kit::publish(&log, "t", 1).await;
    let claims = kit::claim(&log, "t", "g", 9).await;
    assert_eq!(kit::ids(&claims), [before, after].concat(), "the next one works");
}

#[tokio::test]
async fn publishes_that_share_a_failing_commit_all_fail() {
    let (_folder, log, faults) = faulty().await;
    fail_next(&faults);
    let publish = |text| log.publish(vec![kit::message("t", text)]);
    let answers = tokio::join!(publish("1"), publish("2"), publish("3"), publish("4"));
    let answers = [answers.0, answers.1, answers.2, answers.3];
    let stored = answers.iter().filter(|answer| answer.is_ok()).count() as u64;
    assert!(stored < 4, "one commit failed");
    assert_eq!(kit::counts(&log, "t", "g").await, (stored, 0, 0, 0));
}

#[tokio::test]
async fn an_ack_whose_commit_fails_leaves_the_message_leased_and_sends_nothing() {
    let (_folder, log, faults) = faulty().await;
    kit::publish(&log, "t", 1).await;
    let claim = kit::claim_one(&log, "t", "g").await;
    let ack = || Disposition::Ack { sends: vec![kit::message("out", "sent")] };
    fail_next(&faults);
    let answer = log.settle(vec![kit::settlement(claim.token, ack())]).await.remove(0);
    assert!(matches!(answer, Err(LogError::Unavailable { .. })), "{answer:?}");
    assert_eq!(kit::counts(&log, "t", "g").await, (0, 0, 1, 0));
    assert!(log.topic(&kit::topic("out")).await.unwrap().is_none());
    assert_eq!(kit::settle(&log, &claim, ack()).await, Settled::Applied, "the same token, again");
    assert_eq!(kit::counts(&log, "t", "g").await, (0, 0, 0, 0));
    assert_eq!(kit::state(&log, "out").await.counts.lag(), 1);
}

#[tokio::test]
async fn a_claim_and_a_dead_letter_whose_commits_fail_change_nothing() {
    let (_folder, log, faults) = faulty().await;
    kit::publish(&log, "t", 1).await;
    fail_next(&faults);
    let answer = log.claim(kit::request("t", "g", 1)).await;
    assert!(matches!(answer, Err(LogError::Unavailable { .. })), "{answer:?}");
    assert_eq!(kit::counts(&log, "t", "g").await, (1, 0, 0, 0));
    let claim = kit::claim_one(&log, "t", "g").await;
    assert_eq!(claim.attempt, 1, "an attempt that nobody got is not counted");
    fail_next(&faults);
    let bury = kit::settlement(claim.token, Disposition::DeadLetter);
    assert!(log.settle(vec![bury.clone()]).await.remove(0).is_err());
    assert_eq!(kit::counts(&log, "t", "g").await, (0, 0, 1, 0));
    assert_eq!(log.settle(vec![bury]).await.remove(0).unwrap(), Settled::Applied);
    assert_eq!(kit::counts(&log, "t", "g").await, (0, 0, 0, 1));
}

/// Goal: a full disk loses nothing acknowledged and acknowledges nothing lost. Method: the child
/// publishes under a limit on the size of files until it is refused five times.
#[test]
fn a_full_disk_refuses_and_keeps_what_it_acknowledged() {
    if let Some(folder) = folder() {
        return fill(&folder);
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "crash::commit::a_full_disk_refuses_and_keeps_what_it_acknowledged";
    // A shell counts in blocks of 512 or 1024 bytes.
    let before = "trap '' XFSZ; ulimit -f 8192;";
    let mut child = super::start(name, folder.path(), 0, 0, before);
    let told = BufReader::new(child.stdout.take().unwrap());
    let lines: Vec<String> = told.lines().map_while(Result::ok).collect();
    assert!(child.wait().unwrap().success(), "{lines:?}");
    let told = lines.iter().filter_map(|line| said(line));
    let mut acknowledged = HashSet::new();
    let mut refusals = 0;
    for said in told {
        match said[0] {
            "published" => assert!(acknowledged.insert(said[1].to_owned())),
            "refused" => refusals += 1,
            _ => panic!("{said:?}"),
        }
    }
    assert_eq!(refusals, 5);
    assert!(acknowledged.len() > 10, "{} until full", acknowledged.len());
    runtime().block_on(async {
        let log = open(folder.path(), false).await;
        let mut stored = HashSet::new();
        loop {
            let claims = kit::claim(&log, "t", "g", 100).await;
            if claims.is_empty() {
                break;
            }
            for claim in claims {
                assert!(stored.insert(claim.message.id.to_string()));
                kit::ack(&log, &claim).await;
            }
        }
        assert_eq!(stored, acknowledged);
        kit::publish(&log, "t", 10).await;
        assert_eq!(kit::claim(&log, "t", "g", 100).await.len(), 10, "it works again");
    });
}

/// Publishes 32 KiB at a time until five publishes were refused.
fn fill(folder: &Path) {
    runtime().block_on(async {
        let log = open(folder, true).await;
        kit::declare(&log, "t", "g", GroupPolicy::default()).await;
        let mut data = vec![0_u8; 32 << 10];
        rand::rng().fill(&mut data[..]);
        let mut refusals = 0;
        while refusals < 5 {
            match log.publish(vec![NewMessage::new(kit::topic("t"), data.clone())]).await {
                Ok(published) => say(&format!("published {}", published[0].id)),
                Err(LogError::StorageFull { .. } | LogError::Unavailable { .. }) => {
                    refusals += 1;
                    say("refused");
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        // Closing has no room either; it must end all the same.
        log.close().await;
    });
}
