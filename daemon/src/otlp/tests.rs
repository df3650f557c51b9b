use super::*;
use crate::golden::Golden;
use crate::{LateJob, ObservedBy};
use giusto_verify::Cause;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{channel, Receiver};

fn job(nth: u64) -> Late {
    Late::Job(LateJob {
        service: "cache".into(),
        by: ObservedBy::Requests,
        process: 1,
        thread: 2,
        from_ns: nth,
        to_ns: nth + 1,
        within_ns: 1,
        cause: Cause::Chance,
    })
}

/// A collector that answers each request with this status, and passes on which signal it was and how many spans came.
fn collector(listener: TcpListener, status: &'static str) -> Receiver<(String, usize)> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut read, mut bytes) = (Vec::new(), vec![0; 1 << 16]);
            let body = loop {
                let length = stream.read(&mut bytes).unwrap();
                read.extend_from_slice(&bytes[..length]);
                let text = String::from_utf8_lossy(&read).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let wanted: usize =
                    head.split("Content-Length: ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
                if body.len() >= wanted {
                    break text;
                }
            };
            let spans = body.matches("traceId").count();
            let _ = stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}").as_bytes());
            if tell.send((body.split(' ').nth(1).unwrap().into(), spans)).is_err() {
                return;
            }
        }
    });
    told
}

#[test]
fn metrics_and_late_jobs_come_also_to_a_collector_that_was_not_there_at_first() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = free.local_addr().unwrap();
    drop(free);
    let otlp = Otlp::start(format!("http://{at}").parse().unwrap(), Arc::new(Golden::default())).unwrap();
    otlp.tell((0..600).map(job).collect());
    let begun = Instant::now();
    while otlp.status().problem.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", otlp.status());
        std::thread::sleep(Duration::from_millis(10));
    }
    let told = collector(TcpListener::bind(at).unwrap(), "200 OK");
    let mut spans = 0;
    while spans < 600 {
        let (target, more) = told.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(["/v1/traces", "/v1/metrics"].contains(&target.as_str()), "{target}");
        spans += more;
    }
    assert_eq!(spans, 600, "each once");
    while otlp.status().problem.is_some() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", otlp.status());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(otlp.status().dropped, 0);
}

#[test]
fn what_finds_no_room_and_what_is_never_taken_is_dropped_and_counted() {
    let otlp = Otlp::start("http://127.0.0.1:1".parse().unwrap(), Arc::new(Golden::default())).unwrap();
    otlp.tell((0..WAITING as u64 + 7).map(job).collect());
    assert_eq!(otlp.status().dropped, 7);
    assert_eq!(locked(&otlp.queue.0).jobs.front().cloned(), Some(job(7)), "the oldest go first");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("http://{}", listener.local_addr().unwrap());
    let told = collector(listener, "415 No");
    let otlp = Otlp::start(to.parse().unwrap(), Arc::new(Golden::default())).unwrap();
    otlp.tell(vec![job(1), job(2)]);
    let begun = Instant::now();
    while otlp.status().dropped < 3 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", otlp.status());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(told.try_iter().count() >= 2, "metrics, and two jobs");
    assert!(otlp.status().problem.is_some_and(|why| why.contains("415 No")));
}
