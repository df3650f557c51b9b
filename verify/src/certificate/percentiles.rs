//! Percentiles: the law of the response times on the worst supply that the certificate allows, by another method than the
//! planner's ([`survival`](super::survival)).

use super::broken::Broken;
use super::survival::{Law, Queue};
use giusto_model::{Arrivals, Duration, PredictedPercentile, Server, ServerKind, ServiceTime, Within};

/// Of the probability beyond a percentile, what the planner's computation may be off, as it says itself.
const OFF: f64 = 0.01;

/// What is counted on.
pub(super) struct Counted {
    pub(super) server: Server,
    pub(super) budget: Duration,
    pub(super) latency: Duration,
    pub(super) wait: Duration,
}

/// Whether all `points` are kept; how closely that was established.
pub(super) fn check(
    points: &[Within],
    arrivals: Arrivals,
    service: &ServiceTime,
    counted: &Counted,
    predicted: &[PredictedPercentile],
) -> Result<Duration, Broken> {
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
    let service: Vec<(u64, f64)> = service.bound().into_iter().map(|(time, p)| (time.ns(), p)).collect();
    let some = !service.is_empty() && service.iter().all(|(time, p)| *time > 0 && *p > 0.0);
    if !some || arrivals.rate.is_zero() || arrivals.batch == 0 {
        return Err(Broken::new("requests that take time", "some", "none"));
    }
    let mean: f64 = service.iter().map(|(time, p)| *time as f64 * p).sum();
    let (load, share) =
        (arrivals.rate.per_ns() * f64::from(arrivals.batch) * mean, budget.ns() as f64 / server.period.ns() as f64);
    if load >= share * (1.0 - 1e-6) {
        return Err(Broken::new("bandwidth for all requests", load, share));
    }
    let beyond = |one: &PredictedPercentile| 1.0 - one.percentile.percent() / 100.0;
    let (period, budget, alone) = (server.period.ns(), budget.ns(), wait.is_zero());
    let least = predicted.iter().map(beyond).fold(1.0, f64::min);
    let law = Law::new(&Queue { arrivals, service, period, budget, alone }, least)?;
    for told in predicted {
        let found = law.within(told.at.ns().saturating_sub(latency.ns()) as f64);
        if 1.0 - found > beyond(told) * (1.0 + OFF) {
            let what = format!("requests within {}", told.at);
            let found = format!("{:.4} %", 100.0 * found);
            return Err(Broken::new(what, format!("{} %", told.percentile.percent()), found));
        }
    }
    Ok(Duration::from_ns(law.off().ceil() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;
    use rand_chacha::{rand_core::SeedableRng, ChaCha8Rng};

    /// Period and budget, rate and batch, service times with their probabilities, and times at which to compare, in us.
    type Case = (u64, u64, &'static str, u32, Vec<(u64, f64)>, [u64; 3]);

    /// Between what is found for a time and for one shorter by what it may be off lies what is counted of a million requests
    /// that are played to the nanosecond; chance may move that by five standard errors over groups.
    #[test]
    fn the_law_is_that_of_requests_that_are_served_one_after_the_other() {
        const GROUPS: usize = 40;
        const EACH: usize = 25_000;
        let cases: [Case; 7] = [
            (40_000, 14_600, "200/s", 1, vec![(1_500, 1.0)], [3_000, 11_600, 36_400]),
            (10_000, 4_000, "300/s", 1, vec![(1_000, 1.0)], [1_500, 9_000, 20_000]),
            // Whole requests in the budget of some periods; in the second one their time is no whole slots.
            (60_000, 7_500, "100/s", 1, vec![(1_000, 1.0)], [14_000, 15_530, 58_050]),
            (60_000, 7_400, "270/s", 1, vec![(370, 1.0)], [3_000, 10_000, 20_000]),
            (20_000, 9_000, "100/s", 3, vec![(1_000, 1.0)], [3_500, 16_000, 40_000]),
            (10_000, 5_000, "400/s", 1, vec![(300, 0.5), (770, 0.4), (3_100, 0.1)], [2_000, 8_000, 15_000]),
            (10_000, 9_500, "400/s", 2, vec![(1_000, 1.0)], [2_500, 12_000, 30_000]),
        ];
        for (period, budget, rate, batch, service, times) in cases {
            for alone in [true, false] {
                let us = |us: u64| us * 1000;
                let (period, budget) = (us(period), us(budget));
                let service: Vec<(u64, f64)> = service.iter().map(|&(time, p)| (us(time), p)).collect();
                let arrivals = Arrivals { rate: rate.parse().unwrap(), batch };
                let law = Law::new(&Queue { arrivals, service: service.clone(), period, budget, alone }, 0.01).unwrap();
                let values: Vec<u64> =
                    service.iter().flat_map(|&(time, p)| vec![time; (p * 100.0).round() as usize]).collect();
                let mut play = Play::new(arrivals, &values, period, budget, alone);
                (0..EACH).for_each(|_| {
                    play.next();
                });
                let times = times.map(|time| us(time) + if alone { 0 } else { period });
                let mut parts = [(); 3].map(|()| Vec::new());
                for _ in 0..GROUPS {
                    let mut counts = [0u32; 3];
                    for _ in 0..EACH {
                        let response = play.next();
                        counts.iter_mut().zip(times).for_each(|(count, time)| *count += u32::from(response <= time));
                    }
                    parts.iter_mut().zip(counts).for_each(|(part, count)| {
                        part.push(f64::from(count) / EACH as f64);
                    });
                }
                for (part, time) in parts.iter().zip(times) {
                    let mean = part.iter().sum::<f64>() / GROUPS as f64;
                    let spread = part.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (GROUPS - 1) as f64;
                    let chance = 5.0 * (spread / GROUPS as f64).sqrt() + 1e-5;
                    let most = law.within(time as f64);
                    let least = law.within((time as f64 - law.off()).max(0.0));
                    let told = format!("{period} {budget} {rate} {alone} {time}: {least} ≤ {mean} ± {chance} ≤ {most}");
                    println!("{told}");
                    // Where work is rounded the server is taken to do more than it does.
                    let close = match law.off() > 2.0 * law.slot {
                        true => most < mean + chance + 0.25 * (1.0 - mean),
                        false => least < mean + chance,
                    };
                    assert!(most > mean - chance && close, "{told}");
                }
            }
        }
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
        fn new(arrivals: Arrivals, values: &'a [u64], period: u64, budget: u64, alone: bool) -> Self {
            Play {
                rng: ChaCha8Rng::seed_from_u64(4),
                gap_ns: 1.0 / arrivals.rate.per_ns(),
                batch: arrivals.batch,
                values,
                period,
                budget,
                alone,
                came: 0.0,
                left: 0,
                free: 0,
                rest: budget,
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

    #[test]
    fn budgets_are_kept_while_idle_alone_and_come_last_beside_others() {
        let rare = Arrivals { rate: "1/s".parse().unwrap(), batch: 1 };
        // (came, work) one after the other, and when each is done.
        let jobs = [(4, 2), (5, 2), (18, 4), (39, 4)];
        let mut alone = Play::new(rare, &[1], 10, 3, true);
        let done = jobs.map(|(came, work)| {
            alone.free = alone.at_once(came, work);
            alone.free
        });
        // 4..6; 6..7, 10..11; 18..20 with the two that are left of that period, 20..22; 39..40, 40..43.
        assert_eq!(done, [6, 11, 22, 43]);
        let mut beside = Play::new(rare, &[1], 10, 3, false);
        let done = jobs.map(|(came, work)| {
            beside.free = beside.at_the_end(came, work);
            beside.free
        });
        // 17..19; 19..20, 27..28; 28..30 and 37..39; 47..50 and 57..58.
        assert_eq!(done, [19, 28, 39, 58]);
    }
}
