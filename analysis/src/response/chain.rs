//! The discrete queue: a slotted budget, and the stationary unfinished work at the start of its periods.

use super::roots::{outside, Polynomial};
use crate::Error;
use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use std::cell::RefCell;
use std::f64::consts::TAU;
use std::sync::Arc;

/// Work that may come in one slot: so many slots of it with so much probability. Sparse, ascending, Σ = 1.
pub(super) type Pmf = Vec<(usize, f64)>;

/// B/G(DS)/1 and B/G(PS)/1 [LiH21, § 4.1]: in each slot one arrival with probability η, just after the slot begins; a slot
/// of budget does a slot of work.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// P in slots.
    pub(super) period: usize,
    /// B in slots, 1 to P.
    pub(super) budget: usize,
    /// η.
    pub(super) arrival: f64,
    /// Work of one arrival, a batch as a whole.
    pub(super) work: Pmf,
    /// What a job waits for from its arrival on, beside the work it finds. Ascending, Σ p = 1.
    pub(super) jobs: Vec<Job>,
}

/// A job and those of its batch that are before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// Their work, on the grid.
    pub(super) slots: usize,
    /// How many of all jobs are so.
    pub(super) p: f64,
    /// Their work itself, where it is not that many slots but was put on the grid.
    pub(super) ns: f64,
}

/// States kept: what is beyond has a probability of about e⁻²⁴ (4·10⁻¹¹).
const DEPTH: f64 = 24.0;
/// The circle that is inverted on is R^0.2, R > 1 being the nearest pole: clear of the roots on the unit circle that lattices
/// have, and errors fall towards the tail. What folds over is e^(−0.8·24) of the value it falls on.
const CIRCLE: f64 = 0.2;
/// Most states of one distribution.
const MOST_STATES: f64 = 2e7;

impl Chain {
    /// λ times the mean work: how much of a slot is asked for in a slot.
    pub(super) fn load(&self) -> f64 {
        self.arrival * mean(&self.work)
    }

    /// Pr{l + c ≤ x}, with `sums[l]` = Pr{work ≤ l} for l < x at least.
    pub(super) fn done(&self, sums: &[f64], x: usize) -> f64 {
        let fits = self.jobs.iter().take_while(|job| job.slots <= x);
        fits.map(|job| job.p * sums[(x - job.slots).min(sums.len() - 1)]).sum()
    }

    /// ln a(e^s) for real s, a being the generating function of the work of one slot.
    fn log_arrivals(&self, s: f64) -> f64 {
        let excess: f64 = self.work.iter().map(|&(slots, p)| p * (s * slots as f64).exp_m1()).sum();
        (self.arrival * excess).ln_1p()
    }

