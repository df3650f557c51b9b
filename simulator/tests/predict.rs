//! Predictions: exact where the truth is known, and an error with words where there is none.

use giusto_model::{
    Backend, Bandwidth, Cap, Certificate, Duration, GuestScheduler, Hold, Origin, Prediction, Promise, Scheduler,
    Server, ServerKind, ServicePlan,
};
use giusto_simulator::{predict, predict_under, Error, Execution, Under, Unobserved};

/// One task of 50 us every millisecond on half a core.
fn service() -> ServicePlan {
    let half = Bandwidth::new(1, 2).unwrap();
    let [budget, period] = [500, 1000].map(Duration::from_us);
    ServicePlan {
        name: "cache".into(),
        on: "edge-1".into(),
        promise: Promise::AsIfAlone,
        origin: Origin::Start(vec!["service".into()]),
        process: giusto_model::Process::default(),
        tasks: vec!["50us/1ms".parse().unwrap()],
        vcpu: None,
        copies: None,
        load: None,
        core: 0,
        backend: Backend::Deadline,
        server: Server { kind: ServerKind::Deferrable, budget, period },
        cap: Cap::Hard,
        utilization: half,
        required: half,
        margin: Bandwidth::ZERO,
        hold: Hold { conforming: budget, enforced: period },
        left_for_others: half,
        certificate: Certificate::AsIfAlone { from: None, demand: budget },
        adapt: None,
        observe: None,
        criticality: None,
        pessimistic: None,
        prediction: None,
        reasons: Vec::new(),
    }
}

fn predicted(execution: &[u64], transport: &[u64], horizon: Duration) -> Result<Prediction, Error> {
    let execution = Execution::Samples(execution.into());
    Ok(predict(&service(), execution, transport, horizon, 1, &mut Unobserved)?.stats.prediction())
}

#[test]
fn a_prediction_is_exact_to_the_last_digit_where_all_jobs_are_alike() {
    let p = predicted(&[50_000], &[100_000], Duration::from_ms(100)).unwrap();
    assert_eq!((p.jobs, p.p50, p.p99_9, p.max), (100, Duration::from_us(150), Duration::from_us(150), p.p50));
}

#[test]
fn measured_times_that_no_job_can_take_are_errors_not_numbers() {
    let ms = Duration::from_ms(100);
    for (execution, transport, words) in [
        (0, 5, "a measured execution time of 0 ns; expected 1 ns or more"),
        (u64::MAX, 5, "execution time of 18446744073709551615 ns; expected 1 ns or more, and less than 73 years"),
        (5, u64::MAX, "transport time of 18446744073709551615 ns; expected 0 ns or more, and less than 73 years"),
    ] {
        let error = predicted(&[50_000, execution], &[transport], ms).unwrap_err().to_string();
        assert!(error.contains(words) && error.ends_with("measure again"), "{error}");
    }
    // The longest that are allowed: sums of them fit.
    let longest = 1 << 61;
    assert_eq!(predicted(&[5], &[longest], ms).unwrap().max.ns(), longest + 5);
    assert!(matches!(predicted(&[longest], &[0], ms), Err(Error::NoJob { .. })));
}

#[test]
fn without_a_finished_job_there_is_no_percentile() {
    let error = predicted(&[50_000], &[], Duration::from_ns(10)).unwrap_err();
    assert_eq!(error, Error::NoJob { within: Duration::from_ns(10) });
    assert!(error.to_string().starts_with("no job finished within 10 ns; simulate longer"), "{error}");
}

#[test]
fn who_asks_for_more_than_half_gets_half_beside_an_equal_under_credit_and_fair() {
    for (needs, competitor) in [("900us/1ms", 0.5), ("200us/1ms", 0.8)] {
        for under in [Under::Credit, Under::Fair] {
            let service = ServicePlan { tasks: vec![needs.parse().unwrap()], ..service() };
            let (execution, seconds) = (Execution::Worst, Duration::from_ms(20_000));
            let seen = predict_under(&service, under, execution, &[], seconds, 1, &mut Unobserved).unwrap();
            assert!((seen.competitor - competitor).abs() < 0.01, "{needs} under {under}: {}", seen.competitor);
        }
    }
}

