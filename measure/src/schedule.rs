//! When which client's next request is due.

use crate::{Error, Generator};
use giusto_model::{Arrivals, Duration, Load, Release, Task};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Clients, and so connections: below the usual limit of ports.
const MOST_CLIENTS: u64 = 10_000;
/// Records of one run: about 2 GB of them.
const MOST_JOBS: u64 = 40_000_000;

/// A request that is due. Times in ns since the load's origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) client: usize,
    pub(crate) at: u64,
    /// Its number after the warm-up, from 0; `None` within the warm-up.
    pub(crate) job: Option<u64>,
}

/// The time from one request of a client to its next.
enum Gap {
    Period(u64),
    /// One after the other, in ns.
    Listed(VecDeque<u64>),
    /// Exponentially distributed with this mean in ns; in batches, of which so many are sent.
    Random {
        mean_ns: f64,
        batch: u32,
        sent: u32,
        rng: Box<ChaCha8Rng>,
        connections: u32,
    },
}

impl Gap {
    fn random(arrivals: Arrivals, connections: u32, seed: u64) -> Gap {
        let mut rng = Box::new(ChaCha8Rng::seed_from_u64(seed));
        rng.set_stream(1); // the bytes are drawn from another
        Gap::Random { mean_ns: 1.0 / arrivals.rate.per_ns(), batch: arrivals.batch, sent: 0, rng, connections }
    }

    /// From a request to the next; beyond the clock where it never comes.
    fn next(&mut self) -> u64 {
        match self {
            Gap::Period(period) => *period,
            Gap::Listed(gaps) => gaps.pop_front().unwrap_or(u64::MAX),
            Gap::Random { batch, sent, .. } if *sent % *batch != 0 => {
                *sent += 1;
                0
            }
            Gap::Random { mean_ns, sent, rng, .. } => {
                *sent = 1;
                (-(1.0 - rng.random::<f64>()).ln() * *mean_ns) as u64
            }
        }
    }

    /// The connection of the next request: so each of them sees requests at random too.
    fn client(&mut self, own: usize) -> usize {
        match self {
            Gap::Random { connections, rng, .. } if *connections > 1 => rng.random_range(0..*connections) as usize,
            _ => own,
        }
    }
}

/// Every request of a plan in the order of the times they are due; at equal times lower clients first.
pub(crate) struct Schedule {
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// Of each client: the time between two requests, and how many requests it recorded.
    clients: Vec<(Gap, u64)>,
    /// Of requests that come at random from one source.
    connections: usize,
    warm_up: u64,
    end: u64,
    jobs: u64,
}

impl Schedule {
    /// Checks the plan and counts its requests. O(clients).
    pub(crate) fn new(plan: &LoadPlan) -> Result<Schedule, Error> {
        let warm_up = plan.warm_up.ns();
        // Half of the clock's range leaves room for origin and grace.
        let end = plan.warm_up.checked_add(plan.run).map(|d| d.ns()).filter(|&end| end <= u64::MAX / 4);
        let end = end.ok_or_else(|| Error::Plan("warm-up and run are longer than a century; shorten them".into()))?;
        let mut schedule =
            Schedule { next: BinaryHeap::new(), clients: Vec::new(), connections: 0, warm_up, end, jobs: 0 };
        if !plan.trace.is_empty() {
            schedule.listed(plan.trace)?;
            return Ok(schedule);
        }
        if let Some(arrivals) = plan.arrivals {
            schedule.at_random(arrivals, plan.load.connections(), plan.seed);
        } else if plan.tasks.is_empty() {
            return Err(Error::Plan("a load without tasks; give the service tasks:".into()));
        }
        for task in plan.tasks {
            task.validate().map_err(|why| Error::Task { name: task.name.clone(), why })?;
            if schedule.clients.len() as u64 + u64::from(task.copies) > MOST_CLIENTS {
                return Err(Error::Plan(format!("more than {MOST_CLIENTS} clients; use fewer copies")));
            }
            let first = match task.release {
                Release::KeptOffset => task.offset.ns(),
                Release::Sporadic => 0,
            };
            // Requests due before t: those n with first + n·period < t.
            let before = |t: u64| t.saturating_sub(first).div_ceil(task.period.ns());
            let jobs = (before(end) - before(warm_up)).saturating_mul(u64::from(task.copies));
            schedule.jobs = schedule.jobs.saturating_add(jobs);
            for _ in 0..task.copies {
                if first < end {
                    schedule.next.push(Reverse((first, schedule.clients.len())));
                }
                schedule.clients.push((Gap::Period(task.period.ns()), 0));
            }
        }
        if schedule.jobs > MOST_JOBS {
            return Err(Error::Plan(format!(
                "{} requests are more than the {MOST_JOBS} that one run records; shorten the run",
                schedule.jobs
            )));
        }
        Ok(schedule)
    }

