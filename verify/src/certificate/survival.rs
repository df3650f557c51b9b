//! The law of the response time of requests that come at random, as a survival probability.
//!
//! Look back from the arrival of a request at t: it is done within r exactly if for no s ≥ 0 what came in the last s, with
//! itself, is more than what the server can do from t − s to t + r. What comes is a compound Poisson process, whichever way one
//! looks; what the server can do is a function of time alone:
//!
//! - a deferrable server above all others: of each period what of it is in the window, but no more than the budget;
//! - beside others: the budget at the end of each period that begins in the window, for work that came before.
//!
//! So Pr{R ≤ r} is the probability that a random walk never rises above a line that is given, averaged over the place of t in its
//! period. It needs neither the unfinished work of the queue nor transforms, which the planner computes by.
//!
//! Time and work are in slots. A window is taken a slot longer than it is, and survival from above; so what is found is at
//! least Pr{R ≤ r}, and at most Pr{R ≤ r + two slots}. Service times that are no whole slots are split between the two next to
//! them, by their mean: the work of k requests is off by √k/2 slots then. Where a budget is a whole number of equal requests it
//! would be too little half of the time, so the server is taken to do √k slots more in all.

use super::broken::Broken;
use giusto_model::Arrivals;

/// Work in slots and its probability, ascending.
type Pmf = Vec<(usize, f64)>;

/// What is asked: requests that take each of the times (in ns) with its probability, and the server.
pub(super) struct Queue {
    pub(super) arrivals: Arrivals,
    pub(super) service: Vec<(u64, f64)>,
    pub(super) period: u64,
    pub(super) budget: u64,
    /// Above all others; else only sure of its budget by the end of each period.
    pub(super) alone: bool,
}

/// Slots in a period at most, and at least.
const MOST_SLOTS: u64 = 1000;
const FEWEST_SLOTS: u64 = 16;
/// Steps that take a second or two, and rounds that are reckoned with.
const MOST_STEPS: f64 = 2e9;
const ROUNDS: f64 = 200.0;
const MOST_ROUNDS: usize = 20_000;
/// Of the probability beyond a percentile: what is left out of the walk, and what survival may still fall by.
const LEFT_OUT: f64 = 3e-4;
/// Probabilities that no longer count.
const NOTHING: f64 = 1e-15;
/// Batches in a time that Panjer's recursion begins with: e^−500 is above the least number.
const PANJER: f64 = 500.0;

/// The law on a grid.
pub(super) struct Law {
    /// P and B in slots.
    period: usize,
    budget: usize,
    alone: bool,
    /// Length of a slot in ns.
    pub(super) slot: f64,
    /// Slots that the server is taken to do more in all.
    spare: usize,
    /// What comes in a slot.
    comes: Pmf,
    /// A request with those of its batch that are before it.
    request: Pmf,
    /// Probability that so much room at the beginning of a period is enough for all that came before it.
    survives: Vec<f64>,
}

impl Law {
    /// For percentiles of which the largest leaves out `beyond`. U < B/P.
    pub(super) fn new(queue: &Queue, beyond: f64) -> Result<Law, Broken> {
        let depth = -(LEFT_OUT * beyond).ln() / queue.decay();
        let slots = queue.slots(depth)?;
        let slot = queue.period as f64 / slots as f64;
        let (period, budget) = (slots as usize, (queue.budget as f64 / slot - 1e-9).ceil() as usize);
        let (batch, request) = queue.on_grid(slot);
        let longest = batch.last().map_or(1, |(work, _)| *work);
        let states = (depth / slot) as usize + budget + longest;
        let often = queue.arrivals.rate.per_ns() * slot;
        let comes = compound(&batch, often, states);
        let requests = depth / queue.service.iter().map(|(time, p)| *time as f64 * p).sum::<f64>();
        let spare = if queue.is_whole(slot) { 0 } else { requests.sqrt().ceil() as usize };
        let survives = vec![1.0; states + 1];
        let mut law = Law { period, budget, alone: queue.alone, slot, spare, comes, request, survives };
        let idle = compound(&batch, often * (period - budget) as f64, states);
        let whole = compound(&batch, often * period as f64, states + budget);
        // With this much room no time with budget is too short for what comes in it.
        let mut room = 1.0;
        let in_budget = compound(&batch, often * budget as f64, states);
        let free = in_budget.iter().find(|(_, p)| {
            room -= p;
            room < NOTHING.sqrt() * beyond
        });
        let near = if queue.alone { free.map_or(states, |(work, _)| *work + 1).min(states + 1) } else { 0 };
        let mut before = 0.0;
        for _ in 0..MOST_ROUNDS {
            let next = law.round(&idle, &whole, near);
            let moved = next.iter().zip(&law.survives).map(|(new, old)| old - new).fold(0.0, f64::max);
            law.survives = next;
            // It falls like a geometric series in the end.
            let ratio = if before > 0.0 { (moved / before).min(0.9999) } else { 0.9999 };
            if moved * ratio / (1.0 - ratio) < LEFT_OUT * beyond {
                return Ok(law);
            }
            before = moved;
        }
        Err(Broken::new("rounds until the law of its response times settles", format!("at most {MOST_ROUNDS}"), "more"))
    }

