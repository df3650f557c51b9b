//! Cores and priorities for the high class, with all promises kept.

use giusto_analysis::packets::{busy, delay_bound, Flow, Poll};
use giusto_analysis::Error;
use giusto_model::{Bucket, Duration, HostNetwork, PacketClass, Rate, Vif};
use std::cmp::Reverse;

/// Uplinks count down from here; their threads are above those that the kernel makes for interrupts, at 50.
pub(super) const UPLINK: u8 = 90;
/// Virtual interfaces count down from here, below the kernel's own.
pub(super) const VIF: u8 = 49;

/// Most that the high class of a core may run in any second: the kernel's 950 ms less a twentieth for what else runs there with
/// a real-time priority, such as threads of interrupts.
pub(super) const LIMIT: Duration = Duration::from_ms(900);
/// How much the search for places may cost: a look at a core costs the square of the interfaces there.
const WORK: usize = 20_000;

/// An uplink, or an interface of the high class.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) bucket: Bucket,
    pub(super) uplink: bool,
    /// The shortest time of its promise: what is proven holds for all packets.
    pub(super) within: Option<Duration>,
    /// How late its host is.
    pub(super) late: Duration,
}

impl Item {
    pub(super) fn uplink(name: &str, bucket: Bucket) -> Item {
        Item { name: name.into(), bucket, uplink: true, within: None, late: Duration::ZERO }
    }
    /// `None`: it is of the low class.
    pub(super) fn vif(vif: &Vif) -> Option<Item> {
        let bucket = vif.bucket.filter(|_| vif.class == PacketClass::High)?;
        let within = vif.promise.iter().map(|point| point.within).min();
        Some(Item { name: vif.name.clone(), bucket, uplink: false, within, late: Duration::ZERO })
    }
}

/// Where an item is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Its place among the host's network cores.
    pub(super) core: usize,
    /// How many interfaces of its core are above it, uplinks not counted.
    pub(super) rank: u8,
    pub(super) bound: Duration,
}

/// A place for each item.
pub(super) struct Placed {
    pub(super) places: Vec<Place>,
    /// How the cores were chosen.
    pub(super) how: &'static str,
}

/// What is wrong with the items of a core.
pub(super) enum Wrong {
    /// They run for too long in a second.
    Busy(Duration),
    /// Whichever item is last of these would be late; this one by the least.
    Late { item: usize, bound: Option<Duration> },
    /// There are not as many priorities.
    Priorities(usize),
}

pub(super) fn longest_poll(network: &HostNetwork) -> Poll {
    Poll { packets: network.poll, capacity: network.capacity, late: Duration::ZERO }
}

pub(super) fn flow(network: &HostNetwork, bucket: Bucket) -> Flow {
    Flow { bucket, capacity: network.capacity }
}

/// Places all items, in the order in which they are given; `None`: no way was found.
pub(super) fn place(network: &HostNetwork, items: &[Item]) -> Result<Option<Placed>, Error> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&item| (Reverse(items[item].uplink), Reverse(items[item].bucket.rate)));
    let mut cores = vec![Vec::new(); network.cores.len()];
    for &item in &order {
        let least = (0..cores.len()).min_by_key(|&core| rate(items, &cores[core]));
        cores[least.ok_or(Error::NoCapacity)?].push(item);
    }
    let how = "where least comes: ReBalance, the highest rate first";
    if let Some(placed) = placed(network, items, &cores, how)? {
        return Ok(Some(placed));
    }
    if cores.len() == 1 {
        return Ok(None);
    }
    // Hardest first: uplinks, then by how soon they have to be served.
    order.sort_by_key(|&item| {
        let one = &items[item];
        (Reverse(one.uplink), one.within.unwrap_or(Duration::from_ns(u64::MAX)), Reverse(one.bucket.rate))
    });
    let mut cores = vec![Vec::new(); network.cores.len()];
    let mut work = WORK;
    let how = "where all promises are kept; the least loaded core for each does not keep them";
    match search(network, items, &order, &mut cores, &mut work)? {
        true => placed(network, items, &cores, how),
        false => Ok(None),
    }
}

fn rate(items: &[Item], core: &[usize]) -> u128 {
    core.iter().map(|&item| load(items[item].bucket.rate)).sum()
}

/// Packets in 10^18 ns, whole ones: enough to tell loads apart.
pub(super) fn load(rate: Rate) -> u128 {
    let (packets, ns) = rate.fraction();
    u128::from(packets) * 1_000_000_000_000_000_000 / u128::from(ns)
}

