//! U1(1), U2(1) and U2(2), and what follows from them alone.

use super::verdict::{Interval, Slack, Utilizations, Why};
use super::vm::{Level, Vm};
use crate::interface::Fraction;
use giusto_model::{Bandwidth, Duration};
use num_bigint::BigUint;
use num_rational::Ratio;

type Exact = Ratio<BigUint>;

/// Sums of some servers; those of one more, or one less, are these and its own.
#[derive(Clone)]
pub(super) struct Sums {
    low: Exact,
    usual: Exact,
    worst: Exact,
    /// How many low and high ones.
    lows: usize,
    highs: usize,
    /// Greatest common divisor of the periods of high ones in ns; 0 without one.
    grid: u64,
}

fn zero() -> Exact {
    Exact::from_integer(BigUint::ZERO)
}

fn exact(share: Bandwidth) -> Exact {
    Exact::new(share.numer().into(), share.denom().into())
}

/// Periods are more than 0, as budgets within them are.
fn part(budget: Duration, period: Duration) -> Exact {
    Exact::new(budget.ns().into(), period.ns().into())
}

/// What is left, or nothing.
fn left(all: Exact, taken: Exact) -> Exact {
    if taken < all {
        all - taken
    } else {
        zero()
    }
}

impl Sums {
    pub(super) fn none() -> Self {
        Sums { low: zero(), usual: zero(), worst: zero(), lows: 0, highs: 0, grid: 0 }
    }

    pub(super) fn of<'a>(vms: impl IntoIterator<Item = &'a Vm>) -> Self {
        vms.into_iter().fold(Sums::none(), |sums, vm| sums.with(vm))
    }

    pub(super) fn with(mut self, vm: &Vm) -> Self {
        match vm.level {
            Level::Low => {
                self.low += part(vm.optimistic, vm.period);
                self.lows += 1;
            }
            Level::High => {
                self.usual += part(vm.optimistic, vm.period);
                self.worst += part(vm.worst, vm.period);
                self.highs += 1;
                self.grid = num_integer::gcd(self.grid, vm.period.ns());
            }
        }
        self
    }

    pub(super) fn told(&self) -> Utilizations {
        let [u1_1, u2_1, u2_2] = [&self.low, &self.usual, &self.worst].map(|sum| Fraction::from(sum.clone()));
        Utilizations { u1_1, u2_1, u2_2 }
    }

    /// U1(1) + U2(2), what all servers may take at the very most.
    pub(super) fn most(&self) -> Exact {
        &self.low + &self.worst
    }

    /// Whether plain EDF suffices.
    pub(super) fn edf(&self, capacity: Bandwidth) -> bool {
        self.most() <= exact(capacity)
    }

    /// Whether EDF does on optimistic budgets.
    pub(super) fn usually_fits(&self, capacity: Bandwidth) -> bool {
        &self.low + &self.usual <= exact(capacity)
    }

    pub(super) fn fits(&self, capacity: Bandwidth) -> bool {
        self.x(capacity).is_ok()
    }

    /// The x that is taken, or why there is none.
    pub(super) fn x(&self, capacity: Bandwidth) -> Result<Bandwidth, Box<Why>> {
        if self.edf(capacity) {
            return Ok(Bandwidth::ONE);
        }
        let whole = exact(capacity);
        match (self.lows > 0, self.highs > 0) {
            (_, false) => return Err(Why::Low.into()),
            (false, _) => return Err(Why::Worst.into()),
            _ if self.low >= whole => return Err(Why::Low.into()),
            _ if !self.usually_fits(capacity) => return Err(Why::Usual.into()),
            _ if self.worst >= whole => return Err(Why::Worst.into()),
            _ => {}
        }
        let (from, to) = self.ends(&whole);
        if from > to {
            return Err(Why::NoX(told(from, to)).into());
        }
        // from ≤ 1, as usual budgets fit, and to < 1, as plain EDF does not do.
        let count = self.count(&from);
        let x = self.step(count);
        if exact(x) <= to {
            return Ok(x);
        }
        let grid = Duration::from_ns(self.grid);
        Err(Why::Rounding { interval: told(from, to), grid, below: self.step(count - 1), above: x }.into())
    }

    /// [`Sums::x`], but the least also where plain EDF does: HI mode has room with any x ≤ 1 then.
    pub(super) fn soonest(&self, capacity: Bandwidth) -> Result<Bandwidth, Box<Why>> {
        let x = self.x(capacity)?;
        let whole = exact(capacity);
        // U1(1) < c, as all fit and the high ones take something.
        let least = || self.step(self.count(&(&self.usual / (whole - &self.low))));
        Ok(if self.lows > 0 && self.highs > 0 { least() } else { x })
    }

    /// The least k with k/g ≥ `from`, which is at most 1.
    fn count(&self, from: &Exact) -> u64 {
        u64::try_from((from * BigUint::from(self.grid)).ceil().to_integer()).unwrap_or(self.grid)
    }

    /// k/g.
    fn step(&self, count: u64) -> Bandwidth {
        Bandwidth::new(count, self.grid).unwrap_or(Bandwidth::ONE)
    }

    /// Of EDF-VD, where there are low ones and they leave something.
    pub(super) fn interval(&self, capacity: Bandwidth) -> Option<Interval> {
        let whole = exact(capacity);
        let there = self.lows > 0 && self.low < whole && self.worst < whole;
        there.then(|| self.ends(&whole)).map(|(from, to)| told(from, to))
    }

    /// Eqs. 4 and 6; there are low ones, and both sums are less than c.
    fn ends(&self, whole: &Exact) -> (Exact, Exact) {
        (&self.usual / (whole - &self.low), (whole - &self.worst) / &self.low)
    }

    /// What is left with this x, which is enough, and by how much each sum alone may grow.
    pub(super) fn margins(&self, x: Bandwidth, capacity: Bandwidth) -> (Slack, Utilizations) {
        let (x, whole) = (exact(x), exact(capacity));
        let usual = left(whole.clone(), &self.low + &self.usual / &x);
        let worst = left(whole, &x * &self.low + &self.worst);
        let low = usual.clone().min(&worst / &x);
        let robustness = Utilizations { u1_1: low.into(), u2_1: (&x * &usual).into(), u2_2: worst.clone().into() };
        (Slack { usual: usual.into(), worst: worst.into() }, robustness)
    }
}

fn told(from: Exact, to: Exact) -> Interval {
    Interval { from: from.into(), to: to.into() }
}
