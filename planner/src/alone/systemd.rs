//! systemd: a unit for what the site starts, a drop-in for each unit, and slices that keep all else off shared cores.

use super::again::Alone;
use super::escape::comment;
use super::program::{self, list, BEGIN};
use super::quota::Quota;
use super::said::{self, Means, Said};
use super::share::{Entry, Rest, Share, Way};
use super::unit::{section, started, unit_of};
use super::weigh::Keeper;
use super::AloneFile;
use crate::facts::Facts;
use crate::words::share;
use giusto_model::{Adopt, Cap, Origin, Plan, Site};

/// Where all services with a part of a core are, so that their weights are compared. What begins with `giusto.` is made, looked
/// for and restored by `giusto run`.
const SLICE: &str = "promises.slice";
const APPLY: &str = include_str!("scripts/systemd-apply.sh");
const UNDO: &str = include_str!("scripts/systemd-undo.sh");
/// What else there is at the top of systemd's tree.
const OTHERS: [&str; 4] = ["init.scope", "system.slice", "user.slice", "machine.slice"];
/// Above all programs of the fair class; below the threads of interrupts where those are threads (50), and below Giusto's
/// manager.
const PRIORITY: u8 = 1;

/// The files for every host of the plan: `units/` and `drop-ins/` go to /etc/systemd/system, `README` says how. O(services²) a
/// host.
pub fn systemd(site: &Site, facts: &Facts, plan: &Plan) -> Vec<AloneFile> {
    (0..plan.hosts.len()).flat_map(|index| host(site, facts, plan, index)).collect()
}

fn host(site: &Site, facts: &Facts, plan: &Plan, index: usize) -> Vec<AloneFile> {
    let alone = Alone::of(site, facts, plan, index, Keeper::Units);
    let name = alone.host.name.as_str();
    let file = |path: String, text: String| AloneFile::new(name, path, text);
    let mut files = Vec::new();
    let mut told = Vec::new();
    let mut units: Vec<String> = Vec::new();
    let mut cores: Vec<u32> = Vec::new();
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
        let said: Vec<Said> =
            entries.iter().map(|entry| said::of(&alone, entry, plan, &setting.means(entry, &unit))).collect();
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
        cores.extend(entries.iter().map(|entry| entry.core));
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
        lines.extend(said::rest(rest, "").lines());
        lines.extend(setting.notes.iter().cloned());
        told.extend(lines.iter().skip(1).cloned());
        if let Origin::Start(words) = &planned.origin {
            files.push(file(format!("units/{unit}"), started(&planned.name, words, &planned.process)));
        }
        files.push(file(drop_in(&unit), format!("{}{}", comment("# ", &lines), setting.text())));
        units.push(unit);
        cores.extend(&rest.cores);
    }
    if !alone.shared.is_empty() {
        if let Some(others) = &others {
            files.extend(OTHERS.iter().map(|slice| kept_off(&alone, others, slice)));
        }
        let why = ["Services that share cores: their weights are compared with each other.".to_string()];
        let text = format!(
            "{}[Unit]\nDescription=Services that share cores (giusto export systemd)\n[Slice]\nCPUWeight=10000\n",
            comment("# ", &why)
        );
        files.push(file(format!("units/{SLICE}"), text));
    }
    let scripts = scripts(name, &files, &units, &cores);
    files.extend(scripts);
    files.push(file("README".into(), readme(&alone, plan, &told)));
    files
}

/// What puts the files in their places, and what takes them away.
fn scripts(host: &str, files: &[AloneFile], units: &[String], cores: &[u32]) -> [AloneFile; 2] {
    // No name of a unit has a space.
    let set = |name: &str, list: Vec<&str>| format!("{name}={}\n", super::escape::shell(&list.join(" ")));
    let placed = |file: &AloneFile, folder: &str| file.path.strip_prefix(folder).map(str::to_string);
    let own: Vec<String> = files.iter().filter_map(|file| placed(file, "units/")).collect();
    let places: Vec<String> =
        files.iter().filter_map(|file| placed(file, "units/").or(placed(file, "drop-ins/"))).collect();
    let adopted: Vec<&str> =
        units.iter().map(String::as_str).filter(|unit| !own.iter().any(|one| one == unit)).collect();
    // Slices and scopes take their drop-ins while they are there.
    let restart: Vec<&str> = units.iter().map(String::as_str).filter(|unit| unit.ends_with(".service")).collect();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let places: Vec<&str> = places.iter().map(String::as_str).collect();
    let names =
        format!("{}{}{}to=/etc/systemd/system\n", set("files", places), set("own", own), set("restart", restart));
    let why = [format!(
        "Puts the units and drop-ins of {host} in their places and starts what they are for again, by 'giusto export systemd'; \
         all or nothing. ./undo.sh takes it back."
    )];
    let apply = format!("{names}{}cores='{}'\n{BEGIN}{APPLY}", set("adopted", adopted), list(cores, " "));
    let back = [format!("Takes away what apply.sh has put in its place on {host}, by 'giusto export systemd'.")];
    let undo = program::undo(host, &back, &format!("{names}{UNDO}"));
    [program::apply(host, "apply.sh", &why, &apply), undo]
}

