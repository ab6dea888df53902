//! Laws 20 to 22: log time, reboots, and several processes on one log.

use super::kit::{
    ack, acked, bury_one, claim, claim_one, counts, dead, declare, group, ids, message, policy,
    publish, retried, s, settle, spec, state, topic,
};
use super::{Harness, skip};
use crate::clock::Clock;
use crate::{DeadLetterFilter, Declared, DynLog, LogError, Settled, TopicLimits};
use std::time::Duration;
use windlass_core::NewMessage;

/// In milliseconds.
const HOUR: i64 = 3_600_000;
const TEN_YEARS: i64 = 10 * 365 * 24 * HOUR;

/// W20: an hour either way, over a reopen too.
pub async fn wall_steps_touch_neither_leases_nor_retries(h: &dyn Harness) {
    let Some(clock) = h.clock() else {
        return skip("wall_steps_touch_neither_leases_nor_retries", "no clock to step");
    };
    let mut log = h.log();
    declare(&log, "t", "g", policy(9, s(30))).await;
    publish(&log, "t", 2).await;
    for step in [3_600_000, -7_200_000] {
        let claims = claim(&log, "t", "g", 2).await;
        assert_eq!(claims.len(), 2);
        settle(&log, &claims[0], retried(s(20))).await;
        let before = log.now();
        clock.step_wall(step);
        log = h.reopen().await;
        assert_eq!(log.now(), before);
        assert!(claim(&log, "t", "g", 2).await.is_empty());
        h.advance(s(20)).await;
        let retried = claim(&log, "t", "g", 2).await;
        assert_eq!(ids(&retried), [claims[0].message.id]);
        h.advance(s(10)).await;
        let ended = claim(&log, "t", "g", 2).await;
        assert_eq!(ids(&ended), [claims[1].message.id]);
        h.advance(s(30)).await;
    }
}

/// An hour either way, over a crash too: delays, dedup windows and `max-age` go by log time.
pub async fn wall_steps_touch_neither_delays_nor_windows_nor_ages(h: &dyn Harness) {
    let Some(clock) = h.clock() else {
        return skip("wall_steps_touch_neither_delays_nor_windows_nor_ages", "no clock to step");
    };
    for (on, step) in [("a", HOUR), ("b", -HOUR), ("c", -HOUR), ("d", HOUR)] {
        let log = h.log();
        declare(&log, on, "g", policy(5, s(30))).await;
        declare(&log, on, "slow", policy(5, s(30))).await;
        let (dedup_window, max_age) = (s(300), Some(s(1_200)));
        let limits = TopicLimits { dedup_window, max_age, ..TopicLimits::default() };
        log.set_limits(&topic(on), limits, false).await.unwrap();
        let (delay, dedup_id) = (Some(s(600)), Some("x".to_owned()));
        let late = NewMessage { delay, dedup_id, ..message(on, "late") };
        let first = log.publish(vec![late.clone()]).await.unwrap()[0];
        let slow = async |log: &DynLog| {
            log.sweep().await.unwrap();
            let found = state(log, on).await;
            found.groups.iter().find(|state| state.group == group("slow")).unwrap().gap
        };
        clock.step_wall(step);
        let log = h.crash().await;
        h.advance(s(299)).await;
        let again = log.publish(vec![late.clone()]).await.unwrap()[0];
        assert_eq!((again.id, again.duplicate), (first.id, true), "{on}");
        clock.step_wall(-step);
        h.advance(s(300)).await;
        assert!(claim(&log, on, "g", 1).await.is_empty(), "{on}: 599 s");
        clock.step_wall(step);
        let log = h.reopen().await;
        h.advance(s(1)).await;
        ack(&log, &claim_one(&log, on, "g").await).await;
        let later = log.publish(vec![late]).await.unwrap()[0];
        assert!(!later.duplicate && later.id > first.id, "{on}: the window is over");
        h.advance(s(599)).await;
        assert_eq!(slow(&log).await, None, "{on}: 1,199 s");
        clock.step_wall(-step);
        h.advance(s(2)).await;
        assert_eq!(slow(&log).await.map(|gap| gap.messages), Some(1), "{on}");
    }
}

/// Law 21: from the greater of the wall clock and the last log time.
pub async fn log_time_never_goes_back_over_a_reboot(h: &dyn Harness) {
    let Some(clock) = h.clock().filter(|_| h.log().capabilities().durable) else {
        return skip("log_time_never_goes_back_over_a_reboot", "does not survive one");
    };
    h.advance(s(100)).await;
    let before = publish(&h.log(), "t", 1).await[0];
    clock.step_wall(-3_600_000);
    clock.reboot("boot-2");
    let log = h.reopen().await;
    assert!(log.now() >= before.millis);
    let after = publish(&log, "t", 1).await[0];
    assert!(before < after);
    clock.step_wall(24 * 3_600_000);
    clock.reboot("boot-3");
    let log = h.reopen().await;
    assert!(log.now() >= after.millis.after(s(22 * 3_600)), "the wall clock is ahead: it counts");
    let now = log.now();
    h.advance(s(5)).await;
    assert_eq!(log.now(), now.after(s(5)));
}

