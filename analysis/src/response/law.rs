//! From the unfinished work at the start of a period to the response time of a job.

use super::chain::{Chain, Job, Unfinished};
use std::collections::BTreeMap;

/// A distribution of response times in slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Law {
    /// Pr{R ≤ x}, atoms included, up to where it ends, or goes on as `falls` says.
    pub(super) up_to: Vec<f64>,
    /// Pr{R > x + P} = Pr{R > x}·e^(−this) over the last P slots and beyond; `None`: nothing is beyond.
    pub(super) falls: Option<f64>,
    /// Jobs that ran at once and without a stop but at the ends of budgets.
    pub(super) atoms: Vec<Atom>,
}

/// So many jobs have exactly this response time: what they wait for, and gaps between budgets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Atom {
    /// Which of the chain's jobs.
    pub(super) job: usize,
    /// How many gaps.
    pub(super) gaps: usize,
    /// Pr
    pub(super) p: f64,
}

impl Law {
    /// Deferrable server: F_DS (eqs. 4.11, 4.13), by Theorem 5 instead of the joint law of work and budget of Algorithm 2.
    ///
    /// Let a job of c come in slot n. Theorem 5 holds for any length T of the period: what is unfinished at T is what is under a
    /// server that spends its budget last, from T − B on. And what comes later does not delay the job.
    /// - It is not done when the period ends if y = l + c − min(B, P − n) > 0, l being the work that the periodic server with
    ///   its budget last has in slot n. Then R = (P − n) + y + (⌈y/B⌉ − 1)(P − B).
    /// - It is done within x ≤ B slots, within the period, if l + c ≤ x, l being the work in slot n of a server that is off until
    ///   T − B = n + x − B and then on: for B − x slots. Summed over all n this is *one* distribution for each x, that of work
    ///   that waited any number of slots up to P − B and was then served for B − x; those with n + x < B never waited.
    pub(super) fn deferrable(chain: &Chain, unfinished: &Unfinished) -> Law {
        let (period, budget) = (chain.period, chain.budget);
        let mut tally = Tally::new(chain);
        let mut waited = vec![0.0; budget + 1]; // Σ over the slots without budget, and the first with it
        let mut within = vec![0.0; budget + 1]; // first: done by the end of the period, come x slots before it or later
        each_slot(chain, &unfinished.shares, |n, work| {
            let left = period - n;
            tally.later(work, budget.min(left), left, left <= budget);
            if left >= budget {
                waited.iter_mut().zip(work).for_each(|(sum, l)| *sum += l);
            } else {
                within[left + 1] += chain.done(&sums(&work[..=left.min(work.len() - 1)]), left);
            }
        });
        let mut sum = 0.0;
        within.iter_mut().for_each(|by| {
            sum += *by;
            *by = sum;
        });
        tally.within(&mut within, waited, &unfinished.shares);
        tally.law(Some(within), period as f64).beyond(chain, unfinished)
    }

    /// Periodic server. Where in its period the budget lies does not matter: Poisson arrivals look the same from everywhere.
    pub(super) fn periodic(chain: &Chain, unfinished: &Unfinished) -> Law {
        let (period, budget) = (chain.period, chain.budget);
        let mut tally = Tally::new(chain);
        each_slot(chain, &unfinished.shares, |n, work| {
            let wait = (period - budget).saturating_sub(n);
            let first = budget.min(period - n);
            for (job, &Job { slots, p, .. }) in chain.jobs.iter().enumerate() {
                let last = (first + 1).saturating_sub(slots).min(work.len());
                tally.add(wait + slots, &work[..last], p);
                if wait == 0 && last > 0 {
                    tally.atom(job, 0, p * work[0]);
                }
            }
            tally.later(work, first, wait + first + period - budget, wait == 0);
        });
        tally.law(None, period as f64).beyond(chain, unfinished)
    }

    /// Where what was unfinished goes on beyond what is known of it, so does the law: a turn of B more is a period more.
    ///
    /// A job with y left has R from y + (⌈y/B⌉ − 1)(P − B) to 2P more than that. As a slot of budget takes a state off the
    /// end, the last 2B of y are not complete.
    fn beyond(mut self, chain: &Chain, unfinished: &Unfinished) -> Law {
        let Some(decay) = unfinished.decay else { return self };
        let (period, budget) = (chain.period, chain.budget);
        let complete = unfinished.shares.len() - 2 * budget - 1;
        let end = complete + (complete.div_ceil(budget) - 1) * (period - budget);
        self.up_to.truncate(end + 1);
        self.falls = Some(decay * budget as f64);
        self
    }
}

/// What is being added up, over the slots of a period, or of all that a job may find.
pub(super) struct Tally<'a> {
    chain: &'a Chain,
    /// Pr{R = x}, times the slots.
    density: Vec<f64>,
    /// By job and gaps.
    atoms: BTreeMap<(usize, usize), f64>,
}

