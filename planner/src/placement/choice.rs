//! Which host gets which service, where the site does not say.
//!
//! Every machine of a site plans for itself and can look only at itself. So this choice rests on the site alone, with a stock
//! machine in the place of every host: all machines choose alike, and no service runs on two of them, or on none.

use super::host::one_host;
use super::index::{Bound, Index};
use super::room::{most, Asked, Room};
use crate::candidates::candidates;
use crate::facts::Facts;
use crate::host::{OneHost, Placed};
use crate::known::Known;
use crate::needs::Company;
use crate::placements::Placements;
use crate::promises::as_if_alone::{size, Sized};
use crate::promises::percentiles::Answers;
use crate::promises::{self, Asks};
use crate::refusal::{Cause, Elsewhere, Refusal, Witness};
use crate::words::share;
use giusto_model::{Backend, Bandwidth, Host, Promise, Service, Site};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;

/// What a choice rests on.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    pub(crate) site: &'a Site,
    /// Of each host what is assumed of it: [`stock`].
    pub(crate) stock: &'a [Facts],
    /// Of stock machines.
    pub(crate) known: &'a Known,
    /// Services stay where they are now, where they can.
    pub(crate) now: &'a Placements,
    pub(crate) answers: &'a Answers,
}

/// Who is where.
pub(crate) struct Choice {
    /// For each host the places in the site of its services, ascending.
    pub(crate) sets: Vec<Vec<usize>>,
    /// Why services that the site binds to no host are there, by their places.
    pub(crate) whys: HashMap<usize, String>,
}

/// Stock machines with the cores of a site's hosts.
pub(crate) fn stock(site: &Site) -> Vec<Facts> {
    site.hosts.iter().map(|host| Facts::typical(host.cores.clone())).collect()
}

/// A host that does not take a service, and what its plan says; `None`: those that the site puts there do not fit a stock machine
/// by themselves.
struct Passed {
    host: usize,
    refusal: Option<Refusal>,
    why: String,
}

/// So many hosts that do not take a service are told with their reasons.
const TOLD: usize = 3;

/// Distributes the services that are bound to no host, on top of the `bound` ones of each.
///
/// In the order in which cores are given, largest first: as-if-alone, then supplies (by their largest interface) and deadlines
/// and percentiles (by their largest server beside others), then leftovers (by their floor). Each goes to the first host, in the
/// order of the site, whose plan still works with it; one without a floor goes where most is left. Where bandwidths alone decide,
/// O(services · (cores of a host + log hosts)) steps, and O(hosts) plans of a host; where modes, criticality, windows or
/// floors do, O(services · hosts) plans. Errors: one that no host takes.
pub(crate) fn choose_hosts(given: &Given, bound: Vec<Vec<usize>>) -> Result<Choice, Refusal> {
    let services = given.site.services.iter().enumerate();
    let free: Vec<usize> = services.filter(|(_, service)| service.on.is_none()).map(|(place, _)| place).collect();
    if given.site.hosts.len() == 1 || free.is_empty() {
        return Ok(Choice { sets: bound, whys: HashMap::new() });
    }
    let mut tally = Tally::of(given.site, !given.now.is_empty());
    let bound: Vec<(usize, Vec<usize>)> = (0..).zip(bound).collect();
    let whys = distribute(given, &mut tally, &bound, free)?;
    Ok(Choice { sets: tally.sets, whys })
}

/// What is counted of hosts while services are distributed, and kept from one change of the site to the next.
pub(crate) struct Tally {
    /// Whether servers stay on the cores that they have.
    stays: bool,
    rooms: Vec<Room>,
    /// For each host the places in the site of its services, ascending.
    pub(crate) sets: Vec<Vec<usize>>,
    /// What the services that the site puts on a host do not fit a stock machine for, before any other comes.
    closed: Vec<Option<String>>,
}

impl Tally {
    /// Of hosts without services.
    pub(crate) fn of(site: &Site, stays: bool) -> Self {
        let rooms = site.hosts.iter().map(|host| Room::of(&host.cores, stays)).collect();
        Tally { stays, rooms, sets: vec![Vec::new(); site.hosts.len()], closed: vec![None; site.hosts.len()] }
    }

    /// The host of the service at a place of the site. O(hosts).
    pub(crate) fn host(&self, place: usize) -> Option<usize> {
        self.sets.iter().position(|set| set.binary_search(&place).is_ok())
    }

