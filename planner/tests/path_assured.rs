//! Paths whose promise simulation decides (`assurance: simulated`).

mod common;

use common::{path, plan, planned, sites, stage};
use giusto_model::{
    Assurance, Certificate, Duration, Interface, PathPlan, PathSource, Plan, Promise, ServicePlan, ServiceTime, Site,
    Through, Within,
};
use giusto_planner::{explain, would_save, Facts, PathCause, Refusal};
use giusto_simulator::{play_alone, play_path, Alone, AloneRun, Unobserved};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn time(text: &str) -> Duration {
    text.parse().unwrap()
}

/// Three services one after the other on one host.
fn site(rate: &str, times: [&str; 3], within: &str, assurance: Assurance) -> Site {
    let names = ["camera", "detector", "controller"];
    let stages = names.iter().zip(times).map(|(name, time)| stage(name, time, "edge-1")).collect();
    let mut site = sites(&[&[1, 2, 3]], stages);
    let through = names.map(|name| Through::Service(name.into())).to_vec();
    let mut path = path("braking", PathSource::Poisson(rate.parse().unwrap()), through, time(within));
    path.assurance = assurance;
    site.paths.all = vec![path];
    site
}

fn facts() -> Facts {
    Facts::typical(vec![0, 1, 2, 3])
}

fn told(site: &Site) -> Plan {
    planned(site, &facts())
}

fn cost(plan: &Plan) -> f64 {
    plan.services.iter().map(|one| one.server.bandwidth().as_f64()).sum()
}

