//! Processing moves to the threads of the plan, stays there whatever happens to the links, and goes back.

use crate::stage::{difference, high, is_attached, low, plan, run, threads, Stage};
use crate::Part;
use giusto_network::{undo, LinkStatus, Network, Proof, Undo};
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Part] = &[
    ("moved", moved),
    ("passed by", passed_by),
    ("link events", link_events),
    ("a new interface under an old name", new_interface),
    ("renamed interfaces", renamed),
    ("interfaces in another namespace", moved_away),
    ("what stays different is told", left),
    ("a filter of others", filter_of_others),
    ("reload", reload),
    ("rebalance", rebalance),
    ("tap with NAPI", tap),
];

pub(crate) fn status(network: &Network, name: &str) -> LinkStatus {
    network.status().into_iter().find(|status| status.name == name).unwrap()
}

/// Looks after the network until all that has happened was looked at; what is wrong then. Trying to undo something is an event,
/// too.
pub(crate) fn checked(network: &mut Network, record: &mut Vec<Undo>) -> Vec<String> {
    let end = Instant::now() + Duration::from_secs(2);
    loop {
        let wrong = network.check(record);
        if !network.is_behind() || Instant::now() > end {
            return wrong;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Looks after the network until nothing is wrong, for three seconds at most.
pub(crate) fn until_well(network: &mut Network, record: &mut Vec<Undo>) {
    let end = Instant::now() + Duration::from_secs(3);
    loop {
        let wrong = checked(network, record);
        if wrong.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "{wrong:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn assert_undone(stage: &Stage, record: &[Undo], before: &[String]) {
    for turn in 0..2 {
        let report = undo(record);
        assert_eq!(report.failed, Vec::<String>::new(), "turn {turn}");
        assert_eq!(difference(before, &stage.snapshot()), Vec::<String>::new(), "turn {turn}");
    }
}

/// NET_RX softirqs of all cores so far.
fn softirqs() -> u64 {
    let text = std::fs::read_to_string("/proc/softirqs").unwrap();
    let line = text.lines().find(|line| line.trim_start().starts_with("NET_RX:")).unwrap();
    line.split_whitespace().skip(1).map(|number| number.parse::<u64>().unwrap()).sum()
}

fn moved() {
    let stage = Stage::new(3);
    let before = stage.snapshot();
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let plan = plan(&[("v2", 90, 1)], &[high(0, 80, 1), low(1, 0)]);
        let packets = 4000;
        // So that the bridge knows where each is, and floods no other port.
        stage.send(1, 0, 20, Duration::from_millis(20));
        let without = {
            let at = softirqs();
            stage.send(0, 1, packets, Duration::from_millis(400));
            softirqs() - at
        };
        let mut network = Network::apply(&plan, &mut record).unwrap();
        assert!(network.status().iter().all(|status| status.proof == Proof::Idle), "{:?}", network.status());
        // Others' packets are on this machine too, and only add.
        let once = || {
            let at = softirqs();
            let arrived = stage.send(0, 1, packets, Duration::from_millis(400));
            (softirqs() - at, arrived)
        };
        let (with, arrived) = (0..5).map(|_| once()).find(|(with, _)| *with < without / 4).unwrap_or_else(once);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(network.check(&mut record), Vec::<String>::new());
        println!("  {packets} sent, {arrived} arrived; NET_RX softirqs {without} without threads, {with} with");
        assert!(arrived > packets / 2);
        // Polls were softirqs, and are none now.
        assert!(without > u64::from(packets) / 2 && with < without / 4, "{without} {with}");
        for (name, class) in [("v0", "FF 80 on 1"), ("v1", "TS - on 0")] {
            let status = status(&network, name);
            assert_eq!((&status.proof, status.threads.len()), (&Proof::Moved, 2), "{status:?}");
            assert!(threads().contains(&format!("napi/{name} {class}")), "{:?}", threads());
            assert!(threads().contains(&format!("napi/eth0 {class}")), "{:?}", threads());
            let offloads = stage.within(&stage.guest(usize::from(name == "v1")), "ethtool -k eth0");
            assert!(
                offloads.contains("tcp-segmentation-offload: off") && offloads.contains("generic-receive-offload: on")
            );
        }
        assert!(threads().contains(&"napi/v2 FF 90 on 1".to_string()), "{:?}", threads());
        assert_eq!(status(&network, "v2").threads.len(), 1, "an uplink's other end is not ours");
        let sent = status(&network, "v0").passed.unwrap();
        assert!(sent >= u64::from(arrived) && status(&network, "v0").dropped == Some(0), "{sent}");
        // Applied once more, nothing is left to do.
        let records = record.len();
        network.set(&plan, &mut record).unwrap();
        assert_eq!(record.len(), records);
        drop(network); // its XDP program goes with it
        assert_undone(&stage, &record, &before);
    });
}

/// With TSO at the sending end packets pass the thread by: it is seen, put right, and seen to be right.
fn passed_by() {
    let stage = Stage::new(2);
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let mut network = Network::apply(&plan(&[], &[high(0, 80, 1), low(1, 0)]), &mut record).unwrap();
        stage.within(&stage.guest(0), "ethtool -K eth0 tso on");
        stage.send(0, 1, 500, Duration::from_millis(50));
        network.check(&mut record);
        assert!(matches!(status(&network, "v0").proof, Proof::NotMoved { .. }), "{:?}", status(&network, "v0"));
        let offloads = stage.within(&stage.guest(0), "ethtool -k eth0");
        assert!(offloads.contains("tcp-segmentation-offload: off"), "put right");
        stage.send(0, 1, 500, Duration::from_millis(50));
        assert_eq!(network.check(&mut record), Vec::<String>::new());
        assert_eq!(status(&network, "v0").proof, Proof::Moved);
    });
}

