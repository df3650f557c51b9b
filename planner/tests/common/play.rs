//! A planned core, played with the policy core: a service with its tasks at their worst beside servers that take all they can.

use giusto_model::{
    Certificate, Duration, GuestScheduler, JobRecord, Plan, Promise, Release, Scheduler, ServerKind, ServicePlan, Task,
};
use giusto_policy::Order;
use giusto_simulator::{simulate, Error, Execution, Guest, Observer, ServerSpec, Sporadic, System, Workload};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::RngExt;

/// The order of jobs, where nothing is known of it any that does not rest.
fn guest(promise: &Promise, rng: &mut StdRng) -> Guest {
    match promise {
        Promise::EveryDeadline { scheduler: GuestScheduler::Own(Scheduler::Rm), .. } => Guest::RateMonotonic,
        Promise::EveryDeadline { scheduler: GuestScheduler::Own(Scheduler::Dm), .. } => Guest::DeadlineMonotonic,
        Promise::EveryDeadline { scheduler: GuestScheduler::Own(Scheduler::Edf), .. } => Guest::Edf,
        _ => *[Guest::Fifo, Guest::Listed, Guest::Edf, Guest::RateMonotonic, Guest::DeadlineMonotonic]
            .choose(rng)
            .unwrap(),
    }
}

/// Deadlines of one server, copies one by one, and how many of its jobs were late.
pub(crate) struct Late {
    server: usize,
    deadlines: Vec<u64>,
    pub(crate) jobs: u64,
    pub(crate) late: Vec<JobRecord>,
    /// The least time to spare, as a share of the deadline.
    pub(crate) spare: f64,
}

impl Observer for Late {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
        if server == self.server {
            let (deadline, response) = (self.deadlines[job.task as usize], job.response_ns().unwrap());
            self.jobs += 1;
            self.spare = self.spare.min(deadline as f64 - response as f64) / deadline as f64;
            if response > deadline {
                self.late.push(*job);
            }
        }
        Ok(())
    }
}

/// Plays the core of entry `victim` for so long: its tasks at their worst, all others hungry or in bursts. And how many of
/// its jobs are not done in the end.
pub(crate) fn play(
    plan: &Plan,
    victim: usize,
    length: Duration,
    tick: Option<Duration>,
    rng: &mut StdRng,
) -> (Late, u64) {
    let core = plan.services[victim].core;
    let here: Vec<&ServicePlan> = plan.services.iter().filter(|entry| entry.core == core).collect();
    let place = here.iter().position(|entry| std::ptr::eq(*entry, &plan.services[victim])).unwrap();
    let together = Duration::from_us(rng.random_range(0..60_000) * rng.random_range(0..=1));
    // Releases at kept offsets are seen late by up to the latency, each task's by another time.
    let seen = here[place].tasks.iter().map(|task| match (&here[place].certificate, task.release) {
        (Certificate::EveryDeadline { latency, .. }, Release::KeptOffset) => rng.random_range(0..=latency.ns()),
        _ => 0,
    });
    let seen: Vec<u64> = seen.collect();
    let servers = here.iter().enumerate().map(|(index, entry)| {
        let workload = if index == place {
            let phase = |rng: &mut StdRng| {
                if rng.random_bool(0.5) {
                    together
                } else {
                    Duration::from_us(rng.random_range(0..60_000))
                }
            };
            let offset = |(task, seen): (&Task, &u64)| match task.release {
                Release::Sporadic => phase(rng),
                Release::KeptOffset => Duration::from_ns(together.ns() + task.offset.ns() + seen),
            };
            let offsets: Vec<Duration> = entry.tasks.iter().zip(&seen).map(offset).collect();
            let tasks = entry.tasks.iter().zip(offsets).map(|(task, offset)| Task { offset, ..task.clone() }).collect();
            let sporadic = if rng.random_bool(0.3) { Sporadic::Random } else { Sporadic::Densest };
            Some(Workload { tasks, guest: guest(&entry.promise, rng), execution: Execution::Worst, sporadic })
        } else {
            rng.random_bool(0.5).then(|| burst(entry, together, rng))
        };
        spec(entry, workload)
    });
    let mut servers: Vec<ServerSpec> = servers.collect();
    servers.push(ServerSpec { kind: ServerKind::Unlimited, workload: None, priority: 1, ..servers[0].clone() });
    let system = System { tick, ..System::new(Order::Edf, servers) };
    let left =
        here[place].tasks.iter().zip(&seen).map(|(task, seen)| (task.deadline.ns() - seen, task.copies as usize));
    let deadlines = left.flat_map(|(left, copies)| std::iter::repeat_n(left, copies));
    let mut late = Late { server: place, deadlines: deadlines.collect(), jobs: 0, late: Vec::new(), spare: 1.0 };
    let stats = simulate(&system, length, rng.random(), &mut late).unwrap();
    (late, stats[place].unfinished)
}

fn spec(entry: &ServicePlan, workload: Option<Workload>) -> ServerSpec {
    let server = entry.server;
    let (kind, budget, period, first) = (server.kind, server.budget, server.period, Duration::ZERO);
    ServerSpec { kind, budget, period, first, priority: 0, vcpus: 1, workload }
}

/// Work that comes now and then, up to two budgets at a time, or from `at` on without end.
fn burst(entry: &ServicePlan, at: Duration, rng: &mut StdRng) -> Workload {
    let (budget, period) = (entry.server.budget.ns(), entry.server.period.ns());
    let wcet = [budget / 2 + 1, budget, 2 * budget, 9_000_000_000][rng.random_range(0..4)];
    let gap = Duration::from_ns(wcet.max(rng.random_range(budget / 2..3 * period)) + 1);
    let task = Task {
        name: "burst".into(),
        wcet: Duration::from_ns(wcet),
        period: gap,
        deadline: gap,
        offset: at,
        release: Release::Sporadic,
        copies: 1,
    };
    let sporadic = if rng.random_bool(0.5) { Sporadic::Random } else { Sporadic::Densest };
    Workload { tasks: vec![task], guest: Guest::Fifo, execution: Execution::Worst, sporadic }
}

/// No job late, and none that is left lying.
pub(crate) fn kept(plan: &Plan, victim: usize, length: Duration, tick: Option<Duration>, rng: &mut StdRng) -> Late {
    let entry = &plan.services[victim];
    let (late, unfinished) = play(plan, victim, length, tick, rng);
    assert!(late.late.is_empty(), "{:?} of {}: {:#?}", late.late[0], late.jobs, plan.services);
    // At most one job a task can be on its way, and each must have come at least every second period.
    let copies: u64 = entry.tasks.iter().map(|task| u64::from(task.copies)).sum();
    let least: u64 =
        entry.tasks.iter().map(|t| u64::from(t.copies) * ((length.ns() - 60_000_000) / (2 * t.period.ns()))).sum();
    assert!(
        unfinished <= copies && late.jobs + unfinished >= least,
        "{unfinished} unfinished, {} done: {entry:#?}",
        late.jobs
    );
    late
}
