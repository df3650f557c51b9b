//! The longest time of messages in periods, of paths that share services (docs/decisions/0062): stage by stage, from how close
//! messages of each path may come to one another there.
//!
//! δ(q) is the shortest window in which q messages may come. At a service that others come to as well, a message waits for all
//! that may have come: the longest S(work of a closed window Δ) − Δ. Services one after the other that no other path goes
//! through are taken together, message by message, with what is between them.

use super::broken::Broken;
use super::route::{self, Server, Stage};
use giusto_model::{PathEvery, PathPlan, PathSource, PathStage, Plan};

/// Messages in a row that are looked at.
const MOST: usize = 4_000;

/// A path of the group.
struct Known<'a> {
    path: &'a PathPlan,
    services: Vec<&'a str>,
    servers: Vec<&'a Server<'a>>,
    /// At the next service.
    distances: Vec<u128>,
}

impl Known<'_> {
    /// Where messages go on to.
    fn next(&self, nth: usize) -> Option<&str> {
        self.services.get(nth + 1).copied()
    }

    /// What is added behind a service: what comes late there, and the link to the next one.
    fn way(&self, nth: usize) -> u128 {
        let next = self.path.through.get(nth + 1).and_then(PathStage::link).unwrap_or_default();
        u128::from(self.servers[nth].latency) + u128::from(next.ns())
    }
}

/// The longest time that is claimed of path `nth`, which shares services with others; how many services were looked at, none
/// where some are on hosts that the plan is not for.
pub(super) fn check(plan: &Plan, together: &[usize], nth: usize, every: &PathEvery) -> Result<usize, Broken> {
    let group: Vec<usize> = (0..plan.paths.len()).filter(|other| together[*other] == together[nth]).collect();
    let stages: Vec<Vec<Stage>> =
        group.iter().map(|other| route::stages(plan, &plan.paths[*other])).collect::<Result<_, _>>()?;
    if every.parts.len() != plan.paths[nth].through.len() || every.at > every.within {
        return Err(Broken::new("the time that was promised, and a part for each stage", every.within, every.at));
    }
    let mut all = Vec::new();
    for (other, stages) in group.iter().zip(&stages) {
        let path = &plan.paths[*other];
        let plain = path.through.iter().all(|stage| stage.service().is_some() && stage.branch().is_none());
        if !plain || matches!(path.source, PathSource::Poisson(_)) {
            let what = format!("services one after the other, and messages in periods, of path '{}'", path.name);
            return Err(Broken::new(what, "which shares services with others", path.source));
        }
        let servers: Vec<&Server> = stages.iter().filter_map(Stage::server).collect();
        if servers.len() < stages.len() {
            return Ok(0);
        }
        let services = path.services().collect();
        all.push(Known { path, services, servers, distances: comes(path.source)? });
    }
    let own = group.iter().position(|other| *other == nth).unwrap_or(0);
    let needed = longest(&mut all, own)?;
    match needed > u128::from(every.at.ns()) {
        true => Err(Broken::new("the longest time of a message", format!("{needed} ns"), every.at)),
        false => Ok(all.iter().map(|one| one.services.len()).sum()),
    }
}

/// Of what a source sends.
fn comes(source: PathSource) -> Result<Vec<u128>, Broken> {
    let PathSource::Periodic { period, jitter, burst } = source else { return Ok(Vec::new()) };
    let (period, jitter, burst) = (u128::from(period.ns()), u128::from(jitter.ns()), u128::from(burst));
    if period == 0 || burst == 0 {
        return Err(Broken::new("a source that makes sense", "some", "none"));
    }
    let whole = |q: u128| ((q - 1) / burst * period).saturating_sub(jitter);
    Ok((1..=MOST as u128).map(whole).collect())
}

/// So much work of the server is done so long after it begins to have some, at most.
fn done(server: &Server, work: u128) -> u128 {
    let (period, budget) = (u128::from(server.period), u128::from(server.budget));
    let whole = work.div_ceil(budget) - 1;
    2 * (period - budget) + whole * period + (work - whole * budget)
}

/// What a message takes of it, at least and at most.
fn takes(server: &Server) -> (u128, u128) {
    let least = server.service.bound().iter().filter(|(_, p)| *p > 0.0).map(|(time, _)| time.ns()).min();
    (least.unwrap_or(0).into(), server.service.longest().ns().into())
}

fn too_many() -> Broken {
    Broken::new("messages in a row to look at", format!("at most {MOST}"), "more")
}

