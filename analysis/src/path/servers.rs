//! The cheapest servers for a path: which budget and period each of its stages gets, all of them together.

use super::error::PathError;
use super::net::{Net, Stage};
use super::optimum::within;
use crate::response::Share;
use crate::Error;
use giusto_model::{Bandwidth, Duration};
use std::collections::HashMap;

/// So many messages may take longer than a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// Between 0 and 1.
    pub beyond: f64,
    /// The time.
    pub within: Duration,
}

/// Shares that keep all promises.
#[derive(Clone, Debug, PartialEq)]
pub struct Servers {
    /// By stage; `None` where there was nothing to choose.
    pub shares: Vec<Option<Share>>,
    /// What they take together, in cores.
    pub bandwidth: Bandwidth,
    /// What was looked at.
    pub looked: usize,
}

/// The candidates of the stages that are chosen, by bandwidth.
struct Search<'a> {
    net: &'a Net,
    flow: usize,
    promises: &'a [Promise],
    stages: Vec<usize>,
    candidates: Vec<Vec<Share>>,
    /// Time over what is promised, at its largest, by choice; infinite where there is no bound.
    known: HashMap<Vec<usize>, f64>,
}

/// For each stage of `candidates` that is not empty one of them, such that `flow` keeps all `promises` with the least bandwidth that is
/// found; `None` where even the largest shares do not.
///
/// From the largest shares down: each stage to the least that keeps the promises, and then pairs of stages, one larger and one smaller,
/// as long as that saves something. O(stages² · candidates) bounds. On small grids that is what looking at all of them finds
/// (`analysis/tests/path_servers.rs`).
///
/// # Errors
/// As [`within`], but for a load that does not fit.
pub fn cheapest(
    net: &Net,
    flow: usize,
    promises: &[Promise],
    candidates: &[Vec<Share>],
) -> Result<Option<Servers>, Error> {
    net.check()?;
    let stages: Vec<usize> = (0..candidates.len()).filter(|stage| !candidates[*stage].is_empty()).collect();
    let sorted = stages.iter().map(|stage| {
        let mut all = candidates[*stage].clone();
        all.sort_by_key(|share| (bandwidth(*share), std::cmp::Reverse(share.period)));
        all
    });
    let candidates = sorted.collect();
    let mut search = Search { net, flow, promises, stages, candidates, known: HashMap::new() };
    let Some(choice) = search.start()? else { return Ok(None) };
    let choice = search.down(choice)?;
    let mut shares = vec![None; net.stages.len()];
    for (place, stage) in search.stages.iter().enumerate() {
        shares[*stage] = Some(search.candidates[place][choice[place]]);
    }
    Ok(Some(Servers { shares, bandwidth: search.total(&choice), looked: search.known.len() }))
}

fn bandwidth(share: Share) -> Bandwidth {
    Bandwidth::of(share.budget, share.period).unwrap_or(Bandwidth::ONE)
}

/// Times round while pairs are looked at.
const ROUNDS: usize = 20;

impl Search<'_> {
    fn total(&self, choice: &[usize]) -> Bandwidth {
        let each = choice.iter().enumerate().map(|(place, at)| bandwidth(self.candidates[place][*at]));
        each.fold(Bandwidth::ZERO, |sum, share| sum.checked_add(share).unwrap_or(Bandwidth::ONE))
    }

    /// How much of the time that is promised is needed, at most: kept up to 1.
    fn need(&mut self, choice: &[usize]) -> Result<f64, Error> {
        if let Some(need) = self.known.get(choice) {
            return Ok(*need);
        }
        let mut net = self.net.clone();
        for (place, stage) in self.stages.iter().enumerate() {
            if let Stage::Share { share, .. } = &mut net.stages[*stage] {
                *share = self.candidates[place][choice[place]];
            }
        }
        let mut need = 0.0f64;
        for promise in self.promises {
            need = match within(&net, self.flow, promise.beyond) {
                Ok(found) => need.max(found.within.ns() as f64 / promise.within.ns() as f64),
                Err(Error::Path(PathError::Stage { full: true, .. }) | Error::Unstable { .. }) => f64::INFINITY,
                Err(error) => return Err(error),
            };
            if need > 1.0 {
                break;
            }
        }
        self.known.insert(choice.to_vec(), need);
        Ok(need)
    }

    fn kept(&mut self, choice: &[usize]) -> Result<bool, Error> {
        Ok(self.need(choice)? <= 1.0)
    }

    /// The largest shares; where they do not keep the promises, those of other periods that come nearest.
    fn start(&mut self) -> Result<Option<Vec<usize>>, Error> {
        let mut choice: Vec<usize> = self.candidates.iter().map(|all| all.len() - 1).collect();
        let mut need = self.need(&choice)?;
        for place in 0..choice.len() {
            // The largest of each period.
            let mut seen = Vec::new();
            for at in (0..self.candidates[place].len()).rev() {
                let period = self.candidates[place][at].period;
                if seen.contains(&period) {
                    continue;
                }
                seen.push(period);
                let mut other = choice.clone();
                other[place] = at;
                let needed = self.need(&other)?;
                if needed < need && need > 1.0 {
                    (need, choice) = (needed, other);
                }
            }
        }
        Ok((need <= 1.0).then_some(choice))
    }

    /// Cheaper and cheaper ones.
    fn down(&mut self, mut choice: Vec<usize>) -> Result<Vec<usize>, Error> {
        for _ in 0..ROUNDS {
            let best = self.best(&choice)?;
            match best {
                Some(next) => choice = next,
                None => break,
            }
        }
        Ok(choice)
    }

    /// The cheapest choice that differs in one stage, or in two.
    fn best(&mut self, choice: &[usize]) -> Result<Option<Vec<usize>>, Error> {
        let mut best: Option<(Bandwidth, Vec<usize>)> = None;
        let mut most = self.total(choice);
        for place in 0..choice.len() {
            let mut changes = vec![choice.to_vec()];
            for other in (0..choice.len()).filter(|other| *other != place) {
                changes.extend((0..self.candidates[other].len()).filter(|at| *at != choice[other]).map(|at| {
                    let mut changed = choice.to_vec();
                    changed[other] = at;
                    changed
                }));
            }
            for changed in changes {
                if let Some(found) = self.least(&changed, place, most)? {
                    most = self.total(&found);
                    best = Some((most, found));
                }
            }
        }
        Ok(best.map(|(_, choice)| choice))
    }

    /// The cheapest candidate of one stage that keeps the promises for less than `most` in all.
    fn least(&mut self, choice: &[usize], place: usize, most: Bandwidth) -> Result<Option<Vec<usize>>, Error> {
        for at in 0..self.candidates[place].len() {
            let mut changed = choice.to_vec();
            changed[place] = at;
            if self.total(&changed) >= most {
                break;
            }
            if self.kept(&changed)? {
                return Ok(Some(changed));
            }
        }
        Ok(None)
    }
}
