//! Topics, the ensemble and packets of a site, and what the plan says of them.

use super::super::broken::Broken;
use super::same::same;
use giusto_model::{
    Assurance, CoordinationPlan, Duration, Engine, Host, HostNetwork, Link, LinkStage, NetworkPlan, PacketClass,
    PacketWay, Path, PathPlan, PathStage, Plan, Service, Site, Steps, Through, Ticks, Topic, TopicPlan, Within,
    ZooKeeper, ZooKeeperPlan,
};
use std::ops::Range;

pub(super) fn topics(plan: &Plan, site: &Site) -> Result<(), Broken> {
    let wanted: Vec<&str> = site.topics.iter().map(|topic| topic.name.as_str()).collect();
    same("the site", "its topics, in its order", &wanted, &plan.topics.iter().map(|one| one.name.as_str()).collect())?;
    site.topics.iter().zip(&plan.topics).try_for_each(|(topic, planned)| one_topic(topic, planned))
}

fn one_topic(topic: &Topic, planned: &TopicPlan) -> Result<(), Broken> {
    let whose = format!("topic '{}'", topic.name);
    same(&whose, "how its messages come", &topic.arrivals(), &Some(planned.arrivals))?;
    same(&whose, "what it was promised", &topic.promise, &planned.promise)?;
    same(&whose, "what passes its bucket", &topic.limit, &planned.limit)?;
    same(&whose, "the service that is its broker", &topic.service, &planned.service)?;
    same(&whose, "what was measured of its brokers", &topic.measured, &planned.measured)?;
    if let Some(bucket) = topic.bucket {
        same(&whose, "its bucket", &bucket, &planned.bucket)?;
    }
    let own: Vec<&String> = topic.brokers.iter().filter(|one| planned.brokers.contains(one)).collect();
    same(&whose, "some of its brokers, in their order", &own, &planned.brokers.iter().collect())
}

pub(super) fn ensemble(plan: &Plan, site: &Site) -> Result<(), Broken> {
    let (wanted, planned) = match (&site.coordination, &plan.coordination) {
        (None, None) => return Ok(()),
        (Some(wanted), Some(planned)) => (wanted, planned),
        (wanted, planned) => return same("the site", "an ensemble", &wanted.is_some(), &planned.is_some()),
    };
    let whose = "the ensemble";
    same(whose, "its servers", &wanted.servers.as_slice(), &planned.servers())?;
    same(whose, "the recovery that was promised", &wanted.recovery, &planned.recovery())?;
    match (&wanted.engine, planned) {
        (Engine::ZooKeeper(wanted), CoordinationPlan::ZooKeeper(planned)) => zookeeper(whose, wanted, planned),
        (Engine::Etcd(wanted), CoordinationPlan::Etcd(planned)) => {
            same(whose, "what its elections are made of", &wanted.times, &planned.times)?;
            same(whose, "where its servers keep their data", &wanted.places, &planned.places)
        }
        (Engine::ZooKeeper(_), CoordinationPlan::Etcd(_)) => same(whose, "its engine", &"zookeeper", &"etcd"),
        (Engine::Etcd(_), CoordinationPlan::ZooKeeper(_)) => same(whose, "its engine", &"etcd", &"zookeeper"),
    }
}

fn zookeeper(whose: &str, wanted: &ZooKeeper, planned: &ZooKeeperPlan) -> Result<(), Broken> {
    same(whose, "what its recovery consists of", &wanted.times, &planned.times)?;
    let asked = match wanted.ticks {
        Ticks::Written { tick, sync_limit } => {
            same(whose, "its tick", &tick, &planned.tick)?;
            same(whose, "its sync-limit", &sync_limit, &planned.sync_limit)?;
            None
        }
        Ticks::Planned(asked) => Some(asked),
    };
    same(whose, "what its ticks are planned from", &asked, &planned.silence.map(|silence| silence.asked))?;
    same(whose, "where its servers keep their data", &wanted.places, &planned.places)?;
    same(whose, "how epochs reach the disk", &wanted.epochs.unwrap_or(planned.epochs), &planned.epochs)?;
    // Where more servers leave a silent leader than elect one they have to wait for the last one, which its part is about.
    let longer = planned.silence.is_some() && planned.servers.len() > 4;
    if !longer || wanted.wait.is_some() {
        same(whose, "the wait for votes", &wanted.wait(), &planned.wait)?;
        return same(whose, "whether the wait adapts", &(wanted.wait.is_none()), &planned.adaptive);
    }
    same(whose, "a wait for votes that is no shorter", &wanted.wait().max(planned.wait), &planned.wait)
}

pub(super) fn paths(plan: &Plan, site: &Site) -> Result<(), Broken> {
    let wanted: Vec<&str> = site.paths.all.iter().map(|path| path.name.as_str()).collect();
    same("the site", "its paths, in its order", &wanted, &plan.paths.iter().map(|one| one.name.as_str()).collect())?;
    site.paths.all.iter().zip(&plan.paths).try_for_each(|(path, planned)| one_path(site, path, planned))
}

