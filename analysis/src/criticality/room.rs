//! How much each server may take, the others as they are: what is to spare where they go together, the nearest fit where they do not.

use super::sums::Sums;
use super::verdict::{check, Refused};
use super::vm::{Level, Vm};
use giusto_model::{Bandwidth, Duration};
use serde::{Deserialize, Serialize};

/// The largest budgets of one server with which all go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Room {
    /// The largest optimistic budget, up to the worst one, or of a low server up to its period. `None`: not even 1 ns.
    #[serde(rename = "most_optimistic_ns")]
    pub most_optimistic: Option<Duration>,
    /// The largest pessimistic budget, up to the period and from the optimistic one on. `None`: not even that, or it is low.
    #[serde(rename = "most_worst_ns")]
    pub most_worst: Option<Duration>,
}

/// One of the two budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Budget {
    /// C_opt.
    Optimistic,
    /// C_pes.
    Worst,
}

/// The smallest change, as a part of a budget, with which all go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nearest {
    /// Of which server, by its place in the list.
    pub vm: usize,
    /// Which of its budgets.
    pub budget: Budget,
    /// At most this.
    #[serde(rename = "at_most_ns")]
    pub at_most: Duration,
}

/// The room of each server.
///
/// Each limit is exact: with more of any budget U1(1), U2(1) or U2(2) grow, the interval of x shrinks, and the grid stays. O(n)
/// tests of O(1) fractions, 64 for each limit. Errors: a server that makes no sense.
pub fn rooms(vms: &[Vm], capacity: Bandwidth) -> Result<Vec<Room>, Refused> {
    check(vms)?;
    let room = |place: usize| {
        let vm = vms[place];
        let others = Sums::of(vms.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, vm)| vm));
        let fits = |vm: Vm| others.clone().with(&vm).fits(capacity);
        let one = Duration::from_ns(1);
        match vm.level {
            Level::Low => Room {
                most_optimistic: largest(one, vm.period, |budget| fits(Vm::low(budget, vm.period))),
                most_worst: None,
            },
            Level::High => Room {
                most_optimistic: largest(one, vm.worst, |optimistic| fits(Vm { optimistic, ..vm })),
                most_worst: largest(vm.optimistic, vm.period, |worst| fits(Vm { worst, ..vm })),
            },
        }
    };
    Ok((0..vms.len()).map(room).collect())
}

/// Of servers that do not go together, the one change that takes the smallest part of a budget; of equal ones the first. `None`:
/// no single one is enough.
pub fn nearest(vms: &[Vm], rooms: &[Room]) -> Option<Nearest> {
    let each = vms.iter().zip(rooms).enumerate().flat_map(|(vm, (own, room))| {
        [(Budget::Optimistic, own.optimistic, room.most_optimistic), (Budget::Worst, own.worst, room.most_worst)]
            .into_iter()
            .filter_map(move |(budget, now, most)| {
                let at_most = most.filter(|most| *most < now)?;
                Some((Bandwidth::of(at_most, now)?, Nearest { vm, budget, at_most }))
            })
    });
    let better = |best: (Bandwidth, Nearest), next: (Bandwidth, Nearest)| if next.0 > best.0 { next } else { best };
    each.reduce(better).map(|(_, nearest)| nearest)
}

/// The largest from `least` to `most` that fits; what fits is all up to it.
fn largest(least: Duration, most: Duration, fits: impl Fn(Duration) -> bool) -> Option<Duration> {
    if !fits(least) {
        return None;
    }
    let (mut good, mut bad) = (least.ns(), most.ns().checked_add(1)?);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(Duration::from_ns(middle)) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Some(Duration::from_ns(good))
}
