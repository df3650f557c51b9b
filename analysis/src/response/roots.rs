//! Where the budget's polynomial vanishes.

use crate::Error;
use realfft::num_complex::Complex;
use std::f64::consts::TAU;

/// Steps from one iterate to the next; a contraction by ρ = U/W needs −36/ln ρ.
const MOST_STEPS: u32 = 100_000;
const EXACT: f64 = 1e-14;

/// z^B = a(z)^P, where a(z) is the generating function of the work that comes in a slot.
pub(super) struct Polynomial<'a> {
    /// P in slots.
    pub(super) period: usize,
    /// B in slots, 1 to P.
    pub(super) budget: usize,
    /// η: with which probability work comes in a slot.
    pub(super) arrival: f64,
    /// So many slots of it with so much probability, ascending.
    pub(super) work: &'a [(usize, f64)],
}

/// y(z_k) = a(z_k)/z_k at the roots z_k ≠ 1 of z^B = a(z)^P in the closed unit disk: those with Im ≤ 0 or real, one of each
/// conjugate pair, in an order in which partial products stay moderate.
///
/// With ω = e^(2πi/B), z ↦ ω^k · a(z)^(P/B) maps the disk into itself and is a contraction there by ρ = U/W < 1 (its derivative
/// is largest at 1), so each k has one root, and iteration from 0 finds it. Newton's steps are taken once they are nearer.
/// |y_k| = |a(z_k)|^(−(P−B)/B) ≥ 1.
pub(super) fn outside(of: &Polynomial) -> Result<Vec<Complex<f64>>, Error> {
    let budget = of.budget;
    let mut found = Vec::with_capacity(budget / 2);
    // The golden ratio's multiples visit the half circle evenly.
    let half = budget / 2;
    let mut order: Vec<(f64, usize)> = (1..=half).map(|k| ((k as f64 * 0.618_033_988_749_894_9).fract(), k)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (_, k) in order {
        let real = 2 * k == budget;
        let turn =
            if real { Complex::new(-1.0, 0.0) } else { Complex::from_polar(1.0, TAU * k as f64 / budget as f64) };
        let z = root(of, turn)?;
        let y = arrivals(of, z).0 / z;
        found.push(if real { Complex::new(y.re, 0.0) } else { y });
    }
    Ok(found)
}

/// a(z) and a′(z).
fn arrivals(of: &Polynomial, z: Complex<f64>) -> (Complex<f64>, Complex<f64>) {
    let (mut a, mut slope) = (Complex::new(1.0 - of.arrival, 0.0), Complex::new(0.0, 0.0));
    let (mut power, mut degree) = (Complex::new(1.0, 0.0), 0);
    for &(slots, p) in of.work {
        power *= z.powu((slots - 1 - degree) as u32);
        degree = slots - 1;
        let weight = p * of.arrival;
        slope += power * (weight * slots as f64);
        a += power * z * weight;
    }
    (a, slope)
}

fn root(of: &Polynomial, turn: Complex<f64>) -> Result<Complex<f64>, Error> {
    let exponent = of.period as f64 / of.budget as f64;
    let mut z = turn * (exponent * (1.0 - of.arrival).ln()).exp();
    for _ in 0..MOST_STEPS {
        let (a, slope) = arrivals(of, z);
        let image = turn * (a.ln() * exponent).exp();
        let step = image - z;
        if step.norm() < EXACT {
            return Ok(image);
        }
        // Newton for z − image(z); where it would leave the disk, the contraction.
        let newton = z + step / (1.0 - image * slope / a * exponent);
        z = if newton.norm() <= 1.0 + EXACT { newton } else { image };
    }
    Err(Error::Fine { states: of.budget as u64 })
}