/// Leases end and retries come due after as much log time as before.
pub async fn a_reboot_touches_neither_leases_nor_retries(h: &dyn Harness) {
    let Some(clock) = h.clock().filter(|_| h.log().capabilities().durable) else {
        return skip("a_reboot_touches_neither_leases_nor_retries", "does not survive one");
    };
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(300))).await;
    publish(&log, "t", 2).await;
    let claims = claim(&log, "t", "g", 2).await;
    settle(&log, &claims[0], retried(s(200))).await;
    publish(&log, "other", 1).await;
    clock.step_wall(-3_600_000);
    clock.reboot("boot-2");
    let log = h.reopen().await;
    assert_eq!(counts(&log, "t", "g").await, (0, 1, 1, 0));
    assert!(claim(&log, "t", "g", 2).await.is_empty());
    h.advance(s(200)).await;
    assert_eq!(claim_one(&log, "t", "g").await.message.id, claims[0].message.id);
    h.advance(s(100)).await;
    assert_eq!(claim_one(&log, "t", "g").await.message.id, claims[1].message.id);
}

/// A boot at a bad hour, ten years ahead, during which something was published: log time stays
/// there when the hour is right again, and goes on by the boot clock. Only what is shown as the
/// time of publish is the wall's.
pub async fn a_log_time_far_ahead_stays_there_and_goes_on(h: &dyn Harness) {
    let Some(clock) = h.clock().filter(|_| h.log().capabilities().durable) else {
        return skip("a_log_time_far_ahead_stays_there_and_goes_on", "does not survive a boot");
    };
    let before = publish(&h.log(), "t", 1).await[0];
    clock.step_wall(TEN_YEARS);
    clock.reboot("boot-2");
    let log = h.reopen().await;
    declare(&log, "t", "g", policy(5, s(30))).await;
    let ahead = publish(&log, "t", 1).await[0];
    assert!(ahead.millis >= before.millis.after(Duration::from_millis(TEN_YEARS.unsigned_abs())));
    clock.step_wall(-TEN_YEARS);
    for (boot, crash) in [("boot-3", true), ("boot-4", false)] {
        clock.reboot(boot);
        let log = if crash { h.crash().await } else { h.reopen().await };
        let now = log.now();
        assert!(now >= ahead.millis && now < ahead.millis.after(s(120)), "{boot}: it stays");
        let right = publish(&log, "t", 1).await[0];
        assert!(right > ahead && right.to_string() > ahead.to_string());
        let wall = clock.wall_ms();
        let claims = claim(&log, "t", "g", 9).await;
        assert_eq!(claims.last().unwrap().message.published_at, wall, "shown as it is");
        h.advance(s(29)).await;
        assert!(claim(&log, "t", "g", 9).await.is_empty());
        h.advance(s(1)).await;
        assert_eq!(ids(&claim(&log, "t", "g", 9).await), ids(&claims));
        assert_eq!(log.now(), now.after(s(30)));
        h.advance(s(30)).await;
    }
}

/// The boot clock runs on; a lease that ended meanwhile has ended.
pub async fn time_goes_on_while_the_log_is_closed(h: &dyn Harness) {
    declare(&h.log(), "t", "g", policy(5, s(30))).await;
    publish(&h.log(), "t", 1).await;
    claim_one(&h.log(), "t", "g").await;
    let before = h.log().now();
    h.log().close().await;
    if !h.log().capabilities().durable {
        return skip("time_goes_on_while_the_log_is_closed", "does not survive it");
    }
    h.advance(s(30)).await;
    let log = h.reopen().await;
    assert!(log.now() >= before.after(s(30)));
    assert_eq!(claim_one(&log, "t", "g").await.attempt, 2);
}

/// Law 21: one boot, one time; whichever opened first.
pub async fn two_processes_agree_on_the_time(h: &dyn Harness) {
    let log = h.log();
    h.advance(s(7)).await;
    if let Some(clock) = h.clock() {
        clock.step_wall(-1_000_000);
    }
    let Some(other) = h.second_process().await else {
        return skip("two_processes_agree_on_the_time", "one process only");
    };
    let apart = log.now().since(other.now()) + other.now().since(log.now());
    assert!(apart < Duration::from_millis(100), "{apart:?} apart");
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    claim_one(&log, "t", "g").await;
    h.advance(Duration::from_millis(29_500)).await;
    assert!(claim(&other, "t", "g", 1).await.is_empty());
    h.advance(Duration::from_millis(500)).await;
    assert_eq!(claim_one(&other, "t", "g").await.attempt, 2);
}

