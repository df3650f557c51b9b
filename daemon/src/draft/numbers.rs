//! From what a service did to what a site says that it has to do: rounded, with a margin, and small enough for a core.

use super::observed::Answered;
use giusto_measure::watch::{Pattern, Shape, Watched};
use giusto_model::Duration;

/// On top of what was observed: it was one stretch of time, and no proof.
const MARGIN: f64 = 1.2;
/// A demand that would take more of a core leaves no room for what a reservation costs.
const MOST: f64 = 0.6;
/// Response times that were seen are promised with this factor at least: few requests tell little of a percentile, and
/// a service may wait for more than a processor.
const BEYOND_ANSWERS: f64 = 1.5;

/// What a service has to do, and its promise.
#[derive(Clone, Debug, PartialEq)]
pub enum Demand {
    /// A job in every period.
    Tasks {
        /// Of a job.
        wcet: Duration,
        /// Between two jobs.
        period: Duration,
        /// Which activations take no more: `all`, or a quantile.
        covers: &'static str,
    },
    /// Requests at random.
    Arrivals {
        /// How often one comes, or a batch of them, in a second.
        rate: f64,
        /// How many at once.
        batch: u32,
        /// Processor time on average.
        mean: Duration,
        /// ... and at most.
        wcet: Duration,
        /// Which activations take no more: `all`, or a quantile.
        covers: &'static str,
        /// What 99 of 100 are promised; 9 of 10 the half.
        p99: Duration,
    },
    /// No reservation.
    Leftovers {
        /// Least share of a core, in percent.
        at_least: u32,
        /// Why no more.
        why: String,
    },
}

impl Demand {
    /// The part of a core that it takes where every job takes the most.
    pub(super) fn load(&self) -> f64 {
        match self {
            Demand::Tasks { wcet, period, .. } => wcet.ns() as f64 / period.ns().max(1) as f64,
            Demand::Arrivals { rate, batch, wcet, .. } => rate * f64::from(*batch) * wcet.ns() as f64 / 1e9,
            Demand::Leftovers { .. } => 0.0,
        }
    }

    /// Whether its promise leaves room for the response times of today.
    pub(super) fn promises_what_is_kept(&self, answered: Option<Answered>) -> bool {
        let (Demand::Arrivals { p99: promised, .. }, Some(Answered { p90, p99, .. })) = (self, answered) else {
            return true;
        };
        let enough = |promised: u64, seen: Duration| promised as f64 >= seen.ns() as f64 * BEYOND_ANSWERS;
        enough(promised.ns() / 2, p90) && enough(promised.ns(), p99)
    }

    /// With another promise, where it is about percentiles.
    pub(super) fn within(mut self, time: Duration) -> Demand {
        if let Demand::Arrivals { p99, .. } = &mut self {
            *p99 = time;
        }
        self
    }
}

/// The demand of what was observed, the promise of percentiles still to be found.
pub(super) fn demand(watched: &Watched, pattern: &Pattern) -> Demand {
    let load = watched.utilization();
    if load > MOST {
        let why = format!("it took {:.0} % of a core, more than a reservation on one core is good for", load * 100.0);
        return leftovers(load, &why);
    }
    // Threads that only help are no jobs, but take of the same budget.
    let margin = MARGIN * watched.overhead();
    let wcets = [(1.0, "all"), (0.999, "99.9 %"), (0.99, "99 %"), (0.9, "90 %")]
        .map(|(quantile, covers)| (up(watched.execution(quantile).ns() as f64 * margin), covers));
    // A quantile may be less than the mean where a few took very long.
    let mean = up(watched.mean().ns().max(1) as f64 * watched.overhead());
    let wcets = wcets.map(|(wcet, covers)| (wcet.max(mean), covers));
    // The largest that leaves the demand small enough.
    let fitting = |per_second: f64| wcets.into_iter().find(|(wcet, _)| wcet.ns() as f64 * per_second / 1e9 <= MOST);
    // As if alone is enforced by a reservation of one thread; percentiles by a server with all of them.
    if let (Shape::Periodic(period), true) = (&pattern.shape, watched.main_alone) {
        let period = period_of(*period);
        let fit = fitting(1e9 / period.ns() as f64);
        return match fit {
            Some((wcet, covers)) => Demand::Tasks { wcet, period, covers },
            None => leftovers(load, "its jobs take too much of their period for a reservation on one core"),
        };
    }
    let rate = pattern.rate;
    match fitting(rate) {
        Some((wcet, covers)) => {
            let batch = if let Shape::Bursty(batch) = pattern.shape { batch } else { 1 };
            let p99 = Duration::from_secs(1);
            Demand::Arrivals { rate: rate / f64::from(batch), batch, mean: mean.min(wcet), wcet, covers, p99 }
        }
        None => leftovers(load, "its requests take too long for their rate for a reservation on one core"),
    }
}

pub(super) fn leftovers(load: f64, why: &str) -> Demand {
    Demand::Leftovers { at_least: ((load * 100.0).ceil() as u32).clamp(1, 50), why: why.into() }
}

/// Rounded up to two digits.
fn up(ns: f64) -> Duration {
    let unit = 10f64.powi((ns.max(1.0).log10().floor() as i32 - 1).max(0));
    Duration::from_ns(((ns / unit).ceil() * unit) as u64)
}

/// A period in two digits where it is that to a hundredth, else rounded down to three: more often is on the safe side.
fn period_of(ns: u64) -> Duration {
    let digits = |count: i32| 10f64.powi(((ns.max(1) as f64).log10().floor() as i32 + 1 - count).max(0));
    let near = (ns as f64 / digits(2)).round() * digits(2);
    match (near - ns as f64).abs() <= ns as f64 / 100.0 {
        true => Duration::from_ns(near as u64),
        false => Duration::from_ns(((ns as f64 / digits(3)).floor() * digits(3)) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_to_the_safe_side() {
        let rounded = |ns: f64| up(ns).ns();
        assert_eq!([0.0, 7.0, 99.0, 101.0, 47_300.0, 48_000.0].map(rounded), [0, 7, 99, 110, 48_000, 48_000]);
        let period = |ns| period_of(ns).ns();
        assert_eq!(
            [999_700, 1_004_000, 2_555_000, 40_010_000].map(period),
            [1_000_000, 1_000_000, 2_550_000, 40_000_000]
        );
    }
}
