//! Supply and demand counted unit by unit; shares no code with the analysis.
#![allow(dead_code)] // each test uses some of it

use giusto_analysis::interface::{Certificate, Resource, Scheduler, Shortfall};
use giusto_model::{Duration, Release, Task};
use rand::rngs::StdRng;
use rand::RngExt;

pub(crate) fn ns(n: u64) -> Duration {
    Duration::from_ns(n)
}

pub(crate) fn task(wcet: u64, period: u64, deadline: u64, copies: u32) -> Task {
    Task {
        name: format!("{wcet}/{period}@{deadline}"),
        wcet: ns(wcet),
        period: ns(period),
        deadline: ns(deadline),
        offset: ns(0),
        release: Release::Sporadic,
        copies,
    }
}

/// One to four tasks with periods from `periods`, about half of them due at their period, one in five in two copies.
pub(crate) fn random_set(rng: &mut StdRng, periods: &[u64], load: f64) -> Vec<Task> {
    let count = rng.random_range(1..=4);
    let mut draw = || {
        let period = periods[rng.random_range(0..periods.len())];
        let most = ((period as f64 * load * 2.0 / f64::from(count)) as u64).clamp(1, period);
        let wcet = rng.random_range(1..=most);
        let deadline = if rng.random_bool(0.5) { period } else { rng.random_range(wcet..=period) };
        task(wcet, period, deadline, if rng.random_bool(0.2) { 2 } else { 1 })
    };
    (0..count).map(|_| draw()).collect()
}

/// Least common multiple of all task periods and `other`.
pub(crate) fn repeats(tasks: &[Task], other: u64) -> u64 {
    tasks.iter().fold(other, |all, t| {
        let mut multiple = all;
        while multiple % t.period.ns() != 0 {
            multiple += all;
        }
        multiple
    })
}

/// The least supply of windows of 0, 1, …, `longest` units, from a schedule of single units drawn out in full.
///
/// A periodic resource gives its first budget as early as it may and all later ones as late: the least of all windows of that
/// schedule (aligned: of those that start at a boundary, all budgets late).
pub(crate) fn supplies(resource: &Resource, longest: u64) -> Vec<u64> {
    let late = |period: u64, budget: u64, deadline: u64, early_first: bool| {
        move |unit: u64| {
            let (round, at) = (unit / period, unit % period);
            if early_first && round == 0 {
                at < budget
            } else {
                (deadline - budget..deadline).contains(&at)
            }
        }
    };
    let least = |unit: &dyn Fn(u64) -> bool, starts: u64| -> Vec<u64> {
        let all: Vec<u64> = (0..starts + longest).map(|u| u64::from(unit(u))).collect();
        let mut sums: Vec<u64> = vec![0; starts as usize];
        (0..=longest)
            .map(|t| {
                let least = *sums.iter().min().unwrap();
                if t < longest {
                    sums.iter_mut().enumerate().for_each(|(s, sum)| *sum += all[s + t as usize]);
                }
                least
            })
            .collect()
    };
    match *resource {
        Resource::Periodic { period, budget } => {
            least(&late(period.ns(), budget.ns(), period.ns(), true), 2 * period.ns())
        }
        Resource::ExplicitDeadline { period, budget, deadline } => {
            least(&late(period.ns(), budget.ns(), deadline.ns(), true), 2 * period.ns())
        }
        Resource::Aligned { period, budget } => least(&late(period.ns(), budget.ns(), period.ns(), false), 1),
        Resource::Table { cycle, ref slots } => {
            let slots: Vec<(u64, u64)> = slots.iter().map(|s| (s[0].ns(), s[1].ns())).collect();
            let on = move |u: u64| slots.iter().any(|&(from, to)| (from..to).contains(&(u % cycle.ns())));
            least(&on, cycle.ns())
        }
        Resource::Linear { bandwidth, delay } => {
            (0..=longest).map(|t| t.saturating_sub(delay.ns()) * bandwidth.numer() / bandwidth.denom()).collect()
        }
        Resource::Multi { .. } => panic!("several virtual CPUs have no supply of their own"),
    }
}

/// Work released in the first `t` units after a synchronous release by the tasks at `places`.
pub(crate) fn released(tasks: &[Task], places: &[usize], t: u64) -> u64 {
    let jobs = |k: usize| (0..t).filter(|at| at % tasks[k].period.ns() == 0).count() as u64;
    places.iter().map(|&k| jobs(k) * tasks[k].wcet.ns() * u64::from(tasks[k].copies)).sum()
}

/// Work released and due in [0, t], for t = 0, 1, …, `longest`.
pub(crate) fn dues(tasks: &[Task], longest: u64) -> Vec<u64> {
    let mut due = vec![0; longest as usize + 1];
    for task in tasks {
        for release in (0..).map(|k| k * task.period.ns()).take_while(|r| r + task.deadline.ns() <= longest) {
            due[(release + task.deadline.ns()) as usize] += task.wcet.ns() * u64::from(task.copies);
        }
    }
    (1..due.len()).for_each(|t| due[t] += due[t - 1]);
    due
}

/// The places in order of priority, sorted by insertion.
pub(crate) fn priorities(tasks: &[Task], scheduler: Scheduler) -> Vec<usize> {
    let key = |i: usize| if scheduler == Scheduler::Rm { tasks[i].period } else { tasks[i].deadline };
    let mut order: Vec<usize> = Vec::new();
    for i in 0..tasks.len() {
        let at = order.iter().position(|&other| key(other) > key(i)).unwrap_or(order.len());
        order.insert(at, i);
    }
    order
}

