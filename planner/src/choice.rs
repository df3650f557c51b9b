//! Which host gets which service, where the site does not say.
//!
//! Every machine of a site plans for itself and can look only at itself. So this choice rests on the site alone, with a stock
//! machine in the place of every host: all machines choose alike, and no service runs on two of them, or on none.

use crate::percentiles::Answers;
use crate::place::{one_host, OneHost, Placed, Unplaced};
use crate::size::{size, Misfit, Sized};
use crate::words::share;
use crate::{Cause, Elsewhere, Facts, Refusal, Witness};
use giusto_model::{Bandwidth, Host, LocalNeed, Promise, Service, ServiceMode, Site, Task};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Who is where.
pub(crate) struct Choice {
    /// For each host the places in the site of its services, ascending.
    pub(crate) sets: Vec<Vec<usize>>,
    /// For each service why it is there.
    pub(crate) whys: Vec<String>,
}

/// Why a host does not take a service.
enum Why {
    /// There is no room: for the service itself, or for one that is displaced by it.
    Room { displaced: Option<String>, cause: Cause },
    /// Something else.
    Cannot(Refusal),
    /// Those that the site puts there do not fit a stock machine by themselves.
    Closed(String),
}

/// Distributes the services that nobody is bound to, on top of the `sets` that are.
///
/// In the order in which cores are given, largest first: as-if-alone, then supplies (by their largest interface), then
/// leftovers (by their floor). Each goes to the first host, in the order of the site, whose plan still works with it; one
/// without a floor goes where most is left. O(services · hosts) plans of a host. Errors: one that no host takes.
pub(crate) fn choose_hosts(site: &Site, sets: Vec<Vec<usize>>, answers: &Answers) -> Result<Choice, Refusal> {
    let mut whys = vec!["from the site".to_string(); site.services.len()];
    let free: Vec<usize> = (0..whys.len()).filter(|&index| site.services[index].on.is_none()).collect();
    if site.hosts.len() == 1 || free.is_empty() {
        return Ok(Choice { sets, whys });
    }
    let stock: Vec<Facts> = site.hosts.iter().map(|host| Facts::typical(host.cores.clone())).collect();
    let mut chooser = Chooser { site, stock: &stock, sizes: Sizes::default(), sets, answers };
    let closed: Vec<Option<String>> = (0..site.hosts.len()).map(|host| chooser.closed(host)).collect();
    for index in chooser.in_order(free) {
        let (host, why) = chooser.host_for(index, &closed)?;
        chooser.sets[host].push(index);
        chooser.sets[host].sort_unstable();
        whys[index] = why;
    }
    Ok(Choice { sets: chooser.sets, whys })
}

struct Chooser<'a> {
    site: &'a Site,
    stock: &'a [Facts],
    sizes: Sizes<'a>,
    sets: Vec<Vec<usize>>,
    answers: &'a Answers,
}

/// The servers of services on stock machines, by what is kept free there: nothing else of a host matters to them.
#[derive(Default)]
struct Sizes<'a>(HashMap<(&'a str, Bandwidth), Result<Sized, Misfit>>);

impl<'a> Sizes<'a> {
    fn of(&mut self, service: &'a Service, host: &Host, facts: &Facts) -> Result<Sized, Misfit> {
        let found = self.0.entry((service.name.as_str(), host.keep_free));
        found.or_insert_with(|| size(service, host, facts)).clone()
    }
}

impl<'a> Chooser<'a> {
    /// What the services of a host do not fit for, before any other comes.
    fn closed(&mut self, host: usize) -> Option<String> {
        match self.plan(host, None).err()? {
            Unplaced::DoesNotFit { service, cause } => Some(format!("service '{service}' does not fit: {cause}")),
            Unplaced::Other(refusal) => Some(refusal.to_string()),
        }
    }

    /// The plan of a host with one service more.
    fn plan(&mut self, host: usize, more: Option<usize>) -> Result<Placed, Unplaced> {
        let mut indices = self.sets[host].clone();
        indices.extend(more);
        indices.sort_unstable();
        let services = indices.iter().map(|&index| &self.site.services[index]).collect();
        let (host, facts, sizes) = (&self.site.hosts[host], &self.stock[host], &mut self.sizes);
        one_host(
            &OneHost { host, facts, services, answers: self.answers, modes: self.site.modes.as_ref() },
            &mut |service| sizes.of(service, host, facts),
        )
    }

    /// Stable: equal ones stay in the order of the site.
    fn in_order(&mut self, mut free: Vec<usize>) -> Vec<usize> {
        let site = self.site;
        free.sort_by_cached_key(|&index| match &site.services[index].promise {
            Promise::AsIfAlone => (0, Reverse(self.bandwidth(&site.services[index]))),
            Promise::Supply(all) => (1, Reverse(all.iter().map(|i| i.bandwidth()).max().unwrap_or(Bandwidth::ZERO))),
            Promise::EveryDeadline { .. } => (1, Reverse(utilization(&site.services[index]))),
            Promise::Percentiles { arrivals, service, .. } => {
                (1, Reverse(crate::percentiles::load(*arrivals, service)))
            }
            Promise::Leftovers { at_least, .. } => (2, Reverse(*at_least)),
        });
        free
    }

