use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::TcpStream;

fn golden() -> Status {
    serde_json::from_str(include_str!("../../formats/goldens/status.json")).unwrap()
}

/// As `promtool check metrics` does: types before samples, families together, names, labels and values as they must be.
fn check(text: &str) -> BTreeMap<String, f64> {
    let body = text.strip_suffix("# EOF\n").expect("ends with # EOF");
    let (mut samples, mut types, mut family) = (BTreeMap::new(), BTreeMap::new(), String::new());
    let name_like = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (what, name, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            match what {
                "TYPE" => assert!(types.insert(name.to_string(), rest.to_string()).is_none(), "{name} twice"),
                "UNIT" => assert!(name.ends_with(&format!("_{rest}")), "{line}"),
                other => assert_eq!(other, "HELP", "{line}"),
            }
            family = name.to_string();
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect(line);
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let suffix = name.strip_prefix(&family).expect("of the family above");
        let expected: &[&str] = match types[&family].as_str() {
            "counter" => &["_total"],
            "histogram" => &["_sum", "_count", "_bucket"],
            _ => &[""],
        };
        assert!(expected.contains(&suffix) && name_like(name), "{line}");
        let labels = labels.strip_suffix('}').expect(line);
        let mut seen = BTreeSet::new();
        for label in labels.split("\",").filter(|label| !label.is_empty()) {
            let (key, value) = label.split_once("=\"").expect(line);
            assert!(name_like(key) && seen.insert(key) && !value.trim_end_matches('"').contains('"'), "{line}");
        }
        assert!(samples.insert(series.to_string(), value.parse().expect(line)).is_none(), "{series} twice");
    }
    samples
}

#[test]
fn the_status_is_told_in_the_names_that_dashboards_use() {
    let samples = check(&text(&golden()));
    for (series, value) in [
        (r#"giusto_service_supply_seconds_total{service="cache",vcpu="",core="1"}"#, 3.612),
        (r#"giusto_service_budget_seconds{service="flight",vcpu="0",core="2"}"#, 0.002),
        (r#"giusto_service_period_seconds{service="flight",vcpu="0",core="2"}"#, 0.01),
        (r#"giusto_service_throttled_total{service="flight",vcpu="0",core="2"}"#, 1199.0),
        (r#"giusto_core_manager_cpu_seconds_total{core="2"}"#, 0.15),
        (r#"giusto_build_info{host="edge-1",version="0.1.0"}"#, 1.0),
        (r#"giusto_state{host="edge-1",state="degraded"}"#, 1.0),
        (r#"giusto_warnings{host="edge-1"}"#, 1.0),
        (r#"giusto_response_seconds_count{service="cache"}"#, 2018.0),
        (r#"giusto_response_seconds_bucket{le="0.0005",service="cache"}"#, 2013.0),
        (r#"giusto_response_seconds_bucket{le="+Inf",service="cache"}"#, 2018.0),
        (r#"giusto_promise_within_seconds{service="cache",percentile="99"}"#, 0.003),
        (r#"giusto_promise_allowed{service="cache",percentile="99"}"#, 0.01),
        (r#"giusto_promise_late_total{service="cache",percentile="99"}"#, 5.0),
        (r#"giusto_promise_burn{service="cache",percentile="99",window="1m"}"#, 0.1984),
    ] {
        assert_eq!(samples.get(series), Some(&value), "{series} in {samples:#?}");
    }
    assert!(!samples.keys().any(|series| series.starts_with("giusto_service_budget") && series.contains("batch")));
    check(&text(&Status { services: vec![], cores: vec![], ..golden() }));
}

struct Golden;

impl Host for Golden {
    fn status(&self) -> Status {
        golden()
    }
    fn reload(&self, _: Option<&std::path::Path>) -> Result<crate::Change, crate::Refused> {
        unreachable!()
    }
    fn change_mode(&self, _: &crate::Wish) -> Result<Option<crate::ChangeStatus>, crate::Refused> {
        Ok(None)
    }
    fn stop(&self) {}
}

fn asked(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let _ = stream.write_all(request); // it may have been refused by then
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn http_answers_get_metrics_and_nothing_else() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let metrics = Metrics::listen(free, Arc::new(Golden)).unwrap();
    let answer = asked(free, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(&format!("Content-Length: {}", body.len())),
        "{head}"
    );
    check(body);
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"\x16\x03\x01\xff\r\n\r\n", "400"),
        (b"GET /metrics HTTP/9\r\n\r\n", "400"),
    ] {
        assert!(asked(free, request).starts_with(&format!("HTTP/1.1 {status}")), "{status}");
    }
    assert_eq!(asked(free, &[b'a'; 20_000]), "", "an endless head is not waited for");
    assert!(Metrics::listen(free, Arc::new(Golden)).is_err_and(|error| error.to_string().contains("--metrics")));
    drop(metrics);
    // The listening socket is closed once its thread has woken up.
    while TcpStream::connect(free).is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