/// How far all tests of one resource have to look; `repeats` is the length after which it repeats itself.
pub(crate) fn horizon(tasks: &[Task], repeats_after: u64, latency: u64) -> u64 {
    repeats(tasks, repeats_after) + 2 * repeats_after + latency + 2
}

/// All that a task set asks for, counted out.
pub(crate) struct Asked {
    latency: u64,
    /// Fixed priority: for each task what must be supplied in windows of 1, 2, … units up to its deadline, at one of them.
    ranks: Vec<Vec<u64>>,
    /// EDF: what must be supplied in windows of 0, 1, … units, in each.
    dues: Vec<u64>,
}

impl Asked {
    /// `longest`: as far as EDF is ever looked at.
    pub(crate) fn new(tasks: &[Task], scheduler: Scheduler, latency: u64, longest: u64) -> Self {
        if scheduler == Scheduler::Edf {
            return Asked { latency, ranks: Vec::new(), dues: dues(tasks, longest) };
        }
        let order = priorities(tasks, scheduler);
        let rank = |r: usize| (1..=tasks[order[r]].deadline.ns()).map(|t| released(tasks, &order[..=r], t)).collect();
        Asked { latency, ranks: (0..order.len()).map(rank).collect(), dues: Vec::new() }
    }

    /// Every deadline is met, by trying all integers; `supply` as of [`supplies`], up to the horizon.
    pub(crate) fn met(&self, supply: &[u64]) -> bool {
        let supplied = |t: u64| if t < self.latency { 0 } else { supply[(t - self.latency) as usize] };
        let each = (0..supply.len() as u64).zip(&self.dues).all(|(t, due)| *due <= supplied(t));
        each && self.ranks.iter().all(|asked| (1..).zip(asked).any(|(t, work)| supplied(t) >= *work))
    }
}

/// The same, at once.
pub(crate) fn enough(tasks: &[Task], scheduler: Scheduler, supply: &[u64], latency: u64) -> bool {
    Asked::new(tasks, scheduler, latency, supply.len() as u64 - 1).met(supply)
}

/// Panics unless the certificate proves by itself what it says: only its points, the definitions, and for EDF that its bound
/// is far enough (`horizon`: dbf and sbf repeat from there on; a nearer bound must have no deadline missed up to there).
pub(crate) fn verify(certificate: &Certificate, tasks: &[Task], supply: &[u64]) {
    let Certificate { scheduler, latency, points, until, .. } = certificate;
    let supplied = |t: Duration| t.checked_sub(*latency).map_or(0, |t| supply[t.ns() as usize]);
    for point in points {
        assert_eq!(point.supply.ns(), supplied(point.at), "{certificate:?}");
        assert!(point.demand <= point.supply, "{certificate:?}");
    }
    if *scheduler != Scheduler::Edf {
        let order = priorities(tasks, *scheduler);
        assert_eq!(points.iter().map(|p| p.task.unwrap()).collect::<Vec<_>>(), order, "{certificate:?}");
        for (rank, point) in points.iter().enumerate() {
            assert!(point.at <= tasks[order[rank]].deadline && !point.at.is_zero(), "{certificate:?}");
            assert_eq!(point.demand.ns(), released(tasks, &order[..=rank], point.at.ns()), "{certificate:?}");
        }
        return;
    }
    let until = until.unwrap().ns();
    let dues = dues(tasks, supply.len() as u64 - 1);
    let due = |t: u64| dues[t as usize];
    match points.first() {
        Some(first) => assert_eq!(due(first.at.ns() - 1), 0, "{certificate:?}"),
        None => assert_eq!(due(until), 0, "{certificate:?}"),
    }
    for (k, point) in points.iter().enumerate() {
        assert!(due(point.at.ns()) > due(point.at.ns() - 1) && point.task.is_none(), "{certificate:?}");
        let end = points.get(k + 1).map_or(until, |next| next.at.ns() - 1);
        assert!(point.at.ns() <= end, "{certificate:?}");
        assert_eq!(point.demand.ns(), due(end), "{certificate:?}");
    }
}

/// Panics unless the witness is one: the task misses, and there is where it is said to.
pub(crate) fn falls_short(shortfall: &Shortfall, tasks: &[Task], scheduler: Scheduler, supply: &[u64], latency: u64) {
    let Shortfall { point, task } = shortfall;
    let supplied = |t: u64| if t < latency { 0 } else { supply[(t - latency) as usize] };
    assert_eq!(point.supply.ns(), supplied(point.at.ns()), "{shortfall:?}");
    assert!(point.demand > point.supply, "{shortfall:?}");
    if scheduler == Scheduler::Edf {
        let dues = dues(tasks, point.at.ns());
        assert_eq!((dues[dues.len() - 1], point.task), (point.demand.ns(), None), "{shortfall:?}");
        let rest = point.at.ns() - tasks[*task].deadline.ns();
        assert_eq!(rest % tasks[*task].period.ns(), 0, "a deadline of it: {shortfall:?}");
        let first = (0..point.at.ns()).all(|t| dues[t as usize] <= supplied(t));
        assert!(first, "{shortfall:?}");
        return;
    }
    assert_eq!(point.task, Some(*task));
    let order = priorities(tasks, scheduler);
    let rank = order.iter().position(|k| k == task).unwrap();
    let lack = |t: u64| released(tasks, &order[..=rank], t).checked_sub(supplied(t)).filter(|lack| *lack > 0);
    let least = (1..=tasks[*task].deadline.ns()).map(|t| lack(t).expect("each point lacks something")).min();
    assert_eq!((least, lack(point.at.ns())), (lack(point.at.ns()), least), "{shortfall:?}");
    assert_eq!(point.demand.ns(), released(tasks, &order[..=rank], point.at.ns()), "{shortfall:?}");
}
