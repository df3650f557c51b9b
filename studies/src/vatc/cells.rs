//! Cells of tables that are measured here: tries, and pings in ms.

use crate::Error;
use giusto_measure::packets::Pings;

/// Most of both cores' time that may be stolen in a cell; one with more is measured again, three times at most.
const STOLEN: u64 = 20;
const TRIES: usize = 3;

/// The try of which least was stolen.
pub(crate) fn quiet<T>(mut cell: impl FnMut() -> Result<(T, u64), Error>) -> Result<T, Error> {
    let mut best: Option<(T, u64)> = None;
    for _ in 0..TRIES {
        let now = cell()?;
        let found = best.take().filter(|best| best.1 <= now.1).unwrap_or(now);
        if found.1 <= STOLEN {
            return Ok(found.0);
        }
        best = Some(found);
    }
    best.map(|best| best.0).ok_or_else(|| Error::machine("nothing was measured"))
}

/// In ms; one that was lost took as long as it was waited for. 100: the longest.
pub(crate) fn percentile_ms(pings: &Pings, percent: f64) -> f64 {
    pings.percentile(percent).map_or(2_000.0, |ns| ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_the_last_one_and_a_lost_one_is_longer_than_any() {
        let mut pings = Pings { trips: (1..=100).map(|ms| ms * 1_000_000).collect(), lost: 0, latest: 0 };
        assert_eq!((percentile_ms(&pings, 95.0), percentile_ms(&pings, 100.0)), (95.0, 100.0));
        pings.lost = 1;
        assert_eq!(percentile_ms(&pings, 100.0), 2_000.0);
    }
}
