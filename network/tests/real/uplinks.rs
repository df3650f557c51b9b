//! What arrives at an uplink is sorted: a flood for others does not hold up what is for the high class.

use crate::parts::{assert_undone, status, until_well};
use crate::stage::{high, low, plan, Stage, Wish};
use crate::Part;
use giusto_model::{Bucket, NetworkPlan};
use giusto_network::{Limit, Network};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Part] = &[
    ("arrivals are sorted", sorted),
    ("IPv6", over_v6),
    ("arrivals in VXLAN", in_vxlan),
    ("arrivals that the host routes", routed),
    ("another program sorts already", taken),
];

const RATE: f64 = 2000.0;
const BURST: f64 = 50.0;

/// Guest 0 is the remote machine, guest 1 of the high class, guest 2 of the low one.
fn with_uplink() -> NetworkPlan {
    let guest = Wish { bucket: Some(("1000/s", "40")), ..high(1, 70, 1) };
    let mut plan = plan(&[("v0", 90, 1)], &[guest, low(2, 1)]);
    plan.uplinks[0].uplink.bucket = Bucket { rate: "2000/s".parse().unwrap(), depth: "50".parse().unwrap() };
    plan
}

/// Sends as many packets as it can from guest 0 to another one, several times what the bucket allows at least; how many.
fn flood(stage: &Stage, to: usize, length: Duration) -> u64 {
    stage.inside(&stage.guest(0), || {
        let socket = UdpSocket::bind("10.77.0.10:0").unwrap();
        let (begin, mut sent) = (Instant::now(), 0);
        while begin.elapsed() < length || sent < 4000 {
            sent += u64::from(socket.send_to(&[7], format!("10.77.0.{}:7001", 10 + to)).is_ok());
        }
        sent
    })
}

fn sorted() {
    let stage = Stage::new(3);
    let before = stage.snapshot();
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let mut network = Network::apply(&with_uplink(), &mut record).unwrap();
        until_well(&mut network, &mut record);
        let counts = |network: &Network| {
            let status = status(network, "v0");
            assert_eq!(status.limit, Limit::Sort, "{status:?}");
            (status.passed.unwrap(), status.dropped.unwrap())
        };
        let arrived = stage.send(0, 2, 300, Duration::from_millis(300));
        assert_eq!(arrived, 300, "of 300 for the low class");
        // The thread without a priority has taken all of them.
        let end = Instant::now() + Duration::from_secs(10);
        while counts(&network).1 > 0 {
            assert!(Instant::now() < end, "{} were handed over and never taken", counts(&network).1);
            std::thread::sleep(Duration::from_millis(20));
        }
        let (passed, _) = counts(&network);
        let sent = flood(&stage, 2, Duration::from_millis(500));
        let (more, dropped) = counts(&network);
        println!("  of {sent} for the low class {} were processed first, {dropped} dropped or waiting", more - passed);
        assert!(more - passed < 20, "{sent} {more} {passed}");
        // Within its bucket all of it arrives, also beside a flood.
        let (arrived, _) = std::thread::scope(|scope| {
            let flood = scope.spawn(|| flood(&stage, 2, Duration::from_secs(1)));
            let arrived = stage.send(0, 1, 500, Duration::from_millis(900));
            (arrived, flood.join().unwrap())
        });
        let (now, _) = counts(&network);
        println!("  500 for the high class beside a flood: {arrived} arrived, {} were processed first", now - more);
        assert_eq!((arrived, now - more >= 500), (500, true), "{now} {more}");
        // A flood for the high class itself is processed first as far as its bucket allows.
        let begin = Instant::now();
        let sent = flood(&stage, 1, Duration::from_millis(500));
        let (last, _) = counts(&network);
        let most = 40.0 + 1000.0 * begin.elapsed().as_secs_f64() + 20.0;
        println!("  of {sent} for the high class {} were processed first, at most {most:.0} may", last - now);
        assert!((last - now) as f64 <= most.min(BURST + RATE * begin.elapsed().as_secs_f64() + 20.0));
        network.clear().unwrap();
        assert_undone(&stage, &record, &before);
        let link = stage.within(&stage.host(), "ip -d link show v0");
        assert!(!link.contains("xdp"), "{link}");
    });
}

/// What arrives over IPv6 is sorted, and what is sent is limited, as over IPv4.
fn over_v6() {
    if std::fs::metadata("/proc/sys/net/ipv6").is_err() {
        println!("  SKIPPED: this kernel has no IPv6");
        return;
    }
    let stage = Stage::new(3);
    let address = |guest: usize| format!("fd77::{}", 10 + guest);
    for guest in 0..3 {
        let inside = stage.guest(guest);
        stage.within(&inside, "sh -c echo${IFS}0>/proc/sys/net/ipv6/conf/eth0/disable_ipv6");
        stage.within(&inside, &format!("ip addr add {}/64 dev eth0 nodad", address(guest)));
        for other in 0..3 {
            let card = format!("02:00:00:00:77:{:02x}", 10 + other);
            let known = format!("ip neigh replace {} lladdr {card} dev eth0 nud permanent", address(other));
            stage.within(&inside, &known);
        }
    }
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let mut network = Network::apply(&with_uplink(), &mut record).unwrap();
        until_well(&mut network, &mut record);
        let socket = |guest: usize, port: u16| {
            stage.inside(&stage.guest(guest), || UdpSocket::bind((address(guest).as_str(), port)).unwrap())
        };
        let arrived = |socket: &UdpSocket| {
            socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            std::iter::from_fn(|| socket.recv(&mut [0]).ok()).count()
        };
        let of = |network: &Network, name: &str| {
            let now = status(network, name);
            (now.passed.unwrap(), now.dropped.unwrap())
        };
        // 30 for the high class, and as many for the low one, from outside.
        let (remote, high, low) = (socket(0, 7000), socket(1, 7000), socket(2, 7000));
        let before = of(&network, "v0").0;
        for to in [1, 2] {
            (0..30).for_each(|_| _ = remote.send_to(&[7], (address(to).as_str(), 7000)).unwrap());
        }
        assert_eq!((arrived(&high), arrived(&low)), (30, 30));
        let first = of(&network, "v0").0 - before;
        assert!((30..40).contains(&first), "{first} were processed first");
        // 400 at once from the high class, whose bucket has 40.
        let (begin, before) = (Instant::now(), of(&network, "v1"));
        (0..400).for_each(|_| _ = high.send_to(&[7], (address(2).as_str(), 7000)));
        let (arrived, now) = (arrived(&low), of(&network, "v1"));
        let most = 40.0 + 1000.0 * begin.elapsed().as_secs_f64();
        println!(
            "  {first} of 60 were processed first; of 400 beyond its bucket {arrived} arrived, at most {most:.0} may"
        );
        assert!(arrived as f64 <= most && now.1 > before.1, "{before:?} {now:?}");
        network.clear().unwrap();
        assert_eq!(giusto_network::undo(&record).failed, Vec::<String>::new());
    });
}