    /// The service at this place of the site is no more, and all after it are one place further up. O(services).
    pub(crate) fn removed(&mut self, place: usize) {
        for set in &mut self.sets {
            set.retain(|own| *own != place);
            set.iter_mut().filter(|own| **own > place).for_each(|own| *own -= 1);
        }
        self.rooms.iter_mut().for_each(|room| room.removed(place));
    }
}

/// Distributes anew what is on some hosts, by their places in the site with the services that are `bound` there: these, and
/// those that are `free`, ascending. All other hosts keep what they have. Returns why each of `free` is where it is. Errors: one
/// that no host takes; then `tally` is of no use.
pub(crate) fn distribute(
    given: &Given,
    tally: &mut Tally,
    bound: &[(usize, Vec<usize>)],
    free: Vec<usize>,
) -> Result<HashMap<usize, String>, Refusal> {
    let mut chooser = Chooser::of(given, tally);
    chooser.only(bound);
    let (mut whys, mut others) = (HashMap::new(), Vec::new());
    let names: HashMap<&str, usize> =
        bound.iter().map(|(host, _)| (given.site.hosts[*host].name.as_str(), *host)).collect();
    for index in chooser.staying_first(free) {
        let host = given.now.host(&given.site.services[index].name).and_then(|host| names.get(host).copied());
        match host.filter(|&host| chooser.tally.closed[host].is_none() && chooser.takes(host, index)) {
            Some(host) => {
                chooser.put(host, index);
                whys.insert(index, "where it is now".into());
            }
            None => others.push(index),
        }
    }
    for index in chooser.in_order(others) {
        let (host, why) = match chooser.host_for(index) {
            Err(_) if chooser.stays() => chooser.host_anew(index)?,
            other => other?,
        };
        chooser.put(host, index);
        whys.insert(index, why);
    }
    Ok(whys)
}

/// Counts anew what is on some hosts, by their places in the site with all of their services, where these are `now`.
pub(crate) fn count(given: &Given, tally: &mut Tally, hosts: &[(usize, Vec<usize>)]) {
    let mut chooser = Chooser::of(given, tally);
    let on = |place: &usize| given.site.services[*place].on.is_some();
    let bound: Vec<(usize, Vec<usize>)> =
        hosts.iter().map(|(host, all)| (*host, all.iter().copied().filter(on).collect())).collect();
    chooser.only(&bound);
    for (host, all) in hosts {
        let free = all.iter().copied().filter(|place| !on(place)).collect();
        for index in chooser.staying_first(free) {
            chooser.put(*host, index);
        }
    }
}

struct Chooser<'a> {
    site: &'a Site,
    stock: &'a [Facts],
    sizes: Sizes<'a>,
    known: &'a Known,
    /// By the place of a service and what is kept free.
    asks: HashMap<(usize, Bandwidth), Rc<Asked>>,
    tally: &'a mut Tally,
    /// Which hosts may have room for servers under a backend, that of the first service.
    index: Option<(Backend, Index)>,
    now: &'a Placements,
    answers: &'a Answers,
}

/// The servers of services on stock machines, by what is kept free there: nothing else of a host matters to them.
#[derive(Default)]
struct Sizes<'a>(HashMap<(&'a str, Bandwidth), Result<Sized, Refusal>>);

impl<'a> Sizes<'a> {
    fn of(&mut self, service: &'a Service, host: &Host, facts: &Facts) -> Result<Sized, Refusal> {
        let found = self.0.entry((service.name.as_str(), host.keep_free));
        found.or_insert_with(|| size(service, host, facts)).clone()
    }
}

impl<'a> Chooser<'a> {
    fn of(given: &Given<'a>, tally: &'a mut Tally) -> Self {
        let &Given { site, stock, known, now, answers } = given;
        let (sizes, asks) = (Sizes::default(), HashMap::new());
        Chooser { site, stock, sizes, known, asks, tally, index: None, now, answers }
    }

    /// Leaves on some hosts only what is bound there.
    fn only(&mut self, bound: &[(usize, Vec<usize>)]) {
        for (host, places) in bound {
            self.tally.rooms[*host] = Room::of(&self.site.hosts[*host].cores, self.tally.stays);
            self.tally.sets[*host].clone_from(places);
            for &place in places {
                self.take(*host, place);
            }
            self.tally.closed[*host] = self.closed(*host);
        }
    }

