//! Response times as the kernel tells them beside those of the client that sent the requests: each request is in both, and
//! the client's begins earlier and ends later.

use giusto_measure::passive::{Protocol, Requests, Responses, Watch};
use giusto_measure::{drive, wait_listening, Generator, LoadPlan, LoadReport};
use giusto_model::{Duration, Load, Task};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

const ECHO: &str = "
import socketserver, sys
class Echo(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
Server(('127.0.0.1', int(sys.argv[1])), Echo).serve_forever()";
const WEB: &str = "
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True
    def do_GET(self):
        self.send_response(200)
        chunks = self.path == '/chunks'
        self.send_header(*(('Transfer-Encoding', 'chunked') if chunks else ('Content-Length', '2000')))
        self.end_headers()
        self.wfile.write(b'5;x=y\\r\\nhello\\r\\n0\\r\\n\\r\\n' if chunks else b'x\\n' * 1000)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Page).serve_forever()";

/// One at a time: they share two cores.
static MACHINE: Mutex<()> = Mutex::new(());

/// The watch; `None` where the kernel does not tell, or not to this user.
fn watch() -> Option<Requests> {
    Requests::new(4).inspect_err(|why| println!("SKIPPED: {why}")).ok()
}

struct Service {
    process: Child,
    address: SocketAddr,
}

impl Service {
    fn start(command: &[&str]) -> Service {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let words = command.iter().map(|word| word.replace("PORT", &port.port().to_string())).collect::<Vec<_>>();
        let process = Command::new(&words[0]).args(&words[1..]).stdout(Stdio::null()).spawn().unwrap();
        let service = Service { process, address: port };
        wait_listening(port, Duration::from_secs(10), &mut || true).unwrap();
        service
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the client and the kernel tell of 4 clients' requests, each every 2 ms; `stall` is called once, 200 ms after the start.
fn both(service: &Service, load: &Load, stall: &mut dyn FnMut()) -> (LoadReport, Responses) {
    let mut requests = watch().unwrap();
    requests.watch(3, &BTreeSet::from([service.process.id()])).unwrap();
    let tasks: Vec<Task> = vec![Task { copies: 4, ..("1us/2ms".parse().unwrap()) }];
    let plan = LoadPlan {
        load,
        tasks: &tasks,
        arrivals: None,
        trace: &[],
        warm_up: Duration::ZERO,
        run: Duration::from_ms(1500),
        seed: 7,
        generator: Generator::default(),
    };
    let mut stalled = false;
    let report = drive(&plan, &mut |passed| {
        if passed >= Duration::from_ms(200) && !std::mem::replace(&mut stalled, true) {
            stall();
        }
        true
    });
    (report.unwrap(), requests.responses(3))
}

/// The times of a client, ascending.
fn client(report: &LoadReport) -> Vec<u64> {
    let mut times: Vec<u64> = report.jobs.iter().map(|job| job.finish.unwrap().ns() - job.release.ns()).collect();
    times.sort_unstable();
    times
}

/// Each of a histogram's times, ascending.
fn each(histogram: &[[u64; 2]]) -> Vec<u64> {
    histogram.iter().flat_map(|&[ns, count]| std::iter::repeat_n(ns, count as usize)).collect()
}

fn check(service: &Service, load: &Load, protocol: Protocol, prepared: u64) {
    let (report, seen) = both(service, load, &mut || ());
    let (theirs, ours) = (client(&report), each(&seen.responses));
    println!(
        "{protocol:?}: {} requests, p50 {} and {} ns",
        theirs.len(),
        theirs[theirs.len() / 2],
        ours[ours.len() / 2]
    );
    assert_eq!((seen.answered, seen.unseen), (theirs.len() as u64 + prepared, 0), "{:?}", seen.connections);
    assert_eq!(seen.connections.keys().collect::<Vec<_>>(), [&protocol]);
    assert_eq!(each(&seen.waits).len(), ours.len());
    // The client may run before the service's write has returned, seldom for long.
    let apart = |at: usize| (theirs[at * theirs.len() / 100], ours[at * ours.len() / 100]);
    for (client, passive) in [5, 25, 50].map(apart) {
        assert!(passive <= client + client / 10, "{passive} beside the client's {client}");
        assert!(passive > client / 30, "{passive} beside the client's {client}");
    }
}

#[test]
fn each_request_of_redis_memcached_http_and_lines_is_counted_once_and_within_the_clients_time() {
    if watch().is_none() {
        return;
    }
    let _alone = MACHINE.lock();
    let service = Service::start(&["redis-server", "--port", "PORT", "--save", "", "--bind", "127.0.0.1"]);
    check(&service, &Load::Redis { address: service.address, fields: 5, value: 8 }, Protocol::Redis, 0);
    let service = Service::start(&["memcached", "-l", "127.0.0.1", "-p", "PORT", "-u", "root", "-t", "1"]);
    check(
        &service,
        &Load::Memcached { address: service.address, value: 3000, connections: 4, rate: None },
        Protocol::Memcached,
        0,
    );
    let service = Service::start(&["python3", "-c", ECHO, "PORT"]);
    check(&service, &Load::Echo { address: service.address, value: 100 }, Protocol::Lines, 0);
    let service = Service::start(&["python3", "-c", WEB, "PORT"]);
    for path in ["/page", "/chunks"] {
        check(&service, &Load::Http { address: service.address, path: path.into() }, Protocol::Http, 0);
    }
}

/// Each of 4 connections has a hundred requests waiting meanwhile.
#[test]
fn a_stall_of_200_ms_is_felt_in_full() {
    if watch().is_none() {
        return;
    }
    let _alone = MACHINE.lock();
    let service = Service::start(&["redis-server", "--port", "PORT", "--save", "", "--bind", "127.0.0.1"]);
    let pid = rustix::process::Pid::from_raw(service.process.id() as i32).unwrap();
    let (report, seen) = both(&service, &Load::Redis { address: service.address, fields: 2, value: 8 }, &mut || {
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(200));
            rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        });
    });
    let (theirs, ours) = (client(&report), each(&seen.responses));
    assert_eq!((ours.len(), seen.unseen), (theirs.len(), 0));
    for longer in [50, 100, 150, 190] {
        let above = |times: &[u64]| times.iter().filter(|time| **time > longer * 1_000_000).count();
        println!("longer than {longer} ms: {} of the client's, {} here", above(&theirs), above(&ours));
        // Two a millisecond: both look at slightly different instants, the client when it has its processor.
        assert!(above(&ours).abs_diff(above(&theirs)) <= above(&theirs) / 20 + 20);
    }
}
