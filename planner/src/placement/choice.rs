//! Which host gets which service, where the site does not say.
//!
//! Every machine of a site plans for itself and can look only at itself. So this choice rests on the site alone, with a stock
//! machine in the place of every host: all machines choose alike, and no service runs on two of them, or on none.

use super::host::one_host;
use crate::facts::Facts;
use crate::host::{OneHost, Placed};
use crate::promises::as_if_alone::{size, Sized};
use crate::promises::percentiles::Answers;
use crate::promises::{self, Asks};
use crate::refusal::{Cause, Elsewhere, Refusal, Witness};
use crate::words::share;
use giusto_model::{Bandwidth, Host, Promise, Service, Site};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Who is where.
pub(crate) struct Choice {
    /// For each host the places in the site of its services, ascending.
    pub(crate) sets: Vec<Vec<usize>>,
    /// For each service why it is there.
    pub(crate) whys: Vec<String>,
}

/// A host that does not take a service.
struct Passed {
    host: usize,
    /// `None`: those that the site puts there do not fit a stock machine by themselves.
    refusal: Option<Refusal>,
    why: String,
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
struct Sizes<'a>(HashMap<(&'a str, Bandwidth), Result<Sized, Refusal>>);

impl<'a> Sizes<'a> {
    fn of(&mut self, service: &'a Service, host: &Host, facts: &Facts) -> Result<Sized, Refusal> {
        let found = self.0.entry((service.name.as_str(), host.keep_free));
        found.or_insert_with(|| size(service, host, facts)).clone()
    }
}

impl<'a> Chooser<'a> {
    /// What the services of a host do not fit for, before any other comes.
    fn closed(&mut self, host: usize) -> Option<String> {
        Some(match self.plan(host, None).err()? {
            Refusal::DoesNotFit(witness) => {
                format!("service '{}' does not fit: {}", witness.service, witness.cause)
            }
            refusal => refusal.to_string(),
        })
    }

    /// The plan of a host with one service more.
    fn plan(&mut self, host: usize, more: Option<usize>) -> Result<Placed, Refusal> {
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
        free.sort_by_cached_key(|&index| {
            let service = &site.services[index];
            match promises::of(&service.promise).asks(service) {
                Asks::Core => (0, Reverse(self.bandwidth(service))),
                Asks::Share(share) => (1, Reverse(share)),
                Asks::Rest(floor) => (2, Reverse(floor)),
            }
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
        let anywhere = promises::of(&service.promise).asks(service) == Asks::Rest(Bandwidth::ZERO);
        let (mut passed, mut takers) = (Vec::new(), Vec::new());
        for (host, closed) in closed.iter().enumerate() {
            match closed {
                Some(why) => passed.push(Passed {
                    host,
                    refusal: None,
                    why: format!("what the site puts there does not fit a stock machine: {why}"),
                }),
                None => match self.plan(host, Some(index)) {
                    Ok(placed) => takers.push((host, left(&placed))),
                    Err(refusal) => passed.push(passed_by(service, host, refusal)),
                },
            }
            if !anywhere && !takers.is_empty() {
                break;
            }
        }
        let most = |best: (usize, Bandwidth), next: (usize, Bandwidth)| if next.1 > best.1 { next } else { best };
        let name = |host: usize| &self.site.hosts[host].name;
        let Some((host, room)) = takers.iter().copied().reduce(most) else {
            return Err(self.nowhere(service, &passed));
        };
        if anywhere {
            let others = takers.iter().filter(|(other, _)| *other != host);
            let others: Vec<String> = others.map(|&(other, room)| format!("{} {}", name(other), share(room))).collect();
            let others = if others.is_empty() { "no other takes it".into() } else { others.join(", ") };
            return Ok((
                host,
                format!("the host with most left beyond its floors, {} of a core; {others}", share(room)),
            ));
        }
        let passed: String = passed.iter().map(|one| format!("; not {}: {}", name(one.host), one.why)).collect();
        Ok((host, format!("the first host with room{passed}")))
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
            return Refusal::DoesNotFit(Box::new(Witness {
                host: Some(name(host)),
                elsewhere: others.map(|(_, other)| lack(other)).collect(),
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
