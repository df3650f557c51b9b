//! A hundred interfaces: what they cost until they are in force, while nothing happens, in a storm of link events, and at the
//! end.

use crate::stage::{high, inside, low, plan, run, Wish};
use crate::Part;
use giusto_model::NetworkPlan;
use giusto_network::{undo, Network, Undo};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Part] = &[("a hundred interfaces", hundred)];

const COUNT: usize = 100;
const LOOK: Duration = Duration::from_millis(100);

/// Namespaces with a veth pair each to a host: `v<i>` there, and `eth0`.
struct Crowd {
    name: String,
    count: usize,
}

impl Crowd {
    fn new(count: usize) -> Crowd {
        let crowd = Crowd { name: format!("giusto-test-{}-crowd", std::process::id()), count };
        let guests = 0..count;
        let made = std::iter::once(crowd.host()).chain(guests.clone().map(|guest| crowd.guest(guest)));
        batch(&[], made.map(|name| format!("netns add {name}")));
        let pair = |guest: usize| format!("link add v{guest} type veth peer name eth0 netns {}", crowd.guest(guest));
        let host = crowd.host();
        batch(&["-n", &host], guests.clone().map(pair));
        batch(&["-n", &host], guests.clone().map(|guest| format!("link set v{guest} up")));
        guests.for_each(|guest| _ = run(&["ip", "-n", &crowd.guest(guest), "link", "set", "eth0", "up"]));
        crowd
    }

    fn host(&self) -> String {
        format!("{}-host", self.name)
    }

    fn guest(&self, guest: usize) -> String {
        format!("{}-g{guest}", self.name)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let all = std::iter::once(self.host()).chain((0..self.count).map(|guest| self.guest(guest)));
        batch(&["-force"], all.map(|name| format!("netns del {name}")));
    }
}

/// Several commands of `ip` in one process.
fn batch(options: &[&str], lines: impl Iterator<Item = String>) {
    let text = lines.map(|line| line + "\n").collect::<String>();
    let mut command = Command::new("ip");
    let mut child = command.args(options).args(["-batch", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
}

/// Half of them in the high class.
fn goal(count: usize) -> NetworkPlan {
    let wish = |guest: usize| match guest % 2 {
        0 => Wish { bucket: Some(("1000/s", "50")), ..high(guest, 49 - (guest / 2) as u8 % 49, 1) },
        _ => low(guest, 0),
    };
    plan(&[], &(0..count).map(wish).collect::<Vec<_>>())
}

/// Processor time of this process.
fn used() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills it.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// As the daemon looks after it, for so long; processor time of it.
fn looked_after(network: &mut Network, record: &mut Vec<Undo>, length: Duration) -> Duration {
    let (begin, before) = (Instant::now(), used());
    for turn in 0.. {
        let due = turn % 10 == 0;
        network.bound(record).unwrap();
        if network.changed() || due {
            network.check(record);
            network.status();
        }
        if begin.elapsed() >= length {
            return used() - before;
        }
        std::thread::sleep(LOOK);
    }
    unreachable!()
}

/// Our programs on an interface of the host, by the kernel's numbers.
fn programs(host: &str, name: &str) -> BTreeSet<String> {
    let shown = ["ingress", "egress"]
        .map(|way| run(&["ip", "netns", "exec", host, "tc", "filter", "show", "dev", name, way]))
        .concat();
    let ids =
        shown.split("giusto_").skip(1).filter_map(|rest| Some(rest.split(" id ").nth(1)?.split(' ').next()?.into()));
    ids.collect()
}

/// Times are compared with that of one look at all interfaces, as machines differ.
fn hundred() {
    let crowd = Crowd::new(COUNT);
    let host = crowd.host();
    inside(&host, || {
        let mut record = Vec::new();
        let (begin, before) = (Instant::now(), used());
        let mut network = Network::apply(&goal(COUNT), &mut record).unwrap();
        println!("  in force after {:.1?} ({:.1?} of processor time)", begin.elapsed(), used() - before);
        assert!(network.status().iter().all(|link| link.threads.len() == 2), "{:?}", network.status());
        let loaded: BTreeSet<String> =
            (0..COUNT).step_by(2).flat_map(|guest| programs(&host, &format!("v{guest}"))).collect();
        assert_eq!(loaded.len(), 2, "programs are loaded once for all interfaces: {loaded:?}");
        looked_after(&mut network, &mut record, Duration::from_millis(300));
        let before = used();
        network.set(&goal(COUNT), &mut record).unwrap();
        let whole = used() - before;
        looked_after(&mut network, &mut record, Duration::from_millis(1000)); // what that has changed was looked at
        let idle = looked_after(&mut network, &mut record, Duration::from_secs(1));
        let storm = std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..50 {
                    let step = |n: usize| format!("link set v{} txqueuelen {}", (turn * 20 + n) % COUNT, 100 + turn);
                    batch(&["-n", &host], (0..20).map(step));
                    std::thread::sleep(Duration::from_millis(40));
                }
            });
            looked_after(&mut network, &mut record, Duration::from_millis(2500))
        });
        drop(network);
        let before = used();
        assert_eq!(undo(&record).failed, Vec::<String>::new());
        let undone = used() - before;
        println!(
            "  a look at all {whole:.1?}, a second of nothing {idle:.1?}, 1,000 link changes in two seconds {storm:.1?}, undone \
             {undone:.1?}"
        );
        assert!(idle * 5 < whole, "only what may have changed is looked at");
        assert!(storm < whole * 12, "events of an interface are looked at together");
        assert!(undone < whole * 8, "namespaces are looked for together");
    });
}