fn link_events() {
    let stage = Stage::new(2);
    let before = stage.snapshot();
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let mut network = Network::apply(&plan(&[], &[high(0, 80, 1), low(1, 0)]), &mut record).unwrap();
        let expected = threads();
        assert_eq!(
            expected,
            ["napi/eth0 FF 80 on 1", "napi/eth0 TS - on 0", "napi/v0 FF 80 on 1", "napi/v1 TS - on 0"]
        );
        let guest = stage.guest(0);
        let host = stage.host();
        for steps in [
            vec![(&host, "ip link set v0 down"), (&host, "ip link set v0 up")],
            vec![(&guest, "ip link set eth0 down"), (&guest, "ip link set eth0 up")],
            vec![(&host, "ethtool -K v0 gro off"), (&host, "ethtool -K v0 gro on")],
            vec![(&guest, "ethtool -K eth0 gro off")],
            vec![(&host, "ethtool -K v0 tso on")],
            // Where programs are links there is none.
            vec![(&host, "sh -c tc${IFS}qdisc${IFS}del${IFS}dev${IFS}v0${IFS}clsact||true")],
            vec![(&host, "sh -c echo${IFS}0>/sys/class/net/v0/threaded")],
        ] {
            for (namespace, step) in &steps {
                stage.within(namespace, step);
            }
            let lost = difference(&expected, &threads());
            until_well(&mut network, &mut record);
            assert_eq!(threads(), expected, "{steps:?}");
            if steps[0].1.contains("qdisc") || steps[0].1.contains("threaded") {
                // No event tells of these; a look does, every minute: not waited for.
                continue;
            }
            let (to, sent) = (is_attached(&host, "v0", "giusto_to"), is_attached(&guest, "eth0", "giusto_sent"));
            assert!(to && sent, "{steps:?}: {to} {sent}");
            let offloads = stage.within(&host, "ethtool -k v0");
            assert!(offloads.contains("tcp-segmentation-offload: off"), "{steps:?}");
            println!("  {:?}: {} threads were lost and found again", steps[0].1, lost.len());
        }
        // Down while it is applied, and up later.
        stage.within(&host, "ip link set v0 down");
        let wrong = checked(&mut network, &mut record);
        assert!(wrong.iter().any(|text| text.contains("'v0' is down")), "{wrong:?}");
        stage.within(&host, "ip link set v0 up");
        until_well(&mut network, &mut record);
        // Removed, and there again.
        stage.within(&host, "ip link del v0");
        let wrong = checked(&mut network, &mut record);
        assert!(wrong.iter().any(|text| text.contains("interface v0 is not there")), "{wrong:?}");
        stage.plug(0);
        until_well(&mut network, &mut record);
        assert_eq!(threads(), expected);
        assert_eq!(status(&network, "v0").dropped, Some(0), "a bucket of its own");
        drop(network);
        assert_undone(&stage, &record, &before);
    });
}

