//! Servers onto cores, each core by EDF-VD.

use super::sums::Sums;
use super::verdict::{check, Refused};
use super::vm::Vm;
use crate::admission::Fit;
use giusto_model::Bandwidth;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// Which server is on which core. No server moves afterwards, a high one never.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The servers of each core, by their places in the list, ascending.
    pub cores: Vec<Vec<usize>>,
}

impl Placement {
    /// Cores without a server, which may sleep.
    pub fn idle(&self) -> usize {
        self.cores.iter().filter(|core| core.is_empty()).count()
    }
}

/// A server that no core takes beside those that were placed before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementRefusal {
    /// Which, by its place in the list.
    pub vm: usize,
}

/// The core of each server, of `cores` of which each gives `capacity`.
///
/// First-fit is Asy20's: in the order of the list, each on the first core that takes it by the test of EDF-VD, so that as few
/// cores as possible are in use. Best-fit and worst-fit, for comparison, go by decreasing U (pessimistic of high ones), to the core
/// that takes it and has most, or least, of U1(1) + U2(2); of equal ones to the first. Heuristics: where they find no place
/// there may be one. O(n · cores) tests. Errors: a server that makes no sense.
pub fn place(
    vms: &[Vm],
    capacity: Bandwidth,
    cores: usize,
    fit: Fit,
) -> Result<Result<Placement, PlacementRefusal>, Refused> {
    check(vms)?;
    let mut order: Vec<usize> = (0..vms.len()).collect();
    if fit != Fit::First {
        order.sort_by_cached_key(|&vm| Reverse(Bandwidth::of(vms[vm].worst, vms[vm].period)));
        // stable
    }
    let mut placed = vec![(Vec::new(), Sums::none()); cores];
    for vm in order {
        let mut takers = (0..cores).filter_map(|core| {
            let sums = placed[core].1.clone().with(&vms[vm]);
            sums.fits(capacity).then_some((core, sums))
        });
        let before = |core: usize| placed[core].1.most();
        let chosen = match fit {
            Fit::First => takers.next(),
            Fit::Best => takers.min_by_key(|(core, _)| Reverse(before(*core))),
            Fit::Worst => takers.min_by_key(|(core, _)| before(*core)),
        };
        let Some((core, sums)) = chosen else { return Ok(Err(PlacementRefusal { vm })) };
        placed[core].0.push(vm);
        placed[core].1 = sums;
    }
    let sorted = |(mut core, _): (Vec<usize>, Sums)| {
        core.sort_unstable();
        core
    };
    Ok(Ok(Placement { cores: placed.into_iter().map(sorted).collect() }))
}
