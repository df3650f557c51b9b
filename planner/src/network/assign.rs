//! Cores and priorities for the high class, with all promises kept.

use giusto_analysis::packets::{busy, delay_bound, Ahead, Flow, Poll};
use giusto_analysis::Error;
use giusto_model::{BitRate, Bucket, Duration, HostNetwork, PacketClass, Rate, Vif};
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
    /// What arrives at an uplink, or what an interface sends.
    pub(super) bucket: Bucket,
    /// The same of what is sent to an interface, where it is not as much.
    pub(super) received: Option<Bucket>,
    /// What is sent is also limited to so many bits.
    pub(super) bits: Option<BitRate>,
    pub(super) uplink: bool,
    /// The shortest time of its promise: what is proven holds for all packets.
    pub(super) within: Option<Duration>,
    /// How late its host is.
    pub(super) late: Duration,
}

impl Item {
    pub(super) fn uplink(name: &str, bucket: Bucket) -> Item {
        let (received, bits, within, late) = (None, None, None, Duration::ZERO);
        Item { name: name.into(), bucket, received, bits, uplink: true, within, late }
    }
    /// `None`: it is of the low class.
    pub(super) fn vif(vif: &Vif) -> Option<Item> {
        let sent = vif.bucket.filter(|_| vif.class == PacketClass::High)?;
        let within = vif.promise.iter().map(|point| point.within).min();
        let received = vif.received.map(|received| received.packets());
        let (name, bucket, bits) = (vif.name.clone(), sent.packets(), sent.bits);
        Some(Item { name, bucket, received, bits, uplink: false, within, late: Duration::ZERO })
    }
    /// What its threads process: of an uplink what arrives, of an interface both directions.
    pub(super) fn buckets(&self) -> impl Iterator<Item = Bucket> {
        let received = (!self.uplink).then(|| self.received.unwrap_or(self.bucket));
        [self.bucket].into_iter().chain(received)
    }
    pub(super) fn load(&self) -> u128 {
        self.buckets().map(|bucket| load(bucket.rate)).sum()
    }
}

/// Where an item is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Its place among the host's network cores.
    pub(super) core: usize,
    /// How many priorities of its core are above it, those of uplinks not counted. Interfaces may share one.
    pub(super) rank: u8,
    pub(super) bound: Duration,
}

/// A place for each item.
pub(super) struct Placed {
    pub(super) places: Vec<Place>,
    /// So many of the first cores are quiet: no uplink is there, and nothing of the low class may be.
    pub(super) quiet: usize,
    /// How the cores were chosen.
    pub(super) how: &'static str,
}

/// What is wrong with the items of a core.
pub(super) enum Wrong {
    /// They run for too long in a second.
    Busy(Duration),
    /// Whichever item is last of these would be late; this one by the least.
    Late { item: usize, bound: Option<Duration> },
    /// There are so many priorities, and promises need more.
    Priorities(usize),
}

pub(super) fn longest_poll(network: &HostNetwork) -> Poll {
    Poll { packets: network.poll, capacity: network.capacity, late: Duration::ZERO }
}

pub(super) fn flow(network: &HostNetwork, bucket: Bucket) -> Flow {
    Flow { bucket, capacity: network.capacity }
}

