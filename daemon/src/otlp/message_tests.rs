use super::*;
use giusto_verify::Cause;

fn teller() -> Teller {
    Teller { version: "1.2".into(), host: "edge-1".into() }
}

#[test]
fn a_late_request_is_a_span_of_its_service_with_the_time_that_was_promised() {
    let job = LateJob {
        service: "cache".into(),
        by: ObservedBy::Requests,
        process: 7,
        thread: 8,
        from_ns: 100,
        to_ns: 300,
        within_ns: 150,
        cause: Cause::Manager,
    };
    let other = LateJob { service: "loop".into(), by: ObservedBy::WakeUps, ..job.clone() };
    let identity = std::array::from_fn(|at| at as u8);
    let told = teller().spans(&[(Late::Job(job), identity), (Late::Job(other), [0xff; 24])], 1_000);
    let [cache, looped] = told["resourceSpans"].as_array().unwrap().as_slice() else { panic!("{told}") };
    assert_eq!(cache["resource"]["attributes"][0]["value"]["stringValue"], "cache");
    let span = &cache["scopeSpans"][0]["spans"][0];
    assert_eq!(span["traceId"], "000102030405060708090a0b0c0d0e0f");
    assert_eq!(span["spanId"], "1011121314151617");
    assert_eq!((&span["startTimeUnixNano"], &span["endTimeUnixNano"]), (&"1100".into(), &"1300".into()));
    assert_eq!((&span["name"], &span["kind"], &span["status"]["code"]), (&"late request".into(), &2.into(), &2.into()));
    assert_eq!(span["attributes"][3]["value"]["stringValue"], "manager");
    assert_eq!(looped["scopeSpans"][0]["spans"][0]["kind"], 1);
}

#[test]
fn a_late_message_is_a_span_in_its_own_trace() {
    let message = LateMessage {
        path: "order".into(),
        trace: "0af7651916cd43dd8448eb211c80319c".into(),
        at: "worker".into(),
        from_unix_ns: 5_000,
        took_ns: 300,
        within_ns: 150,
    };
    let unnamed = LateMessage { trace: "seven".into(), ..message.clone() };
    let short = LateMessage { trace: "43dd8448eb211c80".into(), ..message.clone() };
    let identity = std::array::from_fn(|at| at as u8);
    let told = teller().spans(&[message.clone(), unnamed, short].map(|one| (Late::Message(one), identity)), 1_000);
    let all = &told["resourceSpans"][0];
    assert_eq!(all["resource"]["attributes"][0]["value"]["stringValue"], "giusto");
    let [span, unnamed, short] = all["scopeSpans"][0]["spans"].as_array().unwrap().as_slice() else { panic!("{told}") };
    assert_eq!((&span["traceId"], &span["spanId"]), (&message.trace.into(), &"1011121314151617".into()));
    assert_eq!(unnamed["traceId"], "000102030405060708090a0b0c0d0e0f");
    assert_eq!(unnamed["attributes"][0]["value"]["stringValue"], "seven");
    assert_eq!(short["traceId"], "000000000000000043dd8448eb211c80");
    assert!(giusto_traces::read_otlp(told.to_string().as_bytes()).unwrap().is_empty(), "they are not read again");
    assert_eq!((&span["startTimeUnixNano"], &span["endTimeUnixNano"]), (&"5000".into(), &"5300".into()));
    assert_eq!(span["attributes"][1]["value"]["stringValue"], "order");
    assert_eq!(span["attributes"][3]["value"]["stringValue"], "at worker");
}

#[test]
fn each_metric_of_the_status_is_told_with_its_kind_unit_and_labels() {
    let status = serde_json::from_str(include_str!("../../../formats/goldens/status.json")).unwrap();
    let text = crate::metrics::text(&status);
    let told = teller().metrics(&text, 5, 9);
    let metrics = told["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let families = text.lines().filter(|line| line.starts_with("# TYPE")).count();
    assert_eq!(metrics.len(), families);
    let of =
        |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("{name}: {told}"));
    let supply = of("giusto_service_supply_seconds");
    assert_eq!((&supply["unit"], &supply["sum"]["isMonotonic"]), (&"s".into(), &true.into()));
    let point = &supply["sum"]["dataPoints"][0];
    let labels: Vec<&str> =
        point["attributes"].as_array().unwrap().iter().map(|one| one["key"].as_str().unwrap()).collect();
    assert_eq!((&point["startTimeUnixNano"], &point["timeUnixNano"]), (&"5".into(), &"9".into()));
    assert!(labels.contains(&"service") && point["asDouble"].is_f64(), "{point}");
    assert!(of("giusto_warnings")["gauge"]["dataPoints"][0]["asDouble"].is_f64());
    let histogram = &of("giusto_response_seconds")["histogram"]["dataPoints"][0];
    let counts = histogram["bucketCounts"].as_array().unwrap();
    assert_eq!(counts.len(), histogram["explicitBounds"].as_array().unwrap().len() + 1);
    let sum: u64 = counts.iter().map(|count| count.as_str().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sum.to_string(), histogram["count"]);
}

#[test]
fn labels_are_read_as_they_are_escaped() {
    let text = "# HELP a b c\n# TYPE a gauge\na{x=\"q\\\"\\\\n\\n,y=\",z=\"\"} 2.5\na 1\nb 7\n# EOF\n";
    let read = families(text);
    let [family] = read.as_slice() else { panic!("{read:?}") };
    assert_eq!((family.help.as_str(), family.kind.as_str()), ("b c", "gauge"));
    let label = |key: &str, value: &str| (key.to_string(), value.to_string());
    let labels = vec![label("x", "q\"\\n\n,y="), label("z", "")];
    assert_eq!(family.samples, [(String::new(), labels, 2.5), (String::new(), vec![], 1.0)]);
}
