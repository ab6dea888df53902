//! Leases: who may work on a message, and until when.
//!
//! Owns the rules of one group's leased deliveries as a value: no storage, no clock. Both logs
//! keep one of these a group; the SQLite log writes down what it says.

use crate::id::Sequence;
use crate::time::Timestamp;
use crate::token::Token;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A leased delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The message.
    pub sequence: Sequence,
    /// Random part of the token.
    pub nonce: u64,
    /// Counting part of the token.
    pub serial: u64,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// How many attempts before this one have an entry in the history.
    pub failures: u32,
    /// When it ends.
    pub until: Timestamp,
    /// When this claim (or transfer) was made.
    pub claimed_at: Timestamp,
    /// When its holder was last heard of: by its claim, a transfer or an extension.
    pub heard_at: Timestamp,
    /// When the first delivery was made.
    pub first_at: Timestamp,
    /// The message's size, as quotas count it.
    pub size: u64,
    /// Hash of the message's key, where it has one.
    pub key_hash: Option<u64>,
    /// Who holds it.
    pub worker: Arc<str>,
    /// Where the backend keeps it.
    pub slot: u64,
}

impl Lease {
    /// What `token`, which is of this lease's message, is worth.
    fn standing(&self, token: &Token) -> Standing {
        if self.nonce == token.nonce && self.serial == token.serial {
            Standing::Current
        } else {
            Standing::Lost
        }
    }
}

/// What a presented token is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is the current one.
    Current,
    /// The message is leased under another token.
    Lost,
    /// The message is not leased.
    NotLeased,
}

/// All leases of one group.
#[derive(Debug, Clone, Default)]
pub struct LeaseBook {
    /// Boxed, as leases are mostly settled in order: what is taken out of the front of a tree's node
    /// moves the rest of the node.
    by_sequence: BTreeMap<Sequence, Box<Lease>>,
    by_end: BTreeSet<(Timestamp, Sequence)>,
    /// How many of each key that has any.
    by_key: HashMap<u64, u32>,
    bytes: u64,
}

