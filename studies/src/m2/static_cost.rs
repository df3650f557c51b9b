//! Cores that two modes take, and those that reserving for the worst of both takes: [LiH21, § 2.5.2, Fig. 2.4].

use crate::tables::Csv;
use crate::{Error, Size};
use giusto_analysis::admission::{place, Fit, Grids, Order};
use giusto_analysis::interface::multi::{schedulable, Total};
use giusto_model::{Bandwidth, Duration, Release, Server, ServerKind, Task};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// Virtual machines, virtual CPUs of each, cores of the host.
const VMS: usize = 12;
const VCPUS: u32 = 3;
const CORES: u32 = 15;
/// Of all interfaces.
const PERIOD: Duration = Duration::from_ms(5);
/// W_total = 8.0: the budgets of one virtual CPU of each machine together, in us. (40 ms in 5 ms, by three.)
const TOTAL: u64 = 13_333;
/// More cores than this are not looked at.
const MOST: u32 = VMS as u32 * VCPUS;
/// Draws until both modes can be scheduled.
const DRAWS: u32 = 1000;

/// Tables `cores`: for each case and arm what of a core is reserved, and the cores it takes by two tests; and `cases`: how often
/// was drawn, and the least that the tasks of a machine use of what is reserved for them.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let mut cores = Csv::new(vec!["arm", "set", "bandwidth", "mpr", "mpr_fits", "first_fit", "first_fit_fits"]);
    let mut cases = Csv::new(vec!["set", "draws", "tasks", "utilization"]);
    for set in 0..size.sets {
        let case = Case::draw(&mut size.stream(0, set))?;
        let worst: Vec<u64> = case.modes[0].iter().zip(&case.modes[1]).map(|(a, b)| *a.max(b)).collect();
        for (arm, budgets) in [("mode0", &case.modes[0]), ("mode1", &case.modes[1]), ("static", &worst)] {
            let (mpr, first_fit) = (global(budgets)?, first_fit(budgets)?);
            let bandwidth = u64::from(VCPUS) * budgets.iter().sum::<u64>();
            cores.row(&[
                arm.to_string(),
                set.to_string(),
                format!("{:.6}", bandwidth as f64 / (PERIOD.ns() / 1000) as f64),
                mpr.to_string(),
                u32::from(mpr <= CORES).to_string(),
                first_fit.to_string(),
                u32::from(first_fit <= CORES).to_string(),
            ]);
        }
        let numbers = [set.to_string(), case.draws.to_string(), case.tasks.to_string(), format!("{:.6}", case.used)];
        cases.row(&numbers);
        played(size.sets);
    }
    Ok(BTreeMap::from([("cores".into(), cores.text()), ("cases".into(), cases.text())]))
}

/// Two modes: the budget of each virtual CPU of every machine, in us.
struct Case {
    modes: [Vec<u64>; 2],
    draws: u32,
    /// In both modes together.
    tasks: usize,
    /// Of all that is reserved, what tasks use.
    used: f64,
}

impl Case {
    /// As the paper's generator: of the same bandwidth in both modes, other interfaces and tasks in each, as many tasks as virtual
    /// CPUs at least, both modes schedulable on the host; what is not is drawn again.
    fn draw(rng: &mut ChaCha8Rng) -> Result<Case, Error> {
        for draws in 1..=DRAWS {
            let modes = [budgets(rng), budgets(rng)];
            if modes[0].iter().zip(&modes[1]).any(|(a, b)| a == b) || global(&modes[0])?.max(global(&modes[1])?) > CORES
            {
                continue;
            }
            let (mut tasks, mut used) = (0, 0.0);
            for budget in modes.iter().flatten() {
                let own = workload(*budget, rng)?;
                tasks += own.len();
                used += own.iter().filter_map(Task::utilization).map(Bandwidth::as_f64).sum::<f64>();
            }
            let reserved = 2 * u64::from(VCPUS) * TOTAL;
            let used = used * (PERIOD.ns() / 1000) as f64 / reserved as f64;
            return Ok(Case { modes, draws, tasks, used });
        }
        Err(Error::Size(format!("{DRAWS} draws, and in none of them both modes fit; expected some that do")))
    }
}

