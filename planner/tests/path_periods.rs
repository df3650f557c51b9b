//! Periods of stages: shorter ones where they are cheaper with what the manager takes for them, and where it has the time.

mod common;

use common::{path, plan, planned, sites, stage};
use giusto_model::{Duration, ManagerLatency, Path, PathSource, Plan, Site, Through};
use giusto_planner::{Facts, Refusal};

/// What others get at the least.
const USUAL: Duration = Duration::from_ms(10);

fn time(text: &str) -> Duration {
    text.parse().unwrap()
}

fn line(name: &str, rate: &str, through: &[&str], within: Duration) -> Path {
    let through = through.iter().map(|name| Through::Service(name.to_string())).collect();
    path(name, PathSource::Poisson(rate.parse().unwrap()), through, within)
}

/// Two services of a millisecond on a core each, and 30 messages a second through both.
fn pair(within: &str) -> Site {
    let services = vec![stage("first", "1ms", "edge-1"), stage("second", "1ms", "edge-1")];
    let mut site = sites(&[&[1, 2]], services);
    site.paths.all = vec![line("pair", "30/s", &["first", "second"], time(within))];
    site
}

/// As they are measured: what the manager takes for a period is `cost`.
fn measured(cost: &str) -> Facts {
    let typical = Facts::typical(vec![1, 2]);
    let (loss, late) = (typical.loss, typical.lateness);
    Facts { manager: Some(ManagerLatency { loss, late, periods: 1000, cost: Some(time(cost)) }), ..typical }
}

fn periods(plan: &Plan) -> Vec<Duration> {
    plan.services.iter().map(|entry| entry.server.period).collect()
}

fn reserved(plan: &Plan) -> f64 {
    plan.services.iter().map(|entry| entry.server.bandwidth().as_f64()).sum()
}

#[test]
fn a_short_promise_gets_short_periods_where_the_manager_takes_little_for_them() {
    let site = pair("30ms");
    let typical = Facts::typical(vec![1, 2]);
    let (usual, short) = (planned(&pair("200ms"), &typical), planned(&site, &typical));
    assert!(periods(&usual).iter().all(|period| *period >= USUAL), "{usual:?}");
    assert!(periods(&short).iter().any(|period| *period < USUAL), "{short:?}");
    // So dear that nothing below 10 ms is left, which is all that was chosen before.
    let dear = planned(&site, &measured("500us"));
    assert!(periods(&dear).iter().all(|period| *period >= USUAL), "{dear:?}");
    assert!(reserved(&short) < 0.95 * reserved(&dear), "{} {}", reserved(&short), reserved(&dear));
}

#[test]
fn what_took_longer_than_all_usual_periods_fits() {
    let site = pair("9ms");
    assert!(matches!(plan(&site, &Facts::typical(vec![1, 2])), Err(Refusal::Path(_))));
    let found = planned(&site, &measured("10us"));
    assert!(periods(&found).iter().all(|period| *period < time("5ms")), "{found:?}");
}

#[test]
fn managers_without_the_time_get_longer_periods() {
    // Each of these paths alone would take periods of 5 ms; the manager has the time for a few of those only.
    let stages =
        [("a", "295us"), ("b", "245us"), ("c", "283us"), ("d", "309us"), ("e", "209us"), ("f", "78us"), ("g", "200us")];
    let paths: [(&[&str], &str); 4] =
        [(&["a", "b"], "44ms"), (&["c", "d"], "41ms"), (&["e", "f"], "63ms"), (&["g"], "98ms")];
    let with = |which: &[usize]| {
        let mut site = sites(&[&[1]], stages.map(|(name, time)| stage(name, time, "edge-1")).into());
        let line = |nth: &usize| line(paths[*nth].0[0], "20/s", paths[*nth].0, time(paths[*nth].1));
        site.paths.all = which.iter().map(line).collect();
        site.services.retain(|service| site.paths.through(&service.name).next().is_some());
        site
    };
    let facts = measured("60us");
    let short = [0, 1].map(|nth| planned(&with(&[nth]), &facts));
    assert!(short.iter().flat_map(periods).any(|period| period < USUAL), "{short:?}");
    let all = planned(&with(&[0, 1, 2, 3]), &facts);
    assert!(periods(&all).iter().all(|period| *period >= USUAL), "{all:?}");
}
