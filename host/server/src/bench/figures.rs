//! Medians and percentiles of what was measured.

use std::time::Duration;

/// The value below which `share` (0 to 1) of `values` lie; nothing of nothing.
pub(crate) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 0..=last")]
    let at = (share.clamp(0.0, 1.0) * last as f64).round() as usize;
    sorted.get(at).copied()
}

/// The middle one.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 0.5)
}

/// Without a fraction: more digits than the measure is worth.
pub(super) fn whole(value: Option<f64>) -> Option<f64> {
    value.map(f64::round)
}

/// So many things in `span`, a second.
pub(super) fn rate(count: usize, span: Duration) -> f64 {
    count as f64 / span.as_secs_f64().max(1e-9)
}

/// Milliseconds, to a thousandth.
pub(super) fn millis(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e3
}

/// Something measured beside its reference, round by round.
#[derive(Debug, Clone, Default)]
pub(super) struct Pairs {
    pub ours: Vec<f64>,
    pub bare: Vec<f64>,
}

impl Pairs {
    /// One round's.
    pub(super) fn push(&mut self, ours: f64, bare: f64) {
        self.ours.push(ours);
        self.bare.push(bare);
    }

    /// The median of the rounds' ratios. A disk that changes its speed during the run changes both
    /// sides of a round alike, so this is steadier than the ratio of the medians.
    pub(super) fn ratio(&self) -> Option<f64> {
        let ratios: Vec<f64> =
            self.ours.iter().zip(&self.bare).map(|(ours, bare)| ours / bare).collect();
        median(&ratios).map(|ratio| (ratio * 1e3).round() / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_values_given() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(median(&values), Some(3.0));
        assert_eq!(percentile(&values, 1.0), Some(5.0));
        assert_eq!(percentile(&values, 0.0), Some(1.0));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN, 7.0]), Some(7.0));
    }

    #[test]
    fn a_ratio_is_taken_within_each_round() {
        let mut pairs = Pairs::default();
        for (ours, bare) in [(90.0, 100.0), (9.0, 10.0), (8.0, 10.0)] {
            pairs.push(ours, bare);
        }
        assert_eq!(pairs.ratio(), Some(0.9));
    }
}
