//! What a system can have besides one server and periodic tasks, against laws that do not come from the simulator.

use giusto_model::{Duration, Instant, JobRecord, Release, ServerKind, Task};
use giusto_policy::{Order, When};
use giusto_simulator::{
    simulate, simulate_seeds, Change, Execution, Gantt, Guest, ServerSpec, Shown, Sporadic, System, Unobserved,
    Workload,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn ns(ns: u64) -> Duration {
    Duration::from_ns(ns)
}

fn task(wcet: u64, period: u64) -> Task {
    let (name, offset, release) = (String::new(), ns(0), Release::Sporadic);
    Task { name, wcet: ns(wcet), period: ns(period), deadline: ns(period), offset, release, copies: 1 }
}

fn workload(tasks: Vec<Task>, guest: Guest, sporadic: Sporadic) -> Workload {
    Workload { tasks, guest, execution: Execution::Worst, sporadic }
}

fn server(kind: ServerKind, budget: u64, period: u64, priority: u32, workload: Option<Workload>) -> ServerSpec {
    ServerSpec { kind, budget: ns(budget), period: ns(period), first: ns(0), priority, vcpus: 1, workload }
}

fn whole(workload: Workload) -> ServerSpec {
    server(ServerKind::Unlimited, 0, 0, 0, Some(workload))
}

/// All finished jobs of server 0, by task and number.
fn jobs(system: &System, horizon: u64, seed: u64) -> Vec<JobRecord> {
    let mut all = Vec::new();
    let mut keep = |server: usize, job: &JobRecord| {
        if server == 0 {
            all.push(*job);
        }
    };
    simulate(system, ns(horizon), seed, &mut keep).unwrap();
    all.sort_by_key(|job| (job.task, job.job));
    all
}

#[test]
fn poisson_arrivals_wait_as_pollaczek_and_khinchine_say() {
    for percent in [30u64, 60, 80] {
        let (wcet, period) = (1_000 * percent, 100_000);
        let poisson = workload(vec![task(wcet, period)], Guest::Fifo, Sporadic::Poisson);
        let system = System::new(Order::FixedPriority, vec![whole(poisson)]);
        let stats = simulate_seeds(&system, ns(40_000 * period), &(0..25).collect::<Vec<_>>()).unwrap();
        let rho = percent as f64 / 100.0;
        let expected = wcet as f64 * (1.0 + rho / (2.0 * (1.0 - rho)));
        let error = (stats[0].mean_ns() / expected - 1.0).abs();
        println!("load {percent} %: mean {} of {expected}, {} jobs", stats[0].mean_ns(), stats[0].jobs());
        assert!(error < 0.02 && stats[0].jobs() > 900_000, "load {percent} %: off by {error}");
    }
}

#[test]
fn batches_come_together_and_recorded_gaps_are_kept() {
    let batches = workload(vec![task(1, 100)], Guest::Fifo, Sporadic::Batches(4));
    let all = jobs(&System::new(Order::Edf, vec![whole(batches)]), 1_000_000, 3);
    assert!(all.chunks_exact(4).all(|batch| batch.iter().all(|job| job.release == batch[0].release)));
    assert!((9_000..11_000).contains(&all.len()), "one job a period on average: {}", all.len());
    let gaps = workload(vec![task(1, 100)], Guest::Fifo, Sporadic::Gaps([7, 0, 13].into()));
    let all = jobs(&System::new(Order::Edf, vec![whole(gaps)]), 100, 3);
    let releases: Vec<u64> = all.iter().map(|job| job.release.ns()).collect();
    assert_eq!(releases[..7], [0, 7, 7, 20, 27, 27, 40]);
    for wrong in [Sporadic::Gaps([0, 0].into()), Sporadic::Gaps([].into()), Sporadic::Batches(0)] {
        let wrong = System::new(Order::Edf, vec![whole(workload(vec![task(1, 100)], Guest::Fifo, wrong))]);
        assert!(simulate(&wrong, ns(100), 0, &mut Unobserved).is_err());
    }
}

/// Finish times on `cores` cores, ns by ns: (task, number, finish).
fn global(tasks: &[Task], guest: Guest, cores: usize, horizon: u64) -> Vec<(u32, u64, u64)> {
    let (mut pending, mut done) = (Vec::new(), Vec::new());
    for now in 0..horizon {
        for (index, task) in tasks.iter().enumerate().filter(|(_, task)| now % task.period.ns() == 0) {
            let key = match guest {
                Guest::Fifo => now,
                Guest::RateMonotonic => task.period.ns(),
                Guest::DeadlineMonotonic => task.deadline.ns(),
                Guest::Listed => index as u64,
                Guest::Edf => now + task.deadline.ns(),
            };
            pending.push((key, index as u32, now / task.period.ns(), task.wcet.ns()));
        }
        pending.sort_unstable();
        // A task's jobs run one after the other.
        let first =
            |pending: &[(u64, u32, u64, u64)], at: usize| pending[..at].iter().all(|job| job.1 != pending[at].1);
        let run: Vec<usize> = (0..pending.len()).filter(|&at| first(&pending, at)).take(cores).collect();
        run.into_iter().for_each(|at| pending[at].3 -= 1);
        done.extend(pending.iter().filter(|job| job.3 == 0).map(|job| (job.1, job.2, now + 1)));
        pending.retain(|job| job.3 > 0);
    }
    done.sort_unstable();
    done
}

#[test]
fn a_guest_with_several_virtual_cpus_schedules_globally() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut waited = 0;
    for guest in [Guest::Fifo, Guest::RateMonotonic, Guest::DeadlineMonotonic, Guest::Listed, Guest::Edf] {
        for _ in 0..60 {
            let cores = rng.random_range(1..=3);
            let tasks: Vec<Task> = (0..rng.random_range(2..7))
                .map(|_| {
                    let period = [10u64, 15, 20, 30][rng.random_range(0..4)];
                    // Some tasks exceed their periods.
                    let most = if rng.random_bool(0.2) { period } else { period / 2 };
                    let wcet = rng.random_range(1..=most);
                    Task { deadline: ns(rng.random_range(wcet..=period)), ..task(wcet, period) }
                })
                .collect();
            let vm = ServerSpec { vcpus: cores, ..whole(workload(tasks.clone(), guest, Sporadic::Densest)) };
            let system = System { cores, ..System::new(Order::FixedPriority, vec![vm]) };
            let got: Vec<_> = jobs(&system, 240, 0).iter().map(|j| (j.task, j.job, j.finish.unwrap().ns())).collect();
            let expected = global(&tasks, guest, cores as usize, 240);
            waited += usize::from(expected.len() > 20);
            assert_eq!(got, expected, "{guest:?} on {cores} cores: {tasks:?}");
        }
    }
    assert!(waited > 150);
}

