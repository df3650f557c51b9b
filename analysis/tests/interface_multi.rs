//! Several virtual CPUs under global EDF: the test against its own sums at every length, against one processor, and against
//! every supply and every arrival of small sets.

mod supplies;

use giusto_analysis::admission::Grids;
use giusto_analysis::interface::multi::{least_budget, least_cores, optimum, schedulable, Short, Total, Wanted};
use giusto_analysis::interface::{self, Resource, ResourceError, Scheduler};
use giusto_analysis::Error;
use giusto_model::{Bandwidth, Duration, Release, Task};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn ns(ns: u64) -> Duration {
    Duration::from_ns(ns)
}

fn task(wcet: u64, deadline: u64, period: u64, copies: u32) -> Task {
    let (name, offset, release) = (String::new(), ns(0), Release::Sporadic);
    Task { name, wcet: ns(wcet), deadline: ns(deadline), period: ns(period), offset, release, copies }
}

fn random_task(rng: &mut StdRng, longest: u64, copies: u32) -> Task {
    let period = rng.random_range(2..=longest);
    let deadline = if rng.random_bool(0.5) { period } else { rng.random_range(1..=period) };
    task(rng.random_range(1..=deadline.div_ceil(2)), deadline, period, rng.random_range(1..=copies))
}

fn random_tasks(rng: &mut StdRng, most: usize, longest: u64, copies: u32) -> Vec<Task> {
    (0..rng.random_range(1..=most)).map(|_| random_task(rng, longest, copies)).collect()
}

fn grids(rng: &mut StdRng) -> Grids {
    if rng.random_bool(0.5) {
        Grids::Aligned
    } else {
        Grids::Apart
    }
}

/// The test of Shin, Easwaran and Lee at one length, task by task, with L − C_k + 1 for L − C_k, and < for ≤.
fn holds(tasks: &[Task], k: usize, length: u64, cores: usize, supply: u128) -> bool {
    let one = |task: &Task| (task.wcet.ns() as i128, task.deadline.ns() as i128, task.period.ns() as i128);
    let (length, (c, d, _)) = (length as i128, one(&tasks[k]));
    let mut both: Vec<(i128, i128)> = Vec::new();
    for (i, other) in tasks.iter().enumerate() {
        let (ci, di, ti) = one(other);
        let jobs = (length + ti - di).div_euclid(ti);
        let (work, over) = (jobs * ci, ci.min((length - jobs * ti).max(0)));
        both.push(if i == k {
            ((work - c).min(length - d), (work - c + over).min(length - d))
        } else {
            (work.min(length - c + 1), (work + over).min(length - c + 1))
        });
    }
    let mut more: Vec<i128> = both.iter().map(|(without, with)| with - without).collect();
    more.sort_unstable();
    let sum: i128 =
        both.iter().map(|(without, _)| without).sum::<i128>() + more.iter().rev().take(cores - 1).sum::<i128>();
    sum + cores as i128 * (c - 1) < supply as i128
}

fn one_by_one(tasks: &[Task]) -> Vec<Task> {
    tasks.iter().flat_map(|t| vec![Task { copies: 1, ..t.clone() }; t.copies as usize]).collect()
}

fn utilization(tasks: &[Task]) -> f64 {
    tasks.iter().map(|t| t.utilization().unwrap().as_f64()).sum()
}

#[test]
fn a_set_passes_where_the_sums_hold_at_every_length() {
    let mut rng = StdRng::seed_from_u64(1);
    let (mut passed, mut at_once, mut late, mut inside, mut trivial) = (0, 0, 0, 0, 0);
    for _ in 0..2000 {
        let tasks = random_tasks(&mut rng, 4, 30, 2);
        let cores = rng.random_range(1..=4);
        let period = rng.random_range(1..=12);
        let least = (utilization(&tasks) / cores as f64 * period as f64) as u64;
        let budgets = (0..cores).map(|_| ns(rng.random_range(least.clamp(1, period)..=period))).collect();
        let total = Total { period: ns(period), budgets, grids: grids(&mut rng) };
        let latency = if rng.random_bool(0.2) { rng.random_range(1..=5) } else { 0 };
        let all = one_by_one(&tasks);
        let supply = |t: u64| t.checked_sub(latency).map_or(0, |t| total.supply(ns(t)));
        let fails = |k: usize, t: u64| !holds(&all, k, t, cores, supply(t));
        match schedulable(&tasks, &total, ns(latency)).unwrap() {
            Ok(until) => {
                passed += 1;
                #[expect(clippy::needless_range_loop, reason = "it indexes two lists")]
                for k in 0..all.len() {
                    let last = until.ns().max(300);
                    let found = (all[k].deadline.ns()..=last).find(|&t| fails(k, t));
                    assert_eq!(found, None, "{tasks:?} {total:?} task {k} until {until}");
                }
            }
            Err(Short::Window(short)) => {
                let (task, at) = (short.task, short.point.at.ns());
                let k = tasks[..task].iter().map(|t| t.copies as usize).sum();
                assert!(short.point.task == Some(task) && short.point.demand > short.point.supply);
                assert!(
                    fails(k, at) && u128::from(short.point.supply.ns()) == supply(at),
                    "{tasks:?} {total:?} {short:?}"
                );
                let first = (tasks[task].deadline.ns()..at).find(|&t| fails(k, t)).unwrap_or(at);
                *(if first > 3 * tasks[task].deadline.ns() { &mut late } else { &mut at_once }) += 1;
                inside += usize::from(first < at);
            }
            Err(Short::Bandwidth { demand, supply }) => {
                assert!(demand >= supply);
                trivial += 1;
            }
        }
    }
    println!("{passed} pass; fail: {at_once} at once, {late} late, {inside} before the end of a piece, {trivial} in the long run");
    assert!(passed > 300 && at_once > 300 && late > 2 && trivial > 100);
}

