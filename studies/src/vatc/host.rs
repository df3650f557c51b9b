//! A host of network namespaces whose packets are all processed on one core, in one of the ways that are compared.

use crate::Error;
use giusto_measure::packets::{flooded, Flow, Place, Stage};
use giusto_model::{Bucket, Duration, NetworkPlan, PacketClass, PacketUnit, Rate, Tokens, Uplink, UplinkPlan, VifPlan};
use giusto_network::Network;
use std::fmt;
use std::path::Path;

/// How a host processes packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// As Linux does by default: the softirqs of the core (RPS).
    Softirq,
    /// The same, and HTB on the uplink with a priority for the critical guest.
    Htb,
    /// A thread for each interface, all alike (threaded NAPI).
    Threads,
    /// The same with the plan's priorities and the bucket.
    Giusto,
}

impl Arm {
    pub(crate) const ALL: [Arm; 4] = [Arm::Softirq, Arm::Htb, Arm::Threads, Arm::Giusto];
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Arm::Softirq => "softirq",
            Arm::Htb => "htb",
            Arm::Threads => "threads",
            Arm::Giusto => "giusto",
        })
    }
}

/// The core of all packet processing.
const CORE: u32 = 0;
/// So many rules of the bridge see each packet and match none. They stand for what a host does with a packet beyond this one's bare
/// bridge (a firewall's rules; Xen's copying and hypercalls in the paper): without them one core of guests cannot fill one of a host.
const RULES: usize = 100;

/// What arrives at the uplink at most: packets a second, and at once.
pub(crate) const UPLINK: (u64, u64) = (10_000, 64);

/// Guests that flood.
pub(crate) const INTERFERERS: usize = 4;
/// A ping every so often.
pub(crate) const EVERY: Duration = Duration::from_ms(3);
/// Above all guests, so that what is measured is the host.
pub(crate) const PING_PRIORITY: u8 = 50;
/// The bucket of the guest that pings: packets a second, and at once.
pub(crate) const GUEST: (u64, u64) = (2_000, 64);

/// What is missing to make one; `None`: nothing.
pub(crate) fn lack() -> Option<String> {
    let there = |program: &str| {
        ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|at| Path::new(at).join(program).exists())
    };
    let program =
        [("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables")].into_iter().find(|(program, _)| !there(program));
    if let Some((program, package)) = program {
        return Some(format!("{program}: apt-get install {package}"));
    }
    if !rustix::process::geteuid().is_root() {
        return Some("root: run it as root".into());
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores < 2).then(|| "a second core".into())
}

/// A host in one of the ways, with guest 0 in the high class and the others in the low one.
pub(crate) struct Host {
    pub(crate) stage: Stage,
    network: Option<Network>,
}

impl Host {
    /// Makes it; the bucket is guest 0's, and only that arm of the plan's has one. Errors: what the kernel refuses.
    pub(crate) fn new(guests: usize, arm: Arm, bucket: Bucket) -> Result<Host, Error> {
        let stage = Stage::new(guests)?;
        let spread = |place: Place, device: &str, core: u32| {
            let mask = format!("echo {:x} > /sys/class/net/{device}/queues/rx-0/rps_cpus", 1u64 << core);
            stage.run(place, &["sh", "-c", &mask]).map(drop)
        };
        // The remote machine is another one: not on the host's core.
        spread(Place::Remote, "eth0", OTHERS)?;
        let rules = "ip saddr 192.0.2.1 drop\n".repeat(RULES);
        let table =
            format!("table bridge cost {{\nchain seen {{\ntype filter hook forward priority 0\n{rules}}}\n}}\n");
        filter(&stage, Place::Host, &table)?;
        let network = match arm {
            Arm::Softirq | Arm::Htb => {
                for place in stage.ends() {
                    spread(Place::Host, &Stage::vif(place), CORE)?;
                    if place != Place::Remote {
                        spread(place, "eth0", CORE)?;
                    }
                }
                if arm == Arm::Htb {
                    prioritise(&stage)?;
                }
                None
            }
            Arm::Threads | Arm::Giusto => Some(applied(&stage, &plan(guests, arm, bucket)?)?),
        };
        Ok(Host { stage, network })
    }

