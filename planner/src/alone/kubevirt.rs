//! KubeVirt: the part of a VirtualMachine that is about processors.

use super::again::Alone;
use super::escape::comment;
use super::said::{self, Means};
use super::share::{Entry, Way};
use super::weigh::Keeper;
use super::AloneFile;
use crate::facts::Facts;
use crate::pods::rfc1123;
use crate::words::share;
use giusto_model::{quoted, Adopt, Bandwidth, Origin, Plan, Site};

/// The files for every host of the plan: `NAME.yaml` of each virtual machine, and `README`. O(services²) a host.
pub fn kubevirt(site: &Site, facts: &Facts, plan: &Plan) -> Vec<AloneFile> {
    (0..plan.hosts.len()).flat_map(|index| host(site, facts, plan, index)).collect()
}

fn host(site: &Site, facts: &Facts, plan: &Plan, index: usize) -> Vec<AloneFile> {
    let alone = Alone::of(site, facts, plan, index, Keeper::Units);
    let host = alone.host.name.as_str();
    let (mut files, mut told) = (Vec::new(), Vec::new());
    let mut services: Vec<&str> = alone.entries.iter().map(|entry| entry.planned.name.as_str()).collect();
    services.dedup();
    for service in services {
        let entries: Vec<&Entry> = alone.entries.iter().filter(|entry| entry.planned.name == service).collect();
        let origin = &entries[0].planned.origin;
        if !origin.has_vcpus() {
            told.push(format!("{service}: NOT HERE: it is no virtual machine."));
            continue;
        }
        let (text, said) = machine(&alone, &entries, plan, host);
        told.extend(said);
        files.push(AloneFile::new(host, format!("{service}.yaml"), text));
    }
    for rest in &alone.rest {
        told.push(format!("{}: NOT HERE: what gets leftovers needs no dedicated processors.", rest.planned.name));
    }
    let readme = format!(
        "{host} without Giusto, by 'giusto export kubevirt'.\n\n\
         Each NAME.yaml is a part of a VirtualMachine: merge it into yours ('kubectl patch --type=merge --patch-file', or \
         kustomize).\n\
         The node needs kubelet's cpuManagerPolicy: static, hugepages, and KubeVirt's feature gates CPUManager and NUMA.\n\n\
         What holds:\n{}\nNot in these files:\n{}",
        comment("  ", &told),
        comment(
            "  ",
            &[
                "A share of a core: KubeVirt gives whole cores, or shares without a period of their own (resources.limits.cpu \
                 is a quota of kubelet's, every 100 ms)."
                    .into(),
                "It is not measured whether any of this is kept: no status, metrics, alerts, records.".into(),
            ]
        )
    );
    files.push(AloneFile::new(host, "README", readme));
    files
}

fn machine(alone: &Alone, entries: &[&Entry], plan: &Plan, host: &str) -> (String, Vec<String>) {
    let planned = entries[0].planned;
    let name = match &planned.origin {
        Origin::Adopt(Adopt::Libvirt(domain)) => domain.as_str(),
        _ => planned.name.as_str(),
    };
    let own = rfc1123(name, "vm");
    let count = entries.len();
    let asked = entries.iter().try_fold(Bandwidth::ZERO, |sum, entry| sum.add_up(entry.planned.server.bandwidth()));
    let provided =
        "the node has so many exclusive processors free (cpuManagerPolicy: static), and none of them are also given \
                    to programs outside of pods (reservedSystemCPUs)";
    // Dedicated processors are whole ones, whatever the plan shares.
    let means = Means { fifo: true, quota: None, quota_of: String::new(), provided: provided.into(), others: true };
    let mut said = Vec::new();
    for entry in entries {
        said.push(said::head(entry.planned));
        let whole = Entry { planned: entry.planned, core: entry.core, way: Way::Whole };
        said.extend(said::of(alone, &whole, plan, &means).lines());
    }
    let taken = format!(
        "PRICE: {} exclusive processors ({count} of virtual CPUs, 1 of the emulator) in the place of {} of a core.",
        count + 1,
        asked.map_or("more".into(), share)
    );
    said.push(taken);
    said.push(
        "WITH GIUSTO: leave dedicatedCpuPlacement, isolateEmulatorThread and realtime out; 'giusto run' on the node adopts the \
         virtual machine by its QMP socket (adopt: {qmp: ...}), and others share its cores."
            .into(),
    );
    let mut lines = vec![format!("Virtual machine {name} of {host}, by 'giusto export kubevirt'.")];
    if own != name {
        lines.push(format!("NOTE: Kubernetes does not take the name {name:?}."));
    }
    lines.extend(said.clone());
    let mask = if count == 1 { "0".into() } else { format!("0-{}", count - 1) };
    let text = format!(
        "{}apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata:\n  name: {}\nspec:\n  template:\n    spec:\n      \
         domain:\n        cpu:\n          cores: {count}\n          sockets: 1\n          threads: 1\n          \
         dedicatedCpuPlacement: true\n          isolateEmulatorThread: true\n          realtime:\n            mask: {}\n          numa:\n            \
         guestMappingPassthrough: {{}}\n        memory:\n          hugepages:\n            pageSize: 2Mi\n",
        comment("# ", &lines),
        quoted(&own),
        quoted(&mask)
    );
    (text, said)
}
