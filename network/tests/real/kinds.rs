//! Kinds of interfaces without threads of their own, each as a real device: the refusal names another one, and that one keeps
//! what the first cannot.

use crate::parts::{assert_undone, status, until_well};
use crate::stage::{high, low, plan, run, Stage, Wish};
use crate::Part;
use giusto_network::{Network, Proof};
use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Part] =
    &[("kinds without threads", without), ("VLANs at an uplink", tagged), ("netkit", netkit)];

/// A kind: how `u0` of that kind is made on v0 in the host, and its counterpart in guest 0, where that is not eth0.
const KINDS: &[(&str, &[&str], &[&str])] = &[
    ("bridge", &["link add u0 type bridge", "link set v0 master u0"], &[]),
    ("macvlan", &["link add u0 link v0 type macvlan mode private"], &[]),
    ("macvtap", &["link add u0 link v0 type macvtap mode private"], &[]),
    ("ipvlan", &["link add u0 link v0 type ipvlan mode l2"], &[]),
    ("bond", &["link add u0 type bond mode active-backup", "link set v0 down", "link set v0 master u0"], &[]),
    ("vlan", &["link add u0 link v0 type vlan id 100"], &["link add e0 link eth0 type vlan id 100"]),
    (
        "vxlan",
        &["addr add 10.79.0.1/24 dev v0", "link add u0 type vxlan id 7 dev v0 remote 10.79.0.10 dstport 4789"],
        &["addr add 10.79.0.10/24 dev eth0", "link add e0 type vxlan id 7 dev eth0 remote 10.79.0.1 dstport 4789"],
    ),
];

/// Whether this kernel has it; says so if not.
fn exists(stage: &Stage, kind: &str, lower: &str) -> bool {
    let words = format!("-n {} link add try0 {lower} type {kind}", stage.host());
    let made = Command::new("ip").args(words.split_whitespace()).output().unwrap();
    if !made.status.success() {
        println!("  {kind} SKIPPED: {}", String::from_utf8_lossy(&made.stderr).trim());
        return false;
    }
    stage.ip("link del try0");
    true
}

fn make(stage: &Stage, host: &[&str], guest: &[&str]) {
    host.iter().for_each(|words| stage.ip(words));
    stage.ip("link set v0 up");
    guest.iter().for_each(|words| _ = stage.within(&stage.guest(0), &format!("ip {words}")));
    let end = if guest.is_empty() { "eth0" } else { "e0" };
    stage.ip("addr add 10.78.0.1/24 dev u0");
    stage.ip("link set u0 up");
    stage.within(&stage.guest(0), &format!("ip addr add 10.78.0.10/24 dev {end}"));
    stage.within(&stage.guest(0), &format!("ip link set {end} up"));
}

fn socket(namespace: &str, address: &str) -> UdpSocket {
    let socket = crate::stage::inside(namespace, || UdpSocket::bind(address).unwrap());
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    socket
}

fn arrived(socket: &UdpSocket) -> usize {
    std::iter::from_fn(|| socket.recv(&mut [0]).ok()).count()
}

/// Sends until something arrives: requests for addresses take a second to be repeated.
fn until_known(sender: &UdpSocket, receiver: &UdpSocket) {
    let end = Instant::now() + Duration::from_secs(10);
    let sent = std::iter::repeat_with(|| _ = sender.send_to(&[7], "10.78.0.1:7000"));
    let found = sent.take_while(|()| Instant::now() < end).any(|()| arrived(receiver) > 0);
    assert!(found, "nothing arrives at 10.78.0.1");
}

