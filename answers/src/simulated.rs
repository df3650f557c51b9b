//! `giusto simulate`: services of a plan, played in virtual time, and what that says of each.

use crate::Error;
use giusto_model::{About, Duration, JobRecord, Plan, Prediction, Promise, ServicePlan, Task};
use giusto_simulator::{
    in_parallel, predict_random, predict_under, Execution, Observer, Predicted, Stats, TaskTimes, Under, Unobserved,
    PERCENTILE_ERROR,
};
use giusto_verify::{Kept, Sample};
use serde::Serialize;

/// How a plan is played.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Besides each service's own server.
    pub compare: Vec<Under>,
    /// How long jobs take.
    pub execution: Execution,
    /// Times of requests outside of the service, drawn for each; none: 0.
    pub transport: Vec<u64>,
    /// Virtual time.
    pub horizon: Duration,
    /// Of the first run.
    pub seed: u64,
    /// Runs, of this seed and the following.
    pub seeds: u32,
}

impl Conditions {
    /// The seeds of all runs.
    pub fn all_seeds(&self) -> Vec<u64> {
        (0..u64::from(self.seeds)).map(|nth| self.seed.wrapping_add(nth)).collect()
    }
}

/// Whether its requests come at random.
pub fn random(service: &ServicePlan) -> bool {
    service.promise.arrivals().is_some()
}

/// Whether it is a stage of a path, which is played with its path.
pub fn is_stage(service: &ServicePlan) -> bool {
    service.promise.about() == About::Paths
}

/// Whether it has jobs to play.
pub fn has_jobs(service: &ServicePlan) -> bool {
    !service.tasks.is_empty() || random(service)
}

/// Plays a service of the plan under its server and all that it is compared with; the first run is told to the observer. What
/// has no jobs is a row without numbers.
///
/// # Errors
/// What the simulator refuses.
pub fn rows(
    conditions: &Conditions,
    plan: &Plan,
    service: &ServicePlan,
    observer: &mut dyn Observer,
) -> Result<Vec<Row>, Error> {
    let own = std::iter::once(Under::Server(service.server.kind));
    let under: Vec<Under> = own.chain(conditions.compare.iter().copied()).collect();
    let seeds = conditions.all_seeds();
    if random(service) {
        return at_random(conditions, plan, service, &under, observer);
    }
    if service.tasks.is_empty() {
        return Ok(vec![Row::unpredicted(service, under[0], conditions.seed)]);
    }
    let play = |under, seed, observer: &mut dyn Observer| {
        let Conditions { execution, transport, horizon, .. } = conditions;
        predict_under(service, under, execution.clone(), transport, *horizon, seed, observer)
    };
    let played = play(under[0], conditions.seed, observer)?;
    // Every other scheduler and seed, on all processors; in this order, whichever run is faster.
    let rest = in_parallel(under.len() * seeds.len() - 1, |nth| {
        play(under[(nth + 1) / seeds.len()], seeds[(nth + 1) % seeds.len()], &mut Unobserved)
    })?;
    let all: Vec<Predicted> = std::iter::once(played).chain(rest).collect();
    let row = |(under, runs): (&Under, &[Predicted])| Row::new(service, *under, conditions.seed, runs);
    Ok(under.iter().zip(all.chunks(seeds.len())).map(row).collect())
}

/// Plays a service that is promised percentiles; the first run is told to the observer.
fn at_random(
    conditions: &Conditions,
    plan: &Plan,
    service: &ServicePlan,
    under: &[Under],
    observer: &mut dyn Observer,
) -> Result<Vec<Row>, Error> {
    let Promise::Percentiles { points, .. } = &service.promise else { return Ok(Vec::new()) };
    let neighbour =
        |other: &&ServicePlan| other.on == service.on && other.core == service.core && other.name != service.name;
    let others: Vec<&ServicePlan> = plan.services.iter().filter(neighbour).collect();
    let mut rows = Vec::new();
    for (nth, &under) in under.iter().enumerate() {
        let (mut runs, mut samples) = (Vec::new(), Vec::new());
        for (run, seed) in conditions.all_seeds().into_iter().enumerate() {
            let first = nth == 0 && run == 0;
            let inner: Option<&mut dyn Observer> = if first { Some(&mut *observer) } else { None };
            let mut jobs = Responses { all: Vec::new(), inner };
            runs.push(predict_random(service, &others, under, conditions.horizon, seed, &mut jobs)?);
            samples.push(Sample::from_responses(jobs.all).map_err(Error::running)?);
        }
        let kept = giusto_verify::kept(points, &samples).map_err(Error::running)?;
        rows.push(Row { promised: Some(kept), ..Row::new(service, under, conditions.seed, &runs) });
    }
    Ok(rows)
}

/// Keeps the response times of server 0, in the order of their ends, which is that of their arrivals.
struct Responses<'a> {
    all: Vec<Option<u64>>,
    inner: Option<&'a mut dyn Observer>,
}

type Told = Result<(), giusto_simulator::Error>;