#[test]
fn where_more_is_asked_for_than_given_it_is_told_with_both_numbers() {
    let asked = |execution: Execution, under: Under| {
        let horizon = Duration::from_ms(2000);
        predict_under(&service(), under, execution, &[], horizon, 1, &mut Unobserved).unwrap().overload
    };
    let (server, samples) = (Under::Server(ServerKind::Deferrable), |ns: &[u64]| Execution::Samples(ns.into()));
    assert_eq!(asked(Execution::Worst, server), None);
    assert_eq!(asked(samples(&[500_000]), server), None, "all of it is not more than it");
    let overload = asked(samples(&[400_000, 800_000]), server).unwrap();
    assert!((overload.asked - 0.6).abs() < 1e-9 && overload.given == 0.5, "{overload:?}");
    let words = "its jobs ask for 60.0 % of a core and get 50.0 %, so the queue grows for ever";
    assert!(overload.to_string().contains(words), "{overload}");
    assert!(asked(samples(&[600_000]), Under::Fair).is_some());
    assert_eq!(asked(samples(&[600_000]), Under::Server(ServerKind::Unlimited)), None);
}

#[test]
fn jobs_run_in_the_order_that_is_promised_and_each_task_tells_how_late_it_is() {
    let play = |scheduler: GuestScheduler| {
        let tasks = ["1ms/5ms", "10ms/20ms"].map(|task| task.parse().unwrap()).to_vec();
        let promise = Promise::EveryDeadline { scheduler, vcpus: 1, placed: Vec::new() };
        let service = ServicePlan { promise, tasks, ..service() };
        let (whole, horizon) = (Under::Server(ServerKind::Unlimited), Duration::from_ms(20));
        let tasks = predict_under(&service, whole, Execution::Worst, &[], horizon, 1, &mut Unobserved).unwrap().tasks;
        tasks.iter().map(|task| (task.stats.max(), task.late, task.latest_ns.unwrap())).collect::<Vec<_>>()
    };
    let ms = Duration::from_ms;
    // Rate monotonic: 1 ms each 5 ms, and the long job in the gaps, 1-5, 6-10, 11-13.
    let ordered = play(GuestScheduler::Own(Scheduler::Rm));
    assert_eq!(ordered, [(ms(1), 0, -4_000_000), (ms(13), 0, -7_000_000)]);
    // First come, first served: the long job from 1 to 11, so that the short one of 5 ms ends at 12.
    let any = play(GuestScheduler::Any);
    assert_eq!(any, [(ms(7), 1, 2_000_000), (ms(11), 0, -9_000_000)]);
}

#[test]
fn a_job_that_does_not_end_by_its_deadline_is_late() {
    let tasks = vec!["5ms/10ms".parse().unwrap()];
    let promise = Promise::EveryDeadline { scheduler: GuestScheduler::Any, vcpus: 1, placed: Vec::new() };
    let [budget, period] = [400, 1000].map(Duration::from_us);
    let server = Server { kind: ServerKind::Deferrable, budget, period };
    let service = ServicePlan { promise, tasks, server, ..service() };
    let (under, horizon) = (Under::Server(ServerKind::Deferrable), Duration::from_ms(40));
    let tasks = predict_under(&service, under, Execution::Worst, &[], horizon, 1, &mut Unobserved).unwrap().tasks;
    // 0.4 ms each ms: they end at 12.2, 24.4 and 37.2 ms; the fourth, due at 40 ms, is not over at the horizon.
    assert_eq!((tasks[0].stats.jobs(), tasks[0].late), (3, 3), "{tasks:?}");
    assert_eq!(tasks[0].latest_ns, Some(7_200_000));
}