fn new_interface() {
    let stage = Stage::new(1);
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        Network::apply(&plan(&[], &[high(0, 80, 1)]), &mut record).unwrap();
        stage.ip("link del v0");
        stage.plug(0);
        // Another program sets it so.
        stage.within(&stage.host(), "ethtool -K v0 gro on tso off");
        stage.within(&stage.host(), "tc qdisc add dev v0 clsact");
        stage.within(&stage.host(), "sh -c echo${IFS}1>/sys/class/net/v0/threaded");
        let before = stage.snapshot();
        let report = undo(&record);
        assert_eq!((report.failed, report.undone), (vec![], record.len()));
        assert_eq!(difference(&before, &stage.snapshot()), Vec::<String>::new());
    });
}

/// Both ends get other names, and one of them the name that the other interface had.
fn renamed() {
    let stage = Stage::new(2);
    let before = stage.snapshot();
    let rename = |namespace: &str, from: &str, to: &str| {
        stage.within(namespace, &format!("ip link set {from} down"));
        stage.within(namespace, &format!("ip link set {from} name {to}"));
        stage.within(namespace, &format!("ip link set {to} up"));
    };
    let (host, guest) = (stage.host(), stage.guest(0));
    stage.inside(&host, || {
        for planned_anew in [false, true] {
            let mut record = Vec::new();
            let mut network = Network::apply(&plan(&[], &[high(0, 80, 1), low(1, 0)]), &mut record).unwrap();
            rename(&host, "v0", "v7");
            rename(&host, "v1", "v0");
            rename(&guest, "eth0", "eth7");
            checked(&mut network, &mut record);
            if planned_anew {
                // What it finds then is what it has done itself, under other names.
                network.set(&plan(&[], &[high(7, 80, 1), low(0, 0)]), &mut record).unwrap();
            }
            drop(network);
            assert_eq!(undo(&record).failed, Vec::<String>::new());
            rename(&host, "v0", "v1");
            rename(&host, "v7", "v0");
            rename(&guest, "eth7", "eth0");
            assert_eq!(difference(&before, &stage.snapshot()), Vec::<String>::new());
        }
    });
}

/// Either end is moved to another namespace, where another interface has its number, and is found by the other end.
fn moved_away() {
    let stage = Stage::new(2);
    let before = stage.snapshot();
    let (host, guest, away) = (stage.host(), stage.guest(0), stage.away());
    let to = |from: &str, name: &str, to: &str| _ = run(&["ip", "-n", from, "link", "set", name, "netns", to]);
    let up = |at: &str, name: &str| _ = run(&["ip", "-n", at, "link", "set", name, "up"]);
    let number =
        |at: &str, name: &str| stage.within(at, &format!("cat /sys/class/net/{name}/ifindex")).trim().to_string();
    let threaded =
        |at: &str, name: &str| stage.within(at, &format!("cat /sys/class/net/{name}/threaded")).trim().to_string();
    stage.inside(&host, || {
        let goal = plan(&[], &[high(0, 80, 1), low(1, 0)]);
        // The host's end, while it is looked after.
        let mut record = Vec::new();
        let mut network = Network::apply(&goal, &mut record).unwrap();
        let expected = threads();
        let (own, other) = (number(&host, "v0"), number(&guest, "eth0"));
        to(&host, "v0", &away);
        let decoy =
            |at: &str, index: &str| _ = run(&["ip", "-n", at, "link", "add", "v9", "index", index, "type", "bridge"]);
        decoy(&host, &own);
        let wrong = checked(&mut network, &mut record).join("; ");
        assert!(wrong.contains("v0 was moved") && wrong.contains("ip link set v0 up"), "{wrong}");
        up(&away, "v0");
        let end = Instant::now() + Duration::from_secs(5);
        while !network.check(&mut record).join("; ").contains("has got back what it had") {
            assert!(Instant::now() < end, "{:?}", network.check(&mut record));
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!((threaded(&away, "v0"), threaded(&guest, "eth0")), ("0".into(), "0".into()));
        run(&["ip", "-n", &host, "link", "del", "v9"]);
        to(&away, "v0", &host);
        stage.ip("link set v0 master br0 up");
        until_well(&mut network, &mut record);
        assert_eq!(threads(), expected);
        // The guest's end: its place changes, and nothing else.
        to(&guest, "eth0", &away);
        decoy(&guest, &other);
        up(&away, "eth0");
        until_well(&mut network, &mut record);
        assert_eq!(threads(), expected);
        drop(network);
        assert_eq!(undo(&record).failed, Vec::<String>::new());
        assert_eq!((threaded(&host, "v0"), threaded(&away, "eth0")), ("0".into(), "0".into()));
        run(&["ip", "-n", &guest, "link", "del", "v9"]);
        to(&away, "eth0", &guest);
        up(&guest, "eth0");
        assert_eq!(difference(&before, &stage.snapshot()), Vec::<String>::new());
        // By the records alone, as after a death.
        let mut record = Vec::new();
        Network::apply(&goal, &mut record).unwrap();
        to(&host, "v0", &away);
        up(&away, "v0");
        assert_eq!(undo(&record).failed, Vec::<String>::new());
        to(&away, "v0", &host);
        stage.ip("link set v0 master br0 up");
        assert_undone(&stage, &record, &before);
    });
}

/// The kernel takes what is written, and something else comes of it.
fn left() {
    let stage = Stage::new(1);
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        Network::apply(&plan(&[], &[high(0, 80, 1)]), &mut record).unwrap();
        for undo in &mut record {
            if let Undo::InterfaceFile { value, .. } = undo {
                *value = "00".into(); // as 0, which is what is read then
            }
        }
        let failed = undo(&record).failed;
        assert!(
            !failed.is_empty() && failed.iter().all(|text| text.contains("is \"0\", and was \"00\"")),
            "{failed:?}"
        );
    });
}

