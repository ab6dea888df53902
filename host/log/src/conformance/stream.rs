//! Law 18: a topic's stream is read in pages, misses nothing, repeats nothing, and says what is gone.

use super::kit::{
    ack, bury_one, claim, claim_one, declare, message, policy, publish, s, topic, woken,
};
use super::{Harness, skip};
use crate::{DynLog, ReadFrom, ReadGap, ReadPage, ReadRequest};
use std::num::NonZeroUsize;
use windlass_core::{Disposition, MessageId, NewMessage, Sequence, Timestamp};

async fn read(log: &DynLog, from: ReadFrom, limit: usize) -> ReadPage {
    let limit = NonZeroUsize::new(limit).unwrap();
    log.stream(ReadRequest { topic: topic("t"), from, limit }).await.unwrap()
}

fn ids(page: &ReadPage) -> Vec<MessageId> {
    page.messages.iter().map(|message| message.id).collect()
}

/// Acks all that can be claimed, and has it removed.
async fn settle_and_sweep(log: &DynLog) {
    for claim in claim(log, "t", "g", 1_000).await {
        ack(log, &claim).await;
    }
    log.set_retain(s(0), 0).await.unwrap();
    log.sweep().await.unwrap();
    log.sweep().await.unwrap();
}

/// Whatever groups do; nothing of another topic or a subtopic.
pub async fn pages_go_on_without_miss_or_repeat(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let mut published = Vec::new();
    for _ in 0..5 {
        published.extend(publish(&log, "t", 2).await);
        publish(&log, "t/sub", 1).await;
        publish(&log, "u", 1).await;
    }
    ack(&log, &claim_one(&log, "t", "g").await).await;
    let mut from = ReadFrom::Earliest;
    let mut found = Vec::new();
    for page in 0..4 {
        let log = h.reopen().await;
        let read = read(&log, from, 3).await;
        assert_eq!((read.gap, read.more), (None, page < 3));
        assert!(read.messages.iter().all(|one| one.message.as_ref().unwrap().id == one.id));
        found.extend(ids(&read));
        from = ReadFrom::Position(read.position);
    }
    assert_eq!(found, published);
    let log = h.log();
    let end = read(&log, from, 3).await;
    assert_eq!((end.messages.len(), end.gap, end.more), (0, None, false));
    published = publish(&log, "t", 2).await;
    assert_eq!(ids(&read(&log, ReadFrom::Position(end.position), 9).await), published);
}

/// Also on a topic that is not there yet: what it will hold is not missed.
pub async fn latest_reads_only_what_comes(h: &dyn Harness) {
    let log = h.log();
    let nothing = read(&log, ReadFrom::Latest, 9).await;
    publish(&log, "u", 2).await;
    let again = read(&log, ReadFrom::Position(nothing.position), 9).await;
    assert_eq!((again.messages.len(), again.more), (0, false));
    let first = publish(&log, "t", 1).await;
    assert_eq!(ids(&read(&log, ReadFrom::Position(again.position), 9).await), first);
    let late = read(&log, ReadFrom::Latest, 9).await;
    assert_eq!((late.messages.len(), late.gap), (0, None));
    let second = publish(&log, "t", 1).await;
    assert_eq!(ids(&read(&log, ReadFrom::Position(late.position), 9).await), second);
    assert_eq!(ids(&read(&log, ReadFrom::Earliest, 9).await), [first, second].concat());
}

/// Exactly at it, between two, before all and after all.
pub async fn a_time_reads_what_was_published_at_or_after_it(h: &dyn Harness) {
    let log = h.log();
    let mut published = Vec::new();
    for _ in 0..20 {
        published.extend(publish(&log, "t", 2).await);
        publish(&log, "u", 3).await;
        h.advance(s(10)).await;
    }
    let times: Vec<u64> = published.iter().map(|id| id.millis.0).collect();
    for at in times.iter().flat_map(|at| [at - 1, *at, at + 1]).chain([0, u64::MAX / 4]) {
        let expected: Vec<_> = published.iter().filter(|id| id.millis.0 >= at).copied().collect();
        let found = read(&log, ReadFrom::Time(Timestamp(at)), 99).await;
        assert_eq!(ids(&found), expected, "{at}");
        assert_eq!(found.gap, None);
    }
    let none = read(&log, ReadFrom::Time(Timestamp(u64::MAX / 4)), 9).await;
    let later = publish(&log, "t", 1).await;
    assert_eq!(ids(&read(&log, ReadFrom::Position(none.position), 9).await), later);
}

/// Stored or not, of this topic or another: its place decides.
pub async fn an_id_is_a_place_whether_it_is_stored_or_not(h: &dyn Harness) {
    let log = h.log();
    let first = publish(&log, "t", 2).await;
    let of_other = publish(&log, "u", 1).await[0];
    let last = publish(&log, "t", 1).await[0];
    let from = |id| ReadFrom::After(id);
    assert_eq!(ids(&read(&log, from(first[0]), 9).await), [first[1], last]);
    assert_eq!(ids(&read(&log, from(of_other), 9).await), [last]);
    let end = read(&log, from(last), 9).await;
    assert_eq!((end.messages.len(), end.gap), (0, None));
    let never = MessageId { millis: Timestamp(1), sequence: Sequence(last.sequence.0 + 50) };
    let end = read(&log, from(never), 9).await;
    let next = publish(&log, "t", 1).await;
    assert_eq!(ids(&read(&log, ReadFrom::Position(end.position), 9).await), next);
}

