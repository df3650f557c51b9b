//! Whether a plan is of a site: each promise and each number of the site is in the plan as the site says it, nothing is left
//! out, nothing is there besides, and the file is the one that the plan names.
//!
//! The checker compares words that were read from both files. It plans nothing.

mod machine;
mod modes;
mod planes;
mod same;
mod service;

use super::broken::Broken;
use giusto_model::{About, Host, HostPlan, Plan, Promise, Site, Unused};
use same::{same, shown};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// A plan that is of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfSite {
    /// SHA-256 of the site file.
    pub sha256: String,
    /// Services whose execution times the site leaves to be measured: those in the plan were not compared with anything.
    pub measured: Vec<String>,
}

/// Whether `plan`, which is consistent in itself ([`check_plan`](super::check_plan)), is of `site`, whose file is `text`.
///
/// # Errors
/// The first difference. O(services + topics + interfaces + modes).
pub fn check_site(plan: &Plan, site: &Site, text: &[u8]) -> Result<OfSite, Broken> {
    hosts(plan, site)?;
    services(plan, site)?;
    modes::check(plan, site)?;
    planes::topics(plan, site)?;
    planes::ensemble(plan, site)?;
    planes::paths(plan, site)?;
    planes::network(plan, site)?;
    machine::check(plan)?;
    let sha256: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    let named = plan.basis.as_ref().map_or("none", |basis| basis.site.sha256.as_str());
    if named != sha256 {
        let what = "the site file that it names, by its SHA-256; nothing that it promises differs, so plan it anew";
        return Err(Broken::new(what, &sha256, named));
    }
    let measured = site.services.iter().filter(|one| service::is_measured(one));
    Ok(OfSite { sha256, measured: measured.map(|one| one.name.clone()).collect() })
}

fn hosts(plan: &Plan, site: &Site) -> Result<(), Broken> {
    let planned: Vec<&String> = plan.hosts.iter().map(|host| &host.name).collect();
    same("the site", "its hosts", &site.hosts.iter().map(|host| &host.name).collect(), &planned)?;
    if let Some(basis) = &plan.basis {
        let machines = basis.machines.iter().map(|machine| &machine.host).collect();
        same("the basis", "a machine for each host", &planned, &machines)?;
    }
    site.hosts.iter().zip(&plan.hosts).try_for_each(|(host, planned)| one_host(host, planned))
}

fn one_host(host: &Host, planned: &HostPlan) -> Result<(), Broken> {
    let whose = format!("host '{}'", host.name);
    same(&whose, "cores", &host.cores, &planned.cores)?;
    same(&whose, "keep-free", &host.keep_free, &planned.keep_free)?;
    let order = |core: u32| host.cores.iter().position(|other| *other == core);
    let ascending = |places: &[Option<usize>]| places.windows(2).all(|pair| pair[0] < pair[1]);
    let told: Vec<_> = planned.admission.iter().map(|told| order(told.core)).collect();
    if !ascending(&told) || told.contains(&None) {
        return Err(Broken::new(
            format!("{whose}: proofs for its cores, in their order"),
            "ascending",
            "another order",
        ));
    }
    let parked: Vec<_> = planned.parked.iter().map(|core| order(*core)).collect();
    match (host.unused, parked.is_empty()) {
        (Unused::Leave, false) => Err(Broken::new(format!("{whose}: parked cores"), "none", shown(&planned.parked))),
        _ if !ascending(&parked) => Err(Broken::new(format!("{whose}: parked cores"), "ascending", "another order")),
        _ => Ok(()),
    }
}

fn services(plan: &Plan, site: &Site) -> Result<(), Broken> {
    let leftover = |promise: &Promise| promise.about() == About::Rest;
    let of = |left: bool| {
        let own = site.services.iter().filter(move |one| leftover(&one.promise) == left);
        own.map(|one| one.name.as_str()).collect::<Vec<_>>()
    };
    let mut reserved: Vec<&str> = plan.services.iter().map(|entry| entry.name.as_str()).collect();
    reserved.dedup();
    same("the site", "its services with a reservation, in its order", &of(false), &reserved)?;
    let rest: Vec<&str> = plan.leftovers.iter().map(|one| one.name.as_str()).collect();
    same("the site", "its services that get leftovers, in its order", &of(true), &rest)?;
    site.services.iter().try_for_each(|one| service::check(plan, one))
}
