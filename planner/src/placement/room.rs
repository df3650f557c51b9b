//! Whether a host may have room for a service, told without planning the host.

use super::index::Bound;
use crate::backend::{most_of_a_core, most_upkeep};
use crate::candidates::Candidate;
use crate::facts::Facts;
use crate::promises::{self, Asks};
use crate::refusal::Refusal;
use giusto_model::{Backend, Bandwidth, Host, Service};
use std::cmp::Reverse;

/// What a service asks of the cores of a host, beside others.
pub(super) enum Asked {
    /// So many to itself.
    Cores(u32),
    /// Servers under a backend, largest first.
    Servers(Backend, Vec<Size>),
    /// A floor of what is left.
    Floor(Bandwidth),
    /// More than bandwidths decides.
    Other,
}

/// What a server takes of a core.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) reserved: Bandwidth,
    /// Its manager's time.
    pub(super) upkeep: Bandwidth,
}

impl Asked {
    /// `beside` are its servers beside others.
    pub(super) fn of(service: &Service, beside: Result<Vec<Candidate>, Refusal>, facts: &Facts) -> Asked {
        match promises::of(&service.promise).asks(service) {
            Asks::Cores(own) => return Asked::Cores(own),
            Asks::Rest(floor) => return Asked::Floor(floor),
            Asks::Share(_) => {}
        }
        let Ok(mut all) = beside else { return Asked::Other };
        let Some(backend) = all.first().map(|one| one.vcpu.chosen.backend) else { return Asked::Other };
        let plain = |one: &Candidate| {
            let (vcpu, chosen) = (&one.vcpu, &one.vcpu.chosen);
            let alone = vcpu.alone || chosen.backend.abilities().alone;
            !alone && !vcpu.critical && !chosen.kind.renewal().keeps_budget() && chosen.backend == backend
        };
        if !all.iter().all(plain) {
            return Asked::Other;
        }
        all.sort_by_key(|one| Reverse(one.largest()));
        let size = |one: &Candidate| Size { reserved: one.largest(), upkeep: one.upkeep(facts) };
        Asked::Servers(backend, all.iter().map(size).collect())
    }
}

/// The reservations of a host, counted on its cores as [`super::cores`] places them beside each other.
///
/// It refuses only what the plan of the host would refuse, with one exception: services that are cheaper on a core of their own
/// count beside others, where they can be had so.
pub(super) struct Room {
    /// Cores that no as-if-alone service has to itself.
    shared: Vec<u32>,
    /// The backend of all servers, and what they may take of a core under it.
    under: Option<(Backend, Size)>,
    /// Sizes with the places of their services, largest first.
    servers: Vec<(Size, usize)>,
    cores: Vec<Core>,
    has_floors: bool,
    /// Whether one asks for [`Asked::Other`], or for another backend: then nothing can be told.
    other: bool,
    /// Whether servers stay on the cores that they have. Else all are placed anew for one that is not the smallest.
    pub(super) stays: bool,
    /// What is left beyond all floors, where a plan with the services of now told it.
    pub(super) left: Option<Bandwidth>,
}

#[derive(Clone)]
struct Core {
    id: u32,
    used: Bandwidth,
    upkeep: Bandwidth,
    /// The most that is left, where it can be told exactly: compared before anything is added up.
    left: Option<Bandwidth>,
    services: Vec<usize>,
}

/// Of a core under a backend servers may take this.
type Most<'m> = &'m dyn Fn(Backend) -> Size;

/// The [`Most`] of a host.
pub(super) fn most<'m>(host: &'m Host, facts: &'m Facts) -> impl Fn(Backend) -> Size + 'm {
    |backend| Size {
        reserved: most_of_a_core(host, facts, backend).0,
        upkeep: most_upkeep(host.keep_free, backend, facts),
    }
}

impl Room {
    /// Of a host with these cores.
    pub(super) fn of(cores: &[u32], stays: bool) -> Self {
        Room {
            shared: cores.to_vec(),
            stays,
            under: None,
            servers: Vec::new(),
            cores: empty(cores),
            has_floors: false,
            other: false,
            left: None,
        }
    }

    /// Whether the host surely has none for the service that asks this.
    pub(super) fn refuses(&self, asked: &Asked, place: usize, most: Most<'_>) -> bool {
        match asked {
            _ if self.other => false,
            Asked::Other => false,
            Asked::Cores(own) => self.shared.len() < *own as usize,
            Asked::Floor(floor) => self.left.is_some_and(|left| *floor > left),
            Asked::Servers(backend, more) => {
                let Some((_, most)) = self.together(*backend, most) else { return false };
                let more_than = |left: Bandwidth| more.iter().any(|own| own.reserved > left);
                if self.has_floors && self.left.is_some_and(more_than) {
                    return true;
                }
                match more.as_slice() {
                    [one] if self.comes_last(one.reserved, place) => {
                        !self.cores.iter().any(|core| with(core, *one, *backend, most).is_some())
                    }
                    _ => self.pack((*backend, most), more, place, &[]).is_none(),
                }
            }
        }
    }

