use super::*;
use giusto_measure::watch::{Burst, Watched};
use giusto_measure::Served;
use giusto_model::Adopt;

/// A service that is busy at these instants (ns) for so long.
fn watched(at: &[u64], cpu: u64) -> Watched {
    let burst = |at: &u64| Burst { from: *at, until: at + 250_000, count: 1, cpu };
    let length = Duration::from_ns(at.last().unwrap() + 1_000_000);
    let n = at.len() as u64;
    Watched {
        length,
        resolution: Duration::from_us(250),
        workers: 1,
        main_alone: true,
        threads: 5,
        cpu: Duration::from_ns(n * cpu),
        activations: n,
        preempted: 0,
        bursts: at.iter().map(burst).collect(),
    }
}

/// Gaps of an exponential law of this mean, drawn by splitmix64.
fn at_random(mean: f64, n: u64) -> Vec<u64> {
    let gap = |nth: u64| {
        let mut bits = nth.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
        (-mean * (1.0 - share).ln()) as u64 + 1
    };
    let sum = |now: &mut u64, nth| {
        *now += gap(nth);
        Some(*now)
    };
    (1..=n).scan(0, sum).collect()
}

fn drafted(watched: &Watched, served: Result<Served, String>) -> Draft {
    answering(watched, served, None)
}

fn answering(watched: &Watched, served: Result<Served, String>, answered: Option<Answered>) -> Draft {
    let found = Found { adopt: Adopt::Pid(1234), name: "cache".into(), pids: vec![1234], unit: None };
    let observed = Observed { found: &found, watched, served: &served, answered, host: "edge-1", cores: &[0, 1] };
    let draft = draft(&observed, &Facts::typical(vec![0, 1])).unwrap();
    let site = giusto_site::parse("draft", &draft.text).unwrap_or_else(|error| panic!("{error}\n{}", draft.text));
    giusto_planner::plan(&site, &Facts::typical(vec![0, 1])).unwrap();
    assert!(draft.text.lines().all(|line| line.chars().count() <= 120), "{}", draft.text);
    draft
}

/// A web server whose answers wait for more than a processor.
#[test]
fn what_a_service_does_not_keep_today_is_not_promised() {
    let busy = watched(&at_random(5e6, 1000), 700_000);
    let promised = |draft: &Draft| match draft.demand {
        Demand::Arrivals { p99, .. } => p99.ns() / 1_000_000,
        _ => panic!("{draft:?}"),
    };
    let ms = Duration::from_ms;
    let answered = |p90, p99| Some(Answered { requests: 100, p90: ms(p90), p99: ms(p99) });
    let of = |answered| answering(&busy, Err("unknown".into()), answered);
    let alone = promised(&of(None));
    assert!(alone <= 20, "{alone}");
    assert_eq!(promised(&of(answered(0, 0))), alone);
    assert_eq!(promised(&of(answered(1, 26))), 40, "26 ms, half as long again");
    assert_eq!(promised(&of(answered(14, 26))), 80, "9 of 10 within 14 ms, half as long again");
    let text = of(answered(4, 26)).text;
    assert!(text.contains("100 requests of giusto's own (GET /) within 4 ms (90 %), 26 ms (99 %)"), "{text}");
}

#[test]
fn a_periodic_one_whose_threads_share_the_work_is_planned_with_all_of_them() {
    let at: Vec<u64> = (1..2000).map(|nth| nth * 10_000_000).collect();
    let main = watched(&at, 400_000);
    let several = Watched { main_alone: false, ..watched(&at, 400_000) };
    let [main, several] = [main, several].map(|one| drafted(&one, Err("unknown".into())));
    assert!(matches!(main.demand, Demand::Tasks { .. }), "{main:?}");
    assert!(matches!(several.demand, Demand::Arrivals { .. }), "{several:?}");
    assert!(several.text.contains("planned as if at random, with all"), "{}", several.text);
}

#[test]
fn a_periodic_service_gets_a_task_and_a_whole_core_s_latency() {
    let at: Vec<u64> = (1..2_000).map(|n| n * 2_500_000).collect();
    let redis = Ok(Served::Redis("127.0.0.1:7001".parse().unwrap()));
    let draft = drafted(&watched(&at, 47_000), redis);
    let (wcet, period) = (Duration::from_us(57), Duration::from_us(2_500));
    assert_eq!(draft.demand, Demand::Tasks { wcet, period, covers: "all" });
    for part in
        ["wcet: 57us, period: 2500us", "promise: as-if-alone", "load: {redis: 127.0.0.1:7001, fields: 10, value: 8}"]
    {
        assert!(draft.text.contains(part), "{part}\n{}", draft.text);
    }
    assert_eq!(draft.summary.shape, "periodic");
}

#[test]
fn requests_at_random_get_percentiles_that_can_be_planned() {
    let draft = drafted(&watched(&at_random(5e6, 3_000), 400_000), Err("it listens on no port".into()));
    let Demand::Arrivals { rate, batch: 1, mean, wcet, .. } = draft.demand else { panic!("{:?}", draft.demand) };
    assert!((rate - 200.0).abs() < 12.0 && mean == Duration::from_us(400) && wcet == Duration::from_us(480));
    let words = draft.text.replace("\n    # ", " ");
    assert!(words.contains("cannot measure it: it listens on no port") && !draft.text.contains("load: {"), "{words}");
    assert_eq!(draft.summary.shape, "poisson");
}

#[test]
fn bursts_come_as_batches() {
    let starts = at_random(40e6, 800);
    let mut at: Vec<u64> = starts.iter().flat_map(|start| (0..5).map(move |nth| start + nth * 300_000)).collect();
    at.sort_unstable();
    let draft = drafted(&watched(&at, 90_000), Err("x".into()));
    assert!(matches!(draft.demand, Demand::Arrivals { batch: 3..=7, .. }), "{:?}", draft.demand);
    assert!(draft.text.contains(", batch: "), "{}", draft.text);
}

#[test]
fn what_takes_a_core_gets_what_is_left_and_one_outlier_does_not_spoil_the_rest() {
    let at: Vec<u64> = (1..2_000).map(|n| n * 1_000_000).collect();
    let busy = drafted(&watched(&at, 900_000), Err("x".into()));
    assert!(matches!(busy.demand, Demand::Leftovers { at_least: 50, .. }), "{:?}", busy.demand);
    let mut outlier = watched(&at, 100_000);
    outlier.bursts[700].cpu = 30_000_000;
    let draft = drafted(&outlier, Err("x".into()));
    assert!(matches!(draft.demand, Demand::Tasks { covers: "99.9 %", .. }), "{:?}", draft.demand);
}