#[test]
fn overrun_at_the_tick_is_paid_back_and_switching_takes_time() {
    for kind in [ServerKind::ConstantBandwidth, ServerKind::Deferrable, ServerKind::PeriodicStrict] {
        let two = vec![server(kind, 3, 10, 0, None), server(ServerKind::Unlimited, 0, 0, 1, None)];
        let late = System { tick: Some(ns(4)), ..System::new(Order::FixedPriority, two.clone()) };
        let stats = simulate(&late, ns(100_000), 0, &mut Unobserved).unwrap();
        assert!(stats[0].consumed.ns().abs_diff(30_000) <= 10, "{kind}: {}", stats[0].consumed);
        assert_eq!(stats[0].consumed.ns() + stats[1].consumed.ns(), 100_000);
    }
    let one = whole(workload(vec![task(5, 50)], Guest::Fifo, Sporadic::Densest));
    let system = System { switch: ns(2), ..System::new(Order::FixedPriority, vec![one]) };
    assert!(jobs(&system, 500, 0).iter().all(|job| job.response_ns() == Some(7)));
}

#[test]
fn reservations_change_and_boosts_come_when_they_should() {
    let jobs_of_8 = workload(vec![task(8, 20)], Guest::Fifo, Sporadic::Densest);
    let servers = || {
        let all = vec![
            server(ServerKind::Deferrable, 2, 20, 0, Some(jobs_of_8.clone())),
            server(ServerKind::Unlimited, 0, 0, 1, None),
        ];
        System::new(Order::FixedPriority, all)
    };
    // 2 in 20 would take 4 periods; from 25 on it has 8.
    let set = Change::Set { server: 0, budget: ns(8), period: ns(20), priority: 0, when: When::Now };
    let changed = System { changes: vec![(Instant::from_ns(25), set)], ..servers() };
    // Served: [0, 2), [20, 22), then 4 more of the first job at 25, and 2 of the second.
    assert_eq!(jobs(&changed, 100, 0)[0].finish, Some(Instant::from_ns(29)));
    let boost = Change::Boost { server: 0, until: Instant::from_ns(9) };
    let boosted = System { changes: vec![(Instant::from_ns(3), boost)], ..servers() };
    // [0, 2) on its budget, [3, 9) boosted.
    assert_eq!(jobs(&boosted, 100, 0)[0].finish, Some(Instant::from_ns(9)));
    let unknown = Change::Boost { server: 7, until: Instant::from_ns(9) };
    let wrong = System { changes: vec![(Instant::from_ns(3), unknown)], ..servers() };
    assert!(simulate(&wrong, ns(100), 0, &mut Unobserved).is_err());
}

