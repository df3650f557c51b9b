//! Docker and Podman: the flags of each container, an override for Compose, and a script for those that run.

use super::again::Alone;
use super::escape::{comment, shell};
use super::program::{self, list, BEGIN};
use super::quota::Quota;
use super::said::{self, Means};
use super::share::{Entry, Rest, Way};
use super::weigh::{shares, Keeper};
use super::AloneFile;
use crate::facts::Facts;
use giusto_model::{quoted, Adopt, Cap, Origin, Plan, Server, Site};
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

    /// A quota that takes another one away. Podman (4.3) leaves the old one where it is told -1: all cores of the machine limit
    /// as little.
    fn unlimited(self) -> &'static str {
        match self {
            Engine::Docker => "unlimited=-1\n",
            Engine::Podman => "unlimited=$((100000 * $(nproc --all)))\n",
        }
    }

    /// What keeps a quota from being set. Docker refuses one beside `--cpus`, and takes that back by nothing; for Podman `--cpus`
    /// is a quota.
    fn refused(self) -> &'static str {
        match self {
            Engine::Docker => {
                "\t[ \"$(docker inspect --format '{{.HostConfig.NanoCpus}}' \"$1\")\" = 0 ] ||\n\
                 \t\tstop \"container $1 was started with --cpus, beside which Docker sets no quota; expected \
                 --cpu-quota, or the flags of its file here\"\n"
            }
            Engine::Podman => "",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The priority that a program may give itself.
const PRIORITY: u8 = 1;
const UPDATE: &str = include_str!("scripts/engine-update.sh");
const UNDO: &str = include_str!("scripts/engine-undo.sh");

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
    let alone = Alone::of(site, facts, plan, index, Keeper::Containers);
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
    files.extend(scripts(host, engine, &settings));
    told.extend(settings.iter().flat_map(|one| one.said.clone()));
    let readme = format!(
        "{host} without Giusto, by 'giusto export {engine}'.\n\nNew containers: {engine} run -d $(sed '/^#/d' NAME.flags) IMAGE\n\
         Of Compose: {engine} compose -f compose.yaml -f compose.giusto.yaml up -d\n\
         Those that run: ./update.sh; ./undo.sh sets them as they were before.\n\n\
         With Giusto nothing of this is needed: adopt: {{container: NAME}} in the site, and 'giusto run'.\n\nWhat holds:\n{}\n\
         Not in these files:\n{}",
        comment("  ", &told),
        comment("  ", &not_in(plan, host))
    );
    files.push(AloneFile::new(host, "README", readme));
    files
}

