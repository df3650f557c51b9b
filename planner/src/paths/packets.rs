//! Interfaces of services as stages of a path: their buckets, and how long the host's processing takes at most.

use super::refusal::PathCause;
use super::topic;
use crate::words::reason;
use giusto_analysis::bucket::dropped;
use giusto_model::{
    Bucket, Duration, InterfaceStage, NetworkPlan, PacketBucket, PacketClass, PacketWay, Path, PathSource, Rate,
    Service, Site, Through, Tokens, Topic, Vif,
};

/// More of a bucket is not counted on: laws of deeper ones take long, and say the same.
const DEEPEST: u64 = 1000;
/// Messages take no more of the tokens than this part: from stage to stage a path counts them as more than they are.
const MOST_TAKEN: f64 = 0.9;

/// Which messages the buckets of interfaces are to hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AtOnce {
    /// As they come to the path.
    One,
    /// All that come in the promised time, at once: that is enough, however long they take up to there.
    Promised,
}

/// What is known of the messages at an interface.
pub(super) struct Ask<'a> {
    pub(super) site: &'a Site,
    pub(super) networks: &'a [NetworkPlan],
    pub(super) path: &'a Path,
    /// With those that topics have brought; `None`: they come in periods.
    pub(super) messages: Option<Rate>,
    /// Of each message so many copies pass.
    pub(super) copies: u32,
    pub(super) at_once: AtOnce,
}

/// The interface by which messages leave `service` or come to it; `None` where it has none.
///
/// Errors: several interfaces, the low class, a bucket that messages of the path find empty.
pub(super) fn stage(
    ask: &Ask,
    (service, on): (&Service, &str),
    way: PacketWay,
    (link, branch): (Option<Duration>, Option<u32>),
) -> Result<Option<InterfaceStage>, PathCause> {
    let Ask { site, networks, path, messages, copies, at_once } = *ask;
    let own = match &service.network[..] {
        [] => return Ok(None),
        [own] => own,
        [..] => return Err(PathCause::Interfaces { service: service.name.clone() }),
    };
    let interface = own.name.clone();
    let planned = networks.iter().filter(|network| network.on == on).flat_map(|network| &network.vifs);
    let planned = planned.into_iter().find(|vif| vif.name == own.name && vif.service == service.name);
    let planned = planned.filter(|vif| vif.class == PacketClass::High);
    let known = planned.and_then(|planned| Some((planned.bound?, planned.buckets()?)));
    let (bound, [sent, received]) = known.ok_or_else(|| PathCause::LowClass { interface: interface.clone() })?;
    let written = if way == PacketWay::Sent { sent } else { received };
    let packets = path.packets.saturating_mul(copies);
    let per_ns = messages.map_or(path.source.per_ns(), Rate::per_ns);
    let bucket = written.messages(packets, matches!(path.source, PathSource::Poisson(_)));
    let least = match path.source {
        PathSource::Poisson(own) => {
            let enough = Rate::of(tokens_a_second(per_ns, packets), Duration::from_secs(1));
            let rate = bucket.map(|bucket| bucket.rate).max(enough.and_then(|rate| rate.share(packets)));
            needed(path, (messages.unwrap_or(own), at_once), rate)
        }
        PathSource::Periodic { period, jitter, burst } => Some(in_time(path, (period, jitter, burst))),
    };
    let enough = |bucket: &Bucket| {
        bucket.rate.per_ns() * MOST_TAKEN >= per_ns && least.is_some_and(|least| bucket.depth.at_once() >= least)
    };
    let (Some(bucket), Some(needed)) = (bucket.filter(enough), least) else {
        // So many are enough in any case, of all paths there.
        let (rate, burst) = needs(site, &service.name, Some(written));
        return Err(PathCause::Burst { interface, way, bucket: written, burst, rate });
    };
    let bucket = Bucket { depth: bucket.depth.min(Tokens::whole(DEEPEST.max(needed))), ..bucket };
    let on = on.to_string();
    Ok(Some(InterfaceStage { interface, on, link, branch, way, packets, bucket, bound }))
}

/// The site, where interfaces of stages that it leaves to the planner have the tokens that their paths need: for all messages,
/// with those that topics have brought, and for all that come in the promised time at once. `None` where it leaves none.
pub(crate) fn filled(site: &Site) -> Option<Site> {
    let is_open = |vif: &Vif| vif.class == PacketClass::High && vif.bucket.is_none();
    if !site.services.iter().flat_map(|service| &service.network).any(is_open) {
        return None;
    }
    let mut filled = site.clone();
    for service in &mut filled.services {
        let (rate, burst) = needs(site, &service.name, None);
        let bucket = Rate::of(rate, Duration::from_secs(1)).filter(|rate| !rate.is_zero());
        let bucket = bucket.map(|rate| PacketBucket { rate, depth: Tokens::whole(burst), bits: None });
        service.network.iter_mut().filter(|vif| is_open(vif)).for_each(|vif| vif.bucket = bucket);
    }
    Some(filled)
}

/// Says where these numbers come from; `site` is as it was asked for.
pub(crate) fn say(site: &Site, networks: &mut [NetworkPlan]) {
    let open = |name: &str, service: &str| {
        let own = site.services.iter().filter(|own| own.name == service).flat_map(|own| &own.network);
        own.into_iter().any(|vif| vif.name == name && vif.class == PacketClass::High && vif.bucket.is_none())
    };
    for vif in networks.iter_mut().flat_map(|network| &mut network.vifs) {
        let Some(bucket) = vif.bucket.filter(|_| open(&vif.name, &vif.service)) else { continue };
        let why =
            "of the messages of its paths, each way: they take 90 % of the rate, and the burst is for all that come \
                   within what is promised at once; enforced";
        let told = [reason("class", vif.class, "its messages are promised a time"), reason("bucket", bucket, why)];
        for told in told {
            vif.reasons.iter_mut().filter(|one| one.what == told.what).for_each(|one| *one = told.clone());
        }
    }
}

