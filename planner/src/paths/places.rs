//! On which hosts stages are that the site leaves to the planner (docs/decisions/0074).

use super::attempt::attempted;
use super::given::Periods;
use super::plan::{planned, Networks, Resolved};
use super::refusal::PathCause;
use crate::facts::Facts;
use crate::known::Alike;
use crate::promises::percentiles::Answers;
use crate::refusal::Refusal;
use crate::words::reason;
use giusto_model::{About, NetworkPlan, Plan, Promise, Service, Site};

/// All places of all stages are looked at where there are no more than so many.
const ALL: usize = 64;
/// Of more, so many.
const MOST: usize = 160;

/// A site whose stages know their hosts.
pub(crate) struct PlacedStages {
    pub(crate) site: Site,
    /// Those that were placed.
    names: Vec<String>,
    /// Places that were looked at.
    tried: usize,
}

/// What the site says, and for stages of paths for which it says nothing the hosts with which their paths take the least
/// bandwidth, of those where all services have room. By the site alone, so that machines that plan for themselves choose alike.
/// `None` where there is nothing to choose. Where nothing fits it is the first place that has links, of which is then told why it
/// does not.
pub(crate) fn placed(site: &Site, networks: &[NetworkPlan], answers: &Answers) -> Option<PlacedStages> {
    let is_open = |service: &Service| service.promise.about() == About::Paths && service.on.is_none();
    let open: Vec<usize> = (0..site.services.len()).filter(|nth| is_open(&site.services[*nth])).collect();
    if site.hosts.len() < 2 || open.is_empty() {
        return None;
    }
    let facts = Facts::typical(site.hosts[0].cores.clone());
    let mut search =
        Search { site, open, networks, answers, alike: Alike::default(), facts, tried: 0, best: None, first: None };
    let count = (site.hosts.len() as f64).powi(search.open.len() as i32);
    match count <= ALL as f64 {
        true => search.all(),
        false => search.some(),
    }
    let names = search.open.iter().map(|nth| site.services[*nth].name.clone()).collect();
    let (tried, of_first) = (search.tried, search.first.take().unwrap_or_else(|| vec![0; search.open.len()]));
    let hosts = search.best.take().map_or(of_first, |(_, hosts)| hosts);
    Some(PlacedStages { site: search.with(&hosts), names, tried })
}

impl PlacedStages {
    /// Says in the plan why they are where they are.
    pub(crate) fn say(&self, plan: &mut Plan) {
        let why = format!("with which its paths take the least bandwidth, of {} places of their stages", self.tried);
        for service in plan.services.iter_mut().filter(|service| self.names.contains(&service.name)) {
            let told = reason("host", &service.on, why.clone());
            service.reasons.iter_mut().filter(|one| one.what == told.what).for_each(|one| *one = told.clone());
        }
    }
}

struct Search<'a> {
    site: &'a Site,
    /// Services without a host.
    open: Vec<usize>,
    networks: &'a [NetworkPlan],
    answers: &'a Answers,
    alike: Alike,
    facts: Facts,
    tried: usize,
    /// What all stages take of cores, and which hosts those of the open ones are.
    best: Option<(f64, Vec<usize>)>,
    /// The first for which there are links.
    first: Option<Vec<usize>>,
}

/// What is counted on at all stages.
fn counted(resolved: &Resolved) -> f64 {
    let share = |service: &Service| match &service.promise {
        Promise::Stage { counted: Some(counted), .. } => counted.bandwidth().as_f64(),
        _ => 0.0,
    };
    resolved.site.services.iter().map(share).sum()
}

impl Search<'_> {
    fn with(&self, hosts: &[usize]) -> Site {
        let mut site = self.site.clone();
        for (nth, host) in self.open.iter().zip(hosts) {
            site.services[*nth].on = Some(self.site.hosts[*host].name.clone());
        }
        site
    }

    /// Whether these are better than all before.
    fn look(&mut self, hosts: &[usize]) -> bool {
        self.tried += 1;
        let (site, facts) = (self.with(hosts), &self.facts);
        let networks = Networks { own: self.networks, alike: self.networks };
        let resolved = planned(&site, facts, networks, self.answers, Periods::Short);
        let has_links =
            |why: &Refusal| !matches!(why, Refusal::Path(why) if matches!(why.cause, PathCause::NoLink { .. }));
        if self.first.is_none() && resolved.as_ref().err().is_none_or(has_links) {
            self.first = Some(hosts.to_vec());
        }
        let is_cheaper = |cost: &f64| self.best.as_ref().is_none_or(|(least, _)| *cost < least * (1.0 - 1e-9));
        let Ok(Some(resolved)) = resolved else { return false };
        if !is_cheaper(&counted(&resolved)) {
            return false;
        }
        let found = attempted(&site, facts, networks, None, (self.answers, &self.alike));
        let Ok((Some(resolved), Ok(_))) = found else { return false };
        let cost = Some(counted(&resolved)).filter(is_cheaper);
        cost.iter().for_each(|cost| self.best = Some((*cost, hosts.to_vec())));
        cost.is_some()
    }

    fn all(&mut self) {
        let mut hosts = vec![0; self.open.len()];
        loop {
            self.look(&hosts);
            // As a number whose digits are hosts.
            let Some(place) = hosts.iter().rposition(|host| host + 1 < self.site.hosts.len()) else { return };
            hosts[place] += 1;
            hosts[place + 1..].fill(0);
        }
    }

    /// All on one host, one after the other; and from the best of those on, stage by stage, as long as that is better.
    fn some(&mut self) {
        let (hosts, open) = (self.site.hosts.len(), self.open.len());
        for host in 0..hosts {
            self.look(&vec![host; open]);
        }
        let mut from = self.best.clone().map_or_else(|| (0..open).map(|nth| nth % hosts).collect(), |(_, hosts)| hosts);
        let mut unchanged = 0;
        while unchanged < open && self.tried < MOST {
            for stage in 0..open {
                unchanged += 1;
                for host in 0..hosts {
                    let mut other = from.clone();
                    other[stage] = host;
                    if other != from && self.tried < MOST && self.look(&other) {
                        (from, unchanged) = (other, 0);
                    }
                }
            }
        }
    }
}
