//! Servers and tasks in virtual time, without a site; under the policy core, Xen's Credit, a fair scheduler or one in Python.

use crate::array::Whole;
use crate::columns::{JobRecords, SliceRecords};
use crate::error::{failed, input};
use crate::pool::order;
use crate::recorder::{Of, Recorder};
use crate::run::{beside, Stop};
use crate::words::{kind, Count, Many, Seed, Span, TaskWord, Time, Values};
use giusto_model::Duration;
use giusto_simulator::baselines::{Credit, Fair};
use giusto_simulator::{
    simulate, simulate_with, Error, Execution, Guest, Scheduler, ServerSpec, Sporadic, Stats, System, Workload,
};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;

/// A system that is put together server by server.
#[pyclass(module = "giusto._giusto")]
pub(crate) struct SystemData(System);

/// What is left of each server: consumed and unfinished.
type Left = Vec<(u64, u64)>;
type Played = (JobRecords, SliceRecords, Left);

/// What each does is in `giusto.System`.
#[pymethods]
impl SystemData {
    #[new]
    #[pyo3(signature = (order_name, cores, tick, switch))]
    fn new(order_name: &str, cores: Count, tick: Option<Span>, switch: Time) -> PyResult<SystemData> {
        let (order, cores) = (order(order_name)?, cores.0);
        if !(1..=64).contains(&cores) || order == giusto_policy::Order::MixedCriticality {
            return Err(input("a system has 1 to 64 cores, and the order fixed-priority or edf"));
        }
        let (tick, switch) = (tick.map(|it| it.0), switch.0);
        Ok(SystemData(System { cores, tick, switch, ..System::new(order, Vec::new()) }))
    }

    #[pyo3(signature = (
        kind_name, budget, period, priority, vcpus, first, tasks, guest, execution_percent, execution_ns, releases
    ))]
    #[allow(clippy::too_many_arguments)] // a server has so many values
    fn server(
        &mut self,
        kind_name: &str,
        budget: Time,
        period: Time,
        priority: Count,
        vcpus: Count,
        first: Time,
        tasks: Option<Many<TaskWord>>,
        guest: &str,
        execution_percent: Option<Count>,
        execution_ns: Option<Whole>,
        releases: &str,
    ) -> PyResult<usize> {
        let (vcpus, priority) = (vcpus.0, priority.0);
        if !(1..=1024).contains(&vcpus) {
            return Err(input(format!("a server has 1 to 1024 virtual CPUs, not {vcpus}")));
        }
        let execution = match (execution_percent, execution_ns) {
            (None, None) => Execution::Worst,
            (Some(Count(percent)), None) if percent <= 100 => Execution::Uniform { percent },
            (Some(_), None) => return Err(input("expected execution from 0 to 100 percent of the worst case")),
            (None, Some(times)) => Execution::Samples(times.known()?.into()),
            (Some(_), Some(_)) => {
                return Err(input("execution times are drawn from a range or from samples, not both"))
            }
        };
        let guest = self::guest(guest)?;
        let sporadic = self::sporadic(releases)?;
        let workload = tasks.map(|tasks| Workload { tasks: tasks.values(), guest, execution, sporadic });
        self.0.servers.push(ServerSpec {
            kind: kind(kind_name)?,
            budget: budget.0,
            period: period.0,
            first: first.0,
            priority,
            vcpus,
            workload,
        });
        Ok(self.0.servers.len() - 1)
    }

    /// Plays it; `scheduler`: `policy`, `credit`, `fair`, or an object of Python's.
    #[pyo3(signature = (horizon, seed, slices, scheduler))]
    fn simulate(
        &self,
        py: Python<'_>,
        horizon: Span,
        seed: Seed,
        slices: bool,
        scheduler: Option<Py<PyAny>>,
    ) -> PyResult<Played> {
        let (system, horizon, seed, stop) = (self.0.clone(), horizon.0, seed.0, Stop::default());
        let mut recorder = Recorder::new(Of::All, slices, stop.clone());
        let named: Option<String> = scheduler.as_ref().and_then(|given| given.extract(py).ok());
        if let (Some(own), None) = (&scheduler, &named) {
            let mut own = Own::new(own.bind(py).clone(), vcpus(&system), stop);
            let all = simulate_with(&mut own, &system, horizon, seed, &mut recorder);
            return match own.error.into_inner() {
                Some(error) => Err(error),
                None => told(recorder, all),
            };
        }
        let work = move || {
            let all = play(&system, named.as_deref(), horizon, seed, &mut recorder);
            (recorder, all)
        };
        let (recorder, all) = beside(py, &stop, work)?;
        told(recorder, all?)
    }
}

