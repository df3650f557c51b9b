//! What shares a bucket: directions do not, and of several flows none takes all of it.

use crate::parts::{assert_undone, status};
use crate::stage::{high, low, plan, Stage, Wish};
use crate::Part;
use giusto_model::{BitRate, NetworkPlan, PacketBucket};
use giusto_network::{Limit, Network};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Part] = &[
    ("directions have buckets of their own", directions),
    ("a flow beside a flood of its own interface", beside),
    ("TCP beside UDP of its own interface", tcp),
    ("an uneven load that keeps to its bucket", uneven),
    ("bits", bits),
];

const RATE: f64 = 2000.0;
const BURST: f64 = 50.0;

fn limited() -> NetworkPlan {
    plan(&[], &[Wish { bucket: Some(("2000/s", "50")), ..high(0, 80, 1) }, low(1, 0)])
}

fn socket(stage: &Stage, guest: usize, port: u16) -> UdpSocket {
    stage.inside(&stage.guest(guest), || UdpSocket::bind((format!("10.77.0.{}", 10 + guest), port)).unwrap())
}

/// Sends to `to` as much as it can until `done`; in between, every 10 ms, one that is marked with 9. How many of each.
fn flood(socket: &UdpSocket, to: &str, marked: bool, done: &AtomicBool) -> (u32, u32) {
    let (begin, mut sent, mut mine) = (Instant::now(), 0, 0);
    while !done.load(Ordering::SeqCst) {
        for _ in 0..16 {
            sent += u32::from(socket.send_to(&[7], to).is_ok());
        }
        if marked && begin.elapsed().as_millis() / 10 > u128::from(mine) {
            let _ = socket.send_to(&[9], to);
            mine += 1;
        }
    }
    (sent, mine)
}

/// What has come by now: floods, and marked ones.
fn drain(socket: &UdpSocket, counts: &mut (u32, u32)) {
    let mut byte = [0; 1];
    socket.set_nonblocking(true).unwrap();
    while socket.recv(&mut byte).is_ok() {
        *(if byte[0] == 9 { &mut counts.1 } else { &mut counts.0 }) += 1;
    }
}

/// A flood from one guest to another, and beside it a packet every 10 ms, in a flow of its own or in that of the flood. What
/// arrived of the flood, what was sent and what arrived of the others, and for how long.
fn pair(stage: &Stage, (from, to): (usize, usize), own: bool) -> (u32, u32, u32, f64) {
    let (sender, receiver) = (socket(stage, from, 7001), socket(stage, to, 7001));
    let (other, others) = (socket(stage, from, 7002), socket(stage, to, 7002));
    let address = |port: u16| format!("10.77.0.{}:{port}", 10 + to);
    let done = AtomicBool::new(false);
    let (mut counts, mut sent) = ((0, 0), 0);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| flood(&sender, &address(7001), !own, &done));
        while begin.elapsed() < Duration::from_millis(1500) {
            std::thread::sleep(Duration::from_millis(10));
            if own {
                let _ = other.send_to(&[9], address(7002));
                sent += 1;
            }
            drain(&receiver, &mut counts);
            drain(&others, &mut counts);
        }
        done.store(true, Ordering::SeqCst);
        let (_, marked) = flood.join().unwrap();
        sent += marked;
    });
    std::thread::sleep(Duration::from_millis(100));
    drain(&receiver, &mut counts);
    drain(&others, &mut counts);
    (counts.0, sent, counts.1, begin.elapsed().as_secs_f64())
}

/// Dropped at the sender's own end, and where the kernel has fq also waiting there.
fn beside() {
    for queue in [false, true] {
        let stage = Stage::new(2);
        if !queue {
            stage.within(&stage.guest(0), "tc qdisc add dev eth0 root handle 1: pfifo limit 1000");
        }
        let before = stage.snapshot();
        stage.inside(&stage.host(), || {
            let mut record = Vec::new();
            let network = Network::apply(&limited(), &mut record).unwrap();
            let limit = status(&network, "v0").limit;
            if queue == (limit == Limit::Delay) {
                shared(&stage, limit);
            }
            drop(network);
            assert_undone(&stage, &record, &before);
        });
    }
}

