//! What a simulation says of each service.

use giusto_model::{Prediction, Promise, ServicePlan, Task};
use giusto_simulator::{Predicted, Stats, TaskTimes, Under, PERCENTILE_ERROR};
use giusto_verify::Kept;
use serde::Serialize;

/// What `--json` prints for a service (`formats/simulate.schema.json`).
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) service: String,
    /// The host.
    pub(crate) on: String,
    /// The virtual CPU, where it is one of a VM.
    pub(crate) vcpu: Option<u32>,
    /// The same in words.
    #[serde(skip)]
    pub(crate) part: Option<String>,
    /// A server kind, `credit` or `fair`.
    pub(crate) scheduler: String,
    pub(crate) seed: u64,
    /// Runs pooled, of this seed and the following.
    pub(crate) seeds: usize,
    /// None without tasks, as the two numbers below, and where it is overloaded.
    pub(crate) prediction: Option<Prediction>,
    /// More is asked for than given: no percentile says anything then.
    pub(crate) overloaded: Option<String>,
    /// How far percentiles may lie above the true ones, as a share; max and mean are exact.
    pub(crate) percentile_error: f64,
    pub(crate) mean_ns: Option<f64>,
    pub(crate) unfinished: u64,
    pub(crate) competitor_share: Option<f64>,
    /// Of a service that is promised percentiles: each as played, with its interval.
    pub(crate) promised: Option<Kept>,
    /// Of a service that is promised every deadline: its tasks, in their order.
    pub(crate) tasks: Option<Vec<TaskRow>>,
    /// None without tasks.
    #[serde(skip)]
    pub(crate) stats: Option<Stats>,
}

/// How a task keeps its deadlines.
#[derive(Serialize)]
pub(crate) struct TaskRow {
    pub(crate) task: String,
    #[serde(rename = "deadline_ns")]
    pub(crate) deadline: giusto_model::Duration,
    /// None: no job finished.
    pub(crate) prediction: Option<Prediction>,
    pub(crate) late: u64,
    /// None: no job finished.
    pub(crate) lateness_max_ns: Option<i64>,
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
    pub(crate) fn unpredicted(service: &ServicePlan, under: Under, seed: u64) -> Row {
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
    pub(crate) fn is_same_part(&self, other: &Row) -> bool {
        (&self.service, &self.on, self.vcpu) == (&other.service, &other.on, other.vcpu)
    }

    pub(crate) fn new(service: &ServicePlan, under: Under, seed: u64, runs: &[Predicted]) -> Row {
        let mut stats = runs[0].stats.clone();
        runs[1..].iter().for_each(|run| stats.merge(&run.stats));
        let tasks = matches!(service.promise, Promise::EveryDeadline { .. }).then(|| {
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