    /// Survival of one period more.
    fn round(&self, idle: &Pmf, whole: &Pmf, near: usize) -> Vec<f64> {
        // Walk back through the time without budget, then slot by slot through that with it, where that can matter.
        let mut walked = mean(idle, &self.survives, 1.0, 0, if near > 0 { near + self.budget } else { 0 });
        for left in (0..self.budget.min(walked.len())).rev() {
            walked = mean(&self.comes, &walked, 1.0, 1, near + left);
        }
        let far = mean(whole, &self.survives, 1.0, near + self.budget, self.survives.len().saturating_sub(near));
        walked.truncate(near);
        walked.extend(far);
        walked
    }

    /// How closely response times are known, in ns: as time, or as work of the server.
    pub(super) fn off(&self) -> f64 {
        (2 + self.spare) as f64 * self.slot
    }

    /// Pr{R ≤ `time` ns} at least.
    pub(super) fn within(&self, time: f64) -> f64 {
        self.within_each(&[time])[0]
    }

    /// The same of several times, which share most of the work.
    pub(super) fn within_each(&self, times: &[f64]) -> Vec<f64> {
        let ends: Vec<f64> = times.iter().map(|time| time / self.slot + 1.0).collect();
        let mut sums: Vec<f64> = ends.iter().map(|r| if self.alone { self.in_one_period(*r) } else { 0.0 }).collect();
        let (period, budget) = (self.period as f64, self.budget as f64);
        let mut walked = self.survives.clone();
        for n in 0..self.period {
            if n > 0 {
                let shift = usize::from(self.alone && n > self.period - self.budget);
                walked = mean(&self.comes, &walked, 1.0, shift, walked.len());
            }
            let at = |room: usize| walked.get(room).copied().unwrap_or(1.0);
            for (r, sum) in ends.iter().zip(&mut sums) {
                let end = n as f64 + r;
                if end <= period {
                    continue; // counted in one period; beside others there is nothing yet
                }
                let (periods, rest) = ((end / period).floor() - 1.0, end % period);
                let supply = match self.alone {
                    true => periods * budget + rest.min(budget) + budget.min(period - n as f64),
                    false => periods * budget + (rest - (period - budget)).max(0.0),
                };
                let supply = supply as usize + self.spare;
                *sum += reach(&self.request, supply).map(|(work, p)| p * at(supply - work)).sum::<f64>();
            }
        }
        sums.into_iter().map(|sum| sum / period).collect()
    }

    /// The part of those that are done in the period in which they come.
    fn in_one_period(&self, r: f64) -> f64 {
        let line = |n: usize| (r + n as f64).min(self.budget as f64) as usize + self.spare;
        let mut came = vec![0.0; line(0) + 1];
        reach(&self.request, line(0)).for_each(|(work, p)| came[work] += p);
        let mut sum = 0.0;
        for n in 0..self.period {
            if n as f64 + r > self.period as f64 {
                break;
            }
            let room = line(n);
            let survives = |work: usize| self.survives.get(room - work).copied().unwrap_or(1.0);
            sum += came.iter().enumerate().map(|(work, p)| p * survives(work)).sum::<f64>();
            let next = line(n + 1);
            came = mean(&self.comes, &came, 0.0, 0, next + 1);
        }
        sum
    }
}

/// What of `pmf` is at most `most`.
fn reach(pmf: &Pmf, most: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
    pmf.iter().copied().take_while(move |(work, _)| *work <= most)
}

/// Σ p · `of[at − work]` over work up to `at`, for `count` places `at` from `first` on; past its end `of` goes on as `beyond`. A
/// value of `pmf` at a time, for a part of the places that stays in a cache.
fn mean(pmf: &Pmf, of: &[f64], beyond: f64, first: usize, count: usize) -> Vec<f64> {
    const PART: usize = 1024;
    let mut sums = vec![0.0; count];
    for (part, sums) in sums.chunks_mut(PART).enumerate() {
        let first = first + part * PART;
        for &(work, p) in pmf {
            let skipped = work.saturating_sub(first);
            let Some(sums) = sums.get_mut(skipped..) else { break };
            let of = of.get(first + skipped - work..).unwrap_or_default();
            let (known, rest) = sums.split_at_mut(of.len().min(sums.len()));
            known.iter_mut().zip(of).for_each(|(sum, value)| *sum += p * value);
            rest.iter_mut().for_each(|sum| *sum += p * beyond);
        }
    }
    sums
}

