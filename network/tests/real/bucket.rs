//! The packet bucket: never more than b + r t in each direction, changed while it works.

use crate::parts::{assert_undone, status};
use crate::stage::{high, low, plan, Stage, Wish};
use crate::Part;
use giusto_model::PacketUnit;
use giusto_network::{Limit, Network};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Part] = &[("bucket", bucket), ("what a bucket counts", units), ("waiting for tokens", waiting)];

/// With a queue of its own at the sender's end nothing waits there for tokens, whatever the kernel has.
fn staged() -> Stage {
    let stage = Stage::new(2);
    stage.within(&stage.guest(0), "tc qdisc add dev eth0 root handle 1: pfifo limit 1000");
    stage
}

fn limited(rate: &'static str, burst: &'static str) -> [Wish; 2] {
    [Wish { bucket: Some((rate, burst)), ..high(0, 80, 1) }, low(1, 0)]
}

fn bucket() {
    let stage = staged();
    let before = stage.snapshot();
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let counts = |network: &Network| {
            let status = status(network, "v0");
            (status.passed.unwrap(), status.dropped.unwrap())
        };
        let begin = Instant::now();
        let mut network = Network::apply(&plan(&[], &limited("2000/s", "100")), &mut record).unwrap();
        assert_eq!(status(&network, "v0").limit, Limit::DropSent);
        let arrived = stage.send(0, 1, 3000, Duration::from_millis(500));
        let most = 100.0 + 2000.0 * begin.elapsed().as_secs_f64();
        let (passed, dropped) = counts(&network);
        println!("  2000/s, 100 at once: of 3000 in 0.5 s {passed} passed (at most {most:.0} may), {arrived} arrived, {dropped} dropped");
        assert!(passed as f64 <= most && passed > 600 && dropped > 500, "{passed} {dropped}");
        // A few are not ours: neighbours look for each other.
        assert!((3000..3040).contains(&(passed + dropped)) && u64::from(arrived) <= passed && u64::from(arrived) + 40 > passed);
        // Hardly any rate: what the burst lets through in each direction, and no token by the change.
        let begin = Instant::now();
        network.set(&plan(&[], &limited("10/s", "50")), &mut record).unwrap();
        let there = stage.send(0, 1, 200, Duration::from_millis(20));
        let back = stage.send(1, 0, 200, Duration::from_millis(20));
        let most = 50.0 + 10.0 * begin.elapsed().as_secs_f64();
        println!("  10/s, 50 at once: {there} there and {back} back (at most {most:.0} of each may)");
        // What is refused to one flow beside the packets of neighbours leaves half of the burst.
        assert!(f64::from(there.max(back)) <= most && there.min(back) >= 20, "{there} {back} {most}");
        // Wide again.
        network.set(&plan(&[], &limited("1M/s", "10000")), &mut record).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let wide = (0..4).any(|_| stage.send(0, 1, 1000, Duration::from_millis(100)) >= 950);
        assert!(wide, "a wide bucket lets hardly anything through");
        drop(network);
        assert_undone(&stage, &record, &before);
    });
}

/// Where the kernel has fq, what a guest sends waits at its own end: nothing is lost, and no more comes than b + r t.
fn waiting() {
    let stage = Stage::new(2);
    let before = stage.snapshot();
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let begin = Instant::now();
        let network = Network::apply(&plan(&[], &limited("200/s", "20")), &mut record).unwrap();
        let limit = status(&network, "v0").limit;
        if limit != Limit::Delay {
            println!("  no fq here: {limit}");
            assert_eq!(limit, Limit::DropSent);
            return;
        }
        let arrived = stage.send(0, 1, 60, Duration::from_millis(20));
        let most = 20.0 + 200.0 * begin.elapsed().as_secs_f64();
        std::thread::sleep(Duration::from_millis(300));
        let status = status(&network, "v0");
        println!("  200/s, 20 at once: of 60 at once {arrived} were there at first (at most {most:.0} may), {:?} were dropped", status.dropped);
        assert!(f64::from(arrived) <= most && arrived < 60, "{arrived} {most}");
        assert_eq!(status.dropped, Some(0));
        assert!(status.passed >= Some(60), "{status:?}");
        drop(network);
        assert_undone(&stage, &record, &before);
    });
}

/// Ten packets in one buffer are one or ten.
fn units() {
    for (unit, passes) in [(PacketUnit::Skb, 20), (PacketUnit::Segment, 10)] {
        let stage = staged();
        stage.inside(&stage.host(), || {
            let mut record = Vec::new();
            let mut plan = plan(&[], &limited("1/s", "100"));
            plan.count = unit;
            let network = Network::apply(&plan, &mut record).unwrap();
            let socket = stage.inside(&stage.guest(0), || std::net::UdpSocket::bind("10.77.0.10:7000").unwrap());
            // Else there would be answers that no process listens.
            let _receiver = stage.inside(&stage.guest(1), || std::net::UdpSocket::bind("10.77.0.11:7000").unwrap());
            const UDP_SEGMENT: i32 = 103;
            let size = 8i32;
            // SAFETY: an int of four bytes, as told.
            let done = unsafe {
                libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, UDP_SEGMENT, (&raw const size).cast(), 4)
            };
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
            for _ in 0..20 {
                let _ = socket.send_to(&[7; 80], "10.77.0.11:7000");
                std::thread::sleep(Duration::from_millis(2));
            }
            std::thread::sleep(Duration::from_millis(20));
            let status = status(&network, "v0");
            println!("  {unit}: {:?} of 20 buffers of 10 packets passed, {:?} dropped", status.passed, status.dropped);
            // Neighbours that look for each other may be among them, and take a token each.
            let (passed, dropped) = (status.passed.unwrap(), status.dropped.unwrap());
            assert!((passes - 1..passes + 4).contains(&passed) && passed + dropped >= 20, "{status:?}");
            let _ = giusto_network::undo(&record);
        });
    }
}
