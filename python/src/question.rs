//! Questions to the calculators, put together from Python's values, and their answers as JSON: what the command line prints.

use crate::array::Whole;
use crate::error::input;
use crate::words::*;
use giusto_analysis::admission::{Fit, Grids, Order};
use giusto_analysis::interface::Family;
use giusto_analysis::response::Server;
use giusto_answers::notation::{self, shares};
use giusto_answers::path::Comes;
use giusto_answers::response::{measured, Requests};
use giusto_answers::Error;
use giusto_answers::{
    admission, bucket, criticality, interface, map, packets, path, plane, recovery, response, share, slo, vcpus,
};
use giusto_model::{Arrivals, Duration, RecoveryTimes};
use pyo3::prelude::*;
use serde::Serialize;
use std::sync::Arc;

/// A question to one of the calculators.
#[pyclass(frozen, module = "giusto._giusto")]
#[derive(Clone)]
pub(crate) struct Question(pub(crate) Arc<Asked>);

/// By calculator.
pub(crate) enum Asked {
    Interface(interface::Question),
    Given(interface::Given),
    Vcpus(vcpus::Question),
    Share(share::Question),
    Plane(plane::Question),
    Admission(admission::Question),
    Criticality(criticality::Question),
    Response(response::Question),
    Slo(slo::Question),
    Map(map::Question),
    Packets(packets::Question),
    Path(path::Question),
    Bucket(bucket::Question),
    Trace(bucket::Trace),
    Recovery(recovery::Question),
}

fn text(answer: Result<impl Serialize, Error>) -> Result<String, Error> {
    serde_json::to_string(&answer?).map_err(Error::running)
}

impl Asked {
    /// The answer as JSON; `done` is called for each part of it.
    pub(crate) fn answer(&self, done: &(dyn Fn() + Sync)) -> Result<String, Error> {
        match self {
            Asked::Interface(question) => text(question.answer()),
            Asked::Given(question) => text(question.answer()),
            Asked::Vcpus(question) => text(question.answer()),
            Asked::Share(question) => text(question.answer()),
            Asked::Plane(question) => text(question.answer()),
            Asked::Admission(question) => text(question.answer()),
            Asked::Criticality(question) => text(question.answer()),
            Asked::Response(question) => text(question.answer()),
            Asked::Slo(question) => text(question.answer()),
            Asked::Map(question) => text(question.answer(&question.axes(), done)),
            Asked::Packets(question) => text(question.answer()),
            Asked::Path(question) => text(question.answer()),
            Asked::Bucket(question) => text(question.answer()),
            Asked::Trace(question) => text(question.answer()),
            Asked::Recovery(question) => text(question.answer()),
        }
    }
}

fn ask(asked: Asked) -> Question {
    Question(Arc::new(asked))
}

/// One of a few names.
fn named<T: Copy>(what: &str, name: &str, of: &[(&str, T)]) -> PyResult<T> {
    of.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = of.iter().map(|(known, _)| *known).collect();
        input(format!("'{name}' is no {what}; expected one of {}", known.join(", ")))
    })
}

fn family(name: &str) -> PyResult<Family> {
    named(
        "supply",
        name,
        &[("general", Family::General), ("aligned", Family::Aligned), ("edp", Family::ExplicitDeadline)],
    )
}

fn requests(
    rate: RateWord,
    service: Option<Many<WeightedTime>>,
    measured_ns: Option<Whole>,
    batch: Many<WeightedSize>,
    server: &str,
) -> PyResult<Requests> {
    let service = match (service, measured_ns) {
        (Some(service), None) => shares(&service.values()),
        (None, Some(times)) => measured(times.known()?),
        _ => return Err(input("expected either service times or measured ones")),
    };
    let kinds = [
        ("deferrable", Server::Deferrable),
        ("periodic", Server::Periodic),
        ("constant_bandwidth", Server::ConstantBandwidth),
    ];
    Ok(Requests { rate: rate.0, service, batch: batch.values(), server: named("server", server, &kinds)? })
}

/// So many of something that is counted from 1; `None`: not asked for.
fn counted(what: &str, number: Option<Count>) -> PyResult<Option<u32>> {
    match number.map(|it| it.0) {
        Some(number) if !(1..=1024).contains(&number) => Err(input(format!("expected 1 to 1024 {what}, not {number}"))),
        asked => Ok(asked),
    }
}

/// Each makes a question; what its values mean is in `giusto.analyze`.
#[pymethods]
impl Question {
    /// Of how many parts the answer is: the cells of a map.
    #[getter]
    fn parts(&self) -> usize {
        match &*self.0 {
            Asked::Map(question) => {
                let axes = question.axes();
                axes.bandwidths.len() * axes.periods.len()
            }
            _ => 1,
        }
    }

