//! Lundberg's inequality: an exponential above the tails of unfinished work and of response times.

use super::load::Load;

/// Probability beyond which nothing is kept in arrays: of the fluid, and of a period, whose tail is that of the fluid.
pub(super) const NOTHING: f64 = 1.4e-11;
pub(super) const LITTLE: f64 = 1e-6;

/// θ with λ(E e^(θC) − 1) ≤ Wθ, as large as can be found.
pub(super) struct Lundberg {
    pub(super) theta: f64,
    /// E e^(θ·own)
    own: f64,
}

impl Lundberg {
    /// e^(θ·(A(s) − Ws)) is a supermartingale, so that sup over s of A(s) − Ws is beyond x with probability e^(−θx) at most.
    pub(super) fn new(load: &Load) -> Lundberg {
        let rises = |theta: f64| {
            let moment: f64 = load.service.iter().map(|(ns, p)| p * (theta * ns).exp_m1()).sum();
            load.rate * moment > load.speed * theta
        };
        // Convex, 0 at 0 and below it at first.
        let mut high = 1e-3 / load.service.last().map_or(load.mean, |(longest, _)| *longest);
        while !rises(high) {
            high *= 2.0;
        }
        let mut low = 0.0;
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            *(if rises(middle) { &mut high } else { &mut low }) = middle;
        }
        let theta = low * (1.0 - 1e-9);
        Lundberg { theta, own: load.own.iter().map(|(ns, p)| p * (theta * ns).exp()).sum() }
    }

    /// How fast Pr{R > t} falls, in 1/ns.
    pub(super) fn in_time(&self, load: &Load) -> f64 {
        self.theta * load.speed
    }

    /// Pr{R > t} ≤ e^(−θW(t − this)): R > t asks for more than W(t − Δ) beside what came before, less W for its time.
    pub(super) fn from(&self, load: &Load) -> f64 {
        load.delay() + self.own.ln() / self.in_time(load)
    }

    pub(super) fn beyond(&self, load: &Load, t: f64) -> f64 {
        (-self.in_time(load) * (t - self.from(load))).exp().min(1.0)
    }

    /// A time beyond which next to nothing lies.
    pub(super) fn end(&self, load: &Load) -> f64 {
        self.from(load) - 1e-9f64.ln() / self.in_time(load)
    }

    /// Work in ns beyond which next to nothing lies.
    pub(super) fn depth(&self, nothing: f64) -> f64 {
        -nothing.ln() / self.theta
    }
}
