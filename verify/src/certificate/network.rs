//! Packets: each bound by itself, put into the inequality that it has to satisfy, and whether the kernel would stop a thread.

use super::broken::Broken;
use super::exact::{whole, Exact};
use giusto_model::{Bucket, Duration, NetworkPlan, PacketClass, Plan, Rate, VifPlan};
use num_bigint::BigUint;
use serde::Serialize;
use std::collections::BTreeSet;

/// An interface of the high class that keeps its promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedInterface {
    /// Its host.
    pub on: String,
    /// Its name.
    pub name: String,
    /// No packet of it waits longer.
    #[serde(rename = "bound_ns")]
    pub bound: Duration,
    /// Interfaces above it on its core, and those that share its priority: of equal threads the one that runs goes on.
    pub above: usize,
    /// What the bound takes for granted, and what makes it so.
    pub rests_on: Vec<String>,
}

/// Threads with real-time priorities run no longer in a second, or the kernel stops them.
const MOST: u64 = 950_000_000;
const SECOND: u64 = 1_000_000_000;

/// A thread with a real-time priority.
struct Thread<'a> {
    name: &'a str,
    core: u32,
    priority: u8,
    /// Of an uplink what arrives; of an interface what it sends and what is sent to it.
    buckets: Vec<Bucket>,
    /// Of an interface: no packet of it waits longer.
    bound: Option<Duration>,
}

pub(super) fn check(plan: &Plan, network: &NetworkPlan) -> Result<Vec<CheckedInterface>, Broken> {
    let named = |broken: Broken| Broken { what: format!("packets on {}: {}", network.on, broken.what), ..broken };
    one(plan, network).map_err(named)
}

