//! Both kinds of load on a path, against services of their own.

use super::*;
use crate::client::connect;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

fn path(rate: &str) -> Path {
    Path::plain("two".into(), PathSource::Poisson(rate.parse().unwrap()), Vec::new())
}

/// A chain of two that pass lines on, the second of which holds each for 2 ms.
#[test]
fn lines_that_come_back_are_told_with_their_stages_and_those_that_do_not_are_lost() {
    let stage = |name: &'static str, to: SocketAddr, hold: u64, drop: usize| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (from, _) = listener.accept().unwrap();
            let mut to = connect(to).unwrap();
            for (nth, line) in BufReader::new(from).lines().map_while(Result::ok).enumerate() {
                let came = now();
                std::thread::sleep(std::time::Duration::from_millis(hold));
                if nth != drop {
                    writeln!(to, "{line} {name}:{came}-{}", now()).unwrap();
                }
            }
        });
        address
    };
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let second = stage("second", free, 2, 7);
    let first = stage("first", second, 0, usize::MAX);
    let path = path("100/s");
    let (warm_up, length) = (Duration::ZERO, Duration::from_ms(500));
    let run = PathRun { warm_up, length, seed: 3, generator: Generator::default() };
    let mut ends = PathEnds::new(&PathLoad::Lines { send: first, receive: free }, 1).unwrap();
    let report = ends.drive(&path, &run, &mut |_| true).unwrap();
    assert!(report.jobs.len() > 20 && report.lost == 1, "{report:?}");
    assert!(report.jobs.iter().filter_map(JobRecord::response_ns).all(|response| response >= 2_000_000));
    assert_eq!(report.stages.keys().collect::<Vec<_>>(), ["first", "second"]);
    assert!(report.stages["second"].iter().all(|held| *held >= 2_000_000));
    assert_eq!(report.stages["second"].len() + 1, report.jobs.len());
    let out = |ends: &PathEnds| matches!(&ends.way, Way::Lines(lines) if lines.out == 1);
    assert!(out(&ends), "what was dropped");
    ends.settle(Duration::from_ms(10), &|| false).unwrap();
    assert!(!out(&ends), "is not waited for again");
    // Over the same connections, and none of the first run's lines counts.
    let report = ends.drive(&path, &PathRun { seed: 4, ..run }, &mut |_| true).unwrap();
    assert!(report.jobs.len() > 20 && report.lost == 0, "{report:?}");
}

/// A request as it came.
#[derive(Debug)]
struct Came {
    number: u64,
    at: u64,
    trace: String,
    /// Which connection it came over.
    over: usize,
}

/// A web server with a thread for each connection. `answer` tells what follows `HTTP/1.1 ` of a request by its number; where it
/// tells nothing, the connection is closed.
fn web(answer: impl Fn(u64) -> Option<&'static str> + Send + Sync + 'static) -> (SocketAddr, Arc<Mutex<Vec<Came>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, came, answer) =
        (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Came>>>::default(), Arc::new(answer));
    let all = came.clone();
    std::thread::spawn(move || {
        for (over, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let (came, answer) = (all.clone(), answer.clone());
            std::thread::spawn(move || {
                let (mut reader, mut stream) = (BufReader::new(stream.try_clone().unwrap()), stream);
                loop {
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") {
                        if reader.read_line(&mut head).unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    assert!(head.starts_with("POST /orders HTTP/1.1\r\n"), "{head}");
                    let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_string();
                    let mut body = vec![0; value("Content-Length: ").parse().unwrap()];
                    reader.read_exact(&mut body).unwrap();
                    let number = String::from_utf8(body).unwrap().parse().unwrap();
                    let trace = value("traceparent: 00-")[..32].to_string();
                    came.lock().unwrap().push(Came { number, at: now(), trace, over });
                    let Some(text) = answer(number) else { return };
                    let _ = stream.write_all(format!("HTTP/1.1 {text}").as_bytes());
                }
            });
        }
    });
    (address, came)
}

const OK: &str = "200 OK\r\nContent-Length: 2\r\n\r\nok";

fn ends(address: SocketAddr) -> PathEnds {
    PathEnds::new(&PathLoad::Http { address, path: "/orders".into() }, 1).unwrap()
}

fn run(ms: u64) -> PathRun {
    let (warm_up, length) = (Duration::ZERO, Duration::from_ms(ms));
    PathRun { warm_up, length, seed: 3, generator: Generator::default() }
}