impl Observer for Responses<'_> {
    fn job(&mut self, server: usize, job: &JobRecord) -> Told {
        if server == 0 {
            self.all.push(job.response_ns());
        }
        self.inner.as_mut().map_or(Ok(()), |inner| inner.job(server, job))
    }
    fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Told {
        self.inner.as_mut().map_or(Ok(()), |inner| inner.slice(server, job, from, to))
    }
    fn release(&mut self, server: usize, task: u32, at: u64) -> Told {
        self.inner.as_mut().map_or(Ok(()), |inner| inner.release(server, task, at))
    }
    fn shows_budgets(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.shows_budgets())
    }
    fn budget(&mut self, server: usize, at: u64, left: i64) -> Told {
        self.inner.as_mut().map_or(Ok(()), |inner| inner.budget(server, at, left))
    }
}

/// What `--json` prints for a service (`formats/simulate.schema.json`).
#[derive(Serialize)]
pub struct Row {
    /// Its name.
    pub service: String,
    /// The host.
    pub on: String,
    /// The virtual CPU, where it is one of a VM.
    pub vcpu: Option<u32>,
    /// The same in words.
    #[serde(skip)]
    pub part: Option<String>,
    /// A server kind, `credit` or `fair`.
    pub scheduler: String,
    /// Of the first run.
    pub seed: u64,
    /// Runs pooled, of this seed and the following.
    pub seeds: usize,
    /// None without tasks, as the two numbers below, and where it is overloaded.
    pub prediction: Option<Prediction>,
    /// More is asked for than given: no percentile says anything then.
    pub overloaded: Option<String>,
    /// How far percentiles may lie above the true ones, as a share; max and mean are exact.
    pub percentile_error: f64,
    /// Of response times.
    pub mean_ns: Option<f64>,
    /// Jobs that had not ended.
    pub unfinished: u64,
    /// Of the core, that all others got.
    pub competitor_share: Option<f64>,
    /// Of a service that is promised percentiles: each as played, with its interval.
    pub promised: Option<Kept>,
    /// Of a service that is promised every deadline: its tasks, in their order.
    pub tasks: Option<Vec<TaskRow>>,
    /// None without tasks.
    #[serde(skip)]
    pub stats: Option<Stats>,
}

/// How a task keeps its deadlines.
#[derive(Serialize)]
pub struct TaskRow {
    /// Its name.
    pub task: String,
    /// Relative.
    #[serde(rename = "deadline_ns")]
    pub deadline: Duration,
    /// None: no job finished.
    pub prediction: Option<Prediction>,
    /// Jobs that were late.
    pub late: u64,
    /// None: no job finished.
    pub lateness_max_ns: Option<i64>,
}

impl TaskRow {
    fn new(task: &Task, times: &TaskTimes) -> Self {
        TaskRow {
            task: task.name.clone(),
            deadline: task.deadline,
            prediction: (times.stats.jobs() > 0).then(|| times.stats.prediction()),
            late: times.late,
            lateness_max_ns: times.latest_ns,
        }
    }
}

impl Row {
    /// Of a service without tasks.
    pub fn unpredicted(service: &ServicePlan, under: Under, seed: u64) -> Row {
        Row {
            service: service.name.clone(),
            on: service.on.clone(),
            vcpu: service.vcpu,
            part: service.part(),
            scheduler: under.to_string(),
            seed,
            seeds: 0,
            prediction: None,
            overloaded: None,
            percentile_error: PERCENTILE_ERROR,
            mean_ns: None,
            unfinished: 0,
            competitor_share: None,
            promised: None,
            tasks: None,
            stats: None,
        }
    }

    /// Whether both are of one server, under whatever scheduler.
    pub fn is_same_part(&self, other: &Row) -> bool {
        (&self.service, &self.on, self.vcpu) == (&other.service, &other.on, other.vcpu)
    }

    /// Of runs pooled, one at least.
    pub fn new(service: &ServicePlan, under: Under, seed: u64, runs: &[Predicted]) -> Row {
        let mut stats = runs[0].stats.clone();
        runs[1..].iter().for_each(|run| stats.merge(&run.stats));
        let tasks = (service.promise.about() == About::Deadlines).then(|| {
            let mut tasks = runs[0].tasks.clone();
            runs[1..].iter().for_each(|run| tasks.iter_mut().zip(&run.tasks).for_each(|(one, other)| one.merge(other)));
            service.tasks.iter().zip(&tasks).map(|(task, times)| TaskRow::new(task, times)).collect()
        });
        let competitor_share = Some(runs.iter().map(|run| run.competitor).sum::<f64>() / runs.len() as f64);
        if let Some(overload) = runs[0].overload {
            let overloaded = Some(overload.to_string());
            let (seeds, unfinished) = (runs.len(), stats.unfinished);
            return Row {
                seeds,
                unfinished,
                overloaded,
                competitor_share,
                tasks,
                stats: Some(stats),
                ..Row::unpredicted(service, under, seed)
            };
        }
        Row {
            seeds: runs.len(),
            prediction: Some(stats.prediction()),
            mean_ns: Some(stats.mean_ns()),
            unfinished: stats.unfinished,
            competitor_share,
            tasks,
            stats: Some(stats),
            ..Row::unpredicted(service, under, seed)
        }
    }
}