/// Law 21: the first to open after a boot sets log time, for all; the wall's steps after that are
/// nobody's.
pub async fn two_processes_agree_on_the_time_of_a_new_boot(h: &dyn Harness) {
    let Some(clock) = h.clock().filter(|_| h.log().capabilities().durable) else {
        return skip("two_processes_agree_on_the_time_of_a_new_boot", "does not survive it");
    };
    let last = publish(&h.log(), "t", 1).await[0];
    clock.step_wall(HOUR);
    clock.reboot("boot-2");
    let log = h.crash().await;
    clock.step_wall(-2 * HOUR);
    let Some(other) = h.second_process().await else {
        return skip("two_processes_agree_on_the_time_of_a_new_boot", "one process only");
    };
    assert_eq!(log.now(), other.now());
    assert!(log.now() >= last.millis.after(Duration::from_millis(HOUR.unsigned_abs())));
    let (one, two) = (publish(&log, "t", 1).await[0], publish(&other, "t", 1).await[0]);
    assert!(last < one && one < two);
    h.advance(s(5)).await;
    assert_eq!(log.now(), other.now());
}

/// Law 22: interleaved, each claims, settles, publishes.
pub async fn two_processes_never_hold_the_same_message(h: &dyn Harness) {
    let log = h.log();
    let Some(other) = h.second_process().await else {
        return skip("two_processes_never_hold_the_same_message", "one process only");
    };
    declare(&log, "t", "g", policy(5, s(300))).await;
    let (mut published, mut given) = (Vec::new(), Vec::new());
    for round in 0..12 {
        let (a, b) = tokio::join!(publish(&log, "t", 5), publish(&other, "t", 3));
        published.extend(a.into_iter().chain(b));
        let (a, b) = tokio::join!(claim(&log, "t", "g", 3), claim(&other, "t", "g", 4));
        for (process, claims) in [(&log, a), (&other, b)] {
            for (i, claim) in claims.iter().enumerate() {
                match (i + round) % 3 {
                    0 => ack(process, claim).await,
                    1 => drop(settle(process, claim, retried(s(0))).await),
                    _ => {}
                }
                if (i + round) % 3 != 1 {
                    given.push(claim.message.id);
                }
            }
        }
    }
    loop {
        let (a, b) = tokio::join!(claim(&log, "t", "g", 3), claim(&other, "t", "g", 4));
        if a.is_empty() && b.is_empty() {
            break;
        }
        given.extend(ids(&a).into_iter().chain(ids(&b)));
    }
    published.sort();
    given.sort();
    assert_eq!(given, published);
}

/// The token is in the file, not in the process.
pub async fn one_process_settles_what_the_other_claimed(h: &dyn Harness) {
    let log = h.log();
    let Some(other) = h.second_process().await else {
        return skip("one_process_settles_what_the_other_claimed", "one process only");
    };
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 2).await;
    let claims = claim(&log, "t", "g", 2).await;
    ack(&other, &claims[0]).await;
    assert_eq!(settle(&log, &claims[0], acked()).await, Settled::AlreadySettled);
    h.advance(s(30)).await;
    let again = claim_one(&other, "t", "g").await;
    assert_eq!(settle(&log, &claims[1], acked()).await, Settled::LeaseLost);
    assert_eq!(settle(&log, &again, retried(s(0))).await, Settled::Applied);
    assert_eq!(settle(&other, &again, acked()).await, Settled::LeaseLost);
    assert_eq!(claim_one(&other, "t", "g").await.attempt, 3);
}

/// Law 16: no count is from memory that the other has made stale.
pub async fn two_processes_agree_on_counts_and_groups(h: &dyn Harness) {
    let log = h.log();
    let Some(other) = h.second_process().await else {
        return skip("two_processes_agree_on_counts_and_groups", "one process only");
    };
    let error = other.claim(super::kit::request("t", "g", 1)).await.unwrap_err();
    assert!(matches!(error, LogError::NoGroup { .. }));
    declare(&log, "t", "g", policy(5, s(30))).await;
    let answer = other.declare_groups(vec![spec("t", "g", policy(2, s(30)))]).await.unwrap();
    assert_eq!(answer, [Declared::Known]);
    for round in 0..6 {
        let (one, two) = if round % 2 == 0 { (&log, &other) } else { (&other, &log) };
        publish(one, "t", 3).await;
        let claims = claim(two, "t", "g", 2).await;
        assert_eq!((claims.len(), claims[0].max_attempts.get()), (2, 2));
        assert_eq!(one.topics().await.unwrap(), two.topics().await.unwrap());
        ack(one, &claims[0]).await;
        assert_eq!(one.topics().await.unwrap(), two.topics().await.unwrap());
        assert_eq!(counts(two, "t", "g").await, (1 + round, 0, 1 + round, 0));
    }
}

/// And what it gives is claimed by either.
pub async fn a_dead_letter_of_one_process_is_redriven_by_the_other(h: &dyn Harness) {
    let log = h.log();
    let Some(other) = h.second_process().await else {
        return skip("a_dead_letter_of_one_process_is_redriven_by_the_other", "one process only");
    };
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    let id = bury_one(&log, "t", "g").await;
    assert_eq!(dead(&other, "t").await[0].id, id);
    assert_eq!(
        other.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap().moved,
        1
    );
    assert_eq!(dead(&log, "t").await, []);
    let again = claim_one(&log, "t", "g").await;
    assert_eq!((again.message.id, again.attempt), (id, 1));
}
