//! The weights of a host's services, and what these give them.

use super::quota::weight;
use super::share::{Floor, Rest, Share};
use super::weigh::{fitting, part, Group, Groups, Keeper};
use giusto_model::{Bandwidth, LeftoverPlan, ServicePlan};

/// Weights, and what they give.
pub(super) struct Scale {
    pub(super) groups: Groups,
    /// Of each core with several reservations what all share there; or why they do not fit.
    pub(super) rooms: Vec<(u32, Result<Bandwidth, String>)>,
    pub(super) shared: Vec<u32>,
    pub(super) started: Keeper,
}

impl Scale {
    /// The weight of what has no floor, beside floors that make up to 10,000; and that of a unit which says nothing.
    const LITTLE: u64 = 10;
    const ORDINARY: u64 = 100;

    /// Each reservation as its bandwidth; leftovers as their floors, as far as there is room for them on each core that they may
    /// run on.
    pub(super) fn weigh(&mut self, planned: &[&ServicePlan], cores: &[u32], rest: &mut [Rest]) {
        for (one, core) in planned.iter().zip(cores) {
            let weight = weight(one.server.bandwidth());
            match self.groups.0.iter_mut().find(|group| group.name == one.name) {
                Some(group) => {
                    group.weight = (group.weight + weight).min(Share::WEIGHTS);
                    if !group.cores.contains(core) {
                        group.cores.push(*core);
                    }
                }
                None => self.groups.0.push(Group {
                    name: one.name.clone(),
                    keeper: Keeper::of(&one.name, &one.origin, self.started),
                    weight,
                    cores: vec![*core],
                }),
            }
        }
        for one in rest.iter().filter(|one| !one.shares) {
            let (name, keeper) = (one.planned.name.clone(), self.keeper(one.planned));
            let has_floor = one.planned.at_least > Bandwidth::ZERO;
            let weight = if has_floor { weight(one.planned.at_least).max(Scale::ORDINARY) } else { Scale::ORDINARY };
            self.groups.0.push(Group { name, keeper, weight, cores: one.cores.clone() });
        }
        let mut keepers: Vec<Keeper> = Vec::new();
        for one in rest.iter().filter(|one| one.shares) {
            let keeper = self.keeper(one.planned);
            if !keepers.contains(&keeper) {
                keepers.push(keeper);
            }
        }
        for keeper in keepers {
            let its: Vec<usize> =
                (0..rest.len()).filter(|at| rest[*at].shares && self.keeper(rest[*at].planned) == keeper).collect();
            let left = |core: &u32| {
                let room = part(self.room(*core, keeper), Share::WEIGHTS, 1);
                let taken: u64 = self.groups.on(*core).filter(|one| one.keeper == keeper).map(|one| one.weight).sum();
                (room.as_f64() as u64).saturating_sub(taken)
            };
            let room = its.iter().flat_map(|at| rest[*at].cores.iter()).map(left).min().unwrap_or(0);
            let floors: Vec<u64> = its.iter().map(|at| weight(rest[*at].planned.at_least).max(Scale::LITTLE)).collect();
            for (at, weight) in its.into_iter().zip(fitting(&floors, room)) {
                let (name, cores) = (rest[at].planned.name.clone(), rest[at].cores.clone());
                self.groups.0.push(Group { name, keeper, weight, cores });
            }
        }
        for one in rest.iter_mut().filter(|one| one.shares || one.planned.at_least > Bandwidth::ZERO) {
            one.weight = self.groups.find(&one.planned.name).map(|group| group.weight);
        }
    }

    fn keeper(&self, one: &LeftoverPlan) -> Keeper {
        Keeper::of(&one.name, &one.origin, self.started)
    }

    /// What all of `keeper` share on a core with several reservations. The slice of units weighs 10,000, divided among its cores,
    /// and what is beside it 100.
    fn room(&self, core: u32, keeper: Keeper) -> Bandwidth {
        let Some((_, Ok(room))) = self.rooms.iter().find(|(one, _)| *one == core) else { return Bandwidth::ZERO };
        let beside = self.groups.on(core).filter(|group| !matches!(group.keeper, Keeper::Units | Keeper::Unset));
        let beside: u64 = beside.map(|_| Scale::ORDINARY).sum();
        match keeper {
            Keeper::Units => {
                let slice = Share::WEIGHTS / (self.shared.len() as u64).max(1);
                part(*room, slice, slice + beside)
            }
            _ => *room,
        }
    }

    /// Why no weight says what a service of `keeper` gets of a core, `in_slice` or not.
    fn not_weighed(&self, name: &str, keeper: Keeper, core: u32, in_slice: bool) -> Result<(), String> {
        let others: Vec<&str> = self
            .groups
            .on(core)
            .filter(|one| !one.keeper.goes_with(keeper) && one.name != name)
            .map(|one| one.name.as_str())
            .collect();
        match keeper {
            Keeper::Unset => Err("nothing sets it".into()),
            Keeper::Apart => {
                Err("its weight is compared with what is beside it in its slice, and not with services".into())
            }
            // It goes before.
            Keeper::Units if in_slice => Ok(()),
            _ if others.is_empty() => Ok(()),
            _ => Err(format!(
                "core {core} is shared with {}, and no weight of one program is compared with another's",
                others.join(", ")
            )),
        }
    }

    /// Of a reservation on a core with several, `there`.
    pub(super) fn share(&self, planned: &ServicePlan, core: u32, there: &[&ServicePlan]) -> Result<Floor, String> {
        let (_, room) = self.rooms.iter().find(|(one, _)| *one == core).ok_or("it is not there")?;
        let available = room.clone()?;
        let Some(own) = self.groups.find(&planned.name) else { return Err("it is not there".into()) };
        self.not_weighed(&own.name, own.keeper, core, true)?;
        let least = self.groups.least(own, core, self.room(core, own.keeper), true);
        // Its own threads on one core have alike.
        let alike = there.iter().filter(|one| one.name == planned.name).count();
        Ok(Floor { least: part(least, 1, alike.max(1) as u64), available })
    }

    /// Of a leftover.
    pub(super) fn floor(&self, rest: &Rest, available: Bandwidth, free: &[u32]) -> Result<Floor, String> {
        let Some(own) = self.groups.find(&rest.planned.name) else { return Err("it is not there".into()) };
        for core in &own.cores {
            self.not_weighed(&own.name, own.keeper, *core, rest.shares)?;
        }
        // Of the cores that it may run on: not all that are shared.
        let rooms = self.rooms.iter().filter(|(core, _)| own.cores.contains(core));
        let rooms = rooms.filter_map(|(_, room)| room.as_ref().ok());
        let there = rooms.fold(Bandwidth::ZERO, |sum, room| sum.add_down(*room).unwrap_or(sum));
        let available = if rest.shares { there } else { available };
        let is_only = free.iter().all(|core| self.groups.on(*core).count() <= 1);
        let least = match rest.shares {
            true => self.groups.least_anywhere(own, |core| self.room(core, own.keeper)),
            false if is_only => available,
            false => self.groups.least_anywhere(own, |_| part(available, 1, free.len().max(1) as u64)),
        };
        Ok(Floor { least, available })
    }
}
