//! systemd: a unit for what the site starts, a drop-in for each unit, and slices that keep all else off shared cores.

use super::again::{weight, Alone, Entry, Quota, Rest, Share, Way};
use super::escape::{command, comment, unit};
use super::said::{self, Means, Said};
use super::AloneFile;
use crate::facts::Facts;
use crate::words::share;
use giusto_model::{Adopt, Bandwidth, Cap, Limit, Origin, Plan, Process, Restart, Server, Site};
use std::fmt::Write;

/// Where all services with a part of a core are, so that their weights are compared.
const SLICE: &str = "giusto.slice";
/// What else there is at the top of systemd's tree.
const OTHERS: [&str; 4] = ["init.scope", "system.slice", "user.slice", "machine.slice"];
/// Above all programs of the fair class; below the threads of interrupts where those are threads (50), and below Giusto's
/// manager.
const PRIORITY: u8 = 1;
/// The weight of what has no floor, beside floors that make up to 10,000; and that of a unit which says nothing.
const LITTLE: u64 = 10;
const ORDINARY: u64 = 100;

/// The unit of a service: the one that it has, or the one that the export makes of what the site starts. `None`: it has none.
pub fn unit_of(name: &str, origin: &Origin) -> Option<String> {
    match origin {
        Origin::Start(_) => Some(format!("giusto-{name}.service")),
        Origin::Adopt(Adopt::Systemd(unit)) => Some(unit.clone()),
        Origin::Adopt(Adopt::Cgroup(path)) => {
            let last = path.rsplit('/').next()?;
            let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
            let (stem, kind) = last.rsplit_once('.')?;
            let is_unit = !stem.is_empty() && last.chars().all(allowed) && section(kind).is_some();
            is_unit.then(|| last.to_string())
        }
        Origin::Adopt(Adopt::Pid(_) | Adopt::Container(_) | Adopt::Qmp(_) | Adopt::Libvirt(_) | Adopt::Xen(_)) => None,
    }
}

/// The section of a unit's file that has its settings.
fn section(kind: &str) -> Option<&'static str> {
    match kind {
        "service" => Some("Service"),
        "slice" => Some("Slice"),
        "scope" => Some("Scope"),
        "socket" => Some("Socket"),
        "mount" => Some("Mount"),
        "swap" => Some("Swap"),
        _ => None,
    }
}

/// The files for every host of the plan: `units/` and `drop-ins/` go to /etc/systemd/system, `README` says how. O(services²) a
/// host.
pub fn systemd(site: &Site, facts: &Facts, plan: &Plan) -> Vec<AloneFile> {
    (0..plan.hosts.len()).flat_map(|index| host(site, facts, plan, index)).collect()
}

