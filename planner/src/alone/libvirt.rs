//! libvirt: `<cputune>` of each domain, scripts for those that run, and a hook that has Giusto adopt them.

use super::again::Alone;
use super::escape::{comment, shell, xml_comment};
use super::program::{self, list, BEGIN};
use super::quota::Quota;
use super::said::{self, Means};
use super::share::{Entry, Rest, Share, Way};
use super::weigh::Keeper;
use super::AloneFile;
use crate::facts::Facts;
use giusto_model::{Adopt, Cap, Origin, Plan, Server, Site};
use std::fmt::Write;

/// Of a virtual CPU that has its core to itself.
const PRIORITY: u8 = 1;
const FUNCTIONS: &str = include_str!("scripts/libvirt-functions.sh");
const APPLY: &str = include_str!("scripts/libvirt-apply.sh");
const UNDO: &str = include_str!("scripts/libvirt-undo.sh");

/// The files for every host of the plan: `NAME.cputune.xml`, `apply.sh`, `undo.sh`, `hooks/qemu` and `README`. O(services²) a
/// host.
pub fn libvirt(site: &Site, facts: &Facts, plan: &Plan) -> Vec<AloneFile> {
    (0..plan.hosts.len()).flat_map(|index| host(site, facts, plan, index)).collect()
}

fn host(site: &Site, facts: &Facts, plan: &Plan, index: usize) -> Vec<AloneFile> {
    let alone = Alone::of(site, facts, plan, index, Keeper::Units);
    let host = alone.host.name.as_str();
    let (mut files, mut told) = (Vec::new(), Vec::new());
    let mut tunes: Vec<(&str, &str, Tune)> = Vec::new();
    let mut services: Vec<&str> = alone.entries.iter().map(|entry| entry.planned.name.as_str()).collect();
    services.dedup();
    let not_here =
        |name: &str| format!("{name}: NOT HERE: it is no virtual machine of libvirt (adopt: {{libvirt: NAME}}).");
    for service in services {
        let entries: Vec<&Entry> = alone.entries.iter().filter(|entry| entry.planned.name == service).collect();
        match &entries[0].planned.origin {
            Origin::Adopt(Adopt::Libvirt(domain)) => {
                tunes.push((service, domain, Tune::of(&alone, &entries, plan, facts)))
            }
            _ => told.push(not_here(service)),
        }
    }
    for rest in &alone.rest {
        match &rest.planned.origin {
            Origin::Adopt(Adopt::Libvirt(domain)) => {
                tunes.push((&rest.planned.name, domain, Tune::of_rest(&alone, rest, facts)));
            }
            _ => told.push(not_here(&rest.planned.name)),
        }
    }
    for (service, domain, tune) in &tunes {
        told.extend(tune.said.clone());
        let mut lines =
            vec![format!("Domain {domain}, by 'giusto export libvirt': 'virsh edit', in place of its <cputune>.")];
        lines.extend(tune.said.clone());
        files.push(AloneFile::new(host, format!("{service}.cputune.xml"), tune.xml(&lines)));
    }
    files.extend(scripts(host, &tunes));
    let domains: Vec<&str> = tunes.iter().map(|(_, domain, _)| *domain).collect();
    files.push(AloneFile { executable: true, ..AloneFile::new(host, "hooks/qemu", hook(host, &domains)) });
    let readme = format!(
        "{host} without Giusto, by 'giusto export libvirt'.\n\n\
         ./apply.sh sets domains that run, and their configuration; ./undo.sh sets both as they were before.\n\
         The scheduler of virtual CPUs: after ./apply.sh, 'virsh edit DOMAIN', NAME.cputune.xml in place of its <cputune>; start \
         it again. ./undo.sh takes no edit back: found/NUMBER.xml has how it was.\n\
         Or with Giusto, which keeps all of it: hooks/qemu to /etc/libvirt/hooks/qemu, the site to /etc/giusto/{host}.yaml; \
         then leave <cputune> out.\n\nWhat holds:\n{}\nNot in these files:\n{}",
        comment("  ", &told),
        comment(
            "  ",
            &[
                "It is not measured whether any of this is kept: no status, metrics, alerts, records.".into(),
                "modes with agents, interfaces of the network plane, criticality: Giusto's.".into(),
            ]
        )
    );
    files.push(AloneFile::new(host, "README", readme));
    files
}

