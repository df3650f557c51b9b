//! `giusto analyze map`: percentiles of response times over bandwidths and server periods.

use crate::response::{refused, Requests};
use crate::Error;
use giusto_analysis::response::{map, Map};
use giusto_model::{Bandwidth, Duration};

/// Bandwidths are whole multiples of this part of a core.
const PARTS: u64 = 10_000;

/// Which map.
#[derive(Clone, Debug)]
pub struct Question {
    /// What comes.
    pub requests: Requests,
    /// Which percentiles.
    pub percentiles: Vec<f64>,
    /// From and to; `None`: from a little more than the load to the whole core.
    pub bandwidth: Option<(Bandwidth, Bandwidth)>,
    /// From and to; `None`: from half the mean service time to 16 times it.
    pub period: Option<(Duration, Duration)>,
    /// How many bandwidths, evenly spaced, and how many periods, each the same multiple of the one before; 2 or more.
    pub steps: u16,
}

/// The axes of a map.
#[derive(Clone, Debug)]
pub struct Axes {
    /// Ascending.
    pub bandwidths: Vec<Bandwidth>,
    /// Ascending.
    pub periods: Vec<Duration>,
}

impl Question {
    /// What is looked at.
    pub fn axes(&self) -> Axes {
        let question = self.requests.on(Duration::from_ns(1), Duration::from_ns(1));
        let mean: f64 = question.service.iter().map(|(time, p)| time.ns() as f64 * p).sum();
        let load = (question.utilization() * PARTS as f64 * 1.05).ceil() as u64;
        let least = Bandwidth::new(load.min(PARTS - 1), PARTS).unwrap_or(Bandwidth::ONE);
        let (from, to) = self.bandwidth.unwrap_or((least, Bandwidth::ONE));
        let (shortest, longest) = self
            .period
            .unwrap_or((Duration::from_ns((mean / 2.0).ceil() as u64), Duration::from_ns((mean * 16.0).ceil() as u64)));
        let part = |step: u16| f64::from(step) / f64::from(self.steps - 1);
        let share = |step| {
            let share = from.as_f64() + part(step) * (to.as_f64() - from.as_f64());
            Bandwidth::new((share * PARTS as f64).round() as u64, PARTS).unwrap_or(to)
        };
        let period = |step| {
            let ns = shortest.ns() as f64 * (longest.ns() as f64 / shortest.ns() as f64).powf(part(step));
            Duration::from_ns(ns.round() as u64)
        };
        let mut bandwidths: Vec<Bandwidth> = (0..self.steps).map(share).collect();
        let mut periods: Vec<Duration> = (0..self.steps).map(period).collect();
        bandwidths.dedup();
        periods.dedup();
        Axes { bandwidths, periods }
    }

    /// The map over `axes`, in parallel; `done` is called for each cell.
    ///
    /// # Errors
    /// Requests that make no sense.
    pub fn answer(&self, axes: &Axes, done: &(dyn Fn() + Sync)) -> Result<Map, Error> {
        let question = self.requests.on(Duration::from_ns(1), Duration::from_ns(1));
        map(&question, &self.percentiles, &axes.bandwidths, &axes.periods, done).map_err(refused)
    }
}
