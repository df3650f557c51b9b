//! A site with numbers in the place of what is to be measured.

use crate::facts::Facts;
use crate::plan::plan;
use crate::refusal::Refusal;
use crate::words::time;
use giusto_model::{
    Arrivals, Bandwidth, Duration, Foreign, Measured, Observation, ObservedHost, Origin, Promise, Rate, Service,
    ServicePlan, ServiceTime, Site,
};
use std::collections::HashSet;

/// What requests cost on average over any stretch as long as a window bounds what they cost in a server period that is
/// not shorter.
/// These are tried, the longest first; no backend's periods begin below the last.
const WINDOWS: [Duration; 3] = [Duration::from_ms(40), Duration::from_ms(20), Duration::from_ms(10)];
/// What a load makes of a core may miss what was asked for by this part: costs change while they are measured.
pub const FIT_OFF: f64 = 0.3;
/// A measured time is rounded up to whole parts of the longest, one of so many.
const PARTS: u64 = 500;

/// What is known of the machine and the time when observations are to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    /// This machine.
    pub host: ObservedHost,
    /// Seconds since 1970.
    pub now: u64,
}

/// A site that can be planned, and what is doubtful of the observations used, a sentence each.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The site.
    pub site: Site,
    /// Sentences.
    pub notes: Vec<String>,
}

/// Replaces what is to be measured in `site`, and what is declared of the services called `anew`, by what was observed of them.
///
/// A task's execution time becomes the greatest mean processor time of a request over any window observed, the longest
/// one that is
/// not longer than the server's period planned with it: as long as that holds, in any period the tasks ask for no more
/// than so many
/// requests of that time each. It is observed, not proven. Percentiles get the distribution. Plans up to twice by `facts`.
///
/// # Errors
/// [`Refusal::Unmeasured`] for a service without an observation, or with one of another processor, command or load.
pub fn with_measured(
    site: &Site,
    observations: &[Observation],
    anew: &[String],
    here: &Here,
    facts: &Facts,
) -> Result<Resolved, Refusal> {
    let [longer @ .., last] = WINDOWS;
    for window in longer {
        let resolved = resolve(site, observations, anew, here, facts, window)?;
        let observed = resolved.site.services.iter().filter(|one| matches!(one.measured, Measured::Observed(_)));
        let observed: HashSet<&str> = observed.map(|one| one.name.as_str()).collect();
        if observed.is_empty() {
            return Ok(resolved);
        }
        let by_tasks = |service: &&ServicePlan| !service.tasks.is_empty() && observed.contains(service.name.as_str());
        let planned = plan(&resolved.site, facts);
        if planned.is_ok_and(|plan| plan.services.iter().filter(by_tasks).all(|one| one.server.period >= window)) {
            return Ok(resolved);
        }
    }
    resolve(site, observations, anew, here, facts, last)
}

fn resolve(
    site: &Site,
    observations: &[Observation],
    anew: &[String],
    here: &Here,
    facts: &Facts,
    window: Duration,
) -> Result<Resolved, Refusal> {
    let mut resolved = Resolved { site: site.clone(), notes: Vec::new() };
    for service in &mut resolved.site.services {
        let wanted = matches!(service.measured, Measured::Wanted { .. });
        if wanted && service.on.is_some() && facts.host.is_some() && service.on != facts.host {
            service.measured = Measured::Placeholders; // it is measured on its own host
            continue;
        }
        if !wanted && !anew.contains(&service.name) {
            continue;
        }
        let name = service.name.clone();
        let unmeasured = |why: String| Refusal::Unmeasured { service: name.clone(), why };
        let Some(observation) = observations.iter().find(|one| one.service == service.name) else {
            return Err(unmeasured("nothing was measured yet".into()));
        };
        for foreign in observation.foreign(&here.host, &origin(&service.origin), service.load.as_ref(), here.now) {
            match foreign {
                Foreign::Other(why) => return Err(unmeasured(format!("what was measured says nothing of it: {why}"))),
                Foreign::Doubtful(why) => {
                    resolved.notes.push(format!("the profile of '{}' is doubtful: {why}", service.name));
                }
            }
        }
        observed(service, observation, window).map_err(unmeasured)?;
    }
    Ok(resolved)
}

/// The command of a service, or what is adopted, in words.
pub fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Start(command) => command.join(" "),
        Origin::Adopt(adopted) => adopted.to_string(),
    }
}