    /// What the host surely refuses of a `backend`'s servers.
    pub(super) fn bound(&self, backend: Backend) -> Bound {
        if self.other || self.under.is_some_and(|(other, _)| other != backend) {
            return Bound::Open;
        }
        let (Some(&(least, place)), Some((_, most))) = (self.servers.last(), self.under) else {
            return if self.shared.is_empty() { Bound::Closed } else { Bound::Open };
        };
        // A core that was taken since by a service of its own makes all others be placed anew.
        if self.cores.len() != self.shared.len() || self.cores.iter().any(|core| core.left.is_none()) {
            return Bound::Open;
        }
        let free = self.cores.iter().filter(|core| core.services.len() < backend.abilities().servers);
        let upkeep = free.clone().filter_map(|core| most.upkeep.checked_sub(core.upkeep)).max();
        let largest = free.filter_map(|core| core.left).max();
        let [largest, upkeep] = [largest, upkeep].map(|left| left.unwrap_or(Bandwidth::ZERO));
        Bound::Up { largest, upkeep, last: (Reverse(least.reserved), place) }
    }

    /// Whether the host surely has room for the service that asks this: bandwidths alone decide, and no floor has to be left.
    pub(super) fn accepts(&self, asked: &Asked, place: usize, most: Most<'_>) -> bool {
        match asked {
            Asked::Servers(backend, more) if !self.other && !self.has_floors => {
                self.together(*backend, most).is_some_and(|under| self.pack(under, more, place, &[]).is_some())
            }
            _ => false,
        }
    }

    /// Counts it in; its largest server is on the first of the cores that it has `now`, and so on.
    pub(super) fn take(&mut self, asked: &Asked, place: usize, most: Most<'_>, now: &[u32]) {
        self.left = None;
        match asked {
            Asked::Floor(floor) => self.has_floors |= *floor > Bandwidth::ZERO,
            Asked::Other => self.other = true,
            Asked::Cores(own) => {
                let mut taken = Vec::new();
                for _ in 0..*own {
                    let at = self.shared.iter().position(|core| now.contains(core)).unwrap_or(0);
                    taken.extend((!self.shared.is_empty()).then(|| self.shared.remove(at)));
                }
                if self.stays {
                    self.cores.retain(|core| !taken.contains(&core.id));
                } else {
                    self.cores = self.under.and_then(|under| self.pack(under, &[], place, &[])).unwrap_or_default();
                }
            }
            Asked::Servers(backend, more) => {
                let Some(under) = self.together(*backend, most) else {
                    self.other = true;
                    return;
                };
                self.cores = self.pack(under, more, place, now).unwrap_or_default();
                self.under = Some(under);
                self.servers.extend(more.iter().map(|own| (*own, place)));
                self.servers.sort_by_key(|(own, place)| (Reverse(own.reserved), *place));
            }
        }
    }

    /// The service at this place of the site is no more, and all after it are one place further up; if it was here, this is to be
    /// counted anew.
    pub(super) fn removed(&mut self, place: usize) {
        let servers = self.servers.iter_mut().map(|(_, own)| own);
        let all = servers.chain(self.cores.iter_mut().flat_map(|core| &mut core.services));
        all.filter(|own| **own > place).for_each(|own| *own -= 1);
    }

    /// The backend, unless there are servers under another one.
    fn together(&self, backend: Backend, most: Most<'_>) -> Option<(Backend, Size)> {
        match self.under {
            Some(under) => (under.0 == backend).then_some(under),
            None => Some((backend, most(backend))),
        }
    }

    /// Whether a server is placed after all that are there.
    fn comes_last(&self, own: Bandwidth, place: usize) -> bool {
        let last =
            self.servers.last().is_some_and(|(least, of)| (Reverse(least.reserved), *of) < (Reverse(own), place));
        last && self.cores.len() == self.shared.len()
    }

    /// The cores with `more`, largest first, on the cores that they have `now`; `None`: they do not take all.
    fn pack(&self, (backend, most): (Backend, Size), more: &[Size], place: usize, now: &[u32]) -> Option<Vec<Core>> {
        let last = self.stays || more.iter().all(|own| self.comes_last(own.reserved, place));
        let more = more.iter().map(|own| (*own, place));
        let (mut cores, mut all) = match last {
            true => (self.cores.clone(), more.collect()),
            false => (empty(&self.shared), self.servers.iter().copied().chain(more).collect::<Vec<_>>()),
        };
        all.sort_by_key(|(own, place)| (Reverse(own.reserved), *place));
        for (number, (own, place)) in all.into_iter().enumerate() {
            let free = |core: &Core| with(core, own, backend, most).is_some();
            let now = now.get(number).filter(|_| self.stays);
            let stays = cores.iter().position(|core| Some(&core.id) == now && free(core));
            let apart = || cores.iter().position(|core| !core.services.contains(&place) && free(core));
            let at = stays.or_else(apart).or_else(|| cores.iter().position(free))?;
            let (used, upkeep) = with(&cores[at], own, backend, most)?;
            (cores[at].used, cores[at].upkeep, cores[at].left) = (used, upkeep, most.reserved.checked_sub(used));
            cores[at].services.push(place);
        }
        Some(cores)
    }
}

fn empty(cores: &[u32]) -> Vec<Core> {
    let zero = Bandwidth::ZERO;
    cores.iter().map(|&id| Core { id, used: zero, upkeep: zero, left: None, services: Vec::new() }).collect()
}

/// What is used of a core with one server more, and what its manager takes of it, if there is room for both.
fn with(core: &Core, own: Size, backend: Backend, most: Size) -> Option<(Bandwidth, Bandwidth)> {
    if core.services.len() >= backend.abilities().servers || core.left.is_some_and(|left| own.reserved > left) {
        return None;
    }
    let used = core.used.add_up(own.reserved).filter(|used| *used <= most.reserved && *used < Bandwidth::ONE)?;
    let upkeep = core.upkeep.add_up(own.upkeep).filter(|upkeep| *upkeep <= most.upkeep)?;
    Some((used, upkeep))
}