    /// One source, whose first request is due at the end of the warm-up.
    fn listed(&mut self, instants: &[u64]) -> Result<(), Error> {
        if !instants.is_sorted() || instants.len() as u64 > MOST_JOBS {
            return Err(Error::Plan(format!(
                "a trace of {} requests; expected ascending instants, {MOST_JOBS} at most",
                instants.len()
            )));
        }
        let within =
            instants.iter().filter(|at| self.warm_up.checked_add(*at - instants[0]).is_some_and(|at| at < self.end));
        self.jobs = within.count() as u64;
        if self.jobs > 0 {
            self.next.push(Reverse((self.warm_up, 0)));
        }
        self.clients.push((Gap::Listed(instants.windows(2).map(|two| two[1] - two[0]).collect()), 0));
        Ok(())
    }

    /// One source; how many requests it will send is known only roughly.
    fn at_random(&mut self, arrivals: Arrivals, connections: u32, seed: u64) {
        let mut gap = Gap::random(arrivals, connections, seed);
        let first = gap.next();
        let mean = (self.end - self.warm_up) as f64 * arrivals.rate.per_ns();
        self.jobs = ((mean + 6.0 * mean.sqrt() + 10.0) * f64::from(arrivals.batch)) as u64;
        if first < self.end {
            self.next.push(Reverse((first, 0)));
        }
        self.clients.push((gap, 0));
        self.connections = connections as usize;
    }

    /// Connections.
    pub(crate) fn clients(&self) -> usize {
        self.clients.len().max(self.connections)
    }

    /// Requests after the warm-up; of those that come at random about so many, seldom more.
    pub(crate) fn jobs(&self) -> u64 {
        self.jobs
    }

    /// When the next request is due; `None` after the last.
    pub(crate) fn next(&self) -> Option<u64> {
        self.next.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the next request if it is due by `now`. O(log clients).
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<Due> {
        let &Reverse((at, client)) = self.next.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.next.pop();
        let (gap, recorded) = &mut self.clients[client];
        let job = (at >= self.warm_up).then(|| {
            *recorded += 1;
            *recorded - 1
        });
        // A period may be as long as the clock; what does not fit in it is not due in this run.
        if let Some(following) = at.checked_add(gap.next()).filter(|&t| t < self.end) {
            self.next.push(Reverse((following, client)));
        }
        let client = gap.client(client);
        Some(Due { client, at, job })
    }
}

/// What to send, and for how long.
#[derive(Clone, Debug)]
pub struct LoadPlan<'a> {
    /// Where to, and what.
    pub load: &'a Load,
    /// When: each copy of each task is one client with a connection of its own. Request n of a task that keeps its
    /// offset A is due at A + n·T. A sporadic task's is due at n·T: of all that its promise of *at least T apart*
    /// allows, that is the most work.
    pub tasks: &'a [Task],
    /// Instead of the tasks, of which there are none then: requests at random, all from one client.
    pub arrivals: Option<Arrivals>,
    /// Instead of both: requests at these instants, in ns from the first one's warm-up on, ascending; all from one
    /// client. Empty:
    /// as the others say.
    pub trace: &'a [u64],
    /// Before this, requests are sent but leave no record.
    pub warm_up: Duration,
    /// How long after the warm-up requests are due, from its end inclusive to this exclusive.
    pub run: Duration,
    /// For keys and values; one seed sends the same bytes.
    pub seed: u64,
    /// How the calling thread runs.
    pub generator: Generator,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Generator;
    use giusto_model::{Duration, Load, Task};

    fn schedule(tasks: &[(&str, u32)], warm_up: Duration, run: Duration) -> Result<Schedule, Error> {
        let load = Load::Redis { address: "127.0.0.1:1".parse().unwrap(), fields: 1, value: 1 };
        let of = |&(text, copies): &(&str, u32)| Task { copies, ..text.parse().unwrap() };
        let tasks: Vec<Task> = tasks.iter().map(of).collect();
        Schedule::new(&LoadPlan {
            load: &load,
            tasks: &tasks,
            arrivals: None,
            trace: &[],
            warm_up,
            run,
            seed: 0,
            generator: Generator::default(),
        })
    }

