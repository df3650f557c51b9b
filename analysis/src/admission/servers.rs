//! What all tests ask of a set of servers.

use super::error::ServerError;
use crate::Error;
use giusto_model::{Bandwidth, Duration, Renewal, Server};
use serde::{Deserialize, Serialize};

/// What is known of the grids of servers that have one (all but constant_bandwidth and sporadic).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grids {
    /// Replenished at whole multiples of their periods, all from one instant.
    Aligned,
    /// Nothing.
    Apart,
}

/// Whether each server makes sense.
pub(super) fn check(servers: &[Server]) -> Result<(), Error> {
    servers.iter().zip(1..).try_for_each(|(server, number)| {
        let why = match *server {
            Server { kind, .. } if kind.renewal() == Renewal::Unlimited => ServerError::Unlimited,
            Server { budget, .. } if budget.is_zero() => ServerError::NoBudget,
            Server { budget, period, .. } if budget > period => ServerError::TooMuch { budget, period },
            _ => return Ok(()),
        };
        Err(Error::Server { number, why })
    })
}

/// Σ B/P, exactly; where that needs more than 64 bits a millionth of a millionth more
/// or so for each server, which is the safe side.
pub(super) fn sum<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Result<Bandwidth, Error> {
    let add = |all: Bandwidth, server: &Server| {
        let share = server.bandwidth();
        all.checked_add(share).or_else(|| all.add_up(share))
    };
    servers.into_iter().try_fold(Bandwidth::ZERO, add).ok_or(Error::Range)
}

pub(super) fn length(work: u128) -> Result<Duration, Error> {
    u64::try_from(work).map(Duration::from_ns).map_err(|_| Error::Demand)
}