impl LeaseBook {
    /// How many are leased, ended ones included until somebody acts on the end.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_sequence.len()
    }

    /// Whether nothing is leased.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_sequence.is_empty()
    }

    /// Size of the leased messages.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The lowest leased sequence.
    #[must_use]
    pub fn lowest(&self) -> Option<Sequence> {
        self.by_sequence.keys().next().copied()
    }

    /// When the next lease ends.
    #[must_use]
    pub fn next_end(&self) -> Option<Timestamp> {
        self.by_end.first().map(|(end, _)| *end)
    }

    /// When the next lease ends that has not ended at `now`.
    #[must_use]
    pub fn next_end_after(&self, now: Timestamp) -> Option<Timestamp> {
        let later = (now.0.checked_add(1).map(Timestamp)?, Sequence(0));
        self.by_end.range(later..).next().map(|(end, _)| *end)
    }

    /// Whether a message of this key is leased.
    #[must_use]
    pub fn has_key(&self, key_hash: u64) -> bool {
        self.by_key.contains_key(&key_hash)
    }

    /// The lease of a message.
    #[must_use]
    pub fn get(&self, sequence: Sequence) -> Option<&Lease> {
        self.by_sequence.get(&sequence).map(Box::as_ref)
    }

    /// All leases, by sequence.
    pub fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.by_sequence.values().map(Box::as_ref)
    }

    /// Leases that ended at or before `now`, by end and sequence. A lease that ends at `now` has
    /// ended: a lease of nothing is claimable at once.
    pub fn ended(&self, now: Timestamp) -> impl Iterator<Item = &Lease> {
        self.by_end
            .iter()
            .take_while(move |(end, _)| *end <= now)
            .filter_map(|(_, sequence)| self.get(*sequence))
    }

    /// What `token` is worth. It stays current after the lease's end until somebody acts on that.
    #[must_use]
    pub fn standing(&self, token: &Token) -> Standing {
        self.get(token.sequence).map_or(Standing::NotLeased, |lease| lease.standing(token))
    }

    /// Takes the lease of `token` out, where that is the current one; else what it is worth.
    pub fn take(&mut self, token: &Token) -> Result<Lease, Standing> {
        let Entry::Occupied(entry) = self.by_sequence.entry(token.sequence) else {
            return Err(Standing::NotLeased);
        };
        match entry.get().standing(token) {
            Standing::Current => {
                let lease = entry.remove();
                Ok(self.forget(*lease))
            }
            Standing::Lost | Standing::NotLeased => Err(Standing::Lost),
        }
    }

    /// Enters a lease; an earlier one of the same message is replaced and returned.
    pub fn insert(&mut self, lease: Lease) -> Option<Lease> {
        self.by_end.insert((lease.until, lease.sequence));
        self.bytes += lease.size;
        if let Some(key) = lease.key_hash {
            *self.by_key.entry(key).or_default() += 1;
        }
        let end = lease.until;
        let sequence = lease.sequence;
        let earlier = self.by_sequence.insert(sequence, Box::new(lease)).map(|lease| *lease);
        if let Some(earlier) = &earlier {
            if earlier.until != end {
                self.by_end.remove(&(earlier.until, sequence));
            }
            self.bytes -= earlier.size;
            self.forget_key(earlier.key_hash);
        }
        earlier
    }

    /// Takes a lease out.
    pub fn remove(&mut self, sequence: Sequence) -> Option<Lease> {
        let lease = self.by_sequence.remove(&sequence)?;
        Some(self.forget(*lease))
    }

    /// A lease that was taken out is not counted any more.
    fn forget(&mut self, lease: Lease) -> Lease {
        self.by_end.remove(&(lease.until, lease.sequence));
        self.bytes -= lease.size;
        self.forget_key(lease.key_hash);
        lease
    }

    fn forget_key(&mut self, key_hash: Option<u64>) {
        let Some(key) = key_hash else { return };
        if let Some(n) = self.by_key.get_mut(&key) {
            *n -= 1;
            if *n == 0 {
                self.by_key.remove(&key);
            }
        }
    }

    /// Moves a lease's end at `now`; the lease must be there.
    pub fn extend(
        &mut self,
        sequence: Sequence,
        until: Timestamp,
        now: Timestamp,
    ) -> Option<&Lease> {
        let lease = self.by_sequence.get_mut(&sequence)?;
        self.by_end.remove(&(lease.until, sequence));
        lease.until = until;
        lease.heard_at = now;
        self.by_end.insert((until, sequence));
        Some(&*lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(sequence: u64, serial: u64, until: u64) -> Lease {
        Lease {
            sequence: Sequence(sequence),
            nonce: 1,
            serial,
            attempt: 1,
            failures: 0,
            until: Timestamp(until),
            claimed_at: Timestamp(0),
            heard_at: Timestamp(0),
            first_at: Timestamp(0),
            size: 10,
            key_hash: None,
            worker: "w".into(),
            slot: 0,
        }
    }

    fn token(sequence: u64, serial: u64) -> Token {
        Token { group: 1, sequence: Sequence(sequence), nonce: 1, serial }
    }

    #[test]
    fn a_second_claim_voids_the_first_token() {
        let mut book = LeaseBook::default();
        book.insert(lease(7, 1, 100));
        assert_eq!(book.standing(&token(7, 1)), Standing::Current);
        book.insert(lease(7, 2, 200));
        assert_eq!(book.standing(&token(7, 1)), Standing::Lost);
        assert_eq!(book.standing(&token(7, 2)), Standing::Current);
        assert_eq!((book.len(), book.bytes()), (1, 10));
        assert_eq!(book.take(&token(7, 1)), Err(Standing::Lost));
        assert_eq!((book.len(), book.bytes()), (1, 10));
        assert_eq!(book.take(&token(7, 2)), Ok(lease(7, 2, 200)));
        assert_eq!(book.take(&token(7, 2)), Err(Standing::NotLeased));
        assert_eq!((book.len(), book.bytes(), book.next_end()), (0, 0, None));
        book.insert(lease(7, 2, 200));
        book.remove(Sequence(7));
        assert_eq!(book.standing(&token(7, 2)), Standing::NotLeased);
        assert_eq!((book.len(), book.bytes(), book.next_end()), (0, 0, None));
    }

    #[test]
    fn ended_leases_come_by_end_and_extending_moves_them() {
        let mut book = LeaseBook::default();
        for (sequence, until) in [(1, 300), (2, 100), (3, 200)] {
            book.insert(lease(sequence, sequence, until));
        }
        let ended =
            |book: &LeaseBook| book.ended(Timestamp(200)).map(|l| l.sequence.0).collect::<Vec<_>>();
        assert_eq!(ended(&book), [2, 3]);
        book.extend(Sequence(2), Timestamp(250), Timestamp(90));
        assert_eq!(book.get(Sequence(2)).map(|lease| lease.heard_at), Some(Timestamp(90)));
        assert_eq!(ended(&book), [3]);
        book.insert(lease(3, 9, 200));
        assert_eq!(ended(&book), [3], "a replaced lease with the same end is still known");
        assert_eq!(book.next_end(), Some(Timestamp(200)));
        let after = |now| book.next_end_after(Timestamp(now)).map(|end| end.0);
        assert_eq!((after(199), after(200), after(300)), (Some(200), Some(250), None));
        assert_eq!(after(u64::MAX), None);
    }

    #[test]
    fn a_key_is_known_while_a_message_of_it_is_leased() {
        let mut book = LeaseBook::default();
        let keyed = |serial| Lease { key_hash: Some(9), ..lease(1, serial, 100) };
        book.insert(keyed(1));
        book.insert(keyed(2));
        book.insert(lease(2, 3, 100));
        assert!(book.has_key(9) && !book.has_key(8));
        book.remove(Sequence(1));
        assert!(!book.has_key(9));
    }
}
