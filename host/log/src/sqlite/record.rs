//! How messages and leases are written in the file.
//!
//! Every record begins with a version. One that cannot be read answers [`Unreadable`] and costs
//! only itself.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use windlass_core::lease::Lease;
use windlass_core::{Message, MessageId, NewMessage, Sequence, Timestamp, Topic};

const VERSION: u8 = 1;

/// A record that is damaged, or of a version this program does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

/// How every message's record goes on after its version: with what places the message in its topic,
/// so that a place can be found without reading data, and what lies before it without counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Placed {
    /// Its id's.
    pub(super) millis: u64,
    /// How many messages had been published to its topic before it, and their size.
    pub(super) before: u64,
    pub(super) before_bytes: u64,
}

/// So many bytes of a record hold its version and a [`Placed`].
pub(super) const PLACED_BYTES: i64 = 31;

#[derive(Serialize, Deserialize)]
struct Head<'a> {
    placed: Placed,
    due: Option<u64>,
    published_at: u64,
    hops: u32,
    #[serde(borrow)]
    key: Option<&'a str>,
    #[serde(borrow)]
    content_type: Option<&'a str>,
    #[serde(borrow)]
    metadata: Vec<(&'a str, &'a str)>,
}

/// A message's record: version, head, data.
pub(super) fn encode_message(
    message: &NewMessage,
    placed: Placed,
    due: Option<Timestamp>,
    published_at: u64,
) -> Result<Vec<u8>, Unreadable> {
    let head = Head {
        placed,
        due: due.map(|due| due.0),
        published_at,
        hops: message.hops,
        key: message.key.as_deref(),
        content_type: message.content_type.as_deref(),
        metadata: message.metadata.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect(),
    };
    let mut record = Vec::with_capacity(64 + message.data.len());
    record.push(VERSION);
    let mut record = postcard::to_extend(&head, record).map_err(|_| Unreadable)?;
    record.extend_from_slice(&message.data);
    Ok(record)
}

/// What places a message, from the beginning of its record.
pub(super) fn decode_placed(record: &[u8]) -> Result<Placed, Unreadable> {
    let (&VERSION, rest) = record.split_first().ok_or(Unreadable)? else {
        return Err(Unreadable);
    };
    postcard::take_from_bytes(rest).map(|(placed, _)| placed).map_err(|_| Unreadable)
}

/// The message of a record.
pub(super) fn decode_message(
    topic: &Topic,
    sequence: Sequence,
    record: Vec<u8>,
) -> Result<Message, Unreadable> {
    decode_stored(topic, sequence, record).map(|(message, _)| message)
}

/// The message of a record, and when it may first be handled where it was given a delay.
pub(super) fn decode_stored(
    topic: &Topic,
    sequence: Sequence,
    record: Vec<u8>,
) -> Result<(Message, Option<Timestamp>), Unreadable> {
    let record = Bytes::from(record);
    let (&VERSION, rest) = record.split_first().ok_or(Unreadable)? else {
        return Err(Unreadable);
    };
    let (head, data) = postcard::take_from_bytes::<Head<'_>>(rest).map_err(|_| Unreadable)?;
    let owned = |text: &str| text.to_owned();
    let message = Message {
        id: MessageId { millis: Timestamp(head.placed.millis), sequence },
        topic: topic.clone(),
        data: record.slice(record.len() - data.len()..),
        content_type: head.content_type.map(owned),
        metadata: head.metadata.iter().map(|(k, v)| (owned(k), owned(v))).collect(),
        key: head.key.map(owned),
        published_at: head.published_at,
        hops: head.hops,
    };
    Ok((message, head.due.map(Timestamp)))
}

/// One claim's leases. Numbers are differences, so that most take a byte or two.
#[derive(Serialize, Deserialize)]
struct Batch<'a> {
    nonce: u64,
    #[serde(borrow)]
    worker: &'a str,
    claimed_at: u64,
    serial: u64,
    until: u64,
    leases: Vec<Row>,
}

#[derive(Serialize, Deserialize)]
struct Row {
    sequence: u64,
    serial: u64,
    until: i64,
    attempt: u32,
    failures: u32,
    first: u64,
    heard: u64,
    size: u64,
    key_hash: Option<u64>,
}