    /// One whose guests all have the priority and core of `places`, in their order.
    pub(crate) fn spread(places: &[(u8, u32)]) -> Result<Host, Error> {
        let stage = Stage::new(places.len())?;
        let generous = bucket(1_000_000, 100_000)?;
        let mut plan = plan(places.len(), Arm::Giusto, generous)?;
        plan.cores = vec![CORE, OTHERS];
        for (vif, &(priority, core)) in plan.vifs.iter_mut().zip(places) {
            (vif.class, vif.priority, vif.core, vif.bucket) =
                (PacketClass::High, Some(priority), core, Some(generous.into()));
        }
        let network = Some(applied(&stage, &plan)?);
        Ok(Host { stage, network })
    }

    /// Moves guests to other cores where that is worth it; the core of each guest then.
    pub(crate) fn rebalanced(&mut self) -> Result<Vec<u32>, Error> {
        let Some(network) = &mut self.network else { return Ok(vec![]) };
        let moved = self.stage.inside(Place::Host, || {
            network.check(&mut Vec::new());
            network.rebalance(&mut Vec::new())
        })?;
        moved.map_err(Error::machine)?;
        Ok(network.status().iter().filter(|link| link.service.is_some()).map(|link| link.core).collect())
    }

    /// Packets of these guests that the host has taken so far.
    pub(crate) fn taken(&self, guests: impl IntoIterator<Item = usize>) -> Result<u64, Error> {
        self.counted(guests, "rx_packets")
    }

    /// Packets for these guests that the host has handed over so far.
    pub(crate) fn given(&self, guests: impl IntoIterator<Item = usize>) -> Result<u64, Error> {
        self.counted(guests, "tx_packets")
    }

    fn counted(&self, guests: impl IntoIterator<Item = usize>, what: &str) -> Result<u64, Error> {
        let file = |guest| format!("/sys/class/net/v{guest}/statistics/{what}");
        let files: Vec<String> = guests.into_iter().map(file).collect();
        if files.is_empty() {
            return Ok(0);
        }
        let words: Vec<&str> = ["cat"].into_iter().chain(files.iter().map(String::as_str)).collect();
        let text = self.stage.run(Place::Host, &words)?;
        text.lines().map(|line| line.trim().parse::<u64>().map_err(Error::machine)).sum()
    }

    /// The threads that process what a guest or the remote machine sends.
    pub(crate) fn threads(&self, place: Place) -> Vec<u32> {
        let all = self.network.iter().flat_map(Network::status);
        all.filter(|link| link.name == Stage::vif(place)).flat_map(|link| link.threads).collect()
    }

    /// Whether every interface's packets have been seen to be processed by its threads, as far as there were any.
    pub(crate) fn proven(&mut self) -> Result<(), Error> {
        let Some(network) = &mut self.network else { return Ok(()) };
        let wrong = network.check(&mut Vec::new());
        wrong.first().map_or(Ok(()), |why| Err(Error::machine(why)))
    }
}

fn applied(stage: &Stage, plan: &NetworkPlan) -> Result<Network, Error> {
    stage.inside(Place::Host, || Network::apply(plan, &mut Vec::new()))?.map_err(Error::machine)
}

/// Packets that a core processes in a second of its time, of the low class; and per mille of the time that was stolen meanwhile.
pub(crate) fn capacity(length: Duration) -> Result<(f64, u64), Error> {
    let host = Host::new(2, Arm::Giusto, bucket(1_000, 64)?)?;
    let noise = steal()?;
    let flow = Flow { from: Place::Guest(1), to: Place::Remote, rate: None, core: OTHERS };
    let passed = flooded(&host.stage, flow, &host.threads(Place::Guest(1)), length)?;
    Ok((passed.a_second(), (steal()? - noise) * 1000 / (2 * length.ns())))
}

