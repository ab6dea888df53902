//! How old a topic's floor is: samples of when nothing up to where was needed any more (law 14).

use super::rows::Floor;
use windlass_core::{Sequence, Timestamp};

/// Most samples kept of when a topic's floor was where.
const FLOORS_KEPT: usize = 16;

/// Samples the floor, at most sixteen times in `retain`; whether a sample was taken.
pub(super) fn note_floor(
    floors: &mut Vec<Floor>,
    now: Timestamp,
    floor: Sequence,
    retain_ms: u64,
) -> bool {
    let apart = retain_ms / FLOORS_KEPT as u64;
    let wanted = floors
        .last()
        .is_none_or(|last| last.floor < floor.0 && now.0.saturating_sub(last.at) >= apart);
    if wanted {
        // Of those that have aged, only the newest tells anything.
        let aged = floors.iter().take_while(|sample| sample.at + retain_ms <= now.0).count();
        floors.drain(..aged.saturating_sub(1));
        floors.push(Floor { at: now.0, floor: floor.0 });
    }
    wanted
}

/// When something that is kept now will have aged, or the floor is to be sampled again.
pub(super) fn next_look(
    floors: &[Floor],
    swept: u64,
    floor: Sequence,
    now: Timestamp,
    retain_ms: u64,
) -> Option<Timestamp> {
    if floor.0 <= swept {
        return None;
    }
    let aging = floors.iter().find(|sample| sample.floor > swept);
    let aged_at = aging.map(|sample| Timestamp(sample.at.saturating_add(retain_ms)));
    let again = Timestamp(now.0.saturating_add((retain_ms / FLOORS_KEPT as u64).max(1)));
    Some(aged_at.filter(|at| *at > now).unwrap_or(again))
}

/// The floor as it was `retain` ago.
pub(super) fn aged_floor(floors: &[Floor], now: Timestamp, retain_ms: u64) -> u64 {
    floors
        .iter()
        .rev()
        .find(|sample| sample.at.saturating_add(retain_ms) <= now.0)
        .map_or(0, |sample| sample.floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_counts_once_it_is_as_old_as_retain() {
        let mut floors = Vec::new();
        assert!(note_floor(&mut floors, Timestamp(1_000), Sequence(5), 1_600));
        assert!(!note_floor(&mut floors, Timestamp(1_050), Sequence(9), 1_600), "too soon");
        assert!(note_floor(&mut floors, Timestamp(1_100), Sequence(9), 1_600));
        assert!(!note_floor(&mut floors, Timestamp(2_000), Sequence(9), 1_600), "no news");
        assert_eq!(aged_floor(&floors, Timestamp(2_599), 1_600), 0);
        assert_eq!(aged_floor(&floors, Timestamp(2_600), 1_600), 5);
        assert_eq!(aged_floor(&floors, Timestamp(9_999), 1_600), 9);
        for at in 1..1_000 {
            note_floor(&mut floors, Timestamp(10_000 + at * 10), Sequence(100 + at), 1_600);
            assert!(floors.len() <= FLOORS_KEPT + 2, "{}", floors.len());
        }
    }
}