fn observed(service: &mut Service, observation: &Observation, window: Duration) -> Result<(), String> {
    let worst = observation.greatest_mean(window);
    let fits = if let Measured::Wanted { fits } = &service.measured { fits.clone() } else { Vec::new() };
    let fit = |place: usize| fits.get(place).copied().flatten().map(Bandwidth::as_f64);
    let fitted = fits.iter().any(Option::is_some);
    match &mut service.promise {
        Promise::Percentiles { arrivals, service: times, .. } => {
            if let (true, Some(seen)) = (fitted, observation.arrivals) {
                *arrivals = seen;
            }
            *times = histogram(observation);
        }
        _ => {
            if fitted && observation.tasks.len() != service.tasks.len() {
                return Err("what was measured has other tasks".into());
            }
            for (place, task) in service.tasks.iter_mut().enumerate() {
                if let (Some(share), Some(seen)) = (fit(place), observation.tasks.get(place)) {
                    let makes = observation.mean.ns() as f64 * f64::from(seen.copies) / seen.period.ns().max(1) as f64;
                    if seen.copies != task.copies || (makes / share - 1.0).abs() > FIT_OFF {
                        return Err(format!(
                            "what was measured came from {} clients that made {:.1} % of a core",
                            seen.copies,
                            makes * 100.0
                        ));
                    }
                    (task.period, task.deadline) = (seen.period, seen.period);
                }
                task.wcet = worst;
                task.validate().map_err(|why| format!("{}: {why}", task.name))?;
            }
        }
    }
    let Observation { host, length, requests, mean, .. } = observation;
    service.measured = Measured::Observed(format!(
        "observed on {} (kernel {}): {requests} requests in {} under their own load, {} of processor time each on \
         average, {} over the worst {}; not proven",
        host.name,
        host.kernel,
        time(*length),
        time(*mean),
        time(worst),
        time(window)
    ));
    Ok(())
}

/// Execution times as observed, coarsened upwards.
fn histogram(observation: &Observation) -> ServiceTime {
    let longest = observation.execution.last().map_or(1, |[ns, _]| *ns);
    let part = longest.div_ceil(PARTS).max(1);
    let mut times: Vec<(Duration, u32)> = Vec::new();
    for [ns, requests] in &observation.execution {
        let (up, requests) =
            (Duration::from_ns(ns.div_ceil(part) * part), u32::try_from(*requests).unwrap_or(u32::MAX));
        match times.last_mut() {
            Some((last, count)) if *last == up => *count = count.saturating_add(requests),
            _ => times.push((up, requests)),
        }
    }
    ServiceTime::Measured { from: format!("a profile of {}", observation.host.name), times }
}

/// How often requests must come to make a `share` of a core, at `mean` processor time each: the period of `copies`
/// clients, in whole
/// 10 us.
pub fn fitting_period(mean: Duration, copies: u32, share: f64) -> Duration {
    let ns = mean.ns() as f64 * f64::from(copies) / share.max(1e-6);
    Duration::from_ns(((ns / 10_000.0).round().max(1.0) * 10_000.0) as u64)
}

/// The same for requests that come at random in batches: to three digits; `None` where no rate can say it.
pub fn fitting_arrivals(mean: Duration, batch: u32, share: f64) -> Option<Arrivals> {
    let per_second = share * 1e9 / (mean.ns().max(1) as f64 * f64::from(batch.max(1)));
    let digits = 10f64.powi(per_second.max(1e-6).log10().floor() as i32 - 2);
    let millionths = ((per_second / digits).round() * digits * 1e6).round() as u64;
    Some(Arrivals { rate: Rate::of(millionths.max(1), Duration::from_secs(1_000_000))?, batch })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_as_dense_as_makes_the_share() {
        let us = Duration::from_us;
        assert_eq!(fitting_period(us(50), 6, 0.3), Duration::from_ms(1));
        assert_eq!(fitting_period(us(63), 6, 0.3), us(1260));
        assert_eq!(fitting_period(Duration::from_ns(1), 1, 0.9), us(10));
        for (mean, batch, share) in [(us(700), 1, 0.4), (us(3), 4, 0.9), (Duration::from_secs(40), 1, 0.01)] {
            let arrivals = fitting_arrivals(mean, batch, share).unwrap();
            let load = arrivals.rate.per_ns() * f64::from(batch) * mean.ns() as f64;
            assert!((load / share - 1.0).abs() < 0.006, "{load} for {share}");
        }
    }
}
