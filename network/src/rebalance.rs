//! Which core processes whose packets: ReBalance (LiC20, algorithm 1) over measured loads, and the rule that it replaces.
//!
//! Pure. Loads are any measure of work, here packets a second. `base` is what each core has already and keeps.

use giusto_model::PacketClass;

/// An interface that may be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vif {
    /// Its name; ties are broken by it, so that the same loads give the same places.
    pub name: String,
    /// Where it is: an index of the cores.
    pub at: usize,
    /// What it costs.
    pub load: u64,
}

/// An interface that goes to another core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which.
    pub name: String,
    /// The core that it leaves.
    pub from: u32,
    /// The core that it goes to.
    pub to: u32,
}

/// Least load first: the vifs by falling load, each to the core that has least by then. A core index for each vif. With equal
/// loads a vif stays where it is. O(n (log n + m)).
pub fn least_load_first(base: &[u64], vifs: &[Vif]) -> Vec<usize> {
    let mut load = base.to_vec();
    let mut order: Vec<usize> = (0..vifs.len()).collect();
    order.sort_by(|&a, &b| vifs[b].load.cmp(&vifs[a].load).then_with(|| vifs[a].name.cmp(&vifs[b].name)));
    let mut places: Vec<usize> = vifs.iter().map(|vif| vif.at).collect();
    for index in order {
        let vif = &vifs[index];
        let Some(core) = (0..load.len()).min_by_key(|&core| (load[core], core != vif.at, core)) else { break };
        load[core] = load[core].saturating_add(vif.load);
        places[index] = core;
    }
    places
}

/// Least number first: each vif, in the order in which they came, to the core that has fewest by then; loads do not count. What
/// drivers/net/xen-netback does once and for all.
pub fn least_number_first(cores: usize, vifs: usize) -> Vec<usize> {
    (0..vifs).map(|vif| vif % cores.max(1)).collect()
}

/// The load of the busiest core.
pub fn busiest(base: &[u64], vifs: &[Vif], places: &[usize]) -> u64 {
    let mut load = base.to_vec();
    for (vif, &core) in vifs.iter().zip(places) {
        if let Some(load) = load.get_mut(core) {
            *load = load.saturating_add(vif.load);
        }
    }
    load.into_iter().max().unwrap_or(0)
}

/// Least load first if that takes at least a fifth off the busiest core, else no thread moves: moving a thread costs up to
/// milliseconds under load, and measured loads swing. To the `closed` cores none moves; one that would stays where it is.
pub fn worthwhile(base: &[u64], vifs: &[Vif], closed: &[usize]) -> Vec<usize> {
    let stay: Vec<usize> = vifs.iter().map(|vif| vif.at).collect();
    let go = least_load_first(base, vifs).into_iter().zip(&stay);
    let go: Vec<usize> = go.map(|(to, &at)| if closed.contains(&to) { at } else { to }).collect();
    let (now, then) = (busiest(base, vifs, &stay), busiest(base, vifs, &go));
    if u128::from(then) * 5 <= u128::from(now) * 4 && then < now {
        go
    } else {
        stay
    }
}

/// A vif of the high class on a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Its name.
    pub name: String,
    /// What the plan gave it.
    pub planned: u8,
    /// Whether it was promised something: who moves in comes after it, whatever the plan gave that one, or the proof would be void.
    pub promised: bool,
}

/// Priorities of the vifs of one core, none above the plan's. Those that were promised something keep the plan's, which they
/// may share, as their proofs count that. The others come after them in the plan's order (equal ones by name), each with one of
/// its own as long as there are any, then together with the last. `None`: there is none after those with a promise.
pub fn priorities(all: &[Ranked]) -> Option<Vec<u8>> {
    let mut order: Vec<&Ranked> = all.iter().collect();
    order.sort_by(|a, b| (b.promised, b.planned).cmp(&(a.promised, a.planned)).then_with(|| a.name.cmp(&b.name)));
    let last = order.iter().filter(|vif| vif.promised).map(|vif| vif.planned).min().unwrap_or(u8::MAX);
    let (mut below, mut given) = (last, Vec::new());
    for vif in order {
        if !vif.promised {
            below = vif.planned.min(below.saturating_sub(1)).max(1);
        }
        given.push((vif, if vif.promised { vif.planned } else { below }));
    }
    let of = |vif: &Ranked| given.iter().find(|(known, _)| *known == vif).map(|(_, priority)| *priority);
    let fits = last > 1 || all.iter().all(|vif| vif.promised);
    all.iter().map(of).collect::<Option<Vec<u8>>>().filter(|_| fits)
}

/// Whether an interface may be moved at all: one that was promised something stays where its proof has put it.
pub fn may_move(class: PacketClass, promised: bool) -> bool {
    class == PacketClass::Low || !promised
}

#[cfg(test)]
#[path = "rebalance_tests.rs"]
mod tests;