/// What a part of systemd's tree may use: no core that services share, but those of what is in there itself.
fn kept_off(alone: &Alone, others: &[u32], slice: &str) -> AloneFile {
    let has = |core: &&u32| {
        let is_in = |name: &str, origin: &Origin| top(name, origin).contains(&slice);
        let entries = alone.entries.iter().filter(|entry| entry.core == **core);
        let rest = alone.rest.iter().filter(|rest| rest.cores.contains(core));
        entries.map(|entry| (&entry.planned.name, &entry.planned.origin)).any(|(name, origin)| is_in(name, origin))
            || rest.map(|rest| (&rest.planned.name, &rest.planned.origin)).any(|(name, origin)| is_in(name, origin))
    };
    let own: Vec<u32> = alone.shared.iter().filter(has).copied().collect();
    let mut allowed = [others, &own].concat();
    allowed.sort_unstable();
    let off: Vec<u32> = alone.shared.iter().copied().filter(|core| !own.contains(core)).collect();
    let words = |cores: &[u32]| crate::words::cores(cores);
    let mut why = vec!["By 'giusto export systemd'.".to_string()];
    if !off.is_empty() {
        why.push(format!("Keeps all else off core {}, which services share.", words(&off)));
    }
    if !own.is_empty() {
        why.push(format!(
            "Core {} is shared by containers or virtual machines of the site, which are in here: nothing keeps others off.",
            words(&own)
        ));
    }
    let kind = if slice.ends_with("scope") { "Scope" } else { "Slice" };
    let text = format!("{}[{kind}]\nAllowedCPUs={}\n", comment("# ", &why), list(&allowed, ","));
    AloneFile::new(&alone.host.name, drop_in(slice), text)
}

/// The parts of systemd's tree in which a service may be that is not moved to [`SLICE`].
fn top(name: &str, origin: &Origin) -> Vec<&'static str> {
    let known = |top: &str| OTHERS.into_iter().filter(|one| *one == top).collect();
    match (Keeper::of(name, origin, Keeper::Units), origin) {
        (Keeper::Machines, _) => vec!["machine.slice"],
        // Podman's, and Docker's.
        (Keeper::Containers, _) => vec!["machine.slice", "system.slice"],
        (Keeper::Apart, Origin::Adopt(Adopt::Cgroup(path))) => known(path.split('/').next().unwrap_or_default()),
        (Keeper::Apart, Origin::Adopt(Adopt::Systemd(unit))) => match unit.strip_suffix(".slice") {
            Some(slice) => known(&format!("{}.slice", slice.split('-').next().unwrap_or_default())),
            None if unit.ends_with(".scope") => OTHERS.into(), // any of them
            None => vec!["system.slice"],
        },
        _ => Vec::new(),
    }
}

fn drop_in(unit: &str) -> String {
    format!("drop-ins/{unit}.d/50-giusto.conf")
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
    quota: Option<Quota>,
    quota_of: &'static str,
    /// What has to be so for shares.
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
            lines.push(format!("CPUAffinity={}", list(cores, ",")));
        }
        lines.push(format!("AllowedCPUs={}", list(cores, ",")));
        let (quota, quota_of) = (None, "");
        Setting { section, lines, fifo: false, quota, quota_of, provided: String::new(), notes: Vec::new() }
    }

    fn of(alone: &Alone, entries: &[&Entry], unit: &str, others: &Option<Vec<u32>>) -> Setting {
        let mut cores: Vec<u32> = entries.iter().map(|entry| entry.core).collect();
        cores.dedup();
        let mut setting = Setting::begin(unit, &cores);
        let runs = !matches!(setting.section, "Slice" | "Scope");
        let shares: Vec<(&Share, Cap)> = entries
            .iter()
            .filter_map(|entry| match &entry.way {
                Way::Share(share) => Some((share, entry.planned.cap)),
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
            None => {}
            Some((part, cap)) => {
                if *cap == Cap::Hard {
                    let servers = entries.iter().map(|entry| entry.planned.server);
                    // A quota is for all threads of a unit.
                    setting.quota = (shares.len() == entries.len()).then(|| Quota::together(servers));
                    setting.quota_of = match setting.quota {
                        Some(_) => "all its threads",
                        None => "a quota is one for all its threads, and some have a core to themselves",
                    };
                    setting.lines.extend(setting.quota.into_iter().flat_map(quota));
                }
                // What is elsewhere would be compared with others there.
                if unit.ends_with(".service") {
                    setting.lines.push(format!("Slice={SLICE}"));
                    setting.lines.push(format!("CPUWeight={}", part.weight));
                } else {
                    setting.notes.push(format!("NOTE: {unit} cannot be put into {SLICE}."));
                }
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
                cores.len()
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
        if !rest.shares || unit.ends_with(".service") {
            setting.lines.extend(rest.weight.map(|weight| format!("CPUWeight={weight}")));
        }
        setting
    }

    fn means(&self, entry: &Entry, unit: &str) -> Means {
        let provided = match entry.way {
            Way::Whole if !self.fifo => {
                format!("nothing else runs on core {} ({unit} has no scheduling policy of its own)", entry.core)
            }
            Way::Whole => String::new(),
            Way::Share(_) => self.provided.clone(),
        };
        Means { fifo: self.fifo, quota: self.quota, quota_of: self.quota_of.into(), provided, others: false }
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

fn readme(alone: &Alone, plan: &Plan, told: &[String]) -> String {
    let host = alone.host;
    let lines = [
        format!("{} without Giusto, by 'giusto export systemd'.", host.name),
        String::new(),
        "Apply (systemd 250 or newer, cgroup v2), on the host: sudo ./apply.sh".into(),
        "It looks first at what has to be there, and sets all or nothing. Undo: sudo ./undo.sh".into(),
        "Or with Giusto, which keeps all of it: giusto/README. Do not apply both.".into(),
        String::new(),
        "What holds:".into(),
    ];
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
