//! How much more each server of a core may take.

use super::{admit, admit_in, Grids, Order, Refused};
use crate::Error;
use giusto_model::{Bandwidth, Duration, Server};
use serde::{Deserialize, Serialize};
use std::cell::Cell;

/// Steps of all tests; a second or so. A test may take a part of what is left of them, and these at least.
const ALL_STEPS: u64 = 5_000_000;
const PART: u64 = 16;
const FEWEST_STEPS: u64 = 100;

/// What is left of a core for one server, all others as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Room {
    /// Which, by its place in the list.
    pub server: usize,
    /// The largest budget with its period, at most the period.
    #[serde(rename = "most_budget_ns")]
    pub most_budget: Duration,
    /// The shortest period with its budget, at least the budget.
    #[serde(rename = "least_period_ns")]
    pub least_period: Duration,
    /// The nearer of the two, in parts of the value that it has.
    pub slack: Bandwidth,
    /// One ns more of either is refused; else it takes too many steps, or more than 64 bits, to tell.
    pub exact: bool,
}

/// The room of each server, the one with the least slack first.
///
/// Ok(Err): they do not fit as they are. Each value up to a limit is admitted where more budget or a shorter period never asks for
/// less: under EDF, and under fixed priorities with kinds that are periodic or sporadic tasks and grids apart. Else (a
/// deferrable or constant_bandwidth server, periods that divide each other on aligned grids) the test is sufficient and
/// need not be of one piece: the limit is the first that is seen at distances that double, and may be passed further on. Some
/// 60 to 120 tests for each limit; where they take too many steps, the limits that are told are not exact. Errors: as [`admit`].
pub fn sensitivity(
    servers: &[Server],
    order: Order,
    grids: Grids,
    capacity: Bandwidth,
) -> Result<Result<Vec<Room>, Refused>, Error> {
    if let Err(refused) = admit(servers, order, grids, capacity)? {
        return Ok(Err(refused));
    }
    let mut rooms = Vec::with_capacity(servers.len());
    let rest = Cell::new(ALL_STEPS);
    for (server, &now) in servers.iter().enumerate() {
        let with = |changed: Server| {
            let servers: Vec<Server> =
                servers.iter().copied().enumerate().map(|(i, s)| if i == server { changed } else { s }).collect();
            let most = (rest.get() / PART).max(FEWEST_STEPS);
            let mut left = most;
            let answer = admit_in(&servers, order, grids, capacity, &mut left);
            rest.set(rest.get().saturating_sub(most - left));
            match answer {
                Ok(answer) => Ok(Some(answer.is_ok())),
                Err(Error::Steps | Error::Range) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let (budget, period) = (now.budget.ns(), now.period.ns());
        let (most, last) = farthest(budget, period, &|budget| with(Server { budget, ..now }))?;
        let (least, first) = farthest(period, budget, &|period| with(Server { period, ..now }))?;
        let slack = |from: u64, to: u64| Bandwidth::new(from.abs_diff(to), from).unwrap_or(Bandwidth::ZERO);
        rooms.push(Room {
            server,
            most_budget: Duration::from_ns(most),
            least_period: Duration::from_ns(least),
            slack: slack(budget, most).min(slack(period, least)),
            exact: last && first,
        });
    }
    rooms.sort_by_key(|room| room.slack); // stable: of equal slack in the order of the list
    Ok(Ok(rooms))
}

/// From `good`, which is admitted, toward `end`, up or down: the last value before the first that is not, as seen at distances
/// that double, or `end`; and whether the next one is known not to be.
fn farthest(
    good: u64,
    end: u64,
    admitted: &dyn Fn(Duration) -> Result<Option<bool>, Error>,
) -> Result<(u64, bool), Error> {
    let at = |distance: u64| Duration::from_ns(if good < end { good + distance } else { good - distance });
    let whole = good.abs_diff(end);
    let (mut low, mut high) = (0, 1.min(whole));
    let mut told = loop {
        if low == whole {
            return Ok((end, true));
        }
        match admitted(at(high))? {
            Some(true) => (low, high) = (high, high.saturating_mul(2).min(whole)),
            answer => break answer.is_some(),
        }
    };
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match admitted(at(middle))? {
            Some(true) => low = middle,
            answer => (high, told) = (middle, answer.is_some()),
        }
    }
    Ok((at(low).ns(), told))
}
