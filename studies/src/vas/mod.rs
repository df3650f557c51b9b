//! The latency of a whole core on a share of one: [LiH21, chapter 3].

pub(crate) mod redis;
pub(crate) mod spark;
pub(crate) mod synthetic;

use crate::Error;
use giusto_verify::{wasserstein, Sample};

/// How far runs are from two independent ones on a whole core, in the unit of their times: that of each run is the mean of its
/// distances to both, and the floor is the distance of these two. Of a run that is a third one on a whole core, both have one
/// distribution.
pub(crate) struct Floor {
    whole: [Sample; 2],
}

impl Floor {
    pub(crate) fn of(whole: [Sample; 2]) -> Self {
        Floor { whole }
    }

    /// Between both runs.
    pub(crate) fn between(&self) -> f64 {
        wasserstein(&self.whole[0], &self.whole[1])
    }

    pub(crate) fn distance(&self, run: &Sample) -> f64 {
        self.whole.iter().map(|whole| wasserstein(whole, run)).sum::<f64>() / 2.0
    }
}

/// Response times.
pub(crate) fn sample(responses: &[u64]) -> Result<Sample, Error> {
    Sample::from_responses(responses.iter().copied().map(Some)).map_err(Error::machine)
}
