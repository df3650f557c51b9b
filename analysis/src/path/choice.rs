//! A choice of what the bound may choose: each part's share of the probability, and how much the rate grows there.

/// What each part of the sum is given of the probability, and by how many powers the rate grows there.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// log2, up to a constant.
    pub(super) weights: Vec<f64>,
    pub(super) steps: Vec<i32>,
}

impl Choice {
    /// Of `most`, for each part.
    pub(super) fn parts(&self, most: f64) -> Vec<f64> {
        let all: f64 = self.weights.iter().map(|weight| weight.exp2()).sum();
        self.weights.iter().map(|weight| most * (weight.exp2() / all) * (1.0 - 1e-12)).collect()
    }

    pub(super) fn step(&self, term: usize) -> i32 {
        self.steps[term]
    }
}
