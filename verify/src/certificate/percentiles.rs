//! Percentiles: requests are played on the worst supply that the certificate allows, by other means than those that computed it.
//!
//! No law of queues is used: arrivals are drawn, and each request is served in turn, to the nanosecond. Alone on a core the
//! server runs whenever it has work and budget. Beside others it is sure only of its budget by the end of each period, for
//! work that was there at the start of it; so that is all that it gets here, at the very end. What is found varies by chance:
//! only a point that is missed beyond what chance explains is no proof.

use super::broken::Broken;
use giusto_model::{Arrivals, Duration, PredictedPercentile, Server, ServerKind, ServiceTime, Within};
use rand::Rng;
use rand_chacha::{rand_core::SeedableRng, ChaCha8Rng};

/// Requests played, in groups whose spread tells chance.
const GROUPS: usize = 10;
const EACH: usize = 25_000;
/// Standard errors that chance explains.
const CHANCE: f64 = 5.0;
/// Of the probability beyond a percentile, what a computation on a grid may be off.
const GRID: f64 = 0.1;

/// What is counted on.
pub(super) struct Counted {
    pub(super) server: Server,
    pub(super) budget: Duration,
    pub(super) latency: Duration,
    pub(super) wait: Duration,
}

/// Whether all `points` are kept; how many requests were played.
pub(super) fn check(
    points: &[Within],
    arrivals: Arrivals,
    service: &ServiceTime,
    counted: &Counted,
    predicted: &[PredictedPercentile],
) -> Result<usize, Broken> {
    let Counted { server, budget, latency, wait } = counted;
    if server.kind != ServerKind::Deferrable {
        return Err(Broken::new("a server whose response times are known", ServerKind::Deferrable, server.kind));
    }
    if !wait.is_zero() && *wait != server.period {
        return Err(Broken::new("the wait beside others", server.period, wait));
    }
    if points.is_empty() || points.len() != predicted.len() {
        return Err(Broken::new("a prediction for each percentile", points.len(), predicted.len()));
    }
    for (point, told) in points.iter().zip(predicted) {
        if point.percentile != told.percentile || told.at > point.within {
            return Err(Broken::new(
                "a percentile that was promised",
                point,
                format!("{} ≤ {}", told.percentile, told.at),
            ));
        }
    }
    let values = service.samples();
    if values.is_empty() || values.contains(&0) || arrivals.rate.is_zero() || arrivals.batch == 0 {
        return Err(Broken::new("requests that take time", "some", "none"));
    }
    let mean = values.iter().map(|ns| *ns as f64).sum::<f64>() / values.len() as f64;
    let (load, share) =
        (arrivals.rate.per_ns() * f64::from(arrivals.batch) * mean, budget.ns() as f64 / server.period.ns() as f64);
    if load >= share {
        return Err(Broken::new("bandwidth for all requests", load, share));
    }
    let limits: Vec<u64> = predicted.iter().map(|told| told.at.ns().saturating_sub(latency.ns())).collect();
    let mut play = Play::new(arrivals, &values, counted);
    // Until it no longer matters that it began idle.
    for _ in 0..EACH {
        play.next();
    }
    let mut within = vec![Vec::with_capacity(GROUPS); limits.len()];
    for _ in 0..GROUPS {
        let mut counts = vec![0u32; limits.len()];
        for _ in 0..EACH {
            let response = play.next();
            counts.iter_mut().zip(&limits).for_each(|(count, limit)| *count += u32::from(response <= *limit));
        }
        within.iter_mut().zip(counts).for_each(|(groups, count)| groups.push(f64::from(count) / EACH as f64));
    }
    for (groups, told) in within.iter().zip(predicted) {
        let mean = groups.iter().sum::<f64>() / GROUPS as f64;
        let spread = groups.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (GROUPS - 1) as f64;
        let p = told.percentile.percent() / 100.0;
        let most = mean + CHANCE * (spread / GROUPS as f64).sqrt() + GRID * (1.0 - p);
        if most < p {
            let found = format!("{:.3} %", 100.0 * mean);
            let what = format!("requests within {}", told.at);
            return Err(Broken::new(what, format!("{} %", told.percentile.percent()), found));
        }
    }
    Ok(GROUPS * EACH)
}