fn told(recorder: Recorder, all: Result<Vec<Stats>, Error>) -> PyResult<Played> {
    let all = all.map_err(|error| match error {
        Error::Write(text) => failed(text),
        other => input(other),
    })?;
    let left = all.iter().map(|stats| (stats.consumed.ns(), stats.unfinished)).collect();
    Ok((JobRecords(Arc::new(recorder.jobs)), SliceRecords(Arc::new(recorder.slices)), left))
}

/// Of all servers.
fn vcpus(system: &System) -> usize {
    system.servers.iter().map(|server| server.vcpus as usize).sum()
}

/// Weights of servers beside each other under schedulers without reservations.
const EQUAL: u32 = 256;

fn play(
    system: &System,
    scheduler: Option<&str>,
    horizon: Duration,
    seed: u64,
    recorder: &mut Recorder,
) -> PyResult<Result<Vec<Stats>, Error>> {
    let weights = || vec![EQUAL; vcpus(system)];
    match scheduler {
        None | Some("policy") => Ok(simulate(system, horizon, seed, recorder)),
        Some("credit") => {
            let mut credit = Credit::new(system.cores, &weights(), &[]).map_err(|why| input(format!("{why:?}")))?;
            Ok(simulate_with(&mut credit, system, horizon, seed, recorder))
        }
        Some("fair") => {
            let mut fair = Fair::new(system.cores, &weights()).map_err(|why| input(format!("{why:?}")))?;
            Ok(simulate_with(&mut fair, system, horizon, seed, recorder))
        }
        Some(other) => Err(input(format!("'{other}' is no scheduler; expected policy, credit, fair or an object"))),
    }
}

fn guest(name: &str) -> PyResult<Guest> {
    Ok(match name {
        "fifo" => Guest::Fifo,
        "rm" => Guest::RateMonotonic,
        "dm" => Guest::DeadlineMonotonic,
        "listed" => Guest::Listed,
        "edf" => Guest::Edf,
        other => {
            return Err(input(format!("'{other}' is no scheduler of tasks; expected fifo, rm, dm, listed or edf")));
        }
    })
}

fn sporadic(name: &str) -> PyResult<Sporadic> {
    Ok(match name {
        "densest" => Sporadic::Densest,
        "random" => Sporadic::Random,
        "poisson" => Sporadic::Poisson,
        other => return Err(input(format!("'{other}' is no way of releases; expected densest, random or poisson"))),
    })
}

/// A scheduler in Python: an object with the methods of `giusto.policy.Scheduler`. After an exception it does nothing more; the
/// simulation ends with the exception.
struct Own<'py> {
    call: Bound<'py, PyAny>,
    /// Virtual CPUs.
    count: usize,
    /// Those with a core, of the cores that were asked for since the first.
    on: RefCell<Vec<usize>>,
    error: RefCell<Option<PyErr>>,
    stop: Stop,
}

impl<'py> Own<'py> {
    fn new(call: Bound<'py, PyAny>, count: usize, stop: Stop) -> Self {
        Own { call, count, on: RefCell::default(), error: RefCell::default(), stop }
    }

    fn ask<T: for<'a> FromPyObject<'a, 'py>>(&self, name: &str, given: impl PyCallArgs<'py>) -> Option<T> {
        if self.stop.is_set() {
            return None;
        }
        let found = self.call.call_method1(name, given).and_then(|value| value.extract().map_err(Into::into));
        found.map_err(|error| self.fail(error)).ok()
    }

    fn fail(&self, error: PyErr) {
        self.stop.set();
        *self.error.borrow_mut() = Some(error);
    }
}

impl Scheduler for Own<'_> {
    fn charge(&mut self, core: u32, ran: u64, now: u64) {
        self.ask::<Bound<'_, PyAny>>("charge", (core, ran, now));
    }
    fn ready(&mut self, server: usize, is_ready: bool, now: u64) {
        self.ask::<Bound<'_, PyAny>>("ready", (server, is_ready, now));
    }
    fn decide(&mut self, now: u64) -> Option<u64> {
        // A decision that is due by now would be asked for again and again.
        self.ask::<Option<u64>>("decide", (now,)).flatten().filter(|until| *until > now)
    }
    fn running(&self, core: u32) -> Option<usize> {
        let mut on = self.on.borrow_mut();
        if core == 0 {
            on.clear();
        }
        let vcpu = self.ask::<Option<usize>>("running", (core,)).flatten()?;
        if vcpu >= self.count || on.contains(&vcpu) {
            let expected = format!("expected a server below {}, each on one core", self.count);
            self.fail(input(format!("running({core}) is {vcpu}: {expected}")));
            return None;
        }
        on.push(vcpu);
        Some(vcpu)
    }
}
