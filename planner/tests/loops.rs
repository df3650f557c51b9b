//! Five control loops of the literature, the sites `engine-control`, `avionics`, `ros2`, `perception` and `waters2019`: each
//! planned for little more than what it uses, proven, and played job by job beside servers that take all they can.

mod common;
#[path = "common/play.rs"]
mod play;

use giusto_model::{
    Bandwidth, Duration, GuestScheduler, Origin, Plan, Promise, Scheduler, Service, ServicePlan, Site, Task,
};
use giusto_planner::Facts;
use rand::rngs::StdRng;
use rand::SeedableRng;
use std::path::Path;

/// A loop, and the most that it may cost beyond its utilization, in points of a core over all its cores.
const LOOPS: [(&str, f64); 5] =
    [("engine-control", 0.1), ("avionics", 2.9), ("ros2", 1.1), ("perception", 2.1), ("waters2019", 0.9)];

fn site(name: &str) -> Site {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sites");
    giusto_site::read(&folder.join(name).with_extension("yaml")).unwrap()
}

/// Planned for a stock machine with its cores, and proven.
fn planned(name: &str) -> Plan {
    let site = site(name);
    common::plan(&site, &Facts::typical(site.hosts[0].cores.clone())).unwrap()
}

/// Those of its services that are promised every deadline.
fn loops(plan: &Plan) -> impl Iterator<Item = (usize, &ServicePlan)> {
    plan.services.iter().enumerate().filter(|(_, entry)| matches!(entry.promise, Promise::EveryDeadline { .. }))
}

fn percent(share: Bandwidth) -> f64 {
    100.0 * share.as_f64()
}

fn used(tasks: &[Task]) -> f64 {
    tasks.iter().map(|task| 100.0 * f64::from(task.copies) * task.wcet.ns() as f64 / task.period.ns() as f64).sum()
}

#[test]
fn a_loop_costs_little_more_than_it_uses() {
    for (name, most) in LOOPS {
        let plan = planned(name);
        let used: f64 = loops(&plan).map(|(_, entry)| used(&entry.tasks)).sum();
        let price: f64 = loops(&plan).map(|(_, entry)| percent(entry.server.bandwidth())).sum();
        println!("{name}: uses {used:.2} %, costs {price:.2} %, {:.2} points more", price - used);
        assert!(price > used && price - used <= most, "{name}: {price} % for {used} %");
    }
}

#[test]
fn no_job_of_a_loop_is_late_beside_others_that_take_all_they_can() {
    let mut rng = StdRng::seed_from_u64(28);
    let runs = if std::env::var_os("GIUSTO_SOAK").is_some() { 100 } else { 10 };
    for (name, _) in LOOPS {
        let plan = planned(name);
        let mut jobs = 0;
        for (victim, entry) in loops(&plan) {
            for _ in 0..runs {
                jobs += play::kept(&plan, victim, Duration::from_secs(4), None, &mut rng).jobs;
            }
            // With a third of the budget jobs are late.
            let mut less = plan.clone();
            less.services[victim].server.budget = Duration::from_ns(entry.server.budget.ns() / 3);
            let (late, unfinished) = play::play(&less, victim, Duration::from_secs(4), None, &mut rng);
            assert!(!late.late.is_empty() || unfinished > entry.tasks.len() as u64, "{}", entry.name);
        }
        println!("{name}: {jobs} jobs, none late");
    }
}

/// What is started has the tasks that are declared, in their order.
#[test]
fn a_loop_does_what_it_is_planned_for() {
    let started = |service: &Service| {
        let Origin::Start(words) = &service.origin else { panic!("{service:?}") };
        let [program, order, tasks @ ..] = &words[..] else { panic!("{words:?}") };
        assert_eq!(program, "target/release/giusto-loop");
        let order = match order.as_str() {
            "fifo" => GuestScheduler::Any,
            "rm" => GuestScheduler::Own(Scheduler::Rm),
            "dm" => GuestScheduler::Own(Scheduler::Dm),
            "edf" => GuestScheduler::Own(Scheduler::Edf),
            other => panic!("{other}"),
        };
        let task = |word: &String| {
            let (name, task) = word.split_once('=').unwrap();
            Task { name: name.into(), ..task.parse().unwrap() }
        };
        (order, tasks.iter().map(task).collect::<Vec<_>>())
    };
    for (name, _) in LOOPS {
        for service in site(name).services {
            if let Promise::EveryDeadline { scheduler, .. } = service.promise {
                assert_eq!(started(&service), (scheduler, service.tasks), "{name}: {}", service.name);
            }
        }
    }
}
