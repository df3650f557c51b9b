//! One set under one server algorithm.

use crate::sets::Domain;
use crate::Error;
use giusto_model::{Duration, Interface, JobRecord, ServerKind, Task};
use giusto_policy::Order;
use giusto_simulator::{simulate, Execution, Guest, Observer, ServerSpec, Sporadic, System, Workload};

/// PTPS, WCPS and CRPS of Lee11.
pub const KINDS: [ServerKind; 3] =
    [ServerKind::PeriodicStrict, ServerKind::PeriodicConserving, ServerKind::PeriodicReclaiming];

/// Response times beyond three deadlines count as three, as in the paper's figures.
pub const CLIP: u64 = 3;

/// Steps of the distribution in one deadline.
pub const STEPS: u64 = 100;

/// A set that can be played: domains with their interfaces, highest priority first.
#[derive(Clone, Debug)]
pub struct Served {
    /// What each domain runs.
    pub domains: Vec<Domain>,
    /// What each is given.
    pub interfaces: Vec<Interface>,
}

impl Served {
    /// Rate monotonic: shorter interface period first; ties as they come.
    pub fn rate_monotonic(domains: Vec<(Domain, Interface)>) -> Served {
        let mut domains = domains;
        domains.sort_by_key(|(_, interface)| interface.period);
        let (domains, interfaces) = domains.into_iter().unzip();
        Served { domains, interfaces }
    }
}

/// How a set is played.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// The server algorithm of all domains.
    pub kind: ServerKind,
    /// Execution-time factor in percent for the `factored` domains of highest priority: jobs run uniformly between that part
    /// of their worst case and all of it. The other domains always run their worst case.
    pub factor: u32,
    /// How many.
    pub factored: usize,
    /// Processor time that a server needs on its own budget whenever it is switched to.
    pub switch: Duration,
    /// How long.
    pub length: Duration,
    /// Of execution times.
    pub seed: u64,
}

/// What came of the jobs of one domain.
///
/// Counted is every job that is released at least three deadlines before the end. So its response time, clipped at three
/// deadlines, is known exactly, also if it never finished, and the same jobs count under every algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Counted jobs.
    pub jobs: u64,
    /// Those that finished after their deadline or never.
    pub misses: u64,
    /// Sum of response times, clipped, in ns.
    pub response_ns: u128,
    /// Sum of response / deadline, clipped, in millionths.
    pub ratio_ppm: u128,
    /// How often the domain's server was switched to, in all the time.
    pub switches: u64,
    /// Jobs by response / deadline: in the k-th those of (k − 1)/[`STEPS`] to k/[`STEPS`] deadlines, in the last also all
    /// that are clipped.
    pub steps: Vec<u64>,
}

impl Counts {
    fn new() -> Counts {
        Counts {
            jobs: 0,
            misses: 0,
            response_ns: 0,
            ratio_ppm: 0,
            switches: 0,
            steps: vec![0; (CLIP * STEPS) as usize + 1],
        }
    }

    /// A job that took `response` ns, or never finished.
    fn add(&mut self, deadline: u64, response: Option<u64>) {
        let clipped = response.unwrap_or(u64::MAX).min(CLIP * deadline);
        let share = |parts: u64| u128::from(clipped) * u128::from(parts);
        self.jobs += 1;
        self.misses += u64::from(clipped > deadline);
        self.response_ns += u128::from(clipped);
        self.ratio_ppm += share(1_000_000) / u128::from(deadline);
        self.steps[share(STEPS).div_ceil(u128::from(deadline)) as usize] += 1;
    }

    /// Counted jobs within `percent` of their deadline.
    pub fn within(&self, percent: u64) -> u64 {
        self.steps[..=(percent * STEPS / 100) as usize].iter().sum()
    }
}

/// Plays `set`. Counts by domain, highest priority first. Errors: what the simulator refuses.
pub fn play(set: &Served, how: How) -> Result<Vec<Counts>, Error> {
    let servers = set.domains.iter().zip(&set.interfaces).enumerate().map(|(rank, (tasks, interface))| {
        let execution = match rank < how.factored {
            true => Execution::Uniform { percent: how.factor },
            false => Execution::Worst,
        };
        let workload =
            Workload { tasks: tasks.clone(), guest: Guest::RateMonotonic, execution, sporadic: Sporadic::Densest };
        ServerSpec {
            kind: how.kind,
            budget: interface.budget,
            period: interface.period,
            first: Duration::ZERO,
            priority: rank as u32,
            vcpus: 1,
            workload: Some(workload),
        }
    });
    let system = System { switch: how.switch, ..System::new(Order::FixedPriority, servers.collect()) };
    let mut watch = Watch {
        set,
        end: how.length.ns(),
        counts: set.domains.iter().map(|_| Counts::new()).collect(),
        finished: set.domains.iter().map(|tasks| vec![0; tasks.len()]).collect(),
        last: (usize::MAX, 0),
    };
    simulate(&system, how.length, how.seed, &mut watch)?;
    let Watch { mut counts, finished, end, .. } = watch;
    for (rank, tasks) in set.domains.iter().enumerate() {
        for (task, finished) in tasks.iter().zip(&finished[rank]) {
            (*finished..released(task, end)).for_each(|_| counts[rank].add(task.deadline.ns(), None));
        }
    }
    Ok(counts)
}

/// Counts while it is played.
struct Watch<'a> {
    set: &'a Served,
    end: u64,
    counts: Vec<Counts>,
    /// Counted jobs that finished, by domain and task.
    finished: Vec<Vec<u64>>,
    /// Who ran last, and until when.
    last: (usize, u64),
}

impl Observer for Watch<'_> {
    fn job(&mut self, rank: usize, job: &JobRecord) -> Result<(), giusto_simulator::Error> {
        let deadline = self.set.domains[rank][job.task as usize].deadline.ns();
        if job.release.ns() + CLIP * deadline <= self.end {
            self.counts[rank].add(deadline, job.response_ns());
            self.finished[rank][job.task as usize] += 1;
        }
        Ok(())
    }

    fn slice(&mut self, rank: usize, _: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), giusto_simulator::Error> {
        self.counts[rank].switches += u64::from(self.last != (rank, from));
        self.last = (rank, to);
        Ok(())
    }
}

/// Jobs of `task` released at least three deadlines before `end`.
fn released(task: &Task, end: u64) -> u64 {
    match end.checked_sub(CLIP * task.deadline.ns() + task.offset.ns()) {
        Some(rest) => rest / task.period.ns() + 1,
        None => 0,
    }
}
