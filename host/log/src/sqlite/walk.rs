//! How far a sweep of a topic goes, and what it passes by: a decision on values.

use std::collections::BTreeSet;
use windlass_core::Sequence;

/// Where the sweep of a topic stands, and what may go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk {
    pub(super) swept: u64,
    pub(super) floor: Sequence,
    /// All up to here may go.
    pub(super) aged: u64,
    /// And beyond it so many, counted from the oldest.
    pub(super) beyond: u64,
}

/// What becomes of the next messages.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) gone: u64,
    pub(super) last: u64,
    pub(super) passed_by: Vec<u64>,
    pub(super) more: bool,
}

impl Walk {
    /// What goes of `ids`, of which some are held. What is held behind the last one that goes may
    /// yet be kept for `retain`, so it is not passed by. `whole`: nothing lies behind `ids`.
    pub(super) fn step(&self, ids: &[u64], held: &BTreeSet<u64>, whole: bool) -> Step {
        let mut step = Step { gone: 0, last: self.swept, passed_by: Vec::new(), more: !whole };
        let mut holding = Vec::new();
        for id in ids {
            if held.contains(id) {
                holding.push(*id);
            } else if step.gone < self.beyond || *id <= self.aged {
                step.gone += 1;
                step.passed_by.append(&mut holding);
                step.last = *id;
            } else {
                return Step { more: false, ..step };
            }
        }
        if holding.is_empty() && whole {
            step.last = self.floor.0;
        } else if step.gone == 0 && !whole {
            // Nothing but what is held, as far as this step sees.
            step.last = holding.last().copied().unwrap_or(self.swept);
            step.passed_by = holding;
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_passed_by_only_on_the_way_to_what_goes() {
        let held = BTreeSet::from([2, 4]);
        let walk = Walk { swept: 0, floor: Sequence(9), aged: 0, beyond: 2 };
        let step = walk.step(&[1, 2, 3, 4, 5], &held, true);
        assert_eq!(step, Step { gone: 2, last: 3, passed_by: vec![2], more: false });
        let walk = Walk { aged: 3, beyond: 0, ..walk };
        let step = walk.step(&[1, 2, 3, 4], &held, true);
        assert_eq!(step, Step { gone: 2, last: 3, passed_by: vec![2], more: false });
        let step = Walk { aged: 9, ..walk }.step(&[1, 2, 3], &held, true);
        assert_eq!(step, Step { gone: 2, last: 9, passed_by: vec![2], more: false });
        let step = Walk { aged: 9, ..walk }.step(&[2, 4], &held, false);
        assert_eq!(step, Step { gone: 0, last: 4, passed_by: vec![2, 4], more: true });
    }
}
