//! A site and its plan that stand in memory, and change service by service.
//!
//! A command that reads and writes a plan takes as long as its file is large. A program that keeps both plans only the hosts
//! that a change concerns.

use crate::facts::Facts;
use crate::hosts::Machines;
use crate::known::Alike;
use crate::placement::choice::{count, distribute, stock, Given, Tally};
use crate::placements::Placements;
use crate::plan::{late, later, origins, told};
use crate::promises::percentiles::Answers;
use crate::refusal::Refusal;
use giusto_model::{
    HostLatency, HostPlan, LeftoverPlan, Measured, ModesPlan, NetworkPlan, Plan, Service, ServicePlan, Site,
};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A site with the plan that is in force.
///
/// Memory: that of the site, of its plan, and of what each service was found to need.
pub struct Standing {
    site: Site,
    /// Without placements: the plan has them.
    facts: Facts,
    plan: Plan,
    /// Of the host that the facts are of, if it was measured.
    latency: Option<(usize, HostLatency)>,
    answers: Answers,
    alike: Alike,
    stock: Vec<Facts>,
    tally: Tally,
}

/// What a change of the site changed in its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The services that ran before and have another host or another core now, by name.
    pub moved: Vec<String>,
    /// The hosts whose part of the plan is not what it was, but for the words of reasons, in the order of the site.
    pub hosts: Vec<String>,
    /// Whether all hosts were planned, and not only those that the change concerns.
    pub whole: bool,
}

/// What a site was before it was edited, in the order of the edits.
enum Edit {
    Added,
    Replaced(usize, Box<Service>),
    Removed(usize, Box<Service>),
}

impl Standing {
    /// Plans `site`; what [`Facts::placed`] says counts. Time and errors: those of [`crate::plan()`].
    pub fn new(site: Site, facts: Facts) -> Result<Standing, Refusal> {
        let (answers, alike) = (Answers::default(), Alike::default());
        let plan = told(&site, &facts, None, &answers, &alike)?;
        let latency = late(&site, &facts)?;
        let facts = Facts { placed: Placements::default(), ..facts };
        let (stock, tally) = (stock(&site), Tally::of(&site, true));
        let mut standing = Standing { site, facts, plan, latency, answers, alike, stock, tally };
        standing.count_all();
        Ok(standing)
    }

    /// The site as it is now: services that were added are its last ones.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Its plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Takes services out of the site and puts others into it, each in the place of the one of its name, if there is one.
    ///
    /// The plan is that of [`crate::plan()`] with the plan in force ([`Facts::placed`]), but for one thing: hosts that neither
    /// have nor get any of these services, nor one that has to make room for them, keep their part of it to the last word. All
    /// hosts are planned where the site has modes, where interfaces of services change or a measured latency counts more or
    /// less, and where a service is without a place otherwise.
    ///
    /// Names to be removed that the site does not have are passed over. What the site is then must be one that `site` would
    /// read. Time: O(services) small steps, and the plans of the hosts concerned; of all hosts, that of [`crate::plan()`].
    /// Errors: those of [`crate::plan()`] with the plan in force; then nothing has changed.
    pub fn change(&mut self, put: Vec<Service>, removed: &[&str]) -> Result<Changed, Refusal> {
        let named = put.iter().filter_map(|service| service.on.as_ref());
        named.into_iter().try_for_each(|on| crate::facts::index(&self.site, on).map(drop))?;
        let packets = |service: &Service| !service.network.is_empty();
        let open = |service: &Service| matches!(service.measured, Measured::Wanted { .. });
        let mut apart = self.site.modes.is_none()
            && self.site.paths.all.is_empty()
            && !put.iter().any(|service| packets(service) || open(service));
        let mut concerned = BTreeSet::new();
        let mut edits = Vec::new();
        for name in removed {
            let Some(place) = self.place(name) else { continue };
            concerned.extend(self.tally.host(place));
            edits.push(Edit::Removed(place, Box::new(self.site.services.remove(place))));
            self.tally.removed(place);
            self.alike.forget(name);
        }
        let mut fresh = Vec::new();
        for service in put {
            self.alike.forget(&service.name);
            let hosts = &self.site.hosts;
            concerned.extend(service.on.as_ref().and_then(|on| hosts.iter().position(|host| host.name == *on)));
            match self.place(&service.name) {
                Some(place) => {
                    concerned.extend(self.tally.host(place));
                    let old = std::mem::replace(&mut self.site.services[place], service);
                    edits.push(Edit::Replaced(place, Box::new(old)));
                }
                None => {
                    fresh.push(self.site.services.len());
                    self.site.services.push(service);
                    edits.push(Edit::Added);
                }
            }
        }
        apart &= !edits.iter().any(|edit| match edit {
            Edit::Added => false,
            Edit::Replaced(_, old) | Edit::Removed(_, old) => packets(old),
        });
        if let Some(changed) = apart.then(|| self.part(concerned, &fresh)).flatten() {
            return Ok(changed);
        }
        self.whole().inspect_err(|_| {
            self.undo(edits);
            self.count_all();
        })
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.site.services.iter().position(|service| service.name == name)
    }