/// Services in an order in which all paths go forward are looked at one by one; of the own path the times are added up.
fn longest(all: &mut [Known], own: usize) -> Result<u128, Broken> {
    let mut reached = vec![0usize; all.len()];
    let (mut sum, mut run): (u128, Vec<Taken>) = (0, Vec::new());
    // What came to the first service of the run.
    let mut began: Vec<u128> = Vec::new();
    while (0..all.len()).any(|flow| reached[flow] < all[flow].services.len()) {
        let ready = (0..all.len()).find_map(|flow| {
            let service = *all[flow].services.get(reached[flow])?;
            let is_next = |other: usize| match all[other].services.iter().position(|one| *one == service) {
                None => true,
                Some(place) => place == reached[other],
            };
            (0..all.len()).all(is_next).then_some(service)
        });
        let service =
            ready.ok_or_else(|| Broken::new("paths that go through services in one order", "some", "a circle"))?;
        let here: Vec<usize> =
            (0..all.len()).filter(|flow| all[*flow].services.get(reached[*flow]) == Some(&service)).collect();
        let server = all[here[0]].servers[reached[here[0]]];
        let delay = waits(server, &here.iter().map(|flow| &all[*flow].distances[..]).collect::<Vec<_>>())?;
        if here.contains(&own) {
            match here.len() {
                1 => {
                    if run.is_empty() {
                        began.clone_from(&all[own].distances);
                    }
                    run.push(Taken::At(server, delay));
                }
                _ => sum += through(&std::mem::take(&mut run), &began)? + delay,
            }
        }
        let (least, most) = takes(server);
        for flow in &here {
            let way = all[*flow].way(reached[*flow]);
            let distances = &all[*flow].distances;
            let after: Vec<u128> = match here.len() {
                1 => {
                    // How many are in one busy time.
                    let busy = (1..distances.len()).find(|q| done(server, *q as u128 * most) <= distances[*q]);
                    let busy = busy.ok_or_else(too_many)?;
                    let at = |q: usize| {
                        let leaves =
                            |j: usize| (distances[q + j] + least).saturating_sub(done(server, (j as u128 + 1) * most));
                        (0..busy).map(leaves).min().unwrap_or(0)
                    };
                    (0..distances.len().saturating_sub(busy)).map(at).collect()
                }
                _ => distances.iter().map(|at| (at + least).saturating_sub(delay)).collect(),
            };
            let apart = |(q, at): (usize, u128)| at.max(q as u128 * least);
            let leaves: Vec<u128> = after.into_iter().enumerate().map(apart).collect();
            if *flow == own {
                let is_shared = here
                    .iter()
                    .any(|other| *other != own && all[*other].next(reached[*other]) == all[own].next(reached[own]));
                if is_shared {
                    sum += through(&std::mem::take(&mut run), &began)? + way;
                } else {
                    if run.is_empty() {
                        began.clone_from(&leaves);
                    }
                    run.push(Taken::Between(way));
                }
            }
            all[*flow].distances = leaves.into_iter().map(|at| at.saturating_sub(way)).collect();
            reached[*flow] += 1;
        }
    }
    Ok(sum + through(&run, &began)?)
}

/// The longest that a message waits, and is served, where messages of all these flows may come.
fn waits(server: &Server, flows: &[&[u128]]) -> Result<u128, Broken> {
    if server.budget == 0 || server.budget > server.period {
        return Err(Broken::new("a budget within its period", server.period, server.budget));
    }
    let most = takes(server).1;
    let mut events: Vec<u128> = flows.iter().flat_map(|flow| flow.iter().copied()).collect();
    events.sort_unstable();
    // Beyond the end of one of them nothing is known.
    let end = flows.iter().filter_map(|flow| flow.last()).min().copied().unwrap_or(0);
    let mut longest = 0;
    for (count, pair) in (1u128..).zip(events.windows(2)) {
        if pair[1] >= end {
            break;
        }
        if pair[1] == pair[0] {
            continue;
        }
        let at = done(server, count * most);
        longest = longest.max(at.saturating_sub(pair[0]));
        if at <= pair[1] {
            return Ok(longest);
        }
    }
    Err(too_many())
}

/// What a path goes through without others.
enum Taken<'a> {
    /// A service, and what a message takes there at most by itself.
    At(&'a Server<'a>, u128),
    /// What is between two, at most.
    Between(u128),
}

/// Of what a path goes through without others the lesser of the sum and of what it takes as one: message q of a busy time has
/// left all of it max over n_1 + … + n_k = q + k − 1 of Σ done_i(n_i) after it began.
fn through(run: &[Taken], began: &[u128]) -> Result<u128, Broken> {
    let each = |one: &Taken| match one {
        Taken::At(_, delay) => *delay,
        Taken::Between(way) => *way,
    };
    let sum = run.iter().map(each).sum();
    if run.len() < 2 {
        return Ok(sum);
    }
    let mut messages = 16;
    while messages < began.len().min(MOST / 2) {
        let mut left = vec![0u128; messages];
        for one in run {
            match one {
                Taken::Between(way) => left.iter_mut().for_each(|at| *at += way),
                Taken::At(server, _) => {
                    let most = takes(server).1;
                    let own: Vec<u128> = (1..=messages as u128).map(|n| done(server, n * most)).collect();
                    left = (0..messages).map(|q| (0..=q).map(|n| left[q - n] + own[n]).max().unwrap_or(0)).collect();
                }
            }
        }
        // Until what has come is done before the next comes.
        if left.iter().zip(&began[1..]).any(|(left, next)| left <= next) {
            let late = left.iter().zip(began).map(|(left, came)| left.saturating_sub(*came)).max().unwrap_or(0);
            return Ok(late.min(sum));
        }
        messages *= 2;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::{Duration, ServiceTime};

    #[test]
    fn messages_of_two_paths_that_come_at_once_wait_for_each_other() {
        let service = ServiceTime::Constant { time: Duration::from_ns(2) };
        let server = Server { period: 10, budget: 5, latency: 0, service: &service };
        let every = |period: u128| (0..100).map(|q| q * period).collect::<Vec<u128>>();
        // Alone: two windows that have gone by, and its own work.
        assert_eq!(waits(&server, &[&every(40)]).unwrap(), 12);
        // Three at once: the third has one unit of the next budget.
        assert_eq!(waits(&server, &[&every(100), &every(100), &every(100)]).unwrap(), 10 + 10 + 1);
        assert!(waits(&server, &[&every(4)]).is_err());
    }
}