    /// Of the server of a service that is promised as-if-alone, on the first host where it can have one; else a whole core.
    fn bandwidth(&mut self, service: &'a Service) -> Bandwidth {
        let mut hosts = self.site.hosts.iter().zip(self.stock);
        let found = hosts.find_map(|(host, facts)| self.sizes.of(service, host, facts).ok());
        found.map_or(Bandwidth::ONE, |found| found.server.bandwidth())
    }

    /// The host that takes the service, and why this one.
    fn host_for(&mut self, index: usize, closed: &[Option<String>]) -> Result<(usize, String), Refusal> {
        let service = &self.site.services[index];
        let anywhere = matches!(service.promise, Promise::Leftovers { at_least, .. } if at_least == Bandwidth::ZERO);
        let (mut lacks, mut takers) = (Vec::new(), Vec::new());
        for (host, closed) in closed.iter().enumerate() {
            let found = match closed {
                Some(why) => Err(Why::Closed(why.clone())),
                None => self.plan(host, Some(index)).map_err(|unplaced| why(service, unplaced)),
            };
            match found {
                Ok(placed) => takers.push((host, left(&placed))),
                Err(why) => lacks.push((host, why)),
            }
            if !anywhere && !takers.is_empty() {
                break;
            }
        }
        let most = |best: (usize, Bandwidth), next: (usize, Bandwidth)| if next.1 > best.1 { next } else { best };
        let name = |host: usize| &self.site.hosts[host].name;
        let Some((host, room)) = takers.iter().copied().reduce(most) else { return Err(self.nowhere(service, lacks)) };
        if anywhere {
            let others = takers.iter().filter(|(other, _)| *other != host);
            let others: Vec<String> = others.map(|&(other, room)| format!("{} {}", name(other), share(room))).collect();
            let others = if others.is_empty() { "no other takes it".into() } else { others.join(", ") };
            return Ok((
                host,
                format!("the host with most left beyond its floors, {} of a core; {others}", share(room)),
            ));
        }
        let passed: String =
            lacks.iter().map(|(host, why)| format!("; not {}: {}", name(*host), why.words())).collect();
        Ok((host, format!("the first host with room{passed}")))
    }

    /// The witness is on the host that lacks least, the first of those.
    fn nowhere(&self, service: &Service, lacks: Vec<(usize, Why)>) -> Refusal {
        let name = |host: usize| self.site.hosts[host].name.clone();
        let lack = |(host, why): &(usize, Why)| Elsewhere { host: name(*host), why: why.words() };
        let room = lacks.iter().enumerate().filter_map(|(at, (host, why))| match why {
            Why::Room { displaced, cause } => Some((at, *host, displaced, cause)),
            _ => None,
        });
        if let Some((best, host, displaced, cause)) =
            room.min_by_key(|(_, _, displaced, cause)| (displaced.is_some(), cause.missing()))
        {
            let others = lacks.iter().enumerate().filter(|(at, _)| *at != best);
            return Refusal::DoesNotFit(Box::new(Witness {
                service: service.name.clone(),
                host: Some(name(host)),
                displaced: displaced.clone(),
                cause: cause.clone(),
                elsewhere: others.map(|(_, other)| lack(other)).collect(),
                nearest: Vec::new(),
            }));
        }
        match &lacks[..] {
            [(_, Why::Cannot(first)), rest @ ..]
                if rest.iter().all(|(_, why)| matches!(why, Why::Cannot(other) if other == first)) =>
            {
                first.clone()
            }
            _ => Refusal::Nowhere { service: service.name.clone(), lacks: lacks.iter().map(lack).collect() },
        }
    }
}

/// Σ C/T, in the mode in which it is most; a whole core where that cannot be written.
fn utilization(service: &Service) -> Bandwidth {
    let of = |tasks: &[Task]| giusto_analysis::share::utilization(tasks).unwrap_or(Bandwidth::ONE);
    let in_mode = |mode: &ServiceMode| match &mode.need {
        LocalNeed::Tasks { tasks, .. } => of(tasks),
        LocalNeed::Supply(_) => Bandwidth::ZERO,
    };
    service.modes.iter().map(in_mode).max().unwrap_or_else(|| of(&service.tasks))
}

/// Whom the lack of room is about: cores and floors are about all who want some, so also about the one that comes.
fn why(service: &Service, unplaced: Unplaced) -> Why {
    match unplaced {
        Unplaced::Other(refusal) => Why::Cannot(refusal),
        Unplaced::DoesNotFit { service: whose, cause } => {
            let own = whose == service.name
                || matches!(cause, Cause::Cores { .. })
                || matches!((&cause, &service.promise), (Cause::Floors { .. }, Promise::Leftovers { .. }));
            Why::Room { displaced: (!own).then_some(whose), cause }
        }
    }
}

impl Why {
    fn words(&self) -> String {
        match self {
            Why::Room { displaced: None, cause } => cause.to_string(),
            Why::Room { displaced: Some(other), cause } => format!("it would leave no place for '{other}': {cause}"),
            Why::Cannot(refusal) => refusal.to_string(),
            Why::Closed(why) => format!("what the site puts there does not fit a stock machine: {why}"),
        }
    }
}

/// What a host has left beyond all floors on it; nothing if that cannot be told exactly.
fn left(placed: &Placed) -> Bandwidth {
    let Some(first) = placed.leftovers.first() else { return Bandwidth::ZERO };
    let floors = placed.leftovers.iter().map(|leftover| leftover.at_least);
    floors.fold(first.available, |left, floor| left.checked_sub(floor).unwrap_or(Bandwidth::ZERO))
}