fn host(site: &Site, facts: &Facts, plan: &Plan, index: usize) -> Vec<AloneFile> {
    let alone = Alone::of(site, facts, plan, index);
    let name = alone.host.name.as_str();
    let file = |path: String, text: String| AloneFile::new(name, path, text);
    let mut files = Vec::new();
    let mut told = Vec::new();
    let mut units: Vec<String> = Vec::new();
    let others = others(&alone, facts, plan);
    let mut of_service: Vec<&str> = alone.entries.iter().map(|entry| entry.planned.name.as_str()).collect();
    of_service.dedup();
    for service in of_service {
        let entries: Vec<&Entry> = alone.entries.iter().filter(|entry| entry.planned.name == service).collect();
        let planned = entries[0].planned;
        let Some(unit) = unit_of(service, &planned.origin) else {
            told.push(format!(
                "{service}: NOT HERE: {} is no unit of systemd; {}",
                origin(&planned.origin),
                instead(&planned.origin)
            ));
            continue;
        };
        let setting = Setting::of(&alone, &entries, &unit, &others);
        let means = setting.means();
        let said: Vec<Said> = entries.iter().map(|entry| said::of(&alone, entry, plan, &means)).collect();
        let mut lines = vec![format!("{unit}, by 'giusto export systemd'.")];
        for (entry, said) in entries.iter().zip(&said) {
            lines.push(said::head(entry.planned));
            lines.extend(said.lines());
        }
        lines.extend(setting.notes.iter().cloned());
        told.extend(lines.iter().skip(1).map(|line| line.to_string()));
        if let Origin::Start(words) = &planned.origin {
            files.push(file(format!("units/{unit}"), started(service, words, &planned.process)));
        }
        files.push(file(drop_in(&unit), format!("{}{}", comment("# ", &lines), setting.text())));
        units.push(unit);
    }
    for rest in &alone.rest {
        let planned = rest.planned;
        let Some(unit) = unit_of(&planned.name, &planned.origin) else {
            told.push(format!(
                "{}: NOT HERE: {} is no unit of systemd; {}",
                planned.name,
                origin(&planned.origin),
                instead(&planned.origin)
            ));
            continue;
        };
        let setting = Setting::of_rest(rest, &unit);
        let mut lines = vec![format!("{unit}, by 'giusto export systemd'."), said::rest_head(rest)];
        lines.extend(said::rest(rest, &setting.means()).lines());
        lines.extend(setting.notes.iter().cloned());
        told.extend(lines.iter().skip(1).cloned());
        if let Origin::Start(words) = &planned.origin {
            files.push(file(format!("units/{unit}"), started(&planned.name, words, &planned.process)));
        }
        files.push(file(drop_in(&unit), format!("{}{}", comment("# ", &lines), setting.text())));
        units.push(unit);
    }
    if !alone.shared.is_empty() {
        let why = format!(
            "Keeps all else off core {}, which services share, by 'giusto export systemd'.",
            crate::words::cores(&alone.shared)
        );
        let away = others.as_ref().map_or(String::new(), |others| format!("AllowedCPUs={}\n", list(others)));
        if !away.is_empty() {
            for unit in OTHERS {
                let kind = if unit.ends_with("scope") { "Scope" } else { "Slice" };
                files.push(file(
                    drop_in(unit),
                    format!("{}[{kind}]\n{away}", comment("# ", std::slice::from_ref(&why))),
                ));
            }
        }
        let why = ["Services that share cores: their weights are compared with each other.".to_string()];
        let text = format!(
            "{}[Unit]\nDescription=Services that share cores (giusto export systemd)\n[Slice]\nCPUWeight=10000\n",
            comment("# ", &why)
        );
        files.push(file(format!("units/{SLICE}"), text));
    }
    files.push(file("README".into(), readme(&alone, plan, &told, &units)));
    files
}

fn drop_in(unit: &str) -> String {
    format!("drop-ins/{unit}.d/50-giusto.conf")
}