/// Budgets of one virtual CPU of each machine that sum to [`TOTAL`], uniform over all such splits (what UUniFast draws; Bini and Buttazzo
/// 2005), none above 95 % of its period.
fn budgets(rng: &mut ChaCha8Rng) -> Vec<u64> {
    loop {
        let weights: Vec<f64> = (0..VMS).map(|_| -(1.0 - rng.random::<f64>()).ln()).collect();
        let sum: f64 = weights.iter().sum();
        let mut budgets: Vec<u64> = weights.iter().map(|weight| (weight / sum * TOTAL as f64) as u64).collect();
        let rest = TOTAL - budgets.iter().sum::<u64>();
        budgets.iter_mut().take(rest as usize).for_each(|budget| *budget += 1);
        if budgets.iter().all(|budget| (1..=PERIOD.ns() / 1000 * 95 / 100).contains(budget)) {
            return budgets;
        }
    }
}

/// Tasks with periods from 100 ms to a second that three virtual CPUs with this budget can just schedule under global EDF: random
/// shares, scaled.
fn workload(budget: u64, rng: &mut ChaCha8Rng) -> Result<Vec<Task>, Error> {
    let count = rng.random_range(VCPUS as usize..=2 * VCPUS as usize);
    // In steps of 20 ms, so that their least common multiple stays within 64 bits.
    let shapes: Vec<(u64, u64)> =
        (0..count).map(|_| (20 * rng.random_range(5..=50), rng.random_range(1..=100))).collect();
    let sum: u64 = shapes.iter().map(|(_, weight)| weight).sum();
    let task = |&(period, weight): &(u64, u64), scale: u64| {
        // In us: a share of the scale, which is what all use of the three virtual CPUs, in thousandths.
        let wcet = (period * u64::from(VCPUS) * budget * weight * scale / (5 * sum * 1000)).clamp(1, period * 1000);
        let (wcet, period) = (Duration::from_us(wcet), Duration::from_ms(period));
        let (deadline, offset, release) = (period, Duration::ZERO, Release::Sporadic);
        Task { name: "work".into(), wcet, period, deadline, offset, release, copies: 1 }
    };
    let of = |scale: u64| shapes.iter().map(|shape| task(shape, scale)).collect::<Vec<Task>>();
    let total = Total { period: PERIOD, budgets: vec![Duration::from_us(budget); VCPUS as usize], grids: Grids::Apart };
    let (mut good, mut bad) = (0, 1000);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        let fits = schedulable(&of(middle), &total, Duration::ZERO)?.is_ok();
        *(if fits { &mut good } else { &mut bad }) = middle;
    }
    Ok(of(good))
}

/// The fewest cores on which machines with three virtual CPUs of these budgets (us) are schedulable under global EDF, as tasks on a
/// multiprocessor periodic resource of whole cores.
pub(crate) fn global(budgets: &[u64]) -> Result<u32, Error> {
    let task = |&budget: &u64| Task {
        name: "vcpu".into(),
        wcet: Duration::from_us(budget),
        period: PERIOD,
        deadline: PERIOD,
        offset: Duration::ZERO,
        release: Release::Sporadic,
        copies: VCPUS,
    };
    let tasks: Vec<Task> = budgets.iter().map(task).collect();
    for cores in 1..=MOST {
        let total = Total { period: PERIOD, budgets: vec![PERIOD; cores as usize], grids: Grids::Aligned };
        if schedulable(&tasks, &total, Duration::ZERO)?.is_ok() {
            return Ok(cores);
        }
    }
    Ok(MOST)
}

/// The cores that they take one by one, each on the first with room, the largest first, under EDF.
fn first_fit(budgets: &[u64]) -> Result<u32, Error> {
    let server = |&budget: &u64| Server {
        kind: ServerKind::PeriodicConserving,
        budget: Duration::from_us(budget),
        period: PERIOD,
    };
    let servers: Vec<Server> = budgets.iter().flat_map(|budget| vec![server(budget); VCPUS as usize]).collect();
    let placed = place(&servers, Order::Edf, Grids::Apart, Bandwidth::ONE, MOST, Fit::First)?;
    Ok(placed.map_or(MOST, |cores| cores.iter().max().map_or(0, |core| *core as u32 + 1)))
}
