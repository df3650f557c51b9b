//! An interface with several queues: the thread of each is where the plan says, also of queues that come later.

use crate::parts::{assert_undone, status, until_well};
use crate::stage::{high, low, plan, run, threads, Stage};
use crate::Part;
use giusto_network::{cpu_time_ns, Limit, Network, Proof, Thread};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Part] = &[("several queues", several), ("a card with several queues", card)];

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
    tids.iter().filter_map(|tid| Thread::of(*tid)).map(cpu_time_ns).collect()
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

/// Where the interrupts of the card that is v0 may arrive.
fn interrupts(stage: &Stage) -> Vec<String> {
    const LOOK: &str = "cd $(readlink -f /sys/class/net/v0/device)/..; for n in $(ls msi_irqs | sort -n); do \
        echo $n on $(cat /proc/irq/$n/smp_affinity_list); done";
    run(&["ip", "netns", "exec", &stage.host(), "sh", "-c", LOOK]).lines().map(String::from).collect()
}

/// A real card of which each queue has an interrupt, with fewer queues in use than it has. `GIUSTO_CARDS="eth0 eth1"`: two of
/// this machine that are connected with each other, virtio ones, for this test alone.
fn card() {
    let cards = std::env::var("GIUSTO_CARDS").unwrap_or_default();
    let Some((near, far)) = cards.split_once(' ') else {
        println!("  SKIPPED: GIUSTO_CARDS names no two cards; tests/packets-guest.sh has them");
        return;
    };
    let stage = Stage::new(3);
    let (host, remote) = (stage.host(), stage.guest(0));
    stage.ip("link del v0");
    run(&["ip", "link", "set", near, "netns", &host, "name", "v0"]);
    run(&["ip", "link", "set", far, "netns", &remote, "name", "eth0"]);
    stage.ip("link set v0 master br0 up");
    stage.within(&remote, "ip link set eth0 address 02:00:00:00:77:0a up");
    stage.within(&remote, "ip addr add 10.77.0.10/24 dev eth0");
    for guest in [1, 2] {
        let known = format!("10.77.0.{} lladdr 02:00:00:00:77:{:02x} dev eth0", 10 + guest, 10 + guest);
        stage.within(&remote, &format!("ip neigh replace {known} nud permanent"));
    }
    stage.within(&host, "ethtool -L v0 combined 2");
    // Kernels before 6.17 keep the threads, once there are any.
    for on in [1, 0] {
        stage.within(&host, &format!("sh -c echo${{IFS}}{on}>/sys/class/net/v0/threaded"));
    }
    let (before, arrived_at) = (stage.snapshot(), interrupts(&stage));
    println!("  interrupts: {}", arrived_at.join(", "));
    stage.inside(&host, || {
        let mut record = Vec::new();
        let goal = plan(&[("v0", 90, 1)], &[high(1, 80, 1), low(2, 1)]);
        let mut network = Network::apply(&goal, &mut record).unwrap();
        until_well(&mut network, &mut record);
        assert_eq!(status(&network, "v0").limit, Limit::Sort);
        let of_card = || threads().into_iter().filter(|thread| thread.starts_with("napi/v0 ")).collect::<Vec<_>>();
        println!("  {} threads: {:?}", of_card().len(), of_card()[0]);
        assert!(
            of_card().len() >= 2 && of_card().iter().all(|thread| thread == "napi/v0 FF 90 on 1"),
            "{:?}",
            of_card()
        );
        let elsewhere = || interrupts(&stage).into_iter().filter(|one| !one.ends_with(" on 1")).collect::<Vec<_>>();
        assert_eq!(elsewhere(), Vec::<String>::new());
        // Both queues have work, as flows are spread over them.
        let before_any = ran(&network, "v0");
        let passed = status(&network, "v0").passed.unwrap();
        let receiver = stage.inside(&stage.guest(1), || UdpSocket::bind("10.77.0.11:7000").unwrap());
        receiver.set_nonblocking(true).unwrap();
        // A socket has room for 49, as each is in a page of its own.
        let read = |wait| {
            std::thread::sleep(Duration::from_millis(wait));
            std::iter::from_fn(|| receiver.recv(&mut [0]).ok()).count()
        };
        let flow = |_| {
            let sender = stage.inside(&remote, || UdpSocket::bind("10.77.0.10:0").unwrap());
            (0..4).for_each(|_| _ = sender.send_to(&[7], "10.77.0.11:7000"));
            read(5)
        };
        let arrived = (0..32).map(flow).sum::<usize>() + read(500);
        drop(receiver);
        let busy = ran(&network, "v0").iter().zip(&before_any).filter(|(now, then)| now > then).count();
        let first = status(&network, "v0").passed.unwrap() - passed;
        println!("  of 128 in 32 flows {arrived} arrived, {first} were processed first, in {busy} threads");
        assert!(arrived >= 120 && first >= 120 && busy >= 2, "{arrived} {first} {busy}");
        std::thread::sleep(Duration::from_millis(1000));
        assert_eq!(network.check(&mut record), Vec::<String>::new());
        assert_eq!(status(&network, "v0").proof, Proof::Moved);
        // While nothing happens it is not looked at again and again.
        for _ in 0..15 {
            network.check(&mut record);
            assert!(!network.is_behind(), "it is looked at although nothing has happened");
            std::thread::sleep(Duration::from_millis(200));
        }
        // Sent elsewhere by another program, they come back soon. One that was where the plan wants it belongs to that
        // program then.
        for one in arrived_at.iter().filter(|one| !one.ends_with(" on 1")) {
            let number = one.split(' ').next().unwrap();
            std::fs::write(format!("/proc/irq/{number}/smp_affinity_list"), "0").unwrap();
        }
        let end = Instant::now() + Duration::from_secs(5);
        while !elsewhere().is_empty() {
            assert!(Instant::now() < end, "{:?}", elsewhere());
            network.check(&mut record);
            std::thread::sleep(Duration::from_millis(100));
        }
        network.clear().unwrap();
        assert_undone(&stage, &record, &before);
        assert_eq!(interrupts(&stage), arrived_at);
        let link = stage.within(&host, "ip -d link show v0");
        assert!(!link.contains("xdp"), "{link}");
    });
}
