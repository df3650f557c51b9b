//! Lemma 2 of Lee11 and its like, over random systems; and that sets and counts are what they say.

use giusto_model::{Duration, Interface, JobRecord, Release, ServerKind, Task};
use giusto_policy::Order;
use giusto_simulator::{simulate, Execution, Guest, ServerSpec, Sporadic, System, Workload};
use giusto_studies::interfaces::{admitted, aligned, optimal, QUANTUM};
use giusto_studies::play::{play, Counts, How, Served, CLIP, KINDS, STEPS};
use giusto_studies::sets::{harmonic, synthetic, Domain, PPM};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

fn task(wcet: u64, period: u64, offset: u64) -> Task {
    let (wcet, period, offset) = (ms(wcet), ms(period), ms(offset));
    Task { name: String::new(), wcet, period, deadline: period, offset, release: Release::KeptOffset, copies: 1 }
}

fn how(kind: ServerKind, length: Duration) -> How {
    How { kind, factor: 100, factored: 0, switch: Duration::ZERO, length, seed: 1 }
}

/// Two to four domains of one to three tasks with whole ms everywhere, so that bad coincidences are frequent.
fn random_domains(rng: &mut ChaCha8Rng) -> Vec<Domain> {
    let domains = rng.random_range(2..=4);
    let domain = |rng: &mut ChaCha8Rng| {
        let tasks = rng.random_range(1..=3);
        (0..tasks)
            .map(|_| {
                let period = rng.random_range(12..=60);
                let most = period * 3 / (domains * tasks * 2);
                task(rng.random_range(1..=most.max(1)), period, rng.random_range(0..period))
            })
            .collect()
    };
    (0..domains).map(|_| domain(rng)).collect()
}

fn misses(counts: &[Counts]) -> u64 {
    counts.iter().map(|counts| counts.misses).sum()
}

#[test]
fn lemma_2_what_fits_as_periodic_servers_is_never_late_under_any_of_the_three() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let length = ms(4_000);
    let (mut sets, mut jobs, mut full, mut near, mut shorter, mut less_is_late) = (0u64, 0, 0, 0u64, [0u64; 2], 0);
    let (mut harmonic_sets, mut refused, mut refused_is_late) = (0, 0, 0);
    for round in 0..800u64 {
        let served: Vec<(Domain, Interface)> = if round % 4 == 0 {
            let parts = harmonic(rng.random_range(300_000..950_000), rng.random_range(1..=5), None, &mut rng);
            parts.into_iter().map(|p| (p.tasks.clone(), aligned(&p.tasks, p.period).unwrap())).collect()
        } else {
            random_domains(&mut rng).into_iter().map(|domain| (domain.clone(), optimal(&domain).unwrap())).collect()
        };
        let set = Served::rate_monotonic(served);
        let how =
            |kind| How { factor: [10, 50, 100][round as usize % 3], factored: 2, seed: round, ..how(kind, length) };
        if !admitted(&set.interfaces).unwrap() {
            refused += 1;
            refused_is_late += u64::from(misses(&play(&set, how(ServerKind::PeriodicStrict)).unwrap()) > 0);
            continue;
        }
        sets += 1;
        harmonic_sets += u64::from(round % 4 == 0);
        let bandwidth: f64 = set.interfaces.iter().map(|i| i.bandwidth().as_f64()).sum();
        full += u64::from(bandwidth > 0.9);
        let mut ratios = Vec::new();
        for kind in KINDS {
            let counts = play(&set, how(kind)).unwrap();
            assert_eq!(misses(&counts), 0, "round {round}, {kind}: {set:?}");
            jobs += counts.iter().map(|counts| counts.jobs).sum::<u64>();
            near += u64::from(counts.iter().any(|counts| counts.within(90) < counts.jobs));
            ratios.push(counts.iter().map(|counts| counts.ratio_ppm).sum::<u128>());
        }
        shorter[0] += u64::from(ratios[1] < ratios[0]);
        shorter[1] += u64::from(ratios[2] < ratios[1]);
        // A quantum less for the lowest domain that can spare one: the law must be able to fail.
        let mut less = set.clone();
        if let Some(interface) = less.interfaces.iter_mut().rev().find(|interface| interface.budget > QUANTUM) {
            interface.budget = interface.budget.checked_sub(QUANTUM).unwrap();
            less_is_late += u64::from(misses(&play(&less, how(ServerKind::PeriodicStrict)).unwrap()) > 0);
        }
    }
    println!(
        "{sets} admitted sets ({harmonic_sets} harmonic, {full} above 90 % of the core), {jobs} jobs, none late; some job beyond \
         90 % of its deadline in {near} runs; shorter under WCPS than PTPS in {}, under CRPS than WCPS in {}; late with a quantum \
         less in {less_is_late}; {refused} refused, {refused_is_late} of them late",
        shorter[0], shorter[1]
    );
    assert!(sets > 300 && harmonic_sets > 100 && full > 30 && near > 100, "the interesting cases must occur");
    assert!(shorter[0] > 100 && shorter[1] > 300 && less_is_late > 100 && refused_is_late > 20);
}

