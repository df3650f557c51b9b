//! The (α, Δ) plane against all integers, and the budget on it against the exact one.

mod oracle;

use giusto_analysis::interface::plane::{plane, Plane};
use giusto_analysis::interface::{least_budget, schedulable, Resource, Scheduler};
use giusto_analysis::Error;
use giusto_model::{Bandwidth, Duration, Task};
use num_rational::Ratio;
use oracle::{dues, ns, priorities, random_set, released, repeats, task};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const PERIODS: [u64; 8] = [3, 4, 5, 6, 10, 15, 20, 30];
const SCHEDULERS: [Scheduler; 3] = [Scheduler::Rm, Scheduler::Dm, Scheduler::Edf];

fn share(n: u64, d: u64) -> Bandwidth {
    Bandwidth::new(n, d).unwrap()
}

fn load(tasks: &[Task]) -> Ratio<i128> {
    tasks.iter().map(|t| Ratio::new(i128::from(t.wcet.ns() * u64::from(t.copies)), i128::from(t.period.ns()))).sum()
}

/// For each task (EDF: once) all integers t and the work W at them, counted job by job.
type Demands = Vec<Vec<(i128, i128)>>;

fn demands(tasks: &[Task], scheduler: Scheduler) -> Demands {
    if scheduler == Scheduler::Edf {
        let dues = dues(tasks, 2 * repeats(tasks, 1));
        return vec![(0..).zip(dues).filter(|(_, w)| *w > 0).map(|(t, w)| (t, i128::from(w))).collect()];
    }
    let order = priorities(tasks, scheduler);
    let of = |rank: usize| {
        let work = |t: u64| (i128::from(t), i128::from(released(tasks, &order[..=rank], t)));
        (1..=tasks[order[rank]].deadline.ns()).map(work).collect()
    };
    (0..order.len()).map(of).collect()
}

/// Δ_max(α) by its definition; negative where no Δ is allowed. EDF: for α ≥ U.
fn allowed(demands: &Demands, scheduler: Scheduler, n: u64, d: u64) -> Ratio<i128> {
    let (n, d) = (i128::from(n), i128::from(d));
    let lines =
        |points: &Vec<(i128, i128)>| points.iter().map(|(t, w)| Ratio::new(t * n - w * d, n)).collect::<Vec<_>>();
    let each = demands.iter().map(|points| match scheduler {
        Scheduler::Edf => lines(points).into_iter().min().unwrap(),
        _ => lines(points).into_iter().max().unwrap(),
    });
    each.min().unwrap()
}

fn signed(delay: Ratio<u128>) -> Ratio<i128> {
    Ratio::new(*delay.numer() as i128, *delay.denom() as i128)
}

#[derive(Debug, Default)]
struct Seen {
    sets: usize,
    too_much: usize,
    bent: usize,
    handed_over: usize,
    later_than_load: usize,
    above: usize,
    equal: usize,
    short: usize,
    cut_off: usize,
}