impl Queue {
    /// The decay of the tail, in 1/ns: the positive root of λP(E e^(θC) − 1) = θB, C being the work of a batch. Independent
    /// requests: E e^(θC) is that of one to the power of the batch.
    fn decay(&self) -> f64 {
        let often = self.arrivals.rate.per_ns() * self.period as f64;
        let rises = |theta: f64| {
            let one: f64 = self.service.iter().map(|&(time, p)| p * (theta * time as f64).exp_m1()).sum();
            often * (f64::from(self.arrivals.batch) * one.ln_1p()).exp_m1() >= theta * self.budget as f64
        };
        let mut high = 1e-15;
        while !rises(high) {
            high *= 2.0;
        }
        let mut low = high / 2.0;
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            *(if rises(middle) { &mut high } else { &mut low }) = middle;
        }
        low
    }

    /// As many slots in a period as can be afforded, if possible such that the budget is a whole number of them, and all service
    /// times are, too.
    fn slots(&self, depth: f64) -> Result<u64, Broken> {
        let even = gcd(self.budget, self.period);
        let all = self.service.iter().fold(even, |all, (time, _)| gcd(all, *time));
        let (period, budget) = (self.period as f64, self.budget as f64);
        let longest = self.service.iter().map(|(time, _)| *time).max().unwrap_or(1) as f64;
        let batch = longest * f64::from(self.arrivals.batch);
        let steps = |slots: u64| {
            let slots = slots as f64;
            let in_slots = |time: f64| time / period * slots;
            let states = in_slots(depth + budget + batch);
            let often = 4.0 * self.service.len() as f64;
            let (some, many) = (in_slots(3.0 * batch).min(often) + 2.0, in_slots(depth).min(10.0 * often));
            let with_budget = if self.alone { in_slots(budget) * in_slots(budget + 6.0 * batch) * some } else { 0.0 };
            ROUNDS * (states * many + with_budget) + 2.0 * slots * states * some
        };
        let mut slots = MOST_SLOTS;
        while slots > FEWEST_SLOTS && steps(slots) > MOST_STEPS {
            slots = slots * 4 / 5;
        }
        if steps(slots) > 4.0 * MOST_STEPS {
            let needed = format!("at most {MOST_STEPS:.0}");
            return Err(Broken::new("steps to establish its response times", needed, format!("{:.0}", steps(slots))));
        }
        let whole = [all, even].map(|part| self.period / part).into_iter().find(|parts| *parts <= slots);
        Ok(whole.map_or(slots, |parts| slots / parts * parts))
    }

    fn is_whole(&self, slot: f64) -> bool {
        let part = |time: u64| (time as f64 / slot - (time as f64 / slot).round()).abs();
        self.service.iter().all(|(time, _)| part(*time) < 1e-6)
    }

    /// The work of a batch, and that of a request with those of its batch before it.
    fn on_grid(&self, slot: f64) -> (Pmf, Pmf) {
        let mut one = vec![0.0];
        for &(time, p) in &self.service {
            let slots = time as f64 / slot;
            let (whole, part) = ((slots + 1e-9) as usize, (slots - (slots + 1e-9).floor()).max(0.0));
            one.resize(one.len().max(whole + 2), 0.0);
            one[whole] += p * (1.0 - part);
            one[whole + 1] += p * part;
        }
        let one = sparse(&one);
        let (mut batch, mut request) = (vec![(0, 1.0)], Vec::new());
        for _ in 0..self.arrivals.batch {
            batch = sparse(&convolved(&batch, &one, usize::MAX));
            let last = batch.last().map_or(0, |(work, _)| *work);
            request.resize(last + 1, 0.0);
            batch.iter().for_each(|(work, p)| request[*work] += p / f64::from(self.arrivals.batch));
        }
        (batch, sparse(&request))
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn sparse(dense: &[f64]) -> Pmf {
    dense.iter().copied().enumerate().filter(|(_, p)| *p > NOTHING).collect()
}

/// The sum of both, up to `most`.
fn convolved(a: &Pmf, b: &Pmf, most: usize) -> Vec<f64> {
    let last = |pmf: &Pmf| pmf.last().map_or(0, |(work, _)| *work);
    let mut sum = vec![0.0; (last(a) + last(b)).min(most) + 1];
    for &(one, p) in a {
        reach(b, most.saturating_sub(one)).for_each(|(other, q)| {
            if let Some(sum) = sum.get_mut(one + other) {
                *sum += p * q;
            }
        });
    }
    sum
}

/// What comes in a time with so many batches on average, up to `most`: Panjer's recursion, g(n) = λ/n · Σ j f(j) g(n − j).
fn compound(batch: &Pmf, often: f64, most: usize) -> Pmf {
    let halvings = (often / PANJER).max(1.0).log2().ceil() as i32;
    let often = often / 2f64.powi(halvings);
    let nothing = batch.first().filter(|(work, _)| *work == 0).map_or(0.0, |(_, p)| *p);
    let mut comes = vec![(-often * (1.0 - nothing)).exp()];
    let mut after = 1.0 - comes[0];
    for n in 1..=most {
        let parts = reach(batch, n).map(|(work, p)| work as f64 * p * comes[n - work]);
        let p = often / n as f64 * parts.sum::<f64>();
        comes.push(p);
        after -= p;
        if after < NOTHING {
            break;
        }
    }
    let mut all = sparse(&comes);
    for _ in 0..halvings {
        all = sparse(&convolved(&all, &all, most));
    }
    all
}
