use super::*;
use giusto_planner::Facts;

/// A service on 30 % and five points of a core that may have 60 %.
fn plan(factor: f64) -> Plan {
    let text = format!(
        "giusto: 1\nhosts: {{h: {{cores: 1}}}}\nservices:\n  a: {{start: x, promise: as-if-alone, adapt: {{up-to: 60%}}, \
         tasks: [{{wcet: {}ns, period: 1ms, copies: 6}}]}}\n",
        (50_000.0 * factor) as u64
    );
    giusto_planner::plan(&giusto_site::parse("site.yaml", &text).unwrap(), &Facts::typical(vec![0, 1])).unwrap()
}

fn status(planned: f64, recent: f64, drifted: bool) -> Vec<ServiceStatus> {
    let demand = DemandStatus { planned, recent, drifted_since_ns: drifted.then_some(1), alarms: 1 };
    vec![ServiceStatus { name: "a".into(), demand: Some(demand), ..ServiceStatus::default() }]
}

#[test]
fn it_asks_for_more_less_and_less_often_where_nothing_comes_of_it() {
    let (mut adapter, plan) = (Adapter::default(), plan(1.0));
    let (mut now, mut wishes) = (Instant::now(), Vec::new());
    let start = now;
    for _ in 0..3600 {
        if let Some(wish) = adapter.wish(&plan, &status(0.3, 0.349, true), now) {
            assert!(wish.times >= 1.5, "{wish:?}");
            wishes.push((now - start).as_secs());
        }
        now += Duration::from_secs(1);
    }
    assert!(wishes.len() < 12 && wishes[..4] == [0, 6, 18, 42], "{wishes:?}");
    assert!(adapter.history().is_empty());
}

#[test]
fn what_was_raised_is_given_back_once_it_is_not_needed_for_a_while_and_never_below_what_was_declared() {
    let (mut adapter, low, high) = (Adapter::default(), plan(1.0), plan(1.6));
    let mut now = Instant::now();
    // Nothing was raised: nothing is given back.
    for _ in 0..100 {
        now += Duration::from_secs(1);
        assert_eq!(adapter.wish(&low, &status(0.3, 0.1, false), now), None);
    }
    let wish = adapter.wish(&low, &status(0.3, 0.345, true), now).unwrap();
    adapter.planned(&low, &high, Some(&wish));
    assert_eq!(adapter.history().len(), 1);
    // A second that is quiet among others is none.
    for nth in 0..100 {
        now += Duration::from_secs(1);
        let recent = if nth % 10 == 9 { 0.45 } else { 0.2 };
        assert_eq!(adapter.wish(&high, &status(0.48, recent, false), now), None, "{nth}");
    }
    let back = (0..30).find_map(|second| {
        now += Duration::from_secs(1);
        adapter.wish(&high, &status(0.48, 0.3, false), now).map(|wish| (second, wish))
    });
    let (second, wish) = back.unwrap();
    assert!(second >= 14 && (wish.times - 0.6875).abs() < 1e-9, "{second} {wish:?}");
    adapter.planned(&high, &low, Some(&wish));
    assert!(adapter.history()[1].to < adapter.history()[1].from);
    // As declared again.
    for _ in 0..100 {
        now += Duration::from_secs(1);
        assert_eq!(adapter.wish(&low, &status(0.3, 0.1, false), now), None);
    }
}

#[test]
fn at_its_limit_it_asks_for_no_more() {
    let (mut adapter, full) = (Adapter::default(), plan(1.835));
    assert!(share(&full.services[0]) > 0.595 && share(&full.services[0]) <= 0.61);
    assert_eq!(adapter.wish(&full, &status(0.55, 0.6, true), Instant::now()), None);
}