fn shared(stage: &Stage, limit: Limit) {
    for (way, what) in [((0, 1), "sent"), ((1, 0), "received")] {
        // Whose sender others of this machine hold up is no flood: then once more.
        let is_flood = (0..5).any(|_| {
            let (flood, marked, control, _) = pair(stage, way, false);
            println!("  {limit}, {what}: in the flow of the flood {control} of {marked} arrived, of the flood {flood}");
            std::thread::sleep(Duration::from_millis(1200));
            control * 2 < marked
        });
        assert!(is_flood, "the control was no flood");
        let (flood, sent, arrived, length) = pair(stage, way, true);
        let most = BURST + RATE * (length + 0.025);
        println!(
            "  {limit}, {what}: in a flow of its own {arrived} of {sent}, of the flood {flood}; {most:.0} may in all"
        );
        // What is sent to it meets the flood in the ring of its sender, too, before any bucket.
        let least = if what == "sent" { 18 } else { 10 };
        assert!(arrived * 20 >= sent * least, "{what}: {arrived} of {sent}");
        assert!(f64::from(flood + arrived) <= most, "{what}: {flood} {arrived} {most}");
        // Nothing is lost of what the others leave.
        assert!(f64::from(flood) >= 0.6 * RATE * length, "{what}: {flood} in {length}");
        std::thread::sleep(Duration::from_millis(1200));
    }
}

/// What a flood to an interface takes, and what the interface sends meanwhile.
fn directions() {
    let stage = Stage::new(2);
    let before = stage.snapshot();
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let mut plan = limited();
        plan.vifs[0].received = Some(PacketBucket { rate: "100/s".parse().unwrap(), ..plan.vifs[0].bucket.unwrap() });
        let mut network = Network::apply(&plan, &mut record).unwrap();
        let done = AtomicBool::new(false);
        let back = socket(&stage, 1, 7001);
        let begin = Instant::now();
        let (arrived, flood) = std::thread::scope(|scope| {
            let flood = scope.spawn(|| flood(&back, "10.77.0.10:7001", false, &done));
            let arrived = stage.send(0, 1, 400, Duration::from_millis(800));
            done.store(true, Ordering::SeqCst);
            (arrived, flood.join().unwrap().0)
        });
        let length = begin.elapsed().as_secs_f64();
        let now = status(&network, "v0");
        println!("  beside {flood} that were sent to it {arrived} of 400 arrived that it sent; {now:?}");
        assert_eq!(arrived, 400, "{now:?}");
        let most = 400.0 + BURST + 100.0 * length;
        assert!(now.passed.unwrap() as f64 <= most + 10.0 && now.dropped.unwrap() > 100, "{now:?} {most}");
        assert_eq!(network.check(&mut record), Vec::<String>::new());
        drop(network);
        assert_undone(&stage, &record, &before);
    });
}

/// MB/s of a stream from guest 0 to guest 1 in a second.
fn stream(stage: &Stage) -> f64 {
    let listener = stage.inside(&stage.guest(1), || TcpListener::bind("10.77.0.11:7003").unwrap());
    let mut out = stage.inside(&stage.guest(0), || TcpStream::connect("10.77.0.11:7003").unwrap());
    let (mut taken, _) = listener.accept().unwrap();
    let begin = Instant::now();
    out.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    taken.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let block = vec![0; 1 << 16];
            while begin.elapsed() < Duration::from_secs(1) {
                let _ = out.write(&block);
            }
        });
        let (mut block, mut read) = (vec![0; 1 << 16], 0);
        while begin.elapsed() < Duration::from_secs(1) {
            read += taken.read(&mut block).unwrap_or(0);
        }
        read as f64 / begin.elapsed().as_secs_f64() / 1e6
    })
}