/// What sets containers that run, and what takes it back.
fn scripts(host: &str, engine: Engine, settings: &[Setting]) -> [AloneFile; 2] {
    let why = [
        format!(
            "Sets the processor time of containers of {host} that run, by 'giusto export {engine}'; all or nothing."
        ),
        "What is set at their start only is not changed: --ulimit, --cap-add. ./undo.sh takes it back.".into(),
    ];
    let cores: Vec<u32> = settings.iter().flat_map(|one| one.cores.clone()).collect();
    let each: String = settings.iter().map(|one| format!("\t\"$1\" {}\n", shell(&one.container))).collect();
    let commands: String = settings.iter().map(|one| one.update(engine)).collect();
    let told = |what: &str| format!("{engine} inspect --format '{what}' \"$1\"");
    let as_it_was = "{{.Id}}|{{.Name}}|{{.HostConfig.CpusetCpus}}|{{.HostConfig.CpuPeriod}}|{{.HostConfig.CpuQuota}}|\
                     {{.HostConfig.CpuShares}}";
    let update = format!(
        "cores='{}'\n{}# each FUNCTION: of all containers\n\
         each() {{\n{each}\t:\n}}\nruns() {{\n\t[ \"$({} 2>/dev/null)\" = true ] ||\n\
         \t\tstop \"container $1 does not run; expected all of these: {engine} start '$1'\"\n{}}}\n\
         record() {{\n\t{}\n}}\n{BEGIN}{UPDATE}{commands}",
        list(&cores, " "),
        engine.unlimited(),
        told("{{.State.Running}}"),
        engine.refused(),
        told(as_it_was),
    );
    let back = [format!("Sets containers of {host} as they were before update.sh, by 'giusto export {engine}'.")];
    let undo = program::undo(host, &back, &format!("engine={engine}\n{}{UNDO}", engine.unlimited()));
    [program::apply(host, "update.sh", &why, &update), undo]
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

/// What has to be so, as an engine keeps nothing off a core.
fn provided(cores: &[u32], is_share: bool) -> String {
    let words = crate::words::cores(cores);
    let others = match is_share {
        false => "nothing else runs there",
        true => "nothing else than the containers of these files runs there",
    };
    format!(
        "{others} (an engine keeps others off core {words} neither by its flags nor by Compose: --cpuset-cpus for all other \
         containers, and for all other programs 'isolcpus={words}' at boot or AllowedCPUs= of the slices that have none of these \
         containers)"
    )
}

impl Setting {
    fn of(alone: &Alone, plan: &Plan, entries: &[&Entry], container: String) -> Setting {
        let mut cores: Vec<u32> = entries.iter().map(|entry| entry.core).collect();
        cores.dedup();
        let parts: Vec<&&Entry> = entries.iter().filter(|entry| matches!(entry.way, Way::Share(_))).collect();
        let capped = parts.iter().any(|entry| entry.planned.cap == Cap::Hard);
        // A quota is for all threads of a container.
        let quota = (capped && parts.len() == entries.len())
            .then(|| Quota::together(entries.iter().map(|entry| entry.planned.server)));
        let quota_of = match quota {
            Some(_) => "all threads of a container",
            None => "a quota is one for all threads of a container, and some have a core to themselves",
        };
        let mut said = Vec::new();
        for entry in entries {
            let is_share = matches!(entry.way, Way::Share(_));
            let mut provided = provided(&[entry.core], is_share);
            let beside = alone.rest.iter().filter(|rest| !is_share && rest.cores.contains(&entry.core));
            let beside: Vec<&str> = beside.map(|rest| rest.planned.name.as_str()).collect();
            if !beside.is_empty() {
                provided += &format!(", and {}, which may run there, is idle", beside.join(", "));
            }
            let means = Means { fifo: false, quota, quota_of: quota_of.into(), provided, others: false };
            said.push(said::head(entry.planned));
            said.extend(said::of(alone, entry, plan, &means).lines());
        }
        if entries.len() > 1 {
            said.push(format!(
                "NOTE: {} threads have {} cores together; no thread is bound by itself.",
                entries.len(),
                cores.len()
            ));
        }
        let planned = entries[0].planned;
        let weight = alone.groups.find(&planned.name).map_or(1, |group| group.weight);
        Setting {
            container,
            service: planned.name.clone(),
            said,
            cores,
            quota,
            shares: (!parts.is_empty()).then(|| shares(weight)),
            whole: parts.is_empty().then_some(planned.server),
        }
    }

    fn of_rest(rest: &Rest, container: String) -> Setting {
        let mut said = vec![said::rest_head(rest)];
        said.extend(said::rest(rest, &provided(&rest.cores, true)).lines());
        Setting {
            container,
            service: rest.planned.name.clone(),
            said,
            cores: rest.cores.clone(),
            quota: rest.planned.at_most.map(Quota::share),
            shares: rest.weight.map(shares),
            whole: None,
        }
    }

    /// Settings of a container that runs or begins, as flags.
    fn live(&self) -> Vec<String> {
        let mut flags = vec![format!("--cpuset-cpus={}", list(&self.cores, ","))];
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
            flags.extend(["--cpu-period=100000".into(), "--cpu-quota=$unlimited".into()]);
        }
        if self.shares.is_none() {
            flags.push("--cpu-shares=1024".into());
        }
        format!("{lines}{engine} update {} {}\n", flags.join(" "), shell(&self.container))
    }

    fn compose(&self) -> String {
        let list = list(&self.cores, ",");
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
