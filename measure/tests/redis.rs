//! Load and profile of the real service.

use giusto_measure::{drive, listener, profile, wait_listening, Error, Generator, LoadPlan};
use giusto_model::{Duration, Load, Task};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

/// A process that ends with the test, also with one that fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One inline command and its one-line reply.
fn ask(address: SocketAddr, command: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

#[test]
fn six_clients_of_redis_are_all_answered_and_its_requests_cost_processor_time() {
    let address: SocketAddr = "127.0.0.1:7101".parse().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let started = Command::new("redis-server")
        .args(["--port", "7101", "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(directory.path())
        .stdout(Stdio::null())
        .spawn();
    let mut redis = Running(started.expect("redis-server is missing: make setup"));
    wait_listening(address, Duration::from_secs(10), &mut || matches!(redis.0.try_wait(), Ok(None))).unwrap();

    let load = Load::Redis { address, fields: 10, value: 8 };
    let tasks = [Task { copies: 6, .."50us/1ms".parse().unwrap() }];
    let (warm_up, run, generator) = (Duration::from_ms(100), Duration::from_secs(1), Generator::default());
    let plan = LoadPlan {
        load: &load,
        tasks: &tasks,
        arrivals: None,
        trace: &[],
        warm_up,
        run,
        seed: 1,
        generator: generator.clone(),
    };
    let report = drive(&plan, &mut |_| true).unwrap();
    assert_eq!((report.jobs.len(), report.lost, report.errors), (6000, 0, 0), "{:?}", report.first_error);

    let stored: u32 = ask(address, "DBSIZE").trim_start_matches(':').trim_end().parse().unwrap();
    // 6600 draws of 10000 keys leave 4832 of them on average.
    assert!((4000..=5600).contains(&stored), "{stored} keys");
    assert_eq!(listener(address).unwrap(), redis.0.id());

    let profiled = profile(&load, redis.0.id(), 200, 1, &generator).unwrap();
    assert_eq!((profiled.execution.len(), profiled.transport.len()), (200, 200));
    assert!(profiled.execution.iter().all(|&ns| ns > 0));

    // A list that is sorted: each request costs more the longer it is, beside what each costs (40 to 150 us).
    let sort = |items| Load::RedisSort { address, items };
    let median = |items| {
        let mut times = profile(&sort(items), redis.0.id(), 20, 1, &generator).unwrap().execution;
        times.sort_unstable();
        times[10]
    };
    let (short, long) = (median(1), median(5000));
    assert!(long > 3 * short, "{short} ns, {long} ns");
    let report = drive(&LoadPlan { load: &sort(300), run: Duration::from_ms(200), ..plan }, &mut |_| true).unwrap();
    assert_eq!((report.jobs.len(), report.lost, report.errors), (1200, 0, 0), "{:?}", report.first_error);
    for list in ["items", "sorted"] {
        assert_eq!(ask(address, &format!("LLEN {list}")).trim_end(), ":300");
    }

    // A process that waits for something else does not serve that port, and one that ended does not at all.
    let piped = || Stdio::piped();
    let mut other = Running(Command::new("cat").stdin(piped()).stdout(piped()).spawn().unwrap());
    let echo = other.0.stdin.as_mut().unwrap().write_all(b"up\n");
    echo.and_then(|()| other.0.stdout.as_mut().unwrap().read_exact(&mut [0; 3])).unwrap();
    assert!(matches!(profile(&load, other.0.id(), 1, 1, &generator), Err(Error::Idle { .. })));
    other.0.kill().unwrap();
    other.0.wait().unwrap();
    assert!(matches!(profile(&load, other.0.id(), 1, 1, &generator), Err(Error::Process { .. })));
}

#[test]
fn a_memcached_answers_requests_at_random_over_many_connections() {
    let address: SocketAddr = "127.0.0.1:7102".parse().unwrap();
    let started = Command::new("memcached")
        .args(["-u", "nobody", "-l", "127.0.0.1", "-p", "7102", "-U", "0", "-t", "1"])
        .stdout(Stdio::null())
        .spawn();
    let mut memcached = Running(started.expect("memcached is missing: make setup"));
    wait_listening(address, Duration::from_secs(10), &mut || matches!(memcached.0.try_wait(), Ok(None))).unwrap();

    let rate = Some("2000/s".parse().unwrap());
    let load = Load::Memcached { address, value: 100, connections: 50, rate };
    let (warm_up, run, generator) = (Duration::from_ms(100), Duration::from_secs(1), Generator::default());
    let plan =
        LoadPlan { load: &load, tasks: &[], arrivals: load.arrivals(), trace: &[], warm_up, run, seed: 1, generator };
    let report = drive(&plan, &mut |_| true).unwrap();
    assert_eq!((report.lost, report.errors), (0, 0), "{:?}", report.first_error);
    // Five standard deviations of a Poisson number of 2000, and of 40 on each of 50 connections.
    assert!((1776..=2224).contains(&report.jobs.len()), "{}", report.jobs.len());
    let mut each = [0; 50];
    report.jobs.iter().for_each(|job| each[job.task as usize] += 1);
    assert!(each.iter().all(|n| (8..=72).contains(n)), "{each:?}");
}
