//! Theorem 1 and 2 of LiH21, by equality job for job: no statistics.

use giusto_analysis::share;
use giusto_model::{Duration, JobRecord, Release, ServerKind, Task};
use giusto_policy::Order;
use giusto_simulator::{
    simulate, Error, Execution, Guest, Observer, ServerSpec, Sporadic, System, Unobserved, Workload,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const GUESTS: [Guest; 3] = [Guest::Fifo, Guest::RateMonotonic, Guest::Edf];
const KINDS: [ServerKind; 2] = [ServerKind::Deferrable, ServerKind::ConstantBandwidth];

fn task(wcet: u64, period: u64, offset: u64, release: Release) -> Task {
    let ns = Duration::from_ns;
    Task {
        name: String::new(),
        wcet: ns(wcet),
        period: ns(period),
        deadline: ns(period),
        offset: ns(offset),
        release,
        copies: 1,
    }
}

/// Jobs of server 0, by task and number; and how much of the core each server got.
fn jobs(servers: Vec<ServerSpec>, horizon: u64, seed: u64) -> (Vec<JobRecord>, Vec<u64>) {
    let mut all = Vec::new();
    let system = System::new(Order::FixedPriority, servers);
    let mut keep = |server: usize, job: &JobRecord| {
        if server == 0 {
            all.push(*job);
        }
    };
    let stats = simulate(&system, Duration::from_ns(horizon), seed, &mut keep).unwrap();
    all.sort_by_key(|job| (job.task, job.job));
    (all, stats.iter().map(|s| s.consumed.ns()).collect())
}

fn server(
    kind: ServerKind,
    budget: u64,
    period: u64,
    first: u64,
    priority: u32,
    workload: Option<Workload>,
) -> ServerSpec {
    let ns = Duration::from_ns;
    ServerSpec { kind, budget: ns(budget), period: ns(period), first: ns(first), priority, vcpus: 1, workload }
}

fn whole(workload: &Workload) -> Vec<ServerSpec> {
    vec![server(ServerKind::Unlimited, 0, 0, 0, 0, Some(workload.clone()))]
}

/// The share, and a competitor that takes every cycle left.
fn shared(workload: &Workload, kind: ServerKind, budget: u64, period: u64, first: u64) -> Vec<ServerSpec> {
    vec![
        server(kind, budget, period, first, 1, Some(workload.clone())),
        server(ServerKind::Unlimited, 0, 0, 0, 2, None),
    ]
}

/// Random tasks with a short hyperperiod and U ≤ 1: (workload, hyperperiod, work in it). They start at 180, when every grid has
/// had its first replenishment.
fn random_tasks(rng: &mut ChaCha8Rng, release: Release, guest: Guest) -> (Workload, u64, u64) {
    loop {
        let periods = [10u64, 12, 15, 20, 30, 60];
        let mut tasks = Vec::new();
        for _ in 0..rng.random_range(1..5) {
            let period = periods[rng.random_range(0..periods.len())];
            let wcet = rng.random_range(1..=period / 2);
            tasks.push(task(wcet, period, 180 + rng.random_range(0..2 * period), release));
        }
        let work: u64 = tasks.iter().map(|t| t.wcet.ns() * (60 / t.period.ns())).sum();
        if work <= 60 {
            let execution = if rng.random_bool(0.5) { Execution::Worst } else { Execution::Uniform { percent: 20 } };
            return (Workload { tasks, guest, execution, sporadic: Sporadic::Random }, 60, work);
        }
    }
}

#[test]
fn the_schedule_on_the_share_is_that_of_a_whole_core_job_by_job() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut systems, mut exhausted, mut competed, mut less_differs) = (0, 0, 0, 0);
    for round in 0..400u64 {
        for release in [Release::KeptOffset, Release::Sporadic] {
            let guest = GUESTS[rng.random_range(0..3)];
            let (workload, hyper, work) = random_tasks(&mut rng, release, guest);
            let multiple = rng.random_range(1..4);
            let (period, budget) = (hyper * multiple, work * multiple);
            let (expected, _) = jobs(whole(&workload), 3000, round);
            for kind in KINDS {
                let first = if kind == ServerKind::Deferrable { rng.random_range(0..period) } else { 0 };
                let (got, consumed) = jobs(shared(&workload, kind, budget, period, first), 3000, round);
                assert!(got == expected, "{kind} ({budget}, {period}) first {first}: {workload:?}");
                systems += 1;
                competed += usize::from(consumed[1] > 0);
                exhausted += usize::from(consumed[0] * period >= budget * 2700);
                if budget > 1 {
                    let (less, _) = jobs(shared(&workload, kind, budget - 1, period, first), 3000, round);
                    less_differs += usize::from(less != expected);
                }
            }
        }
    }
    println!("{systems} systems; competitor ran in {competed}; all budget used in {exhausted}; 1 ns less shows in {less_differs}");
    assert!(
        competed > systems / 2 && exhausted > systems / 5 && less_differs * 5 > systems,
        "the interesting cases must occur"
    );
}