    #[test]
    fn every_request_of_the_definition_is_due_once_and_in_order() {
        // (offset, period) of each client, as the definition has them: the sporadic task from 0.
        let clients = [(1_500, 4_000), (1_500, 4_000), (0, 7_000), (20_000, 20_000)];
        let tasks = [("1us/4us+1500ns", 2), ("1us/7us", 1), ("1us/20us+20us", 1)];
        for (warm_up, run) in [(0, 0), (0, 1), (0, 100_000), (9_500, 30_000), (14_000, 21_001), (50_000, 0)] {
            let mut expected = Vec::new();
            for (client, &(offset, period)) in clients.iter().enumerate() {
                let dues = (0..).map(|n| offset + n * period).take_while(|&at| at < warm_up + run);
                let mut job = 0..;
                expected.extend(dues.map(|at| {
                    let job = if at >= warm_up { job.next() } else { None };
                    Due { client, at, job }
                }));
            }
            expected.sort_by_key(|d| (d.at, d.client));
            let mut schedule = schedule(&tasks, Duration::from_ns(warm_up), Duration::from_ns(run)).unwrap();
            assert_eq!(schedule.jobs(), expected.iter().filter(|d| d.job.is_some()).count() as u64);
            let mut found = Vec::new();
            while let Some(next) = schedule.next() {
                assert!(next == 0 || schedule.pop_due(next - 1).is_none(), "nothing comes early");
                found.extend(schedule.pop_due(next));
            }
            assert_eq!(found, expected, "warm-up {warm_up}, run {run}");
        }
    }

    #[test]
    fn requests_at_random_come_as_often_as_they_should_in_whole_batches_and_as_irregularly() {
        let load = Load::Redis { address: "127.0.0.1:1".parse().unwrap(), fields: 1, value: 1 };
        let (warm_up, run) = (Duration::from_secs(1), Duration::from_secs(400));
        for batch in [1u32, 3] {
            let arrivals = Some(Arrivals { rate: "100/s".parse().unwrap(), batch });
            let plan = |seed| LoadPlan {
                load: &load,
                tasks: &[],
                arrivals,
                trace: &[],
                warm_up,
                run,
                seed,
                generator: Generator::default(),
            };
            let all = |seed| {
                let mut schedule = Schedule::new(&plan(seed)).unwrap();
                let mut dues = Vec::new();
                while let Some(next) = schedule.next() {
                    dues.push(schedule.pop_due(next).unwrap());
                }
                assert!(schedule.clients() == 1 && schedule.jobs() as usize > dues.len() * 399 / 401);
                dues
            };
            let dues = all(5);
            assert_eq!(dues, all(5));
            assert_ne!(dues[0].at, all(6)[0].at);
            let mut times: Vec<u64> = dues.iter().map(|due| due.at).collect();
            assert!(times.chunks(batch as usize).all(|chunk| chunk.iter().all(|at| *at == chunk[0])));
            times.dedup();
            // 40,100 batches on average, with a deviation of 200; gaps with mean and deviation of 10 ms.
            assert!((39_100..41_100).contains(&times.len()), "{}", times.len());
            let gaps: Vec<f64> = times.windows(2).map(|two| (two[1] - two[0]) as f64 / 1e6).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let spread = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
            assert!((mean - 10.0).abs() < 0.3 && (spread - 10.0).abs() < 0.4, "{mean} {spread}");
            assert!(dues
                .iter()
                .filter_map(|due| due.job)
                .eq(0..dues.iter().filter(|due| due.job.is_some()).count() as u64));
        }
    }

    #[test]
    fn a_trace_is_sent_as_it_is_from_the_end_of_the_warm_up_on() {
        let load = Load::Redis { address: "127.0.0.1:1".parse().unwrap(), fields: 1, value: 1 };
        let due = |trace: &[u64]| {
            let (warm_up, run, generator) = (Duration::from_ns(100), Duration::from_ns(50), Generator::default());
            let plan = LoadPlan { load: &load, tasks: &[], arrivals: None, trace, warm_up, run, seed: 0, generator };
            let mut schedule = Schedule::new(&plan)?;
            let mut all = Vec::new();
            while let Some(next) = schedule.next() {
                all.push(schedule.pop_due(next).map(|due| (due.at, due.job)).unwrap());
            }
            assert_eq!(schedule.jobs(), all.len() as u64);
            Ok::<_, Error>(all)
        };
        assert_eq!(
            due(&[7, 7, 17, 56, 57, 99]).unwrap(),
            [(100, Some(0)), (100, Some(1)), (110, Some(2)), (149, Some(3))]
        );
        assert_eq!(due(&[u64::MAX]).unwrap(), [(100, Some(0))]);
        assert!(matches!(due(&[2, 1]), Err(Error::Plan(_))));
    }

    #[test]
    fn what_no_run_can_hold_is_refused() {
        let second = Duration::from_secs(1);
        let endless = Duration::from_ns(u64::MAX);
        for (tasks, run) in [
            (&[][..], second),
            (&[("1us/2us", 10_001)][..], second),
            (&[("1us/1ms", 1)][..], endless),
            (&[("1ns/1ns", 10_000)][..], Duration::from_ns(u64::MAX / 8)),
        ] {
            assert!(matches!(schedule(tasks, second, run), Err(Error::Plan(_))), "{tasks:?}");
        }
        assert!(matches!(schedule(&[("1us/1ms", 0)], second, second), Err(Error::Task { .. })));
    }
}
