//! The aligned supply against an adversary that places every budget and leaves out releases as it likes.

mod oracle;

use giusto_analysis::interface::{interface, Family, Question, Scheduler};
use giusto_model::Task;
use oracle::{ns, task};
use rand::rngs::StdRng;
use rand::SeedableRng;
use std::collections::{BTreeMap, HashSet};

/// Its jobs by copy: (wcet, deadline, period).
type Jobs = Vec<(u64, u64, u64)>;

fn jobs(tasks: &[Task]) -> Jobs {
    let copies = |t: &Task| vec![(t.wcet.ns(), t.deadline.ns(), t.period.ns()); t.copies as usize];
    tasks.iter().flat_map(copies).collect()
}

/// Whether a job can be late: the state is what is left of the budget and of each job, followed unit by unit through all
/// choices. Server and releases begin at 0, releases sit at multiples of their period, any may be left out, the budget is
/// given at any time of its period. No job outlives its period, so that one round of all periods
/// shows everything.
fn can_be_late(jobs: &Jobs, scheduler: Scheduler, period: u64, budget: u64) -> bool {
    let round = jobs.iter().fold(period, |all, job| all / gcd(all, job.2) * job.2);
    let mut states = HashSet::from([(budget, vec![0u64; jobs.len()])]);
    for now in 0..round {
        let mut next = HashSet::new();
        for (left, rest) in states {
            let left = if now % period == 0 { budget } else { left };
            for rest in released(jobs, rest, now) {
                // The budget must be used up by the end of the period, work or not.
                let must = left == period - now % period;
                if !must {
                    next.insert((left, rest.clone()));
                }
                if left > 0 {
                    for who in first(jobs, scheduler, &rest, now) {
                        let mut rest = rest.clone();
                        who.into_iter().for_each(|who: usize| rest[who] -= 1);
                        next.insert((left - 1, rest));
                    }
                }
            }
        }
        let due = |k: usize| (now + 1 - jobs[k].1).is_multiple_of(jobs[k].2);
        if next.iter().any(|(_, rest)| (0..jobs.len()).any(|k| rest[k] > 0 && now + 1 >= jobs[k].1 && due(k))) {
            return true;
        }
        states = next;
    }
    false
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

/// Every choice of which jobs are released now.
fn released(jobs: &Jobs, rest: Vec<u64>, now: u64) -> Vec<Vec<u64>> {
    (0..jobs.len()).filter(|&k| now.is_multiple_of(jobs[k].2)).fold(vec![rest], |all, k| {
        let with = all.iter().map(|rest| {
            let mut rest = rest.clone();
            rest[k] = jobs[k].0;
            rest
        });
        with.collect::<Vec<_>>().into_iter().chain(all).collect()
    })
}

/// Which task may run: of fixed priorities the one that stands first among equals, under EDF each that ties for the first place;
/// no task where nothing is to be done.
fn first(jobs: &Jobs, scheduler: Scheduler, rest: &[u64], now: u64) -> Vec<Option<usize>> {
    let rank = |k: usize| match scheduler {
        Scheduler::Rm => jobs[k].2,
        Scheduler::Dm => jobs[k].1,
        Scheduler::Edf => jobs[k].1 - now % jobs[k].2,
    };
    let ready = || (0..jobs.len()).filter(|&k| rest[k] > 0);
    match ready().map(rank).min() {
        None => vec![None],
        Some(_) if scheduler != Scheduler::Edf => vec![ready().min_by_key(|&k| rank(k))],
        Some(best) => ready().filter(|&k| rank(k) == best).map(Some).collect(),
    }
}

#[test]
fn what_is_answered_for_aligned_supply_survives_every_legal_supply_and_most_of_one_unit_less_does_not() {
    let mut rng = StdRng::seed_from_u64(5);
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for turn in 0..6000 {
        let scheduler = [Scheduler::Rm, Scheduler::Dm, Scheduler::Edf][turn % 3];
        let periods: &[u64] = [&[2, 4, 8][..], &[3, 6, 12], &[5, 10], &[4, 12]][turn / 3 % 4];
        let tasks = oracle::random_set(&mut rng, periods, [0.3, 0.5][turn / 12 % 2]);
        let question = Question {
            scheduler,
            supply: Family::Aligned,
            quantum: ns(1),
            period: None,
            preemption: ns(0),
            latency: ns(0),
        };
        let Ok(answer) = interface(&tasks, &question).unwrap() else { continue };
        let (period, budget, jobs) = (answer.period.ns(), answer.budget.ns(), jobs(&tasks));
        assert!(!can_be_late(&jobs, scheduler, period, budget), "{scheduler} ({period}, {budget}) {tasks:?}");
        let mut count = |what: &str| *seen.entry(format!("{scheduler} {what}")).or_default() += 1;
        count("found");
        if tasks.iter().all(|t| t.period > answer.period) {
            count("server shorter than all");
        }
        if tasks.iter().any(|t| t.period < answer.period) {
            count("server longer than one");
        }
        if budget < period {
            count("part of a core");
        }
        if budget > 1 && can_be_late(&jobs, scheduler, period, budget - 1) {
            count("late with one unit less");
        }
    }
    println!("{seen:?}");
    for scheduler in ["rm", "dm", "edf"] {
        let of = |what: &str| seen.get(&format!("{scheduler} {what}")).copied().unwrap_or(0);
        assert!(of("found") > 500 && of("part of a core") > 200, "{seen:?}");
        assert!(of("server longer than one") > 20 && of("server shorter than all") > 20, "{seen:?}");
        assert!(of("late with one unit less") > 100, "{seen:?}");
    }
}

#[test]
fn the_adversary_finds_the_example_that_passes_the_test_without_being_aligned() {
    // {(5,1), (15,5)} on (7, 4): a legal supply makes it miss at 10.
    let unsafe_set = jobs(&[task(1, 5, 5, 1), task(5, 15, 15, 1)]);
    assert!(can_be_late(&unsafe_set, Scheduler::Rm, 7, 4));
    assert!(!can_be_late(&unsafe_set, Scheduler::Rm, 7, 7));
}
