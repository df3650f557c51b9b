//! What `assurance: simulated` would save of a path that is proven, from its plan alone.
//!
//! It takes seconds, so a plan does not tell it of all its paths; `giusto explain PATH` does.

use super::course::{Ask, Asked, Brought, Course, Gap, Spot};
use super::search::simulated_from;
use super::simulated::RISK;
use giusto_analysis::Error;
use giusto_model::{
    together, Bandwidth, Certificate, DespitePlan, Duration, Fails, Interface, PathPlan, PathSource, PathStage, Plan,
    Promise, Steps, Within,
};

/// Messages beyond a percentile that is simulated for this: one in 1,000 or more. Rarer ones take minutes.
const RAREST: f64 = 99.9;

/// What the services of a path reserve together, proven and if simulation decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saving {
    /// As planned.
    pub proven: Bandwidth,
    /// With `assurance: simulated`; as much where that saves nothing.
    pub simulated: Bandwidth,
    /// Messages of independent runs that decided so.
    pub messages: u64,
    /// The chance of a yes where the promise is not kept, at most, in millionths.
    pub risk_ppm: u32,
}

/// Of the path of that name. `None` where it is not proven, is not one that can be simulated (`every`, services of other paths,
/// percentiles above p99.9), goes over hosts that the plan is not for, or where simulation does not decide. Seconds.
///
/// # Errors
/// A plan whose numbers make no sense.
pub fn would_save(plan: &Plan, name: &str) -> Result<Option<Saving>, Error> {
    let Some((asked, servers)) = asked(plan, name) else { return Ok(None) };
    let cost = |servers: &[Interface]| Bandwidth::new((asked.reserved(servers) * 1e6).round() as u64, 1_000_000);
    let Some((found, shown)) = simulated_from(&asked, &servers)? else { return Ok(None) };
    let both = cost(&servers).zip(cost(&found));
    let risk_ppm = (RISK * 1e6).round() as u32;
    Ok(both.map(|(proven, simulated)| Saving { proven, simulated, messages: shown.messages(), risk_ppm }))
}

/// What would be asked of it, and what its services have.
fn asked(plan: &Plan, name: &str) -> Option<(Asked, Vec<Interface>)> {
    let own = plan.paths.iter().position(|path| path.name == name)?;
    let path = &plan.paths[own];
    let groups = together(plan.paths.iter().map(PathPlan::services));
    let alone = groups.iter().filter(|first| **first == groups[own]).count() == 1;
    let told = path.points.iter().all(|point| point.percentile.percent() <= RAREST) && !path.points.is_empty();
    if !alone || !told || path.simulated.is_some() || !matches!(path.source, PathSource::Poisson(_)) {
        return None;
    }
    let (mut stages, mut servers, mut route, mut brought) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for stage in &path.through {
        route.push(match stage {
            PathStage::Service(stage) => {
                let (ask, server) = ask(plan, &stage.service)?;
                stages.push(ask);
                servers.push(server);
                Spot::Served(stages.len() - 1)
            }
            PathStage::Tokens(stage) => {
                brought.extend(stage.others.map(|rate| Brought { rate, by: vec![(0, route.len())] }));
                Spot::Tokens(stage.bucket, stage.others)
            }
            PathStage::Broker(stage) => Spot::Measured(stage.latency.clone(), stage.worst),
            PathStage::Link(stage) => Spot::Measured(stage.latency.clone(), stage.worst),
            PathStage::Interface(stage) => Spot::Packets(stage.bucket, stage.bound),
        });
    }
    let within = |point: &giusto_model::PathPoint| Within { percentile: point.percentile, within: point.within };
    let course = Course {
        source: path.source,
        places: (0..route.len()).collect(),
        route,
        steps: Steps::of(&path.through),
        links: path.through.iter().map(|stage| stage.link().unwrap_or_default()).collect(),
        points: path.points.iter().map(within).collect(),
        every: None,
        simulated: Some(path.through.clone()),
        despite: path.despite.iter().map(|one| gap(path, one)).collect::<Option<_>>()?,
    };
    Some((Asked { courses: vec![course], brought, stages, rounds: 0, common: None }, servers))
}

fn gap(path: &PathPlan, one: &DespitePlan) -> Option<Gap> {
    let place = |found: &dyn Fn(&PathStage) -> bool| path.through.iter().position(found);
    let at = match &one.fails {
        Fails::Leader => None,
        Fails::Service(name) => Some(place(&|stage| stage.service() == Some(name))?),
        Fails::Topic(name) => {
            Some(place(&|stage| matches!(stage, PathStage::Tokens(stage) if stage.tokens_of == *name))?)
        }
    };
    Some(Gap { fails: one.fails.clone(), at, gap: one.gap })
}

fn ask(plan: &Plan, service: &str) -> Option<(Ask, Interface)> {
    let entry = plan.services.iter().find(|entry| entry.name == service)?;
    let (Promise::Stage { service, .. }, Certificate::Stage { budget, latency }) = (&entry.promise, &entry.certificate)
    else {
        return None;
    };
    let ask = Ask {
        service: service.clone(),
        loss: entry.server.budget.checked_sub(*budget)?,
        latency: *latency,
        shortest: entry.server.period,
        longest: entry.server.period,
        least: Duration::ZERO,
        most: Bandwidth::ONE,
        each: Duration::ZERO,
    };
    Some((ask, Interface { budget: *budget, period: entry.server.period }))
}