/// The queue, first come, first served.
struct Play<'a> {
    rng: ChaCha8Rng,
    gap_ns: f64,
    batch: u32,
    values: &'a [u64],
    period: u64,
    budget: u64,
    alone: bool,
    /// When the last batch came, and how many of it are still to be handed out.
    came: f64,
    left: u32,
    /// When the request before was done, and what was left of the budget then.
    free: u64,
    rest: u64,
}

impl<'a> Play<'a> {
    fn new(arrivals: Arrivals, values: &'a [u64], counted: &Counted) -> Self {
        Play {
            rng: ChaCha8Rng::seed_from_u64(4),
            gap_ns: 1.0 / arrivals.rate.per_ns(),
            batch: arrivals.batch,
            values,
            period: counted.server.period.ns(),
            budget: counted.budget.ns(),
            alone: counted.wait.is_zero(),
            came: 0.0,
            left: 0,
            free: 0,
            rest: counted.budget.ns(),
        }
    }

    /// Serves the next request; its response time.
    fn next(&mut self) -> u64 {
        if self.left == 0 {
            self.left = self.batch;
            self.came += -self.gap_ns * (1.0 - self.rng.random::<f64>()).ln();
        }
        self.left -= 1;
        let work = self.values[self.rng.random_range(0..self.values.len())];
        let came = self.came as u64;
        self.free = if self.alone { self.at_once(came, work) } else { self.at_the_end(came, work) };
        self.free - came
    }

    /// By a deferrable server above all others.
    fn at_once(&mut self, came: u64, mut work: u64) -> u64 {
        let mut now = self.free.max(came);
        if now / self.period > self.free / self.period {
            self.rest = self.budget;
        }
        loop {
            let end = (now / self.period + 1) * self.period;
            let run = work.min(self.rest).min(end - now);
            (now, work, self.rest) = (now + run, work - run, self.rest - run);
            if now == end {
                self.rest = self.budget;
            }
            if work == 0 {
                return now;
            }
            if self.rest == 0 {
                (now, self.rest) = (end, self.budget);
            }
        }
    }

    /// At the end of periods that began after it came.
    fn at_the_end(&mut self, came: u64, mut work: u64) -> u64 {
        let gap = self.period - self.budget;
        let mut now = self.free.max((came / self.period + 1) * self.period + gap);
        loop {
            now = now.max(now / self.period * self.period + gap);
            let end = (now / self.period + 1) * self.period;
            let run = work.min(end - now);
            (now, work) = (now + run, work - run);
            if work == 0 {
                return now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(wait: u64, values: &[u64]) -> Play<'_> {
        let server =
            Server { kind: ServerKind::Deferrable, budget: Duration::from_ns(3), period: Duration::from_ns(10) };
        let (budget, wait) = (server.budget, Duration::from_ns(wait));
        let counted = Counted { server, budget, latency: Duration::ZERO, wait };
        Play::new(Arrivals { rate: "1/s".parse().unwrap(), batch: 1 }, values, &counted)
    }

    #[test]
    fn budgets_are_kept_while_idle_alone_and_come_last_beside_others() {
        // (came, work) one after the other, and when each is done.
        let jobs = [(4, 2), (5, 2), (18, 4), (39, 4)];
        let mut alone = play(0, &[1]);
        let done = jobs.map(|(came, work)| {
            alone.free = alone.at_once(came, work);
            alone.free
        });
        // 4..6; 6..7, 10..11; 18..20 with the two that are left of that period, 20..22; 39..40, 40..43.
        assert_eq!(done, [6, 11, 22, 43]);
        let mut beside = play(10, &[1]);
        let done = jobs.map(|(came, work)| {
            beside.free = beside.at_the_end(came, work);
            beside.free
        });
        // 17..19; 19..20, 27..28; 28..30 and 37..39; 47..50 and 57..58.
        assert_eq!(done, [19, 28, 39, 58]);
    }
}