#[test]
fn conserving_work_may_delay_a_job_and_reclaiming_may_starve_the_lowest() {
    // Spec compositional.md: servers (4, 10) and (2, 10), jobs of 1 at 0 and 5 in the second: 5, 1 under PTPS, 1, 6 under WCPS.
    let server = |kind, rank: usize, (budget, period), tasks: Vec<Task>| ServerSpec {
        kind,
        budget: ms(budget),
        period: ms(period),
        first: Duration::ZERO,
        priority: rank as u32,
        vcpus: 1,
        workload: Some(Workload {
            tasks,
            guest: Guest::RateMonotonic,
            execution: Execution::Worst,
            sporadic: Sporadic::Densest,
        }),
    };
    let responses = |kind, domains: [((u64, u64), Vec<Task>); 2], until| {
        let servers =
            domains.into_iter().enumerate().map(|(rank, (of, tasks))| server(kind, rank, of, tasks)).collect();
        let mut all = Vec::new();
        let mut second = |rank: usize, job: &JobRecord| {
            if rank == 1 {
                all.push((job.release.ns() / PPM, job.response_ns().unwrap() / PPM));
            }
        };
        simulate(&System::new(Order::FixedPriority, servers), ms(until), 0, &mut second).unwrap();
        all.sort_unstable();
        all.into_iter().map(|(_, response)| response).collect::<Vec<_>>()
    };
    let two = || [((4, 10), vec![]), ((2, 10), vec![task(1, 1000, 0), task(1, 1000, 5)])];
    assert_eq!(responses(ServerKind::PeriodicStrict, two(), 30), [5, 1]);
    assert_eq!(responses(ServerKind::PeriodicConserving, two(), 30), [1, 6]);
    assert_eq!(responses(ServerKind::PeriodicReclaiming, two(), 30), [1, 1]);
    // By hand: (4, 10) has a job of 9 at 0 and 20 after which it is out of budget; the first (2, 10) is idle.
    let set = |kind| {
        let idle = server(kind, 0, (2, 10), vec![]);
        let greedy = server(kind, 1, (4, 10), vec![task(9, 1000, 0)]);
        let lowest = server(kind, 2, (1, 10), vec![task(1, 1000, 0)]);
        let mut all = Vec::new();
        let mut keep = |rank: usize, job: &JobRecord| all.push((rank, job.response_ns().unwrap() / PPM));
        simulate(&System::new(Order::FixedPriority, vec![idle, greedy, lowest]), ms(40), 0, &mut keep).unwrap();
        all.sort_unstable();
        all
    };
    // WCPS: greedy [0, 4), then it has no budget and the lowest runs [4, 5); greedy again at 10.
    assert_eq!(set(ServerKind::PeriodicConserving), [(1, 21), (2, 5)]);
    // CRPS: greedy runs [0, 2) on the idle server's budget and [2, 6) on its own, so the lowest waits until 6.
    assert_eq!(set(ServerKind::PeriodicReclaiming), [(1, 13), (2, 7)]);
}

#[test]
fn under_ptps_no_domain_notices_what_those_above_it_run() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let (mut sets, mut noticed) = (0, 0);
    for seed in 0..60 {
        let domains = synthetic(rng.random_range(50..=100), (20, 80), 4, &mut rng);
        let with = |domain: &Domain| (domain.clone(), optimal(domain).unwrap());
        let set = Served::rate_monotonic(domains.iter().map(with).collect());
        let lower = |kind, factor| {
            let how = How { factor, factored: 2, seed, ..how(kind, ms(3_000)) };
            let blind = |counts: Counts| Counts { switches: 0, ..counts };
            play(&set, how).unwrap().into_iter().skip(2).map(blind).collect::<Vec<_>>()
        };
        assert_eq!(lower(ServerKind::PeriodicStrict, 100), lower(ServerKind::PeriodicStrict, 10), "{set:?}");
        sets += 1;
        noticed += u32::from(lower(ServerKind::PeriodicConserving, 100) != lower(ServerKind::PeriodicConserving, 10));
    }
    println!("{sets} sets, of which {noticed} notice it under WCPS");
    assert!(noticed > 50);
}

