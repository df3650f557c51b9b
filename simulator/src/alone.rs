//! A path whose services are each alone on a core of their own: how many of its messages are late, run by run.

use crate::engine::simulate_with;
use crate::guest::exponential;
use crate::partitioned::Partitioned;
use crate::path::Ends;
use crate::route::{Route, Stage};
use crate::system::{Error, Execution, Guest, Messages, ServerSpec, Sporadic, System, Workload};
use crate::trace::Observer;
use giusto_model::{Duration, Instant, Interface, JobRecord, PathStage, Rate, ServerKind, ServiceTime, Task};
use giusto_policy::{Order, Params, Pool};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A service of the path: a deferrable server on a fixed grid.
#[derive(Clone, Copy, Debug)]
pub struct Alone<'a> {
    /// Its budget and its period.
    pub server: Interface,
    /// Added to each message.
    pub late: Duration,
    /// What a message takes.
    pub service: &'a ServiceTime,
}

/// Messages of one run. They come at random.
#[derive(Clone, Copy, Debug)]
pub struct AloneRun {
    /// How often.
    pub rate: Rate,
    /// So many come before those that count: queues are empty at the beginning.
    pub before: usize,
    /// So many count.
    pub counted: usize,
    /// What takes longer is not waited for, and counts as so long.
    pub longest: Duration,
    /// The same gives the same run.
    pub seed: u64,
}

/// What the counted messages took, in their order. The servers of a host have their grids in common, those of several hosts
/// begin apart, at random.
///
/// Errors: as [`simulate`](crate::simulate); [`Error::NoJob`] where `through` has other services than there are.
pub fn play_alone(through: &[PathStage], services: &[Alone<'_>], run: &AloneRun) -> Result<Vec<Duration>, Error> {
    let none = Error::NoJob { within: run.longest };
    let stage = |(server, one): (usize, &Alone)| {
        let execution = Execution::Samples(one.service.samples().into());
        Stage { server, late: one.late, budget: one.server.budget, execution }
    };
    let stages: Vec<Stage> = services.iter().enumerate().map(stage).collect();
    let hosts: Vec<&str> = through.iter().filter(|stage| stage.service().is_some()).map(PathStage::on).collect();
    let route = Route::new(through, &stages, services.len()).filter(|_| hosts.len() == services.len()).ok_or(none)?;
    let rng = &mut ChaCha8Rng::seed_from_u64(run.seed);
    rng.set_stream(u64::MAX);
    let longest = services.iter().map(|one| one.server.period.ns()).max().unwrap_or(1).max(1);
    let mut begins: Vec<(&str, u64)> = Vec::new();
    let mut apart = Partitioned::new(services.iter().map(|_| Pool::with_cores(Order::Edf, 1)));
    let mut specs = Vec::new();
    for (((core, one), host), (stage, tasks)) in (0..).zip(services).zip(&hosts).zip(stages.iter().zip(&route.tasks)) {
        let begin = match begins.iter().find(|(known, _)| known == host) {
            Some((_, begin)) => *begin,
            None => {
                let begin = rng.random_range(0..64 * longest);
                begins.push((host, begin));
                begin
            }
        };
        let (budget, period) = (one.server.budget, one.server.period);
        let first = begin % period.ns().max(1);
        let params = Params { budget: budget.ns(), period: period.ns(), first, priority: 0 };
        apart.add(core, |pool| pool.add(ServerKind::Deferrable, params, 0))?;
        let task = Task::sporadic("message", Duration::from_ns(1), period);
        let tasks = vec![task; *tasks as usize];
        let (execution, sporadic) = (stage.execution.clone(), Sporadic::Messages);
        specs.push(ServerSpec {
            kind: ServerKind::Deferrable,
            budget,
            period,
            first: Duration::from_ns(first),
            priority: 0,
            vcpus: 1,
            workload: Some(Workload { tasks, guest: Guest::Fifo, execution, sporadic }),
        });
    }
    let mean = (1.0 / run.rate.per_ns()).round().max(1.0) as u64;
    let mut at = 0u64;
    let arrivals: Vec<Instant> = (0..run.before + run.counted)
        .map(|_| {
            at = at.saturating_add(exponential(mean, rng).max(1));
            Instant::from_ns(at)
        })
        .collect();
    let own = arrivals.iter().flat_map(|at| route.firsts.iter().map(|first| (*at, *first)));
    let messages = Messages { arrivals: own.collect(), hops: route.hops.clone(), between: route.between.clone(), ..Messages::default() };
    let system = System { cores: services.len() as u32, messages, ..System::new(Order::Edf, specs) };
    let mut watched = Watched(Ends::of(&stages, route.last, arrivals.len()));
    let end = Duration::from_ns(at).checked_add(run.longest).ok_or(Error::Horizon)?;
    simulate_with(&mut apart, &system, end, run.seed, &mut watched)?;
    let took = |(at, end): (&Instant, &Option<Instant>)| {
        let took = end.map_or(u64::MAX, |end| end.ns().saturating_sub(at.ns()));
        Duration::from_ns(took.min(run.longest.ns()))
    };
    Ok(arrivals.iter().zip(&watched.0.at).skip(run.before).map(took).collect())
}

struct Watched(Ends);

impl Observer for Watched {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
        if let (Some(finish), 0) = (job.finish, job.task) {
            self.0.job(server, finish);
        }
        Ok(())
    }
    fn left(&mut self, _: usize, task: u32, at: u64) {
        if task == 0 {
            self.0.next(at);
        }
    }
}
