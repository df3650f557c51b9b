//! Servers of high and low criticality on one core: EDF with virtual deadlines, EDF-VD [Asy20, section 3.5].
//!
//! A server has an optimistic budget, which is usually enough, and, if it is of high criticality, a pessimistic one, which always is.
//! A core is in LO mode while no high one needs more than its optimistic budget, else in HI mode. In LO mode high ones are ordered
//! by virtual deadlines, x·T after their release, so that they are early enough should they turn out to need more; in HI mode by
//! their real ones, and low ones get what is left.
//!
//! With U1(1), U2(1) and U2(2) of eqs. 1 to 3, on a core of which all together may take c:
//!
//! | test | condition | x |
//! |---|---|---|
//! | EDF | U1(1) + U2(2) ≤ c | 1 |
//! | EDF-VD | U1(1) < c and a whole k with U2(1)/(c − U1(1)) ≤ k/g ≤ (c − U2(2))/U1(1) | the least k/g |
//!
//! The left end is the paper's x (eq. 4); there LO mode is just full: U1(1) + U2(1)/x = c. The right end is its condition (eq. 6),
//! solved for x; there HI mode is just full. Eq. 6 alone would pass U1(1) = 3/2, where eq. 4 is negative. A virtual deadline
//! is a whole number of ns for every high server if and only if x is a multiple of 1/g, g being the greatest common divisor of
//! their periods in ns: hence k/g. (x·T whole for all T makes x·g whole, as g is a sum of whole multiples of the T; the
//! converse holds as g divides each T.) The least is taken, as it is nearest to the paper's.
//!
//! What passes is proven for sporadic jobs with deadlines at their periods (Baruah et al. 2012, by way of Asy20); a core of
//! which all may take c < 1 is to them a slower one.
//!
//! Called by `planner` and the command line. What a server does at run time is the policy core's matter.

mod place;
mod room;
mod sums;

pub use place::{place, Placement, Unplaced};
pub use room::{nearest, rooms, Budget, Nearest, Room};

use crate::interface::Fraction;
use giusto_model::{Bandwidth, Duration};
use serde::{Deserialize, Serialize};
use std::fmt;
use sums::Sums;

/// How much it matters that a server gets its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// It does in LO mode.
    Low,
    /// It does in both.
    High,
}

/// A server with criticality; the paper's (X, C_opt, C_pes, T).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vm {
    /// X.
    pub level: Level,
    /// C_opt; 0 < C_opt ≤ C_pes.
    pub optimistic: Duration,
    /// C_pes ≤ T; of a low one C_opt.
    pub worst: Duration,
    /// T.
    pub period: Duration,
}

impl Vm {
    /// A low one.
    pub fn low(optimistic: Duration, period: Duration) -> Self {
        Vm { level: Level::Low, optimistic, worst: optimistic, period }
    }
    /// A high one.
    pub fn high(optimistic: Duration, worst: Duration, period: Duration) -> Self {
        Vm { level: Level::High, optimistic, worst, period }
    }

    /// Checks 0 < C_opt ≤ C_pes ≤ T, and that a low one has one budget.
    pub fn validate(&self) -> Result<(), VmError> {
        let Vm { level, optimistic, worst, period } = *self;
        match level {
            _ if optimistic.is_zero() => Err(VmError::NoBudget),
            _ if worst < optimistic => Err(VmError::Less { optimistic, worst }),
            Level::Low if worst != optimistic => Err(VmError::Low),
            _ if worst > period => Err(VmError::TooMuch { budget: worst, period }),
            _ => Ok(()),
        }
    }
}

/// Why a server makes no sense. Each text says what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VmError {
    /// C_opt = 0.
    #[error("the budget must be more than 0")]
    NoBudget,
    /// C_pes > T, or C_opt > T of a low one.
    #[error("the budget {budget} is longer than the period {period}; expected budget <= worst <= period")]
    TooMuch {
        /// C_pes
        budget: Duration,
        /// T
        period: Duration,
    },
    /// C_pes < C_opt.
    #[error("the worst budget {worst} is less than the usual one, {optimistic}; expected budget <= worst <= period")]
    Less {
        /// C_opt
        optimistic: Duration,
        /// C_pes
        worst: Duration,
    },
    /// C_pes of a low one.
    #[error("a low one has one budget; expected lo:budget/period")]
    Low,
}

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
    virtual_deadlines: Vec<Duration>,
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
    /// promised to anybody once a high one takes more than that.
    pub less_strict: bool,
}

/// Which condition fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// U1(1) ≥ c beside high ones, or > c without.
    Low,
    /// U1(1) + U2(1) > c: they are too many even if nobody takes more than usual.
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

/// Whether `vms` go together on a core of their own: [`judge_within`] a whole one.
pub fn judge(vms: &[Vm]) -> Result<Verdict, Refused> {
    judge_within(vms, Bandwidth::ONE)
}

/// Whether `vms` go together on a core of which all of them may take `capacity`, by EDF-VD [Asy20, eqs. 1 to 6].
///
/// Sufficient for sporadic jobs with deadlines at their periods, and exact where x is 1. O(n) operations on fractions of O(n)
/// digits.
pub fn judge_within(vms: &[Vm], capacity: Bandwidth) -> Result<Verdict, Refused> {
    judged(vms, capacity, Sums::x)
}

/// [`judge_within`], but with the least x that is enough also where plain EDF is, if there are both low and high ones. What passes
/// is the same, as is what is proven: where U1(1) + U2(2) ≤ c, HI mode has room with every x ≤ 1, and LO mode from
/// U2(1)/(c − U1(1)) on. With x = 1 a high one that wakes is behind every low one that woke before it, for as long as all of
/// these have budgets; with the least it is ranked as early as can be.
pub fn judge_soonest(vms: &[Vm], capacity: Bandwidth) -> Result<Verdict, Refused> {
    judged(vms, capacity, Sums::soonest)
}

type Choice = fn(&Sums, Bandwidth) -> Result<Bandwidth, Box<Why>>;

fn judged(vms: &[Vm], capacity: Bandwidth, choice: Choice) -> Result<Verdict, Refused> {
    check(vms)?;
    let sums = Sums::of(vms);
    let unfit = |why: Box<Why>| {
        let less_strict = sums.usually_fits(capacity);
        Refused::Unfit(Box::new(Unfit { utilizations: sums.told(), capacity, why: *why, less_strict }))
    };
    let x = choice(&sums, capacity).map_err(unfit)?;
    let test = if sums.edf(capacity) { Test::Edf } else { Test::EdfVd };
    let (slack, robustness) = sums.margins(x, capacity);
    // g divides every high period, and k ≤ g.
    let deadline = |vm: &Vm| match vm.level {
        Level::High => Duration::from_ns(vm.period.ns() / x.denom() * x.numer()),
        Level::Low => vm.period,
    };
    Ok(Verdict {
        test,
        x,
        utilizations: sums.told(),
        interval: (test == Test::EdfVd).then(|| sums.interval(capacity)).flatten(),
        slack,
        robustness,
        virtual_deadlines: vms.iter().map(deadline).collect(),
    })
}

/// Whether each makes sense.
fn check(vms: &[Vm]) -> Result<(), Refused> {
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
                write!(f, "even while nobody takes more than usual U1(1) = {low} and U2(1) = {usual} are asked for {of}")
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