    /// The decay of the tail: P(V > l) falls like e^(−decay · l). The positive root of P · ln a(e^s) = B · s.
    pub(super) fn decay(&self) -> f64 {
        let (period, budget) = (self.period as f64, self.budget as f64);
        let rises = |s: f64| period * self.log_arrivals(s) >= budget * s; // convex, below 0 right of 0
        let mut high = 1e-9;
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

    /// How much work must be told apart from less, so that what is beyond can be left out.
    pub(super) fn states(&self, decay: f64) -> f64 {
        DEPTH / decay
    }

    /// Pr{V = l}: the work that is unfinished when a period begins, the same under a deferrable server and under a periodic one
    /// that has its budget at the end of its period (Theorem 5, Corollary 9). Replaces the iteration of Algorithm 1 by its fixed
    /// point. O(B · M + M log M) for M states.
    ///
    /// Let a(z) be the generating function of the work of a slot, y = a(z)/z, and x_n the probability of an idle slot n of the
    /// budget. P − B slots multiply V(z) by a; one slot of budget makes y·V + (1 − 1/z)·x_n of V. So in the steady state
    ///
    /// V(z)·(1 − a^(P−B)·y^B) = (1 − 1/z) · Σ x_n y^(B−1−n).
    ///
    /// The sum is a polynomial in y of degree B − 1, and it vanishes where the left side does: at the B − 1 roots z_k ≠ 1 of
    /// z^B = a(z)^P in the closed unit disk. Hence it is c · Π (y − y(z_k)), with c from V(1) = 1.
    pub(super) fn unfinished(&self) -> Result<Vec<f64>, Error> {
        let decay = self.decay();
        let most = self.work.last().map_or(0, |&(slots, _)| slots);
        let states = self.states(decay).max((2 * self.budget + 4 * most) as f64);
        if states > MOST_STATES {
            return Err(Error::Fine { states: states as u64 });
        }
        let states = smooth(states as usize);
        let radius = (CIRCLE * decay).exp();
        let (forward, inverse) = transforms(states);
        let circle = unit_circle(states);
        let mut points = self.on_circle(&*forward, &circle, radius);
        let Chain { period, budget, arrival, ref work, .. } = *self;
        multiply(&mut points, &outside(&Polynomial { period, budget, arrival, work })?);
        let (period, budget) = (self.period as f64, self.budget as f64);
        let scale = budget - period * self.load(); // the derivative of the left factor at 1, and of the right one's (1 − 1/z)
        let shrink = (-budget * radius.ln()).exp();
        let mut turns = 0;
        let mut value = |(point, turn): (&At, &Complex<f64>)| {
            let back = circle[turns].conj() * shrink; // z^(−B)
            turns = (turns + self.budget) % states;
            let returns = point.a.powu(self.period as u32) * back;
            (1.0 - turn.conj() / radius) * point.product * scale / (1.0 - returns)
        };
        let mut values: Vec<Complex<f64>> = points.iter().zip(&circle).map(&mut value).collect();
        // What a real transform has no imaginary part in.
        values[0].im = 0.0;
        if let (true, Some(last)) = (states.is_multiple_of(2), values.last_mut()) {
            last.im = 0.0;
        }
        let mut shares = inverse.make_output_vec();
        inverse.process(&mut values, &mut shares).map_err(|_| Error::Fine { states: states as u64 })?;
        let (mut power, step) = (1.0 / states as f64, 1.0 / radius);
        for share in &mut shares {
            *share = (*share * power).max(0.0); // rounding
            power *= step;
        }
        Ok(shares)
    }

    /// y and a at z = radius · e^(−2πi·m/states), for the half of the circle that determines the other.
    fn on_circle(&self, forward: &dyn RealToComplex<f64>, circle: &[Complex<f64>], radius: f64) -> Vec<At> {
        let mut spread = forward.make_input_vec();
        for &(slots, p) in &self.work {
            spread[slots] += p * (radius.ln() * slots as f64).exp();
        }
        let mut transformed = forward.make_output_vec();
        // Lengths agree by construction.
        let _ = forward.process(&mut spread, &mut transformed);
        let at = |(jobs, turn): (&Complex<f64>, &Complex<f64>)| {
            let a = Complex::new(1.0 - self.arrival, 0.0) + jobs * self.arrival;
            At { y: a * turn.conj() / radius, a, product: Complex::new(1.0, 0.0) }
        };
        transformed.iter().zip(circle).map(at).collect()
    }

    /// One slot without budget (eq. 4.3), or with it (eq. 4.4): `from` becomes `to`. What would be beyond the end is lost.
    pub(super) fn slot(&self, from: &[f64], to: &mut [f64], budget: bool) {
        let end = from.len();
        let stay = 1.0 - self.arrival;
        let down = usize::from(budget);
        // The first in one go with what stays, since that is all where service times are constant.
        let (&(slots, p), others) = self.work.split_first().expect("a chain has work");
        let (up, weight) = ((slots - down).min(end), p * self.arrival); // a job has a slot of work at least
        let kept = from[down..].iter().chain(std::iter::repeat_n(&0.0, down));
        to[..up].iter_mut().zip(kept).for_each(|(value, kept)| *value = stay * kept);
        let both = to[up..end - down.min(end - up)].iter_mut().zip(&from[(up + down).min(end)..]).zip(from);
        both.for_each(|((value, kept), new)| *value = stay * kept + weight * new);
        if down == 1 {
            if up < end {
                to[end - 1] = weight * from[end - 1 - up];
            }
            to[0] += stay * from[0];
        }
        for &(slots, p) in others {
            let (up, weight) = (slots - down, p * self.arrival);
            for (value, l) in to[up.min(end)..end].iter_mut().zip(from) {
                *value += weight * l;
            }
        }
    }
}

/// Mean of a distribution.
pub(super) fn mean(pmf: &Pmf) -> f64 {
    pmf.iter().map(|&(slots, p)| p * slots as f64).sum()
}

/// The transforms of `n` real numbers there and back. Short ones are kept for the next chain: to plan one takes as long as to use it.
fn transforms(n: usize) -> (Arc<dyn RealToComplex<f64>>, Arc<dyn ComplexToReal<f64>>) {
    const SHORT: usize = 1 << 14;
    thread_local! { static KEPT: RefCell<RealFftPlanner<f64>> = RefCell::new(RealFftPlanner::new()) }
    let plan = |planner: &mut RealFftPlanner<f64>| (planner.plan_fft_forward(n), planner.plan_fft_inverse(n));
    if n > SHORT {
        return plan(&mut RealFftPlanner::new());
    }
    KEPT.with_borrow_mut(plan)
}

/// e^(−2πi·m/n) for all m < n. Each from one not far away, which is exact to rounding.
fn unit_circle(n: usize) -> Vec<Complex<f64>> {
    const EXACT: usize = 32;
    let exact = |m: usize| Complex::from_polar(1.0, -TAU * m as f64 / n as f64);
    let turns: Vec<Complex<f64>> = (0..EXACT).map(exact).collect();
    (0..n)
        .step_by(EXACT)
        .flat_map(|m| {
            let at = exact(m);
            turns.iter().map(move |turn| at * turn)
        })
        .take(n)
        .collect()
}

/// A point of the circle.
struct At {
    y: Complex<f64>,
    a: Complex<f64>,
    /// Π (y − y_k)/(1 − y_k) so far.
    product: Complex<f64>,
}

/// Multiplies in (y − y_k)/(1 − y_k) for each y_k of `half` and, unless it is real, for its conjugate.
fn multiply(points: &mut [At], half: &[Complex<f64>]) {
    for yk in half {
        if yk.im == 0.0 {
            let norm = 1.0 / (1.0 - yk.re);
            points.iter_mut().for_each(|at| at.product *= (at.y - yk.re) * norm);
            continue;
        }
        let norm = 1.0 / (1.0 - yk).norm_sqr();
        let (twice, square) = (2.0 * yk.re, yk.norm_sqr());
        for at in points.iter_mut() {
            at.product *= ((at.y - twice) * at.y + square) * norm;
        }
    }
}

/// The least number from `least` on that has no prime factor above 5: transforms of such lengths are fast.
fn smooth(least: usize) -> usize {
    let plain = |mut n: usize| {
        for prime in [2, 3, 5] {
            while n.is_multiple_of(prime) {
                n /= prime;
            }
        }
        n == 1
    };
    (least.max(2)..).find(|&n| n.is_multiple_of(2) && plain(n)).unwrap_or(least)
}
