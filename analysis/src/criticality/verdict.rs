//! Whether servers with criticality go together: the numbers, or why not.

use super::vm::{Vm, VmError};
use crate::interface::Fraction;
use giusto_model::{Bandwidth, Duration};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which test was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// Plain EDF, with every high one at its worst.
    Edf,
    /// EDF with virtual deadlines.
    EdfVd,
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Test::Edf => "edf",
            Test::EdfVd => "edf-vd",
        })
    }
}

/// Utilizations [Asy20, eqs. 1 to 3].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Utilizations {
    /// U1(1): of all low ones.
    pub u1_1: Fraction,
    /// U2(1): of all high ones, optimistic.
    pub u2_1: Fraction,
    /// U2(2): of all high ones, pessimistic.
    pub u2_2: Fraction,
}

/// All x that are enough, whether virtual deadlines are whole with them or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// U2(1)/(c − U1(1)), eq. 4.
    pub from: Fraction,
    /// (c − U2(2))/U1(1), from eq. 6.
    pub to: Fraction,
}

/// What is left of c.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slack {
    /// In LO mode: c − U1(1) − U2(1)/x.
    pub usual: Fraction,
    /// In HI mode: c − x·U1(1) − U2(2).
    pub worst: Fraction,
}

/// That servers go together, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Which test they passed.
    pub test: Test,
    /// x, the factor of all virtual deadlines.
    pub x: Bandwidth,
    /// Of all of them.
    pub utilizations: Utilizations,
    /// EDF-VD: the x that would do. `None`: it is 1.
    pub interval: Option<Interval>,
    /// What is left with this x.
    pub slack: Slack,
    /// By how much each utilization alone may grow before this x is no longer enough.
    pub robustness: Utilizations,
    #[serde(skip)]
    pub(super) virtual_deadlines: Vec<Duration>,
}

impl Verdict {
    /// x·T of the high server at this place of the list, the period of a low one [Asy20, eq. 5]. 0 beyond the list.
    pub fn virtual_deadline(&self, place: usize) -> Duration {
        self.virtual_deadlines.get(place).copied().unwrap_or(Duration::ZERO)
    }
}

/// Why servers do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// One of them makes no sense by itself.
    #[error("server {number}: {why}")]
    Vm {
        /// Which, from 1.
        number: usize,
        /// What is wrong.
        why: VmError,
    },
    /// They ask for too much, or x cannot be had.
    #[error("{0}")]
    Unfit(Box<Unfit>),
}

/// What is too much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unfit {
    /// Of all of them.
    pub utilizations: Utilizations,
    /// c: what they may take together.
    pub capacity: Bandwidth,
    /// Which condition fails.
    pub why: Why,
    /// The less strict test that Asy20 allows would pass: EDF on optimistic budgets, U1(1) + U2(1) ≤ c. Then nothing is
    /// promised to any server once a high one takes more than that.
    pub less_strict: bool,
}

/// Which condition fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// U1(1) ≥ c beside high ones, or > c without.
    Low,
    /// U1(1) + U2(1) > c: they are too many even if none takes more than usual.
    Usual,
    /// U2(2) ≥ c beside low ones, or > c without.
    Worst,
    /// No x is both large and small enough.
    NoX(Interval),
    /// There is an x, but not with whole virtual deadlines.
    Rounding {
        /// The x that would do.
        interval: Interval,
        /// g: the greatest common divisor of the periods of high ones.
        #[serde(rename = "grid_ns")]
        grid: Duration,
        /// The nearest multiples of 1/g, too small ...
        below: Bandwidth,
        /// ... and too large.
        above: Bandwidth,
    },
}

/// Whether each makes sense.
pub(super) fn check(vms: &[Vm]) -> Result<(), Refused> {
    (1..).zip(vms).try_for_each(|(number, vm)| vm.validate().map_err(|why| Refused::Vm { number, why }))
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfit { utilizations: Utilizations { u1_1, u2_1, u2_2 }, capacity, why, .. } = self;
        let (low, usual, worst) = (u1_1.percent(), u2_1.percent(), u2_2.percent());
        let of = format!("of the {} that all may take", capacity.percent());
        match why {
            Why::Low => write!(f, "the low ones alone ask for U1(1) = {low} {of}, and high ones need some of it"),
            Why::Usual => {
                write!(f, "even while no server takes more than usual U1(1) = {low} and U2(1) = {usual} are asked for {of}")
            }
            Why::Worst => write!(f, "the high ones at their worst ask for U2(2) = {worst} {of}"),
            Why::NoX(Interval { from, to }) => write!(
                f,
                "no factor x of virtual deadlines is enough: it has to be at least U2(1)/(c - U1(1)) = {from}, so that all get \
                 their usual budgets (U1(1) = {low}, U2(1) = {usual}), and at most (c - U2(2))/U1(1) = {to}, so that the high \
                 ones get their worst (U2(2) = {worst}), with c = {capacity}"
            ),
            Why::Rounding { interval: Interval { from, to }, grid, below, above } => write!(
                f,
                "a factor x of virtual deadlines from {from} to {to} would be enough, but with none of them is every virtual \
                 deadline a whole number of ns: the periods of high ones are multiples of {grid} and of nothing longer, and the \
                 nearest factors are {below} and {above}; round these periods to a longer common step, such as 1 ms"
            ),
        }
    }
}
