//! Servers that share several cores: any core runs any of them, and one that waits goes on where a core is free.

use super::refused::{Density, Interference, Refused};
use super::servers::{check, sum};
use super::{ranked, Order};
use crate::Error;
use giusto_model::{Bandwidth, Duration, Renewal, Server};
use serde::{Deserialize, Serialize};

/// Rounds in which slack is carried from server to server; more find next to nothing.
const ROUNDS: u32 = 64;

/// That a set of servers fits on several cores together, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnAll {
    /// Σ B/P.
    pub bandwidth: Bandwidth,
    /// How it is known.
    pub by: Known,
}

/// How it is known that a set of servers fits on several cores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// There are as many cores as servers.
    OneEach,
    /// EDF: the first test.
    Density(Density),
    /// EDF, the second: by how much each has its budget before its period ends, at least.
    #[serde(rename = "slacks_ns")]
    Slacks(Vec<Duration>),
    /// Fixed priority: how long each needs for its budget, at most.
    #[serde(rename = "responses_ns")]
    Responses(Vec<Duration>),
}

/// Whether `servers` fit on `cores` cores that all of them share, of which all together may take cores · `capacity`.
///
/// As many cores as servers are enough. Else sufficient tests. EDF has two:
///
/// - Goossens, Funk and Baruah 2003: Σ U ≤ m − (m − 1)·U_max. It holds for any jobs that cores of the speeds U_i could do, one
///   for each server, and so for all kinds but deferrable;
/// - Bertogna, Cirinei and Lipari 2009 (§ IV, with slack), for servers that are periodic tasks: server k has its budget in
///   time if Σ_{i≠k} min(I_i, P_k − B_k + 1) < m(P_k − B_k + 1), where I_i = N·B_i + min(B_i, max(0, P_k − N·P_i − S_i)),
///   N = ⌊P_k/P_i⌋ and S_i is what is known so far of how long before its deadline i is done. Not for sporadic and
///   constant_bandwidth servers, whose budgets come in parts.
///
/// Fixed priority, in the order of the list, has one, for servers that are periodic tasks and for deferrable ones: Guan,
/// Stigge, Yi and Yu 2009 (§ IV), which is the response-time analysis of Bertogna and Cirinei 2007 with work from before the
/// window of at most m − 1 of those above. On one core its responses are those of [`admit`](super::admit) with grids apart.
///
/// EDF: O(n²) a round, at most 64 rounds. Fixed priority: O(n log n) a step; the number of steps is pseudo-polynomial. Errors: as
/// [`admit`](super::admit), no core.
pub fn admit_global(
    servers: &[Server],
    order: Order,
    cores: u32,
    capacity: Bandwidth,
) -> Result<Result<OnAll, Refused>, Error> {
    check(servers)?;
    let times = |share: Bandwidth, by: u32| Bandwidth::new(share.numer().checked_mul(by.into())?, share.denom());
    let (bandwidth, room) = (sum(servers)?, times(capacity.min(Bandwidth::ONE), cores).ok_or(Error::Range)?);
    if bandwidth > room {
        return Ok(Err(Refused::Bandwidth { demand: bandwidth, supply: room }));
    }
    if servers.len() <= cores as usize {
        return Ok(Ok(OnAll { bandwidth, by: Known::OneEach }));
    }
    let tested = |renewal: Renewal| match order {
        Order::Edf => !renewal.keeps_budget(),
        Order::FixedPriority => renewal.on_grid(),
    };
    if let Some((server, other)) = servers.iter().enumerate().find(|(_, server)| !tested(server.kind.renewal())) {
        return Ok(Err(Refused::NoTest { server, kind: other.kind }));
    }
    if order == Order::FixedPriority {
        let found = ranked::responses(servers, cores)?;
        return Ok(found
            .map(|responses| OnAll { bandwidth, by: Known::Responses(responses) })
            .map_err(Refused::Interference));
    }
    let most = servers.iter().map(Server::bandwidth).max().unwrap_or(Bandwidth::ZERO);
    let (whole, beside) = (times(Bandwidth::ONE, cores), times(most, cores.saturating_sub(1)));
    let supply = whole.zip(beside).and_then(|(whole, beside)| whole.checked_sub(beside)).ok_or(Error::Range)?;
    let density = Density { demand: bandwidth, supply };
    if bandwidth <= supply {
        return Ok(Ok(OnAll { bandwidth, by: Known::Density(density) }));
    }
    if !servers.iter().all(|server| server.kind.renewal().on_grid()) {
        return Ok(Err(Refused::Global { density, interference: None }));
    }
    Ok(match slacks(servers, cores)? {
        Ok(slacks) => Ok(OnAll { bandwidth, by: Known::Slacks(slacks) }),
        Err(interference) => Err(Refused::Global { density, interference: Some(interference) }),
    })
}

/// What is known of the slack of each, or the first server for which nothing is.
fn slacks(servers: &[Server], cores: u32) -> Result<Result<Vec<Duration>, Interference>, Error> {
    let mut slacks = vec![0u64; servers.len()];
    let mut round = 1;
    loop {
        let (mut first, mut grown) = (None, false);
        for (index, server) in servers.iter().enumerate() {
            let interference = interference(servers, &slacks, index);
            let spare = server.period.ns() - server.budget.ns();
            // Rounded down: for so many ns all cores can be kept from it.
            match u64::try_from(interference / u128::from(cores)).ok().and_then(|kept| spare.checked_sub(kept)) {
                Some(slack) => {
                    grown |= slack > slacks[index];
                    slacks[index] = slacks[index].max(slack);
                }
                None => first = first.or(Some((index, interference))),
            }
        }
        match first {
            None => return Ok(Ok(slacks.into_iter().map(Duration::from_ns).collect())),
            Some((server, demand)) if !grown || round == ROUNDS => {
                return Interference::of(servers[server], server, cores, demand).map(Err)
            }
            Some(_) => round += 1,
        }
    }
}

/// Σ_{i≠k} min(I_i, P_k − B_k + 1).
fn interference(servers: &[Server], slacks: &[u64], k: usize) -> u128 {
    let window = servers[k].period.ns();
    let most = u128::from(window - servers[k].budget.ns()) + 1;
    let others = servers.iter().zip(slacks).enumerate().filter(|(i, _)| *i != k);
    let runs = others.map(|(_, (server, &slack))| {
        let (budget, period) = (server.budget.ns(), server.period.ns());
        let before = (window % period).saturating_sub(slack).min(budget);
        u128::from(window / period) * u128::from(budget) + u128::from(before)
    });
    runs.map(|runs| runs.min(most)).sum()
}