    #[staticmethod]
    #[pyo3(signature = (tasks, scheduler, supply, quantum, period, deadline, preemption, latency, sensitivity, most))]
    #[allow(clippy::too_many_arguments)] // a question has so many values
    fn interface(
        tasks: Many<TaskWord>,
        scheduler: SchedulerWord,
        supply: &str,
        quantum: Option<Span>,
        period: Option<Span>,
        deadline: Option<Span>,
        preemption: Time,
        latency: Time,
        sensitivity: bool,
        most: Option<Span>,
    ) -> PyResult<Question> {
        if deadline.is_some() && !preemption.0.is_zero() {
            return Err(input("a deadline of budgets goes without the cost of a preemption"));
        }
        Ok(ask(Asked::Interface(interface::Question {
            tasks: tasks.values(),
            scheduler: scheduler.0,
            supply: family(supply)?,
            quantum: quantum.map(|it| it.0),
            period: period.map(|it| it.0),
            deadline: deadline.map(|it| it.0),
            preemption: preemption.0,
            latency: latency.0,
            sensitivity,
            most: most.map(|it| it.0),
        })))
    }

    #[staticmethod]
    fn given(
        tasks: Many<TaskWord>,
        scheduler: SchedulerWord,
        resource: ResourceWord,
        aligned: bool,
        latency: Time,
        sensitivity: bool,
    ) -> PyResult<Question> {
        use giusto_analysis::interface::Resource::{Aligned, Periodic};
        let resource = match (aligned, resource.0) {
            (false, resource) => resource,
            (true, Periodic { period, budget }) => Aligned { period, budget },
            (true, _) => return Err(input("an aligned supply is a budget and a period")),
        };
        let (tasks, scheduler, latency) = (tasks.values(), scheduler.0, latency.0);
        Ok(ask(Asked::Given(interface::Given { tasks, scheduler, resource, latency, sensitivity })))
    }

    #[staticmethod]
    #[pyo3(signature = (tasks, vcpus, period, quantum, latency))]
    fn vcpus(
        tasks: Many<TaskWord>,
        vcpus: Option<Count>,
        period: Option<Span>,
        quantum: Option<Span>,
        latency: Time,
    ) -> PyResult<Question> {
        let vcpus = counted("virtual CPUs", vcpus)?;
        let (period, quantum) = (period.map(|it| it.0), quantum.map(|it| it.0));
        Ok(ask(Asked::Vcpus(vcpus::Question { tasks: tasks.values(), vcpus, period, quantum, latency: latency.0 })))
    }

    #[staticmethod]
    #[pyo3(signature = (tasks, releases, period, max_period, margin))]
    fn share(
        tasks: Many<TaskWord>,
        releases: Option<&str>,
        period: Option<Span>,
        max_period: Option<Span>,
        margin: ShareWord,
    ) -> PyResult<Question> {
        use giusto_analysis::share::Wanted;
        let known = [("kept", share::Releases::Kept), ("sporadic", share::Releases::Sporadic)];
        let releases = releases.map(|name| named("kind of releases", name, &known)).transpose()?;
        let wanted = match (period, max_period) {
            (Some(_), Some(_)) => return Err(input("expected a period or a longest one, not both")),
            (Some(period), None) => Wanted::Exactly(period.0),
            (None, Some(longest)) => Wanted::AtMost(longest.0),
            (None, None) => Wanted::Hyperperiod,
        };
        Ok(ask(Asked::Share(share::Question { tasks: tasks.values(), releases, wanted, margin: margin.0 })))
    }

    #[staticmethod]
    #[pyo3(signature = (tasks, scheduler, start, period, quantum))]
    fn plane(
        tasks: Many<TaskWord>,
        scheduler: SchedulerWord,
        start: Option<ShareWord>,
        period: Option<Span>,
        quantum: Span,
    ) -> Question {
        ask(Asked::Plane(plane::Question {
            tasks: tasks.values(),
            scheduler: scheduler.0,
            from: start.map(|it| it.0),
            period: period.map(|it| it.0),
            quantum: quantum.0,
        }))
    }

