//! `giusto check`: a site; with `--certificate` a plan.

use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::table::{json, say, table};
use crate::tell::tell;
use giusto_model::{
    Bandwidth, Coordination, Engine, Etcd, Host, HostNetwork, LocalNeed, Measured, MemberMode, Origin, PacketBucket,
    Promise, Service, ServiceMode, SiteCriticality, SiteMode, SiteModes, Task, Ticks, Topic, Unused, Vif, Within,
    ZooKeeper,
};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// Reads the site and says what it describes, or proves a plan.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    match (&args.site, &args.certificate) {
        (site, Some(plan)) => crate::certificate::check(plan, site.as_deref(), args.json),
        (Some(site), None) => describe_site(site, args.json),
        (None, None) => Err(Failure::input("name a site file, or a plan with --certificate")),
    }
}

fn describe_site(path: &Path, as_json: bool) -> Result<ExitCode, Failure> {
    let site = giusto_site::read(path)?;
    crate::plan::note_missing_cores(&site, &crate::plan::facts(&site, &crate::plan::Asked::default())?);
    let slow = site.coordination.as_ref().and_then(giusto_planner::slow_to_see);
    let warnings: Vec<String> = site.topics.iter().filter_map(giusto_planner::unmeasured).chain(slow).collect();
    for warning in &warnings {
        tell(format_args!("warning: {warning}"));
    }
    if as_json {
        let service = |s: &Service| {
            let network: Vec<_> = s.network.iter().map(vif_json).collect();
            let modes: Vec<_> = s.modes.iter().map(local_json).collect();
            json!({"name": s.name, "on": s.on, "promise": s.promise, "tasks": s.tasks, "network": network,
                "modes": modes, "agent": s.agent, "measured": s.measured != Measured::Declared, "criticality": s.criticality.as_ref().map(criticality_json)})
        };
        let services: Vec<_> = site.services.iter().map(service).collect();
        let host = |host: &Host| {
            let network = host.network.as_ref().map(network_json);
            json!({"name": host.name, "cores": host.cores, "keep_free": host.keep_free, "network": network})
        };
        let hosts: Vec<_> = site.hosts.iter().map(host).collect();
        let ensemble = |ensemble: &Coordination| {
            let Coordination { servers, recovery, engine } = ensemble;
            match engine {
                Engine::ZooKeeper(ZooKeeper { epochs, wait, times, ticks, places }) => {
                    let (tick, sync_limit, silence) = match ticks {
                        Ticks::Written { tick, sync_limit } => (Some(tick), Some(sync_limit), None),
                        Ticks::Planned(asked) => (None, None, Some(asked)),
                    };
                    json!({"engine": "zookeeper", "servers": servers, "recovery_ns": recovery, "epochs": epochs, "wait_ns": wait,
                        "times": times, "tick_ns": tick, "sync_limit": sync_limit, "silence": silence, "places": places})
                }
                Engine::Etcd(Etcd { times, places }) => {
                    json!({"engine": "etcd", "servers": servers, "recovery_ns": recovery, "times": times, "places": places})
                }
            }
        };
        let coordination = site.coordination.as_ref().map(ensemble);
        let topic = |topic: &Topic| {
            let Topic { name, publishers, each, batch, brokers, service, promise, limit, bucket, measured } = topic;
            json!({"name": name, "publishers": publishers, "each": each, "batch": batch, "brokers": brokers, "service": service,
                "promise": promise, "limit": limit, "bucket": bucket, "measured": measured})
        };
        let topics: Vec<_> = site.topics.iter().map(topic).collect();
        let modes = site.modes.as_ref().map(|SiteModes { changes, modes }| {
            let local = |one: &MemberMode| json!({"service": one.service, "mode": one.local});
            let mode = |mode: &SiteMode| {
                let locals: Vec<_> = mode.locals.iter().map(local).collect();
                json!({"name": mode.name, "within_ns": mode.within, "urgent": mode.urgent, "services": locals})
            };
            json!({"changes": changes, "modes": modes.iter().map(mode).collect::<Vec<_>>()})
        });
        return json(&json!({"hosts": hosts, "services": services, "topics": topics, "coordination": coordination,
            "links": crate::paths::links_json(&site), "paths": crate::paths::paths_json(&site), "modes": modes,
            "warnings": warnings}));
    }
    for host in &site.hosts {
        let cores = giusto_planner::cores(&host.cores);
        let unused = if host.unused == Unused::Park { ", unused ones are parked" } else { "" };
        say!("host {}: cores {cores}, {} of each kept free{unused}", host.name, host.keep_free.percent());
        if let Some(HostNetwork { cores, capacity, uplinks, .. }) = &host.network {
            let uplinks: Vec<String> =
                uplinks.iter().map(|one| format!(", uplink {} up to {}", one.name, one.bucket)).collect();
            say!("  packets: core {}, {capacity} each{}", giusto_planner::cores(cores), uplinks.concat());
        }
    }
    let mut rows = vec![["service", "promise", "from", "tasks"].map(String::from).to_vec()];
    rows.extend(site.services.iter().map(describe));
    if site.hosts.len() > 1 {
        let on = site.services.iter().map(|service| service.on.clone().unwrap_or("any host".into()));
        rows.iter_mut().zip(std::iter::once("on".into()).chain(on)).for_each(|(row, on)| row.insert(1, on));
    }
    crate::table::print(&table(&rows, 5))?;
    for service in &site.services {
        for vif in &service.network {
            say!("{}", interface(&service.name, vif));
        }
    }
    for service in site.services.iter().filter(|service| service.measured != Measured::Declared) {
        let (site, name) = (path.display(), &service.name);
        say!("{name} is to be measured: 'giusto run {site} --trial' does it, or 'giusto measure execution {site} {name}' where it runs");
    }
    for line in crate::modes::site(&site) {
        say!("{line}");
    }
    for one in &site.topics {
        say!("{}", topic(one));
    }
    for line in crate::paths::of_site(&site) {
        say!("{line}");
    }
    if let Some(Coordination { servers, recovery, .. }) = &site.coordination {
        let each: Vec<String> = servers.iter().map(|member| format!("{}:{}", member.host, member.port)).collect();
        say!("coordination: {}; a recovery within {recovery}", each.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

fn criticality_json(criticality: &SiteCriticality) -> serde_json::Value {
    match criticality {
        SiteCriticality::Low => json!({"level": "low"}),
        SiteCriticality::High { worst } => json!({"level": "high", "worst_ns": worst}),
    }
}

fn local_json(mode: &ServiceMode) -> serde_json::Value {
    match &mode.need {
        LocalNeed::Tasks { tasks, .. } => json!({"name": mode.name, "tasks": tasks}),
        LocalNeed::Supply(all) => json!({"name": mode.name, "supply": all}),
    }
}

fn network_json(network: &HostNetwork) -> serde_json::Value {
    let HostNetwork { cores, uplinks, capacity, poll, count } = network;
    json!({"cores": cores, "uplinks": uplinks, "capacity": capacity, "poll": poll, "count": count})
}

fn vif_json(vif: &Vif) -> serde_json::Value {
    let Vif { name, class, bucket, received, promise } = vif;
    json!({"name": name, "class": class, "bucket": bucket, "received": received, "promise": promise})
}

fn interface(service: &str, vif: &Vif) -> String {
    let bucket = PacketBucket::both_ways(vif.bucket, vif.received);
    let promise: String = vif.promise.iter().map(|point| format!(", {point}")).collect();
    format!("interface {} of {service}: {} class{bucket}{promise}", vif.name, vif.class)
}

fn topic(topic: &Topic) -> String {
    let Topic { name, publishers, each, batch, brokers, promise, limit, .. } = topic;
    let points: Vec<String> = promise.iter().map(Within::to_string).collect();
    let batches = if *batch > 1 { format!(" in batches of {batch}") } else { String::new() };
    format!(
        "topic {name}: {publishers} publishers of {each} each{batches}, on {}; {}; limited at {limit}",
        brokers.join(", "),
        points.join(", ")
    )
}

fn describe(service: &Service) -> Vec<String> {
    let fits = if let Measured::Wanted { fits } = &service.measured { Some(fits.as_slice()) } else { None };
    let promise = match (&service.promise, fits) {
        (Promise::Percentiles { points, arrivals, .. }, Some(fits)) => {
            let points = points.iter().map(Within::to_string).collect::<Vec<_>>().join(", ");
            match fits {
                [Some(share)] => format!("{points}; at random to fit {}, measured", share.percent()),
                _ => format!("{points}; {arrivals}, measured"),
            }
        }
        (promise, _) => promise.to_string(),
    };
    let promise = match &service.copies {
        None => promise,
        Some(copies) => format!("{promise}, {} copies", copies.count),
    };
    let promise = match &service.criticality {
        None => promise,
        Some(SiteCriticality::Low) => format!("{promise}; low"),
        Some(SiteCriticality::High { worst }) => {
            let worst: Vec<String> = worst.iter().map(ToString::to_string).collect();
            format!("{promise}; high, at its worst {}", worst.join(", "))
        }
    };
    let from = match &service.origin {
        Origin::Start(words) => format!("started: {}", words.first().map_or("", String::as_str)),
        Origin::Adopt(adopt) => format!("adopted: {adopt}"),
    };
    let one = |(nth, task): (usize, &Task)| match fits {
        Some(fits) => format!("{}: {}", task.name, to_measure(task, fits.get(nth).copied().flatten())),
        None => format!("{}: {task}", task.name),
    };
    let tasks: Vec<String> = service.tasks.iter().enumerate().map(one).collect();
    let tasks = tasks.join(", ") + &crate::modes::locals(&service.modes);
    vec![service.name.clone(), promise, from, tasks]
}

/// `measured every 1 ms (6 of them)`, `measured to fit 30 %`.
fn to_measure(task: &Task, fit: Option<Bandwidth>) -> String {
    let often = fit.map_or(format!("every {}", task.period), |share| format!("to fit {}", share.percent()));
    let copies = if task.copies > 1 { format!(" ({} of them)", task.copies) } else { String::new() };
    format!("measured {often}{copies}")
}