fn tcp() {
    let stage = Stage::new(2);
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let wish = Wish { bucket: Some(("5000/s", "64")), ..high(0, 80, 1) };
        let _network = Network::apply(&plan(&[], &[wish, low(1, 0)]), &mut record).unwrap();
        let alone = stream(&stage);
        let (sender, done) = (socket(&stage, 0, 7001), AtomicBool::new(false));
        let _receiver = socket(&stage, 1, 7001);
        let beside = std::thread::scope(|scope| {
            scope.spawn(|| flood(&sender, "10.77.0.11:7001", false, &done));
            std::thread::sleep(Duration::from_millis(500));
            // Its share is one of packets: half of the bucket. How large those are depends on its window, a segment at least.
            let beside = [(); 3].map(|()| stream(&stage));
            done.store(true, Ordering::SeqCst);
            beside
        });
        println!("  a stream alone {alone:.1} MB/s, beside a flood {beside:.1?}");
        let segments = 5000.0 / 4.0 * 1448.0 / 1e6; // of half of that share
        assert!(beside.into_iter().fold(0.0, f64::max) >= segments, "{beside:?} of {alone} MB/s");
        assert_eq!(giusto_network::undo(&record).failed, Vec::<String>::new());
    });
}

/// Nearly all of the burst goes to one flow at once, and the bucket is full again before the next time.
fn uneven() {
    let stage = Stage::new(2);
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let network = Network::apply(&limited(), &mut record).unwrap();
        let (one, other) = (socket(&stage, 0, 7001), socket(&stage, 0, 7002));
        let _receivers = (socket(&stage, 1, 7001), socket(&stage, 1, 7002));
        for turn in 0..60 {
            other.send_to(&[9], "10.77.0.11:7002").unwrap();
            std::thread::sleep(Duration::from_millis(5));
            (0..48 * (turn % 2)).for_each(|_| _ = one.send_to(&[7], "10.77.0.11:7001"));
            std::thread::sleep(Duration::from_millis(35));
        }
        let status = status(&network, "v0");
        assert_eq!(status.dropped, Some(0), "{status:?}");
        assert!(status.passed >= Some(60 + 30 * 48), "{status:?}");
        assert_eq!(giusto_network::undo(&record).failed, Vec::<String>::new());
    });
}

/// As many packets as are wanted, of few bits: large ones are limited by these, small ones by their number.
fn bits() {
    let stage = Stage::new(2);
    let before = stage.snapshot();
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let mut plan = plan(&[], &[Wish { bucket: Some(("2000/s", "50")), ..high(0, 80, 1) }, low(1, 0)]);
        plan.vifs[0].bucket =
            plan.vifs[0].bucket.map(|bucket| PacketBucket { bits: Some(BitRate::of(4_000_000)), ..bucket });
        let network = Network::apply(&plan, &mut record).unwrap();
        let _receiver = socket(&stage, 1, 7001);
        let sender = socket(&stage, 0, 7001);
        let passed = |size: usize| {
            let (begin, at) = (Instant::now(), status(&network, "v0").passed.unwrap());
            while begin.elapsed() < Duration::from_millis(1000) {
                let _ = sender.send_to(&vec![7; size], "10.77.0.11:7001");
                std::thread::sleep(Duration::from_micros(100));
            }
            let length = begin.elapsed().as_secs_f64();
            ((status(&network, "v0").passed.unwrap() - at) as f64, length)
        };
        // 50 packets of 1,514 bytes, and 500,000 bytes a second; those that wait at the sender have their tokens already.
        let ahead = if status(&network, "v0").limit == Limit::Delay { 1.0 } else { 0.0 };
        let (large, length) = passed(1000 - 42);
        let most = (50.0 * 1514.0 + 500_000.0 * (length + ahead)) / 1000.0;
        println!("  of 1,000 bytes {large} passed, at most {most:.0} may");
        assert!(large <= most + 1.0 && large >= 0.7 * (75.7 + 500.0 * length), "{large} {most}");
        std::thread::sleep(Duration::from_millis(1200));
        let (small, length) = passed(1);
        let most = BURST + RATE * (length + ahead);
        println!("  of 64 bytes {small} passed, at most {most:.0} may");
        assert!(small <= most + 1.0 && small >= 1.5 * large, "{small} {most}");
        drop(network);
        assert_undone(&stage, &record, &before);
    });
}
