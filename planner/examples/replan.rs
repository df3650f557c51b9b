//! What one change costs of a site that stands in memory ([`Standing`]): `replan SITE...`, a site of supplies or of deadlines
//! each. 100 changes each, in turn: a service grows by 30 %, shrinks by half, is added (like another one), is removed.
//!
//! Exit: 1 where a change takes more than 50 ms of processor time, or moves another than the one that it is about.

use giusto_model::{Duration, Promise, Service, Site};
use giusto_planner::{Facts, Standing};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::SeedableRng;
use rustix::time::{clock_gettime, ClockId};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Of one change, in ms.
const MOST: f64 = 50.0;
const WHAT: [&str; 4] = ["grow", "shrink", "add", "remove"];

fn main() -> ExitCode {
    let mut kept = true;
    for file in std::env::args().skip(1) {
        let site = giusto_site::read(Path::new(&file)).unwrap_or_else(|why| panic!("{why}"));
        kept &= measured(site);
    }
    if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Whether all is within the targets.
fn measured(site: Site) -> bool {
    let (services, hosts) = (site.services.len(), site.hosts.len());
    let kind = match site.services[0].promise {
        Promise::Supply(_) => "supplies",
        _ => "services with deadlines",
    };
    let facts = Facts { host: None, ..Facts::typical(site.hosts[0].cores.clone()) };
    let begin = Instant::now();
    let mut standing = Standing::new(site, facts).unwrap_or_else(|why| panic!("{why}"));
    println!("{services} {kind} on {hosts} hosts: planned in {:.2} s", begin.elapsed().as_secs_f64());
    let rng = &mut StdRng::seed_from_u64(7);
    let (mut times, mut moved, mut others, mut whole) = (Vec::new(), 0, 0, 0);
    for number in 0..100 {
        let what = WHAT[number % WHAT.len()];
        let one = standing.site().services.choose(rng).unwrap_or_else(|| panic!("no services")).clone();
        let name = one.name.clone();
        let (put, removed) = match what {
            "grow" => (vec![scaled(one, 13, 10)], vec![]),
            "shrink" => (vec![scaled(one, 1, 2)], vec![]),
            "add" => (vec![Service { name: format!("added-{number}"), ..one }], vec![]),
            _ => (vec![], vec![name.as_str()]),
        };
        let (begin, processor) = (Instant::now(), processor_time());
        let changed = standing.change(put, &removed).unwrap_or_else(|why| panic!("{what} {name}: {why}"));
        times.push((processor_time() - processor, begin.elapsed().as_secs_f64() * 1e3, what));
        moved += changed.moved.len();
        others += changed.moved.iter().filter(|other| **other != name).count();
        whole += usize::from(changed.whole);
    }
    check_plan(standing.plan()).unwrap_or_else(|why| panic!("{why}"));
    for what in WHAT {
        told(what, times.iter().filter(|time| time.2 == what).copied().collect());
    }
    println!(
        "  {moved} moved, {others} of them others than the one that changed; {whole} times all hosts were planned"
    );
    let worst = told("all 100", times);
    worst <= MOST && others == 0
}

/// The worst of processor times.
fn told(what: &str, mut times: Vec<(f64, f64, &str)>) -> f64 {
    times.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (median, worst) = (times[times.len() / 2].0, times[times.len() - 1].0);
    let longest = times.iter().map(|time| time.1).fold(0.0, f64::max);
    println!("  {what}: median {median:.1} ms, worst {worst:.1} ms of processor time; longest {longest:.1} ms");
    worst
}

/// A budget, or all execution times, times `top / bottom`.
fn scaled(mut service: Service, top: u64, bottom: u64) -> Service {
    let times = |time: &mut Duration| *time = Duration::from_ns(time.ns() * top / bottom);
    service.tasks.iter_mut().for_each(|task| times(&mut task.wcet));
    if let Promise::Supply(all) = &mut service.promise {
        all.iter_mut().for_each(|interface| times(&mut interface.budget));
    }
    service
}

/// Of this thread, in ms.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}
