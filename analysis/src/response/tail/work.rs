//! Distributions of work in whole units, and what comes in a time.

use crate::response::chain::transforms;
use realfft::num_complex::Complex;

/// Pr{work = l units}. What lacks of 1 is work without end.
pub(super) type Work = Vec<f64>;

/// Service times in whole units, each rounded up, but for a part in 10^12.
pub(super) fn units(service: &[(f64, f64)], unit: f64) -> Vec<(usize, f64)> {
    let mut all: Vec<(usize, f64)> = Vec::with_capacity(service.len());
    for &(ns, p) in service {
        let units = ((ns / unit) * (1.0 - 1e-12)).ceil().max(1.0) as usize;
        match all.last_mut().filter(|last| last.0 == units) {
            Some(last) => last.1 += p,
            None => all.push((units, p)),
        }
    }
    all
}

/// Pr{work > l}, what has no end included.
pub(super) fn tail(work: &[f64]) -> Vec<f64> {
    let mut left = 1.0;
    let beyond = |p: &f64| {
        left -= p;
        f64::max(left, 0.0)
    };
    work.iter().map(beyond).collect()
}

/// The distribution that has this tail.
pub(super) fn of_tail(tail: &[f64]) -> Work {
    let mut before = 1.0;
    let share = |beyond: &f64| {
        let share = before - beyond;
        before = *beyond;
        f64::max(share, 0.0)
    };
    tail.iter().map(share).collect()
}

/// Pr{work + one of `more` > `most`}, by the tail of work.
pub(super) fn with(tail: &[f64], more: &[(usize, f64)], most: usize) -> f64 {
    let beyond = |units: usize| match most.checked_sub(units) {
        Some(room) => tail[room.min(tail.len() - 1)],
        None => 1.0,
    };
    more.iter().map(|(units, p)| p * beyond(*units)).sum()
}

/// Up to so many values a sum over them is cheaper than a transform.
const FEW: usize = 96;

/// Something to add to work: few values, or the transform of many.
pub(super) enum Kernel {
    Few(Vec<(usize, f64)>),
    Transform(Vec<Complex<f64>>),
}

impl Kernel {
    /// Work that comes in a time as a Poisson process, `mean` requests of it in the mean, for arrays of `states` units.
    pub(super) fn comes(mean: f64, service: &[(usize, f64)], states: usize) -> Kernel {
        if let [(units, _)] = *service {
            let mut few = Vec::new();
            let mut p = (-mean).exp();
            for n in 0..=FEW {
                few.push((n * units, p));
                p *= mean / (n + 1) as f64;
                if few.len() > FEW || p < 1e-18 && n as f64 > mean {
                    break;
                }
            }
            if few.len() <= FEW {
                return Kernel::Few(few);
            }
        }
        let mut transform = transformed(service, states);
        transform.iter_mut().for_each(|point| *point = ((*point - 1.0) * mean).exp());
        // Of no more than the array, so that nothing wraps around when it is added.
        Kernel::Transform(padded(&back(transform, states), states))
    }

    /// One of these amounts.
    pub(super) fn one(service: &[(usize, f64)], states: usize) -> Kernel {
        match service.len() {
            ..=FEW => Kernel::Few(service.to_vec()),
            _ => Kernel::Transform(transformed(service, states)),
        }
    }

    /// Adds this to `work`; what is then beyond the array has no end.
    pub(super) fn add(&self, work: &[f64]) -> Work {
        let states = work.len();
        match self {
            Kernel::Few(few) => {
                let mut sum = vec![0.0; states];
                for &(units, p) in few.iter().filter(|(units, _)| *units < states) {
                    sum[units..].iter_mut().zip(work).for_each(|(to, share)| *to += p * share);
                }
                sum
            }
            Kernel::Transform(kernel) => {
                let mut points = padded(work, states);
                points.iter_mut().zip(kernel).for_each(|(point, factor)| *point *= factor);
                back(points, states)
            }
        }
    }
}

fn padded(work: &[f64], states: usize) -> Vec<Complex<f64>> {
    let (forward, _) = transforms(2 * states);
    let mut spread = work.to_vec();
    spread.resize(2 * states, 0.0);
    let mut points = forward.make_output_vec();
    let _ = forward.process(&mut spread, &mut points);
    points
}

/// none · Σ (parts)^n: the distribution whose generating function is none / (1 − parts(z)).
pub(super) fn geometric(none: f64, parts: &[(usize, f64)], states: usize) -> Work {
    let mut points = transformed(parts, states);
    points.iter_mut().for_each(|point| *point = none / (1.0 - *point));
    back(points, states)
}

/// Coefficients 0 to `states`.
fn back(mut points: Vec<Complex<f64>>, states: usize) -> Work {
    let (_, inverse) = transforms(2 * states);
    points[0].im = 0.0;
    points[states].im = 0.0;
    let mut work = inverse.make_output_vec();
    // Lengths agree by construction.
    let _ = inverse.process(&mut points, &mut work);
    work.truncate(states);
    let scale = 1.0 / (2 * states) as f64;
    work.iter_mut().for_each(|share| *share = f64::max(*share * scale, 0.0));
    work
}

fn transformed(service: &[(usize, f64)], states: usize) -> Vec<Complex<f64>> {
    let mut work = vec![0.0; states + 1];
    // What is beyond the array counts as at its end, from where it cannot come back.
    service.iter().for_each(|(units, p)| work[(*units).min(states)] += p);
    padded(&work, states)
}