/// Places all items, in the order in which they are given; `None`: no way was found. `shared`: so many cores at least are not
/// quiet, as there is a low class. Cores are quiet only where promises are not kept else: the low class has fewer then.
pub(super) fn place(network: &HostNetwork, items: &[Item], shared: usize) -> Result<Option<Placed>, Error> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&item| (Reverse(items[item].uplink), Reverse(items[item].load())));
    let mut cores = vec![Vec::new(); network.cores.len()];
    for &item in &order {
        let least = (0..cores.len()).min_by_key(|&core| rate(items, &cores[core]));
        cores[least.ok_or(Error::NoCapacity)?].push(item);
    }
    let how = "where least comes: ReBalance, the highest rate first";
    if let Some(placed) = placed(network, items, &cores, 0, how)? {
        return Ok(Some(placed));
    }
    // Hardest first: uplinks, then by how soon they have to be served.
    order.sort_by_key(|&item| {
        let one = &items[item];
        (Reverse(one.uplink), one.within.unwrap_or(Duration::from_ns(u64::MAX)), Reverse(one.load()))
    });
    let how = "where all promises are kept; the least loaded core for each does not keep them";
    let shared = shared.max(usize::from(items.iter().any(|item| item.uplink)));
    // With one core there is but one way, which was tried; and without promises nothing is kept by quiet ones.
    let first = usize::from(cores.len() == 1);
    let is_promised = items.iter().any(|item| item.within.is_some());
    let last = if is_promised { network.cores.len().saturating_sub(shared) } else { 0 };
    for quiet in first..=last {
        // Half as much again for all that are quiet.
        let mut work = if quiet == 0 { WORK } else { WORK / 2 / last };
        let mut cores = vec![Vec::new(); network.cores.len()];
        if search(network, items, &order, quiet, &mut cores, &mut work)? {
            return placed(network, items, &cores, quiet, how);
        }
    }
    Ok(None)
}