fn one(plan: &Plan, network: &NetworkPlan) -> Result<Vec<CheckedInterface>, Broken> {
    let host = plan.hosts.iter().filter(|host| host.name == network.on);
    let same = plan.network.iter().filter(|other| other.on == network.on).count();
    if host.clone().count() != 1 || same != 1 {
        return Err(Broken::new("a host of the plan, once", 1, same.min(host.count())));
    }
    let services: BTreeSet<u32> = host.flat_map(|host| host.cores.iter().copied()).collect();
    if let Some(core) = network.cores.iter().find(|core| services.contains(core)) {
        return Err(Broken::new("cores for packets alone", "none of the services'", core));
    }
    let names: Vec<&str> = network.uplinks.iter().map(|one| one.uplink.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().chain(network.vifs.iter().map(|vif| vif.name.as_str())).collect();
    let distinct: BTreeSet<&str> = names.iter().copied().collect();
    if distinct.len() != names.len() {
        return Err(Broken::new("interfaces, each once", names.len(), distinct.len()));
    }
    let cores = network.uplinks.iter().map(|one| one.core).chain(network.vifs.iter().map(|vif| vif.core));
    for core in cores {
        if !network.cores.contains(&core) {
            return Err(Broken::new("a core for packets", format!("{:?}", network.cores), core));
        }
    }
    let uplinks = network.uplinks.iter().map(|one| (one.core, one.priority));
    let uplinks: Vec<(u32, u8)> = uplinks.collect();
    let mut threads: Vec<Thread<'_>> = (network.uplinks.iter())
        .map(|one| Thread {
            name: &one.uplink.name,
            core: one.core,
            priority: one.priority,
            buckets: vec![one.uplink.bucket],
            bound: None,
        })
        .collect();
    for vif in &network.vifs {
        threads.extend(thread(vif, &uplinks)?);
    }
    let uplinks_too = network.uplinks.len();
    for (nth, one) in threads.iter().enumerate() {
        // Interfaces may share one: all of them are counted as above then.
        let equal = |other: &&Thread<'_>| (other.core, other.priority) == (one.core, one.priority);
        if let Some(other) = threads[..nth].iter().filter(|_| nth < uplinks_too).find(equal) {
            let needed = format!("another for '{}' than for '{}'", one.name, other.name);
            return Err(Broken::new("priorities of a core's uplinks, distinct", needed, one.priority));
        }
        if !(1..=99).contains(&one.priority) {
            return Err(Broken::new(format!("priority of '{}'", one.name), "1 to 99", one.priority));
        }
    }
    let poll = network_time(network, network.poll.into())?;
    for core in &network.cores {
        let mut sum = poll.clone();
        for thread in threads.iter().filter(|thread| thread.core == *core) {
            sum += all_sent(network, &thread.buckets, SECOND)?;
        }
        let here = threads.iter().any(|thread| thread.core == *core);
        if here && sum > whole(MOST.into()) {
            let what = format!("ns of a second in which the kernel lets real-time threads of core {core} run");
            return Err(Broken::new(what, sum.ceil().to_integer(), MOST));
        }
    }
    let high = network.vifs.iter().filter(|vif| vif.class == PacketClass::High);
    let late = plan.hosts.iter().find(|host| host.name == network.on).and_then(|host| host.latency.as_ref());
    // Until a thread runs, and what is then in a row.
    let late = whole(late.map_or(0, |late| late.latency.ns().into()));
    high.map(|vif| bounded(network, vif, &threads, &(in_a_row(network, vif, &threads, &poll)? + &late))).collect()
}

/// Whether an uplink or the low class is processed on its core.
fn is_shared(network: &NetworkPlan, vif: &VifPlan) -> bool {
    let low = network.vifs.iter().any(|other| other.core == vif.core && other.class == PacketClass::Low);
    low || network.uplinks.iter().any(|one| one.core == vif.core)
}

/// What those below it process in a row: a poll where an uplink or the low class is, else of each no more than comes while its
/// first packet waits, and while they are processed.
fn in_a_row(network: &NetworkPlan, vif: &VifPlan, threads: &[Thread<'_>], poll: &Exact) -> Result<Exact, Broken> {
    if is_shared(network, vif) {
        return Ok(poll.clone());
    }
    let below = threads.iter().filter(|thread| thread.core == vif.core && Some(thread.priority) < vif.priority);
    let mut most = whole(0);
    for thread in below {
        let window = whole(thread.bound.unwrap_or(Duration::ZERO).ns().into()) + poll;
        for bucket in &thread.buckets {
            let window = window.ceil().to_integer().try_into().unwrap_or(u64::MAX);
            most = most.max(sent(network, *bucket, window)?.min(poll.clone()));
        }
    }
    Ok(most)
}

/// The thread of an interface of the high class; one of the low class has neither a priority nor a bound.
fn thread<'a>(vif: &'a VifPlan, uplinks: &[(u32, u8)]) -> Result<Option<Thread<'a>>, Broken> {
    let what = |what: &str| format!("{what} of '{}'", vif.name);
    match (vif.class, vif.priority, vif.buckets(), vif.bound) {
        (PacketClass::Low, None, _, None) if vif.promise.is_empty() => Ok(None),
        (PacketClass::Low, ..) => {
            Err(Broken::new(what("priority, bound and promise"), "none in the low class", "some"))
        }
        (PacketClass::High, Some(priority), Some(buckets), Some(bound)) => {
            match uplinks.iter().find(|(core, uplink)| *core == vif.core && *uplink <= priority) {
                Some((_, uplink)) => Err(Broken::new(what("priority"), format!("less than {uplink}"), priority)),
                None => {
                    let buckets = buckets.map(|bucket| bucket.packets()).to_vec();
                    Ok(Some(Thread { name: &vif.name, core: vif.core, priority, buckets, bound: Some(bound) }))
                }
            }
        }
        (PacketClass::High, ..) => {
            Err(Broken::new(what("priority, bucket and bound"), "all three in the high class", "fewer"))
        }
    }
}

