//! `giusto plan`.

use crate::args::PlanArgs;
use crate::failure::{apart, create, Failure};
use crate::table;
pub(crate) use giusto_answers::plan::{based, this_machine, Asked, Planned, Read};
use giusto_model::{
    Backend, Bandwidth, Certificate, CoordinationPlan, Criticality, EtcdPlan, HostPlan, LeftoverPlan, ManagerLatency,
    NetworkPlan, Observation, PacketBucket, Plan, ServicePlan, Site, SiteBasis, TopicPlan, UplinkPlan, VifPlan, Within,
    ZooKeeperPlan,
};
use giusto_planner::{share, Facts, BUSY_PROCESSES};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the planner has to know of this machine; which host of `site` it is, unless it is none of several.
pub(crate) fn facts(site: &Site, asked: &Asked) -> Result<Facts, Failure> {
    Ok(giusto_answers::plan::facts(site, asked, giusto_daemon::facts(), &hostname())?)
}

/// A note on standard error.
fn note(text: &str) {
    crate::tell::tell(format_args!("note: {text}"));
}

/// Writes a profile into a folder, under the service's name; returns the file.
pub(crate) fn save_profile(folder: &Path, observation: &Observation) -> Result<PathBuf, Failure> {
    let file = folder.join(format!("{}.json", observation.service));
    let cannot = |error: &dyn std::fmt::Display| Failure::running(format!("cannot write {}: {error}", file.display()));
    let text = serde_json::to_string_pretty(observation).map_err(|error| cannot(&error))?;
    // Whole or not at all: a giusto that runs may read it now.
    let new = file.with_extension("new");
    let mut to = create(&new)?;
    writeln!(to, "{text}").and_then(|()| to.flush()).map_err(|error| cannot(&error))?;
    std::fs::rename(&new, &file).map_err(|error| cannot(&error))?;
    Ok(file)
}

/// The site with numbers in the place of what is to be measured, from the profiles in a folder. What is doubtful of
/// them is said.
pub(crate) fn measured(site: &Site, folder: &Path, facts: &Facts) -> Result<Site, Failure> {
    Ok(giusto_answers::plan::measured(site, folder, facts, &mut note)?)
}

/// As [`measured`], for this machine.
pub(crate) fn measured_here(site: &Site, folder: &Path, asked: &Asked) -> Result<Site, Failure> {
    measured(site, folder, &facts(site, asked)?)
}

pub(crate) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Reads a site file.
pub(crate) fn read(path: &Path) -> Result<Read, Failure> {
    let text = giusto_site::text(path)?;
    let site = giusto_site::parse(&path.display().to_string(), &text)?;
    let file = std::path::absolute(path).map_err(Failure::input)?;
    Ok(Read { site, from: giusto_planner::site_basis(&file, text.as_bytes()) })
}

/// Plans for exactly this machine what it has to do: its part of a site that was read from a file.
pub(crate) fn here(site: &Site, from: &SiteBasis, asked: &Asked) -> Result<Plan, Failure> {
    let facts = facts(site, asked)?;
    let names = || site.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(", ");
    let Some(host) = facts.host.clone() else {
        return Err(Failure::input(format!(
            "this machine's hostname is '{}', and the site's hosts are {}: say with --host NAME which of them it is",
            hostname(),
            names()
        )));
    };
    let planned = giusto_planner::plan_on(site, &facts, &host);
    let plan = planned.map_err(|refusal| Failure::of_site(refusal, Path::new(&from.file)))?;
    if plan.services.is_empty() && plan.leftovers.is_empty() && plan.network.is_empty() {
        return Err(Failure::input(format!(
            "host {host} has no services: the plan puts all of them on the others of {}; 'giusto plan' says why",
            names()
        )));
    }
    Ok(based(plan, from, &facts))
}

/// Plans the site in `path` for this machine, or for the site's own cores where they are not this machine's: planning looks
/// ahead, `run` is what refuses those. Says so.
pub(crate) fn of(path: &Path, asked: &Asked) -> Result<Plan, Failure> {
    of_read(&read(path)?, path, asked)
}