fn list(cores: &[u32]) -> String {
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// The cores of the machine that nothing shares, as far as they are known; `None`: there is none.
fn others(alone: &Alone, facts: &Facts, plan: &Plan) -> Option<Vec<u32>> {
    let here = alone.host.assumed.is_none();
    let packets = plan.network.iter().filter(|one| one.on == alone.host.name).flat_map(|one| &one.cores);
    let known: Vec<u32> =
        alone.host.cores.iter().chain(packets).chain(facts.cores.iter().filter(|_| here)).copied().collect();
    let last = known.iter().max().copied().unwrap_or(0);
    let others: Vec<u32> = (0..=last).filter(|core| !alone.shared.contains(core)).collect();
    (!others.is_empty()).then_some(others)
}

/// The settings of a unit.
struct Setting {
    section: &'static str,
    lines: Vec<String>,
    fifo: bool,
    provided: String,
    notes: Vec<String>,
}

impl Setting {
    fn begin(unit: &str, cores: &[u32]) -> Setting {
        let kind = unit.rsplit('.').next().unwrap_or_default();
        let section = section(kind).unwrap_or("Service");
        let runs = !matches!(section, "Slice" | "Scope");
        let mut lines = Vec::new();
        if runs {
            lines.push(format!("CPUAffinity={}", list(cores)));
        }
        lines.push(format!("AllowedCPUs={}", list(cores)));
        Setting { section, lines, fifo: false, provided: String::new(), notes: Vec::new() }
    }

    fn of(alone: &Alone, entries: &[&Entry], unit: &str, others: &Option<Vec<u32>>) -> Setting {
        let cores: Vec<u32> = entries.iter().map(|entry| entry.core).collect();
        let mut setting = Setting::begin(unit, &cores);
        let runs = !matches!(setting.section, "Slice" | "Scope");
        let shares: Vec<(&Share, Server, Cap)> = entries
            .iter()
            .filter_map(|entry| match &entry.way {
                Way::Share(share) => Some((share, entry.planned.server, entry.planned.cap)),
                Way::Whole => None,
            })
            .collect();
        match shares.first() {
            None if runs => {
                setting.fifo = true;
                setting.lines.push("CPUSchedulingPolicy=fifo".into());
                setting.lines.push(format!("CPUSchedulingPriority={PRIORITY}"));
                // A quota does not hold real-time threads.
                setting.lines.push("CPUSchedulingResetOnFork=no".into());
            }
            None => {
                setting.provided =
                    format!("nothing else runs on core {} ({unit} has no scheduling policy of its own)", list(&cores));
            }
            Some((part, server, cap)) => {
                let own = unit.ends_with(".service");
                if own {
                    setting.lines.push(format!("Slice={SLICE}"));
                } else {
                    setting.notes.push(format!(
                        "NOTE: {unit} cannot be put into {SLICE}: its weight is compared with those beside it."
                    ));
                }
                if *cap == Cap::Hard {
                    setting.lines.extend(quota(Quota::of(*server)));
                }
                setting.lines.push(format!("CPUWeight={}", part.weight));
                if others.is_none() {
                    let shared = crate::words::cores(&alone.shared);
                    setting.provided = format!(
                        "the rest of the machine, which has no core but {shared}, stays idle (its slices weigh 100 each)"
                    );
                }
            }
        }
        if entries.len() > 1 {
            setting.notes.push(format!(
                "NOTE: {} threads have {} cores together; systemd binds no thread by itself. They keep what was promised as long \
                 as no more of its threads are busy at once.",
                entries.len(),
                entries.len()
            ));
        }
        setting
    }

    fn of_rest(rest: &Rest, unit: &str) -> Setting {
        let mut setting = Setting::begin(unit, &rest.cores);
        if let Some(most) = rest.planned.at_most {
            setting.lines.extend(quota(Quota::share(most)));
        }
        if rest.shares && unit.ends_with(".service") {
            setting.lines.push(format!("Slice={SLICE}"));
        }
        if rest.planned.at_least > Bandwidth::ZERO || rest.shares {
            let least = if rest.shares { LITTLE } else { ORDINARY };
            setting.lines.push(format!("CPUWeight={}", weight(rest.planned.at_least).max(least)));
        }
        setting
    }

    fn means(&self) -> Means {
        Means { fifo: self.fifo, quotas: true, provided: self.provided.clone(), others: false }
    }

    fn text(&self) -> String {
        format!("[{}]\n{}\n", self.section, self.lines.join("\n"))
    }
}

/// systemd takes percents with two digits, and makes us of them.
fn quota(Quota { quota, period }: Quota) -> [String; 2] {
    let hundredths = (u128::from(quota) * 10_000).div_ceil(u128::from(period));
    [format!("CPUQuota={}.{:02}%", hundredths / 100, hundredths % 100), format!("CPUQuotaPeriodSec={period}us")]
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Start(words) => format!("'{}'", words.join(" ")),
        Origin::Adopt(adopt) => adopt.to_string(),
    }
}

fn instead(origin: &Origin) -> &'static str {
    match origin {
        Origin::Adopt(Adopt::Libvirt(_) | Adopt::Qmp(_)) => "'giusto export libvirt' is for it",
        Origin::Adopt(Adopt::Container(_)) => "'giusto export docker' or 'podman' is for it",
        _ => "adopt it by a unit: adopt: {systemd: NAME.service}",
    }
}