#[test]
fn parallel_seeds_are_the_sequential_ones_pooled() {
    let random = workload(vec![task(3, 10), task(4, 25)], Guest::Edf, Sporadic::Random);
    let system = System::new(Order::FixedPriority, vec![server(ServerKind::Polling, 8, 10, 0, Some(random))]);
    let seeds: Vec<u64> = (0..40).collect();
    let numbers =
        |stats: &giusto_simulator::Stats| (stats.prediction(), stats.mean_ns(), stats.unfinished, stats.consumed);
    let once = simulate_seeds(&system, ns(20_000), &seeds).unwrap();
    let again = simulate_seeds(&system, ns(20_000), &seeds).unwrap();
    assert_eq!(numbers(&once[0]), numbers(&again[0]));
    let mut pooled = simulate(&system, ns(20_000), 0, &mut Unobserved).unwrap().remove(0);
    for seed in 1..40 {
        pooled.merge(&simulate(&system, ns(20_000), seed, &mut Unobserved).unwrap()[0]);
    }
    assert_eq!(numbers(&once[0]), numbers(&pooled));
}

#[test]
fn a_short_schedule_is_drawn_and_a_long_one_refused() {
    let servers = vec![
        server(ServerKind::Deferrable, 3, 10, 0, Some(workload(vec![task(3, 10)], Guest::Fifo, Sporadic::Densest))),
        server(ServerKind::Unlimited, 0, 0, 1, None),
    ];
    let system = System::new(Order::FixedPriority, servers);
    let mut gantt = Gantt::default();
    let own = [Task { name: "own".into(), ..task(3, 10) }];
    gantt.play(&[Shown { name: "a", tasks: &own }, Shown { name: "b<c", tasks: &[] }]);
    simulate(&system, ns(30), 0, &mut gantt).unwrap();
    let svg = gantt.svg(30);
    assert_eq!(svg.matches("<rect").count(), 6, "three jobs, and what is between them");
    // One at 30 comes with the end, and its deadline is beyond it.
    assert_eq!((svg.matches("class=\"r\"").count(), svg.matches("class=\"d\"").count()), (4, 3));
    assert!(svg.contains(">a: own<") && svg.contains(">a: budget left<") && !svg.contains("bc: budget"));
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("b<c"));
    let mut long = Gantt::default();
    long.play(&[Shown { name: "a", tasks: &own }, Shown { name: "b<c", tasks: &[] }]);
    assert!(simulate(&system, ns(1_000_000), 0, &mut long).is_err());
}

#[test]
fn noise_lengthens_jobs_by_measured_factors_and_moves_no_arrival() {
    let played = |seed, noise| {
        let execution = Execution::Noisy { ppm: vec![900_000, 1_000_000, 1_200_000].into(), seed: noise };
        let random = Workload {
            execution,
            ..workload(vec![task(1_000, 10_000), task(2_000, 50_000)], Guest::Fifo, Sporadic::Random)
        };
        jobs(&System::new(Order::FixedPriority, vec![whole(random)]), 20_000_000, seed)
    };
    let [one, other] = [played(1, 1), played(1, 2)];
    let releases = |jobs: &[JobRecord]| jobs.iter().map(|job| (job.task, job.job, job.release)).collect::<Vec<_>>();
    assert_eq!(releases(&one), releases(&other), "arrivals are another stream");
    assert_ne!(releases(&one), releases(&played(2, 1)));
    assert_ne!(one, other);
    // One that never waits takes a factor of its time.
    let took = |jobs: &[JobRecord], factor: u64| {
        jobs.iter().filter(|job| job.task == 0 && job.response_ns() == Some(factor)).count()
    };
    assert!([900, 1_000, 1_200].iter().all(|&ns| took(&one, ns) > 200), "all three factors occur");
    for ppm in [vec![], vec![1, 0]] {
        let execution = Execution::Noisy { ppm: ppm.into(), seed: 0 };
        let wrong = Workload { execution, ..workload(vec![task(1, 10)], Guest::Fifo, Sporadic::Densest) };
        let system = System::new(Order::FixedPriority, vec![whole(wrong)]);
        assert!(simulate(&system, ns(100), 0, &mut Unobserved).is_err());
    }
}