#[test]
fn on_one_virtual_cpu_it_is_the_exact_test_of_edf() {
    let mut rng = StdRng::seed_from_u64(2);
    let (mut passed, mut failed, mut differ) = (0, 0, 0);
    for _ in 0..3000 {
        let tasks = random_tasks(&mut rng, 4, 30, 2);
        let period = rng.random_range(1..=10);
        let budget = rng.random_range(1..=period);
        let total = Total { period: ns(period), budgets: vec![ns(budget)], grids: grids(&mut rng) };
        let resource = Resource::Periodic { period: ns(period), budget: ns(budget) };
        let found = schedulable(&tasks, &total, Duration::ZERO).unwrap();
        match interface::schedulable(&tasks, Scheduler::Edf, &resource, Duration::ZERO) {
            Ok(expected) => {
                let exactly = matches!(found, Err(Short::Bandwidth { demand, supply }) if demand == supply);
                differ += usize::from(exactly && expected.is_ok());
                assert!(found.is_ok() == expected.is_ok() || exactly, "{tasks:?} {total:?} {found:?} {expected:?}");
                *(if found.is_ok() { &mut passed } else { &mut failed }) += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    println!("{passed} pass, {failed} fail, {differ} at the very utilization of the tasks, where this one says no");
    assert!(passed > 100 && failed > 500 && differ < 60);
}

fn wanted(cores: u32, quantum: u64, grids: Grids) -> Wanted {
    Wanted { cores, quantum: ns(quantum), grids, latency: Duration::ZERO }
}

#[test]
fn the_least_budget_is_enough_split_evenly_and_no_less_is() {
    let mut rng = StdRng::seed_from_u64(3);
    let (mut found, mut none, mut uneven) = (0, 0, 0);
    for _ in 0..400 {
        let tasks = random_tasks(&mut rng, 4, 40, 2);
        let (cores, quantum, period) = (rng.random_range(1..=4), rng.random_range(1..=3), rng.random_range(2..=12));
        let wanted = wanted(cores, quantum, grids(&mut rng));
        // Every split by hand: the first have one quantum more.
        let scanned: Vec<bool> = (u64::from(cores)..=period / quantum * u64::from(cores))
            .map(|quanta| {
                let mut budgets = vec![0; cores as usize];
                (0..quanta).for_each(|n| budgets[(n % u64::from(cores)) as usize] += quantum);
                let budgets = budgets.into_iter().map(ns).collect();
                let total = Total { period: ns(period), budgets, grids: wanted.grids };
                schedulable(&tasks, &total, Duration::ZERO).unwrap().is_ok()
            })
            .collect();
        assert!(scanned.is_sorted(), "more is never worse: {tasks:?} {wanted:?} {scanned:?}");
        let first = scanned.iter().position(|enough| *enough).map(|nth| (nth as u64 + u64::from(cores)) * quantum);
        let least = least_budget(&tasks, ns(period), &wanted).unwrap();
        assert_eq!(least.as_ref().map(|least| least.budget.ns()), first, "{tasks:?} {wanted:?}");
        let Some(least) = least else {
            none += 1;
            continue;
        };
        found += 1;
        let parts: Vec<u64> = least.vcpus.iter().map(|part| part.ns()).collect();
        assert_eq!((parts.len(), parts.iter().sum()), (cores as usize, least.budget.ns()));
        assert!(
            parts.is_sorted_by(|a, b| a >= b) && parts[0] - parts[parts.len() - 1] <= quantum && parts[0] <= period
        );
        assert_eq!(Some(least.bandwidth), Bandwidth::of(least.budget, ns(period)));
        uneven += usize::from(parts[0] != parts[parts.len() - 1]);
    }
    println!("{found} found, {none} not; {uneven} uneven");
    assert!(found > 100 && none > 50 && uneven > 30);
}

#[test]
fn parts_of_one_size_need_no_alignment() {
    let mut rng = StdRng::seed_from_u64(4);
    let mut points = 0;
    for _ in 0..300 {
        let period = rng.random_range(1..=12);
        let one = rng.random_range(1..=period);
        let of = |grids| Total { period: ns(period), budgets: vec![ns(one); 3], grids };
        for t in 0..4 * period {
            assert_eq!(of(Grids::Aligned).supply(ns(t)), of(Grids::Apart).supply(ns(t)));
            points += 1;
        }
    }
    assert!(points > 5000);
}

#[test]
fn the_optimum_is_the_best_of_all_periods() {
    let mut rng = StdRng::seed_from_u64(5);
    let (mut found, mut none, mut beyond, mut not_first) = (0, 0, 0, 0);
    for _ in 0..120 {
        let tasks = random_tasks(&mut rng, 4, 24, 1);
        let quantum = rng.random_range(1..=2);
        let wanted = wanted(rng.random_range(1..=3), quantum, grids(&mut rng));
        let (shortest, longest) = (rng.random_range(1..=5), rng.random_range(20..=60));
        let mut best: Option<(Bandwidth, u64)> = None;
        for period in (shortest..=longest).filter(|period| period % quantum == 0) {
            if let Some(least) = least_budget(&tasks, ns(period), &wanted).unwrap() {
                best = best.filter(|best| best.0 <= least.bandwidth).or(Some((least.bandwidth, period)));
            }
        }
        let optimum = optimum(&tasks, ns(shortest), ns(longest), &wanted).unwrap();
        assert_eq!(optimum.as_ref().map(|o| (o.bandwidth, o.period.ns())), best, "{tasks:?} {wanted:?}");
        match &optimum {
            Some(optimum) => {
                found += 1;
                not_first += usize::from(optimum.period.ns() >= shortest + quantum);
                beyond += usize::from(optimum.period.ns() * 2 < longest);
            }
            None => none += 1,
        }
    }
    println!("{found} found, {not_first} not at the shortest period, {beyond} far from the longest; {none} not");
    assert!(found > 40 && not_first > 10 && beyond > 20);
}

#[test]
fn the_fewest_virtual_cpus_are_those_with_which_some_budget_is_enough() {
    let mut rng = StdRng::seed_from_u64(6);
    let mut seen = [0; 5];
    for _ in 0..150 {
        let tasks = random_tasks(&mut rng, 4, 30, 2);
        let (period, grids) = (ns(rng.random_range(1..=3)), grids(&mut rng));
        let found = least_cores(&tasks, period, &wanted(9, 1, grids)).unwrap().expect("one for each task is enough");
        let cores = found.vcpus.len();
        assert_eq!(Some(&found), least_budget(&tasks, period, &wanted(cores as u32, 1, grids)).unwrap().as_ref());
        assert!((1..cores as u32).all(|m| least_budget(&tasks, period, &wanted(m, 1, grids)).unwrap().is_none()));
        seen[cores.min(4)] += 1;
    }
    println!("{seen:?} sets need 1, 2, 3, 4 and more");
    assert!(seen[1..4].iter().all(|n| *n > 5));
}

#[test]
fn a_whole_processor_does_not_do_3_in_2() {
    // The test as it was printed, with L − C_k and ≤, says yes at L = 2: min(2, 2 − 1) + 1 ≤ 2, and min(1, 2 − 2) + 2 ≤ 2.
    let tasks = [task(2, 2, 4, 1), task(1, 2, 4, 1)];
    let whole = |cores| Total { period: ns(1), budgets: vec![ns(1); cores], grids: Grids::Aligned };
    let Err(Short::Window(short)) = schedulable(&tasks, &whole(1), Duration::ZERO).unwrap() else { panic!() };
    assert_eq!((short.point.at, short.point.supply), (ns(2), ns(2)));
    assert!(schedulable(&tasks, &whole(2), Duration::ZERO).unwrap().is_ok(), "one for each");
    // The same on two: two jobs of 3 keep one of 1 off.
    let tasks = [task(3, 3, 6, 2), task(1, 3, 6, 1)];
    assert!(matches!(schedulable(&tasks, &whole(2), Duration::ZERO).unwrap(), Err(Short::Window(_))));
}

#[test]
fn what_makes_no_sense_is_said() {
    let tasks = [task(1, 4, 4, 1)];
    let none = |wanted| least_budget(&tasks, ns(4), &wanted).unwrap_err();
    assert_eq!(none(wanted(0, 1, Grids::Apart)), Error::Resource(ResourceError::NoCores));
    assert_eq!(none(wanted(1, 0, Grids::Apart)), Error::Quantum);
    assert_eq!(least_budget(&[], ns(4), &wanted(1, 1, Grids::Apart)), Err(Error::NoTasks));
    assert_eq!(optimum(&tasks, ns(0), ns(4), &wanted(1, 1, Grids::Apart)), Err(Error::Period));
    assert_eq!(optimum(&tasks, ns(5), ns(4), &wanted(1, 1, Grids::Apart)), Err(Error::Period));
    let long = least_budget(&tasks, ns(u64::MAX), &wanted(3, 1 << 62, Grids::Aligned));
    assert!(matches!(long, Err(Error::Resource(ResourceError::Range))), "{long:?}");
    let coarse = least_budget(&tasks, ns(4), &wanted(1, 5, Grids::Apart)).unwrap();
    assert_eq!(coarse, None, "no whole quantum in the period");
}