#[test]
fn the_curve_is_the_definition_at_every_bandwidth_of_a_grid_and_rises() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut seen = SCHEDULERS.map(|_| Seen::default());
    for round in 0..900 {
        let (scheduler, seen) = (SCHEDULERS[round % 3], &mut seen[round % 3]);
        let tasks = random_set(&mut rng, &PERIODS, 0.3);
        let demands = demands(&tasks, scheduler);
        let load = load(&tasks);
        let fits = load <= Ratio::from(1) && allowed(&demands, scheduler, 1, 1) >= Ratio::from(0);
        let plane = match plane(&tasks, scheduler, None).unwrap() {
            Ok(plane) => plane,
            Err(shortfall) => {
                assert!(!fits, "{tasks:?}");
                assert!(shortfall.point.demand > shortfall.point.at && shortfall.point.supply == shortfall.point.at);
                seen.too_much += 1;
                continue;
            }
        };
        assert!(fits, "{tasks:?}");
        seen.sets += 1;
        joins(&plane, &demands, scheduler);
        let mut grid: Vec<(u64, u64)> = (1..=20).flat_map(|d| (1..=d).map(move |n| (n, d))).collect();
        grid.extend(plane.pieces.iter().flat_map(|p| [p.from, p.to]).map(|a| (a.numer(), a.denom())));
        grid.sort_by_key(|&(n, d)| share(n, d));
        let mut last = None;
        for (n, d) in grid {
            let expected = allowed(&demands, scheduler, n, d);
            let above_load = scheduler != Scheduler::Edf || Ratio::new(i128::from(n), i128::from(d)) >= load;
            let expected = Some(expected).filter(|delay| *delay >= Ratio::from(0) && above_load);
            let found = plane.delay(share(n, d)).map(signed);
            assert_eq!(found, expected, "α = {n}/{d}, {scheduler} {tasks:?}");
            assert!(found >= last, "it rises");
            last = found;
        }
        let from = plane.pieces[0].from;
        seen.bent += usize::from(plane.pieces.len() > 1);
        seen.handed_over += usize::from(plane.pieces.windows(2).any(|two| two[0].task != two[1].task));
        seen.later_than_load += usize::from(Ratio::new(i128::from(from.numer()), i128::from(from.denom())) > load);
    }
    println!("{seen:?}");
    for (scheduler, seen) in SCHEDULERS.iter().zip(&seen) {
        assert!(seen.sets > 120 && seen.too_much > 20 && seen.bent > 40 && seen.later_than_load > 40, "{seen:?}");
        assert!(*scheduler == Scheduler::Edf || seen.handed_over > 25, "{seen:?}");
    }
}

/// Pieces follow each other without a gap or a jump, from 0 to a whole core, and their points are points of the demand.
fn joins(plane: &Plane, demands: &Demands, scheduler: Scheduler) {
    let pieces = &plane.pieces;
    assert_eq!(pieces.last().unwrap().to, Bandwidth::ONE);
    assert_eq!(plane.delay(pieces[0].from), Some(Ratio::from(0)));
    assert!(pieces.len() == 1 || pieces.iter().all(|piece| piece.from < piece.to), "{plane:?}");
    for two in pieces.windows(2) {
        assert_eq!(two[0].to, two[1].from);
        let (n, d) = (i128::from(two[0].to.numer()), i128::from(two[0].to.denom()));
        let ends = [two[0], two[1]].map(|p| i128::from(p.at.ns()) * n - i128::from(p.demand.ns()) * d);
        assert_eq!(ends[0], ends[1], "{plane:?}");
    }
    for piece in pieces {
        let point = (i128::from(piece.at.ns()), i128::from(piece.demand.ns()));
        assert_eq!(piece.task.is_none(), scheduler == Scheduler::Edf);
        assert!(demands.iter().any(|points| points.contains(&point)), "{piece:?}");
    }
}

#[test]
fn a_curve_from_a_least_bandwidth_on_is_the_end_of_the_whole_one() {
    let mut rng = StdRng::seed_from_u64(2);
    let (mut inside, mut before) = (0, 0);
    for round in 0..600 {
        let scheduler = SCHEDULERS[round % 3];
        let tasks = random_set(&mut rng, &PERIODS, 0.4);
        let Ok(whole) = plane(&tasks, scheduler, None).unwrap() else { continue };
        let d = rng.random_range(1..=30);
        let least = share(rng.random_range(1..=d), d);
        let part = plane(&tasks, scheduler, Some(least)).unwrap().unwrap();
        assert_eq!(part.pieces[0].from, least.max(whole.pieces[0].from), "{tasks:?}");
        for n in 1..=60 {
            let expected = whole.delay(share(n, 60)).filter(|_| share(n, 60) >= least);
            assert_eq!(part.delay(share(n, 60)), expected, "{n}/60 from {least}, {scheduler} {tasks:?}");
        }
        inside += usize::from(least > whole.pieces[0].from);
        before += usize::from(least < whole.pieces[0].from);
    }
    assert!(inside > 100 && before > 100, "{inside} {before}");
}

