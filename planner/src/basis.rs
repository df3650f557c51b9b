//! What a plan rests on: its site file, the facts of its machines, and this release.

use crate::facts::Facts;
use crate::words::{cores, share, time};
use giusto_model::{Backend, Basis, HostPlan, MachineBasis, Plan, SiteBasis};
use sha2::{Digest, Sha256};
use std::path::Path;

/// The release that makes plans.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// What `plan` was made from: a site file, and the `facts` of this machine. Of a host that was not looked at it is what was
/// assumed. O(hosts).
pub fn basis(plan: &Plan, site: SiteBasis, facts: &Facts) -> Basis {
    let machine = |host: &HostPlan| match host.assumed {
        None => machine(&host.name, facts),
        Some(_) if is_xen(host, plan) => machine(&host.name, &Facts::xen(host.cores.clone())),
        Some(_) => machine(&host.name, &Facts::typical(host.cores.clone())),
    };
    let machines = plan.hosts.iter().map(machine).collect();
    Basis { giusto: RELEASE.into(), site, machines }
}

/// The site file at the absolute path `file`, by its bytes. O(bytes).
pub fn site_basis(file: &Path, bytes: &[u8]) -> SiteBasis {
    let sha256 = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    SiteBasis { file: file.display().to_string(), sha256 }
}

/// Its control domain has a reservation in any case.
fn is_xen(host: &HostPlan, plan: &Plan) -> bool {
    plan.services.iter().any(|service| service.on == host.name && service.backend == Backend::Rtds)
}

fn machine(host: &str, facts: &Facts) -> MachineBasis {
    MachineBasis {
        host: host.into(),
        tick: facts.tick,
        deadline_period_min: facts.deadline_period_min,
        deadline_period_max: facts.deadline_period_max,
        deadline_bandwidth_cap: facts.deadline_bandwidth_cap,
    }
}

/// Where the basis of a `plan` of one host is not what is here, a sentence each; empty: it may be enforced as it was
/// reviewed. `facts` are those of this machine. O(cores + services).
pub fn differences(plan: &Plan, facts: &Facts) -> Vec<String> {
    let Some(host) = plan.only_host() else { return vec![format!("it is for {} hosts", plan.hosts.len())] };
    let Some(basis) = &plan.basis else {
        return vec!["it does not say what it was made from, as plans of earlier releases".into()];
    };
    let mut found = Vec::new();
    if basis.giusto != RELEASE {
        found.push(format!("it was made by giusto {}, and this is {RELEASE}", basis.giusto));
    }
    let Some(planned) = basis.machines.iter().find(|machine| machine.host == host.name) else {
        found.push(format!("it does not say on which machine {} it rests", host.name));
        return found;
    };
    let here = machine(&host.name, facts);
    for (what, planned, here) in [
        ("the kernel's tick", time(planned.tick), time(here.tick)),
        ("the shortest period of SCHED_DEADLINE", time(planned.deadline_period_min), time(here.deadline_period_min)),
        ("the longest period of SCHED_DEADLINE", time(planned.deadline_period_max), time(here.deadline_period_max)),
        (
            "what SCHED_DEADLINE admits of a core",
            share(planned.deadline_bandwidth_cap),
            share(here.deadline_bandwidth_cap),
        ),
    ] {
        if planned != here {
            found.push(format!("{what} was {planned} when it was made, and is {here} here"));
        }
    }
    let network = plan.network.iter().flat_map(|network| &network.cores);
    let mut missing: Vec<u32> = host.cores.iter().chain(network).copied().collect();
    missing.retain(|core| !facts.cores.contains(core));
    missing.sort_unstable();
    missing.dedup();
    if !missing.is_empty() {
        found.push(format!("core {} of the plan is not online here", cores(&missing)));
    }
    let reserved = plan.services.iter().filter(|service| service.backend.abilities().isolates);
    let reserved: Vec<u32> = reserved.map(|service| service.core).collect();
    let held = facts.held.iter().filter(|held| held.cores.iter().all(|core| reserved.contains(core)));
    found.extend(held.filter(|_| !reserved.is_empty()).map(|held| held.why.clone()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::{Bandwidth, Duration, PLAN_VERSION};

    fn plan(assumed: Option<&str>) -> Plan {
        let host = HostPlan {
            name: "edge".into(),
            cores: vec![0, 1],
            keep_free: Bandwidth::ZERO,
            assumed: assumed.map(String::from),
            admission: Vec::new(),
            parked: Vec::new(),
            latency: None,
        };
        Plan {
            giusto_plan: PLAN_VERSION,
            basis: None,
            hosts: vec![host],
            services: Vec::new(),
            leftovers: Vec::new(),
            topics: Vec::new(),
            coordination: None,
            paths: Vec::new(),
            network: Vec::new(),
            modes: Vec::new(),
        }
    }

    fn made(facts: &Facts, assumed: Option<&str>) -> Plan {
        let plan = plan(assumed);
        Plan { basis: Some(basis(&plan, site_basis(Path::new("/site.yaml"), b"abc"), facts)), ..plan }
    }

    /// The digest of "abc" is that of FIPS 180-4, appendix B.1.
    #[test]
    fn a_plan_names_its_site_by_its_digest() {
        let made = made(&Facts::typical(vec![0, 1]), None).basis.unwrap();
        assert_eq!(made.site.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(made.machines.len(), 1);
    }

    #[test]
    fn what_differs_here_is_told_and_what_is_as_planned_is_not() {
        let facts = Facts::typical(vec![0, 1]);
        assert_eq!(differences(&made(&facts, None), &facts), Vec::<String>::new());
        // More cores than the plan uses are no difference.
        assert!(differences(&made(&facts, None), &Facts::typical(vec![0, 1, 2])).is_empty());
        let told = |facts: &Facts| differences(&made(&Facts::typical(vec![0, 1]), None), facts).join("; ");
        assert_eq!(told(&Facts::typical(vec![0])), "core 1 of the plan is not online here");
        let slow = Facts { tick: Duration::from_ms(10), ..facts.clone() };
        assert_eq!(told(&slow), "the kernel's tick was 4 ms when it was made, and is 10 ms here");
        let tight = Facts { deadline_bandwidth_cap: Bandwidth::new(1, 2).unwrap(), ..facts.clone() };
        assert!(told(&tight).contains("95 % when it was made, and is 50 % here"));
    }

    #[test]
    fn what_was_assumed_of_a_host_counts_there() {
        let here = Facts { tick: Duration::from_ms(1), ..Facts::typical(vec![0, 1]) };
        let made = made(&here, Some("a stock kernel"));
        assert!(differences(&made, &Facts::typical(vec![0, 1])).is_empty());
        assert_eq!(differences(&made, &here).len(), 1);
    }

    #[test]
    fn another_release_or_none_is_told() {
        let facts = Facts::typical(vec![0, 1]);
        let mut old = made(&facts, None);
        old.basis.as_mut().unwrap().giusto = "0.0.0".into();
        assert!(differences(&old, &facts)[0].contains("made by giusto 0.0.0"));
        assert!(differences(&plan(None), &facts)[0].contains("does not say what it was made from"));
    }
}