    /// What the services of a host do not fit for, before any other comes.
    fn closed(&mut self, host: usize) -> Option<String> {
        if self.tally.sets[host].is_empty() {
            return None;
        }
        Some(match self.plan(host, None).err()? {
            Refusal::DoesNotFit(witness) => {
                format!("service '{}' does not fit: {}", witness.service, witness.cause)
            }
            refusal => refusal.to_string(),
        })
    }

    fn on(&self, host: usize, services: Vec<&'a Service>) -> OneHost<'a> {
        let (host, facts, modes) = (&self.site.hosts[host], &self.stock[host], self.site.modes.as_ref());
        OneHost { host, facts, services, answers: self.answers, known: self.known, modes }
    }

    /// The plan of a host with one service more.
    fn plan(&mut self, host: usize, more: Option<usize>) -> Result<Placed, Refusal> {
        let mut indices = self.tally.sets[host].clone();
        indices.extend(more);
        indices.sort_unstable();
        let on = self.on(host, indices.iter().map(|&index| &self.site.services[index]).collect());
        let sizes = &mut self.sizes;
        one_host(&on, &mut |service| sizes.of(service, on.host, on.facts))
    }

    /// What a service asks of a host's cores.
    fn asked(&mut self, host: usize, place: usize) -> Rc<Asked> {
        let key = (place, self.site.hosts[host].keep_free);
        if let Some(asked) = self.asks.get(&key) {
            return asked.clone();
        }
        let on = self.on(host, vec![&self.site.services[place]]);
        let asked = Rc::new(match self.site.modes {
            Some(_) => Asked::Other,
            None => Asked::of(on.services[0], candidates(&on, 0, Company::Beside), on.facts),
        });
        self.asks.insert(key, asked.clone());
        asked
    }

    /// Gives a service to a host.
    fn put(&mut self, host: usize, index: usize) {
        self.tally.sets[host].push(index);
        self.tally.sets[host].sort_unstable();
        self.take(host, index);
    }

    fn stays(&self) -> bool {
        self.tally.rooms.iter().any(|room| room.stays)
    }

    /// A host that takes the service if all that is on it changes its core; the others keep their cores.
    fn host_anew(&mut self, index: usize) -> Result<(usize, String), Refusal> {
        self.tally.rooms.iter_mut().for_each(|room| room.stays = false);
        let found = self.host_for(index)?;
        (0..self.tally.rooms.len())
            .filter(|host| *host != found.0)
            .for_each(|host| self.tally.rooms[host].stays = true);
        Ok(found)
    }

    /// Those of which no more is asked than is reserved for them now before the others: they have room where they are.
    fn staying_first(&mut self, free: Vec<usize>) -> Vec<usize> {
        let now = self.now;
        let mut order = self.in_order(free);
        if !now.is_empty() {
            order.sort_by_cached_key(|&index| {
                let name = &self.site.services[index].name;
                !match &*self.asked(0, index) {
                    Asked::Servers(_, all) => {
                        now.covers(name, &all.iter().map(|own| own.reserved).collect::<Vec<_>>(), Bandwidth::ZERO)
                    }
                    Asked::Floor(floor) => now.covers(name, &[], *floor),
                    Asked::Cores(_) | Asked::Other => now.covers(name, &[], Bandwidth::ZERO),
                }
            });
        }
        order
    }

    /// Whether a host takes a service, whatever is left there then.
    fn takes(&mut self, host: usize, index: usize) -> bool {
        !self.refuses(host, index) && (self.accepts(host, index) || self.room(host, index, false).is_ok())
    }

    /// Counts a service in on a host.
    fn take(&mut self, host: usize, place: usize) {
        let asked = self.asked(host, place);
        let most = most(&self.site.hosts[host], &self.stock[host]);
        let now = self.now.cores(&self.site.hosts[host].name, &self.site.services[place].name);
        self.tally.rooms[host].take(&asked, place, &most, &now);
        if let Some((backend, index)) = &mut self.index {
            index.set(host, self.tally.rooms[host].bound(*backend));
        }
    }

    /// The first host from `start` on that may take the service.
    fn next(&mut self, start: usize, place: usize) -> Option<usize> {
        let hosts = self.tally.rooms.len();
        if let Asked::Servers(backend, all) = &*self.asked(start.min(hosts - 1), place) {
            let (of, index) = self.index.get_or_insert_with(|| {
                let mut index = Index::of(hosts);
                let tally = &self.tally;
                let bound = |host: usize| {
                    tally.closed[host].as_ref().map_or(tally.rooms[host].bound(*backend), |_| Bound::Closed)
                };
                (0..hosts).for_each(|host| index.set(host, bound(host)));
                (*backend, index)
            });
            if let Some(own) = all.first().filter(|_| of == backend) {
                return index.next(start, (Reverse(own.reserved), place), own.upkeep);
            }
        }
        (start..hosts).find(|&host| self.tally.closed[host].is_none())
    }

    /// Stable: equal ones stay in the order of the site.
    fn in_order(&mut self, mut free: Vec<usize>) -> Vec<usize> {
        let site = self.site;
        free.sort_by_cached_key(|&index| {
            let service = &site.services[index];
            let method = promises::of(&service.promise);
            match method.asks(service) {
                Asks::Cores(_) => (0, Reverse(self.bandwidth(service))),
                Asks::Share(share) => {
                    (1, Reverse(if method.cheaper_alone() { self.beside(index, share) } else { share }))
                }
                Asks::Rest(floor) => (2, Reverse(floor)),
            }
        });
        free
    }

    /// Of the largest server of a service beside others, on the first host; `else_` where that does not decide.
    fn beside(&mut self, place: usize, else_: Bandwidth) -> Bandwidth {
        match &*self.asked(0, place) {
            Asked::Servers(_, all) => all.first().map_or(else_, |own| own.reserved),
            _ => else_,
        }
    }

    /// Of the server of a service that is promised as-if-alone, on the first host where it can have one; else a whole core.
    fn bandwidth(&mut self, service: &'a Service) -> Bandwidth {
        let mut hosts = self.site.hosts.iter().zip(self.stock);
        let found = hosts.find_map(|(host, facts)| self.sizes.of(service, host, facts).ok());
        found.map_or(Bandwidth::ONE, |found| found.server.bandwidth())
    }

    /// The host that takes the service, and why this one.
    fn host_for(&mut self, index: usize) -> Result<(usize, String), Refusal> {
        let service = &self.site.services[index];
        let anywhere = promises::of(&service.promise).asks(service) == Asks::Rest(Bandwidth::ZERO);
        let (mut passed, mut takers) = (HashMap::new(), Vec::new());
        let mut start = 0;
        while let Some(host) = self.next(start, index) {
            start = host + 1;
            if self.refuses(host, index) {
                continue;
            }
            let room = match !anywhere && self.accepts(host, index) {
                true => Ok(Bandwidth::ZERO),
                false => self.room(host, index, anywhere),
            };
            match room {
                Ok(left) => takers.push((host, left)),
                Err(refusal) => drop(passed.insert(host, passed_by(service, host, refusal))),
            }
            if !anywhere && !takers.is_empty() {
                break;
            }
        }
        let most = |best: (usize, Bandwidth), next: (usize, Bandwidth)| if next.1 > best.1 { next } else { best };
        let name = |host: usize| &self.site.hosts[host].name;
        let Some((host, room)) = takers.iter().copied().reduce(most) else {
            let all = 0..self.tally.rooms.len();
            let passed: Vec<Passed> = all.map(|host| self.passed(index, host, passed.remove(&host))).collect();
            return Err(self.nowhere(service, &passed));
        };
        if anywhere {
            let others = takers.iter().filter(|(other, _)| *other != host);
            let said: Vec<String> =
                others.clone().take(TOLD).map(|&(other, room)| format!("{} {}", name(other), share(room))).collect();
            let more = others.count().saturating_sub(TOLD);
            let others = match (said.is_empty(), more) {
                (true, _) => "no other takes it".into(),
                (false, 0) => said.join(", "),
                (false, more) => format!("{} and {more} others no more", said.join(", ")),
            };
            return Ok((
                host,
                format!("the host with most left beyond its floors, {} of a core; {others}", share(room)),
            ));
        }
        if host > TOLD {
            return Ok((host, format!("the first host with room; {host} before it have none")));
        }
        let passed: Vec<Passed> = (0..host).map(|other| self.passed(index, other, passed.remove(&other))).collect();
        let passed: String =
            passed.iter().map(|one| format!("; not {}: {}", self.site.hosts[one.host].name, one.why)).collect();
        Ok((host, format!("the first host with room{passed}")))
    }

    fn refuses(&mut self, host: usize, place: usize) -> bool {
        let asked = self.asked(host, place);
        let most = most(&self.site.hosts[host], &self.stock[host]);
        self.tally.rooms[host].refuses(&asked, place, &most)
    }

    fn accepts(&mut self, host: usize, place: usize) -> bool {
        let asked = self.asked(host, place);
        let most = most(&self.site.hosts[host], &self.stock[host]);
        self.tally.rooms[host].accepts(&asked, place, &most)
    }

    /// What is left of a host with the service beyond all floors. What is known of one that gets leftovers without a floor holds
    /// for others, too.
    fn room(&mut self, host: usize, place: usize, anywhere: bool) -> Result<Bandwidth, Refusal> {
        let known = self.tally.rooms[host].left.filter(|_| anywhere && self.site.modes.is_none());
        if let Some(left) = known {
            return Ok(left);
        }
        let left = left(&self.plan(host, Some(place))?);
        if anywhere {
            self.tally.rooms[host].left = Some(left);
        }
        Ok(left)
    }

    /// A host that has passed a service, with what its plan says where that is not known yet.
    fn passed(&mut self, index: usize, host: usize, known: Option<Passed>) -> Passed {
        let service = &self.site.services[index];
        if let Some(why) = &self.tally.closed[host] {
            let why = format!("what the site puts there does not fit a stock machine: {why}");
            return Passed { host, refusal: None, why };
        }
        known.unwrap_or_else(|| match self.plan(host, Some(index)) {
            Err(refusal) => passed_by(service, host, refusal),
            Ok(_) => Passed { host, refusal: None, why: "it has no core for it beside the others".into() },
        })
    }

    /// The witness is on the host that lacks least, the first of those.
    fn nowhere(&self, service: &Service, passed: &[Passed]) -> Refusal {
        let name = |host: usize| self.site.hosts[host].name.clone();
        let lack = |one: &Passed| Elsewhere { host: name(one.host), why: one.why.clone() };
        let room = passed.iter().enumerate().filter_map(|(at, one)| match &one.refusal {
            Some(Refusal::DoesNotFit(witness)) => Some((at, one.host, witness)),
            _ => None,
        });
        let least = room.min_by_key(|(_, _, witness)| (witness.displaced.is_some(), witness.cause.missing()));
        if let Some((best, host, witness)) = least {
            let others = passed.iter().enumerate().filter(|(at, _)| *at != best);
            let there = self.tally.sets[host].iter().map(|&place| self.site.services[place].name.clone());
            return Refusal::DoesNotFit(Box::new(Witness {
                host: Some(name(host)),
                elsewhere: others.map(|(_, other)| lack(other)).collect(),
                beside: there.collect(),
                ..(**witness).clone()
            }));
        }
        match passed {
            [Passed { refusal: Some(first), .. }, rest @ ..]
                if rest.iter().all(|other| other.refusal.as_ref() == Some(first)) =>
            {
                first.clone()
            }
            _ => Refusal::Nowhere { service: service.name.clone(), lacks: passed.iter().map(lack).collect() },
        }
    }
}

/// `service` is the witness, whichever lacks room with it there. Cores and floors are about all who want some, so also about the
/// one that comes.
fn passed_by(service: &Service, host: usize, refusal: Refusal) -> Passed {
    let Refusal::DoesNotFit(witness) = refusal else {
        return Passed { host, why: refusal.to_string(), refusal: Some(refusal) };
    };
    let (whose, cause) = (witness.service, witness.cause);
    let own = whose == service.name
        || matches!(cause, Cause::Cores(_))
        || matches!((&cause, &service.promise), (Cause::Floors(_), Promise::Leftovers { .. }));
    let why = match own {
        true => cause.to_string(),
        false => format!("it would leave no place for '{whose}': {cause}"),
    };
    let witness = Witness { displaced: (!own).then_some(whose), cause, service: service.name.clone(), ..*witness };
    Passed { host, refusal: Some(Refusal::DoesNotFit(Box::new(witness))), why }
}

/// What a host has left beyond all floors on it; nothing if that cannot be told exactly.
fn left(placed: &Placed) -> Bandwidth {
    let Some(first) = placed.leftovers.first() else { return Bandwidth::ZERO };
    let floors = placed.leftovers.iter().map(|leftover| leftover.at_least);
    floors.fold(first.available, |left, floor| left.checked_sub(floor).unwrap_or(Bandwidth::ZERO))
}