/// The record of the leases of one slot, by sequence; they share nonce, worker and time.
pub(super) fn encode_leases(leases: &[&Lease]) -> Result<Vec<u8>, Unreadable> {
    let first = leases.first().ok_or(Unreadable)?;
    let serial = leases.iter().map(|lease| lease.serial).min().unwrap_or(first.serial);
    let mut last = 0;
    let rows = leases.iter().map(|lease| Row {
        sequence: lease.sequence.0 - std::mem::replace(&mut last, lease.sequence.0),
        serial: lease.serial - serial,
        until: lease.until.0.cast_signed().wrapping_sub(first.until.0.cast_signed()),
        attempt: lease.attempt,
        failures: lease.failures,
        first: lease.claimed_at.0.saturating_sub(lease.first_at.0),
        heard: lease.heard_at.0.saturating_sub(lease.claimed_at.0),
        size: lease.size,
        key_hash: lease.key_hash,
    });
    let batch = Batch {
        nonce: first.nonce,
        worker: &first.worker,
        claimed_at: first.claimed_at.0,
        serial,
        until: first.until.0,
        leases: rows.collect(),
    };
    let mut record = Vec::with_capacity(48 + 12 * batch.leases.len());
    record.push(VERSION);
    postcard::to_extend(&batch, record).map_err(|_| Unreadable)
}

/// The leases of a slot's record.
pub(super) fn decode_leases(slot: u64, record: &[u8]) -> Result<Vec<Lease>, Unreadable> {
    let (&VERSION, rest) = record.split_first().ok_or(Unreadable)? else {
        return Err(Unreadable);
    };
    let batch: Batch<'_> = postcard::from_bytes(rest).map_err(|_| Unreadable)?;
    let worker: Arc<str> = batch.worker.into();
    let mut sequence: u64 = 0;
    let mut leases = Vec::with_capacity(batch.leases.len());
    for row in &batch.leases {
        sequence = sequence.checked_add(row.sequence).ok_or(Unreadable)?;
        leases.push(Lease {
            sequence: Sequence(sequence),
            nonce: batch.nonce,
            serial: batch.serial.wrapping_add(row.serial),
            attempt: row.attempt,
            failures: row.failures,
            until: Timestamp(batch.until.wrapping_add_signed(row.until)),
            claimed_at: Timestamp(batch.claimed_at),
            heard_at: Timestamp(batch.claimed_at.saturating_add(row.heard)),
            first_at: Timestamp(batch.claimed_at.saturating_sub(row.first)),
            size: row.size,
            key_hash: row.key_hash,
            worker: worker.clone(),
            slot,
        });
    }
    Ok(leases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_from_its_record() {
        let topic = Topic::new("t").unwrap();
        let mut new = NewMessage::new(topic.clone(), &b"\x00body"[..]);
        new.metadata = vec![("a".into(), "1".into()), ("a".into(), "2".into())];
        new.content_type = Some("text/plain".into());
        new.hops = 3;
        let placed = Placed { millis: 77, before: u64::MAX, before_bytes: 5 };
        let record = encode_message(&new, placed, Some(Timestamp(99)), 88).unwrap();
        let (back, due) = decode_stored(&topic, Sequence(5), record.clone()).unwrap();
        assert_eq!(due, Some(Timestamp(99)));
        assert_eq!((back.data, back.metadata), (new.data, new.metadata));
        assert_eq!((back.hops, back.published_at, back.id.millis), (3, 88, Timestamp(77)));
        assert_eq!(decode_placed(&record[..31]), Ok(placed));
        for bad in [vec![], vec![9], record[..4].to_vec()] {
            assert_eq!(decode_placed(&bad), Err(Unreadable));
            assert_eq!(decode_message(&topic, Sequence(5), bad), Err(Unreadable));
        }
    }

    #[test]
    fn leases_come_back_from_their_record() {
        let lease = |sequence, serial, until| Lease {
            sequence: Sequence(sequence),
            nonce: u64::MAX,
            serial,
            attempt: 2,
            failures: 1,
            until: Timestamp(until),
            claimed_at: Timestamp(1_000),
            heard_at: Timestamp(1_000 + serial),
            first_at: Timestamp(900),
            size: 256,
            key_hash: None,
            worker: "w".into(),
            slot: 4,
        };
        let leases = [lease(10, 9, 5_000), lease(11, 7, 4_000), lease(500, 8, u64::MAX)];
        let record = encode_leases(&leases.each_ref()).unwrap();
        assert_eq!(decode_leases(4, &record).unwrap(), leases);
        assert_eq!(decode_leases(4, &record[..record.len() - 1]), Err(Unreadable));
    }
}
