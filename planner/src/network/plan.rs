//! Packets: which core and which priority each interface gets, and how long packets wait at most.

use super::assign::{self, flow, longest_poll, place, Item, Placed, LIMIT, UPLINK, VIF};
use super::nearest;
use super::refusal::PacketRefusal;
use crate::words::{cores, reason, time};
use giusto_analysis::packets::{busy, Flow};
use giusto_analysis::Error;
use giusto_model::{Duration, Host, HostNetwork, NetworkPlan, PacketClass, Reason, Site, UplinkPlan, Vif, VifPlan};

/// Of a bucket that stands for both directions.
const EACH: &str = "from the site; what it sends, and as much is sent to it";
const RECEIVED: &str = "from the site; what is sent to it";

/// Plans the packets of all hosts that have a network, or of the `only` one. O(interfaces² · cores) where the least loaded core
/// is right for each; else up to some seconds.
/// One of them is `late`.
pub(crate) fn plan(
    site: &Site,
    only: Option<usize>,
    late: Option<(usize, Duration)>,
) -> Result<Vec<NetworkPlan>, Box<PacketRefusal>> {
    let wanted = (site.hosts.iter().enumerate()).filter(|(index, _)| only.is_none_or(|only| only == *index));
    let of = |index: usize| late.filter(|(host, _)| *host == index).map_or(Duration::ZERO, |(_, late)| late);
    let networks = wanted.filter_map(|(index, host)| Some((of(index), host, host.network.as_ref()?)));
    networks.map(|(late, host, network)| one(site, host, network, late)).collect()
}

/// Interfaces of a host with their services, in the order of the site.
fn vifs<'a>(site: &'a Site, host: &'a Host) -> impl Iterator<Item = (&'a str, &'a Vif)> {
    let here = move |on: &Option<String>| on.as_ref().map_or(site.hosts.len() == 1, |on| *on == host.name);
    let services = site.services.iter().filter(move |service| here(&service.on));
    services.flat_map(|service| service.network.iter().map(|vif| (service.name.as_str(), vif)))
}

fn one(site: &Site, host: &Host, network: &HostNetwork, late: Duration) -> Result<NetworkPlan, Box<PacketRefusal>> {
    let vifs: Vec<(&str, &Vif)> = vifs(site, host).collect();
    let uplinks = network.uplinks.iter().map(|uplink| Item::uplink(&uplink.name, uplink.bucket));
    let high = vifs.iter().filter_map(|(_, vif)| Item::vif(vif));
    let items: Vec<Item> = uplinks.chain(high).map(|item| Item { late, ..item }).collect();
    let failed = |why| PacketRefusal::analysis(host, why);
    let shared = usize::from(vifs.iter().any(|(_, vif)| vif.class == PacketClass::Low));
    let placed = match place(network, &items, shared).map_err(failed)? {
        Some(placed) => placed,
        None => return Err(nearest::refusal(host, network, &items, shared).map_err(failed)?),
    };
    written(host, network, &vifs, &items, &placed).map_err(failed)
}

fn written(
    host: &Host,
    network: &HostNetwork,
    vifs: &[(&str, &Vif)],
    items: &[Item],
    placed: &Placed,
) -> Result<NetworkPlan, Error> {
    let found = |name: &str| -> Result<(usize, &assign::Place), Error> {
        let at = items.iter().position(|item| item.name == name).ok_or(Error::NoCapacity)?;
        Ok((at, &placed.places[at]))
    };
    let uplinks = network.uplinks.iter().map(|uplink| {
        let (_, place) = found(&uplink.name)?;
        Ok(UplinkPlan { uplink: uplink.clone(), core: network.cores[place.core], priority: UPLINK - place.rank })
    });
    let lows = lows(network, vifs, items, placed);
    let plans = vifs.iter().map(|(service, vif)| {
        let low = lows.iter().find(|(name, _)| *name == vif.name);
        let (core, priority, bound, beside) = match low {
            Some((_, core)) => (*core, None, None, 0),
            None => {
                let (_, place) = found(&vif.name)?;
                let same = items
                    .iter()
                    .zip(&placed.places)
                    .filter(|(item, other)| !item.uplink && (other.core, other.rank) == (place.core, place.rank));
                (place.core, Some(VIF - place.rank), Some(place.bound), same.count() - 1)
            }
        };
        let core = network.cores[core];
        Ok(VifPlan {
            name: vif.name.clone(),
            service: service.to_string(),
            class: vif.class,
            core,
            priority,
            bucket: vif.bucket,
            received: vif.received,
            promise: vif.promise.clone(),
            bound,
            reasons: vif_reasons(
                network,
                vif,
                core,
                priority.zip(bound),
                placed,
                beside,
                items.first().map_or(Duration::ZERO, |item| item.late),
            ),
        })
    });
    Ok(NetworkPlan {
        on: host.name.clone(),
        cores: network.cores.clone(),
        capacity: network.capacity,
        poll: network.poll,
        count: network.count,
        uplinks: uplinks.collect::<Result<_, Error>>()?,
        vifs: plans.collect::<Result<_, Error>>()?,
        reasons: reasons(network, items, placed)?,
    })
}

