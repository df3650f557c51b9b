//! Network namespaces with a host, its bridge and guests; and what must come back, read with other programs than the room's own code.

use aya::programs::{SchedClassifier, TcAttachType};
use giusto_model::{
    Bucket, Duration as Span, NetworkPlan, PacketClass, PacketUnit, Percentile, Uplink, UplinkPlan, VifPlan, Within,
};
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, io};

/// Why none of this can be done here.
pub(crate) fn cannot() -> Option<String> {
    let lacks = ["ip", "ethtool", "tc", "chrt", "taskset"].into_iter().find(|program| {
        !["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
            .iter()
            .any(|folder| fs::metadata(format!("{folder}/{program}")).is_ok())
    });
    // SAFETY: no arguments, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Some("root is missing: run it as root".into());
    }
    if let Some(program) = lacks {
        return Some(format!("{program} is missing: 'make setup' installs it"));
    }
    if rustix::thread::sched_getaffinity(None).map_or(0, |set| set.count()) < 2 {
        return Some("needs two cores".into());
    }
    let name = format!("giusto-test-{}-try", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &name]).output().ok()?;
    let pair = Command::new("ip")
        .args(["-n", &name, "link", "add", "va", "type", "veth", "peer", "name", "vb"])
        .output()
        .ok()?;
    let _ = Command::new("ip").args(["netns", "del", &name]).output();
    let why = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).trim().to_string();
    match (made.status.success(), pair.status.success()) {
        (false, _) => Some(format!("network namespaces cannot be made here: {}", why(&made))),
        (_, false) => Some(format!("veth pairs cannot be made here: {}", why(&pair))),
        _ => None,
    }
}

