//! Budgets and periods to choose from, where a law of response times is computed for each.

use giusto_model::Duration;

/// Budgets are whole multiples of this or of a 200th of the period, whichever is more: the manager keeps them no finer.
pub(crate) const QUANTUM: Duration = Duration::from_us(100);
const PARTS: u64 = 200;
/// Periods to choose from, in ms, over and over, ten times as long each time.
const PERIODS: [u64; 8] = [10, 15, 20, 25, 30, 40, 60, 80];

/// Multiples of it divide the period.
pub(crate) fn quantum(period: Duration) -> Duration {
    QUANTUM.max(Duration::from_ns(period.ns() / PARTS))
}

/// Ascending, all within the bounds.
pub(crate) fn periods(shortest: Duration, longest: Duration) -> impl Iterator<Item = Duration> {
    let decades = (0..4).flat_map(|decade| PERIODS.map(|ms| Duration::from_ms(ms * 10u64.pow(decade))));
    std::iter::once(Duration::from_ms(5)).chain(decades).filter(move |p| (shortest..=longest).contains(p))
}