/// The unit of what the site starts.
fn started(name: &str, words: &[String], process: &Process) -> String {
    let why =
        [format!("Service '{name}' of a site, by 'giusto export systemd': what starts it, its limits and its end.")];
    let mut out = comment("# ", &why);
    let _ = write!(
        out,
        "[Unit]\nDescription=Service {name} of a site of Giusto\n\n[Service]\nExecStart={}\n",
        command(words)
    );
    let restart = match process.restart {
        Restart::Always => "always",
        Restart::OnFailure => "on-failure",
        Restart::Never => "no",
    };
    let _ = writeln!(out, "Restart={restart}");
    if let Some(user) = &process.user {
        let _ = writeln!(out, "User={}", user.replace('%', "%%"));
    }
    if let Some(group) = &process.group {
        let _ = writeln!(out, "Group={}", group.replace('%', "%%"));
    }
    match process.directory.as_deref().and_then(|path| path.to_str()) {
        Some(path) if path.starts_with('/') && !path.ends_with(['\\', ' ']) && !path.contains(char::is_control) => {
            let _ = writeln!(out, "WorkingDirectory={}", path.replace('%', "%%"));
        }
        Some(path) => {
            let why = format!(
                "NOT HERE: its directory {path:?}: systemd takes a full path without signs at its end; WorkingDirectory= is to be \
                 set."
            );
            out += &comment("# ", &[why]);
        }
        None => {}
    }
    for (key, value) in &process.environment {
        let _ = writeln!(out, "Environment={}", unit(&format!("{key}={value}")));
    }
    for (limit, value) in &process.limits {
        let _ = writeln!(out, "{}", limited(*limit, *value));
    }
    if !process.limits.contains_key(&Limit::Tasks) {
        let _ = writeln!(out, "TasksMax={}", Limit::TASKS);
    }
    if !process.after_end.is_empty() {
        let _ = writeln!(out, "ExecStopPost={}", command(&process.after_end));
    }
    let _ = writeln!(out, "TimeoutStopSec={}us", process.end_within().ns() / 1000);
    if process.essential {
        out += &comment(
            "# ",
            &["NOT HERE: 'essential: yes', its end ends nothing else; FailureAction= or PartOf= can.".to_string()],
        );
    }
    out + "\n[Install]\nWantedBy=multi-user.target\n"
}

fn limited(limit: Limit, value: u64) -> String {
    let name = match limit {
        Limit::Memory => "MemoryMax",
        Limit::Tasks => "TasksMax",
        Limit::Nofile => "LimitNOFILE",
        Limit::Nproc => "LimitNPROC",
        Limit::Memlock => "LimitMEMLOCK",
        Limit::As => "LimitAS",
        Limit::Core => "LimitCORE",
        Limit::Fsize => "LimitFSIZE",
        Limit::Stack => "LimitSTACK",
        Limit::Data => "LimitDATA",
    };
    match value {
        u64::MAX => format!("{name}=infinity"),
        value => format!("{name}={value}"),
    }
}

fn readme(alone: &Alone, plan: &Plan, told: &[String], units: &[String]) -> String {
    let host = alone.host;
    let mut lines = vec![
        format!("{} without Giusto, by 'giusto export systemd'.", host.name),
        String::new(),
        "Apply (systemd 250 or newer, cgroup v2):".into(),
        "  cp -r units/. drop-ins/. /etc/systemd/system/ && systemctl daemon-reload".into(),
    ];
    lines.push(format!(
        "  systemctl restart {}",
        units.iter().map(|unit| super::escape::shell(unit)).collect::<Vec<_>>().join(" ")
    ));
    lines.extend([
        "Undo: remove the same files, the same two commands.".into(),
        "Or with Giusto, which keeps all of it: giusto/README. Do not apply both.".into(),
        String::new(),
        "What holds:".into(),
    ]);
    let mut out = lines.join("\n") + "\n";
    out += &comment("  ", told);
    let mut lost =
        vec!["It is not measured whether any of this is kept: no status, metrics, alerts, records.".to_string()];
    let topics: Vec<&str> = plan.topics.iter().map(|topic| topic.name.as_str()).collect();
    if !topics.is_empty() {
        lost.push(format!("topics {}: 'giusto export nsq' writes their brokers' files.", topics.join(", ")));
    }
    if plan.coordination.is_some() {
        lost.push("coordination: 'giusto export zookeeper' or 'etcd' writes their files.".into());
    }
    let paths: Vec<&str> = plan.paths_here().map(|path| path.name.as_str()).collect();
    if !paths.is_empty() {
        lost.push(format!(
            "paths {}: they hold where the promises of all their stages do, and not where one is lost.",
            paths.join(", ")
        ));
    }
    if let Some(network) = plan.network.iter().find(|network| network.on == host.name) {
        lost.push(format!(
            "packets: priorities, buckets and core {} of interfaces are Giusto's.",
            crate::words::cores(&network.cores)
        ));
    }
    if !host.parked.is_empty() {
        lost.push(format!("parked cores {}: they stay online.", crate::words::cores(&host.parked)));
    }
    let kept_free = share(host.keep_free);
    lost.push(format!(
        "keep-free: nothing keeps {kept_free} of a core with one service for the kernel; the kernel itself keeps 5 % of each second."
    ));
    out += "\nNot in these files:\n";
    out + &comment("  ", &lost)
}