    fn undo(&mut self, edits: Vec<Edit>) {
        for edit in edits.into_iter().rev() {
            let services = &mut self.site.services;
            let gone = match edit {
                Edit::Added => services.pop().map(|service| service.name),
                Edit::Replaced(place, old) => {
                    services[place] = *old;
                    Some(services[place].name.clone())
                }
                Edit::Removed(place, old) => {
                    services.insert(place, *old);
                    None
                }
            };
            gone.iter().for_each(|name| self.alike.forget(name));
        }
    }

    /// Plans the hosts that are `concerned`, with those services that are `fresh`, and those that others go to. `None`: there is
    /// no plan this way.
    fn part(&mut self, mut concerned: BTreeSet<usize>, fresh: &[usize]) -> Option<Changed> {
        if late(&self.site, &self.facts).ok()? != self.latency {
            return None;
        }
        let several = self.site.hosts.len() > 1;
        if !several {
            concerned.insert(0);
        }
        let now = Placements::of(&self.on(&concerned));
        let sets = &self.tally.sets;
        let mut all: Vec<usize> = concerned.iter().flat_map(|&host| &sets[host]).chain(fresh).copied().collect();
        all.sort_unstable();
        all.dedup();
        let bound = |host: usize| {
            let name = &self.site.hosts[host].name;
            let here = |place: &usize| self.site.services[*place].on.as_ref().map_or(!several, |on| on == name);
            (host, all.iter().copied().filter(here).collect())
        };
        let bound: Vec<(usize, Vec<usize>)> = concerned.iter().map(|&host| bound(host)).collect();
        let mut whys = HashMap::new();
        if several {
            let free = all.into_iter().filter(|place| self.site.services[*place].on.is_none()).collect();
            let (given, tally) = given(&self.site, &self.stock, &self.alike, &self.answers, &now, &mut self.tally);
            whys = distribute(&given, tally, &bound, free).ok()?;
            let hosts: Vec<Option<usize>> = whys.keys().map(|&place| self.tally.host(place)).collect();
            concerned.extend(hosts.into_iter().flatten());
        } else {
            self.tally.sets[0].clone_from(&bound[0].1);
        }
        let before = self.on(&concerned);
        let facts = Facts { placed: Placements::of(&before), ..later(&self.facts, self.latency.as_ref()) };
        let machines = Machines::of(&self.site, &facts, &self.answers, &self.alike).ok()?;
        let one = |&host: &usize| Some((host, machines.one(host, &self.tally.sets[host]).ok()?));
        let parts = concerned.iter().map(one).collect::<Option<_>>()?;
        let planned = || concerned.iter().flat_map(|&host| self.tally.sets[host].iter().copied());
        let mut after = machines.together(parts, planned(), &whys);
        origins(planned().map(|place| &self.site.services[place]), &mut after);
        for (host, part) in concerned.iter().zip(&mut after.hosts) {
            part.latency = self.latency.iter().find(|(of, _)| of == host).map(|(_, latency)| latency.clone());
        }
        let changed = changed(&self.site, &before, &after, false);
        self.replace(&concerned, after);
        self.count(&concerned);
        Some(changed)
    }

    /// Plans all hosts with the plan in force.
    fn whole(&mut self) -> Result<Changed, Refusal> {
        let facts = Facts { placed: Placements::of(&self.plan), ..self.facts.clone() };
        let plan = told(&self.site, &facts, None, &self.answers, &self.alike)?;
        self.latency = late(&self.site, &self.facts)?;
        let changed = changed(&self.site, &self.plan, &plan, true);
        self.plan = plan;
        self.count_all();
        Ok(changed)
    }

    /// What the plan has of some hosts and of what is on them. O(services).
    fn on(&self, hosts: &BTreeSet<usize>) -> Plan {
        let names: HashSet<&str> = hosts.iter().map(|&host| self.site.hosts[host].name.as_str()).collect();
        let services = self.plan.services.iter().filter(|service| names.contains(service.on.as_str()));
        let leftovers = self.plan.leftovers.iter().filter(|leftover| names.contains(leftover.on.as_str()));
        Plan {
            giusto_plan: self.plan.giusto_plan,
            basis: None,
            hosts: hosts.iter().map(|&host| self.plan.hosts[host].clone()).collect(),
            services: services.cloned().collect(),
            leftovers: leftovers.cloned().collect(),
            topics: Vec::new(),
            coordination: None,
            paths: Vec::new(),
            network: Vec::new(),
            modes: Vec::new(),
        }
    }