impl<'a> Tally<'a> {
    pub(super) fn new(chain: &'a Chain) -> Self {
        Tally { chain, density: Vec::new(), atoms: BTreeMap::new() }
    }

    /// `density[at + i] += p · from[i]`
    pub(super) fn add(&mut self, at: usize, from: &[f64], p: f64) {
        if self.density.len() < at + from.len() {
            self.density.resize(at + from.len(), 0.0);
        }
        self.density[at..].iter_mut().zip(from).for_each(|(to, share)| *to += p * share);
    }

    pub(super) fn atom(&mut self, job: usize, gaps: usize, p: f64) {
        *self.atoms.entry((job, gaps)).or_default() += p;
    }

    /// Jobs that need more than the `first` slots of budget: the rest of them begins `next` slots after their arrival. `at_once`:
    /// one that finds no work begins when it comes, so that only gaps come to its own work.
    pub(super) fn later(&mut self, work: &[f64], first: usize, next: usize, at_once: bool) {
        let (chain, gap) = (self.chain, self.chain.period - self.chain.budget);
        for (job, &Job { slots, p, .. }) in chain.jobs.iter().enumerate() {
            // y = l + slots − first > 0, in turns of B.
            let mut l = (first + 1).saturating_sub(slots);
            if l == 0 && at_once {
                let gaps = (next - first) / gap.max(1) + (slots - first - 1) / chain.budget;
                self.atom(job, gaps, p * work[0]);
            }
            while l < work.len() {
                let rest = l + slots - first;
                let turn = (rest - 1) / chain.budget;
                let end = (l + (turn + 1) * chain.budget - rest + 1).min(work.len());
                self.add(next + rest + turn * gap, &work[l..end], p);
                l = end;
            }
        }
    }

    /// Adds to `within[x]` the jobs that a deferrable server has done within x ≤ B slots, x slots or more before the period ends.
    fn within(&mut self, within: &mut [f64], waited: Vec<f64>, unfinished: &[f64]) {
        let (chain, budget) = (self.chain, self.chain.budget);
        let mut atoms = vec![0.0; chain.jobs.len()];
        let mut idle = |work: f64, shortest: usize, longest: usize| {
            for (job, atom) in chain.jobs.iter().zip(&mut atoms) {
                *atom += if (shortest..=longest).contains(&job.slots) { job.p * work } else { 0.0 };
            }
        };
        // Served for B − x slots after any wait.
        let (mut now, mut next) = (waited, vec![0.0; budget + 1]);
        for x in (1..=budget).rev() {
            within[x] += chain.done(&sums(&now[..=x]), x);
            idle(now[0], x, x);
            chain.slot(&now[..=x], &mut next[..=x], true); // right below x, which is all that is used
            std::mem::swap(&mut now, &mut next);
        }
        // Served from the start of the period: n + x < B.
        now.fill(0.0);
        let known = unfinished.len().min(budget + 1);
        now[..known].copy_from_slice(&unfinished[..known]);
        for longest in (2..=budget).rev() {
            let sums = sums(&now[..longest]);
            for (x, by) in within[..longest].iter_mut().enumerate() {
                *by += chain.done(&sums, x);
            }
            idle(now[0], 1, longest - 1);
            chain.slot(&now[..=longest], &mut next[..=longest], true);
            std::mem::swap(&mut now, &mut next);
        }
        for (job, p) in atoms.into_iter().enumerate() {
            self.atom(job, 0, p);
        }
    }

    /// Divides by the `slots` that were looked at and adds up; `within` is what is not in the density.
    pub(super) fn law(mut self, within: Option<Vec<f64>>, slots: f64) -> Law {
        let each = 1.0 / slots;
        let within = within.unwrap_or_else(|| vec![0.0]);
        self.density.resize(self.density.len().max(within.len()), 0.0);
        let mut sum = 0.0;
        let up_to = self.density.iter().enumerate().map(|(x, p)| {
            sum += p;
            (sum + within.get(x).or(within.last()).unwrap_or(&0.0)) * each
        });
        let up_to = up_to.collect();
        let there = self.atoms.into_iter().filter(|(_, p)| *p > 0.0);
        Law { up_to, falls: None, atoms: there.map(|((job, gaps), p)| Atom { job, gaps, p: p * each }).collect() }
    }
}

/// Walks the period of the periodic server with its budget last, and shows the work at the start of each slot.
fn each_slot(chain: &Chain, unfinished: &[f64], mut see: impl FnMut(usize, &[f64])) {
    let (mut now, mut next) = (unfinished.to_vec(), vec![0.0; unfinished.len()]);
    for n in 0..chain.period {
        see(n, &now);
        chain.slot(&now, &mut next, n >= chain.period - chain.budget);
        std::mem::swap(&mut now, &mut next);
    }
}

/// Σ of all up to each place.
fn sums(values: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |value: &f64| {
        sum += value;
        sum
    };
    values.iter().map(add).collect()
}