/// A table of nftables, put into force at a place.
pub(crate) fn filter(stage: &Stage, place: Place, table: &str) -> Result<(), Error> {
    let file = std::env::temp_dir().join(format!("{}.nft", stage.namespace(place)));
    std::fs::write(&file, table).map_err(Error::machine)?;
    let done = stage.run(place, &["nft", "-f", &file.display().to_string()]);
    std::fs::remove_file(&file).map_err(Error::machine)?;
    done.map(drop).map_err(Error::from)
}

/// HTB on the uplink: guest 0 before all others.
fn prioritise(stage: &Stage) -> Result<(), Error> {
    let critical = format!("{}/32", Stage::address(Place::Guest(0)));
    let commands: [&[&str]; 4] = [
        &["qdisc", "add", "dev", "up0", "root", "handle", "1:", "htb", "default", "20"],
        &[
            "class", "add", "dev", "up0", "parent", "1:", "classid", "1:10", "htb", "rate", "5gbit", "ceil", "10gbit",
            "prio", "0",
        ],
        &[
            "class", "add", "dev", "up0", "parent", "1:", "classid", "1:20", "htb", "rate", "5gbit", "ceil", "10gbit",
            "prio", "1",
        ],
        &["filter", "add", "dev", "up0", "protocol", "ip", "u32", "match", "ip", "src", &critical, "flowid", "1:10"],
    ];
    commands.iter().try_for_each(|words| stage.run(Place::Host, &[&["tc"], *words].concat()).map(drop))?;
    Ok(())
}

/// Packets a second, and at once.
pub(crate) fn bucket(rate: u64, depth: u64) -> Result<Bucket, Error> {
    let rate = Rate::of(rate, Duration::from_secs(1)).ok_or_else(|| Error::machine("no such rate"))?;
    Ok(Bucket { rate, depth: Tokens::whole(depth) })
}

/// Guest 0 high, the others low; or all alike.
fn plan(guests: usize, arm: Arm, bucket: Bucket) -> Result<NetworkPlan, Error> {
    let uplink = self::bucket(UPLINK.0, UPLINK.1)?;
    let alike = arm == Arm::Threads;
    let vif = |name: String, class: PacketClass, priority: Option<u8>| VifPlan {
        service: name.clone(),
        name,
        class,
        core: CORE,
        priority,
        bucket: (class == PacketClass::High).then(|| bucket.into()),
        received: None,
        promise: vec![],
        bound: None,
        reasons: vec![],
    };
    let mut vifs: Vec<VifPlan> = (0..guests)
        .map(|guest| match guest {
            0 if !alike => vif("v0".into(), PacketClass::High, Some(50)),
            _ => vif(format!("v{guest}"), PacketClass::Low, None),
        })
        .collect();
    let mut uplinks =
        vec![UplinkPlan { uplink: Uplink { name: "up0".into(), bucket: uplink }, core: CORE, priority: 60 }];
    if alike {
        uplinks.clear();
        vifs.push(vif("up0".into(), PacketClass::Low, None));
    }
    Ok(NetworkPlan {
        on: "host".into(),
        cores: vec![CORE],
        capacity: self::bucket(100_000, 1)?.rate,
        poll: 64,
        count: PacketUnit::Skb,
        uplinks,
        vifs,
        reasons: vec![],
    })
}

/// The core that does what is not the host: guests, the one that pings, the remote machine. The host's is 0.
pub(crate) const OTHERS: u32 = 1;

/// Taken from this machine by its hypervisor so far, of both cores, in ns.
pub(crate) fn steal() -> Result<u64, Error> {
    let all = giusto_measure::steal(&[0, OTHERS]).map_err(Error::machine)?;
    Ok(all.iter().map(|noise| noise.steal_ns).sum())
}
