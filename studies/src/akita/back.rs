//! Going back to LO mode when all are cool, or only at an idle instant: who is late.

use crate::tables::Csv;
use crate::vatc;
use crate::{Error, Size};
use giusto_model::{Duration, JobRecord, Release, ServerKind, Task};
use giusto_policy::{Back, Mixed, Order, Pool};
use giusto_simulator::{
    in_parallel, simulate_with, Execution, Guest, Partitioned, ServerSpec, Sporadic, System, Workload,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Random systems in each of the size's sets.
const SYSTEMS: usize = 100;
/// Most that the ends of the interval of x differ: systems with much room to spare forgive a rule too much.
const ROOM: f64 = 0.05;
/// Of each, whatever the size.
const LENGTH: Duration = Duration::from_ms(2_000);
const MS: u64 = 1_000_000;

/// Which systems are drawn.
#[derive(Clone, Copy)]
enum Shape {
    /// Two to five machines, both levels among them.
    Any,
    /// A high one of a long period beside one of a short period that heats the core now and then, and a low one between them:
    /// what was common to the systems among the others in which a machine was late.
    Nested,
}

/// A row for each set, shape and rule: jobs of machines of high criticality, and those that were done later than a period after
/// their release, under both rules on the same random systems. All pass EDF-VD's test and need it (plain EDF does not suffice),
/// so a job of no more than the worst case must be in time.
pub(crate) fn table(size: &Size) -> Result<Csv, Error> {
    let rows = in_parallel(size.sets as usize, |set| {
        let mut rows = Vec::new();
        for (stream, shape, of) in [(1, Shape::Any, "any"), (2, Shape::Nested, "nested")] {
            let mut rng = size.stream(stream, set as u64);
            let systems: Vec<(Vec<Mixed>, u64)> =
                (0..SYSTEMS).map(|_| (random(shape, &mut rng), rng.random())).collect();
            for (name, back) in [("idle", Back::Idle), ("temperature", Back::Temperature)] {
                let (mut jobs, mut late, mut late_systems) = (0, 0, 0);
                for (machines, seed) in &systems {
                    let (all, missed) = played(machines, back, *seed)?;
                    jobs += all;
                    late += missed;
                    late_systems += u64::from(missed > 0);
                }
                let counts = [SYSTEMS as u64, jobs, late, late_systems].map(|count| count.to_string());
                rows.push([vec![of.to_string(), name.to_string(), set.to_string()], counts.to_vec()].concat());
            }
        }
        Ok::<_, Error>(rows)
    })?;
    Ok(vatc::table(vec!["shape", "back", "set", "systems", "jobs", "late", "late_systems"], &rows.concat()))
}

/// A machine of whole ms.
fn machine(optimistic: u64, worst: Option<u64>, period: u64) -> Mixed {
    Mixed {
        optimistic: optimistic * MS,
        worst: worst.map(|worst| worst * MS),
        period: period * MS,
        virtual_deadline: period * MS,
    }
}

fn draw(shape: Shape, rng: &mut ChaCha8Rng) -> Vec<Mixed> {
    match shape {
        Shape::Any => (0..rng.random_range(2..=5))
            .map(|_| {
                let period = [4, 6, 10, 20, 30, 50, 100][rng.random_range(0..7)];
                let optimistic = rng.random_range(1..=period / 2);
                let worst = rng.random_bool(0.5).then(|| rng.random_range(optimistic..=period));
                machine(optimistic, worst, period)
            })
            .collect(),
        Shape::Nested => {
            let (long, short, low) = (rng.random_range(25..=45), rng.random_range(4..=6), rng.random_range(20..=40));
            vec![
                machine(long, Some(rng.random_range(long..=60)), 100),
                machine(1, Some(rng.random_range(2..=3)), short),
                machine(rng.random_range(1..=8), None, low),
            ]
        }
    }
}

/// Drawn until an x is accepted, but not one of much more.
fn random(shape: Shape, rng: &mut ChaCha8Rng) -> Vec<Mixed> {
    loop {
        let mut machines = draw(shape, rng);
        let sum = |of: &dyn Fn(&Mixed) -> u64| -> f64 {
            machines.iter().map(|machine| of(machine) as f64 / machine.period as f64).sum()
        };
        let low = sum(&|of| if of.worst.is_none() { of.optimistic } else { 0 });
        let high = sum(&|of| of.worst.map_or(0, |_| of.optimistic));
        let worst = sum(&|of| of.worst.unwrap_or(0));
        if low == 0.0 || high == 0.0 || low >= 0.999 || low + worst <= 1.0 {
            continue;
        }
        let (least, most) = (high / (1.0 - low), ((1.0 - worst) / low).min(1.0));
        // Between, with room for rounding: no decision about a real system hangs on these floats.
        if least + 1e-4 < most && most < least + ROOM {
            let x = (least + most) / 2.0;
            for machine in machines.iter_mut().filter(|machine| machine.worst.is_some()) {
                machine.virtual_deadline = (machine.period as f64 * x) as u64;
            }
            return machines;
        }
    }
}

/// Jobs of high machines, and those that were late. High ones have a job in each period, low ones take all they can get.
fn played(machines: &[Mixed], back: Back, seed: u64) -> Result<(u64, u64), Error> {
    let mut pool = Pool::new(Order::MixedCriticality);
    pool.cooling(1, back);
    let mut pools = Partitioned::new([pool]);
    let mut servers = Vec::new();
    for (index, machine) in machines.iter().enumerate() {
        pools.add(0, |pool| pool.add_mixed(*machine, 0, 0))?;
        // Seldom, half of the time or always the worst case; else the optimistic one.
        let share = [1, 10, 20][index % 3];
        let times = (0..20).map(|n| if n < share { machine.worst.unwrap_or(0) } else { machine.optimistic });
        let execution = Execution::Samples(times.collect::<Vec<_>>().into());
        let job = |worst: u64| {
            let (wcet, period) = (Duration::from_ns(worst), Duration::from_ns(machine.period));
            let (offset, release) = (Duration::ZERO, Release::Sporadic);
            let task = Task { name: String::new(), wcet, period, deadline: period, offset, release, copies: 1 };
            Workload { tasks: vec![task], guest: Guest::Fifo, execution, sporadic: Sporadic::Densest }
        };
        let workload = machine.worst.map(job);
        let (budget, period, first) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let kind = ServerKind::Unlimited;
        servers.push(ServerSpec { kind, budget, period, first, priority: 0, vcpus: 1, workload });
    }
    let system = System::new(Order::Edf, servers);
    let (mut jobs, mut late) = (0, 0);
    let mut count = |server: usize, job: &JobRecord| {
        if let Some(ns) = job.response_ns() {
            jobs += 1;
            late += u64::from(ns > machines[server].period);
        }
    };
    simulate_with(&mut pools, &system, LENGTH, seed, &mut count)?;
    Ok((jobs, late))
}