/// What sets domains that run, and what takes it back.
fn scripts(host: &str, tunes: &[(&str, &str, Tune)]) -> [AloneFile; 2] {
    let why = [
        format!(
            "Sets what libvirt can change in domains of {host} that run, and in their configuration, by 'giusto export \
             libvirt'; all or nothing. ./undo.sh takes it back."
        ),
        "The scheduler of virtual CPUs is set at their start only: it is in NAME.cputune.xml.".into(),
    ];
    let cores: Vec<u32> = tunes.iter().flat_map(|(.., tune)| tune.cores()).collect();
    let numbered = tunes.iter().enumerate();
    let each: String = numbered
        .map(|(number, (_, domain, tune))| format!("\t\"$1\" {} {} {number}\n", shell(domain), tune.count()))
        .collect();
    let set_up: String = tunes.iter().map(|(_, domain, tune)| tune.commands(domain)).collect();
    let each = if tunes.is_empty() { "\t:\n".into() } else { each };
    let apply = format!(
        "cores='{}'\n# each FUNCTION: of all domains\neach() {{\n{each}}}\nset_up() {{\n{set_up}\t:\n}}\n\
         {FUNCTIONS}{BEGIN}{APPLY}",
        list(&cores, " ")
    );
    let back = [format!("Sets domains of {host} as they were before apply.sh, by 'giusto export libvirt'.")];
    let undo = program::undo(host, &back, &format!("{FUNCTIONS}{UNDO}"));
    [program::apply(host, "apply.sh", &why, &apply), undo]
}

/// The settings of a domain.
struct Tune {
    said: Vec<String>,
    /// Virtual CPU, core, and whether it has that to itself.
    vcpus: Vec<(u32, u32, bool)>,
    /// Of one with leftovers: where all its virtual CPUs may run.
    anywhere: Vec<u32>,
    weight: Option<u64>,
    quota: Option<Quota>,
    /// Of all threads of the domain together.
    global: Option<Quota>,
    emulator: Vec<u32>,
}

impl Tune {
    fn of(alone: &Alone, entries: &[&Entry], plan: &Plan, facts: &Facts) -> Tune {
        let mut said = Vec::new();
        let is_share = |entry: &Entry| matches!(entry.way, Way::Share(_));
        let servers = || entries.iter().filter(|entry| is_share(entry)).map(|entry| entry.planned.server);
        // One for each virtual CPU alike: no smaller than the largest share, and none where one has a core.
        let largest: Option<Server> = servers().max_by_key(|server| server.bandwidth());
        let all_shares = entries.iter().all(|entry| is_share(entry));
        let quota = largest.filter(|_| all_shares && entries[0].planned.cap == Cap::Hard).map(Quota::of);
        let quota_of = match quota {
            Some(_) => "each virtual CPU of the domain alike",
            None => "a quota is for each virtual CPU of the domain alike, and one has a core to itself",
        };
        for entry in entries {
            let provided = match entry.way {
                Way::Whole => String::new(),
                Way::Share(_) => format!(
                    "nothing else than domains of these files runs on core {} (libvirt keeps nothing off a core), and its \
                     emulator rests, which is weighed with it",
                    entry.core
                ),
            };
            let means = Means { fifo: !is_share(entry), quota, quota_of: quota_of.into(), provided, others: false };
            said.push(said::head(entry.planned));
            said.extend(said::of(alone, entry, plan, &means).lines());
        }
        let vcpus: Vec<(u32, u32, bool)> =
            entries.iter().map(|entry| (entry.planned.vcpu.unwrap_or(0), entry.core, !is_share(entry))).collect();
        let weight =
            alone.groups.find(&entries[0].planned.name).filter(|_| largest.is_some()).map(|group| group.weight);
        let emulator = emulator(alone, facts, &mut said);
        Tune { said, vcpus, anywhere: Vec::new(), weight, quota, global: None, emulator }
    }