/// Another program's filter on the clsact that we made: it stays, and so does what it is on.
fn filter_of_others() {
    let stage = Stage::new(1);
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let network = Network::apply(&plan(&[], &[high(0, 80, 1)]), &mut record).unwrap();
        if stage.within(&stage.host(), "tc qdisc show dev v0").contains("clsact") {
            println!("  its programs are filters");
        } else {
            stage.within(&stage.host(), "tc qdisc add dev v0 clsact");
        }
        drop(network);
        stage.within(&stage.host(), "tc filter add dev v0 ingress prio 7 u32 match u32 0 0 flowid 1:1");
        assert_eq!(undo(&record).failed, Vec::<String>::new());
        let filters = stage.within(&stage.host(), "tc filter show dev v0 ingress");
        assert!(filters.contains("pref 7 u32") && !filters.contains("giusto"), "{filters}");
        // Once that has gone, the next undoing takes the rest.
        stage.within(&stage.host(), "tc filter del dev v0 ingress prio 7");
        assert_eq!(undo(&record).failed, Vec::<String>::new());
        let own = record.iter().any(|undo| matches!(undo, Undo::Clsact(_)));
        assert_eq!(stage.within(&stage.host(), "tc qdisc show dev v0").contains("clsact"), !own, "it has its owner");
    });
}

fn reload() {
    let stage = Stage::new(2);
    let before = stage.snapshot();
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let mut network = Network::apply(&plan(&[], &[high(0, 80, 1), low(1, 0)]), &mut record).unwrap();
        network.set(&plan(&[], &[low(0, 0)]), &mut record).unwrap();
        assert_eq!(threads(), ["napi/eth0 TS - on 0", "napi/v0 TS - on 0"]);
        let of = |guest: usize, facts: Vec<String>| -> Vec<String> {
            let (name, inside) = (format!(": v{guest} "), stage.guest(guest));
            facts.into_iter().filter(|fact| fact.contains(&name) || fact.starts_with(&inside)).collect()
        };
        assert_eq!(difference(&of(1, before.clone()), &of(1, stage.snapshot())), Vec::<String>::new(), "let go");
        assert!(!is_attached(&stage.host(), "v0", "giusto_to"), "no bucket any more");
        assert!(!stage.within(&stage.host(), "tc qdisc show dev v0").contains("clsact"));
        network.set(&plan(&[], &[high(0, 70, 0), high(1, 60, 0)]), &mut record).unwrap();
        assert_eq!(
            threads(),
            ["napi/eth0 FF 60 on 0", "napi/eth0 FF 70 on 0", "napi/v0 FF 70 on 0", "napi/v1 FF 60 on 0"]
        );
        drop(network);
        assert_undone(&stage, &record, &before);
    });
}

