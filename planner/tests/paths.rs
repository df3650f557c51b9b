//! Paths: planned at the least bandwidth, proven by another law than the planner's, or refused with what would fit.

mod common;

use common::{as_if_alone, golden, leftovers, plan, sites, supply};
use giusto_model::{
    Certificate, Duration, Link, Path, PathPlan, PathSource, PathStage, Paths, Plan, Promise, Service, ServicePlan,
    ServiceStage, ServiceTime, Site, Through, Within,
};
use giusto_planner::{explain, Facts, PathCause, PathRefusal, Refusal};
use giusto_verify::check_plan;

fn ms(text: &str) -> Duration {
    text.parse().unwrap()
}

fn stage(name: &str, execution: &str, on: Option<&str>) -> Service {
    let service = ServiceTime::Constant { time: ms(execution) };
    let promise = Promise::Stage { service, counted: None };
    Service { promise, on: on.map(String::from), ..as_if_alone(name, vec![], "0%") }
}

fn points(list: &[(&str, &str)]) -> Vec<Within> {
    list.iter().map(|(p, time)| Within { percentile: p.parse().unwrap(), within: ms(time) }).collect()
}

fn path(name: &str, source: PathSource, through: &[&str], promise: &[(&str, &str)]) -> Path {
    let through = through.iter().map(|name| Through::Service(name.to_string())).collect();
    let every = promise.iter().find(|(what, _)| *what == "every").map(|(_, time)| ms(time));
    let points = points(&promise.iter().copied().filter(|(what, _)| *what != "every").collect::<Vec<_>>());
    Path { points, every, ..common::path(name, source, through, Duration::ZERO) }
}

fn poisson(rate: &str) -> PathSource {
    PathSource::Poisson(rate.parse().unwrap())
}

fn served(path: &mut PathPlan, nth: usize) -> &mut ServiceStage {
    match &mut path.through[nth] {
        PathStage::Service(stage) => stage,
        other => panic!("{other}"),
    }
}

const THREE: [&str; 3] = ["camera", "controller", "actuator"];

/// A chain of three on one core, beside what takes the rest.
fn braking(promise: &[(&str, &str)]) -> Site {
    let mut services: Vec<Service> =
        THREE.iter().zip(["1ms", "2ms", "500us"]).map(|(name, time)| stage(name, time, None)).collect();
    services.push(leftovers("batch", "5%"));
    let mut site = sites(&[&[1]], services);
    site.paths.all = vec![path("braking", poisson("50/s"), &THREE, promise)];
    site
}

fn refused(site: &Site) -> PathRefusal {
    match plan(site, &Facts::typical(vec![0, 1])) {
        Err(Refusal::Path(refusal)) => *refusal,
        other => panic!("{other:?}"),
    }
}