    fn of_rest(alone: &Alone, rest: &Rest, facts: &Facts) -> Tune {
        let mut said = vec![said::rest_head(rest)];
        let words = crate::words::cores(&rest.cores);
        let provided = format!("nothing else than domains of these files runs on core {words}");
        said.extend(said::rest(rest, &provided).lines());
        said.push(format!(
            "NOTE: the plan does not know how many virtual CPUs it has: <vcpu cpuset='{}'> in the domain pins all of them.",
            list(&rest.cores, ",")
        ));
        let emulator = emulator(alone, facts, &mut said);
        let global = rest.planned.at_most.map(Quota::share);
        Tune {
            said,
            vcpus: Vec::new(),
            anywhere: rest.cores.clone(),
            weight: rest.weight,
            quota: None,
            global,
            emulator,
        }
    }

    fn cores(&self) -> Vec<u32> {
        let pinned = self.vcpus.iter().map(|(_, core, _)| *core);
        pinned.chain(self.anywhere.clone()).chain(self.emulator.clone()).collect()
    }

    /// Virtual CPUs that it has to have.
    fn count(&self) -> u32 {
        self.vcpus.iter().map(|(vcpu, ..)| vcpu + 1).max().unwrap_or(1)
    }

    /// What libvirt takes, under either version of cgroups.
    fn shares(&self) -> Option<u64> {
        self.weight.map(|weight| weight.clamp(2, Share::WEIGHTS))
    }

    /// Names and values, as elements of `<cputune>`.
    fn numbers(&self) -> Vec<(&'static str, u64)> {
        let mut all: Vec<(&str, u64)> = self.shares().map(|shares| ("shares", shares)).into_iter().collect();
        all.extend(self.quota.iter().flat_map(|one| [("period", one.period), ("quota", one.quota)]));
        all.extend(self.global.iter().flat_map(|one| [("global_period", one.period), ("global_quota", one.quota)]));
        all
    }

    fn xml(&self, lines: &[String]) -> String {
        let mut out = format!("<cputune>\n{}", xml_comment("  ", lines));
        for (name, value) in self.numbers() {
            let _ = writeln!(out, "  <{name}>{value}</{name}>");
        }
        for (vcpu, core, _) in &self.vcpus {
            let _ = writeln!(out, "  <vcpupin vcpu='{vcpu}' cpuset='{core}'/>");
        }
        let emulator = list(&self.emulator, ",");
        let _ = writeln!(out, "  <emulatorpin cpuset='{emulator}'/>");
        out += &xml_comment(
            "  ",
            &[format!(
                "With <iothreads>1</iothreads> in the domain: <iothreadpin iothread='1' cpuset='{emulator}'/>, and so on."
            )],
        );
        for (vcpu, _, _) in self.vcpus.iter().filter(|(_, _, whole)| *whole) {
            let _ = writeln!(out, "  <vcpusched vcpus='{vcpu}' scheduler='fifo' priority='{PRIORITY}'/>");
        }
        out + "</cputune>\n"
    }