/// The most that the server 0 of `servers` gets in a time of `length`.
fn most_in_any(length: u64, servers: Vec<ServerSpec>, horizon: u64, seed: u64) -> u64 {
    struct Slices(Vec<(u64, u64)>);
    impl Observer for Slices {
        fn slice(&mut self, server: usize, _: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
            if server == 0 {
                self.0.push((from, to));
            }
            Ok(())
        }
    }
    let mut slices = Slices(Vec::new());
    simulate(&System::new(Order::FixedPriority, servers), Duration::from_ns(horizon), seed, &mut slices).unwrap();
    let inside = |start: u64| {
        let after = slices.0.iter().skip_while(move |(_, to)| *to <= start);
        after.map(|(from, to)| (*to.min(&(start + length))).saturating_sub(*from.max(&start))).sum()
    };
    slices.0.iter().map(|(from, _)| inside(*from)).max().unwrap_or(0)
}

/// Theorem 1: at any period, the budget that the analysis asks for is enough, and 1 ns less is often seen. The planner counts
/// on it wherever the hyperperiod is longer than the kernel allows.
#[test]
fn the_budget_of_any_period_gives_the_schedule_of_a_whole_core_job_by_job() {
    const HORIZON: u64 = 2000;
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (mut systems, mut exhausted, mut competed, mut less_differs) = (0, 0, 0, 0);
    for round in 0..400u64 {
        for release in [Release::KeptOffset, Release::Sporadic] {
            let guest = GUESTS[rng.random_range(0..3)];
            let (mut workload, hyper, _) = random_tasks(&mut rng, release, guest);
            // Mostly what asks for all that was planned: the least budget shows only there.
            workload.sporadic = if rng.random_bool(0.75) { Sporadic::Densest } else { Sporadic::Random };
            workload.execution =
                if rng.random_bool(0.75) { Execution::Worst } else { Execution::Uniform { percent: 20 } };
            let period = loop {
                let period = rng.random_range(1..150);
                if period % hyper != 0 {
                    break period; // its multiples are Theorem 2's
                }
            };
            let budget = share::budget(&workload.tasks, Duration::from_ns(period)).unwrap().ns();
            let (expected, _) = jobs(whole(&workload), HORIZON, round);
            let whole_core = most_in_any(period, whole(&workload), HORIZON, round);
            assert!(whole_core <= budget, "a whole core gave {whole_core} in {period}, not {budget}: {workload:?}");
            for kind in KINDS {
                let first = if kind == ServerKind::Deferrable { rng.random_range(0..period) } else { 0 };
                let (got, consumed) = jobs(shared(&workload, kind, budget, period, first), HORIZON, round);
                assert!(got == expected, "{kind} ({budget}, {period}) first {first}: {workload:?}");
                systems += 1;
                competed += usize::from(consumed[1] > 0);
                exhausted += usize::from(whole_core == budget);
                if budget > 1 {
                    let (less, _) = jobs(shared(&workload, kind, budget - 1, period, first), HORIZON, round);
                    less_differs += usize::from(less != expected);
                }
            }
        }
    }
    println!("{systems} systems; competitor ran in {competed}; all budget used in {exhausted}; 1 ns less shows in {less_differs}");
    assert!(systems >= 1600);
    assert!(
        competed > systems / 2 && exhausted * 2 > systems && less_differs * 10 >= systems * 3,
        "the interesting cases must occur"
    );
}

