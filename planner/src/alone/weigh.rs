//! Weights: what a service has at least of a core, wherever the others are busy that may run there.
//!
//! Called by `again`. The kernel divides the weight of a cgroup among the cores on which it is busy. So one that may run on
//! several cores may have all of its weight on any of them, or on each no more than its part.

use super::unit::unit_of;
use giusto_model::{Adopt, Bandwidth, Origin};

/// Whose settings give a service its processor time. Only those of one compare weights with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper {
    /// Services of systemd, all in one slice.
    Units,
    /// Units of systemd that are where they are: slices, scopes and others.
    Apart,
    Containers,
    Machines,
    /// No export sets anything: processes, and virtual machines without libvirt.
    Unset,
}

impl Keeper {
    /// `started`: of what the site starts, which some targets make units of, and others containers.
    pub(super) fn of(name: &str, origin: &Origin, started: Keeper) -> Keeper {
        match origin {
            Origin::Start(_) => started,
            Origin::Adopt(Adopt::Container(_)) => Keeper::Containers,
            Origin::Adopt(Adopt::Libvirt(_)) => Keeper::Machines,
            Origin::Adopt(_) => match unit_of(name, origin) {
                Some(unit) if unit.ends_with(".service") => Keeper::Units,
                Some(_) => Keeper::Apart,
                None => Keeper::Unset,
            },
        }
    }

    /// Whether both may have a share of one core, and a weight says how much.
    pub(super) fn goes_with(self, other: Keeper) -> bool {
        self == Keeper::Unset || other == Keeper::Unset || self == other && self != Keeper::Apart
    }

    /// What becomes of a weight, as engines and kernels do it.
    fn turned(self) -> &'static [fn(u64) -> u64] {
        match self {
            Keeper::Containers => &[shares, line, curve],
            _ => &[|weight| weight],
        }
    }
}

/// Of a weight of 10,000 as engines count: 1024 is what others have.
pub(super) const SHARES: u64 = 26;
const MOST_SHARES: u64 = 262_144;

/// As `--cpu-shares` has it, and cgroup v1.
pub(super) fn shares(weight: u64) -> u64 {
    (weight * SHARES).clamp(2, MOST_SHARES)
}

/// cgroup v2, before runc 1.3.2.
fn line(weight: u64) -> u64 {
    1 + (shares(weight) - 2) * 9999 / (MOST_SHARES - 2)
}

/// cgroup v2, from runc 1.3.2 and crun 1.23 on: 1024 becomes 100.
fn curve(weight: u64) -> u64 {
    let log = (shares(weight) as f64).log2();
    10f64.powf((log * log + 125.0 * log) / 612.0 - 7.0 / 34.0).ceil().clamp(1.0, 10_000.0) as u64
}

/// A service with all its processes.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) keeper: Keeper,
    pub(super) weight: u64,
    /// Where it may run, each core once.
    pub(super) cores: Vec<u32>,
}

/// All that are weighed on a host.
#[derive(Debug, Default)]
pub(super) struct Groups(pub(super) Vec<Group>);

impl Groups {
    pub(super) fn find(&self, name: &str) -> Option<&Group> {
        self.0.iter().find(|group| group.name == name)
    }

    pub(super) fn on(&self, core: u32) -> impl Iterator<Item = &Group> {
        self.0.iter().filter(move |group| group.cores.contains(&core))
    }

    /// Of `room` on `core`, while `own` is busy there: where the whole of its weight is there, or (`evenly`) it is as busy on its
    /// other cores.
    pub(super) fn least(&self, own: &Group, core: u32, room: Bandwidth, evenly: bool) -> Bandwidth {
        let parts = if evenly { own.cores.len().max(1) as u128 } else { 1 };
        let beside = || self.on(core).filter(|one| one.keeper == own.keeper && one.name != own.name);
        let of = |turn: &fn(u64) -> u64| {
            let mine = u128::from(turn(own.weight));
            let others: u128 = beside().map(|one| u128::from(turn(one.weight))).sum();
            mine * u128::from(MILLION) / (mine + parts * others).max(1)
        };
        let least = own.keeper.turned().iter().map(of).min().unwrap_or(0);
        part(room, least as u64, MILLION) // at most a million
    }

    /// The same of one that may be busy on any of its cores: as much of one core, wherever its weight is.
    pub(super) fn least_anywhere(&self, own: &Group, room: impl Fn(u32) -> Bandwidth) -> Bandwidth {
        own.cores.iter().map(|core| self.least(own, *core, room(*core), false)).min().unwrap_or(Bandwidth::ZERO)
    }
}

const MILLION: u64 = 1_000_000;

/// `numerator / denominator` of it, no more.
pub(super) fn part(of: Bandwidth, numerator: u64, denominator: u64) -> Bandwidth {
    let millionths = u128::from(of.numer()) * u128::from(MILLION) * u128::from(numerator)
        / (u128::from(of.denom()) * u128::from(denominator)).max(1);
    Bandwidth::new(u64::try_from(millionths).unwrap_or(u64::MAX), MILLION).unwrap_or(Bandwidth::ZERO)
}

/// Whether `least` is `promised`, as exactly as weights are, which are whole numbers.
pub(super) fn holds(least: Bandwidth, promised: Bandwidth) -> bool {
    part(promised, 998, 1000) <= least
}

/// Weights of services that may all be busy on the core where reservations leave least: their floors, or less of them all.
pub(super) fn fitting(floors: &[u64], room: u64) -> Vec<u64> {
    let sum: u64 = floors.iter().sum();
    floors.iter().map(|floor| if sum <= room { *floor } else { (floor * room / sum.max(1)).max(1) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, keeper: Keeper, weight: u64, cores: &[u32]) -> Group {
        Group { name: name.into(), keeper, weight, cores: cores.into() }
    }

    #[test]
    fn engines_turn_shares_as_they_say() {
        assert_eq!([line(3000), line(39), line(1)], [2976, 39, 1]);
        assert_eq!(
            (1 + (1024 - 2) * 9999 / 262_142, curve(1024 / SHARES + 1)),
            (39, 102),
            "1040 is a little more than 1024, which is 100 from runc 1.3.2 on"
        );
        assert_eq!((curve(1_000_000), curve(0), shares(1_000_000)), (10_000, 1, 262_144));
    }

    #[test]
    fn what_may_run_on_several_cores_weighs_all_on_each_and_counts_on_its_part_alone() {
        let all = Groups(vec![
            group("a", Keeper::Units, 4000, &[1]),
            group("b", Keeper::Units, 4000, &[1, 2]),
            group("vm", Keeper::Machines, 9000, &[1]),
        ]);
        let of = |name: &str, evenly| all.least(all.find(name).unwrap(), 1, Bandwidth::ONE, evenly);
        let half = Bandwidth::new(1, 2).unwrap();
        assert_eq!((of("a", true), of("b", false)), (half, half));
        assert_eq!(of("b", true), Bandwidth::new(333_333, 1_000_000).unwrap());
        assert_eq!(of("vm", true), Bandwidth::ONE, "others' weights are not compared with it");
        assert_eq!(all.least_anywhere(&all.0[1], |_| Bandwidth::ONE), half);
    }

    #[test]
    fn too_much_becomes_less_of_each() {
        assert_eq!(fitting(&[1000, 3000], 5000), [1000, 3000]);
        assert_eq!(fitting(&[1000, 3000], 2000), [500, 1500]);
        assert_eq!(fitting(&[1000], 0), [1]);
    }
}
