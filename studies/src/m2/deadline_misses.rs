//! Deadlines across a mode change, with reservations that follow it and with those of the first mode. [LiH21, § 2.5.2].

use crate::m2::static_cost::global;
use crate::m2::{mode, scene, shares, PERIOD};
use crate::vatc::{named, table};
use crate::{Error, Size};
use giusto_analysis::interface::{schedulable, Resource, Scheduler};
use giusto_model::Duration;
use giusto_modes::Policy;
use giusto_simulator::in_parallel;
use giusto_simulator::modes::{play_modes, Scene, VmMode};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

const VMS: usize = 12;
const BANDWIDTH: f64 = 8.0;
/// What an agent may take of a budget in a period: one switch. The paper accounts for 100 us a change; changes here are far apart.
const AGENT: Duration = Duration::from_us(100);

/// Table `misses`: a row for each set and arm. `differs`: machines that need more in the second mode; `cores`: what the larger of both
/// reservations of each machine needs under global EDF.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let one = |set: usize| {
        let mut rng = size.stream(0, set as u64);
        let mut machines = Vec::new();
        let [first, second] = [0, 1].map(|_| shares(VMS, BANDWIDTH, &mut rng));
        for (first, second) in first.into_iter().zip(second) {
            machines.push(vec![fitting(first, &mut rng)?, fitting(second, &mut rng)?]);
        }
        let seed = rng.random();
        let half = Duration::from_ns(size.length.ns() / 2);
        let more = machines.iter().filter(|vm| vm[1].server.budget > vm[0].server.budget).count();
        let cores = worst_case(&machines)?;
        let mut rows = Vec::new();
        for (arm, reservations) in [("modes", true), ("initial", false)] {
            let changes = scene(machines.clone(), Policy::Greedy)?;
            let scene = Scene { reservations, between: (half, half), changes: 1, ..changes };
            let seen = play_modes(&scene, size.length, seed)?;
            let numbers = [seen.jobs, seen.misses, u64::from(seen.misses > 0), more as u64, cores as u64];
            rows.push([vec![arm.to_string(), set.to_string()], numbers.map(|n| n.to_string()).to_vec()].concat());
        }
        played(size.sets);
        Ok::<_, Error>(rows)
    };
    let rows = in_parallel(size.sets as usize, one)?.concat();
    let columns = vec!["arm", "set", "jobs", "misses", "missed", "differs", "cores"];
    Ok(named(vec![("misses", table(columns, &rows))]))
}

/// A machine in a mode whose tasks all meet their deadlines on its reservation, less what the agent takes (rate monotonic, on a periodic
/// resource): its tasks take 2 % less until they do.
fn fitting(share: f64, rng: &mut ChaCha8Rng) -> Result<VmMode, Error> {
    let mut found = mode(share, 0.95, rng);
    let budget = found.server.budget.checked_sub(AGENT).unwrap_or(Duration::from_us(1));
    let resource = Resource::Periodic { period: PERIOD, budget };
    for tasks in &mut found.tasks {
        while schedulable(tasks, Scheduler::Rm, &resource, Duration::ZERO)?.is_err() {
            for task in tasks.iter_mut() {
                task.wcet = Duration::from_us((task.wcet.ns() / 1000 * 98 / 100).max(1));
            }
        }
    }
    Ok(found)
}

/// Cores that the larger of each machine's reservations needs for good.
fn worst_case(machines: &[Vec<VmMode>]) -> Result<u32, Error> {
    let largest = |vm: &Vec<VmMode>| vm.iter().map(|mode| mode.server.budget.ns() / 1000).max();
    global(&machines.iter().filter_map(largest).collect::<Vec<_>>())
}
