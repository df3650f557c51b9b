//! Docker and Podman: the flags of each container, an override for Compose, and a script for those that run.

use super::again::{weight, Alone, Entry, Quota, Rest, Way};
use super::escape::{comment, shell};
use super::said::{self, Means};
use super::AloneFile;
use crate::facts::Facts;
use giusto_model::{quoted, Adopt, Bandwidth, Cap, Origin, Plan, Server, Site};
use std::fmt::{self, Write};

/// Who runs containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

impl Engine {
    /// What it is called, and its program.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Docker => "docker",
            Engine::Podman => "podman",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Of a weight of 10,000 as engines count: 1024 is what others have.
const SHARES: u64 = 26;
/// The priority that a program may give itself.
const PRIORITY: u8 = 1;

/// The files for every host of the plan: `NAME.flags`, `compose.giusto.yaml`, `update.sh` and `README`. O(services²) a host.
pub fn containers(engine: Engine, site: &Site, facts: &Facts, plan: &Plan) -> Vec<AloneFile> {
    (0..plan.hosts.len()).flat_map(|index| host(engine, site, facts, plan, index)).collect()
}

/// What is set for a container.
struct Setting {
    /// Its name for the engine.
    container: String,
    /// Its name in the site.
    service: String,
    said: Vec<String>,
    cores: Vec<u32>,
    quota: Option<Quota>,
    shares: Option<u64>,
    /// It has its cores to itself, and may be a real-time thread there.
    whole: Option<Server>,
}

/// The container of a service: the one that it has, or one of what the site starts.
fn container(name: &str, origin: &Origin) -> Option<String> {
    match origin {
        Origin::Start(_) => Some(name.into()),
        Origin::Adopt(Adopt::Container(container)) => Some(container.clone()),
        Origin::Adopt(_) => None,
    }
}

fn host(engine: Engine, site: &Site, facts: &Facts, plan: &Plan, index: usize) -> Vec<AloneFile> {
    let alone = Alone::of(site, facts, plan, index);
    let host = alone.host.name.as_str();
    let (mut settings, mut told) = (Vec::new(), Vec::new());
    let mut services: Vec<&str> = alone.entries.iter().map(|entry| entry.planned.name.as_str()).collect();
    services.dedup();
    let mut not_here = |name: &str, origin: &Origin| {
        if let Origin::Adopt(adopt) = origin {
            told.push(format!(
                "{name}: NOT HERE: {adopt} is no container; adopt it by adopt: {{container: NAME}} where it is one."
            ));
        }
    };
    for service in services {
        let entries: Vec<&Entry> = alone.entries.iter().filter(|entry| entry.planned.name == service).collect();
        let planned = entries[0].planned;
        match container(service, &planned.origin) {
            Some(container) => settings.push(Setting::of(&alone, plan, &entries, container)),
            None => not_here(service, &planned.origin),
        }
    }
    for rest in &alone.rest {
        match container(&rest.planned.name, &rest.planned.origin) {
            Some(container) => settings.push(Setting::of_rest(rest, container)),
            None => not_here(&rest.planned.name, &rest.planned.origin),
        }
    }
    let mut files: Vec<AloneFile> =
        settings.iter().map(|one| AloneFile::new(host, format!("{}.flags", one.service), one.flags(engine))).collect();
    let services: String = settings.iter().map(Setting::compose).collect();
    let why = [
        format!("Processor time of the containers of {host}, by 'giusto export {engine}': an override, for example"),
        format!("{engine} compose -f compose.yaml -f compose.giusto.yaml up -d"),
        "Services have the names that they have in the site.".into(),
    ];
    let services = if services.is_empty() { "services: {}\n".into() } else { format!("services:\n{services}") };
    files.push(AloneFile::new(host, "compose.giusto.yaml", comment("# ", &why) + &services));
    let why = [
        format!("Sets the processor time of containers of {host} that run, by 'giusto export {engine}'."),
        "What is set at their start only is not changed: --ulimit, --cap-add.".into(),
    ];
    let commands: String = settings.iter().map(|one| one.update(engine)).collect();
    let script = format!("#!/bin/sh\n{}set -e\n{commands}", comment("# ", &why));
    files.push(AloneFile { executable: true, ..AloneFile::new(host, "update.sh", script) });
    told.extend(settings.iter().flat_map(|one| one.said.clone()));
    let readme = format!(
        "{host} without Giusto, by 'giusto export {engine}'.\n\nNew containers: {engine} run -d $(sed '/^#/d' NAME.flags) IMAGE\n\
         Of Compose: {engine} compose -f compose.yaml -f compose.giusto.yaml up -d\n\
         Those that run: ./update.sh\n\n\
         With Giusto nothing of this is needed: adopt: {{container: NAME}} in the site, and 'giusto run'.\n\nWhat holds:\n{}\n\
         Not in these files:\n{}",
        comment("  ", &told),
        comment("  ", &not_in(plan, host))
    );
    files.push(AloneFile::new(host, "README", readme));
    files
}

fn not_in(plan: &Plan, host: &str) -> Vec<String> {
    let mut lines =
        vec!["It is not measured whether any of this is kept: no status, metrics, alerts, records.".to_string()];
    if plan.network.iter().any(|network| network.on == host) {
        lines.push("packets: priorities and buckets of interfaces are Giusto's.".into());
    }
    if plan.paths_here().next().is_some() {
        lines.push("paths: they hold where the promises of all their stages do, and not where one is lost.".into());
    }
    lines
}

impl Setting {
    fn of(alone: &Alone, plan: &Plan, entries: &[&Entry], container: String) -> Setting {
        let cores: Vec<u32> = entries.iter().map(|entry| entry.core).collect();
        let shares = entries.iter().find_map(|entry| match &entry.way {
            Way::Share(share) => Some((share.weight, entry.planned)),
            Way::Whole => None,
        });
        let words = crate::words::cores(&cores);
        let others = match shares {
            None => "nothing else runs there",
            Some(_) => "nothing else than the containers of these files runs there",
        };
        let provided = format!(
            "{others} (an engine keeps others off core {words} neither by its flags nor by Compose: --cpuset-cpus for all other \
             containers, and for all other programs 'isolcpus={words}' at boot or AllowedCPUs= of the slices that \
             have none of these containers)"
        );
        let means = Means { fifo: false, quotas: true, provided, others: false };
        let mut said = Vec::new();
        for entry in entries {
            said.push(said::head(entry.planned));
            said.extend(said::of(alone, entry, plan, &means).lines());
        }
        if entries.len() > 1 {
            said.push(format!(
                "NOTE: {} threads have {} cores together; no thread is bound by itself.",
                cores.len(),
                cores.len()
            ));
        }
        let planned = entries[0].planned;
        Setting {
            container,
            service: planned.name.clone(),
            said,
            cores,
            quota: shares.filter(|(_, one)| one.cap == Cap::Hard).map(|(_, one)| Quota::of(one.server)),
            shares: shares.map(|(weight, _)| weight * SHARES),
            whole: shares.is_none().then_some(planned.server),
        }
    }