#[test]
fn requests_that_wait_for_a_connection_count_from_when_they_were_due() {
    let (address, came) = web(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        Some(OK)
    });
    let mut ends = ends(address);
    let Way::Http(requests) = &mut ends.way else { panic!() };
    requests.most = 2;
    // Two connections answer 100 a second of 200.
    let report = ends.drive(&path("200/s"), &run(1000), &mut |_| true).unwrap();
    let came = came.lock().unwrap();
    let count = report.jobs.len();
    assert!(
        count > 120 && report.lost == 0 && report.failures.is_empty() && report.traces.len() == count,
        "{report:?}"
    );
    assert_eq!(came.iter().map(|one| one.over).collect::<HashSet<_>>().len(), 2);
    assert_eq!(came.iter().map(|one| one.number).collect::<HashSet<_>>().len(), count, "each once");
    assert_eq!(came.len(), count);
    let (mut longest, limit) = (0, 20_000_000 * (count as u64 / 2 - 1));
    for one in came.iter() {
        let job = &report.jobs[one.number as usize];
        assert!(one.at >= job.due.ns(), "{one:?} came before {job:?} was due");
        assert_eq!(one.trace, report.traces[one.number as usize]);
        assert!(job.release.since(job.due).unwrap() < Duration::from_ms(100), "{job:?} was held up");
        longest = longest.max(job.response_ns().unwrap());
    }
    // What is due at the end, after a second, waits for all before it.
    assert!(longest >= limit.saturating_sub(1_100_000_000) && longest > 100_000_000, "{longest} of {limit}");
}

#[test]
fn each_request_is_done_or_lost_once_whatever_the_server_does() {
    let (address, came) = web(|number| match number % 8 {
        1 => Some("500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"),
        2 => None,
        3 => Some("200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
        4 => Some("302 Found\r\nContent-Length: 0\r\n\r\n"),
        5 => Some("100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
        _ => Some(OK),
    });
    let mut ends = ends(address);
    for _ in 0..2 {
        came.lock().unwrap().clear();
        let report = ends.drive(&path("200/s"), &run(500), &mut |_| true).unwrap();
        let came = came.lock().unwrap();
        let first = came.iter().map(|one| one.number).min().unwrap();
        let of = |rest: u64| came.iter().filter(|one| one.number % 8 == rest).count() as u64;
        let closed = "the connection was closed before the answer";
        let expected = [("answered 302 Found", of(4)), ("answered 500 Internal Server Error", of(1)), (closed, of(2))];
        let expected: BTreeMap<String, u64> = expected.map(|(why, count)| (why.to_string(), count)).into();
        assert!(came.len() == report.jobs.len() && report.failures == expected, "{expected:?} {report:?}");
        assert_eq!(report.lost, expected.values().sum::<u64>());
        for one in came.iter() {
            let job = &report.jobs[(one.number - first) as usize];
            assert_eq!(job.finish.is_none(), matches!(one.number % 8, 1 | 2 | 4), "{one:?}");
        }
        ends.settle(Duration::from_ms(1), &|| false).unwrap();
    }
}

#[test]
fn what_is_not_answered_in_5_s_is_lost_and_what_it_leaves_is_waited_for() {
    let (address, _) = web(|number| {
        let wait = if number == 3 { 5500 } else { 0 };
        std::thread::sleep(std::time::Duration::from_millis(wait));
        Some(OK)
    });
    let mut ends = ends(address);
    let report = ends.drive(&path("100/s"), &run(200), &mut |_| true).unwrap();
    assert_eq!((report.lost, report.jobs[3].finish), (1, None), "{report:?}");
    assert_eq!(report.failures, [("no answer within 5 s".to_string(), 1)].into());
    let before = now();
    ends.settle(Duration::from_ms(5000), &|| false).unwrap();
    let took = now() - before;
    assert!((100_000_000..3_000_000_000).contains(&took), "{took}");
}

#[test]
fn a_server_that_speaks_something_else_is_told_and_one_that_is_not_there_too() {
    let (address, _) = web(|_| Some("200 OK\r\n\r\n"));
    let why = ends(address).drive(&path("100/s"), &run(200), &mut |_| true).unwrap_err().to_string();
    assert!(why.contains("make the server send Content-Length"), "{why}");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let why = PathEnds::new(&PathLoad::Http { address: free, path: "/".into() }, 1).err().unwrap().to_string();
    assert!(why.contains("is it running?"), "{why}");
}