fn one_path(site: &Site, path: &Path, planned: &PathPlan) -> Result<(), Broken> {
    let whose = format!("path '{}'", path.name);
    same(&whose, "how its messages come", &path.source, &planned.source)?;
    if planned.simulated.is_some() && path.assurance != Assurance::Simulated {
        return Err(Broken::new(format!("{whose}: what its promise rests on"), "a proof", "simulation"));
    }
    let steps = Steps::of(&planned.through);
    let one = |stage: &PathStage| match stage {
        PathStage::Service(stage) => Some(Through::Service(stage.service.clone())),
        PathStage::Tokens(stage) => Some(Through::Topic(stage.tokens_of.clone())),
        PathStage::Broker(_) | PathStage::Interface(_) | PathStage::Link(_) => None,
    };
    let branch = |branch: &Range<usize>| planned.through[branch.clone()].iter().filter_map(one).collect::<Vec<_>>();
    let through = steps.0.iter().flat_map(|step| match &step[..] {
        [only] => branch(only),
        all => vec![Through::All(all.iter().map(branch).collect())],
    });
    let through: Vec<Through> = through.collect();
    for (nth, stage) in planned.through.iter().enumerate() {
        let PathStage::Interface(stage) = stage else { continue };
        // To each branch a copy, and from each.
        let copies = match stage.way {
            PacketWay::Sent => steps.after(nth).len(),
            PacketWay::Received => steps.before(nth).len(),
        };
        same(&whose, "packets of a message", &(path.packets as usize * copies.max(1)), &(stage.packets as usize))?;
    }
    same(&whose, "where its response times come from", &path.observe, &planned.observe)?;
    same(&whose, "its services and topics", &path.through, &through)?;
    let borne = planned.despite.iter().map(|one| one.fails.to_string());
    let wanted: Vec<String> = path.despite.iter().map(|one| one.fails.to_string()).collect();
    same(&whose, "what it bears", &wanted, &borne.collect())?;
    for (one, planned) in path.despite.iter().zip(&planned.despite) {
        let whose = format!("{whose}, despite {}", one.fails);
        // That of the ensemble is in the plan.
        same(&whose, "how long it stands still", &one.gap.unwrap_or(planned.gap), &planned.gap)?;
    }
    let points = planned.points.iter().map(|point| Within { percentile: point.percentile, within: point.within });
    same(&whose, "percentiles that were promised", &path.points, &points.collect())?;
    same(&whose, "the longest time that was promised", &path.every, &planned.every.as_ref().map(|one| one.within))?;
    planned.through.iter().enumerate().try_for_each(|(nth, stage)| {
        let link = |before: usize| {
            let (from, to) = (planned.through[before].on(), stage.on());
            let link = site.paths.links.iter().find(|link| link.from == from && link.to == to);
            link.filter(|_| from != to)
        };
        let over: Vec<&Link> = steps.before(nth).into_iter().filter_map(link).collect();
        if let PathStage::Link(LinkStage { latency, worst, .. }) = stage {
            let told = |longest: &Duration, latency: &[Within]| {
                let points: Vec<String> = latency.iter().map(ToString::to_string).collect();
                format!("{}; at most {longest}", points.join(", "))
            };
            let wanted = match over[..] {
                [Link { worst, measured: Some(times), .. }] => told(worst, &times.latency),
                _ => "nothing".into(),
            };
            let whose = format!("{whose}, {stage}");
            return same(&whose, "what was measured of it", &wanted, &told(worst, latency));
        }
        let worst = over.into_iter().map(|link| link.worst).max();
        same(&whose, "the link between two of its hosts", &worst, &stage.link())
    })
}

pub(super) fn network(plan: &Plan, site: &Site) -> Result<(), Broken> {
    let wanted: Vec<&str> =
        site.hosts.iter().filter(|host| host.network.is_some()).map(|host| host.name.as_str()).collect();
    same("packets", "hosts that process them", &wanted, &plan.network.iter().map(|one| one.on.as_str()).collect())?;
    let with = site.hosts.iter().filter_map(|host| Some((host, host.network.as_ref()?)));
    with.zip(&plan.network).try_for_each(|((host, network), planned)| one_network(site, host, network, planned))
}

fn one_network(site: &Site, host: &Host, network: &HostNetwork, planned: &NetworkPlan) -> Result<(), Broken> {
    let whose = format!("packets on {}", host.name);
    same(&whose, "cores", &network.cores, &planned.cores)?;
    same(&whose, "what one core processes", &network.capacity, &planned.capacity)?;
    same(&whose, "packets of one interface in a row", &network.poll, &planned.poll)?;
    same(&whose, "what buckets count", &network.count, &planned.count)?;
    let uplinks: Vec<_> = planned.uplinks.iter().map(|one| &one.uplink).collect();
    same(&whose, "interfaces to the outside", &network.uplinks.iter().collect(), &uplinks)?;
    let here = |one: &&Service| one.on.as_ref().map_or(site.hosts.len() == 1, |on| *on == host.name);
    let own = site.services.iter().filter(here).flat_map(|service| {
        let vifs = service.network.iter();
        vifs.map(|vif| {
            // Where the site says none, its paths' proofs say whether it is enough.
            let left = || {
                let found = planned.vifs.iter().find(|one| one.name == vif.name && vif.class == PacketClass::High);
                found.and_then(|found| found.bucket)
            };
            let buckets = (vif.bucket.or_else(left), vif.received);
            (service.name.as_str(), vif.name.as_str(), vif.class, buckets, &vif.promise)
        })
    });
    let vifs = planned.vifs.iter();
    let found =
        vifs.map(|vif| (vif.service.as_str(), vif.name.as_str(), vif.class, (vif.bucket, vif.received), &vif.promise));
    same(&whose, "interfaces of services", &own.collect::<Vec<_>>(), &found.collect())
}