/// Sends as many to the high class and to the low one from outside; how many the uplink's thread processed first.
fn first_of(stage: &Stage) -> u64 {
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let mut network = Network::apply(&with_uplink(), &mut record).unwrap();
        until_well(&mut network, &mut record);
        assert_eq!(status(&network, "v0").limit, Limit::Sort);
        let passed = |network: &Network| status(network, "v0").passed.unwrap();
        // Until addresses are known, and the uplink has been told.
        let end = Instant::now() + Duration::from_secs(10);
        while stage.send(0, 1, 4, Duration::from_millis(4)) + stage.send(0, 2, 4, Duration::from_millis(4)) < 8 {
            assert!(Instant::now() < end, "nothing arrives");
        }
        for _ in 0..25 {
            network.check(&mut record);
            std::thread::sleep(Duration::from_millis(100));
        }
        let before = passed(&network);
        for to in [1, 2] {
            assert_eq!(stage.send(0, to, 30, Duration::from_millis(60)), 30, "of 30 to guest {to}");
        }
        let first = passed(&network) - before;
        println!("  {first} of 60 were processed first");
        network.clear().unwrap();
        assert_eq!(giusto_network::undo(&record).failed, Vec::<String>::new());
        first
    })
}

/// What comes in VXLAN is of the class of the packet within.
fn in_vxlan() {
    for port in [4789, 8472] {
        let stage = Stage::new(3);
        let remote = stage.guest(0);
        let tunnel = |dev: &str, to: &str| format!("type vxlan id 7 dev {dev} remote 10.79.0.{to} dstport {port}");
        stage.ip("link set v0 nomaster");
        stage.ip("addr add 10.79.0.1/24 dev v0");
        stage.ip(&format!("link add u0 {}", tunnel("v0", "10")));
        stage.ip("link set u0 master br0 up");
        // The remote machine's address is at its end of the tunnel.
        stage.within(&remote, "ip addr flush dev eth0");
        stage.within(&remote, "ip link set eth0 address 02:00:00:00:79:0a");
        stage.within(&remote, "ip addr add 10.79.0.10/24 dev eth0");
        stage.within(&remote, &format!("ip link add e0 {}", tunnel("eth0", "1")));
        stage.within(&remote, "ip link set e0 address 02:00:00:00:77:0a up");
        stage.within(&remote, "ip addr add 10.77.0.10/24 dev e0");
        let first = first_of(&stage);
        assert!((30..40).contains(&first), "{first} were processed first, port {port}");
    }
}

/// Behind a bridge that the host routes to, neighbours are known at the bridge, not at its ports.
fn routed() {
    let stage = Stage::new(3);
    let (host, remote) = (stage.host(), stage.guest(0));
    stage.ip("link set v0 nomaster");
    stage.ip("addr add 10.79.0.1/24 dev v0");
    stage.within(&host, "sh -c echo${IFS}1>/proc/sys/net/ipv4/ip_forward");
    stage.within(&remote, "ip addr del 10.77.0.10/24 dev eth0");
    stage.within(&remote, "ip addr add 10.79.0.10/24 dev eth0");
    stage.within(&remote, "ip addr add 10.77.0.10/32 dev lo");
    stage.within(&remote, "ip link set lo up");
    stage.within(&remote, "ip route add 10.77.0.0/24 via 10.79.0.1 src 10.77.0.10");
    let first = first_of(&stage);
    assert!((30..40).contains(&first), "{first} were processed first");
}

/// It stays, and what is not limited then is told.
fn taken() {
    let stage = Stage::new(3);
    stage.inside(&stage.host(), || {
        let first = Network::apply(&with_uplink(), &mut Vec::new()).unwrap();
        assert_eq!(status(&first, "v0").limit, Limit::Sort);
        let mut record = Vec::new();
        let mut network = Network::apply(&with_uplink(), &mut record).unwrap();
        let wrong = network.check(&mut record);
        assert!(wrong.iter().any(|text| text.contains("what arrives at v0 is not limited")), "{wrong:?}");
        drop(first);
        let end = Instant::now() + Duration::from_secs(10);
        while status(&network, "v0").limit != Limit::Sort {
            assert!(Instant::now() < end, "it is not tried again");
            network.check(&mut record);
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}
