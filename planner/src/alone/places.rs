//! Cores: one for each reservation as far as there are some, and where leftovers run.

use super::share::Rest;
use super::weigh::Keeper;
use crate::promises;
use giusto_model::{About, Bandwidth, LeftoverPlan, Origin, ServicePlan};

/// The core of each reservation: that of the plan, but cores without one take those of cores with several, as long as there
/// are some: first those whose promise a share keeps least, of these the largest. A share keeps a supply.
pub(super) fn spread(planned: &[&ServicePlan], open: &[u32]) -> Vec<u32> {
    let mut cores: Vec<u32> = planned.iter().map(|one| one.core).collect();
    for free in open {
        if cores.contains(free) {
            continue;
        }
        let crowded = |at: &usize| cores.iter().filter(|core| **core == cores[*at]).count() > 1;
        let rank = |at: &usize| {
            let method = promises::of(&planned[*at].promise);
            (method.breaks_under_shares(), planned[*at].server.bandwidth(), std::cmp::Reverse(*at))
        };
        let Some(moves) = (0..cores.len()).filter(crowded).max_by_key(rank) else { break };
        cores[moves] = *free;
    }
    cores
}

/// The same, but on cores with several reservations those of one keeper alone, if they fit so: no weight compares a container
/// with a unit. A core that a supply has to itself is given up for that, where it has to be.
pub(super) fn apart(planned: &[&ServicePlan], cores: Vec<u32>, keep_free: Bandwidth) -> Vec<u32> {
    let keeper = |at: usize| Keeper::of(&planned[at].name, &planned[at].origin, Keeper::Units);
    let together = |one: usize, other: usize| one != other && cores[one] == cores[other];
    let all = 0..cores.len();
    let mixed = |one: usize| all.clone().any(|other| together(one, other) && !keeper(one).goes_with(keeper(other)));
    if !all.clone().any(mixed) {
        return cores;
    }
    let shared: Vec<usize> = all.clone().filter(|one| all.clone().any(|other| together(*one, other))).collect();
    let supplies: Vec<usize> =
        all.clone().filter(|at| shared.contains(at) || planned[*at].promise.about() == About::Supply).collect();
    let room = Bandwidth::ONE.checked_sub(keep_free).unwrap_or(Bandwidth::ONE);
    let moved = |which: &[usize]| regrouped(planned, &cores, which, &keeper, room);
    moved(&shared).or_else(|| moved(&supplies)).unwrap_or(cores)
}

/// Those of `which` on the same cores as before, each core with those of one keeper: first the keeper and the reservation with
/// most. `None`: they do not fit so.
fn regrouped(
    planned: &[&ServicePlan],
    cores: &[u32],
    which: &[usize],
    keeper: &dyn Fn(usize) -> Keeper,
    room: Bandwidth,
) -> Option<Vec<u32>> {
    let mut open: Vec<u32> = which.iter().map(|at| cores[*at]).collect();
    open.sort_unstable();
    open.dedup();
    let bandwidth = |at: usize| planned[at].server.bandwidth();
    let sum = |its: Keeper| {
        let all = which.iter().filter(|at| keeper(**at) == its);
        all.fold(Bandwidth::ZERO, |sum, at| sum.add_up(bandwidth(*at)).unwrap_or(sum))
    };
    let (mut moving, staying): (Vec<usize>, Vec<usize>) = which.iter().partition(|at| keeper(**at) != Keeper::Unset);
    moving.sort_by_key(|at| {
        std::cmp::Reverse((sum(keeper(*at)), keeper(*at) as u8, bandwidth(*at), std::cmp::Reverse(*at)))
    });
    let mut placed: Vec<(usize, u32)> = staying.iter().map(|at| (*at, cores[*at])).collect();
    for at in moving {
        let fits = |core: &&u32| {
            let mut there = placed.iter().filter(|(_, its)| its == *core).map(|(other, _)| *other);
            let apart = |other: usize| keeper(other).goes_with(keeper(at)) && planned[other].name != planned[at].name;
            let goes = there.clone().all(apart);
            goes && there
                .try_fold(bandwidth(at), |sum, other| sum.add_up(bandwidth(other)))
                .is_some_and(|sum| sum <= room)
        };
        let core = *open.iter().find(fits)?;
        placed.push((at, core));
    }
    let mut new = cores.to_vec();
    placed.into_iter().for_each(|(at, core)| new[at] = core);
    Some(new)
}

/// Cores with what is on them.
pub(super) struct Places<'p, 'a> {
    pub(super) planned: &'p [&'a ServicePlan],
    pub(super) cores: &'p [u32],
    pub(super) free: &'p [u32],
    pub(super) whole: &'p [u32],
    pub(super) shared: &'p [u32],
}

impl<'a> Places<'_, 'a> {
    /// Where a leftover runs: on cores without a reservation. One without a floor also where a real-time thread goes before it.
    /// Else where it is weighed with reservations, else beside whatever there is.
    pub(super) fn of(&self, planned: &'a LeftoverPlan) -> Rest<'a> {
        let keeper = |name: &str, origin: &Origin| Keeper::of(name, origin, Keeper::Units);
        let on = |core: u32| self.planned.iter().zip(self.cores).filter(move |(_, its)| **its == core);
        let real_time = |core: &u32| {
            on(*core).all(|(one, _)| matches!(keeper(&one.name, &one.origin), Keeper::Units | Keeper::Machines))
        };
        let own = keeper(&planned.name, &planned.origin);
        let weighed = |core: &u32| on(*core).all(|(one, _)| keeper(&one.name, &one.origin).goes_with(own));
        let chosen = |from: &[u32], which: &dyn Fn(&u32) -> bool| -> Vec<u32> {
            from.iter().copied().filter(|core| which(core)).collect()
        };
        let whole = chosen(self.whole, &real_time);
        let same = chosen(self.shared, &weighed);
        let (mut cores, shares) = match (self.free.is_empty(), self.shared.is_empty()) {
            (false, _) if planned.at_least > Bandwidth::ZERO => (self.free.to_vec(), false),
            (false, _) => ([self.free, &whole].concat(), false),
            (true, false) if same.is_empty() => (self.shared.to_vec(), true),
            (true, false) => (same, true),
            (true, true) if whole.is_empty() => (self.whole.to_vec(), false),
            (true, true) => (whole, false),
        };
        cores.sort_unstable();
        Rest { planned, cores, shares, weight: None, floor: Err(String::new()) }
    }
}