    fn of_rest(rest: &Rest, container: String) -> Setting {
        let means = Means { fifo: false, quotas: true, provided: String::new(), others: false };
        let mut said = vec![said::rest_head(rest)];
        said.extend(said::rest(rest, &means).lines());
        Setting {
            container,
            service: rest.planned.name.clone(),
            said,
            cores: rest.cores.clone(),
            quota: rest.planned.at_most.map(Quota::share),
            shares: (rest.planned.at_least > Bandwidth::ZERO).then(|| weight(rest.planned.at_least) * SHARES),
            whole: None,
        }
    }

    /// Settings of a container that runs or begins, as flags.
    fn live(&self) -> Vec<String> {
        let list = self.cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut flags = vec![format!("--cpuset-cpus={list}")];
        if let Some(Quota { quota, period }) = self.quota {
            flags.extend([format!("--cpu-period={period}"), format!("--cpu-quota={quota}")]);
        }
        flags.extend(self.shares.map(|shares| format!("--cpu-shares={shares}")));
        flags
    }

    fn flags(&self, engine: Engine) -> String {
        let mut lines = vec![format!(
            "Container {}, by 'giusto export {engine}': {engine} run $(sed '/^#/d' {}.flags) IMAGE",
            self.container, self.service
        )];
        lines.extend(self.said.clone());
        let mut flags = self.live();
        let mut more = String::new();
        if let Some(server) = self.whole {
            flags.extend(["--cap-add=SYS_NICE".into(), format!("--ulimit=rtprio={PRIORITY}:{PRIORITY}")]);
            more = comment("# ", &self.real_time(server));
        }
        format!("{}{}\n{more}", comment("# ", &lines), flags.join("\n"))
    }

    /// What a program can do for itself, and what some kernels do.
    fn real_time(&self, server: Server) -> Vec<String> {
        let Quota { quota, period } = Quota::of(server);
        vec![
            format!(
                "To go before the fair class there, the program makes itself a real-time thread, which the last two flags allow: \
                 'chrt -f {PRIORITY} PROGRAM' as the command of the image."
            ),
            format!(
                "Where the engine has it (cgroup v1, a kernel with RT_GROUP_SCHED, room in the group above: dockerd \
                 --cpu-rt-runtime), its cap is kept as well, at the tick of the kernel: --cpu-rt-period={period} \
                 --cpu-rt-runtime={quota}"
            ),
        ]
    }

    fn update(&self, engine: Engine) -> String {
        let lines = comment("# ", &self.said);
        let mut flags = self.live();
        // One that was shared before may have both.
        if self.quota.is_none() {
            flags.push("--cpu-quota=-1".into());
        }
        if self.shares.is_none() {
            flags.push("--cpu-shares=1024".into());
        }
        format!("{lines}{engine} update {} {}\n", flags.join(" "), shell(&self.container))
    }

    fn compose(&self) -> String {
        let list = self.cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut out = comment("  # ", &self.said);
        let _ = writeln!(out, "  {}:\n    cpuset: {}", quoted(&self.service), quoted(&list));
        if self.container != self.service {
            let _ = writeln!(out, "    container_name: {}", quoted(&self.container));
        }
        if let Some(Quota { quota, period }) = self.quota {
            let _ = writeln!(out, "    cpu_period: {period}\n    cpu_quota: {quota}");
        }
        if let Some(shares) = self.shares {
            let _ = writeln!(out, "    cpu_shares: {shares}");
        }
        if let Some(server) = self.whole {
            let _ = writeln!(out, "    cap_add: [SYS_NICE]\n    ulimits: {{rtprio: {PRIORITY}}}");
            out += &comment("    # ", &self.real_time(server));
        }
        out
    }
}