#[test]
fn counts_are_those_of_a_hand_made_system() {
    let interfaces = [(5, 10), (1, 10)].map(|(budget, period)| Interface { budget: ms(budget), period: ms(period) });
    // Above, 2 every 10, done at once; below, 5 every 10 on a budget of 1: hopeless.
    let domains = vec![vec![task(2, 10, 0)], vec![task(5, 10, 0)]];
    let set = Served { domains, interfaces: interfaces.to_vec() };
    let counts = play(&set, how(ServerKind::PeriodicStrict, ms(1_000))).unwrap();
    // Released at 0, 10, ..., 970: three deadlines before the end.
    assert_eq!([counts[0].jobs, counts[1].jobs], [98, 98]);
    assert_eq!((counts[0].misses, counts[0].response_ns, counts[0].ratio_ppm), (0, 98 * 2 * 1_000_000, 98 * 200_000));
    assert_eq!((counts[0].steps[20], counts[0].within(19), counts[0].within(20)), (98, 0, 98));
    assert_eq!((counts[1].misses, counts[1].response_ns), (98, 98 * 30 * 1_000_000));
    assert_eq!(counts[1].steps[(CLIP * STEPS) as usize], 98);
    // It runs once a period, the lower after the other's budget has burnt.
    assert_eq!([counts[0].switches, counts[1].switches], [100, 100]);
    // A job exactly at its deadline is not late: 5 on a budget of 5 below one of 5.
    let tight =
        Served { domains: vec![vec![task(1, 10, 0)], vec![task(5, 10, 0)]], interfaces: vec![interfaces[0]; 2] };
    let counts = play(&tight, how(ServerKind::PeriodicStrict, ms(1_000))).unwrap();
    assert_eq!((counts[1].misses, counts[1].steps[100]), (0, 98));
}

#[test]
fn sets_are_as_described() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    for percent in [70, 80, 90, 100] {
        for periods in [(550, 650), (350, 850), (100, 1100)] {
            let domains = synthetic(percent, periods, 5, &mut rng);
            assert!(domains.len() == 5 && domains.iter().all(|domain| !domain.is_empty()));
            let all: Vec<&Task> = domains.iter().flatten().collect();
            let share = |task: &Task| task.wcet.ns() * PPM / task.period.ns();
            assert!(all.iter().all(|task| (2_000..=50_000).contains(&share(task))));
            let sum: u64 = all.iter().map(|task| share(task)).sum();
            assert!((percent * 10_000..percent * 10_000 + 50_000).contains(&sum), "{sum}");
            let whole = |task: &Task| {
                task.period.ns().is_multiple_of(PPM) && (task.wcet.ns() * PPM).is_multiple_of(task.period.ns())
            };
            let within = |task: &Task| (periods.0..=periods.1).contains(&(task.period.ns() / PPM));
            assert!(all.iter().all(|task| whole(task) && within(task) && task.offset < task.period));
        }
    }
    for partitions in 1..=6 {
        for ppm in [3_000, 378_000, 537_000] {
            let set = harmonic(ppm, partitions, None, &mut rng);
            assert_eq!(set.len(), partitions);
            let sum: f64 = set.iter().flat_map(|p| &p.tasks).map(|t| t.utilization().unwrap().as_f64()).sum();
            // Rounded down to 1 µs, or up to it: 36 tasks of 25 ms.
            assert!((sum - ppm as f64 / 1e6).abs() < 36.0 / 25_000.0, "{sum}");
            for part in &set {
                let periods = part.tasks.iter().map(|task| task.period.ns()).chain([part.period.ns()]);
                let periods: Vec<u64> = periods.collect();
                assert!(periods.iter().all(|a| periods.iter().all(|b| a % b == 0 || b % a == 0)));
                assert!(
                    periods[..periods.len() - 1].contains(&part.period.ns()),
                    "one task has the period of its domain"
                );
                assert!(part.tasks.iter().all(|task| task.offset.ns() % part.period.ns() == 0));
            }
        }
    }
}

#[test]
fn harmonic_interfaces_cost_no_more_than_rounding_up() {
    // Harmonic tasks fit on anything with their bandwidth if their windows begin with it [Lee11, § II-A, § IV-A].
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    for _ in 0..200 {
        for part in harmonic(rng.random_range(3_000..950_000), rng.random_range(1..=6), None, &mut rng) {
            let period = part.period.ns();
            let work: u64 = part.tasks.iter().map(|task| task.wcet.ns() * (8 * period / task.period.ns())).sum();
            let quanta = work.div_ceil(8 * QUANTUM.ns());
            assert_eq!(aligned(&part.tasks, part.period).unwrap().budget, ms(quanta), "{part:?}");
        }
    }
}
