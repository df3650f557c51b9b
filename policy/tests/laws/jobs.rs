//! Tasks in periodic servers: what WCPS and CRPS make of sets that fit under PTPS (law 5).

use crate::driver::pool_of;
use crate::oracle::Spec;
use crate::PERIODIC;
use giusto_policy::{Kind, Order};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A periodic task with D = T.
#[derive(Clone, Copy, Debug)]
struct Task {
    server: usize,
    offset: u64,
    work: u64,
    period: u64,
}

#[derive(Clone, Copy)]
struct Job {
    server: usize,
    released: u64,
    /// The smaller goes first in its server.
    rank: u64,
    work: u64,
}

/// The response time of each job, in the order of the list; None if it does not end by then.
fn responses(servers: &[(u64, u64)], kind: Kind, jobs: &[Job], length: u64) -> Vec<Option<u64>> {
    let specs: Vec<Spec> = (0..)
        .zip(servers)
        .map(|(priority, &(budget, period))| Spec { kind, budget, period, priority, first: 0 })
        .collect();
    let (mut pool, ids) = pool_of(Order::FixedPriority, 1, &specs);
    let mut left: Vec<u64> = jobs.iter().map(|job| job.work).collect();
    let mut ended = vec![None; jobs.len()];
    for now in 0..length {
        // The first job of a server that was released and has not ended.
        let first = |server: usize, left: &[u64]| {
            let waiting =
                (0..jobs.len()).filter(|&j| jobs[j].server == server && jobs[j].released <= now && left[j] > 0);
            waiting.min_by_key(|&j| (jobs[j].rank, j))
        };
        for (server, &id) in ids.iter().enumerate() {
            pool.ready(id, first(server, &left).is_some(), now);
        }
        pool.decide(now);
        if let Some(job) = pool.running(0).and_then(|id| first(id.index(), &left)) {
            left[job] -= 1;
            if left[job] == 0 {
                ended[job] = Some(now + 1 - jobs[job].released);
            }
        }
    }
    ended
}

/// The jobs released before `end`; the shorter period goes first.
fn released(tasks: &[Task], end: u64) -> Vec<Job> {
    let jobs = |t: &Task| {
        let t = *t;
        (0..)
            .map(move |k| t.offset + k * t.period)
            .take_while(move |&released| released < end)
            .map(move |released| Job { server: t.server, released, rank: t.period, work: t.work })
    };
    tasks.iter().flat_map(jobs).collect()
}

/// Lemma 1 of Lee11, with the supply of equation 1's general case.
fn tasks_fit(&(budget, period): &(u64, u64), tasks: &[Task]) -> bool {
    let supply = |t: u64| {
        let t = t.saturating_sub(2 * (period - budget));
        t / period * budget + budget.min(t % period)
    };
    tasks.iter().enumerate().all(|(i, task)| {
        (1..=task.period).any(|t| {
            let first = |(j, other): &(usize, &Task)| (other.period, *j) < (task.period, i);
            let others: u64 = tasks.iter().enumerate().filter(first).map(|(_, o)| t.div_ceil(o.period) * o.work).sum();
            supply(t) >= task.work + others
        })
    })
}

/// Rate-monotonic servers, as periodic tasks.
fn servers_fit(servers: &[(u64, u64)]) -> bool {
    (0..servers.len()).all(|i| {
        let (_, period) = servers[i];
        (1..=period).any(|t| {
            let request = |&(b, p): &(u64, u64)| t.div_ceil(p) * b;
            t >= servers[i].0 + servers[..i].iter().map(request).sum::<u64>()
        })
    })
}

/// Two or three servers that fit, with tasks that may not.
fn random_system(random: &mut ChaCha8Rng) -> (Vec<(u64, u64)>, Vec<Task>) {
    loop {
        let mut servers: Vec<(u64, u64)> = (0..random.random_range(2..=3))
            .map(|_| {
                let period: u64 = random.random_range(3..=10);
                (random.random_range(1..=period.div_ceil(2)), period)
            })
            .collect();
        servers.sort_by_key(|&(_, period)| period);
        if !servers_fit(&servers) {
            continue;
        }
        let mut tasks = vec![];
        for server in 0..servers.len() {
            for _ in 0..random.random_range(1..=2) {
                let period: u64 = random.random_range(8..=40);
                let work = random.random_range(1..=(period / 6).max(1));
                tasks.push(Task { server, offset: random.random_range(0..period), work, period });
            }
        }
        return (servers, tasks);
    }
}

#[test]
fn law_5_sets_that_pass_the_test_of_strict_servers_miss_nothing_under_the_others() {
    const LENGTH: u64 = 240;
    let (mut sets, mut jobs_of_sets) = (0, 0);
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for _ in 0..6000 {
        let (servers, tasks) = random_system(&mut random);
        let fits = servers.iter().enumerate().all(|(i, server)| {
            let own: Vec<Task> = tasks.iter().copied().filter(|t| t.server == i).collect();
            tasks_fit(server, &own)
        });
        if !fits {
            continue;
        }
        sets += 1;
        let jobs = released(&tasks, LENGTH - 40);
        jobs_of_sets += jobs.len();
        for kind in PERIODIC {
            for (job, response) in jobs.iter().zip(responses(&servers, kind, &jobs, LENGTH)) {
                let met = response.is_some_and(|r| r <= job.rank);
                assert!(met, "{kind:?}: the job of {} misses, {servers:?} {tasks:?}", job.released);
            }
        }
    }
    eprintln!("law 5: {sets} sets that fit, {jobs_of_sets} jobs each kind, no deadline missed");
    assert!(sets >= 500);
}

#[test]
fn pooled_mean_response_of_reclaiming_is_least_and_of_strict_most() {
    const SETS: u64 = 2500;
    const LENGTH: u64 = 300;
    let (mut sums, mut count, mut not_each) = ([0u64; 3], 0u64, 0);
    let mut random = ChaCha8Rng::seed_from_u64(6);
    for _ in 0..SETS {
        let (servers, tasks) = random_system(&mut random);
        let jobs = released(&tasks, 120);
        // A job that does not end counts with what it has waited.
        let total = |kind| {
            let responses = responses(&servers, kind, &jobs, LENGTH);
            jobs.iter().zip(responses).map(|(j, r)| r.unwrap_or(LENGTH - j.released)).sum::<u64>()
        };
        let of_set = PERIODIC.map(total);
        not_each += u32::from(of_set[1] > of_set[0] || of_set[2] > of_set[1]);
        count += jobs.len() as u64;
        for (sum, of_set) in sums.iter_mut().zip(of_set) {
            *sum += of_set;
        }
    }
    let [strict, conserving, reclaiming] = sums.map(|sum| sum as f64 / count as f64);
    eprintln!(
        "mean response over {SETS} sets, {count} jobs: PTPS {strict:.2}, WCPS {conserving:.2}, CRPS {reclaiming:.2}"
    );
    eprintln!("the order does not hold in {not_each} of the sets alone");
    assert!(reclaiming <= conserving && conserving <= strict);
}

#[test]
fn conserving_work_may_delay_a_job() {
    // compositional.md: servers (4, 10) and (2, 10), the second with jobs of 1 at 0 and at 5.
    let jobs = [0, 5].map(|released| Job { server: 1, released, rank: released, work: 1 });
    let servers = [(4, 10), (2, 10)];
    assert_eq!(responses(&servers, Kind::PeriodicStrict, &jobs, 30), [Some(5), Some(1)]);
    assert_eq!(responses(&servers, Kind::PeriodicConserving, &jobs, 30), [Some(1), Some(6)]);
}
