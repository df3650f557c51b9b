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
/// Where the tail is so many times as long as what lies before it, it is known from its poles alone.
const LONG: f64 = 8.0;
/// What differs from the tail by less than this, summed over all states, is the tail.
const TAIL: f64 = 1e-10;

/// Pr{V = l}: the work that is unfinished when a period begins.
pub(super) struct Unfinished {
    pub(super) shares: Vec<f64>,
    /// At the end Pr{V = l + B} = Pr{V = l}·e^(−B · this), and beyond; none where all shares that count are there.
    pub(super) decay: Option<f64>,
}

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

    /// States that [`Chain::unfinished`] works with, about: for [`Error::Fine`].
    pub(super) fn size(&self) -> f64 {
        let (all, before) = (self.states(self.decay()), self.before_tail());
        if LONG * before < all {
            before + (6 * self.budget) as f64
        } else {
            all
        }
    }

    /// About so many states differ from the tail. Near the load the next poles solve P·ln a(e^s) = B·s + 2πi, and with a to the
    /// second order s² = 4πi/(B·E c²/E c), whose real part is √(2π/(B·E c²/E c)); at most about 2/c.
    fn before_tail(&self) -> f64 {
        let square: f64 = self.work.iter().map(|&(slots, p)| p * (slots as f64).powi(2)).sum();
        let spread = (self.budget as f64 * square / mean(&self.work) / TAU).sqrt();
        DEPTH * spread.max(self.most() as f64 / 2.0) + (2 * self.budget + 4 * self.most()) as f64
    }

    /// The most work of one arrival.
    fn most(&self) -> usize {
        self.work.last().map_or(0, |&(slots, _)| slots)
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
    ///
    /// Near the load V has a tail far longer than all the rest: that of the pole R = e^decay, and where all work and B have a
    /// common part g, of R·e^(2πij/g) too. It is taken off V(z) before that is inverted, so that the states to look at do not
    /// depend on how near the load is: Pr{V = l} = w_l + Σ_j c_j z_j^(−l), and w falls as the next poles say.
    pub(super) fn unfinished(&self) -> Result<Unfinished, Error> {
        let Chain { period, budget, arrival, ref work, .. } = *self;
        let decay = self.decay();
        let roots = outside(&Polynomial { period, budget, arrival, work })?;
        let all = self.states(decay);
        let mut before = self.before_tail();
        while LONG * before < all {
            if let Some(found) = self.with_tail(before as usize, decay, &roots)? {
                return Ok(found);
            }
            before *= 2.0;
        }
        let states = all.max((2 * budget + 4 * self.most()) as f64);
        let shares = self.inverted(states, decay, &roots, &[])?;
        Ok(Unfinished { shares: shares.into_iter().map(|share| share.max(0.0)).collect(), decay: None })
        // rounding
    }

    /// V with its tail from a state below `states` on; `None` if it begins later.
    fn with_tail(&self, states: usize, decay: f64, roots: &[Complex<f64>]) -> Result<Option<Unfinished>, Error> {
        let poles = self.poles(decay, roots);
        let mut shares = self.inverted(states as f64, DEPTH / states as f64, roots, &poles)?;
        // So near the load V(z) at 1 is a quotient of two small numbers: their rounding looks like a pole there, and does not
        // fall.
        let (end, stride) = (shares.len() / 8 * 7, poles.len());
        for first in 0..stride {
            let mean = |last: &[f64]| last.iter().step_by(stride).sum::<f64>() / last.len().div_ceil(stride) as f64;
            let begin = end.next_multiple_of(stride) + first;
            let constant = shares.get(begin..).filter(|last| !last.is_empty()).map_or(0.0, mean);
            shares[first..].iter_mut().step_by(stride).for_each(|share| *share -= constant);
        }
        let least = TAIL / shares.len() as f64;
        let from = shares.iter().rposition(|share| share.abs() > least).map_or(0, |last| last + 1);
        if from > end {
            return Ok(None);
        }
        // A period moves what differs by B at most, takes B states off the end, and five more show how it goes on.
        shares.resize(from, 0.0);
        shares.resize(from + 8 * self.budget + self.jobs.last().map_or(0, |job| job.slots) + 2, 0.0);
        let fall = (-decay * stride as f64).exp();
        let mut geometric = Vec::with_capacity(shares.len());
        for (l, share) in shares.iter_mut().enumerate() {
            let own = match l.checked_sub(stride) {
                Some(before) => fall * geometric[before],
                None => poles.iter().map(|pole| (pole.weight / pole.at.powu(l as u32)).re).sum::<f64>(),
            };
            geometric.push(own);
            *share = (*share + own).max(0.0);
        }
        Ok(Some(Unfinished { shares, decay: Some(decay) }))
    }

    /// The poles of V(z) at distance e^decay, of which c_j/(1 − z/z_j) are the parts. z·a'/a is the same at each.
    fn poles(&self, decay: f64, roots: &[Complex<f64>]) -> Vec<Pole> {
        let common = self.work.iter().fold(self.budget, |common, &(slots, _)| num_integer::gcd(common, slots));
        let (mut a, mut slope) = (1.0 - self.arrival, 0.0);
        for &(slots, p) in &self.work {
            let share = self.arrival * p * (decay * slots as f64).exp();
            a += share;
            slope += share * slots as f64;
        }
        let at = |j: usize| Complex::from_polar(decay.exp(), TAU * j as f64 / common as f64);
        let mut points: Vec<At> = (0..common)
            .map(|j| At { y: a / at(j), a: Complex::new(a, 0.0), product: Complex::new(1.0, 0.0) })
            .collect();
        multiply(&mut points, roots);
        let (period, budget) = (self.period as f64, self.budget as f64);
        let scale = (budget - period * self.load()) / (period * slope / a - budget);
        let weight = |(j, point): (usize, &At)| {
            let down = if j == 0 { Complex::new(-(-decay).exp_m1(), 0.0) } else { 1.0 - 1.0 / at(j) };
            Pole { at: at(j), weight: down * point.product * scale }
        };
        points.iter().enumerate().map(weight).collect()
    }

    /// The coefficients of V(z) without the parts of `poles`; those left fall like e^(−decay · l).
    fn inverted(&self, states: f64, decay: f64, roots: &[Complex<f64>], poles: &[Pole]) -> Result<Vec<f64>, Error> {
        if states > MOST_STATES {
            return Err(Error::Fine { states: states as u64 });
        }
        let states = smooth(states as usize);
        let radius = (CIRCLE * decay).exp();
        let (forward, inverse) = transforms(states);
        let circle = unit_circle(states);
        let mut points = self.on_circle(&*forward, &circle, radius);
        multiply(&mut points, roots);
        let (period, budget) = (self.period as f64, self.budget as f64);
        let scale = budget - period * self.load(); // the derivative of the left factor at 1, and of the right one's (1 − 1/z)
        let shrink = (-budget * radius.ln()).exp();
        let mut turns = 0;
        let mut value = |(point, turn): (&At, &Complex<f64>)| {
            let back = circle[turns].conj() * shrink; // z^(−B)
            turns = (turns + self.budget) % states;
            let returns = point.a.powu(self.period as u32) * back;
            let all = (1.0 - turn.conj() / radius) * point.product * scale / (1.0 - returns);
            let part = |pole: &Pole| pole.weight / (1.0 - turn * radius / pole.at);
            all - poles.iter().map(part).sum::<Complex<f64>>()
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
            *share *= power;
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
pub(super) fn transforms(n: usize) -> (Arc<dyn RealToComplex<f64>>, Arc<dyn ComplexToReal<f64>>) {
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

/// A pole of V(z) and the weight of its part, weight/(1 − z/at).
struct Pole {
    at: Complex<f64>,
    weight: Complex<f64>,
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
pub(super) fn smooth(least: usize) -> usize {
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