/// Packets a second, and at once, that the paths through a service need tokens for at its interface, which has `written` if that
/// is enough a second. Messages of them all count as of so many packets as the largest.
fn needs(site: &Site, service: &str, written: Option<PacketBucket>) -> (u64, u64) {
    let paths = site.paths.through(service);
    let all: Vec<Asked> = paths.filter_map(|path| asked(site, path, service, written)).collect();
    let most = all.iter().map(|one| one.packets).max().unwrap_or(1);
    let per_ns: f64 = all.iter().map(|one| one.per_ns).sum();
    let messages = all.iter().fold(0u64, |sum, one| sum.saturating_add(one.messages));
    (tokens_a_second(per_ns, most), messages.saturating_mul(most.into()))
}

/// Why the bucket of an interface cannot hold the messages of all paths at once; `None`: it can.
pub(super) fn short(site: &Site, stage: &InterfaceStage) -> Option<PathCause> {
    let is_own = |vif: &&Vif| vif.name == stage.interface;
    let on = |service: &&Service| service.on.as_ref().is_none_or(|on| *on == stage.on);
    let (service, vif) =
        site.services.iter().filter(on).find_map(|service| Some((service, service.network.iter().find(is_own)?)))?;
    let sent = vif.bucket?;
    let bucket = if stage.way == PacketWay::Sent { sent } else { vif.received.unwrap_or(sent) };
    let (rate, burst) = needs(site, &service.name, Some(bucket));
    let is_enough = bucket.depth.at_once() >= burst && 1e9 * bucket.rate.per_ns() >= rate as f64;
    (!is_enough).then(|| PathCause::Burst { interface: vif.name.clone(), way: stage.way, bucket, burst, rate })
}

/// What a path needs of an interface.
struct Asked {
    /// Messages in a ns.
    per_ns: f64,
    /// Messages that come at once.
    messages: u64,
    /// Packets of each.
    packets: u32,
}

/// Of a path that sends over the interface of a service, or has sent to it.
fn asked(site: &Site, path: &Path, service: &str, written: Option<PacketBucket>) -> Option<Asked> {
    let copies = |one: Option<&Through>| match one {
        Some(Through::All(branches)) => branches.len() as u32,
        _ => 1,
    };
    let (mut messages, mut most) = (None, 1);
    for (nth, one) in path.through.iter().enumerate() {
        if let Through::Topic(name) = one {
            messages = site.topics.iter().find(|topic| topic.name == *name).and_then(Topic::messages);
        }
        if matches!(one, Through::Service(name) if name == service) {
            most = copies(nth.checked_sub(1).and_then(|before| path.through.get(before)))
                .max(copies(path.through.get(nth + 1)));
        }
        let Through::Service(name) = one else { continue };
        if name == service {
            break;
        }
    }
    let packets = path.packets.saturating_mul(most);
    let per_ns = messages.map_or(path.source.per_ns(), Rate::per_ns);
    let messages = match path.source {
        PathSource::Poisson(own) => {
            let tokens = Rate::of(tokens_a_second(per_ns, packets), Duration::from_secs(1))?.share(packets);
            // How deep it is, is what is asked.
            let deep = |written: PacketBucket| PacketBucket { depth: Tokens::whole(DEEPEST), ..written };
            let tokens =
                tokens.max(written.and_then(|written| deep(written).messages(packets, true)).map(|one| one.rate));
            needed(path, (messages.unwrap_or(own), AtOnce::Promised), tokens).unwrap_or(DEEPEST) * PacketBucket::PARTS
        }
        PathSource::Periodic { period, jitter, burst } => in_time(path, (period, jitter, burst)),
    };
    Some(Asked { per_ns, messages, packets })
}

/// So many that messages take the part of them that they may take.
fn tokens_a_second(per_ns: f64, packets: u32) -> u64 {
    (1e9 * per_ns * f64::from(packets) / MOST_TAKEN).ceil() as u64
}

/// Messages of the promised time and the jitter, rounded up to whole periods, and of one period more, whose tokens come only in
/// the course of it.
fn in_time(path: &Path, (period, jitter, burst): (Duration, Duration, u32)) -> u64 {
    let within = path.every.unwrap_or_default().ns().saturating_add(jitter.ns());
    (within / period.ns().max(1)).saturating_add(2).saturating_mul(burst.into())
}

/// The depth with which hardly one of the messages is dropped; one more in twenty is counted, as from stage to stage they are
/// counted as more.
fn needed(path: &Path, (messages, at_once): (Rate, AtOnce), tokens: Option<Rate>) -> Option<u64> {
    let (rate, messages) = (tokens?, messages.times(21)?.share(20)?);
    let highest = path.points.last()?;
    let time = if at_once == AtOnce::Promised { highest.within } else { Duration::ZERO };
    let most = topic::WAITING * (1.0 - highest.percentile.percent() / 100.0);
    let holds = |depth: u64| {
        let bucket = Bucket { rate, depth: Tokens::whole(depth) };
        dropped(messages, bucket, time).is_ok_and(|dropped| dropped <= most)
    };
    let (mut low, mut high) = (0, DEEPEST);
    if !holds(high) {
        return None;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        *(if holds(middle) { &mut high } else { &mut low }) = middle;
    }
    Some(high)
}
