//! Percentiles of response times: the cheapest deferrable server of each.
//!
//! The law of the response time is known for a server with the highest priority on its core [LiH21, chapter 4]. Alone on a
//! core every server has that. Beside others, under EDF, it is sure of its budget by the end of each period for the work that
//! was there at the start, so that whatever a periodic server with its budget at a fixed place has done by t, it has done by
//! t + P: its response times are at most P longer than that one's, whose law is known too (docs/decisions/0010).

mod refusal;
mod search;

pub use refusal::{Miss, Missed};
pub(crate) use search::Answers;

use crate::backend::{choose, deviation, most_of_a_core, Deviation, Limits, Wanted};
use crate::facts::Facts;
use crate::host::OneHost;
use crate::needs::{Company, Need, Vcpu};
use crate::promises::method::{Asks, Method, Room};
use crate::refusal::{Cause, NearestFit, Refusal};
use crate::steps::{periods, quantum, QUANTUM};
use crate::trial::Trial;
use crate::words::{reason, share, time};
use giusto_analysis::response::{response, Precision, Question};
use giusto_analysis::Error;
use giusto_model::{
    Arrivals, Bandwidth, Certificate, Duration, Host, HostLatency, Interface, PredictedPercentile, Promise, Service,
    ServicePlan, ServiceTime, Within,
};
use search::{question, wait, Asked, Chose, Found, ANSWER};

/// The method of this promise.
pub(crate) struct Percentiles;

/// The server of `service`, with the reasons. Errors: no backend, requests that cannot be analysed, percentiles for which no
/// core is enough.
fn server(service: &Service, on: &OneHost, company: Company) -> Result<Vcpu, Refusal> {
    let (facts, answers) = (on.facts, on.answers);
    let fault = |why| Refusal::tasks(&service.name, why);
    let Promise::Percentiles { points, arrivals, service: times } = &service.promise else {
        return Err(fault(Error::NoTasks)); // is only called for these
    };
    let chosen = choose(service, Wanted::Percentiles, facts)?;
    let (limits, deviation) = (&chosen.limits, deviation(chosen.backend, facts));
    let (most, limit) = most_of_a_core(on.host, facts, chosen.backend);
    let asked = |shortest| Asked {
        points: points.clone(),
        arrivals: *arrivals,
        service: times.clone(),
        company,
        loss: deviation.loss,
        latency: deviation.latency,
        shortest,
        longest: limits.longest,
        least: limits.budget,
    };
    let mut shortest = limits.chosen;
    let mut found = answers.to(&asked(shortest)).map_err(fault)?;
    let fits = |found: &Found| matches!(found, Found::Server(Some(chose)) if chose.server.bandwidth() <= most);
    if matches!(found, Found::Server(_)) && !fits(&found) && limits.shortest < shortest {
        shortest = limits.shortest;
        found = answers.to(&asked(shortest)).map_err(fault)?;
    }
    let chose = match found {
        Found::Server(Some(chose)) if chose.server.bandwidth() <= most => chose,
        other => {
            let how = match other {
                Found::Overload => overload(*arrivals, times),
                Found::Missed(point, thousandths, at) => {
                    Missed::WholeCore { point, thousandths, at, latency: deviation.latency }
                }
                Found::Server(needs) => {
                    let needs = needs.map(|chose| chose.server);
                    Missed::Room { needs, room: most, whole: most, cores: 1, alone: false }
                }
            };
            let cause = Cause::Percentiles(Box::new(Miss { points: points.clone(), how }));
            return Err(Refusal::does_not_fit(&service.name, cause));
        }
    };
    let need = need(chose, &asked(shortest), limits, &deviation, (most, limit));
    let vcpu = service.origin.has_vcpus().then_some(0);
    // The law is that of the highest priority.
    let alone = company == Company::Alone;
    Ok(Vcpu { vcpu, chosen, locals: vec![need], worst: None, critical: false, alone })
}

/// What its requests need of a core: a measure of its size, no bound.
fn load(arrivals: Arrivals, service: &ServiceTime) -> Bandwidth {
    let millionths = 1e6 * question(arrivals, service, Company::Alone).utilization();
    Bandwidth::new(millionths as u64, 1_000_000).unwrap_or(Bandwidth::ONE)
}