    #[staticmethod]
    #[pyo3(signature = (servers, scheduler, aligned, capacity, cores, fit, sensitivity))]
    fn admission(
        servers: Many<ServerWord>,
        scheduler: &str,
        aligned: bool,
        capacity: ShareWord,
        cores: Option<Count>,
        fit: Option<&str>,
        sensitivity: bool,
    ) -> PyResult<Question> {
        let cores = counted("cores", cores)?;
        if cores.is_none() && fit.is_some() || cores.is_some() && sensitivity {
            return Err(input("a fit goes with cores, and how much more each server may take with one core"));
        }
        let fits = [("first", Fit::First), ("best", Fit::Best), ("worst", Fit::Worst)];
        let orders = [("fixed-priority", Order::FixedPriority), ("edf", Order::Edf)];
        Ok(ask(Asked::Admission(admission::Question {
            servers: servers.values(),
            scheduler: named("order", scheduler, &orders)?,
            grids: if aligned { Grids::Aligned } else { Grids::Apart },
            capacity: capacity.0,
            cores,
            fit: fit.map(|name| named("fit", name, &fits)).transpose()?,
            sensitivity,
        })))
    }

    #[staticmethod]
    #[pyo3(signature = (vms, capacity, cores))]
    fn criticality(vms: Many<VmWord>, capacity: ShareWord, cores: Option<Count>) -> PyResult<Question> {
        let cores = counted("cores", cores)?;
        Ok(ask(Asked::Criticality(criticality::Question { vms: vms.values(), capacity: capacity.0, cores })))
    }

    #[staticmethod]
    #[pyo3(signature = (rate, service, measured_ns, batch, server, budget, period, at, percentiles, slots, most))]
    #[allow(clippy::too_many_arguments)] // a question has so many values
    fn response(
        rate: RateWord,
        service: Option<Many<WeightedTime>>,
        measured_ns: Option<Whole>,
        batch: Many<WeightedSize>,
        server: &str,
        budget: Span,
        period: Span,
        at: Many<Span>,
        percentiles: Many<PercentWord>,
        slots: Option<Count>,
        most: Option<Span>,
    ) -> PyResult<Question> {
        let slots = slots.map(|it| it.0);
        if slots.is_some_and(|slots| !(1..=100_000).contains(&slots)) {
            return Err(input("expected 1 to 100,000 slots in a mean service time"));
        }
        Ok(ask(Asked::Response(response::Question {
            requests: requests(rate, service, measured_ns, batch, server)?,
            budget: budget.0,
            period: period.0,
            at: at.values(),
            percentiles: percentiles.values(),
            slots,
            most: most.map(|it| it.0),
        })))
    }

    #[staticmethod]
    #[pyo3(signature = (rate, service, measured_ns, batch, server, objectives, periods, quantum))]
    #[allow(clippy::too_many_arguments)] // a question has so many values
    fn slo(
        rate: RateWord,
        service: Option<Many<WeightedTime>>,
        measured_ns: Option<Whole>,
        batch: Many<WeightedSize>,
        server: &str,
        objectives: Many<ObjectiveWord>,
        periods: Many<Span>,
        quantum: Span,
    ) -> PyResult<Question> {
        Ok(ask(Asked::Slo(slo::Question {
            requests: requests(rate, service, measured_ns, batch, server)?,
            objectives: objectives.values(),
            periods: periods.values(),
            quantum: quantum.0,
        })))
    }

    #[staticmethod]
    #[pyo3(signature = (rate, service, measured_ns, batch, server, percentiles, bandwidth, period, steps))]
    #[allow(clippy::too_many_arguments)] // a question has so many values
    fn map(
        rate: RateWord,
        service: Option<Many<WeightedTime>>,
        measured_ns: Option<Whole>,
        batch: Many<WeightedSize>,
        server: &str,
        percentiles: Many<PercentWord>,
        bandwidth: Option<(ShareWord, ShareWord)>,
        period: Option<(Span, Span)>,
        steps: Count,
    ) -> PyResult<Question> {
        let (bandwidth, period) = (bandwidth.map(|(a, b)| (a.0, b.0)), period.map(|(a, b)| (a.0, b.0)));
        let ascending = bandwidth.is_none_or(|(a, b)| a < b) && period.is_none_or(|(a, b)| a < b);
        let steps = u16::try_from(steps.0).unwrap_or(u16::MAX);
        if !ascending || !(2..=1000).contains(&steps) {
            return Err(input("expected ranges with the lower end first, and 2 to 1000 steps"));
        }
        let requests = requests(rate, service, measured_ns, batch, server)?;
        let percentiles = percentiles.values();
        Ok(ask(Asked::Map(map::Question { requests, percentiles, bandwidth, period, steps })))
    }

    #[staticmethod]
    #[pyo3(signature = (flows, capacity, poll, latency))]
    fn packets(flows: Many<LevelWord>, capacity: RateWord, poll: Count, latency: Time) -> PyResult<Question> {
        let (flows, poll) = (flows.values(), poll.0);
        if flows.is_empty() || poll == 0 {
            return Err(input("expected packets of one thread at least, such as '5k/s*16', and a poll of 1 or more"));
        }
        let (capacity, latency) = (capacity.0, latency.0);
        Ok(ask(Asked::Packets(packets::Question { levels: flows, capacity, poll, latency })))
    }