fn without() {
    let mut tried = 0;
    // A guest's sample: those that a host's own kernel may lack.
    let few = std::env::var_os("GIUSTO_FEW").is_some();
    for (kind, host, guest) in KINDS.iter().filter(|(kind, ..)| !few || ["bond", "ipvlan", "vlan"].contains(kind)) {
        let stage = Stage::new(1);
        let lower = if host[0].contains(" link v0 ") { "link v0" } else { "" };
        stage.ip("link set v0 nomaster");
        let kind_as = match *kind {
            "vxlan" => "vxlan id 9 dstport 4790",
            "vlan" => "vlan id 9",
            other => other,
        };
        if !exists(&stage, kind_as, lower) {
            continue;
        }
        tried += 1;
        make(&stage, host, guest);
        let before = stage.snapshot();
        stage.inside(&stage.host(), || {
            let mut record = Vec::new();
            // Named itself, in both classes and as an uplink, it is refused with the name of the one below.
            let named = Wish { name: "u0".into(), ..high(0, 80, 1) };
            let plain = Wish { name: "u0".into(), ..low(0, 1) };
            for plan in [plan(&[], &[named]), plan(&[], &[plain]), plan(&[("u0", 90, 1)], &[])] {
                let refused = status(&Network::apply(&plan, &mut record).unwrap(), "u0");
                let warning = refused.warning.unwrap_or_default();
                assert!(warning.contains(&format!("'u0' is {kind}: ")), "{warning}");
                assert!(warning.contains("by the threads of 'v0': name 'v0' instead"), "{warning}");
                assert!(refused.threads.is_empty(), "{:?}", refused.threads);
            }
            assert_eq!(record.len(), 0, "nothing is changed of it");
            // The one below has a thread for what goes through, and a bucket.
            let limited = Wish { bucket: Some(("200/s", "40")), ..high(0, 80, 1) };
            let mut network = Network::apply(&plan(&[], &[limited]), &mut record).unwrap();
            until_well(&mut network, &mut record);
            let receiver = (*kind != "macvtap").then(|| socket(&stage.host(), "10.78.0.1:7000"));
            let sender = socket(&stage.guest(0), "10.78.0.10:7000");
            if let Some(receiver) = &receiver {
                until_known(&sender, receiver);
            }
            let begin = Instant::now();
            // Beyond its end and its queue some may wait for tokens for a second.
            while begin.elapsed() < Duration::from_millis(500) {
                let _ = sender.send_to(&[7], "10.78.0.1:7000");
            }
            let arrived = receiver.map(|receiver| arrived(&receiver));
            let most = 40.0 + 200.0 * begin.elapsed().as_secs_f64();
            network.check(&mut record);
            let now = status(&network, "v0");
            println!(
                "  {kind}: {arrived:?} arrived by its bucket, at most {most:.0} may; {}, {:?} passed",
                now.proof, now.passed
            );
            match arrived {
                Some(arrived) => {
                    assert!(arrived as f64 <= most && arrived >= 20, "{arrived} {most} {now:?}");
                    assert_eq!(now.proof, Proof::Moved, "{now:?}");
                }
                // A program has to read it. What passes may be released a second later.
                None => assert!(now.passed.unwrap() as f64 <= most + 200.0, "{now:?}"),
            }
            drop(network);
            assert_undone(&stage, &record, &before);
        });
    }
    assert!(tried >= 3, "only {tried} kinds could be made");
}

/// What is not for the high class is handed to another thread, and stays in its VLAN.
fn tagged() {
    let stage = Stage::new(2);
    stage.ip("link set v0 nomaster");
    if !exists(&stage, "vlan id 100", "link v0") {
        return;
    }
    let (_, host, guest) = KINDS.iter().find(|(kind, ..)| *kind == "vlan").unwrap();
    make(&stage, host, guest);
    let before = stage.snapshot();
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let mut network = Network::apply(&plan(&[("v0", 90, 1)], &[high(1, 80, 1)]), &mut record).unwrap();
        until_well(&mut network, &mut record);
        assert_eq!(status(&network, "v0").limit, giusto_network::Limit::Sort);
        let receiver = socket(&stage.host(), "10.78.0.1:7000");
        let sender = socket(&stage.guest(0), "10.78.0.10:7000");
        until_known(&sender, &receiver);
        // Without its tag a packet would come to v0, and to the socket from there.
        let tagged = || {
            let read = stage.within(&stage.host(), "cat /sys/class/net/u0/statistics/rx_packets");
            read.trim().parse::<u64>().unwrap()
        };
        let before_them = tagged();
        for _ in 0..50 {
            sender.send_to(&[7], "10.78.0.1:7000").unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        let (arrived, tagged) = (arrived(&receiver), tagged() - before_them);
        println!("  of 50 {arrived} arrived, {tagged} in their VLAN");
        assert!(arrived >= 45 && tagged >= 45, "{arrived} {tagged}");
        drop(network);
        assert_undone(&stage, &record, &before);
    });
}

/// Its packets are processed where they are sent; there is none below it.
fn netkit() {
    let stage = Stage::new(1);
    if !exists(&stage, "netkit", "") {
        return;
    }
    stage.ip("link add u0 type netkit");
    run(&["ip", "-n", &stage.host(), "link", "set", "u0", "up"]);
    stage.inside(&stage.host(), || {
        let named = Wish { name: "u0".into(), ..high(0, 80, 1) };
        let mut record = Vec::new();
        let refused = status(&Network::apply(&plan(&[], &[named]), &mut record).unwrap(), "u0");
        let warning = refused.warning.unwrap_or_default();
        assert!(warning.contains("'u0' is netkit") && warning.contains("give the service a veth pair"), "{warning}");
        assert_eq!(record.len(), 0);
    });
}