/// The same of a site that was read from `path`.
pub(crate) fn of_read(read: &Read, path: &Path, asked: &Asked) -> Result<Plan, Failure> {
    Ok(whole(read, path, asked)?.plan)
}

/// The same with what it follows from.
pub(crate) fn whole(read: &Read, path: &Path, asked: &Asked) -> Result<Planned, Failure> {
    let facts = facts(&read.site, asked)?;
    giusto_answers::plan::whole(read, asked, facts, &mut note).map_err(|error| match error {
        giusto_answers::Error::Refused(refusal) => Failure::of_site(*refusal, path),
        other => other.into(),
    })
}

/// Says which cores this machine lacks of those that the site says it has.
pub(crate) fn note_missing_cores(site: &Site, facts: &Facts) {
    if let Some(missing) = giusto_answers::plan::missing_cores(site, facts) {
        note(&missing);
    }
}

/// Fills in what every service's tasks will see if they keep to their worst case. Without tasks there is nothing to predict.
pub(crate) fn predict_all(plan: &mut Plan, seed: u64) -> Result<(), Failure> {
    Ok(giusto_answers::plan::predict_all(plan, seed)?)
}

/// `giusto plan`
pub(crate) fn plan(args: &PlanArgs) -> Result<ExitCode, Failure> {
    let (backend, host, latency) = (args.insist.backend, args.this.host.as_deref(), args.latency.file.as_deref());
    let read: Vec<&Path> = std::iter::once(args.site.site.as_path()).chain(latency).collect();
    apart(&[("--out", args.out.as_deref()), ("--html", args.html.as_deref())], &read)?;
    let profiles = Some(args.profiles.folder.as_path());
    let current = args.current.as_deref();
    let mut plan = of(&args.site.site, &Asked { backend, host, latency, profiles, current }).map_err(|failure| {
        let refused = failure.refused_plan().filter(|_| args.site.json);
        match refused.map(table::json).transpose() {
            Ok(_) => failure,
            Err(why) => why,
        }
    })?;
    if let Some(out) = &args.out {
        predict_all(&mut plan, 1)?;
        create(out)?;
        giusto_planner::write(&plan, out)?;
    }
    if let Some(html) = &args.html {
        let text = giusto_planner::text(&plan).map_err(Failure::running)?;
        crate::report::write(html, &giusto_daemon::plan_page(&text))?;
    }
    if args.site.json {
        table::print(&(giusto_planner::text(&plan).map_err(Failure::running)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    table::print(&describe(&plan))?;
    Ok(ExitCode::SUCCESS)
}

/// A line a service; with several hosts under the host's own.
pub(crate) fn describe(plan: &Plan) -> String {
    let lines = |plan: &Plan, indent: &str| -> String {
        let lines = plan
            .services
            .iter()
            .map(service)
            .chain(plan.leftovers.iter().map(leftover))
            .chain(idle(plan))
            .chain(parked(plan))
            .chain(plan.hosts.iter().filter_map(late));
        lines.map(|line| format!("{indent}{line}\n")).collect()
    };
    let topics: String = plan.topics.iter().map(topic).collect();
    let ensemble = topics
        + &plan.paths.iter().map(crate::paths::planned).collect::<String>()
        + &plan.coordination.iter().map(ensemble).collect::<String>()
        + &plan.network.iter().map(network).collect::<String>()
        + &plan.modes.iter().map(crate::modes::describe).collect::<String>();
    if plan.only_host().is_some() {
        return lines(plan, "") + &ensemble;
    }
    let part = |host: &HostPlan| {
        let part = plan.on(&host.name).map_or(String::new(), |part| lines(&part, "  "));
        format!("{}{}", heading(host), if part.is_empty() { "  no services\n".into() } else { part })
    };
    plan.hosts.iter().map(part).collect::<String>() + &assumed(plan) + &ensemble
}

/// `idle: cores 2, 3`: where services have criticality, which are on as few cores as possible, and nothing runs on the others.
fn idle(plan: &Plan) -> Option<String> {
    let host = plan.only_host().filter(|_| plan.services.iter().any(|one| one.criticality.is_some()))?;
    let used = |core: &&u32| {
        plan.services.iter().any(|one| one.core == **core) || plan.leftovers.iter().any(|one| one.cores.contains(core))
    };
    let idle: Vec<u32> = host.cores.iter().filter(|core| !used(core) && !host.parked.contains(core)).copied().collect();
    let s = if idle.len() == 1 { "" } else { "s" };
    (!idle.is_empty()).then(|| format!("idle: core{s} {}", giusto_planner::cores(&idle)))
}

/// `latency: 180 us of the host are allowed for, on top of 500 us`
fn late(host: &HostPlan) -> Option<String> {
    let late = host.latency.as_ref()?;
    let own = late.manager.map_or(String::new(), |manager| {
        let ManagerLatency { loss, periods, .. } = manager;
        format!(", which the manager was late in {periods} periods; it lost {loss:.3} of a budget")
    });
    Some(format!("latency: {:.3} of the host are allowed for, on top of {:.3}{own}", late.latency, late.allowance))
}

/// `core 3: parked, nothing runs there`
fn parked(plan: &Plan) -> Vec<String> {
    let parked = plan.hosts.iter().flat_map(|host| &host.parked);
    parked.map(|core| format!("core {core}: parked, nothing runs there")).collect()
}

/// `topic alarms: on edge-1, bucket {rate: 11000/s, depth: 27}, at delivery; p99 ≤ 800 us predicted (p99 ≤ 1 ms promised)`
fn topic(plan: &TopicPlan) -> String {
    let points = |points: &[Within]| {
        points.iter().map(|point| format!("{} ≤ {:.3}", point.percentile, point.within)).collect::<Vec<_>>().join(", ")
    };
    let share = if plan.brokers.len() > 1 { format!(", {} at each", plan.share) } else { String::new() };
    format!(
        "topic {}: on {}, bucket {}{share}, at {}; {} predicted ({} promised); 'giusto export nsq' writes their brokers' files\n",
        plan.name,
        plan.brokers.join(", "),
        plan.bucket,
        plan.limit,
        points(&plan.predicted),
        points(&plan.promise)
    )
}

/// `packets on edge-1: core 0, 65000 skbs/s each`, and a line an interface.
fn network(plan: &NetworkPlan) -> String {
    let uplink = |one: &UplinkPlan| {
        let UplinkPlan { uplink, core, priority } = one;
        format!(
            "  uplink {} on core {core}: priority {priority} for each queue, up to {}\n",
            uplink.name, uplink.bucket
        )
    };
    let lines: String = plan.uplinks.iter().map(uplink).chain(plan.vifs.iter().map(vif)).collect();
    let (cores, s) = (giusto_planner::cores(&plan.cores), if plan.cores.len() > 1 { "s" } else { "" });
    format!("packets on {}: core{s} {cores}, {} {}s each\n{lines}", plan.on, plan.capacity, plan.count)
}

/// `vnet3 of flight on core 0: high, priority 49, up to {rate: 5000/s, depth: 16} each way; waits 2.327 ms at most (p99 ≤ 3 ms
/// promised)`
fn vif(plan: &VifPlan) -> String {
    let bucket = PacketBucket::both_ways(plan.bucket, plan.received);
    let promised = match &plan.promise[..] {
        [] => String::new(),
        points => format!(" ({} promised)", points.iter().map(Within::to_string).collect::<Vec<_>>().join(", ")),
    };
    let class = match (plan.priority, plan.bound) {
        (Some(priority), Some(bound)) => format!("priority {priority}{bucket}; waits {bound:.3} at most{promised}"),
        _ => format!("what the others leave{bucket}"),
    };
    format!("  {} of {} on core {}: {}, {class}\n", plan.name, plan.service, plan.core, plan.class)
}

/// `coordination: 3 servers, another leader within 200 ms at most (200 ms promised), epochs: overlap, a wait of 20 ms`
fn ensemble(plan: &CoordinationPlan) -> String {
    let how = match plan {
        CoordinationPlan::ZooKeeper(ZooKeeperPlan { epochs, wait, silence, tick, sync_limit, machine_loss, .. }) => {
            let lost = |_| format!(", {machine_loss:.3} where its machine is lost ({sync_limit} ticks of {tick:.3})");
            let lost = silence.map(lost).unwrap_or_default();
            format!("epochs: {epochs}, a wait of {wait:.3}{lost}; 'giusto export zookeeper' writes their files")
        }
        CoordinationPlan::Etcd(EtcdPlan { heartbeat, election, .. }) => format!(
            "a heartbeat of {heartbeat:.3}, an election timeout of {election:.3}; 'giusto export etcd' writes their environments"
        ),
    };
    let (servers, bound, recovery) = (plan.servers().len(), plan.bound(), plan.recovery());
    format!(
        "coordination: {servers} servers, another leader within {bound:.3} at most ({recovery:.3} promised), {how}\n"
    )
}

/// `edge-2 (not this machine):`
pub(crate) fn heading(host: &HostPlan) -> String {
    format!("{}{}:\n", host.name, if host.assumed.is_some() { " (not this machine)" } else { "" })
}

/// What was assumed of hosts that are not this machine, a line each.
pub(crate) fn assumed(plan: &Plan) -> String {
    let mut all: Vec<&String> = plan.hosts.iter().filter_map(|host| host.assumed.as_ref()).collect();
    all.dedup();
    all.iter().map(|assumed| format!("not this machine: assumed {assumed}\n")).collect()
}

/// `cache on core 1: 14 ms every 40 ms (30 % + 5 points of margin)`, and by whom if not by the kernel's deadline scheduler.
pub(crate) fn service(plan: &ServicePlan) -> String {
    let server = plan.server;
    let vcpu = plan.part().map_or(String::new(), |part| format!(", {part},"));
    let share = giusto_planner::asked(plan);
    let by = if plan.backend == Backend::Deadline { String::new() } else { format!(", backend {}", plan.backend) };
    let predicted = match &plan.certificate {
        Certificate::Percentiles { predicted, .. } => {
            let each = predicted.iter().map(|one| format!("{} {:.3}", one.percentile, one.at));
            format!(", predicted {}", each.collect::<Vec<_>>().join(", "))
        }
        _ => String::new(),
    };
    let critical = match plan.criticality {
        None => String::new(),
        Some(Criticality::Low) => ", low criticality".into(),
        Some(Criticality::High { worst, virtual_deadline }) => {
            format!(", high criticality: at its worst {worst:.3}, virtual deadline {virtual_deadline:.3}")
        }
    };
    let (name, core, budget, period) = (&plan.name, plan.core, server.budget, server.period);
    format!("{name}{vcpu} on core {core}: {budget:.3} every {period:.3} ({share}){critical}{by}{predicted}")
}

fn leftover(plan: &LeftoverPlan) -> String {
    let cores: Vec<String> = plan.cores.iter().map(u32::to_string).collect();
    let busy = plan.reasons.iter().find(|reason| reason.what == BUSY_PROCESSES);
    let busy = busy.map_or(String::new(), |busy| format!(" with at least {} busy processes", busy.value));
    let floor = if plan.at_least == Bandwidth::ZERO {
        String::new()
    } else {
        format!(", at least {} promised{busy}", share(plan.at_least))
    };
    let cap = plan.at_most.map_or(String::new(), |most| format!(", at most {}", share(most)));
    format!("{} on core {}: what is left, {} of a core{floor}{cap}", plan.name, cores.join(", "), share(plan.available))
}
