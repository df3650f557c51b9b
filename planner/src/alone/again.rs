//! The reservations of a host planned again under what programs without Giusto can do: a core to itself, else a part of one.

use super::weigh::{fitting, part, Group, Groups, Keeper};
use crate::facts::{BackendFact, Facts};
use crate::placements::Placements;
use crate::plan::plan;
use crate::refusal::Refusal;
use giusto_model::{
    Backend, Bandwidth, Cap, Duration, Host, HostPlan, Interface, LeftoverPlan, Origin, Paths, Plan, Promise, Server,
    Service, ServicePlan, Site, Unused,
};

/// What remains of a host's plan.
pub(super) struct Alone<'a> {
    pub(super) host: &'a HostPlan,
    /// In the order of the plan.
    pub(super) entries: Vec<Entry<'a>>,
    pub(super) rest: Vec<Rest<'a>>,
    /// Cores with one reservation.
    pub(super) whole: Vec<u32>,
    /// Cores with several.
    pub(super) shared: Vec<u32>,
    /// So many cores more, and each reservation had one to itself.
    pub(super) missing: usize,
    /// All with a weight.
    pub(super) groups: Groups,
}

/// A reservation.
pub(super) struct Entry<'a> {
    pub(super) planned: &'a ServicePlan,
    pub(super) core: u32,
    pub(super) way: Way,
}

/// How it gets its time.
pub(super) enum Way {
    /// Its core has no other reservation.
    Whole,
    /// By quota and weight.
    Share(Share),
}

/// A part of a core.
pub(super) struct Share {
    /// Of all of its service, of [`Share::WEIGHTS`] a core.
    pub(super) weight: u64,
    /// What the planner says to its promise under quotas.
    pub(super) refused: String,
    /// Planned as a leftover with its bandwidth for a floor; or why that does not fit.
    pub(super) floor: Result<Floor, String>,
}

impl Share {
    /// The weight of a whole core: the largest that cgroups take.
    pub(super) const WEIGHTS: u64 = 10_000;
}

/// What the fair scheduler gives over time.
#[derive(Clone)]
pub(super) struct Floor {
    /// By its weight, wherever others are busy.
    pub(super) least: Bandwidth,
    /// What all share.
    pub(super) available: Bandwidth,
}

/// A service that gets what is left.
pub(super) struct Rest<'a> {
    pub(super) planned: &'a LeftoverPlan,
    /// Where it may run.
    pub(super) cores: Vec<u32>,
    /// These are cores on which reservations are by quota and weight: there are no others.
    pub(super) shares: bool,
    /// Beside reservations, and where it has a floor.
    pub(super) weight: Option<u64>,
    /// What it has; or why its floor is not held.
    pub(super) floor: Result<Floor, String>,
}

/// A quota of the fair scheduler, in its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    /// In us.
    pub(super) quota: u64,
    /// In us.
    pub(super) period: u64,
}

impl Quota {
    /// The kernel takes no smaller quota or period, in us.
    const LEAST: u64 = 1000;
    /// Nor a longer period.
    const LONGEST: u64 = 1_000_000;

    /// A server's budget and period, or a multiple or part of both where the kernel does not take them: no less of a core,
    /// and no more than us make of it.
    pub(super) fn of(server: Server) -> Quota {
        Quota::part(server.budget.ns(), server.period.ns())
    }

    /// Such a share of a core, every 100 ms as is usual.
    pub(super) fn share(share: Bandwidth) -> Quota {
        let period = Duration::from_ms(100).ns();
        Quota::part(share.times_ceil(Duration::from_ns(period)).map_or(period, Duration::ns), period)
    }

    /// What several servers have together: that of one, or their shares in the longest of their periods.
    pub(super) fn together(servers: impl Iterator<Item = Server> + Clone) -> Quota {
        let quotas = servers.map(Quota::of);
        let period = quotas.clone().map(|one| one.period).max().unwrap_or(Quota::LONGEST);
        Quota { quota: quotas.map(|one| (one.quota * period).div_ceil(one.period)).sum(), period }
    }