/// A core for each interface of the low class: those whose rate is known first, the highest rate first, where least is known to
/// come; then the others, where fewest of the class are.
fn lows<'a>(network: &HostNetwork, vifs: &[(&str, &'a Vif)], items: &[Item], placed: &Placed) -> Vec<(&'a str, usize)> {
    let mut load = vec![0; network.cores.len()];
    let mut number = vec![0; network.cores.len()];
    items.iter().zip(&placed.places).for_each(|(item, place)| load[place.core] += item.load());
    let rate = |vif: &Vif| {
        let sent = vif.bucket?;
        Some(assign::load(sent.rate) + assign::load(vif.received.unwrap_or(sent).rate))
    };
    let mut low: Vec<&'a Vif> = vifs.iter().map(|(_, vif)| *vif).filter(|vif| vif.class == PacketClass::Low).collect();
    low.sort_by_key(|vif| std::cmp::Reverse(rate(vif)));
    let mut found = Vec::new();
    for vif in low {
        let by = |core: &usize| match vif.bucket {
            Some(_) => (load[*core], number[*core]),
            None => (number[*core], load[*core]),
        };
        let least = (placed.quiet..network.cores.len()).min_by_key(by);
        let core = least.unwrap_or(placed.quiet);
        load[core] += rate(vif).unwrap_or(0);
        number[core] += 1;
        found.push((vif.name.as_str(), core));
    }
    found
}

fn reasons(network: &HostNetwork, items: &[Item], placed: &Placed) -> Result<Vec<Reason>, Error> {
    let unit = format!("from the site, of one core; counted by {}", network.count);
    let poll = busy(&[], longest_poll(network))?;
    let mut reasons = vec![
        reason("cores", cores(&network.cores), "from the site; they process packets and nothing of services"),
        reason("capacity", network.capacity, unit),
        reason(
            "poll",
            network.poll,
            format!("packets of one interface in a row, {}: interfaces above it wait for it", time(poll)),
        ),
    ];
    if !items.is_empty() {
        reasons.push(reason("assignment", placed.how, "of the high class; 'ReBalance' is [LiC20, Algorithm 1]"));
    }
    if placed.quiet > 0 {
        let why =
            "no uplink and nothing of the low class is processed there: a promise is shorter than a poll of theirs";
        reasons.push(reason("quiet", cores(&network.cores[..placed.quiet]), why));
    }
    for (index, core) in network.cores.iter().enumerate() {
        let here: Vec<Flow> = (items.iter().zip(&placed.places))
            .filter(|(_, place)| place.core == index)
            .flat_map(|(item, _)| item.buckets().map(|bucket| flow(network, bucket)))
            .collect();
        if here.is_empty() {
            continue;
        }
        let why = format!(
            "of any second at most, for uplinks and the high class with their bursts and one poll; {} are allowed, as the kernel \
             stops all real-time threads of a core for the rest of a second in which they ran for 950 ms; the low class gets the rest",
            time(LIMIT)
        );
        reasons.push(reason(&format!("high on core {core}"), time(busy(&here, longest_poll(network))?), why));
    }
    Ok(reasons)
}

fn vif_reasons(
    network: &HostNetwork,
    vif: &Vif,
    core: u32,
    high: Option<(u8, Duration)>,
    placed: &Placed,
    beside: usize,
    late: Duration,
) -> Vec<Reason> {
    let mut reasons = vec![reason("class", vif.class, "from the site")];
    let Some((priority, bound)) = high else {
        let why = match vif.bucket {
            Some(_) => "the one on which least is known to come, high and low",
            None => "the one with the fewest interfaces of the low class",
        };
        reasons.push(reason("core", core, why));
        reasons.push(reason("priority", "none", "SCHED_OTHER: it runs when nothing of the high class waits"));
        reasons.extend(vif.bucket.map(|bucket| reason("bucket", bucket, EACH)));
        reasons.extend(vif.received.map(|bucket| reason("received", bucket, RECEIVED)));
        return reasons;
    };
    reasons.push(reason("core", core, placed.how));
    let beside = match beside {
        0 => "its own".into(),
        others => format!("shared with {others}, which count as above, as equal ones never give way to each other"),
    };
    let why = format!("SCHED_FIFO, below the uplinks; {beside}. By Audsley: the last on its core is who can be");
    reasons.push(reason("priority", priority, why));
    let bucket = vif.bucket.map(|bucket| {
        let each = if vif.received.is_none() { EACH } else { "from the site; what it sends" };
        let why = format!("{each}; in {}s, and enforced: the high class would starve the low one else", network.count);
        reason("bucket", bucket, why)
    });
    reasons.extend(bucket);
    reasons.extend(vif.received.map(|bucket| reason("received", bucket, RECEIVED)));
    let promised = vif.promise.first().map_or("nothing is promised".into(), |point| format!("{point} promised"));
    let why = format!(
        "no packet within its bucket waits longer for the host's processing: a poll of others, the bursts and the packets of those \
         above, its own burst and what goes the other way (D_i, docs/network.md){}; {promised}",
        if late.is_zero() { String::new() } else { format!(", and the host's latency of {}", time(late)) }
    );
    reasons.push(reason("bound", time(bound), why));
    reasons
}