    /// What sets it while it runs, and its configuration.
    fn commands(&self, domain: &str) -> String {
        let (domain, emulator) = (shell(domain), list(&self.emulator, ","));
        let mut out = comment("\t# ", &self.said);
        if self.vcpus.iter().any(|(_, _, whole)| *whole) {
            let late =
                "NOTE: virsh sets no scheduler. What is KEPT by real-time threads is kept from the next start with \
                        <cputune> on; until then provided that nothing else is busy on these cores.";
            out += &comment("\t# ", &[late.to_string()]);
        }
        for (vcpu, core, _) in &self.vcpus {
            let _ = writeln!(out, "\tvirsh vcpupin --domain {domain} --vcpu {vcpu} --cpulist {core} --live --config");
        }
        if !self.anywhere.is_empty() {
            let _ = writeln!(
                out,
                "\tfor vcpu in $(virsh vcpupin --domain {domain} --live | awk 'NR > 2 && NF == 2 {{ print $1 + 0 }}'); do\n\
                 \t\tvirsh vcpupin --domain {domain} --vcpu \"$vcpu\" --cpulist {} --live --config\n\tdone",
                list(&self.anywhere, ",")
            );
        }
        let _ = writeln!(out, "\tvirsh emulatorpin --domain {domain} --cpulist {emulator} --live --config");
        let _ = writeln!(
            out,
            "\tfor thread in $(virsh iothreadinfo --domain {domain} --live | awk 'NR > 2 && NF == 2 {{ print $1 }}'); do\n\
             \t\tvirsh iothreadpin --domain {domain} --iothread \"$thread\" --cpulist {emulator} --live --config\n\tdone"
        );
        let named = |name: &str| match name {
            "shares" => "cpu_shares".to_string(),
            "period" | "quota" => format!("vcpu_{name}"),
            other => other.into(),
        };
        let numbers: String =
            self.numbers().iter().map(|(name, value)| format!(" --set {}={value}", named(name))).collect();
        if !numbers.is_empty() {
            let _ = writeln!(out, "\tvirsh schedinfo --domain {domain} --live --config{numbers} >/dev/null");
        }
        out
    }
}

/// Where threads of QEMU run that are no virtual CPUs.
fn emulator(alone: &Alone, facts: &Facts, said: &mut Vec<String>) -> Vec<u32> {
    let here = alone.host.assumed.is_none();
    let mut known: Vec<u32> = alone.host.cores.iter().chain(facts.cores.iter().filter(|_| here)).copied().collect();
    known.push(0);
    known.sort_unstable();
    known.dedup();
    let reserved = |core: &u32| alone.whole.contains(core) || alone.shared.contains(core);
    let emulator: Vec<u32> = known.iter().copied().filter(|core| !reserved(core)).collect();
    if emulator.is_empty() {
        said.push(
            "NOTE: no core is without a reservation, so the threads of the emulator run beside virtual CPUs: where these are \
             real-time threads and always busy, the emulator stands still."
                .into(),
        );
        return known;
    }
    emulator
}

/// libvirt calls it with a domain, an operation and a part of it, and waits for its end; it may not ask libvirt.
fn hook(host: &str, domains: &[&str]) -> String {
    let why = [
        format!(
            "/etc/libvirt/hooks/qemu of {host}, by 'giusto export libvirt': has Giusto adopt the site's virtual machines once \
             all of them run. One that is started again is found by a giusto that runs. After a change: systemctl restart \
             libvirtd. What it says: /var/lib/giusto/hook.log."
        ),
    ];
    let all: String = domains.iter().map(|domain| format!(" {}", shell(domain))).collect();
    let cases: Vec<String> = domains.iter().map(|domain| format!("{}/started", shell(domain))).collect();
    if cases.is_empty() {
        return format!("#!/bin/sh\n{}exit 0\n", comment("# ", &why));
    }
    format!(
        "#!/bin/sh\n{}case \"$1/$2\" in\n{}) ;;\n*) exit 0 ;;\nesac\nadopt() {{\n\
         \t# What libvirt knows of a domain is written a moment after this hook.\n\
         \ttries=0\n\
         \tfor domain in{all}; do\n\
         \t\tuntil [ -e \"/run/libvirt/qemu/$domain.xml\" ]; do\n\
         \t\t\ttries=$((tries + 1))\n\
         \t\t\t[ $tries -lt 20 ] || exit 0 # it does not run yet: its own start comes here again\n\
         \t\t\tsleep 0.1\n\
         \t\tdone\n\
         \tdone\n\
         \tgiusto status >/dev/null 2>&1 && exit 0\n\
         \tif [ -d /run/systemd/system ]; then\n\
         \t\texec systemctl --no-block start giusto@{host}.service\n\
         \tfi\n\
         \texec giusto run /etc/giusto/{host}.yaml --host {host}\n\
         }}\n\
         mkdir -p /var/lib/giusto && cd /var/lib/giusto || exit 1\n\
         adopt </dev/null >>hook.log 2>&1 &\n",
        comment("# ", &why),
        cases.join(" | ")
    )
}