#[test]
fn a_competitor_of_higher_priority_breaks_it() {
    let workload = Workload {
        tasks: vec![task(3, 10, 0, Release::KeptOffset)],
        guest: Guest::Fifo,
        execution: Execution::Worst,
        sporadic: Sporadic::Random,
    };
    let (expected, _) = jobs(whole(&workload), 300, 1);
    let mut system = shared(&workload, ServerKind::Deferrable, 3, 10, 0);
    system[1] = server(ServerKind::Deferrable, 2, 5, 0, 0, None);
    assert_ne!(jobs(system, 300, 1).0, expected);
}

#[test]
fn gamma_1_needs_exactly_its_utilization() {
    let ms = 1_000_000;
    let gamma = [(40, 250, 150), (200, 500, 100), (100, 1000, 50), (200, 2000, 0)];
    let tasks: Vec<Task> = gamma.iter().map(|&(c, t, a)| task(c * ms, t * ms, a * ms, Release::KeptOffset)).collect();
    for guest in GUESTS {
        let workload =
            Workload { tasks: tasks.clone(), guest, execution: Execution::Worst, sporadic: Sporadic::Random };
        let (expected, _) = jobs(whole(&workload), 100_000 * ms, 1);
        for kind in KINDS {
            for points in [76, 81] {
                let (got, _) = jobs(shared(&workload, kind, 20 * points * ms, 2000 * ms, 0), 100_000 * ms, 1);
                assert!(got == expected, "{guest:?} {kind} {points} %");
            }
            let (got, _) = jobs(shared(&workload, kind, 20 * 71 * ms, 2000 * ms, 0), 100_000 * ms, 1);
            let longest = got.iter().filter_map(|job| job.response_ns()).max().unwrap();
            assert!(longest > 3000 * ms, "71 % falls behind by 100 ms every period: {longest}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_work_is_conserved() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut differ = 0;
    for seed in 0..50 {
        let (workload, ..) = random_tasks(&mut rng, Release::Sporadic, Guest::Edf);
        let run = |seed| jobs(shared(&workload, ServerKind::Deferrable, 30, 60, 7), 5000, seed);
        assert_eq!(run(seed), run(seed));
        differ += usize::from(run(seed) != run(seed + 1000));
        let (_, consumed) = run(seed);
        assert_eq!(consumed.iter().sum::<u64>(), 5000, "beside a competitor the core never idles");
    }
    assert!(differ > 40);
}

#[test]
fn statistics_are_right_and_what_makes_no_sense_is_an_error() {
    let run = |spec: ServerSpec, horizon: u64| {
        simulate(&System::new(Order::Edf, vec![spec]), Duration::from_ns(horizon), 0, &mut Unobserved)
    };
    let tasks = |wcet, period, offset| {
        let tasks = vec![task(wcet, period, offset, Release::Sporadic)];
        Some(Workload { tasks, guest: Guest::Fifo, execution: Execution::Worst, sporadic: Sporadic::Densest })
    };
    let unlimited = |workload| server(ServerKind::Unlimited, 0, 0, 0, 0, workload);
    let stats = run(unlimited(tasks(1_000_000, 2_000_000, 0)), 20_000_000).unwrap();
    assert_eq!((stats[0].jobs(), stats[0].mean_ns()), (10, 1e6));
    assert_eq!((stats[0].percentile(99.0), stats[0].max()), (Duration::from_ms(1), Duration::from_ms(1)));
    assert!(run(unlimited(tasks(1, 2, 0)), 0).is_err());
    assert!(run(unlimited(tasks(1, 2, 0)), u64::MAX).is_err());
    assert!(run(unlimited(tasks(1, 2, u64::MAX)), 10).is_err());
    assert!(run(unlimited(tasks(3, 2, 0)), 10).is_err());
    assert!(run(server(ServerKind::Deferrable, 0, 5, 0, 0, None), 10).is_err());
    assert!(run(server(ServerKind::Deferrable, 6, 5, 0, 0, None), 10).is_err());
}
