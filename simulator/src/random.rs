//! Response times of requests that come at random, by playing them: for servers and times that `analysis` has no answer for.

use crate::engine::simulate;
use crate::seeds::in_parallel;
use crate::system::{Error, Execution, Guest, ServerSpec, Sporadic, System, Workload};
use giusto_analysis::response::{Question, Server};
use giusto_model::{Duration, JobRecord, Release, ServerKind, Task};
use giusto_policy::Order;
use rand::distr::weighted::WeightedIndex;
use rand::distr::Distribution;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// Independent runs, whose spread makes the intervals.
const RUNS: u64 = 20;
/// Student's t for 19 degrees of freedom: 95 % lie within.
const T_95: f64 = 2.093;
/// Values that service times are drawn from: shares are exact to one in so many.
const VALUES: f64 = 100_000.0;
/// After the last job all are given this time to finish, as a multiple of all gaps.
const DRAIN: u64 = 4;

/// What was seen, with 95 % intervals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sampled {
    /// Mean response time in ns.
    pub mean_ns: Interval,
    /// Share of response times up to each time that was asked for.
    pub cdf: Vec<Interval>,
    /// Each percentile that was asked for, in ns.
    pub percentiles_ns: Vec<Interval>,
    /// Jobs behind it.
    pub jobs: u64,
    /// Of everything random.
    pub seed: u64,
}

/// A mean over runs, and where it lies with a probability of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The mean.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Plays about `jobs` jobs of `question` under the policy core, alone on a core, in 20 runs on all processors. Each run leaves out
/// its first tenth. The same seed gives the same numbers. O(jobs · log jobs). Errors: as [`simulate`]; distributions that are none.
pub fn sample(
    question: &Question,
    at: &[Duration],
    percentiles: &[f64],
    jobs: u64,
    seed: u64,
) -> Result<Sampled, Error> {
    let each = (jobs / RUNS).max(100);
    let runs = in_parallel(RUNS as usize, |run| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(run as u64);
        let mut responses = play(question, each as usize, &mut rng)?;
        responses.drain(..each as usize / 10);
        responses.sort_unstable();
        let count = responses.len();
        let mean = responses.iter().map(|&ns| ns as f64).sum::<f64>() / count as f64;
        let share = |at: &Duration| responses.partition_point(|ns| *ns <= at.ns()) as f64 / count as f64;
        let nth = |p: &f64| responses[((p / 100.0 * count as f64).ceil() as usize).clamp(1, count) - 1] as f64;
        Ok::<_, Error>((mean, at.iter().map(share).collect(), percentiles.iter().map(nth).collect()))
    })?;
    let runs: Vec<Run> = runs;
    let of = |value: &dyn Fn(&Run) -> f64| interval(runs.iter().map(value).collect());
    Ok(Sampled {
        mean_ns: of(&|run| run.0),
        cdf: (0..at.len()).map(|i| of(&|run| run.1[i])).collect(),
        percentiles_ns: (0..percentiles.len()).map(|i| of(&|run| run.2[i])).collect(),
        jobs: RUNS * (each - each / 10),
        seed,
    })
}

/// Mean, shares and percentiles of a run.
type Run = (f64, Vec<f64>, Vec<f64>);

fn interval(runs: Vec<f64>) -> Interval {
    let count = runs.len() as f64;
    let value = runs.iter().sum::<f64>() / count;
    let variance = runs.iter().map(|run| (run - value).powi(2)).sum::<f64>() / (count - 1.0);
    let half = T_95 * (variance / count).sqrt();
    Interval { value, low: value - half, high: value + half }
}

/// Response times of `jobs` jobs in ns, in the order in which they come.
fn play(question: &Question, jobs: usize, rng: &mut ChaCha8Rng) -> Result<Vec<u64>, Error> {
    let of = |what: &dyn std::fmt::Display| Error::Server { index: 0, why: what.to_string() };
    let sizes = WeightedIndex::new(question.batch.iter().map(|(_, p)| *p)).map_err(|why| of(&why))?;
    let rate = question.rate.per_ns();
    let mut releases = Vec::with_capacity(jobs);
    let mut now = 0u64;
    while releases.len() < jobs {
        let uniform: f64 = rng.random_range(f64::MIN_POSITIVE..1.0);
        now = now.checked_add((-uniform.ln() / rate) as u64).ok_or(Error::Horizon)?;
        (0..question.batch[sizes.sample(rng)].0).for_each(|_| releases.push(now));
    }
    releases.truncate(jobs);
    replay(question, &releases, rng.random())
}

/// Response times in ns of requests that come at `releases` (ns, ascending, one at least), in their order, on the server of
/// `question` alone on a core; a period begins at 0. Service times are drawn from the question's; its rate and batches do not
/// matter. Errors: as [`simulate`]; releases that descend.
pub fn replay(question: &Question, releases: &[u64], seed: u64) -> Result<Vec<u64>, Error> {
    let jobs = releases.len();
    let (Some(&first), Some(&last)) = (releases.first(), releases.last()) else { return Err(Error::Horizon) };
    let first = Duration::from_ns(first);
    let gaps = releases.windows(2).map(|two| two[1].checked_sub(two[0]).ok_or(Error::Horizon));
    let mut gaps = gaps.collect::<Result<Vec<u64>, Error>>()?;
    let horizon = Duration::from_ns(last.checked_mul(DRAIN).ok_or(Error::Horizon)?.max(1));
    gaps.push(horizon.ns()); // never again
    let values = question.service.iter().flat_map(|&(time, p)| {
        let count = (p * VALUES).round() as usize;
        std::iter::repeat_n(time.ns(), count)
    });
    let longest = question.service.iter().map(|(time, _)| *time).max().unwrap_or_default();
    let never = Duration::from_ns(horizon.ns().max(longest.ns()));
    let task = Task {
        name: "request".into(),
        wcet: longest,
        period: never,
        deadline: never,
        offset: first,
        release: Release::Sporadic,
        copies: 1,
    };
    let workload = Workload {
        tasks: vec![task],
        guest: Guest::Fifo,
        execution: Execution::Samples(values.collect::<Vec<_>>().into()),
        sporadic: Sporadic::Gaps(gaps.into()),
    };
    let kind = match question.server {
        Server::Deferrable => ServerKind::Deferrable,
        Server::Periodic => ServerKind::PeriodicStrict,
        Server::ConstantBandwidth => ServerKind::ConstantBandwidth,
    };
    let (budget, period) = (question.budget, question.period);
    let spec =
        ServerSpec { kind, budget, period, first: Duration::ZERO, priority: 0, vcpus: 1, workload: Some(workload) };
    let system = System::new(Order::FixedPriority, vec![spec]);
    let mut responses = vec![0; jobs];
    let mut done = 0;
    let mut keep = |_: usize, job: &JobRecord| {
        if let (Some(place), Some(ns)) = (responses.get_mut(job.job as usize), job.response_ns()) {
            *place = ns;
            done += 1;
        }
    };
    simulate(&system, horizon, seed, &mut keep)?;
    if done < jobs {
        return Err(Error::NoJob { within: horizon });
    }
    Ok(responses)
}
