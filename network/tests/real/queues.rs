//! An interface with several queues: the thread of each is where the plan says, also of queues that come later.

use crate::parts::{assert_undone, status, until_well};
use crate::stage::{high, plan, threads, Stage};
use crate::Part;
use giusto_network::{Network, Thread};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Part] = &[("several queues", several)];

/// A pair with so many queues at both ends, in the place of another.
fn plug(stage: &Stage, guest: usize, queues: u32) {
    stage.ip(&format!("link del v{guest}"));
    let many = format!("numtxqueues {queues} numrxqueues {queues}");
    let inside = stage.guest(guest);
    stage.ip(&format!("link add v{guest} {many} type veth peer name eth0 netns {inside} {many}"));
    stage.ip(&format!("link set v{guest} master br0 up"));
    stage.within(&inside, &format!("ip link set eth0 address 02:00:00:00:77:{:02x} up", 10 + guest));
    stage.within(&inside, &format!("ip addr add 10.77.0.{}/24 dev eth0", 10 + guest));
}

/// What each thread has had of the processor, where it has had any since.
fn ran(network: &Network, name: &str) -> Vec<u64> {
    let tids = status(network, name).threads;
    tids.iter().filter_map(|tid| Thread::of(*tid)).map(Thread::cpu_time_ns).collect()
}

fn until_threads(network: &mut Network, expected: &[&str]) {
    let end = Instant::now() + Duration::from_secs(5);
    let mut record = Vec::new();
    while threads() != expected {
        assert!(Instant::now() < end, "{:?}, expected {expected:?}", threads());
        network.check(&mut record);
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn several() {
    let stage = Stage::new(2);
    plug(&stage, 0, 4);
    plug(&stage, 1, 2);
    let before = stage.snapshot();
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let mut network = Network::apply(&plan(&[("v0", 90, 1)], &[high(1, 80, 0)]), &mut record).unwrap();
        let (eth0, v0, v1) = ("napi/eth0 FF 80 on 0", "napi/v0 FF 90 on 1", "napi/v1 FF 80 on 0");
        assert_eq!(threads(), [eth0, eth0, v0, v0, v0, v0, v1, v1]);
        assert_eq!((status(&network, "v0").threads.len(), status(&network, "v1").threads.len()), (4, 4));
        // All of them have work: the kernel spreads flows.
        let before_any = ran(&network, "v0");
        let receiver = stage.inside(&stage.guest(1), || UdpSocket::bind("10.77.0.11:7000").unwrap());
        for _ in 0..64 {
            let sender = stage.inside(&stage.guest(0), || UdpSocket::bind("10.77.0.10:0").unwrap());
            (0..4).for_each(|_| _ = sender.send_to(&[7], "10.77.0.11:7000"));
        }
        std::thread::sleep(Duration::from_millis(100));
        drop(receiver);
        let busy = ran(&network, "v0").iter().zip(&before_any).filter(|(now, then)| now > then).count();
        assert_eq!(busy, 4, "threads of v0 that ran");
        // The bound of an interface counts on its packets staying in order.
        let wrong = network.check(&mut record).join("; ");
        assert!(wrong.contains("v1 has 2 queues") && wrong.contains("ethtool -L v1 rx 1 tx 1"), "{wrong}");
        assert!(!wrong.contains("v0"), "{wrong}");
        // Queues go, and come.
        let queues = |many: u32| {
            stage.within(&stage.guest(0), &format!("ethtool -L eth0 rx {many} tx {many}"));
            stage.within(&stage.host(), &format!("ethtool -L v0 rx {many} tx {many}"));
        };
        queues(2);
        until_threads(&mut network, &[eth0, eth0, v0, v0, v1, v1]);
        stage.within(&stage.host(), "ethtool -L v0 rx 4 tx 4");
        stage.within(&stage.guest(0), "ethtool -L eth0 rx 4 tx 4");
        until_threads(&mut network, &[eth0, eth0, v0, v0, v0, v0, v1, v1]);
        // With one queue the bound holds.
        // Of a link that goes down and up an event tells, of queues not always.
        let change = |many: u32| {
            stage.within(&stage.guest(1), &format!("ethtool -L eth0 rx {many} tx {many}"));
            stage.within(&stage.host(), &format!("ethtool -L v1 rx {many} tx {many}"));
            stage.ip("link set v1 down");
            stage.ip("link set v1 up");
        };
        change(1);
        until_threads(&mut network, &[eth0, v0, v0, v0, v0, v1]);
        until_well(&mut network, &mut record);
        change(2);
        until_threads(&mut network, &[eth0, eth0, v0, v0, v0, v0, v1, v1]);
        drop(network);
        assert_undone(&stage, &record, &before);
    });
}