/// Whether all that can be ahead of its packet at the bound is done by then, and each later packet gains on it.
fn bounded(
    network: &NetworkPlan,
    vif: &VifPlan,
    threads: &[Thread<'_>],
    first: &Exact,
) -> Result<CheckedInterface, Broken> {
    let bound = vif.bound.unwrap_or(Duration::ZERO);
    let priority = vif.priority.unwrap_or(0);
    let is_ahead =
        |thread: &&Thread<'_>| thread.core == vif.core && thread.priority >= priority && thread.name != vif.name;
    let above: Vec<&Thread<'_>> = threads.iter().filter(is_ahead).collect();
    let mut ahead = first.clone();
    let mut second = whole(0);
    for thread in &above {
        ahead += all_sent(network, &thread.buckets, bound.ns())?;
        for bucket in &thread.buckets {
            second += rate_alone(network, bucket.rate)?;
        }
    }
    if let Some(buckets) = vif.buckets() {
        // The last packet of a burst, while all that goes the other way comes first: their priority is the same.
        let [out, back] = buckets.map(|bucket| bucket.packets());
        let last = |own: Bucket, other: Bucket| -> Result<Exact, Broken> {
            Ok(sent(network, own, 0)? + sent(network, other, bound.ns())?)
        };
        ahead += last(out, back)?.max(last(back, out)?);
        second += rate_alone(network, out.rate)? + rate_alone(network, back.rate)?;
    }
    if ahead > whole(bound.ns().into()) {
        let what = format!("time after which no packet of '{}' waits any more", vif.name);
        return Err(Broken::new(what, format!("{} ns", ahead.ceil().to_integer()), bound).at(bound.ns()));
    }
    if second >= whole(SECOND.into()) {
        let what = format!("ns of a second that '{}' and all above it need", vif.name);
        return Err(Broken::new(what, second.ceil().to_integer(), SECOND));
    }
    match vif.promise.iter().find(|point| point.within < bound) {
        Some(broken) => Err(Broken::new(format!("the promise of '{}'", vif.name), broken, bound)),
        None => Ok(CheckedInterface {
            on: network.on.clone(),
            name: vif.name.clone(),
            bound,
            above: above.len(),
            rests_on: rests_on(network, vif, &above),
        }),
    }
}

fn rests_on(network: &NetworkPlan, vif: &VifPlan, above: &[&Thread<'_>]) -> Vec<String> {
    let is_uplink = |thread: &&&Thread<'_>| network.uplinks.iter().any(|one| one.uplink.name == thread.name);
    let (uplinks, vifs): (Vec<&&Thread<'_>>, Vec<&&Thread<'_>>) = above.iter().partition(is_uplink);
    let buckets = [vif.name.as_str()].into_iter().chain(vifs.iter().map(|thread| thread.name));
    let mut all = vec![
        format!(
            "the buckets of {}: enforced at the host's end, whatever their services do; one that overloads the host loses \
             its priority",
            buckets.collect::<Vec<_>>().join(", ")
        ),
        format!("a capacity of {}: measured or declared, and not checked", network.capacity),
    ];
    if !is_shared(network, vif) {
        let what = "no uplink and nothing of the low class on core";
        all.push(format!("{what} {}: they are planned elsewhere, and none is moved there", vif.core));
    }
    let first = uplinks.iter().filter_map(|uplink| Some((uplink, uplink.buckets.first()?)));
    all.extend(first.map(|(uplink, bucket)| {
        format!(
            "at most {} and bursts of {} that {} lets go first: enforced on arrival where its driver has XDP, else taken for \
             granted",
            bucket.rate, bucket.depth, uplink.name
        )
    }));
    all
}

/// What a core needs for that which a bucket lets through in `window` ns, in ns.
fn sent(network: &NetworkPlan, bucket: Bucket, window: u64) -> Result<Exact, Broken> {
    let (tokens, parts) = bucket.depth.fraction();
    let (packets, ns) = bucket.rate.fraction();
    let count = Exact::new(tokens.into(), parts.into()) + Exact::new(BigUint::from(packets) * window, ns.into());
    Ok(count * network_time(network, 1)?)
}

/// The same of several.
fn all_sent(network: &NetworkPlan, buckets: &[Bucket], window: u64) -> Result<Exact, Broken> {
    buckets.iter().try_fold(whole(0), |sum, bucket| Ok(sum + sent(network, *bucket, window)?))
}

/// The same without its burst, in a second.
fn rate_alone(network: &NetworkPlan, rate: Rate) -> Result<Exact, Broken> {
    let (packets, ns) = rate.fraction();
    Ok(Exact::new(BigUint::from(packets) * SECOND, ns.into()) * network_time(network, 1)?)
}

/// What so many packets take, in ns.
fn network_time(network: &NetworkPlan, packets: u64) -> Result<Exact, Broken> {
    let (done, ns) = network.capacity.fraction();
    match done {
        0 => Err(Broken::new("packets that a core processes", "some", 0)),
        done => Ok(Exact::new(BigUint::from(ns) * packets, done.into())),
    }
}