    /// Puts what was planned of some hosts into the plan. O(services).
    fn replace(&mut self, hosts: &BTreeSet<usize>, part: Plan) {
        let names: HashSet<&str> = hosts.iter().map(|&host| self.site.hosts[host].name.as_str()).collect();
        for (&host, own) in hosts.iter().zip(part.hosts) {
            self.plan.hosts[host] = own;
        }
        let (services, leftovers) = (&mut self.plan.services, &mut self.plan.leftovers);
        let here = |on: &String| names.contains(on.as_str());
        put(&self.site, services, part.services, |one| here(&one.on), |one| (&one.name, one.vcpu));
        put(&self.site, leftovers, part.leftovers, |one| here(&one.on), |one| (&one.name, None));
    }

    /// Counts anew what is on some hosts by the plan.
    fn count(&mut self, hosts: &BTreeSet<usize>) {
        if self.site.hosts.len() > 1 {
            let now = Placements::of(&self.on(hosts));
            let all: Vec<(usize, Vec<usize>)> =
                hosts.iter().map(|&host| (host, self.tally.sets[host].clone())).collect();
            let (given, tally) = given(&self.site, &self.stock, &self.alike, &self.answers, &now, &mut self.tally);
            count(&given, tally, &all);
        }
    }

    /// The same of all hosts, where nothing is known of them.
    fn count_all(&mut self) {
        let hosts: HashMap<&str, usize> = self.site.hosts.iter().map(|host| host.name.as_str()).zip(0..).collect();
        let services = self.plan.services.iter().map(|one| (one.name.as_str(), one.on.as_str()));
        let leftovers = self.plan.leftovers.iter().map(|one| (one.name.as_str(), one.on.as_str()));
        let on: HashMap<&str, usize> = services.chain(leftovers).map(|(name, on)| (name, hosts[on])).collect();
        self.tally = Tally::of(&self.site, true);
        for (place, service) in self.site.services.iter().enumerate() {
            self.tally.sets[on[service.name.as_str()]].push(place);
        }
        self.count(&(0..self.site.hosts.len()).collect());
    }
}

/// What a choice of hosts rests on, and what it counts.
fn given<'a>(
    site: &'a Site,
    stock: &'a [Facts],
    alike: &'a Alike,
    answers: &'a Answers,
    now: &'a Placements,
    tally: &'a mut Tally,
) -> (Given<'a>, &'a mut Tally) {
    (Given { site, stock, known: &alike.stock, now, answers }, tally)
}

/// Puts `new` entries in the places of old ones of the same names and virtual CPUs, and otherwise where the order of the site has
/// them; of those that are `here`, the others go.
fn put<T>(
    site: &Site,
    all: &mut Vec<T>,
    mut new: Vec<T>,
    here: impl Fn(&T) -> bool,
    name: impl for<'t> Fn(&'t T) -> (&'t String, Option<u32>),
) {
    all.retain_mut(|one| {
        if !here(one) {
            return true;
        }
        let at = new.iter().position(|other| name(other) == name(one));
        at.inspect(|&at| *one = new.remove(at)).is_some()
    });
    let turn = |one: &T| {
        let (service, vcpu) = name(one);
        (site.services.iter().position(|own| own.name == *service), vcpu)
    };
    for one in new {
        let own = turn(&one);
        all.insert(all.partition_point(|other| turn(other) < own), one);
    }
}

/// Whatever a plan has of a host, without reasons of services.
type Part<'a> =
    (Option<&'a HostPlan>, Vec<ServicePlan>, Vec<LeftoverPlan>, Option<&'a NetworkPlan>, Option<&'a ModesPlan>);

fn parts(plan: &Plan) -> HashMap<&str, Part<'_>> {
    let mut all: HashMap<&str, Part> = HashMap::new();
    plan.hosts.iter().for_each(|one| all.entry(&one.name).or_default().0 = Some(one));
    for one in &plan.services {
        all.entry(&one.on).or_default().1.push(ServicePlan { reasons: Vec::new(), ..one.clone() });
    }
    for one in &plan.leftovers {
        all.entry(&one.on).or_default().2.push(LeftoverPlan { reasons: Vec::new(), ..one.clone() });
    }
    plan.network.iter().for_each(|one| all.entry(&one.on).or_default().3 = Some(one));
    plan.modes.iter().for_each(|one| all.entry(&one.on).or_default().4 = Some(one));
    all
}

/// What is different between plans of the same hosts. O(services).
fn changed(site: &Site, before: &Plan, after: &Plan, whole: bool) -> Changed {
    let there = Placements::of(after);
    let moved = Placements::of(before).moves(&there).into_iter().cloned().collect();
    let (before, after) = (parts(before), parts(after));
    let other = |name: &&String| before.get(name.as_str()) != after.get(name.as_str());
    let hosts = site.hosts.iter().map(|host| &host.name).filter(other).cloned().collect();
    Changed { moved, hosts, whole }
}