#[test]
fn a_line_is_enough_up_to_the_curve_and_not_beyond() {
    let mut rng = StdRng::seed_from_u64(3);
    let mut lines = 0;
    for round in 0..600 {
        let scheduler = SCHEDULERS[round % 3];
        let tasks = random_set(&mut rng, &PERIODS, 0.4);
        let Ok(plane) = plane(&tasks, scheduler, None).unwrap() else { continue };
        for n in 1..=24 {
            let Some(most) = plane.delay(share(n, 24)) else { continue };
            let line = |delay: u128| Resource::Linear { bandwidth: share(n, 24), delay: ns(delay as u64) };
            let enough = |delay| schedulable(&tasks, scheduler, &line(delay), ns(0)).unwrap().is_ok();
            let most = most.to_integer();
            assert!(enough(most) && !enough(most + 1), "({n}/24, {most}) {scheduler} {tasks:?}");
            lines += 1;
        }
    }
    assert!(lines > 2000, "{lines}");
}

#[test]
fn the_budget_on_the_curve_is_the_least_there_and_never_below_the_exact_one() {
    let mut rng = StdRng::seed_from_u64(4);
    let mut seen = Seen::default();
    for round in 0..900 {
        let scheduler = SCHEDULERS[round % 3];
        let tasks = random_set(&mut rng, &PERIODS, 0.3);
        let demands = demands(&tasks, scheduler);
        let Ok(whole) = plane(&tasks, scheduler, None).unwrap() else { continue };
        let (period, quantum) = (rng.random_range(1..=14), rng.random_range(1..=2));
        let on_curve = |budget: &u64| {
            let enough = allowed(&demands, scheduler, *budget, period) >= Ratio::from(2 * i128::from(period - budget));
            let share = Ratio::new(i128::from(*budget), i128::from(period));
            enough && (scheduler != Scheduler::Edf || share >= load(&tasks))
        };
        let expected = (1..=period / quantum).map(|k| k * quantum).find(on_curve).map(ns);
        let found = whole.least_budget(ns(period), ns(quantum)).unwrap();
        assert_eq!(found, expected, "Π = {period}, {scheduler} {tasks:?}");
        let shape = Resource::Periodic { period: ns(period), budget: ns(period) };
        let exact = least_budget(&tasks, scheduler, &shape, ns(quantum), ns(0)).unwrap();
        match (found, exact) {
            (Some(found), Some(exact)) => {
                assert!(found >= exact, "Π = {period}, {scheduler} {tasks:?}");
                seen.above += usize::from(found > exact);
                seen.equal += usize::from(found == exact);
            }
            (None, _) => seen.short += 1,
            (Some(_), None) => panic!("Π = {period}, {scheduler} {tasks:?}"),
        }
        // A curve that begins later tells the same, or that it cannot.
        let d = rng.random_range(1..=12);
        let least = share(rng.random_range(1..=d), d);
        match plane(&tasks, scheduler, Some(least)).unwrap().unwrap().least_budget(ns(period), ns(quantum)) {
            Err(Error::Curve { from }) => {
                assert!(from == least && least > whole.pieces[0].from, "{tasks:?}");
                seen.cut_off += usize::from(expected.is_some_and(|budget| share(budget.ns(), period) < from));
            }
            found => assert_eq!(found, Ok(expected), "from {least}, Π = {period}, {scheduler} {tasks:?}"),
        }
    }
    println!("{seen:?}");
    assert!(seen.above > 100 && seen.equal > 100 && seen.short > 50 && seen.cut_off > 50, "{seen:?}");
}