/// Three that send equally are on one core: one goes to the other, and the one that was promised something stays.
fn rebalance() {
    let stage = Stage::new(4);
    let before = stage.snapshot();
    stage.inside(&stage.host(), || {
        let mut record = Vec::new();
        let free = |guest: usize, priority: u8| crate::stage::Wish { promised: false, ..high(guest, priority, 0) };
        let wishes = [free(0, 60), high(1, 50, 0), free(2, 60), low(3, 1)];
        let mut network = Network::apply(&plan(&[], &wishes), &mut record).unwrap();
        network.rebalance(&mut record).unwrap();
        for guest in 0..3 {
            stage.send(guest, 3, 1000, Duration::from_millis(200));
        }
        std::thread::sleep(Duration::from_millis(500));
        network.check(&mut record);
        let moves = network.rebalance(&mut record).unwrap();
        println!("  {moves:?}");
        assert!(
            moves.iter().any(|way| way.name == "v0" && way.to == 1) && moves.iter().all(|way| way.name != "v1"),
            "{moves:?}"
        );
        let of = |name: &str| threads().into_iter().find(|line| line.starts_with(&format!("napi/{name} "))).unwrap();
        assert_eq!(of("v1"), "napi/v1 FF 50 on 0");
        for way in &moves {
            assert!(of(&way.name).ends_with(&format!(" on {}", way.to)), "{:?}", of(&way.name));
        }
        // Each thread on a shared core has a priority of its own.
        let mut own: Vec<(u32, Option<u8>)> =
            network.status().iter().filter(|s| s.priority.is_some()).map(|s| (s.core, s.priority)).collect();
        own.sort_unstable();
        assert!(own.windows(2).all(|pair| pair[0] != pair[1]), "{own:?}");
        assert_eq!(network.rebalance(&mut record).unwrap(), [], "nothing has been sent since");
        drop(network);
        assert_undone(&stage, &record, &before);
    });
}

/// A tap that was opened with IFF_NAPI has a thread; a plain one that no process holds for a virtual machine is refused.
fn tap() {
    let stage = Stage::new(0);
    stage.inside(&stage.host(), || {
        let Ok(file) = std::fs::File::options().read(true).write(true).open("/dev/net/tun") else {
            println!("  SKIPPED: /dev/net/tun is missing: modprobe tun");
            return;
        };
        let open = |file: &std::fs::File, name: &str, napi: bool| {
            const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
            let (tap, no_info, napi) = (0x2u16, 0x1000, if napi { 0x10 } else { 0 });
            let mut request = [0u8; 40];
            request[..name.len()].copy_from_slice(name.as_bytes());
            request[16..18].copy_from_slice(&(tap | no_info | napi).to_ne_bytes());
            // SAFETY: a struct ifreq of 40 bytes.
            let done =
                unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(file), TUNSETIFF as _, request.as_mut_ptr()) };
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        };
        open(&file, "t0", true);
        stage.ip("link set t0 up");
        let before = stage.snapshot();
        let mut record = Vec::new();
        let wish = crate::stage::Wish { name: "t0".into(), ..high(0, 80, 1) };
        let mut network = Network::apply(&plan(&[], &[wish]), &mut record).unwrap();
        assert_eq!(threads(), ["napi/t0 FF 80 on 1"]);
        // Frames of an unknown protocol, broadcast.
        let frame: Vec<u8> = [[0xff; 6].as_slice(), &[2, 0, 0, 0, 0, 9], &[0x88, 0xb5], &[0; 46]].concat();
        for _ in 0..500 {
            std::io::Write::write_all(&mut &file, &frame).unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(network.check(&mut record), Vec::<String>::new());
        assert_eq!(status(&network, "t0").proof, Proof::Moved);
        drop(network);
        assert_eq!(undo(&record).failed, Vec::<String>::new());
        let mut left = difference(&before, &stage.snapshot());
        // Kernels before 6.17 keep the thread, asleep and as it was made, as long as the NAPI is there.
        left.retain(|fact| fact != "+ napi/t0 TS - on 0,1");
        assert_eq!(left, Vec::<String>::new());
        let plain = std::fs::File::options().read(true).write(true).open("/dev/net/tun").unwrap();
        open(&plain, "t1", false);
        stage.ip("link set t1 up");
        let wish = crate::stage::Wish { name: "t1".into(), ..high(0, 80, 1) };
        let unfit = Network::apply(&plan(&[], &[wish]), &mut record).unwrap();
        let warning = status(&unfit, "t1").warning.unwrap_or_default();
        assert!(warning.contains("vhost=on"), "{warning}");
        assert_eq!(undo(&record).failed, Vec::<String>::new());
    });
}
