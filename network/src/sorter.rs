//! What arrives at an uplink, sorted before the host works on it (bpf/uplink.bpf.c).

use crate::address::Address;
use crate::bank::{broken, loader};
use crate::bucket::{in_integers, Integers};
use crate::Error;
use aya::maps::{Array, CpuMap, HashMap};
use aya::programs::xdp::XdpMode;
use aya::programs::Xdp;
use aya::{Ebpf, Pod};
use giusto_model::{Bucket, Rate, Tokens};
use std::collections::BTreeMap;

const BPF_F_LOCK: u64 = 4;
/// Packets that wait for the thread that processes those without a priority; further ones are dropped.
pub(crate) const QUEUE: u32 = 1024;
/// Lanes of bpf/uplink.bpf.c: the uplink's own, that of announcements, and those of interfaces.
const UPLINK: u32 = 0;
const ANNOUNCEMENTS: u32 = 1;
const FIRST: u32 = 2;
const LANES: u32 = 4096;
/// Addresses of an interface that are looked up, beyond that of its other end: what is sent there can make up any number of them.
const BEHIND: usize = 64;

/// `struct goal`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Goal {
    lock: u32,
    core: u32,
    version: u64,
    num: u64,
    den: u64,
    burst: u64,
}

/// `struct lane`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Lane {
    lock: u32,
    pad: u32,
    version: u64,
    bucket: [u64; 6],
    passed: u64,
    beyond: u64,
}

// SAFETY: whole words without padding.
unsafe impl Pod for Goal {}
// SAFETY: as above.
unsafe impl Pod for Lane {}

/// An interface of the high class: what may come for it, and its addresses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct For {
    pub(crate) name: String,
    pub(crate) bucket: Bucket,
    /// That of its other end, which no other interface can take from it.
    pub(crate) card: Option<Address>,
    /// What bridges have learnt of it, and neighbours.
    pub(crate) behind: Vec<Address>,
}

/// Whose each address is: cards first, then what the first interface has behind it.
fn lanes(interfaces: &[For]) -> BTreeMap<Address, u32> {
    let numbered = || (FIRST..LANES).zip(interfaces);
    let cards = numbered().flat_map(|(lane, one)| one.card.map(|address| (address, lane)));
    let behind = numbered().flat_map(|(lane, one)| one.behind.iter().take(BEHIND).map(move |&address| (address, lane)));
    let mut all = BTreeMap::new();
    cards.chain(behind).for_each(|(address, lane)| {
        all.entry(address).or_insert(lane);
    });
    all
}

/// Packets that came to an uplink so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Processed in the uplink's thread.
    pub(crate) passed: u64,
    /// Of those for the others, dropped or still waiting.
    pub(crate) dropped: u64,
}

/// Sorts, until it is dropped: the kernel takes it off then, also when this process is killed.
pub(crate) struct Sorter {
    ebpf: Ebpf,
    pub(crate) index: u32,
    core: u32,
    goals: BTreeMap<u32, Goal>,
    addresses: BTreeMap<Address, u32>,
}

