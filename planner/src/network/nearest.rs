//! Who of the high class has no place, and what would give it one.

use super::assign::{over, place, ranked, Item, Placed, Wrong, LIMIT};
use super::refusal::{PacketCause, PacketFit, PacketRefusal};
use giusto_analysis::Error;
use giusto_model::{Bucket, Duration, Host, HostNetwork, Rate, Tokens};

/// The first item, in the order of the site, that has no place beside those before it, and what it could be instead.
/// `shared` as of [`place`].
pub(super) fn refusal(
    host: &Host,
    network: &HostNetwork,
    items: &[Item],
    shared: usize,
) -> Result<Box<PacketRefusal>, Error> {
    let fits = |network: &HostNetwork, items: &[Item]| place(network, items, shared).map(|placed| placed.is_some());
    let (mut good, mut bad) = (0, items.len());
    while bad - good > 1 {
        let count = good + (bad - good) / 2;
        *(if fits(network, &items[..count])? { &mut good } else { &mut bad }) = count;
    }
    let (items, own) = (&items[..bad], bad - 1);
    let cause = cause(network, items, own, shared)?;
    let changed = |network: &HostNetwork, change: &dyn Fn(&mut Item)| {
        let mut items = items.to_vec();
        change(&mut items[own]);
        fits(network, &items)
    };
    let mut nearest = Vec::new();
    let Bucket { rate, depth } = items[own].bucket;
    let slower = |packets| Rate::of(packets, Duration::from_ms(1000)).ok_or(Error::Wait);
    let with_rate = |packets| slower(packets).and_then(|rate| changed(network, &|item| item.bucket.rate = rate));
    if let Some(packets) = largest(rate.per_second().ceil() as u64, &with_rate)? {
        nearest.push(PacketFit::Rate(slower(packets)?, items[own].bits));
    }
    let with_burst = |packets| changed(network, &|item| item.bucket.depth = Tokens::whole(packets));
    if let Some(packets) = largest(depth.at_once(), &with_burst)? {
        nearest.push(PacketFit::Burst(packets));
    }
    if items[own].within.is_some() {
        let mut patient = items.to_vec();
        patient[own].within = None;
        if let Some(bound) = place(network, &patient, shared)?.map(|placed| placed.places[own].bound) {
            if changed(network, &|item| item.within = Some(bound))? {
                nearest.push(PacketFit::Within(bound));
            }
        }
    }
    let new = (0..).find(|core| !network.cores.contains(core) && !host.cores.contains(core));
    let more = HostNetwork { cores: network.cores.iter().copied().chain(new).collect(), ..network.clone() };
    if fits(&more, items)? {
        nearest.push(PacketFit::Cores(more.cores.len()));
    }
    Ok(Box::new(PacketRefusal { host: host.name.clone(), interface: items[own].name.clone(), cause, nearest }))
}

/// The largest number below `now` that is enough; `None`: not even 1.
fn largest(now: u64, enough: &dyn Fn(u64) -> Result<bool, Error>) -> Result<Option<u64>, Error> {
    if now <= 1 || !enough(1)? {
        return Ok(None);
    }
    let (mut good, mut bad) = (1, now);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        *(if enough(middle)? { &mut good } else { &mut bad }) = middle;
    }
    Ok(Some(good))
}

/// What is wrong where the others have their places and the last one is added to the core where it is the least trouble.
fn cause(network: &HostNetwork, items: &[Item], own: usize, shared: usize) -> Result<PacketCause, Error> {
    let others = place(network, &items[..own], shared)?;
    let is_quiet = |core: usize| others.as_ref().is_some_and(|others| core < others.quiet);
    let mut best: Option<(u128, PacketCause)> = None;
    for (index, core) in network.cores.iter().enumerate() {
        let here = |places: &Placed| (0..own).filter(|item| places.places[*item].core == index).collect::<Vec<_>>();
        let mut here = others.as_ref().map_or(Vec::new(), here);
        here.push(own);
        let (trouble, cause) = match ranked(network, items, &here, is_quiet(index))? {
            Ok(_) => continue,
            Err(Wrong::Busy(busy)) => {
                let cause = PacketCause::Busy { core: *core, demand: busy, supply: LIMIT };
                (over(busy, LIMIT) << 64, cause)
            }
            Err(Wrong::Priorities(most)) => (u128::MAX, PacketCause::Priorities { core: *core, most }),
            Err(Wrong::Late { item, bound }) => {
                let promised = items[item].within.unwrap_or(Duration::ZERO);
                let last = items[item].name.clone();
                let by = bound.map_or(1 << 64, |bound| over(bound, promised));
                (by, PacketCause::Late { core: *core, last, promised, bound })
            }
        };
        if best.as_ref().is_none_or(|(least, _)| trouble < *least) {
            best = Some((trouble, cause));
        }
    }
    Ok(best.map_or(PacketCause::Search, |(_, cause)| cause))
}
