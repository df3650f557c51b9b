//! Servers onto cores, each admitted where it is put.

use super::servers::check;
use super::{admit, Grids, Order, Refused};
use crate::Error;
use giusto_model::{Bandwidth, Server};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// Which of the cores that admit a server gets it; of equal ones the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// The first.
    First,
    /// The one with the largest bandwidth in use.
    Best,
    /// The one with the least.
    Worst,
}

/// A server that no core admits beside those that were placed before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementRefusal {
    /// Which, by its place in the list.
    pub server: usize,
    /// Why not, core by core; servers are named by their place in the list.
    pub refused: Vec<Refused>,
}

/// The core of each server, of `cores` alike, by decreasing bandwidth; of equal ones the first in the list comes first.
///
/// Under fixed priorities the servers of a core keep the order of the list. A heuristic: where it finds no place there may be
/// one. O(n · cores) admissions. Errors: as [`admit`].
pub fn place(
    servers: &[Server],
    order: Order,
    grids: Grids,
    capacity: Bandwidth,
    cores: u32,
    fit: Fit,
) -> Result<Result<Vec<usize>, PlacementRefusal>, Error> {
    check(servers)?;
    let mut falling: Vec<usize> = (0..servers.len()).collect();
    falling.sort_by_key(|&index| Reverse(servers[index].bandwidth()));
    // By core: its servers by their place in the list, ascending, and their bandwidth.
    let mut on = vec![(Vec::new(), Bandwidth::ZERO); cores as usize];
    for index in falling {
        let mut room = Vec::new();
        let mut refused = Vec::new();
        for (core, (others, _)) in on.iter().enumerate() {
            let with = joined(others, index);
            let here: Vec<Server> = with.iter().map(|&index| servers[index]).collect();
            match admit(&here, order, grids, capacity)? {
                Ok(admitted) => room.push((core, with, admitted.bandwidth)),
                Err(why) => refused.push(why.renamed(&with)),
            }
        }
        let used = |core: usize| on[core].1;
        let chosen = match fit {
            Fit::First => room.into_iter().next(),
            Fit::Best => room.into_iter().min_by_key(|(core, ..)| Reverse(used(*core))),
            Fit::Worst => room.into_iter().min_by_key(|(core, ..)| used(*core)),
        };
        let Some((core, with, bandwidth)) = chosen else {
            return Ok(Err(PlacementRefusal { server: index, refused }));
        };
        on[core] = (with, bandwidth);
    }
    let mut placed = vec![0; servers.len()];
    for (core, (here, _)) in on.iter().enumerate() {
        here.iter().for_each(|&index| placed[index] = core);
    }
    Ok(Ok(placed))
}

/// The others and one more, ascending.
fn joined(others: &[usize], index: usize) -> Vec<usize> {
    let mut with = others.to_vec();
    with.insert(with.partition_point(|&other| other < index), index);
    with
}

impl Refused {
    /// What was found of some servers, in words of a list of which these are the places.
    fn renamed(mut self, places: &[usize]) -> Self {
        if let Refused::Window(window) = &mut self {
            window.server = places[window.server];
        }
        self
    }
}
