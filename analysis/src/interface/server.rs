//! One period and one budget, a fraction where it has to be, as the tests ask for it.

/// What a window may wait for before the first budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delay {
    /// Nothing: windows start with a period, or budgets come at fixed times (EDP with Δ = Θ).
    None,
    /// Δ − Θ: the budget comes within the first Δ of each period; Δ = Π for the general periodic resource.
    Until(u64),
}

impl Delay {
    /// How the budget Θ enters: a window waits `constant` − `times` · Θ.
    pub(super) fn parts(self) -> (u64, u64) {
        match self {
            Delay::None => (0, 0),
            Delay::Until(deadline) => (deadline, 1),
        }
    }
}

/// Θ = `top` / `bottom` in every Π.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    pub(super) period: u64,
    pub(super) top: u128,
    pub(super) bottom: u128,
    pub(super) delay: Delay,
}

impl Server {
    /// sbf⁻¹(w), rounded up: the first whole t with sbf(t) ≥ w, which is Δ − Θ + ⌈w/Θ⌉(Π − Θ) + w for w > 0. `None` if that is
    /// beyond 64 bits. O(1).
    pub(super) fn inverse(&self, work: u128) -> Option<u64> {
        self.narrow(work).or_else(|| self.wide(work))
    }

    /// For whole budgets, if all steps fit in 64 bits.
    #[inline]
    fn narrow(&self, work: u128) -> Option<u64> {
        let (constant, times) = self.delay.parts();
        let (work, budget) = (u64::try_from(work).ok()?, u64::try_from(self.top).ok().filter(|_| self.bottom == 1)?);
        let held = self.period.checked_sub(budget)?.checked_mul(work.div_ceil(budget))?;
        constant.checked_sub(times * budget)?.checked_add(held)?.checked_add(work)
    }

    fn wide(&self, work: u128) -> Option<u64> {
        let (constant, times) = self.delay.parts();
        let (top, bottom) = (self.top, self.bottom);
        let first = u128::from(constant).checked_mul(bottom)?.checked_sub(u128::from(times) * top)?;
        let held = u128::from(self.period).checked_mul(bottom)?.checked_sub(top)?;
        let waited = first.checked_add(held.checked_mul(work.checked_mul(bottom)?.div_ceil(top))?)?;
        u64::try_from(waited.div_ceil(bottom).checked_add(work)?).ok()
    }

    /// The most that sbf falls behind its line: sbf(t) ≥ α(t − this), rounded up.
    pub(super) fn lag(&self) -> u128 {
        let (constant, times) = self.delay.parts();
        let first = u128::from(constant) * self.bottom - u128::from(times) * self.top;
        (first + u128::from(self.period) * self.bottom - self.top).div_ceil(self.bottom)
    }

    /// Whether a window of some length, however long, is supplied less than α times it.
    pub(super) fn waits(&self) -> bool {
        let (constant, times) = self.delay.parts();
        u128::from(constant) * self.bottom > u128::from(times) * self.top
    }
}