/// Requests for which a whole core is too slow.
fn overload(arrivals: Arrivals, times: &ServiceTime) -> Missed {
    let percent = |times: &ServiceTime| (100.0 * question(arrivals, times, Company::Alone).utilization()).ceil() as u64;
    let bounded = match *times {
        ServiceTime::Bounded { mean, wcet } => Some((wcet, percent(&ServiceTime::Constant { time: mean }))),
        _ => None,
    };
    Missed::Overload { percent: percent(times), bounded }
}

/// The shortest latency that the percentile of `point` can have on the largest server there is, in tenths of a millisecond.
fn shortest_latency(service: &Service, host: &Host, facts: &Facts, point: Within) -> Option<Duration> {
    let Promise::Percentiles { arrivals, service: times, .. } = &service.promise else { return None };
    let chosen = choose(service, Wanted::Percentiles, facts).ok()?;
    let (most, _) = most_of_a_core(host, facts, chosen.backend);
    let deviation = deviation(chosen.backend, facts);
    let largest = |period: Duration| {
        let budget = u128::from(period.ns()) * u128::from(most.numer()) / u128::from(most.denom());
        let step = quantum(period).ns();
        let counted = u64::try_from(budget).ok()?.checked_sub(deviation.loss.ns())? / step * step;
        Some(Question { budget: Duration::from_ns(counted), period, ..question(*arrivals, times, Company::Alone) })
    };
    let latency = |question: &Question, precision| {
        let found = response(question, &[], &[point.percentile.percent()], precision).ok()?;
        found.percentiles.first()?.at.checked_add(deviation.latency)
    };
    let longest = chosen.limits.longest.min(Duration::from_ms(100));
    // As in the search, no period is longer than the latency, unless there is no shorter one.
    let chosen_anyway = chosen.limits.chosen;
    let seen = periods(chosen.limits.shortest, longest).filter_map(|period| {
        let question = largest(period)?;
        let seen = latency(&question, Precision::Glance)?;
        (seen >= period || period <= chosen_anyway).then_some((seen, question))
    });
    let (_, best) = seen.min_by_key(|(seen, _)| *seen)?;
    let least = latency(&best, ANSWER)?;
    // A little more than the last digit: what is looked for is found in steps.
    let tenths = least.ns().div_ceil(QUANTUM.ns()) + 1 + least.ns() / QUANTUM.ns() / 500;
    Some(Duration::from_ns(tenths * QUANTUM.ns()))
}

/// The server with its reasons.
fn need(chose: Chose, asked: &Asked, limits: &Limits, deviation: &Deviation, (most, limit): (Bandwidth, &str)) -> Need {
    let Chose { server, counted, predicted, slots, error_ppm } = chose;
    let Interface { budget, period } = server;
    let (company, shortest) = (asked.company, asked.shortest);
    let wait = wait(company, period);
    let utilization = question(asked.arrivals, &asked.service, company).utilization();
    let part_of = |time: Duration| Bandwidth::of(time, period).unwrap_or(Bandwidth::ZERO);
    let (required, margin) = (part_of(counted), part_of(budget.checked_sub(counted).unwrap_or(Duration::ZERO)));
    let law = match company {
        Company::Alone => "M/G(DS)/1: alone on its core it has the highest priority [LiH21, Algorithms 1 and 2]",
        Company::Beside => {
            "M/G(PS)/1 and a period: others of its core may go first, but not beyond the end of a period"
        }
    };
    let mut reasons = vec![
        reason("requests", asked.arrivals, format!("{}: {:.1} % of a core", asked.service, 100.0 * utilization)),
        reason("law", if company == Company::Alone { "M/G(DS)/1" } else { "P + M/G(PS)/1" }, law),
        reason(
            "period",
            time(period),
            format!(
                "of some from {} ({}) to the longest latency promised the one whose server is cheapest",
                time(shortest),
                limits.bounds
            ),
        ),
        reason(
            "required",
            format!("{} ({})", time(counted), share(required)),
            format!(
                "the least, in steps of {}, with which all percentiles are kept [LiH21, § 4.3], and at least 5 % more than \
                 the load",
                time(quantum(period))
            ),
        ),
        reason("loss", time(deviation.loss), format!("of each budget, not counted on: {}", deviation.why)),
        reason(
            "latency",
            time(deviation.latency),
            "added to every response time: timers, wake-ups and the kernel's own work",
        ),
    ];
    if company == Company::Beside {
        reasons.push(reason("wait", time(wait), "added to every response time: beside others, a period"));
    }
    reasons.push(reason(
        "budget",
        format!("{} ({})", time(budget), share(server.bandwidth())),
        format!("required + loss; at most {} ({limit})", share(most)),
    ));
    let certificate =
        Certificate::Percentiles { budget: counted, latency: deviation.latency, wait, predicted, slots, error_ppm };
    let (interface, tasks, utilization) = (server, Vec::new(), Bandwidth::ZERO);
    Need { interface, tasks, utilization, required, margin, certificate, reasons }
}