    /// `budget` of every `period`, both in ns.
    fn part(budget: u64, period: u64) -> Quota {
        let (budget, period) = (u128::from(budget.max(1)), u128::from(period.max(1)));
        let (least, longest) = (u128::from(Quota::LEAST) * 1000, u128::from(Quota::LONGEST) * 1000);
        let times = least.div_ceil(budget);
        let wanted = (period * times).min(longest);
        // Whole us; a period that is cut keeps the share.
        let us = (wanted / 1000).max(u128::from(Quota::LEAST));
        let quota = (budget * us).div_ceil(period).max(u128::from(Quota::LEAST));
        Quota { quota: quota as u64, period: us as u64 } // at most a second, or a core
    }
}

impl<'a> Alone<'a> {
    /// Of the host at `index` of the plan's, for a target that makes `started` of what the site starts. Cores are the same for all
    /// targets. O(entries²), and a plan a core with several reservations and a refusal a service there.
    pub(super) fn of(site: &Site, facts: &Facts, plan: &'a Plan, index: usize, started: Keeper) -> Alone<'a> {
        let host = &plan.hosts[index];
        let planned: Vec<&ServicePlan> = plan.services.iter().filter(|one| one.on == host.name).collect();
        let packets: Vec<u32> =
            plan.network.iter().filter(|one| one.on == host.name).flat_map(|one| one.cores.clone()).collect();
        let open: Vec<u32> = host.open_cores().into_iter().filter(|core| !packets.contains(core)).collect();
        let cores = apart(&planned, spread(&planned, &open), host.keep_free);
        let on = |core: u32| cores.iter().filter(|one| **one == core).count();
        let mut used = cores.clone();
        used.sort_unstable();
        used.dedup();
        let (whole, shared): (Vec<u32>, Vec<u32>) = used.iter().partition(|core| on(**core) == 1);
        let free: Vec<u32> = open.iter().copied().filter(|core| !used.contains(core)).collect();
        let again = Again { site, facts, host };
        let rooms: Vec<(u32, Result<Bandwidth, String>)> =
            shared.iter().map(|&core| (core, again.floors(&[core], &mine(&planned, &cores, core), &[]))).collect();
        let leftovers: Vec<&LeftoverPlan> = plan.leftovers.iter().filter(|one| one.on == host.name).collect();
        let places = Places { planned: &planned, cores: &cores, free: &free, whole: &whole, shared: &shared };
        let mut rest: Vec<Rest> = leftovers.iter().map(|planned| places.of(planned)).collect();
        let on_shared = match shared.is_empty() {
            true => Err("each core has a service to itself, which may take all of it".into()),
            false => {
                let beside: Vec<&ServicePlan> = shared.iter().flat_map(|&core| mine(&planned, &cores, core)).collect();
                again.floors(&shared, &beside, &leftovers)
            }
        };
        let on_free = if free.is_empty() { on_shared } else { again.floors(&free, &[], &leftovers) };
        let mut scale = Scale { groups: Groups::default(), rooms, shared, started };
        scale.weigh(&planned, &cores, &mut rest);
        let floor = |one: &Rest| on_free.clone().and_then(|available| scale.floor(one, available, &free));
        let floors: Vec<Result<Floor, String>> = rest.iter().map(floor).collect();
        rest.iter_mut().zip(floors).for_each(|(one, floor)| one.floor = floor);
        let entry = |(one, core): (&&'a ServicePlan, &u32)| {
            let way = match scale.rooms.iter().any(|(shared, _)| shared == core) {
                false => Way::Whole,
                true => Way::Share(Share {
                    weight: scale.groups.find(&one.name).map_or(1, |group| group.weight),
                    refused: again.under_quota(one),
                    floor: scale.share(one, *core, &mine(&planned, &cores, *core)),
                }),
            };
            Entry { planned: one, core: *core, way }
        };
        let entries: Vec<Entry> = planned.iter().zip(&cores).map(entry).collect();
        let missing = entries.len().saturating_sub(open.len());
        let Scale { groups, shared, .. } = scale;
        Alone { host, entries, rest, whole, shared, missing, groups }
    }
}

/// Cores with what is on them.
struct Places<'p, 'a> {
    planned: &'p [&'a ServicePlan],
    cores: &'p [u32],
    free: &'p [u32],
    whole: &'p [u32],
    shared: &'p [u32],
}