fn rate(items: &[Item], core: &[usize]) -> u128 {
    core.iter().map(|&item| items[item].load()).sum()
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

/// Depth first, the least loaded core first, quiet ones last; of empty cores one of each kind is enough. A core that is too full
/// stays so.
fn search(
    network: &HostNetwork,
    items: &[Item],
    order: &[usize],
    quiet: usize,
    cores: &mut Vec<Vec<usize>>,
    work: &mut usize,
) -> Result<bool, Error> {
    let Some((&item, rest)) = order.split_first() else { return Ok(true) };
    let from = if items[item].uplink { quiet } else { 0 };
    let mut by_load: Vec<usize> = (from..cores.len()).collect();
    by_load.sort_by_key(|&core| (core < quiet, rate(items, &cores[core])));
    let mut empty = [false; 2];
    for core in by_load {
        if cores[core].is_empty() && std::mem::replace(&mut empty[usize::from(core < quiet)], true) {
            continue;
        }
        let cost = (cores[core].len() + 1).pow(2);
        let Some(left) = work.checked_sub(cost) else { return Ok(false) };
        *work = left;
        cores[core].push(item);
        let fits = ranked(network, items, &cores[core], core < quiet)?.is_ok();
        if fits && search(network, items, rest, quiet, cores, work)? {
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
    quiet: usize,
    how: &'static str,
) -> Result<Option<Placed>, Error> {
    let mut places = vec![Place { core: 0, rank: 0, bound: Duration::ZERO }; items.len()];
    for (core, here) in cores.iter().enumerate() {
        let Ok(ranked) = ranked(network, items, here, core < quiet)? else { return Ok(None) };
        ranked.into_iter().for_each(|(item, rank, bound)| places[item] = Place { core, rank, bound });
    }
    Ok(Some(Placed { places, quiet, how }))
}

/// An item, its rank and its bound.
type Ranked = Vec<(usize, u8, Duration)>;

/// Priorities for the items of one core: Audsley's, as a bound depends on which items are ahead and not on their order. The
/// last is an item that is in time there; of several the one that has the most time. Where there are more items than
/// priorities, as many as it takes share the last ones: all that are in time with all others ahead can, as each of them has the
/// same ahead then.
///
/// What an item waits for is a poll of those below it. On a quiet core those are items only, of which a poll is no longer than
/// what they may have waiting. O(items²).
pub(super) fn ranked(
    network: &HostNetwork,
    items: &[Item],
    here: &[usize],
    is_quiet: bool,
) -> Result<Result<Ranked, Wrong>, Error> {
    let own = |item: usize| items[item].buckets().map(|bucket| flow(network, bucket)).collect::<Vec<Flow>>();
    let flows = |of: &[usize]| of.iter().flat_map(|&item| own(item)).collect::<Vec<Flow>>();
    let poll = longest_poll(network);
    let late = |item: usize| Poll { late: items[item].late, ..poll };
    let in_a_row = busy(&[], poll)?;
    let busy = busy(&flows(here), poll)?;
    if busy > LIMIT {
        return Ok(Err(Wrong::Busy(busy)));
    }
    let (uplinks, mut left): (Vec<usize>, Vec<usize>) = here.iter().partition(|&&item| items[item].uplink);
    let most = usize::from(UPLINK - VIF - 1);
    if uplinks.len() > most {
        return Ok(Err(Wrong::Priorities(most)));
    }
    let mut found = Vec::new();
    for (nth, &uplink) in uplinks.iter().enumerate() {
        let bound = delay_bound(&flows(&uplinks[..nth]), flow(network, items[uplink].bucket), late(uplink))?;
        found.push((uplink, nth as u8, bound.ok_or(Error::Wait)?));
    }
    let mut all = Ahead::of(&flows(here))?;
    let mut below = if is_quiet { 0 } else { network.poll };
    // From the last one on; each is shared by some.
    let mut classes: Vec<Vec<(usize, Duration)>> = Vec::new();
    while !left.is_empty() {
        let free = usize::from(VIF) - classes.len();
        if free == 0 {
            return Ok(Err(Wrong::Priorities(classes.len())));
        }
        let mut in_time: Vec<(Duration, usize, Duration)> = Vec::new(); // an item's time, itself, its bound
        let mut missed: Option<(u128, usize, Option<Duration>)> = None;
        for &item in &left {
            let own = own(item);
            let poll = Poll { packets: below, ..late(item) };
            let bound = both_ways(&all.without(&Ahead::of(&own)?), &own, poll)?;
            let within = items[item].within.unwrap_or(Duration::from_ns(u64::MAX));
            match bound.filter(|bound| *bound <= within) {
                Some(bound) => in_time.push((within, item, bound)),
                None => {
                    let by = bound.map_or(u128::MAX, |bound| over(bound, within));
                    if missed.is_none_or(|(least, ..)| by < least) {
                        missed = Some((by, item, bound));
                    }
                }
            }
        }
        in_time.sort_by_key(|(within, ..)| Reverse(*within));
        in_time.truncate(1 + left.len().saturating_sub(free));
        match missed {
            Some((_, item, bound)) if in_time.is_empty() => return Ok(Err(Wrong::Late { item, bound })),
            _ => {}
        }
        for (_, item, bound) in &in_time {
            // What a poll finds came while its first packet waited, or during the poll.
            let within = bound.checked_add(in_a_row).ok_or(Error::Wait)?;
            let waiting = items[*item].buckets().map(|bucket| waiting(bucket, within)).max().unwrap_or(0);
            below = below.max(waiting.min(network.poll.into()) as u32);
            left.retain(|other| other != item);
            all = all.without(&Ahead::of(&own(*item))?);
        }
        classes.push(in_time.into_iter().map(|(_, item, bound)| (item, bound)).collect());
    }
    for (rank, class) in classes.into_iter().rev().enumerate() {
        found.extend(class.into_iter().map(|(item, bound)| (item, rank as u8, bound)));
    }
    Ok(Ok(found))
}

/// Packets that a bucket lets through in so long, rounded up.
fn waiting(bucket: Bucket, within: Duration) -> u128 {
    let ((packets, ns), (depth, parts)) = (bucket.rate.fraction(), bucket.depth.fraction());
    u128::from(depth.div_ceil(parts.max(1)))
        + (u128::from(packets) * u128::from(within.ns())).div_ceil(ns.max(1).into())
}

/// The longest of what an interface sends and of what is sent to it. Both directions have threads of the same priority, of which
/// the one that runs goes on: so each is above the other.
fn both_ways(above: &Ahead, own: &[Flow], poll: Poll) -> Result<Option<Duration>, Error> {
    let mut longest = Some(Duration::ZERO);
    let both = above.and(&Ahead::of(own)?);
    for one in own {
        let bound = both.without(&Ahead::of(&[*one])?).delay_bound(*one, poll)?;
        longest = longest.zip(bound).map(|(longest, bound)| longest.max(bound));
    }
    Ok(longest)
}
