//! The published service [LiH21, chapter 4]: 0.004 requests per ms, 100 ms each.

use giusto_analysis::response::{Question, Server};
use giusto_model::Duration;

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

pub(crate) fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

/// On a deferrable server, budget and period in ms.
pub(crate) fn question(budget: u64, period: u64) -> Question {
    Question {
        server: Server::Deferrable,
        budget: ms(budget),
        period: ms(period),
        rate: "0.004/ms".parse().unwrap(),
        service: vec![(ms(100), 1.0)],
        batch: vec![(1, 1.0)],
    }
}