#[test]
fn three_tasks_by_hand() {
    // (2, 7), (1, 8), (1, 10) of Lee11. EDF, all deadlines up to 16: (7, 2), (8, 3), (10, 4), (14, 6), (16, 7). Their hull
    // from above: 7 → 2, then a slope of 1 to (8, 3), of 1/2 to (10, 4) and on to (14, 6) and (16, 7), then less.
    let tasks = [task(2, 7, 7, 1), task(1, 8, 8, 1), task(1, 10, 10, 1)];
    let edf = plane(&tasks, Scheduler::Edf, Some(share(1, 2))).unwrap().unwrap();
    assert_eq!(edf.delay(share(1, 1)), Some(Ratio::from(5)));
    assert_eq!(edf.delay(share(3, 4)), Some(Ratio::from(4)));
    // RM: the last task has (7, 4), (8, 6), (10, 7): at α = 1 it allows 3, the first 5, the second 5 at (8, 3) is (7, 3): 4.
    let rm = plane(&tasks, Scheduler::Rm, None).unwrap().unwrap();
    assert_eq!(rm.delay(share(1, 1)), Some(Ratio::from(3)));
    // 7 - 4/α = 0 and 10 - 7/α below it: α ≥ 4/7.
    assert_eq!(rm.pieces[0].from, share(4, 7));
    assert_eq!(rm.pieces[0].task, Some(2));
    // Π = 3: with Θ = 2 a gap of 2 and Δ_max(2/3) = 1, not enough, though (3, 2) is by the exact supply.
    assert_eq!(rm.delay(share(2, 3)), Some(Ratio::from(1)));
    assert_eq!(rm.least_budget(ns(3), ns(1)), Ok(Some(ns(3))));
    let shape = Resource::Periodic { period: ns(3), budget: ns(3) };
    assert_eq!(least_budget(&tasks, Scheduler::Rm, &shape, ns(1), ns(0)), Ok(Some(ns(2))));
}

#[test]
fn a_hyperperiod_beyond_all_patience_is_asked_for_from_a_least_bandwidth_on() {
    let tasks = [(300_001, 1_000_003), (400_009, 2_000_003), (900_001, 9_999_991)];
    let tasks = tasks.map(|(wcet, period)| task(wcet, period, period, 1));
    let refused = plane(&tasks, Scheduler::Edf, None).unwrap_err();
    assert!(matches!(refused, Error::Points { .. }) && refused.to_string().contains("least bandwidth"), "{refused}");
    let plane = plane(&tasks, Scheduler::Edf, Some(share(6, 10))).unwrap().unwrap();
    for (n, d) in [(6, 10), (61, 100), (2, 3), (9, 10), (1, 1)] {
        let most = plane.delay(share(n, d)).unwrap().to_integer();
        let line = |delay: u128| Resource::Linear { bandwidth: share(n, d), delay: ns(delay as u64) };
        let enough = |delay| schedulable(&tasks, Scheduler::Edf, &line(delay), Duration::ZERO).unwrap().is_ok();
        assert!(enough(most) && !enough(most + 1), "{n}/{d}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let tasks = [task(1, 4, 4, 1)];
    assert!(matches!(plane(&[], Scheduler::Rm, None), Err(Error::NoTasks)));
    assert!(matches!(plane(&[task(0, 4, 4, 1)], Scheduler::Edf, None), Err(Error::Task { .. })));
    assert!(matches!(plane(&tasks, Scheduler::Edf, Some(share(9, 8))), Err(Error::Share { .. })));
    let plane = plane(&tasks, Scheduler::Edf, None).unwrap().unwrap();
    assert_eq!(plane.least_budget(ns(0), ns(1)), Err(Error::Period));
    assert_eq!(plane.least_budget(ns(1), ns(0)), Err(Error::Quantum));
    assert_eq!(plane.least_budget(ns(1), ns(2)), Ok(None));
    assert_eq!(plane.delay(share(9, 8)), None);
    let text = serde_json::to_string(&plane).unwrap();
    assert_eq!(text, r#"{"scheduler":"edf","pieces":[{"from":"1/4","to":"1","task":null,"at_ns":4,"demand_ns":1}]}"#);
    assert_eq!(serde_json::from_str::<Plane>(&text).unwrap(), plane);
}