#[test]
fn simulation_needs_less_than_a_proof_and_says_so() {
    let with = |assurance| told(&site("40/s", ["1ms", "2ms", "1ms"], "100ms", assurance));
    let (proven, found) = (with(Assurance::Proven), with(Assurance::Simulated));
    let simulated = found.paths[0].simulated.clone().unwrap();
    assert!(cost(&found) < 0.9 * cost(&proven), "{} {}", cost(&found), cost(&proven));
    assert_eq!(found, with(Assurance::Simulated), "the same site gives the same plan");
    let point = &found.paths[0].points[0];
    assert!(point.at <= point.within && point.parts.is_empty(), "{point:?}");
    assert!(simulated.late_ppb[0] < 10_000_000 && simulated.runs >= 64, "{simulated:?}");
    assert!((simulated.proven.unwrap().as_f64() - cost(&proven)).abs() < 0.01, "{simulated:?}");
    let checked = check_plan(&found).unwrap();
    assert!(checked.paths[0].simulated.unwrap() > 10_000, "{checked:?}");
    let said = explain(&found, "braking").unwrap();
    for words in ["Simulated, not proven", "independent runs", "if it were to be proven"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    println!("simulated {:.3}, proven {:.3} of a core: {simulated:?}", cost(&found), cost(&proven));
}

#[test]
fn what_is_simulated_as_it_is_planned_keeps_the_promise() {
    let mut rng = StdRng::seed_from_u64(7);
    let (mut nearest, mut kept) = (0.0f64, 0);
    while kept < 6 {
        let times: [String; 3] = std::array::from_fn(|_| format!("{}us", rng.random_range(300..4_000)));
        let (rate, within) = (rng.random_range(10..80), rng.random_range(50..200));
        let times = [times[0].as_str(), times[1].as_str(), times[2].as_str()];
        let asked = site(&format!("{rate}/s"), times, &format!("{within}ms"), Assurance::Simulated);
        let Ok(found) = plan(&asked, &facts()) else { continue };
        if found.paths[0].simulated.is_none() {
            continue;
        }
        let played = play_path(&found, &found.paths[0], Duration::from_secs(1_500), kept, &mut Unobserved).unwrap();
        let (reached, promised) = (played.whole.percentile(99.0), found.paths[0].points[0].within);
        assert!(reached <= promised, "{reached} beyond {promised}: {asked:?}");
        nearest = nearest.max(reached.ns() as f64 / promised.ns() as f64);
        kept += 1;
    }
    println!("{kept} paths; the nearest at {nearest:.2} of what was promised");
    assert!(nearest > 0.3, "{nearest}");
}

#[test]
fn a_proven_plan_tells_what_simulation_would_save() {
    let with = |assurance| told(&site("40/s", ["1ms", "2ms", "1ms"], "100ms", assurance));
    let (proven, simulated) = (with(Assurance::Proven), with(Assurance::Simulated));
    let saved = would_save(&proven, "braking").unwrap().unwrap();
    assert!((saved.proven.as_f64() - cost(&proven)).abs() < 1e-6, "{saved:?}");
    // What a site that asks for it gets.
    assert!((saved.simulated.as_f64() - cost(&simulated)).abs() < 1e-6, "{saved:?} {}", cost(&simulated));
    assert_eq!((saved.risk_ppm, saved.messages), (100, simulated.paths[0].simulated.as_ref().unwrap().messages));
    // Nothing is told of what is simulated already, of rare messages, and of paths that share services.
    assert_eq!(would_save(&simulated, "braking").unwrap(), None);
    let mut rare = site("40/s", ["1ms", "2ms", "1ms"], "200ms", Assurance::Proven);
    rare.paths.all[0].points[0].percentile = "p99.95".parse().unwrap();
    assert_eq!(would_save(&told(&rare), "braking").unwrap(), None);
    let mut two = site("20/s", ["1ms", "2ms", "1ms"], "150ms", Assurance::Proven);
    let other = path("other", two.paths.all[0].source, vec![Through::Service("detector".into())], time("100ms"));
    two.paths.all.push(other);
    assert_eq!(would_save(&told(&two), "other").unwrap(), None);
}

#[test]
fn it_is_kept_at_high_loads_with_measured_times_and_low_percentiles() {
    // What is promised is so long that little more is reserved than messages ask for; queues then remember for long.
    let mut rng = StdRng::seed_from_u64(9);
    let (mut nearest, mut highest, mut kept) = (0.0f64, 0.0f64, 0);
    while kept < 8 {
        let (rate, within) = (rng.random_range(20..60), rng.random_range(200..1_500));
        let mut asked = site(&format!("{rate}/s"), ["1ms", "1ms", "1ms"], &format!("{within}ms"), Assurance::Simulated);
        asked.paths.all[0].points[0].percentile = ["p90", "p95", "p99"][rng.random_range(0..3)].parse().unwrap();
        for own in &mut asked.services {
            let short = rng.random_range(200..2_000u64);
            let long = short * rng.random_range(2..12);
            let times = vec![(Duration::from_us(short), rng.random_range(5..40)), (Duration::from_us(long), 1)];
            let service = ServiceTime::Measured { from: "profile.csv".into(), times };
            own.promise = Promise::Stage { service, counted: None };
        }
        let Ok(found) = plan(&asked, &facts()) else { continue };
        if found.paths[0].simulated.is_none() {
            continue;
        }
        let point = &found.paths[0].points[0];
        let played = play_path(&found, &found.paths[0], Duration::from_secs(6_000), kept, &mut Unobserved).unwrap();
        let reached = played.whole.percentile(point.percentile.percent());
        assert!(reached <= point.within, "{reached} beyond {}: {asked:?}", point.within);
        nearest = nearest.max(reached.ns() as f64 / point.within.ns() as f64);
        let load = |entry: &ServicePlan| {
            let (Promise::Stage { service, .. }, Certificate::Stage { budget, .. }) =
                (&entry.promise, &entry.certificate)
            else {
                panic!()
            };
            let mean: f64 = service.bound().iter().map(|(time, p)| time.ns() as f64 * p).sum();
            mean * f64::from(rate) / 1e9 * entry.server.period.ns() as f64 / budget.ns() as f64
        };
        highest = found.services.iter().map(load).fold(highest, f64::max);
        kept += 1;
    }
    println!("{kept} paths, loads up to {:.1} %; the nearest at {nearest:.2} of what was promised", 100.0 * highest);
    assert!(highest > 0.9, "{highest}");
}

#[test]
fn a_promise_that_no_proof_gives_may_be_simulated() {
    let slow = site("40/s", ["1ms", "2ms", "1ms"], "24ms", Assurance::Proven);
    assert!(matches!(plan(&slow, &facts()), Err(Refusal::Path(why)) if matches!(why.cause, PathCause::TooSlow { .. })));
    let found = told(&site("40/s", ["1ms", "2ms", "1ms"], "24ms", Assurance::Simulated));
    assert_eq!(found.paths[0].simulated.as_ref().unwrap().proven, None);
    assert!(explain(&found, "braking").unwrap().contains("with as much of a core for each stage as there is"));
    let never = site("40/s", ["1ms", "2ms", "1ms"], "5ms", Assurance::Simulated);
    assert!(
        matches!(plan(&never, &facts()), Err(Refusal::Path(why)) if matches!(why.cause, PathCause::TooSlow { .. }))
    );
}

/// What so many of a thousand messages take at most, in runs as those that decided.
fn at(plan: &Plan, thousandths: usize) -> Duration {
    let path = &plan.paths[0];
    let PathSource::Poisson(rate) = path.source else { panic!() };
    let alone = |name: &str| {
        let entry = plan.services.iter().find(|one| one.name == name).unwrap();
        let (Promise::Stage { service, .. }, Certificate::Stage { budget, latency }) =
            (&entry.promise, &entry.certificate)
        else {
            panic!()
        };
        let server = Interface { budget: *budget, period: entry.server.period };
        Alone { server, late: *latency, service }
    };
    let services: Vec<Alone> = path.services().map(alone).collect();
    let run = |seed| AloneRun { rate, before: 400, counted: 100, seed };
    let mut all: Vec<Duration> =
        (0..2_000).flat_map(|seed| play_alone(&path.through, &services, &run(1 << 50 | seed)).unwrap()).collect();
    all.sort_unstable();
    all[all.len() * thousandths / 1000]
}

#[test]
fn whatever_is_changed_of_what_was_simulated_is_noticed() {
    let good = told(&site("40/s", ["1ms", "2ms", "1ms"], "100ms", Assurance::Simulated));
    let broken = |change: &dyn Fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        check_plan(&plan).unwrap_err().to_string()
    };
    let on_path = |change: &dyn Fn(&mut PathPlan)| broken(&|plan| change(&mut plan.paths[0]));
    let less = |plan: &mut Plan| {
        for entry in &mut plan.services {
            if let Certificate::Stage { budget, .. } = &mut entry.certificate {
                let taken = Duration::from_ns(budget.ns() * 9 / 20);
                *budget = Duration::from_ns(budget.ns() - taken.ns());
                entry.server.budget = Duration::from_ns(entry.server.budget.ns() - taken.ns());
            }
        }
    };
    for (words, said) in [
        ("what is required and the margin", broken(&less)),
        (
            "messages beyond p99 in simulation",
            on_path(&|path| {
                path.source = PathSource::Poisson("75/s".parse().unwrap());
            }),
        ),
        (
            "messages beyond p99 in simulation",
            on_path(&|path| {
                path.points[0].within = time("25ms");
                path.points[0].at = time("24ms");
            }),
        ),
        (
            // Twice as many as may be.
            "messages beyond p99 in simulation",
            on_path(&|path| {
                let point = &mut path.points[0];
                point.within = at(&good, 980);
                point.at = point.within;
            }),
        ),
        (
            // A fifth more than may be.
            "in simulation, of a million",
            on_path(&|path| {
                let point = &mut path.points[0];
                point.within = at(&good, 988);
                point.at = point.within;
            }),
        ),
        ("fewer than", on_path(&|path| path.simulated.as_mut().unwrap().late_ppb = vec![10_000_000])),
        ("fewer than", on_path(&|path| path.points[0].at = time("101ms"))),
        ("runs with messages", on_path(&|path| path.simulated.as_mut().unwrap().runs = 0)),
        ("runs with messages", on_path(&|path| path.simulated.as_mut().unwrap().late_ppb.clear())),
        ("a part for each stage", on_path(&|path| path.simulated = None)),
        (
            "goes with how messages come",
            on_path(&|path| {
                path.source = PathSource::Periodic { period: time("25ms"), jitter: Duration::ZERO, burst: 1 };
            }),
        ),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn two_percentiles_are_decided_together() {
    let mut asked = site("40/s", ["1ms", "2ms", "1ms"], "90ms", Assurance::Simulated);
    let within = |percentile: &str, within| Within { percentile: percentile.parse().unwrap(), within: time(within) };
    asked.paths.all[0].points = vec![within("p90", "60ms"), within("p99.5", "120ms")];
    let found = told(&asked);
    let simulated = found.paths[0].simulated.as_ref().unwrap();
    assert_eq!(simulated.late_ppb.len(), 2);
    assert!(simulated.late_ppb[0] < 100_000_000 && simulated.late_ppb[1] < 5_000_000, "{simulated:?}");
}
