use super::*;
use crate::recording::{RecordedMode, RecordedThread};

/// Two cores; redis (thread 10, service 0) is asked twice at once, another thread (20) has its core in between.
fn recording() -> Recording {
    let thread = |thread, name: &str, service| RecordedThread { thread, process: thread, name: name.into(), service };
    let cache = RecordedService {
        name: "cache".into(),
        backend: Some("manager".into()),
        jobs: Some(ObservedBy::Requests),
        within_ns: Some(3_000),
        budgets: vec![(None, vec![(1_000, 500, 0), (2_000, -100, 0), (4_000, 500, 1)])],
    };
    let flight =
        RecordedService { name: "flight".into(), backend: Some("deadline".into()), ..RecordedService::default() };
    Recording {
        version: "1".into(),
        host: "edge-1".into(),
        from_ns: 1_000,
        until_ns: 10_000,
        cores: vec![0, 1],
        services: vec![cache, flight],
        threads: vec![thread(10, "redis-server", Some(0)), thread(20, "kworker", None)],
        // redis waits from before the recording on
        changes: vec![
            [500, 0, 10, 2],
            [600, 0, 20, 0],
            [2_000, 0, 10, 0],
            [3_000, 0, 20, 1],
            [4_000, 0, 10, 0],
            [5_000, 0, 0, 0],
        ],
        jobs: vec![[0, 10, 900, 4_500], [0, 10, 2_500, 4_800], [0, 10, 6_000, 7_000]],
        modes: vec![RecordedMode { change: "normal to emergency: done".into(), from_ns: 2_000, to_ns: 3_000 }],
        ..Recording::default()
    }
}

fn read(recording: &Recording) -> (Value, Drawn) {
    let (text, drawn) = write_trace(recording, Vec::new()).unwrap();
    (serde_json::from_slice(&text).unwrap(), drawn)
}

/// Slices by process, row, beginning and length.
fn slices(trace: &Value) -> Vec<(u64, u64, String, f64, f64)> {
    let events = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
    let number = |value: &Value| value.as_u64().unwrap();
    let time = |value: &Value| value.as_f64().unwrap();
    let slice = |event: &Value| {
        let name = event["name"].as_str().unwrap().to_string();
        (number(&event["pid"]), number(&event["tid"]), name, time(&event["ts"]), time(&event["dur"]))
    };
    events.map(slice).collect()
}

#[test]
fn cores_threads_and_requests_have_slices_under_their_names() {
    let (trace, drawn) = read(&recording());
    assert_eq!(drawn, Drawn { runs: 4, jobs: 3, late: 1, without_row: 0 });
    let all = slices(&trace);
    let of = |process: u64, row: u64| -> Vec<(&str, f64, f64)> {
        let own = all.iter().filter(|slice| (slice.0, slice.1) == (process, row));
        own.map(|(_, _, name, at, length)| (name.as_str(), *at, *length)).collect()
    };
    let core = [("kworker", 0.0, 1.0), ("cache", 1.0, 1.0), ("kworker", 2.0, 1.0), ("cache", 3.0, 1.0)];
    assert_eq!(of(1, 1), core, "an idle core has none, and what began before is cut off");
    let redis = [("waits", 0.0, 1.0), ("runs", 1.0, 1.0), ("waits", 2.0, 1.0), ("runs", 3.0, 1.0)];
    let mut thread = of(2, 1_011);
    thread.sort_by(|one, other| one.1.total_cmp(&other.1));
    assert_eq!(thread, redis);
    assert_eq!(of(2, 2), [("late request", 0.0, 3.5), ("request", 5.0, 1.0)]);
    assert_eq!(of(2, 3), [("request", 1.5, 2.3)], "two at once are in two rows");
    assert_eq!(of(1, 1_000_001), [("normal to emergency: done", 1.0, 1.0)]);
    let metadata = &trace["metadata"];
    assert_eq!(metadata["giusto-budget-of-flight"], "known to the kernel only (SCHED_DEADLINE)");
    assert!(metadata.get("giusto-budget-of-cache").is_none());
}

#[test]
fn a_flow_leads_from_each_request_to_where_it_was_served() {
    let (trace, _) = read(&recording());
    let events = trace["traceEvents"].as_array().unwrap();
    let flow = |id: u64| -> Vec<(String, u64, f64)> {
        let own = events.iter().filter(|event| event["id"] == id);
        let place = |event: &Value| {
            (event["ph"].as_str().unwrap().into(), event["tid"].as_u64().unwrap(), event["ts"].as_f64().unwrap())
        };
        own.map(place).collect()
    };
    let place = |phase: &str, row, at| (phase.to_string(), row, at);
    assert_eq!(flow(1), [place("s", 2, 0.0), place("t", 1, 1.0), place("f", 1, 3.0)]);
    assert_eq!(flow(2), [place("s", 3, 1.5), place("t", 1, 1.5), place("f", 1, 3.0)]);
    assert!(flow(3).is_empty(), "its thread had no core then");
}

#[test]
fn budgets_are_counters_and_misses_instants() {
    let (trace, _) = read(&recording());
    let events = trace["traceEvents"].as_array().unwrap();
    let counters = events.iter().filter(|event| event["ph"] == "C");
    let values: Vec<_> = counters.map(|event| (event["pid"].clone(), event["args"]["us"].clone())).collect();
    assert_eq!(values, [(2.into(), 0.5.into()), (2.into(), (-0.1).into()), (2.into(), 0.5.into())]);
    let missed = events.iter().find(|event| event["ph"] == "i").unwrap();
    assert_eq!((&missed["name"], &missed["ts"]), (&"budget missed".into(), &3.0.into()));
}

#[test]
fn too_many_requests_at_once_are_counted_and_not_drawn() {
    let mut recording = recording();
    recording.jobs = (0..ROWS as u64 + 5).map(|nth| [0, 10, 2_000 + nth, 9_000]).collect();
    let (trace, drawn) = read(&recording);
    assert_eq!((drawn.jobs, drawn.without_row), (ROWS as usize, 5));
    assert_eq!(trace["metadata"]["giusto-jobs-without-row"], 5);
}