/// Removes namespaces of earlier runs that were killed.
pub(crate) fn sweep() {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().to_string();
        let pid = name.strip_prefix("giusto-test-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| fs::metadata(format!("/proc/{pid}")).is_err()) {
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

/// Runs a command to its end; its output.
pub(crate) fn run(words: &[&str]) -> String {
    let done = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).to_string()
}

/// A host with a bridge, and guests `0..n`, each at a veth pair `v<i>` whose other end is `eth0` at 10.77.0.<10 + i>.
pub(crate) struct Stage {
    name: String,
    guests: usize,
}

impl Stage {
    pub(crate) fn new(guests: usize) -> Stage {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let stage = Stage { name: format!("giusto-test-{}-{count}", std::process::id()), guests };
        run(&["ip", "netns", "add", &stage.host()]);
        stage.quiet(&stage.host());
        stage.ip("link add br0 type bridge");
        stage.ip("addr add 10.77.0.1/24 dev br0");
        stage.ip("link set br0 up");
        stage.ip("link set lo up");
        (0..guests).for_each(|guest| {
            run(&["ip", "netns", "add", &stage.guest(guest)]);
            stage.quiet(&stage.guest(guest));
            stage.plug(guest);
        });
        stage
    }

    /// No unrequested packets.
    fn quiet(&self, namespace: &str) {
        const OFF: &str = "for f in /proc/sys/net/ipv6/conf/*/disable_ipv6; do [ ! -e $f ] || echo 1 >$f; done";
        run(&["ip", "netns", "exec", namespace, "sh", "-c", OFF]);
    }

    pub(crate) fn host(&self) -> String {
        format!("{}-host", self.name)
    }

    pub(crate) fn guest(&self, guest: usize) -> String {
        format!("{}-g{guest}", self.name)
    }

    /// A namespace with nothing in it; made when it is asked for first.
    pub(crate) fn away(&self) -> String {
        let name = format!("{}-away", self.name);
        if fs::metadata(format!("/run/netns/{name}")).is_err() {
            run(&["ip", "netns", "add", &name]);
            self.quiet(&name);
        }
        name
    }

    /// The pair of a guest, made.
    pub(crate) fn plug(&self, guest: usize) {
        let inside = self.guest(guest);
        self.ip(&format!("link add v{guest} type veth peer name eth0 netns {inside}"));
        self.ip(&format!("link set v{guest} master br0 up"));
        let eth0 = |words: &str| self.within(&inside, words);
        eth0(&format!("ip link set eth0 address 02:00:00:00:77:{:02x}", 10 + guest));
        eth0(&format!("ip addr add 10.77.0.{}/24 dev eth0", 10 + guest));
        eth0("ip link set eth0 up");
        // Known beforehand, so that only what the tests send is counted.
        for other in 0..self.guests {
            eth0(&format!(
                "ip neigh replace 10.77.0.{} lladdr 02:00:00:00:77:{:02x} dev eth0 nud permanent",
                10 + other,
                10 + other
            ));
        }
    }

    /// `ip` in the host.
    pub(crate) fn ip(&self, words: &str) {
        self.within(&self.host(), &format!("ip {words}"));
    }

    /// A command in a namespace, words separated by blanks.
    pub(crate) fn within(&self, namespace: &str, words: &str) -> String {
        let all: Vec<&str> = ["ip", "netns", "exec", namespace].into_iter().chain(words.split(' ')).collect();
        run(&all)
    }

    /// Does `work` in a thread that is in a namespace.
    pub(crate) fn inside<T: Send>(&self, namespace: &str, work: impl FnOnce() -> T + Send) -> T {
        inside(namespace, work)
    }

    /// Sends `count` small packets from one guest to another in `over`; how many arrived.
    pub(crate) fn send(&self, from: usize, to: usize, count: u32, over: Duration) -> u32 {
        let socket = |guest: usize| {
            self.inside(&self.guest(guest), || UdpSocket::bind((format!("10.77.0.{}", 10 + guest), 7000)).unwrap())
        };
        let (sender, receiver) = (socket(from), socket(to));
        receiver.set_nonblocking(true).unwrap();
        let (begin, mut arrived) = (Instant::now(), 0);
        let mut drain = || {
            let mut byte = [0; 1];
            while receiver.recv(&mut byte).is_ok() {
                arrived += 1;
            }
        };
        for sent in 0..count {
            match sender.send_to(&[7], (format!("10.77.0.{}", 10 + to), 7000)) {
                Ok(_) => {}
                Err(error) => assert!(matches!(error.kind(), io::ErrorKind::ConnectionRefused), "{error}"),
            }
            if sent % 16 == 0 {
                drain();
                std::thread::sleep((over * sent / count).saturating_sub(begin.elapsed()));
            }
        }
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end {
            drain();
            std::thread::sleep(Duration::from_millis(5));
        }
        arrived
    }

    /// What enforcement may change, in all namespaces, by ethtool, tc, ps, taskset and sysfs.
    pub(crate) fn snapshot(&self) -> Vec<String> {
        const LOOK: &str = "cd /sys/class/net; for d in v* eth* t*; do [ -e $d ] || continue; \
            echo $d threaded $(cat $d/threaded) rps $(cat $d/queues/rx-*/rps_cpus); \
            ethtool -k $d | grep -v fixed | sed \"s/^/$d /\"; /usr/sbin/tc qdisc show dev $d; \
            /usr/sbin/tc filter show dev $d ingress; /usr/sbin/tc filter show dev $d egress; done";
        let mut facts = Vec::new();
        for namespace in (0..self.guests).map(|guest| self.guest(guest)).chain([self.host()]) {
            let text = run(&["ip", "netns", "exec", &namespace, "sh", "-c", LOOK]);
            facts.extend(text.lines().map(|line| format!("{namespace}: {line}")));
            let devices = text.lines().filter_map(|line| Some(line.split_once(" threaded ")?.0));
            facts.extend(devices.flat_map(|device| {
                let found = linked(&namespace, device).concat();
                found.into_iter().map(|name| format!("{namespace}: {device} link {name}")).collect::<Vec<_>>()
            }));
        }
        facts.extend(threads());
        facts
    }
}

/// BPF programs that are links at an interface, the first one first, of what it receives and of what it sends; empty where the
/// kernel has none.
pub(crate) fn linked(namespace: &str, device: &str) -> [Vec<String>; 2] {
    let of = |kind| {
        let found = inside(namespace, || SchedClassifier::query_tcx(device, kind));
        let found = found.map_or(vec![], |(_, found)| found);
        found.iter().filter_map(|program| program.name_as_str().map(String::from)).collect()
    };
    [TcAttachType::Ingress, TcAttachType::Egress].map(of)
}

/// Whether a program is there, as a link or as a filter.
pub(crate) fn is_attached(namespace: &str, device: &str, program: &str) -> bool {
    let filters = ["ingress", "egress"]
        .map(|way| run(&["ip", "netns", "exec", namespace, "/usr/sbin/tc", "filter", "show", "dev", device, way]));
    filters.concat().contains(program) || linked(namespace, device).concat().iter().any(|name| name == program)
}

/// Every thread that polls an interface of a test: name, policy, priority, cores.
pub(crate) fn threads() -> Vec<String> {
    let text = run(&["ps", "-eo", "pid=,cls=,rtprio=,comm="]);
    let ours = |name: &str| {
        let interface = name.strip_prefix("napi/").and_then(|rest| rest.rsplit_once('-'))?.0;
        let numbered = |letter| interface.strip_prefix(letter).is_some_and(|rest| rest.parse::<u8>().is_ok());
        (interface == "eth0" || numbered("v") || numbered("t")).then(|| format!("napi/{interface}"))
    };
    let mut found: Vec<String> = text
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let name = ours(words.get(3)?)?;
            let cores = Command::new("taskset").args(["-pc", words[0]]).output().unwrap().stdout;
            let cores = String::from_utf8_lossy(&cores).rsplit(' ').next().unwrap_or("").trim().to_string();
            Some(format!("{name} {} {} on {cores}", words[1], words[2]))
        })
        .collect();
    found.sort();
    found
}

