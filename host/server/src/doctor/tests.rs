//! Each rule, at its edge.

use super::*;
use std::path::PathBuf;
use windlass_core::{GroupPolicy, Sequence, Topic};
use windlass_log::{Capabilities, ClockHealth, Counts, Fence, Gap, TopicLimits};

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const MIB: u64 = 1 << 20;

fn abouts(found: &[Finding]) -> Vec<&'static str> {
    assert!(found.iter().all(|one| !one.what.is_empty() && !one.next.is_empty()), "{found:?}");
    found.iter().map(|one| one.about).collect()
}

fn ago(span: Duration) -> Timestamp {
    Timestamp(NOW.0 - u64::try_from(span.as_millis()).unwrap())
}

fn group(name: &str, oldest: Option<Timestamp>) -> GroupState {
    GroupState {
        group: Group::new(name).unwrap(),
        counts: Counts::default(),
        policy: GroupPolicy::default(),
        copies_missed: 0,
        gap: None,
        oldest,
    }
}

fn topic(groups: Vec<GroupState>) -> TopicState {
    TopicState {
        topic: Topic::new("my topic").unwrap(),
        counts: Counts::default(),
        bytes: 0,
        retained: 0,
        oldest: groups.iter().filter_map(|group| group.oldest).min(),
        limits: TopicLimits { max_messages: 100, max_bytes: 1_000, ..TopicLimits::default() },
        groups,
    }
}

#[test]
fn who_pins_a_topic_for_a_day_is_named() {
    let day = UNREAD_LONG;
    let of =
        |oldest| topic(vec![group("young", Some(ago(Duration::ZERO))), group("old", Some(oldest))]);
    assert_eq!(pinned(&of(ago(day)), NOW, ""), None);
    let found = pinned(&of(ago(day + Duration::from_millis(1))), NOW, " --log x").unwrap();
    assert!(found.what.starts_with("group `old` of `my topic`"), "{found:?}");
    assert_eq!(found.next, "windlass group show 'my topic' old --log x");
    let both = topic(vec![
        group("", Some(ago(day * 3))),
        group("b", Some(ago(day * 2))),
        group("c", None),
    ]);
    assert_eq!(both.pinned_by().unwrap().group.as_str(), "");
    assert_eq!(abouts(&of_topic(&both, NOW, "")), ["unread-long", "unread-long"]);
    assert_eq!(pinned(&topic(vec![]), NOW, ""), None);
}

#[test]
fn a_group_that_is_stopped_or_has_missed_something_is_told() {
    let mut state = group("g", None);
    let found = |state: &GroupState| of_topic(&topic(vec![state.clone()]), NOW, "");
    state.counts.parked = PARKED_MAX - 1;
    assert_eq!(found(&state), []);
    state.counts.parked = PARKED_MAX;
    let gap = Gap { after: Sequence(1), through: Sequence(3), messages: 2, at: NOW };
    (state.gap, state.copies_missed) = (Some(gap), 1);
    assert_eq!(abouts(&found(&state)), ["stopped", "gap", "copies-missed"]);
}

#[test]
fn a_topic_that_is_nearly_full_is_told() {
    let with = |ready, bytes| {
        let mut state = topic(vec![]);
        (state.counts.ready, state.bytes) = (ready, bytes);
        abouts(&of_topic(&state, NOW, ""))
    };
    assert_eq!(with(80, 800), [""; 0]);
    assert_eq!(with(81, 800), ["quota"]);
    assert_eq!(with(80, 801), ["quota"]);
    assert_eq!(with(u64::MAX, u64::MAX), ["quota", "quota"]);
}

#[test]
fn a_large_write_ahead_log_and_a_clock_ahead_are_told() {
    let health = |wal_bytes, ahead: u64, journal: &str| Health {
        capabilities: Capabilities {
            fence: Fence::Strict,
            release_keeps_attempt: true,
            sends_commit_with_ack: true,
            durable: true,
        },
        clock: ClockHealth {
            now: NOW,
            wall_ms: NOW.0 - ahead,
            boot_id: String::new(),
            this_boot: true,
        },
        file: Some(FileHealth {
            path: PathBuf::from("windlass.db"),
            sqlite: "3.51.3".into(),
            compile_options: vec![],
            journal_mode: Some(journal.into()),
            synchronous: "full",
            auto_vacuum: true,
            page_size: 4_096,
            pages: 9,
            free_pages: 0,
            schema: 5,
            bytes: 9 * 4_096,
            wal_bytes,
            wal_cap_bytes: 64 * MIB,
            listeners: 0,
            checkpoint_at: None,
            sweep_at: None,
        }),
        recount: None,
    };
    let found = |wal, ahead, journal: &str| abouts(&of_log(&health(wal, ahead, journal)));
    assert_eq!(found(64 * MIB, 60_000, "wal"), [""; 0]);
    assert_eq!(found(64 * MIB + 1, 60_001, "delete"), ["wal-large", "journal-mode", "clock-ahead"]);
}

#[test]
fn a_place_that_does_not_keep_promises_is_told() {
    let disk = |place, writable, free| Disk {
        filesystem: "some".into(),
        place,
        free_bytes: Some(free),
        folder_writable: writable,
        file_writable: writable,
        syncs: vec![],
    };
    let found = |place, writable, free| abouts(&of_disk(&disk(place, writable, free), "f"));
    assert_eq!(found(disk::Place::Local, true, FREE_BYTES_MIN), [""; 0]);
    assert_eq!(found(disk::Place::Memory, true, u64::MAX), ["in-memory"]);
    let all = ["not-local", "folder-read-only", "file-read-only", "space-small"];
    assert_eq!(found(disk::Place::Remote, false, FREE_BYTES_MIN - 1), all);
}

#[test]
fn drift_is_an_error() {
    let drift = Drift {
        topic: Topic::new("t").unwrap(),
        group: Some(Group::work_queue()),
        figure: "dead letters",
        kept: 2,
        found: 0,
    };
    let found = of_recount(&Recount { drift: vec![drift], ..Recount::default() });
    assert_eq!((found[0].level, found[0].about), (Level::Error, "drift"));
    assert!(found[0].what.contains("`t`, the work queue: 2 are kept"), "{found:?}");
}