/// The shortest latency of a percentile that one core can keep, or more cores where that is enough.
fn longer_latency(trial: &Trial, witness: &Service, miss: &Miss) -> Vec<NearestFit> {
    let Some((host, facts)) = trial.on() else { return Vec::new() };
    let less = || trial.shorter_requests(witness).into_iter().chain(trial.fewer_requests(witness));
    if matches!(miss.how, Missed::Overload { .. }) {
        return less().collect();
    }
    let points = miss.points.iter().filter_map(|point| {
        let within = shortest_latency(witness, host, &facts, *point).filter(|within| *within > point.within)?;
        Some(Within { within, ..*point })
    });
    let longer = points.filter(|longer| {
        trial.with(|s, _| {
            if let Promise::Percentiles { points, .. } = &mut s.promise {
                points.iter_mut().filter(|p| p.percentile == longer.percentile).for_each(|p| *p = *longer);
            }
        })
    });
    let more_cores = miss.room().then(|| trial.more_cores(1)).flatten();
    longer.map(NearestFit::Within).chain(less()).chain(more_cores).collect()
}

fn points(planned: &ServicePlan) -> String {
    let Promise::Percentiles { points, .. } = &planned.promise else { return String::new() };
    points.iter().map(Within::to_string).collect::<Vec<_>>().join(", ")
}

impl Method for Percentiles {
    fn asks(&self, service: &Service) -> Asks {
        match &service.promise {
            Promise::Percentiles { arrivals, service, .. } => Asks::Share(load(*arrivals, service)),
            _ => Asks::Share(Bandwidth::ONE),
        }
    }

    fn breaks_under_shares(&self) -> u8 {
        1
    }

    fn cheaper_alone(&self) -> bool {
        true
    }

    fn needs(&self, on: &OneHost, service: &Service, company: Company) -> Result<Vec<Vcpu>, Refusal> {
        Ok(vec![server(service, on, company)?])
    }

    fn no_room(&self, service: &Service, vcpu: &Vcpu, need: &Need, room: &Room, _: &Facts) -> Result<Cause, Error> {
        let Promise::Percentiles { points, .. } = &service.promise else { return Err(Error::NoTasks) };
        let &Room { left: room, whole, cores } = room;
        let how = Missed::Room { needs: Some(need.interface), room, whole, cores, alone: vcpu.alone };
        Ok(Cause::Percentiles(Box::new(Miss { points: points.clone(), how })))
    }

    fn nearest(&self, trial: &Trial, witness: &Service, cause: &Cause) -> Vec<NearestFit> {
        match cause {
            Cause::Percentiles(miss) => longer_latency(trial, witness, miss),
            _ => Vec::new(),
        }
    }

    fn smaller(&self, trial: &Trial, _witness: &Service) -> Vec<NearestFit> {
        trial.more_cores(1).into_iter().collect()
    }

    fn alone(&self, planned: &ServicePlan) -> bool {
        matches!(planned.certificate, Certificate::Percentiles { wait, .. } if wait.is_zero())
    }

    fn asked(&self, planned: &ServicePlan) -> String {
        format!("{} for {} + {} loss", share(planned.required), points(planned), share(planned.margin))
    }

    fn promised(&self, planned: &ServicePlan) -> String {
        let (budget, period) = (time(planned.server.budget), time(planned.server.period));
        format!("{}, with {budget} in every {period}", points(planned))
    }

    fn late(&self, late: &HostLatency, allowed: &str) -> String {
        format!("{allowed} are added to every response time, {} in any case", time(late.allowance))
    }

    fn proof(&self, planned: &ServicePlan) -> Vec<[String; 3]> {
        let Certificate::Percentiles { predicted, slots, error_ppm, .. } = &planned.certificate else {
            return Vec::new();
        };
        let row = |one: &PredictedPercentile| {
            let expected = one.expected.map_or(String::new(), |at| {
                format!("; {} if every request takes the mean, which is no bound", time(at))
            });
            let grid = format!("{slots} slots a request, probabilities last moved by {error_ppm} millionths");
            [format!("predicted {}", one.percentile), time(one.at), format!("computed: {grid}{expected}")]
        };
        predicted.iter().map(row).collect()
    }
}
