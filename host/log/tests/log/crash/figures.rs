//! Figures, not verdicts: `cargo test --release -p windlass-log -- --ignored --nocapture figures`.
//!
//! For comparing two builds on one machine, interleaved; what is promised is in `windlass bench`.
//! `WINDLASS_FIGURES` is the folder to measure in, `WINDLASS_SECONDS` how long.

use super::processes::Other;
use super::*;
use std::num::NonZeroU32;
use std::time::Instant;

const PAYLOAD: usize = 256;

fn payload() -> NewMessage {
    NewMessage::new(kit::topic("t"), vec![7_u8; PAYLOAD])
}

/// Sorted spans: half, 99 of 100, and the longest.
fn of(spans: &mut [Duration]) -> [Duration; 3] {
    spans.sort_unstable();
    let at = |part: usize| spans[(spans.len() * part / 100).min(spans.len() - 1)];
    [at(50), at(99), spans[spans.len() - 1]]
}

/// So many publishers, each waiting for its answer, for `span`; the spans of all answers.
async fn publish_for(log: &DynLog, producers: usize, span: Duration) -> Vec<Duration> {
    let until = Instant::now() + span;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..producers {
        let log = log.clone();
        tasks.spawn(async move {
            let mut spans = Vec::new();
            while Instant::now() < until {
                let start = Instant::now();
                log.publish(vec![payload()]).await.unwrap();
                spans.push(start.elapsed());
            }
            spans
        });
    }
    tasks.join_all().await.concat()
}

fn wal_mib(folder: &Path) -> u64 {
    std::fs::metadata(folder.join("windlass.db-wal")).map_or(0, |meta| meta.len() >> 20)
}

fn folder_to_measure() -> tempfile::TempDir {
    match std::env::var_os("WINDLASS_FIGURES") {
        Some(folder) => tempfile::tempdir_in(folder).unwrap(),
        None => tempfile::tempdir().unwrap(),
    }
}

/// For comparison: a file that was there, if empty, does not keep what lets it be cut later.
fn plain(folder: &Path) {
    if std::env::var_os("WINDLASS_UNCUT").is_some() {
        std::fs::write(folder.join(windlass_log::sqlite::FILE_NAME), "").unwrap();
    }
}

#[test]
#[ignore = "prints figures"]
fn publish_rate() {
    let seconds = number("WINDLASS_SECONDS", 5);
    runtime().block_on(async {
        let folder = folder_to_measure();
        plain(folder.path());
        let log = open(folder.path(), true).await;
        publish_for(&log, 64, Duration::from_millis(200)).await;
        let mut spans = publish_for(&log, 64, Duration::from_secs(seconds)).await;
        let wal = wal_mib(folder.path());
        let rate = spans.len() as f64 / seconds as f64;
        println!("publish {rate:.0}/s, p50 p99 max {:.1?}, wal {wal} MiB", of(&mut spans));
        log.close().await;
    });
}

#[test]
#[ignore = "prints figures"]
fn pipeline_rate() {
    let rounds = number("WINDLASS_SECONDS", 5) * 60;
    runtime().block_on(async {
        let folder = folder_to_measure();
        plain(folder.path());
        let log = open(folder.path(), true).await;
        let policy = GroupPolicy { in_flight_max: NonZeroU32::MAX, ..GroupPolicy::default() };
        kit::declare(&log, "t", "g", policy).await;
        let start = Instant::now();
        let mut longest = Duration::ZERO;
        for _ in 0..rounds {
            let round = Instant::now();
            let mut tasks = tokio::task::JoinSet::new();
            for _ in 0..256 {
                let log = log.clone();
                tasks.spawn(async move { log.publish(vec![payload()]).await.unwrap() });
            }
            tasks.join_all().await;
            let claims = kit::claim(&log, "t", "g", 256).await;
            assert_eq!(claims.len(), 256);
            let acks = claims.iter().map(|claim| kit::settlement(claim.token, kit::acked()));
            log.settle(acks.collect()).await;
            longest = longest.max(round.elapsed());
        }
        let rate = (rounds * 256) as f64 / start.elapsed().as_secs_f64();
        let wal = wal_mib(folder.path());
        println!("pipeline {rate:.0}/s, longest round {longest:.1?}, wal {wal} MiB");
        log.close().await;
    });
}

/// A lone publish beside another process that publishes as fast as it can.
#[test]
#[ignore = "prints figures"]
fn lone_publish_beside_a_saturating_process() {
    let name = "crash::figures::lone_publish_beside_a_saturating_process";
    lone_publish(name, true, number("WINDLASS_SECONDS", 5));
}

/// A process that only writes now and then is not starved by one that never stops (law 19). How
/// long it waits depends on the machine; that it is answered does not.
#[test]
fn a_lone_publish_is_not_starved_by_a_saturating_process() {
    let name = "crash::figures::a_lone_publish_is_not_starved_by_a_saturating_process";
    if let Some([half, _, longest]) = lone_publish(name, false, 2) {
        assert!(half < Duration::from_millis(100), "{half:?}");
        assert!(longest < Duration::from_secs(5), "{longest:?}");
    }
}

fn lone_publish(name: &str, ignored: bool, seconds: u64) -> Option<[Duration; 3]> {
    if let Some(folder) = folder() {
        runtime().block_on(async {
            let log = open(&folder, true).await;
            publish_for(&log, 64, Duration::from_millis(100)).await;
            say("ready");
            let span = Duration::from_secs(seconds + 1);
            let spans = publish_for(&log, 64, span).await;
            say(&format!("{:.0}", spans.len() as f64 / span.as_secs_f64()));
            log.close().await;
        });
        return None;
    }
    let folder = folder_to_measure();
    let start = if ignored { Other::start_ignored } else { Other::start };
    let mut other = start(name, folder.path(), 1);
    assert_eq!(other.next().as_deref(), Some("ready"));
    let mut spans = runtime().block_on(async {
        let log = open(folder.path(), true).await;
        let until = Instant::now() + Duration::from_secs(seconds);
        let mut spans = Vec::new();
        while Instant::now() < until {
            let start = Instant::now();
            log.publish(vec![payload()]).await.unwrap();
            spans.push(start.elapsed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        log.close().await;
        spans
    });
    let beside = other.next().unwrap_or_default();
    assert!(other.child.wait().unwrap().success());
    let (n, spans) = (spans.len(), of(&mut spans));
    println!("lone publish p50 p99 max {spans:.1?} of {n}; beside it {beside}/s");
    Some(spans)
}
