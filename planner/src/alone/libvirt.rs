//! libvirt: `<cputune>` of each domain, a script for those that run, and a hook that has Giusto adopt them.

use super::again::{Alone, Entry, Quota, Way};
use super::escape::{comment, shell, xml_comment};
use super::said::{self, Means};
use super::AloneFile;
use crate::facts::Facts;
use giusto_model::{Adopt, Cap, Origin, Plan, Server, Site};
use std::fmt::Write;

/// Of a virtual CPU that has its core to itself.
const PRIORITY: u8 = 1;

/// The files for every host of the plan: `NAME.cputune.xml`, `apply.sh`, `hooks/qemu` and `README`. O(services²) a host.
pub fn libvirt(site: &Site, facts: &Facts, plan: &Plan) -> Vec<AloneFile> {
    (0..plan.hosts.len()).flat_map(|index| host(site, facts, plan, index)).collect()
}

fn host(site: &Site, facts: &Facts, plan: &Plan, index: usize) -> Vec<AloneFile> {
    let alone = Alone::of(site, facts, plan, index);
    let host = alone.host.name.as_str();
    let (mut files, mut told, mut domains, mut commands) = (Vec::new(), Vec::new(), Vec::new(), String::new());
    let mut services: Vec<&str> = alone.entries.iter().map(|entry| entry.planned.name.as_str()).collect();
    services.dedup();
    for service in services {
        let entries: Vec<&Entry> = alone.entries.iter().filter(|entry| entry.planned.name == service).collect();
        let Origin::Adopt(Adopt::Libvirt(domain)) = &entries[0].planned.origin else {
            told.push(format!("{service}: NOT HERE: it is no virtual machine of libvirt (adopt: {{libvirt: NAME}})."));
            continue;
        };
        let tune = Tune::of(&alone, &entries, plan, facts);
        told.extend(tune.said.clone());
        let mut lines =
            vec![format!("Domain {domain}, by 'giusto export libvirt': 'virsh edit', in place of its <cputune>.")];
        lines.extend(tune.said.clone());
        files.push(AloneFile::new(host, format!("{service}.cputune.xml"), tune.xml(&lines)));
        commands += &tune.commands(domain);
        domains.push(domain.as_str());
    }
    for rest in &alone.rest {
        told.push(format!(
            "{}: NOT HERE: what gets leftovers keeps the <cputune> that it has; its floor is not held.",
            rest.planned.name
        ));
    }
    let why = [
        format!(
            "Sets what libvirt can change in domains of {host} that run, and in their configuration, by 'giusto export \
             libvirt'."
        ),
        "The scheduler of virtual CPUs is set at their start only: it is in NAME.cputune.xml.".into(),
    ];
    let script = format!("#!/bin/sh\n{}set -e\n{commands}", comment("# ", &why));
    files.push(AloneFile { executable: true, ..AloneFile::new(host, "apply.sh", script) });
    files.push(AloneFile { executable: true, ..AloneFile::new(host, "hooks/qemu", hook(host, &domains)) });
    let readme = format!(
        "{host} without Giusto, by 'giusto export libvirt'.\n\n\
         Of each domain: 'virsh edit DOMAIN', NAME.cputune.xml in place of its <cputune>; start it again. Without that: \
         ./apply.sh\n\
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

/// The settings of a domain.
struct Tune {
    said: Vec<String>,
    /// Virtual CPU, core, and whether it has that to itself.
    vcpus: Vec<(u32, u32, bool)>,
    quota: Option<Quota>,
    emulator: Vec<u32>,
}

impl Tune {
    fn of(alone: &Alone, entries: &[&Entry], plan: &Plan, facts: &Facts) -> Tune {
        let mut said = Vec::new();
        let mut shares: Vec<Server> = Vec::new();
        for entry in entries {
            let is_share = matches!(entry.way, Way::Share(_));
            let words = match is_share {
                false => String::new(),
                true => format!(
                    "all else that runs on core {} has quotas, too (libvirt weighs whole domains, no virtual CPUs, and keeps \
                     nothing off a core)",
                    entry.core
                ),
            };
            let means = Means { fifo: !is_share, quotas: true, provided: words, others: false };
            said.push(said::head(entry.planned));
            said.extend(said::of(alone, entry, plan, &means).lines());
            if is_share && entry.planned.cap == Cap::Hard {
                shares.push(entry.planned.server);
            }
        }
        // One for all virtual CPUs: the largest share of them.
        let largest = shares.iter().copied().max_by_key(|server| server.bandwidth());
        let differs =
            shares.iter().any(|server| Some(server.bandwidth()) != largest.map(|largest| largest.bandwidth()));
        if let (Some(largest), true) = (largest, differs) {
            said.push(format!(
                "LOST: caps of its own for each virtual CPU: <period> and <quota> are one for all of a domain, here those of the \
                 largest share, {}",
                crate::words::share(largest.bandwidth())
            ));
        }
        let vcpus: Vec<(u32, u32, bool)> = entries
            .iter()
            .map(|entry| (entry.planned.vcpu.unwrap_or(0), entry.core, matches!(entry.way, Way::Whole)))
            .collect();
        let here = alone.host.assumed.is_none();
        let mut known: Vec<u32> = alone.host.cores.iter().chain(facts.cores.iter().filter(|_| here)).copied().collect();
        known.push(0);
        known.sort_unstable();
        known.dedup();
        let reserved = |core: &u32| alone.whole.contains(core) || alone.shared.contains(core);
        let mut emulator: Vec<u32> = known.iter().copied().filter(|core| !reserved(core)).collect();
        if emulator.is_empty() {
            said.push(
                "NOTE: no core is without a reservation, so the threads of the emulator run beside virtual CPUs: where these are \
                 real-time threads and always busy, the emulator stands still."
                    .into(),
            );
            emulator = known;
        }
        Tune { said, vcpus, quota: largest.map(Quota::of), emulator }
    }

    fn emulator(&self) -> String {
        self.emulator.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }

    fn xml(&self, lines: &[String]) -> String {
        let mut out = format!("<cputune>\n{}", xml_comment("  ", lines));
        if let Some(Quota { quota, period }) = self.quota {
            let _ = write!(out, "  <period>{period}</period>\n  <quota>{quota}</quota>\n");
        }
        for (vcpu, core, _) in &self.vcpus {
            let _ = writeln!(out, "  <vcpupin vcpu='{vcpu}' cpuset='{core}'/>");
        }
        let emulator = self.emulator();
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

    fn commands(&self, domain: &str) -> String {
        let (domain, emulator) = (shell(domain), self.emulator());
        let mut out = comment("# ", &self.said);
        if self.vcpus.iter().any(|(_, _, whole)| *whole) {
            let late =
                "NOTE: virsh sets no scheduler. What is KEPT by real-time threads is kept from the next start with \
                        <cputune> on; until then provided that nothing else is busy on these cores.";
            out += &comment("# ", &[late.to_string()]);
        }
        for (vcpu, core, _) in &self.vcpus {
            let _ = writeln!(out, "virsh vcpupin --domain {domain} --vcpu {vcpu} --cpulist {core} --live --config");
        }
        let _ = writeln!(out, "virsh emulatorpin --domain {domain} --cpulist {emulator} --live --config");
        if let Some(Quota { quota, period }) = self.quota {
            let _ = writeln!(
                out,
                "virsh schedinfo --domain {domain} --live --config --set vcpu_period={period} --set vcpu_quota={quota} >/dev/null"
            );
        }
        out
    }
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
