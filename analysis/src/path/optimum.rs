//! Which d and x: coordinate descent on a logarithmic grid whose steps are halved.
//!
//! Whatever is chosen, the bound holds; a better choice only makes it tighter.

use super::choice::Choice;
use super::error::PathError;
use super::net::Net;
use super::percentile::{Bound, Given, Laws};
use crate::Error;
use giusto_model::Duration;
use std::ops::Range;

/// The least probability found that a message of `flow` takes longer than `within`. Milliseconds for six stages.
///
/// # Errors
/// [`Error::Path`]; what the law of a stage has.
pub fn bound(net: &Net, flow: usize, within: Duration) -> Result<Bound, Error> {
    let mut laws = Laws::default();
    let mut given = Given::new(net, flow, &mut laws)?;
    probability(&mut given, within)
}

/// The least time found that all but `beyond` of the messages of `flow` take at most. Milliseconds for six stages.
///
/// # Errors
/// [`Error::Path`]; what the law of a stage has.
pub fn within(net: &Net, flow: usize, beyond: f64) -> Result<Bound, Error> {
    within_by(net, flow, beyond, &mut Laws::default())
}

/// As [`within`]; `laws` are kept from one net to others that differ in shares only.
///
/// # Errors
/// As there.
pub fn within_by(net: &Net, flow: usize, beyond: f64, laws: &mut Laws) -> Result<Bound, Error> {
    if !(beyond > 0.0 && beyond < 1.0) {
        return Err(PathError::Probability { beyond: beyond.to_string() }.into());
    }
    let mut given = Given::new(net, flow, laws)?;
    let mut search = Search::new(&mut given, beyond)?;
    search.least(beyond, 0..HALVINGS.len(), 0.0);
    Ok(search.told(beyond))
}

/// Whether all but `beyond` of the messages of `flow` are found to take `time` at most, with less of a search than [`within`],
/// which then finds that too. `laws` are kept from one net to others that differ in shares only.
///
/// # Errors
/// As [`within`].
pub fn is_within(net: &Net, flow: usize, beyond: f64, time: Duration, laws: &mut Laws) -> Result<bool, Error> {
    let mut given = Given::new(net, flow, laws)?;
    let mut search = Search::new(&mut given, beyond)?;
    let wanted = time.ns() as f64;
    Ok(search.least(beyond, 0..COARSE, wanted) <= wanted)
}

/// Steps of rates in powers (0: they stay) and of weights, each half of the one before.
const HALVINGS: [(i32, f64); 5] = [(0, 2.0), (4, 1.0), (2, 0.5), (1, 0.25), (0, 0.125)];
/// Of them, those that tell whether a time is kept.
const COARSE: usize = 3;
/// The powers that rates grow by at each stage to begin with.
const FIRST: i32 = 4;
/// Times round for each.
const ROUNDS: usize = 8;
/// How much shorter a time must be to count.
const SHORTER: f64 = 1.0 - 1e-6;
/// Growth of the rate at a stage to begin with, and the least that is tried.
const GROWTH: f64 = 0.06;
const LEAST_GROWTH: f64 = 1e-4;

/// The least time that all but `most` take, in ns; for a path of which `least` is known from another probability.
struct Search<'g, 'a> {
    given: &'g mut Given<'a>,
    choice: Choice,
    /// By what part the last halving made the time shorter.
    halved: f64,
}

impl<'g, 'a> Search<'g, 'a> {
    fn new(given: &'g mut Given<'a>, most: f64) -> Result<Self, Error> {
        let terms = given.terms();
        let choice = Choice { weights: vec![0.0; terms], steps: vec![FIRST; terms] };
        let mut growth = GROWTH;
        loop {
            given.power = (1.0 + growth).powf(1.0 / f64::from(FIRST));
            if given.time(&choice, most, None).is_finite() {
                return Ok(Search { given, choice, halved: 0.0 });
            }
            growth /= 2.0;
            if growth < LEAST_GROWTH {
                let (utilization, bandwidth) = ("nearly 100 %".into(), "100 %".into());
                return Err(Error::Unstable { utilization, bandwidth });
            }
        }
    }

    /// From the present choice on, with the steps of these halvings, until it is `enough`.
    fn least(&mut self, most: f64, halvings: Range<usize>, enough: f64) -> f64 {
        let mut best = self.given.time(&self.choice, most, None);
        for (step, weight) in &HALVINGS[halvings] {
            let before = best;
            for _ in 0..ROUNDS {
                if best <= enough || !self.round(&mut best, most, *step, *weight) {
                    break;
                }
            }
            self.halved = (before - best) / before;
        }
        best
    }

    /// Moves each coordinate once; whether any move was for the better.
    fn round(&mut self, best: &mut f64, most: f64, step: i32, weight: f64) -> bool {
        let mut better = false;
        for term in 0..self.choice.steps.len() {
            for sign in [1.0, -1.0] {
                better |= self.try_with(best, most, |choice| choice.weights[term] += sign * weight);
            }
            for sign in [1, -1].into_iter().filter(|_| step > 0) {
                better |= self.try_with(best, most, |choice| choice.steps[term] += sign * step);
                // So that rates of later stages stay.
                if let Some(next) = (term + 1 < self.choice.steps.len()).then_some(term + 1) {
                    better |= self.try_with(best, most, |choice| {
                        choice.steps[term] += sign * step;
                        choice.steps[next] -= sign * step;
                    });
                }
            }
        }
        better
    }

    fn try_with(&mut self, best: &mut f64, most: f64, change: impl Fn(&mut Choice)) -> bool {
        let mut changed = self.choice.clone();
        change(&mut changed);
        if changed.steps.iter().any(|step| *step < 1) {
            return false;
        }
        let time = self.given.time(&changed, most, None);
        let better = time < *best * SHORTER;
        if better {
            (*best, self.choice) = (time, changed);
        }
        better
    }

    fn told(self, most: f64) -> Bound {
        let mut parts = Vec::new();
        let time = self.given.time(&self.choice, most, Some(&mut parts));
        let beyond = parts.iter().map(|part| part.term).sum::<f64>() * (1.0 + 1e-12);
        Bound { within: Duration::from_ns(time as u64), beyond, parts, halved: self.halved }
    }
}

/// Least and largest probabilities that are looked for.
const LEAST: f64 = 1e-8;
const HALF: f64 = 0.5;

/// Those beyond `within`.
fn probability(given: &mut Given, within: Duration) -> Result<Bound, Error> {
    let wanted = within.ns() as f64;
    let mut search = Search::new(given, 0.01)?;
    let all = HALVINGS.len();
    search.least(0.01, 0..all, 0.0);
    // In logarithms: more of the messages take longer than a shorter time.
    let (mut low, mut high) = (LEAST.ln(), HALF.ln());
    let longest = search.least(HALF, 1..all, 0.0);
    if longest > wanted {
        return Err(PathError::TooShort { within, least: Duration::from_ns(longest as u64) }.into());
    }
    let mut kept = search.choice.clone();
    for halving in 0..24 {
        let middle = 0.5 * (low + high);
        if search.least(middle.exp(), if halving < 4 { 1 } else { 3 }..all, 0.0) <= wanted {
            high = middle;
            kept = search.choice.clone();
        } else {
            low = middle;
        }
    }
    search.choice = kept;
    let mut found = search.told(high.exp());
    found.within = within;
    Ok(found)
}