/// What differs, for people; empty if nothing.
pub(crate) fn difference(before: &[String], after: &[String]) -> Vec<String> {
    let gone = before.iter().filter(|fact| !after.contains(fact)).map(|fact| format!("- {fact}"));
    let new = after.iter().filter(|fact| !before.contains(fact)).map(|fact| format!("+ {fact}"));
    gone.chain(new).collect()
}

impl Drop for Stage {
    fn drop(&mut self) {
        let away = format!("{}-away", self.name);
        for namespace in (0..self.guests).map(|guest| self.guest(guest)).chain([self.host(), away]) {
            let _ = Command::new("ip").args(["netns", "del", &namespace]).output();
        }
    }
}

/// Does `work` in a thread that is in a namespace.
pub(crate) fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    let file = fs::File::open(format!("/run/netns/{namespace}")).unwrap();
    let enter = || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(enter).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What the plan says of a vif.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) name: String,
    pub(crate) priority: Option<u8>,
    pub(crate) core: u32,
    pub(crate) bucket: Option<(&'static str, &'static str)>,
    pub(crate) promised: bool,
}

/// In the high class, with a bucket that is wide enough for what the tests send.
pub(crate) fn high(guest: usize, priority: u8, core: u32) -> Wish {
    Wish { name: format!("v{guest}"), priority: Some(priority), core, bucket: Some(("1M/s", "100000")), promised: true }
}

pub(crate) fn low(guest: usize, core: u32) -> Wish {
    Wish { name: format!("v{guest}"), priority: None, core, bucket: None, promised: false }
}

pub(crate) fn plan(uplinks: &[(&str, u8, u32)], vifs: &[Wish]) -> NetworkPlan {
    let bucket = |rate: &str, depth: &str| Bucket { rate: rate.parse().unwrap(), depth: depth.parse().unwrap() };
    let ms = Span::from_ms(1);
    let uplinks = uplinks.iter().map(|&(name, priority, core)| UplinkPlan {
        uplink: Uplink { name: name.into(), bucket: bucket("100k/s", "100") },
        core,
        priority,
    });
    let vifs = vifs.iter().map(|wish| VifPlan {
        name: wish.name.clone(),
        service: format!("service-{}", wish.name),
        class: if wish.priority.is_some() { PacketClass::High } else { PacketClass::Low },
        core: wish.core,
        priority: wish.priority,
        bucket: wish.bucket.map(|(rate, depth)| bucket(rate, depth).into()),
        received: None,
        promise: wish
            .promised
            .then(|| Within { percentile: "p99".parse::<Percentile>().unwrap(), within: ms })
            .into_iter()
            .collect(),
        bound: wish.priority.map(|_| ms),
        reasons: vec![],
    });
    NetworkPlan {
        on: "test".into(),
        cores: vec![0, 1],
        capacity: "100k/s".parse().unwrap(),
        poll: 64,
        count: PacketUnit::Skb,
        uplinks: uplinks.collect(),
        vifs: vifs.collect(),
        reasons: vec![],
    }
}