/// How many times longer than it should be, in millionths.
pub(super) fn over(time: Duration, at_most: Duration) -> u128 {
    u128::from(time.ns()) * 1_000_000 / u128::from(at_most.ns().max(1))
}

/// Depth first, the least loaded core first; of empty cores one is enough. A core that is too full stays so.
fn search(
    network: &HostNetwork,
    items: &[Item],
    order: &[usize],
    cores: &mut Vec<Vec<usize>>,
    work: &mut usize,
) -> Result<bool, Error> {
    let Some((&item, rest)) = order.split_first() else { return Ok(true) };
    let mut by_load: Vec<usize> = (0..cores.len()).collect();
    by_load.sort_by_key(|&core| rate(items, &cores[core]));
    let mut empty = false;
    for core in by_load {
        if cores[core].is_empty() && std::mem::replace(&mut empty, true) {
            continue;
        }
        let cost = (cores[core].len() + 1).pow(2);
        let Some(left) = work.checked_sub(cost) else { return Ok(false) };
        *work = left;
        cores[core].push(item);
        if ranked(network, items, &cores[core])?.is_ok() && search(network, items, rest, cores, work)? {
            return Ok(true);
        }
        cores[core].pop();
    }
    Ok(false)
}

fn placed(
    network: &HostNetwork,
    items: &[Item],
    cores: &[Vec<usize>],
    how: &'static str,
) -> Result<Option<Placed>, Error> {
    let mut places = vec![Place { core: 0, rank: 0, bound: Duration::ZERO }; items.len()];
    for (core, here) in cores.iter().enumerate() {
        let Ok(ranked) = ranked(network, items, here)? else { return Ok(None) };
        ranked.into_iter().for_each(|(item, rank, bound)| places[item] = Place { core, rank, bound });
    }
    Ok(Some(Placed { places, how }))
}

/// An item, its rank and its bound.
type Ranked = Vec<(usize, u8, Duration)>;

/// Priorities for the items of one core: Audsley's, as a bound depends on which items are above and not on their order. The last
/// is an item that is in time there; of several the one that has the most time. O(items³).
pub(super) fn ranked(network: &HostNetwork, items: &[Item], here: &[usize]) -> Result<Result<Ranked, Wrong>, Error> {
    let flows =
        |of: &mut dyn Iterator<Item = usize>| of.map(|item| flow(network, items[item].bucket)).collect::<Vec<Flow>>();
    let poll = longest_poll(network);
    let late = |item: usize| Poll { late: items[item].late, ..poll };
    let busy = busy(&flows(&mut here.iter().copied()), poll)?;
    if busy > LIMIT {
        return Ok(Err(Wrong::Busy(busy)));
    }
    let (uplinks, mut left): (Vec<usize>, Vec<usize>) = here.iter().partition(|&&item| items[item].uplink);
    let (most, all) = (usize::from(VIF), usize::from(UPLINK - VIF - 1));
    if left.len() > most || uplinks.len() > all {
        return Ok(Err(Wrong::Priorities(if left.len() > most { most } else { all })));
    }
    let mut found = Vec::new();
    for (nth, &uplink) in uplinks.iter().enumerate() {
        let bound = delay_bound(
            &flows(&mut uplinks[..nth].iter().copied()),
            flow(network, items[uplink].bucket),
            late(uplink),
        )?;
        found.push((uplink, nth as u8, bound.ok_or(Error::Wait)?));
    }
    while !left.is_empty() {
        let mut last: Option<(Duration, usize, Duration)> = None; // its time, its place in `left`, its bound
        let mut missed: Option<(u128, usize, Option<Duration>)> = None;
        for (at, &item) in left.iter().enumerate() {
            let above = flows(&mut uplinks.iter().chain(left.iter().filter(|&&other| other != item)).copied());
            let bound = delay_bound(&above, flow(network, items[item].bucket), late(item))?;
            let within = items[item].within.unwrap_or(Duration::from_ns(u64::MAX));
            match bound.filter(|bound| *bound <= within) {
                Some(bound) if last.is_none_or(|(most, ..)| within > most) => last = Some((within, at, bound)),
                Some(_) => {}
                None => {
                    let by = bound.map_or(u128::MAX, |bound| over(bound, within));
                    if missed.is_none_or(|(least, ..)| by < least) {
                        missed = Some((by, item, bound));
                    }
                }
            }
        }
        match (last, missed) {
            (Some((_, at, bound)), _) => {
                let rank = left.len() as u8 - 1;
                found.push((left.remove(at), rank, bound));
            }
            (None, Some((_, item, bound))) => return Ok(Err(Wrong::Late { item, bound })),
            (None, None) => return Err(Error::NoCapacity),
        }
    }
    Ok(Ok(found))
}