impl<'a> Places<'_, 'a> {
    /// Where a leftover runs: on cores without a reservation. One without a floor also where a real-time thread goes before it. Else
    /// where it is weighed with reservations, else beside whatever there is.
    fn of(&self, planned: &'a LeftoverPlan) -> Rest<'a> {
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

/// Weights, and what they give.
struct Scale {
    groups: Groups,
    /// Of each core with several reservations what all share there; or why they do not fit.
    rooms: Vec<(u32, Result<Bandwidth, String>)>,
    shared: Vec<u32>,
    started: Keeper,
}

impl Scale {
    /// The weight of what has no floor, beside floors that make up to 10,000; and that of a unit which says nothing.
    const LITTLE: u64 = 10;
    const ORDINARY: u64 = 100;

    /// Each reservation as its bandwidth; leftovers as their floors, as far as there is room for them on each core that they may
    /// run on.
    fn weigh(&mut self, planned: &[&ServicePlan], cores: &[u32], rest: &mut [Rest]) {
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

    /// What all of `keeper` share on a core with several reservations. The slice of units weighs 10,000, divided among its cores, and
    /// what is beside it 100.
    fn room(&self, core: u32, keeper: Keeper) -> Bandwidth {
        let Some((_, Ok(room))) = self.rooms.iter().find(|(one, _)| *one == core) else { return Bandwidth::ZERO };
        let beside = self.groups.on(core).filter(|group| !matches!(group.keeper, Keeper::Units | Keeper::Nobody));
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
            Keeper::Nobody => Err("nothing sets it".into()),
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
    fn share(&self, planned: &ServicePlan, core: u32, there: &[&ServicePlan]) -> Result<Floor, String> {
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
    fn floor(&self, rest: &Rest, available: Bandwidth, free: &[u32]) -> Result<Floor, String> {
        let Some(own) = self.groups.find(&rest.planned.name) else { return Err("it is not there".into()) };
        for core in &own.cores {
            self.not_weighed(&own.name, own.keeper, *core, rest.shares)?;
        }
        let is_only = free.iter().all(|core| self.groups.on(*core).count() <= 1);
        let least = match rest.shares {
            true => self.groups.least_anywhere(own, |core| self.room(core, own.keeper)),
            false if is_only => available,
            false => self.groups.least_anywhere(own, |_| part(available, 1, free.len().max(1) as u64)),
        };
        Ok(Floor { least, available })
    }
}

/// The share of [`Share::WEIGHTS`] that a bandwidth is.
pub(super) fn weight(of: Bandwidth) -> u64 {
    let whole = u128::from(of.numer()) * u128::from(Share::WEIGHTS);
    whole.div_ceil(u128::from(of.denom().max(1))).clamp(1, u128::from(Share::WEIGHTS)) as u64
}

fn mine<'a>(planned: &[&'a ServicePlan], cores: &[u32], core: u32) -> Vec<&'a ServicePlan> {
    planned.iter().zip(cores).filter(|(_, its)| **its == core).map(|(one, _)| *one).collect()
}

/// The core of each reservation: that of the plan, but cores without one take those of cores with several, as long as there
/// are some: first those whose promise a share keeps least, of these the largest.
fn spread(planned: &[&ServicePlan], open: &[u32]) -> Vec<u32> {
    let mut cores: Vec<u32> = planned.iter().map(|one| one.core).collect();
    for free in open {
        if cores.contains(free) {
            continue;
        }
        let crowded = |at: &usize| cores.iter().filter(|core| **core == cores[*at]).count() > 1;
        let rank = |at: &usize| {
            let strict = match planned[*at].promise {
                Promise::EveryDeadline { .. } => 4,
                Promise::AsIfAlone => 3,
                Promise::Stage { .. } => 2,
                Promise::Percentiles { .. } => 1,
                Promise::Supply(_) | Promise::Leftovers { .. } => 0,
            };
            (strict, planned[*at].server.bandwidth(), std::cmp::Reverse(*at))
        };
        let Some(moves) = (0..cores.len()).filter(crowded).max_by_key(rank) else { break };
        cores[moves] = *free;
    }
    cores
}

/// The same, but on cores with several reservations those of one keeper alone, if they fit so: no weight compares a container with a
/// unit. A core that a supply has to itself is given up for that, where it has to be.
fn apart(planned: &[&ServicePlan], cores: Vec<u32>, keep_free: Bandwidth) -> Vec<u32> {
    let keeper = |at: usize| Keeper::of(&planned[at].name, &planned[at].origin, Keeper::Units);
    let together = |one: usize, other: usize| one != other && cores[one] == cores[other];
    let all = 0..cores.len();
    let mixed = |one: usize| all.clone().any(|other| together(one, other) && !keeper(one).goes_with(keeper(other)));
    if !all.clone().any(mixed) {
        return cores;
    }
    let shared: Vec<usize> = all.clone().filter(|one| all.clone().any(|other| together(*one, other))).collect();
    let supplies: Vec<usize> =
        all.clone().filter(|at| shared.contains(at) || matches!(planned[*at].promise, Promise::Supply(_))).collect();
    let room = Bandwidth::ONE.checked_sub(keep_free).unwrap_or(Bandwidth::ONE);
    let moved = |which: &[usize]| regrouped(planned, &cores, which, &keeper, room);
    moved(&shared).or_else(|| moved(&supplies)).unwrap_or(cores)
}

/// Those of `which` on the same cores as before, each core with those of one keeper: first the keeper and the reservation with most.
/// `None`: they do not fit so.
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
    let (mut moving, staying): (Vec<usize>, Vec<usize>) = which.iter().partition(|at| keeper(**at) != Keeper::Nobody);
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

/// What is planned again.
struct Again<'a> {
    site: &'a Site,
    facts: &'a Facts,
    host: &'a HostPlan,
}

impl Again<'_> {
    /// What all share where reservations become leftovers with their bandwidths for floors, on these cores; or why they do not
    /// fit.
    fn floors(&self, cores: &[u32], beside: &[&ServicePlan], rest: &[&LeftoverPlan]) -> Result<Bandwidth, String> {
        let mut services = Vec::new();
        for planned in beside {
            let share = planned.server.bandwidth();
            let at_most = (planned.cap == Cap::Hard).then_some(share);
            let promise = Promise::Leftovers { at_least: share, at_most };
            let part = planned.vcpu.map_or(String::new(), |vcpu| format!("-{vcpu}"));
            let again = self.named(&planned.name).map(|one| plain(one, promise));
            services.extend(again.map(|one| Service { name: format!("{}{part}", one.name), ..one }));
        }
        services.extend(rest.iter().filter_map(|left| {
            let LeftoverPlan { at_least, at_most, .. } = **left;
            self.named(&left.name).map(|one| plain(one, Promise::Leftovers { at_least, at_most }))
        }));
        if services.is_empty() {
            return Ok(Bandwidth::ZERO);
        }
        let plan = self.plan(cores, services, None).map_err(|refusal| refusal.to_string())?;
        Ok(plan.leftovers.first().map_or(Bandwidth::ZERO, |left| left.available))
    }

    /// What the planner says of its promise where quotas are all there is.
    fn under_quota(&self, planned: &ServicePlan) -> String {
        let Some(service) = self.named(&planned.name) else { return String::new() };
        let promise = match &service.promise {
            Promise::Stage { .. } => {
                let Server { budget, period, .. } = planned.server;
                Promise::Supply(vec![Interface { budget, period }])
            }
            other => other.clone(),
        };
        let service =
            Service { on: None, network: Vec::new(), modes: Vec::new(), agent: None, promise, ..service.clone() };
        match self.plan(&self.host.cores, vec![service], Some(Backend::Quota)) {
            Ok(_) => String::new(),
            Err(Refusal::Asked { why, .. }) => why,
            Err(other) => other.to_string(),
        }
    }

    fn named(&self, name: &str) -> Option<&Service> {
        self.site.services.iter().find(|service| service.name == name)
    }

    /// The plan of a host that has these services alone, where every mechanism is.
    fn plan(&self, cores: &[u32], services: Vec<Service>, insist: Option<Backend>) -> Result<Plan, Refusal> {
        let host = Host {
            name: self.host.name.clone(),
            cores: cores.to_vec(),
            keep_free: self.host.keep_free,
            network: None,
            unused: Unused::Leave,
            xen: None,
        };
        let there = |backend| BackendFact { backend, available: true, why_not: String::new() };
        let facts = Facts {
            host: None,
            cores: cores.to_vec(),
            backends: Backend::ALL.map(there).to_vec(),
            held: Vec::new(),
            latency: None,
            insist,
            placed: Placements::default(),
            ..self.facts.clone()
        };
        let paths = Paths::default();
        let site = Site { hosts: vec![host], services, topics: Vec::new(), coordination: None, paths, modes: None };
        plan(&site, &facts)
    }
}