/// Once, with its range; who has read it, and who begins, misses nothing.
pub async fn what_was_removed_unread_is_a_gap(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 5).await;
    let halfway = read(&log, ReadFrom::Earliest, 2).await;
    let whole = read(&log, ReadFrom::Earliest, 9).await;
    settle_and_sweep(&log).await;
    publish(&log, "u", 1).await;
    let log = h.reopen().await;
    let gone = read(&log, ReadFrom::Position(halfway.position), 9).await;
    let (after, through) = (published[1].sequence, published[4].sequence);
    assert_eq!(gone.gap, Some(ReadGap { after, through }));
    assert_eq!((gone.messages.len(), gone.more), (0, false));
    for from in [
        ReadFrom::Position(gone.position),
        ReadFrom::Position(whole.position),
        ReadFrom::After(published[4]),
        ReadFrom::Earliest,
        ReadFrom::Latest,
        ReadFrom::Time(Timestamp(0)),
    ] {
        assert_eq!(read(&log, from, 9).await.gap, None, "{from:?}");
    }
    let later = publish(&log, "t", 2).await;
    let found = read(&log, ReadFrom::After(published[0]), 9).await;
    let after = published[0].sequence;
    assert_eq!((found.gap, ids(&found)), (Some(ReadGap { after, through }), later.clone()));
    let end = read(&log, ReadFrom::Position(found.position), 9).await;
    assert_eq!((end.gap, end.messages.len()), (None, 0));
}

/// Also where a purge or the last group that had it let it go.
pub async fn what_a_dead_letter_held_is_read_until_it_is_purged(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 4).await;
    ack(&log, &claim_one(&log, "t", "g").await).await;
    let first = claim_one(&log, "t", "g").await;
    super::kit::settle(&log, &first, Disposition::DeadLetter).await;
    bury_one(&log, "t", "g").await;
    settle_and_sweep(&log).await;
    assert_eq!(ids(&read(&log, ReadFrom::Earliest, 9).await), published[1..3]);
    let behind = read(&log, ReadFrom::After(published[0]), 9).await;
    assert_eq!(ids(&behind), published[1..3]);
    let through = published[3].sequence;
    assert_eq!(behind.gap, Some(ReadGap { after: published[0].sequence, through }));
    assert_eq!(read(&log, ReadFrom::Position(behind.position), 9).await.gap, None);
    log.purge_dead(&topic("t"), None).await.unwrap();
    let end = read(&log, ReadFrom::After(published[3]), 9).await;
    assert_eq!((end.gap, end.messages.len()), (None, 0));
    assert_eq!(ids(&read(&log, ReadFrom::Earliest, 9).await), []);
}

/// A page ends where it has grown too large, after a message at least.
pub async fn a_page_is_bounded_by_its_bytes(h: &dyn Harness) {
    let log = h.log();
    let large = || NewMessage::new(topic("t"), vec![b'x'; 1 << 20]);
    for _ in 0..3 {
        log.publish(vec![large(), large(), large()]).await.unwrap();
    }
    let first = read(&log, ReadFrom::Earliest, 100).await;
    assert_eq!((first.messages.len(), first.more), (4, true));
    let second = read(&log, ReadFrom::Position(first.position), 100).await;
    assert_eq!((second.messages.len(), second.more), (4, true));
    let third = read(&log, ReadFrom::Position(second.position), 100).await;
    assert_eq!((third.messages.len(), third.more), (1, false));
}

/// It costs its own data, not the page.
pub async fn a_message_that_cannot_be_read_keeps_its_place(h: &dyn Harness) {
    let log = h.log();
    let published = publish(&log, "t", 3).await;
    if !h.corrupt(published[1]).await {
        return skip("a_message_that_cannot_be_read_keeps_its_place", "no records");
    }
    let found = read(&log, ReadFrom::Earliest, 9).await;
    let there: Vec<_> = found.messages.iter().map(|one| one.message.is_some()).collect();
    assert_eq!(there, [true, false, true]);
    assert_eq!(found.messages[1].id.sequence, published[1].sequence);
    assert!(ids(&found).is_sorted());
    let millis = published[2].millis;
    assert_eq!(read(&log, ReadFrom::Time(millis), 9).await.messages.len(), 3);
}

/// A publish, an ack's sends; not lost between a read and the wait after it.
pub async fn what_comes_wakes_a_reader(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "in", "g", policy(5, s(30))).await;
    publish(&log, "in", 1).await;
    let arrivals = log.arrivals(&topic("t"));
    woken(&arrivals).await;
    let mut end = read(&log, ReadFrom::Latest, 9).await.position;
    let held = claim_one(&log, "in", "g").await;
    for round in 0..2 {
        if round == 0 {
            publish(&log, "t", 1).await;
        } else {
            let sends = vec![message("t", "")];
            super::kit::settle(&log, &held, Disposition::Ack { sends }).await;
        }
        woken(&arrivals).await;
        let found = read(&log, ReadFrom::Position(end), 9).await;
        assert_eq!(found.messages.len(), 1);
        end = found.position;
    }
}

/// Through the file.
pub async fn what_another_process_publishes_wakes_a_reader(h: &dyn Harness) {
    let log = h.log();
    let Some(other) = h.second_process().await else {
        return skip("what_another_process_publishes_wakes_a_reader", "one process only");
    };
    let arrivals = log.arrivals(&topic("t"));
    let mut end = read(&log, ReadFrom::Latest, 9).await.position;
    for _ in 0..3 {
        let published = publish(&other, "t", 1).await;
        loop {
            let found = read(&log, ReadFrom::Position(end), 9).await;
            end = found.position;
            if !found.messages.is_empty() {
                assert_eq!(ids(&found), published);
                break;
            }
            woken(&arrivals).await;
        }
    }
}