fn told(site: &Site) -> Plan {
    plan(site, &Facts::typical(vec![0, 1])).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn only(plan: &Plan) -> &PathPlan {
    let [only] = plan.paths.as_slice() else { panic!("{:?}", plan.paths) };
    only
}

/// ... and with what the manager takes for their periods.
fn taken(plan: &Plan) -> f64 {
    let each = |entry: &ServicePlan| Facts::PERIOD_COST.ns() as f64 / entry.server.period.ns() as f64;
    reserved(plan) + plan.services.iter().map(each).sum::<f64>()
}

fn reserved(plan: &Plan) -> f64 {
    plan.services.iter().map(|entry| entry.server.bandwidth().as_f64()).sum()
}

#[test]
fn a_chain_keeps_its_percentiles_and_says_where_the_time_goes() {
    let found = told(&braking(&[("p99", "150ms"), ("p99.9", "250ms")]));
    let path = only(&found);
    assert_eq!(path.points.len(), 2);
    for point in &path.points {
        assert!(point.at <= point.within && point.parts.len() == 3, "{point:?}");
        // As much of what is allowed is used as the steps of budgets let.
        assert!(point.parts.iter().all(|part| part.beyond_ppb > 0), "{point:?}");
    }
    assert!(path.points.iter().any(|point| point.at.ns() * 10 > point.within.ns() * 8), "{path:?}");
    let load = 50.0 * 3.5e-3;
    assert!(reserved(&found) > load && reserved(&found) < 0.85, "{}", reserved(&found));
    for entry in &found.services {
        assert!(matches!(entry.certificate, Certificate::Stage { .. }), "{entry:?}");
    }
    golden("paths.explain.txt", &explain(&found, "braking").unwrap());
    assert!(explain(&found, "camera").unwrap().contains("what its paths need"));
    assert!(explain(&found, "nothing").unwrap_err().to_string().contains("braking"));
}

#[test]
fn a_longer_promise_costs_less_and_more_messages_cost_more() {
    let cost = |site: &Site| reserved(&told(site));
    let (short, long) = (cost(&braking(&[("p99", "120ms")])), cost(&braking(&[("p99", "300ms")])));
    assert!(long < short, "{long} {short}");
    let mut often = braking(&[("p99", "300ms")]);
    often.paths.all[0].source = poisson("90/s");
    assert!(cost(&often) > long);
    // Nearly all of them within the same time.
    assert!(cost(&braking(&[("p99.9", "300ms")])) > long);
}

#[test]
fn over_a_link_its_time_is_part_of_the_promise() {
    let on = |name: &str, time, host| stage(name, time, Some(host));
    let services = vec![on("camera", "1ms", "edge-1"), on("controller", "2ms", "edge-2")];
    let mut site = sites(&[&[0], &[1]], services);
    site.paths.all = vec![path("braking", poisson("50/s"), &["camera", "controller"], &[("p99", "100ms")])];
    let why = refused(&site);
    assert_eq!(why.cause, PathCause::NoLink { from: "edge-1".into(), to: "edge-2".into() });
    let link = |worst| Link { from: "edge-1".into(), to: "edge-2".into(), worst: ms(worst), measured: None };
    let with =
        |site: &Site, worst| Site { paths: Paths { links: vec![link(worst)], ..site.paths.clone() }, ..site.clone() };
    let near = told(&with(&site, "300us"));
    let far = told(&with(&site, "40ms"));
    assert_eq!(only(&far).through[1].link(), Some(ms("40ms")));
    assert!(reserved(&far) > reserved(&near));
    // Each host has its part, which can be checked by itself.
    for host in ["edge-1", "edge-2"] {
        let own = far.on(host).unwrap();
        assert_eq!((own.services.len(), own.paths.len()), (1, 1));
        check_plan(&own).unwrap();
    }
    // Left to the planner, it is where no link is on the way.
    site.services[1].on = None;
    let found = told(&with(&site, "1ms"));
    assert_eq!((only(&found).through[1].on(), only(&found).through[1].link()), ("edge-1", None));
}

#[test]
fn none_is_late_where_messages_come_in_periods() {
    let mut site = braking(&[("every", "200ms")]);
    let source = |period, jitter, burst| PathSource::Periodic { period: ms(period), jitter: ms(jitter), burst };
    site.paths.all[0].source = source("20ms", "2ms", 1);
    let found = told(&site);
    let every = only(&found).every.clone().unwrap();
    assert!(every.at <= every.within && every.parts.len() == 3, "{every:?}");
    site.paths.all[0].source = source("60ms", "0ms", 3);
    assert!(reserved(&told(&site)) > reserved(&found), "what comes at once waits for each other");
}

/// The promise that would fit, which does.
fn kept_with(site: &Site, why: &PathRefusal) -> Duration {
    let longer = why.nearest[0].strip_prefix("promise: {p99: ").and_then(|rest| rest.strip_suffix('}'));
    let longer = ms(longer.unwrap_or_else(|| panic!("{why}")));
    let mut other = site.clone();
    other.paths.all[0].points[0].within = longer;
    told(&other);
    longer
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    // Overload.
    let mut site = braking(&[("p99", "150ms")]);
    site.paths.all[0].source = poisson("600/s");
    let why = refused(&site);
    assert!(matches!(&why.cause, PathCause::Overload { service, .. } if service == "controller"), "{why}");
    let fewer = why.nearest[0].strip_prefix("source: {poisson: ").and_then(|rest| rest.strip_suffix('}')).unwrap();
    site.paths.all[0].source = poisson(fewer);
    told(&site);
    // No share of a core is enough.
    let site = braking(&[("p99", "9ms")]);
    let why = refused(&site);
    let PathCause::TooSlow { least, ref dear, .. } = why.cause else { panic!("{why}") };
    assert!(least > ms("9ms") && dear == "controller", "{why}");
    assert!(kept_with(&site, &why) > least);
    // It would be enough, and the core has no room for it.
    let mut full = braking(&[("p99", "150ms")]);
    full.services.push(supply("other", &["40ms/100ms"], None));
    let why = refused(&full);
    assert!(matches!(why.cause, PathCause::NoRoom { .. }), "{why}");
    assert!(kept_with(&full, &why) > ms("150ms"));
}

#[test]
fn on_several_hosts_what_would_fit_counts_on_servers_of_its_own() {
    let services = ["camera", "controller"].iter().zip(["edge-1", "edge-2"]);
    let services = services.map(|(name, host)| stage(name, "1ms", Some(host))).collect();
    let mut site = sites(&[&[1], &[1]], services);
    site.services.push(Service { on: Some("edge-1".into()), ..supply("big", &["60ms/100ms"], None) });
    let link = |from: &str, to: &str| Link { from: from.into(), to: to.into(), worst: ms("300us"), measured: None };
    site.paths.links = vec![link("edge-1", "edge-2")];
    site.paths.all = vec![path("braking", poisson("50/s"), &["camera", "controller"], &[("p99", "28ms")])];
    let why = refused(&site);
    assert!(matches!(why.cause, PathCause::NoRoom { .. }), "{why}");
    assert!(kept_with(&site, &why) > ms("28ms"));
}

/// Two stages, of which all servers on a grid are tried.
#[test]
fn no_other_servers_of_the_same_steps_are_much_cheaper() {
    use giusto_analysis::path::{within, Flow, Net, Source, Stage, Visit};
    use giusto_analysis::response::{Server, Share};
    for (times, promised) in [(["1ms", "1ms"], "60ms"), (["500us", "3ms"], "90ms")] {
        let services = ["a", "b"].iter().zip(times).map(|(name, time)| stage(name, time, None)).collect();
        let mut site = sites(&[&[0, 1]], services);
        site.paths.all = vec![path("two", poisson("60/s"), &["a", "b"], &[("p99", promised)])];
        let found = told(&site);
        let facts = Facts::typical(vec![0, 1]);
        let late = facts.lateness.checked_add(facts.lateness).unwrap();
        let left = ms(promised).checked_sub(late).unwrap();
        let keeps = |servers: [(u64, u64); 2]| {
            let of = |(budget, period): (u64, u64)| Stage::Share {
                share: Share {
                    server: Server::Deferrable,
                    budget: Duration::from_us(budget),
                    period: Duration::from_us(period),
                },
                company: true,
            };
            let visit = |nth: usize| Visit { stage: nth, service: vec![(ms(times[nth]), 1.0)], hold: Duration::ZERO };
            let source = Source::Poisson("60/s".parse().unwrap());
            let net =
                Net { stages: servers.map(of).to_vec(), flows: vec![Flow::line(source, vec![visit(0), visit(1)])] };
            within(&net, 0, 0.01).is_ok_and(|found| found.within <= left)
        };
        let more = (facts.loss.ns() + facts.period_cost.ns()) / 1000;
        let cost = |(budget, period): (u64, u64)| (budget + more) as f64 / period as f64;
        let mut all = Vec::new();
        for period in [5_000u64, 10_000, 15_000, 20_000, 25_000] {
            for step in 2..18 {
                all.push((period * step / 20, period));
            }
        }
        let mut best = f64::INFINITY;
        for one in &all {
            for other in &all {
                let sum = cost(*one) + cost(*other);
                if sum < best && keeps([*one, *other]) {
                    best = sum;
                }
            }
        }
        println!(
            "{times:?} within {promised}: planned {:.3}, of {} pairs the cheapest {best:.3}",
            taken(&found),
            all.len() * all.len()
        );
        // Pair by pair and period by period: no more than 5 % beside the cheapest.
        assert!(taken(&found) <= best * 1.05, "{} {best}", taken(&found));
    }
}

#[test]
fn a_plan_that_claims_too_much_is_broken() {
    let good = told(&braking(&[("p99", "150ms"), ("p99.9", "250ms")]));
    let broken = |change: &dyn Fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        check_plan(&plan).map_or_else(|broken| broken.to_string(), |_| "all holds".into())
    };
    let on_path = |change: &dyn Fn(&mut PathPlan)| broken(&|plan| change(&mut plan.paths[0]));
    let shorter = |time: &mut Duration| *time = Duration::from_ns(time.ns() / 2);
    // With the sum.
    let sooner = |path: &mut PathPlan, point: usize, stage: usize| {
        let point = &mut path.points[point];
        let half = Duration::from_ns(point.parts[stage].within.ns() / 2);
        point.at = point.at.checked_sub(point.parts[stage].within).and_then(|at| at.checked_add(half)).unwrap();
        point.parts[stage].within = half;
    };
    for (words, said) in [
        ("all its stages", on_path(&|path| shorter(&mut path.points[0].at))),
        ("late at 'camera'", on_path(&|path| sooner(path, 0, 0))),
        ("late at 'actuator'", on_path(&|path| sooner(path, 1, 2))),
        ("time that was promised", on_path(&|path| shorter(&mut path.points[1].within))),
        ("beyond p99", on_path(&|path| path.points[0].parts[1].beyond_ppb *= 4)),
        ("late at", on_path(&|path| path.points[0].parts[1].beyond_ppb /= 10)),
        ("late at", on_path(&|path| path.points[0].parts[0].growth_ppb /= 20)),
        ("growths", on_path(&|path| path.points[0].parts[0].growth_ppb = 0)),
        ("growths", on_path(&|path| path.points[0].parts[2].growth_ppb = 1)),
        ("a part for each stage", on_path(&|path| path.points[0].parts.truncate(2))),
        ("a promise that goes", on_path(&|path| path.points.clear())),
        ("the service of its stage", on_path(&|path| served(path, 0).service = "batch".into())),
        ("each service and topic once", on_path(&|path| served(path, 1).service = "camera".into())),
        ("a link to", on_path(&|path| served(path, 1).link = Some(ms("1ms")))),
        ("late at", on_path(&|path| path.source = poisson("100/s"))),
        ("a path through it", broken(&|plan| plan.paths.clear())),
        ("different names", broken(&|plan| plan.paths.push(plan.paths[0].clone()))),
        (
            "what paths count on",
            broken(&|plan| {
                let Promise::Stage { counted: Some(counted), .. } = &mut plan.services[0].promise else { panic!() };
                counted.budget = counted.budget.checked_add(ms("100us")).unwrap();
            }),
        ),
        (
            "late at 'camera'",
            broken(&|plan| {
                let Promise::Stage { service, .. } = &mut plan.services[0].promise else { panic!() };
                *service = ServiceTime::Constant { time: ms("2ms") };
            }),
        ),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let mut periodic = braking(&[("every", "200ms")]);
    periodic.paths.all[0].source = PathSource::Periodic { period: ms("20ms"), jitter: ms("2ms"), burst: 1 };
    let good = told(&periodic);
    for (words, change) in [
        (
            "longest time",
            &(|path: &mut PathPlan| {
                let every = path.every.as_mut().unwrap();
                every.at = Duration::from_ns(every.at.ns() * 9 / 10);
            }) as &dyn Fn(&mut PathPlan),
        ),
        ("longest time", &|path| {
            path.source = PathSource::Periodic { period: ms("20ms"), jitter: ms("80ms"), burst: 1 }
        }),
        ("bandwidth for all", &|path| {
            path.source = PathSource::Periodic { period: ms("2ms"), jitter: ms("0ms"), burst: 1 }
        }),
    ] {
        let mut plan = good.clone();
        change(&mut plan.paths[0]);
        let said = check_plan(&plan).map(drop).unwrap_err().to_string();
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// Sites that are drawn: whatever is planned the checker agrees with, by its own law.
#[test]
fn whatever_is_planned_is_proven() {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    let mut rng = StdRng::seed_from_u64(33);
    let (mut fit, mut refused) = (0, 0);
    for _ in 0..if std::env::var_os("GIUSTO_SOAK").is_some() { 400 } else { 12 } {
        let count = rng.random_range(1..=4);
        let names: Vec<String> = (0..count).map(|nth| format!("s{nth}")).collect();
        let services = names.iter().map(|name| stage(name, &format!("{}us", rng.random_range(100..4000)), None));
        let mut site = sites(&[&[0, 1]], services.collect());
        let through: Vec<&str> = names.iter().map(String::as_str).collect();
        let time = format!("{}ms", rng.random_range(20..400));
        site.paths.all = vec![match rng.random_bool(0.6) {
            true => {
                let percentile = ["p90", "p99", "p99.9"][rng.random_range(0..3)];
                path("p", poisson(&format!("{}/s", rng.random_range(5..400))), &through, &[(percentile, &time)])
            }
            false => {
                let period = Duration::from_ms(rng.random_range(5..100));
                let jitter = Duration::from_ms(rng.random_range(0..40));
                let source = PathSource::Periodic { period, jitter, burst: rng.random_range(1..4) };
                path("p", source, &through, &[("every", &time)])
            }
        }];
        match plan(&site, &Facts::typical(vec![0, 1])) {
            Ok(_) => fit += 1,
            Err(_) => refused += 1,
        }
    }
    println!("{fit} planned and proven, {refused} refused");
    assert!(fit >= 4 && refused >= 1);
}