/// The same service with another promise and nothing that goes with its own.
fn plain(service: &Service, promise: Promise) -> Service {
    Service {
        process: service.process.clone(),
        margin: service.margin,
        ..Service::plain(service.name.clone(), service.origin.clone(), promise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::ServerKind;

    #[test]
    fn a_quota_is_no_less_than_the_server_and_one_that_the_kernel_takes() {
        let us = Duration::from_us;
        let quota = |budget, period| Quota::of(Server { kind: ServerKind::Deferrable, budget, period });
        assert_eq!(quota(us(3000), us(10_000)), Quota { quota: 3000, period: 10_000 });
        assert_eq!(quota(us(300), us(1000)), Quota { quota: 1200, period: 4000 }, "below a millisecond: a multiple");
        assert_eq!(
            quota(us(1_000_000), us(4_000_000)),
            Quota { quota: 250_000, period: 1_000_000 },
            "at most a second"
        );
        assert_eq!(quota(Duration::from_ns(1), us(4_000_000)), Quota { quota: 1000, period: 1_000_000 });
        for (budget, period) in [(1, 1), (1500, 3001), (999_999, 1_000_001), (1 << 40, 1 << 41), (7, 1 << 62)] {
            let server = Server {
                kind: ServerKind::Deferrable,
                budget: Duration::from_ns(budget),
                period: Duration::from_ns(period),
            };
            let Quota { quota, period } = Quota::of(server);
            assert!(quota >= 1000 && (1000..=1_000_000).contains(&period), "{quota} {period}");
            assert!(Bandwidth::new(quota, period).unwrap() >= server.bandwidth());
        }
        assert_eq!(Quota::share(Bandwidth::new(2, 5).unwrap()), Quota { quota: 40_000, period: 100_000 });
        assert_eq!(
            (weight(Bandwidth::new(1, 3).unwrap()), weight(Bandwidth::ZERO), weight(Bandwidth::ONE)),
            (3334, 1, 10_000)
        );
    }
}
