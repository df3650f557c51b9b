//! The checker: whether a plan keeps its promises, by its own numbers.
//!
//! It shares no code with what made the plan, and trusts no claim that it can compute: supplies, demands, how far one has to
//! look, sums of shares are its own, in exact integers. [`check_plan`] shows that a plan is consistent in itself;
//! [`check_site`] that its promises, tasks and all else are those of a site. What neither looks at is a list
//! ([`unchecked`]).

mod admission;
mod aligned;
mod alone;
mod assumed;
mod broken;
mod criticality;
mod demand;
mod despite;
mod entry;
mod exact;
mod excess;
mod flows;
mod hold;
mod interface;
mod late;
mod latency;
mod leftovers;
mod meets;
mod modes;
mod network;
mod path;
mod percentiles;
mod played;
mod promise;
mod raft;
mod read;
mod recovery;
mod route;
mod silence;
mod simulated;
mod site;
mod survival;
mod topic;
mod unchecked;
mod wake_up;
mod windows;
mod windows_of_paths;

pub use admission::CheckedCore;
pub use broken::Broken;
pub use entry::CheckedService;
pub use modes::CheckedMode;
pub use network::CheckedInterface;
pub use path::CheckedPath;
pub use read::{read_plan, NoPlan};
pub use recovery::CheckedEnsemble;
pub use site::{check_site, OfSite};
pub use topic::CheckedTopic;
pub use unchecked::{unchecked, unchecked_in, Unchecked};

use giusto_model::{together, About, PathPlan, Plan, Promise, ServicePlan};
use rayon::prelude::*;
use serde::Serialize;
use std::fmt;

/// What was checked, of a plan in which all holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Entry by entry, in the order of the plan; but virtual CPUs on which nothing runs in the first mode.
    pub services: Vec<CheckedService>,
    /// Cores whose servers fit together.
    pub cores: Vec<CheckedCore>,
    /// Topics, in the order of the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<CheckedTopic>,
    /// The ensemble, if the plan has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordination: Option<CheckedEnsemble>,
    /// Paths, in the order of the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<CheckedPath>,
    /// Interfaces of the high class, in the order of the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<CheckedInterface>,
    /// Modes of hosts, in the order of the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<CheckedMode>,
}

/// Whether all promises that `plan` names are kept, given that tasks and servers are what it says: each entry by its
/// certificate, each
/// core by its admission, what a host's latency is by its cores, the floors by what is left, topics by the law of their
/// buckets, paths by their stages, the ensemble by the parts of its recovery,
/// interfaces by what can be ahead of their packets, modes by the servers of all local modes and by each core in each of them.
///
/// # Errors
/// The first that does not hold, or that would take more than some seconds to establish.
pub fn check_plan(plan: &Plan) -> Result<Checked, Broken> {
    let busy = plan.services.iter().filter(|one| !modes::idle(plan, one));
    let services = busy.map(|one| criticality::check(one).map_err(|broken| broken.of(one)));
    let services = services.collect::<Result<_, _>>()?;
    whole(plan)?;
    latency::check(plan)?;
    let cores = admission::check(plan)?;
    let topics = plan.topics.iter().map(|one| topic::check(plan, one)).collect::<Result<_, _>>()?;
    let coordination = plan.coordination.as_ref().map(recovery::check).transpose()?;
    // Each takes some 30 ms a stage; of several that are broken the first one is told.
    for (nth, path) in plan.paths.iter().enumerate() {
        if plan.paths[..nth].iter().any(|other| other.name == path.name) {
            return Err(Broken::new("paths of different names", 1, &path.name));
        }
    }
    let together = together(plan.paths.iter().map(PathPlan::services));
    let paths: Vec<_> = (0..plan.paths.len()).into_par_iter().map(|nth| path::check(plan, &together, nth)).collect();
    let paths = paths.into_iter().collect::<Result<_, _>>()?;
    stages(plan)?;
    let network = plan.network.iter().map(|one| network::check(plan, one)).collect::<Result<Vec<_>, _>>()?.concat();
    let modes = plan.modes.iter().map(|one| modes::check(plan, one)).collect::<Result<Vec<_>, _>>()?.concat();
    Ok(Checked { services, cores, topics, coordination, paths, network, modes })
}

/// Whether each stage is one of a path.
fn stages(plan: &Plan) -> Result<(), Broken> {
    let stage = |one: &&ServicePlan| one.promise.about() == About::Paths;
    let in_path =
        |name: &str| plan.paths.iter().any(|path| path.through.iter().any(|stage| stage.service() == Some(name)));
    match plan.services.iter().filter(stage).find(|one| !in_path(&one.name)) {
        Some(one) => Err(Broken::new("a path through it", "one", "none").of(one)),
        None => Ok(()),
    }
}

/// Whether each service has all entries that it was promised.
fn whole(plan: &Plan) -> Result<(), Broken> {
    for one in &plan.services {
        let all: Vec<&ServicePlan> = plan.services.iter().filter(|other| other.name == one.name).collect();
        let broken = |what, needed: &dyn fmt::Display, found: usize| Err(Broken::new(what, needed, found).of(one));
        if let Some(other) = all.iter().find(|other| other.on != one.on) {
            return Err(Broken::new("one service is on one host", &one.on, &other.on).of(other));
        }
        if let Some(other) = all.iter().find(|other| other.promise != one.promise) {
            return Err(Broken::new("one service has one promise", "one", "two").of(other));
        }
        let Some(mut entries) = promise::claims(&one.promise).entries else {
            return broken("it is promised no reservation", &0, all.len());
        };
        if let Some(other) = all.iter().find(|other| other.copies != one.copies) {
            return Err(Broken::new("one service has the same copies in all entries", "one", "two").of(other));
        }
        if let Some(copies) = &one.copies {
            if one.promise != Promise::AsIfAlone || copies.count < 2 {
                return broken("copies of a service that is promised as-if-alone", &"2 or more", copies.count as usize);
            }
            entries = copies.count as usize;
        }
        if all.len() != entries {
            return broken("entries of this service", &entries, all.len());
        }
        let numbered = |(nth, entry): (usize, &&ServicePlan)| entry.vcpu.is_none_or(|vcpu| vcpu as usize == nth);
        if !all.iter().enumerate().all(numbered) || (entries > 1 && all.iter().any(|entry| entry.vcpu.is_none())) {
            return broken("virtual CPUs or copies of its entries, one by one from 0", &entries, all.len());
        }
        if let Promise::EveryDeadline { placed, .. } = &one.promise {
            let there = |vcpu: u32| placed.iter().filter(|on| **on == vcpu).count();
            if let Some(entry) = all.iter().find(|e| !placed.is_empty() && there(e.vcpu.unwrap_or(0)) != e.tasks.len())
            {
                let needed = there(entry.vcpu.unwrap_or(0));
                return Err(Broken::new("tasks on this virtual CPU", needed, entry.tasks.len()).of(entry));
            }
        }
    }
    Ok(())
}
