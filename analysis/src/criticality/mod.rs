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
mod verdict;
mod vm;

pub use place::{place, Placement, PlacementRefusal};
pub use room::{nearest, rooms, Budget, Nearest, Room};
pub use verdict::{Interval, Refused, Slack, Test, Unfit, Utilizations, Verdict, Why};
pub use vm::{Level, Vm, VmError};

use verdict::check;

use giusto_model::{Bandwidth, Duration};
use sums::Sums;

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