impl Sorter {
    /// Puts it on interface `index` of the calling thread's namespace. Nothing has a lane yet. Errors: the driver has no XDP,
    /// another program is there, or not for us.
    pub(crate) fn attach(name: &str, index: u32, core: u32) -> Result<Sorter, Error> {
        let doing = || format!("sort what arrives at {name}");
        let failed = |error: aya::EbpfError| broken(&doing(), error);
        let cores = aya::util::nr_cpus()
            .map_err(|(file, why)| Error::kernel(format!("read {file}"), std::io::Error::other(why.to_string())))?;
        let mut ebpf = loader()
            .map_max_entries("others", cores as u32)
            .load(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/uplink.bpf.o")))
            .map_err(failed)?;
        let no_map = |name: &str| failed(aya::maps::MapError::InvalidName { name: name.into() }.into());
        let program = program(&mut ebpf, "giusto_taken").map_err(failed)?;
        program.load().map_err(|error| failed(error.into()))?;
        let taken = program.fd().and_then(|fd| Ok(fd.try_clone()?)).map_err(|error| failed(error.into()))?;
        let others = ebpf.map_mut("others").ok_or_else(|| no_map("others"))?;
        let mut others = CpuMap::try_from(others).map_err(|error| failed(error.into()))?;
        others
            .set(core, QUEUE, Some(&taken), 0)
            .map_err(|error| Error::kernel(doing(), std::io::Error::other(error.to_string())))?;
        let mut sorter = Sorter { ebpf, index, core, goals: BTreeMap::new(), addresses: BTreeMap::new() };
        let sort = self::program(&mut sorter.ebpf, "giusto_sort").map_err(failed)?;
        sort.load().map_err(|error| failed(error.into()))?;
        // In the driver: what is handed to another thread elsewhere has lost the length of its first header in some kernels (6.18
        // drops it all), and no time is saved.
        match sort.attach_to_if_index(index, XdpMode::Driver) {
            Ok(_) => Ok(sorter),
            Err(error) => Err(refused(name, failed(error.into()))),
        }
    }

    /// What may arrive, in all and for each interface of the high class; another core is where all else is processed from now on.
    pub(crate) fn set(&mut self, name: &str, arrivals: &Bucket, interfaces: &[For]) -> Result<(), Error> {
        self.write(UPLINK, in_integers(name, arrivals)?, self.core)?;
        self.write(ANNOUNCEMENTS, in_integers(name, &tenth(arrivals))?, 0)?;
        for (lane, one) in (FIRST..LANES).zip(interfaces) {
            self.write(lane, in_integers(&one.name, &one.bucket)?, 0)?;
        }
        let goal = lanes(interfaces);
        if goal == self.addresses {
            return Ok(());
        }
        let doing = || format!("tell what is for which interface at {name}");
        let failed = |error: aya::maps::MapError| broken(&doing(), error.into());
        let map = self.ebpf.map_mut("addresses");
        let map = map.ok_or_else(|| failed(aya::maps::MapError::InvalidName { name: "addresses".into() }))?;
        let mut map = HashMap::<_, [u8; 16], u32>::try_from(map).map_err(failed)?;
        // What is known to be there follows each step, so that after a failure the next call goes on.
        let gone: Vec<Address> = self.addresses.keys().filter(|address| !goal.contains_key(address)).copied().collect();
        for address in gone {
            map.remove(&address.0).map_err(failed)?;
            self.addresses.remove(&address);
        }
        for (address, lane) in goal {
            if self.addresses.get(&address) != Some(&lane) {
                map.insert(address.0, lane, 0).map_err(failed)?;
                self.addresses.insert(address, lane);
            }
        }
        Ok(())
    }

    fn write(&mut self, lane: u32, to: Integers, core: u32) -> Result<(), Error> {
        let Integers { num, den, burst } = to;
        let known = self.goals.get(&lane).copied().unwrap_or_default();
        let next = Goal { lock: 0, core, version: known.version, num, den, burst };
        if next == known {
            return Ok(());
        }
        let next = Goal { version: known.version + u64::from(den > 0), ..next };
        let write = |ebpf: &mut Ebpf| -> Result<(), aya::EbpfError> {
            let map = ebpf.map_mut("goals").ok_or(aya::maps::MapError::InvalidName { name: "goals".into() })?;
            Ok(Array::<_, Goal>::try_from(map)?.set(lane, next, BPF_F_LOCK)?)
        };
        write(&mut self.ebpf).map_err(|error| broken("set the bucket of an uplink", error))?;
        self.goals.insert(lane, next);
        Ok(())
    }

    pub(crate) fn is_at(&self, index: u32, core: u32) -> bool {
        (self.index, self.core) == (index, core)
    }

    pub(crate) fn arrived(&self) -> Arrived {
        let lane = |number: u32| -> Option<Lane> {
            Array::<_, Lane>::try_from(self.ebpf.map("lanes")?).ok()?.get(&number, BPF_F_LOCK).ok()
        };
        let handed =
            |what: u32| -> Option<u64> { Array::<_, u64>::try_from(self.ebpf.map("handed")?).ok()?.get(&what, 0).ok() };
        let passed = [UPLINK, ANNOUNCEMENTS].into_iter().filter_map(lane).map(|lane| lane.passed).sum();
        // In this order, so that none counts as dropped that is taken in between.
        let (all, taken) = (handed(0).unwrap_or(0), handed(1).unwrap_or(0));
        Arrived { passed, dropped: all.saturating_sub(taken) }
    }
}

/// For requests of addresses, of a burst of one at least.
fn tenth(bucket: &Bucket) -> Bucket {
    let (events, ns) = bucket.rate.fraction();
    let (depth, parts) = bucket.depth.fraction();
    let rate = Rate::of(events, giusto_model::Duration::from_ns(ns.saturating_mul(10))).unwrap_or(bucket.rate);
    Bucket { rate, depth: Tokens::whole((depth / parts.max(1) / 4).max(1)) }
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Xdp, aya::EbpfError> {
    let program = ebpf.program_mut(name).ok_or(aya::programs::ProgramError::NotLoaded)?;
    Ok(program.try_into()?)
}

/// With what to do.
fn refused(name: &str, error: Error) -> Error {
    let text = error.to_string();
    let because = |number: i32| text.contains(&format!("(os error {number})"));
    let (what, how) = match () {
        () if because(libc::EBUSY) => (
            format!("a free place for XDP on {name} (another program is there)"),
            format!("take it off ('ip -d link show {name}' names it, 'ip link set {name} xdp off')"),
        ),
        () if because(libc::EOPNOTSUPP) => (
            format!("XDP in the driver of {name}"),
            "name an uplink whose driver has it, as most cards of servers do".to_string(),
        ),
        () => return error,
    };
    Error::Lacks { what, how }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_interface_takes_the_card_of_another_one_and_none_takes_all_places() {
        let card = |number: u8| Address::card(&[2, 0, 0, 0, 0, number]).unwrap();
        let bucket = Bucket { rate: "1/s".parse().unwrap(), depth: Tokens::whole(1) };
        let one = |name: &str, own: u8, behind: Vec<Address>| For {
            name: name.into(),
            bucket,
            card: Some(card(own)),
            behind,
        };
        let made_up = (0..u16::MAX).map(|n| Address::ip(std::net::Ipv4Addr::from(u32::from(n)).into()));
        let attacker = one("v0", 1, [card(2)].into_iter().chain(made_up).collect());
        let all = lanes(&[attacker, one("v1", 2, vec![card(3)])]);
        assert_eq!((all[&card(1)], all[&card(2)], all[&card(3)]), (FIRST, FIRST + 1, FIRST + 1));
        assert!(all.len() < 3 + BEHIND, "{}", all.len());
    }
}