    #[staticmethod]
    #[pyo3(signature = (rate, burst, period, jitter, distance, stages, also, percentiles, at))]
    #[allow(clippy::too_many_arguments)] // a question has so many values
    fn path(
        rate: Option<RateWord>,
        burst: Option<Count>,
        period: Option<Span>,
        jitter: Option<Span>,
        distance: Option<Span>,
        stages: Many<PlaceWord>,
        also: Many<AlsoWord>,
        percentiles: Many<PercentWord>,
        at: Many<Span>,
    ) -> PyResult<Question> {
        if period.is_none() && (jitter.is_some() || distance.is_some()) {
            return Err(input("a jitter and a distance go with a period"));
        }
        let zero = |time: Option<Span>| time.map_or(Duration::ZERO, |it| it.0);
        let comes = match (rate, burst.map(|it| it.0), period) {
            (None, None, Some(period)) => {
                Comes::Periodic { period: period.0, jitter: zero(jitter), distance: zero(distance) }
            }
            (Some(rate), Some(burst), None) if burst > 0 => Comes::Bucket(rate.0, burst),
            (Some(rate), None, None) => Comes::Poisson(rate.0),
            _ => return Err(input("expected a rate, a rate and a burst of 1 or more, or a period")),
        };
        let (stages, also) = (stages.values(), also.values());
        if !also.is_empty() && !matches!(comes, Comes::Poisson(_)) {
            return Err(input("other messages at a stage go with a rate alone, without a burst"));
        }
        if stages.is_empty() {
            return Err(input("expected one stage at least, such as '2ms/4ms:1ms'"));
        }
        let (percentiles, at) = (percentiles.values(), at.values());
        Ok(ask(Asked::Path(path::Question { comes, stages, also, percentiles, at })))
    }

    #[staticmethod]
    #[pyo3(signature = (rate, batch, tokens, depth, access, split, percentiles))]
    fn bucket(
        rate: RateWord,
        batch: Count,
        tokens: Option<RateWord>,
        depth: Option<TokensWord>,
        access: Option<PercentileWord>,
        split: Count,
        percentiles: Many<PercentileWord>,
    ) -> PyResult<Question> {
        let (batch, split) = (batch.0, split.0);
        let known = (1..=1000).contains(&batch) && (1..=1000).contains(&split);
        if !known || tokens.is_none() && (depth.is_some() || split > 1) {
            return Err(input("expected batches of 1 to 1000, and 1 to 1000 brokers; depth and split go with tokens"));
        }
        if depth.is_some() && access.is_some() {
            return Err(input("expected a depth, or how many messages do not wait, not both"));
        }
        let access = access.map_or_else(|| notation::percentile("p99").map_err(input), |access| Ok(access.0))?;
        Ok(ask(Asked::Bucket(bucket::Question {
            arrivals: Arrivals { rate: rate.0, batch },
            tokens: tokens.map(|it| it.0),
            depth: depth.map(|it| it.0),
            access,
            split,
            percentiles: percentiles.values(),
        })))
    }

    #[staticmethod]
    #[pyo3(signature = (arrivals_ns, tokens, access))]
    fn trace(arrivals_ns: Whole, tokens: Option<RateWord>, access: PercentileWord) -> PyResult<Question> {
        let arrivals = arrivals_ns.known()?.into_iter().map(Duration::from_ns).collect();
        Ok(ask(Asked::Trace(bucket::Trace { arrivals, tokens: tokens.map(|it| it.0), access: access.0 })))
    }

    #[staticmethod]
    #[pyo3(signature = (servers, epochs, wait, leave, jitter, delay, message, recover, learner, write))]
    #[allow(clippy::too_many_arguments)] // a question has so many values
    fn recovery(
        servers: Count,
        epochs: &str,
        wait: Option<Span>,
        leave: Time,
        jitter: Time,
        delay: Time,
        message: Time,
        recover: Time,
        learner: Time,
        write: Time,
    ) -> PyResult<Question> {
        let times = RecoveryTimes {
            leave: leave.0,
            jitter: jitter.0,
            delay: delay.0,
            message: message.0,
            recover: recover.0,
            learner: learner.0,
            write: write.0,
        };
        let (servers, epochs) = (servers.0.into(), epochs.parse().map_err(input)?);
        Ok(ask(Asked::Recovery(recovery::Question { servers, epochs, wait: wait.map(|it| it.0), times })))
    }
}
