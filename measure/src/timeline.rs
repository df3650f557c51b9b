//! Which thread each core runs and which threads wait for it, change by change, for as long as this is looked at.
//!
//! Programs in the kernel (bpf/switches.bpf.c; tracepoints sched_switch and sched_wakeup) tell each change of the cores that
//! are looked at; nothing else is slowed down. Called by the page of a running giusto, and by what it records.

use crate::passive::{attach, refused};
use crate::Error;
use aya::maps::{Array, HashMap, RingBuf};
use aya::Ebpf;
use std::collections::{BTreeMap, HashMap as Known};

const RUNS: u32 = 1;
const STAYS: u32 = 4;
const PROGRAMS: [(&str, &str); 2] = [("switches", "sched_switch"), ("wakes", "sched_wakeup")];

/// Bytes of a change.
const CHANGE: usize = 40;

/// One change of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Which core.
    pub core: u32,
    /// The process of the thread; 0 where the core is idle from now on.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// What it does.
    pub what: What,
    /// What the thread is called, in bytes, and zeroes.
    pub name: [u8; 16],
}

impl Change {
    /// What the thread is called.
    pub fn name(&self) -> String {
        let length = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..length]).into_owned()
    }
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It runs from now on; whether the one before it still wants the core.
    Runs {
        /// It was preempted.
        stays: bool,
    },
    /// It wants a core from now on.
    Wakes,
}

/// The programs in the kernel. Dropping it ends them.
pub struct Recorder {
    changes: RingBuf<aya::maps::MapData>,
    lost: Array<aya::maps::MapData, u64>,
    _programs: Ebpf,
}

impl Recorder {
    /// Looks at `cores` from now on. Errors: the kernel or the rights for it are missing.
    pub fn new(cores: &[u32]) -> Result<Recorder, Error> {
        let object = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/switches.bpf.o"));
        let mut programs = Ebpf::load(object).map_err(|why| refused(&why))?;
        let mut map = |name: &str| programs.take_map(name).expect("a map of this object");
        let mut wanted: HashMap<_, u32, u8> = HashMap::try_from(map("cores")).map_err(|why| refused(&why))?;
        for core in cores {
            wanted.insert(core, 1, 0).map_err(|why| refused(&why))?;
        }
        let changes = RingBuf::try_from(map("changes")).map_err(|why| refused(&why))?;
        let lost = Array::try_from(map("lost")).map_err(|why| refused(&why))?;
        attach(&mut programs, &PROGRAMS)?;
        Ok(Recorder { changes, lost, _programs: programs })
    }

    /// The next change that has not been read, in the order in which they were told: of each core by time.
    pub fn next_change(&mut self) -> Option<Change> {
        let item = self.changes.next()?;
        let bytes: &[u8; CHANGE] = item.first_chunk()?;
        let number = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let what = number(20);
        Some(Change {
            at_ns: u64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes")),
            core: number(8),
            process: number(12),
            thread: number(16),
            what: if what & RUNS != 0 { What::Runs { stays: what & STAYS != 0 } } else { What::Wakes },
            name: bytes[24..].try_into().expect("sixteen bytes"),
        })
    }

    /// Changes for which there was no room, so far.
    pub fn lost(&self) -> u64 {
        self.lost.get(&0, 0).unwrap_or(0)
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// What one name did on a core. Times in ns from the beginning of the window: when, and how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// It had the core.
    pub runs: Vec<[u64; 2]>,
    /// It wanted the core, and another one had it.
    pub waits: Vec<[u64; 2]>,
    /// It woke up.
    pub wakes: Vec<u64>,
}

/// The lanes of each core from `from_ns` to `until_ns`, of `changes` by time; `name` tells whose a process is, `None`: not of
/// interest. O(changes).
pub fn lanes<'n>(
    changes: impl IntoIterator<Item = Change>,
    (from_ns, until_ns): (u64, u64),
    name: impl Fn(u32) -> Option<&'n str>,
) -> BTreeMap<u32, BTreeMap<&'n str, Lane>> {
    let mut cores: BTreeMap<u32, BTreeMap<&str, Lane>> = BTreeMap::new();
    let mut running: BTreeMap<u32, Change> = BTreeMap::new();
    // Threads that want a core: since when, and which.
    let mut waiting: Known<u32, (u64, u32)> = Known::new();
    let mut add = |core: u32, process: u32, begin: u64, end: u64, which: fn(&mut Lane) -> &mut Vec<[u64; 2]>| {
        let (begin, end) = (begin.max(from_ns), end.min(until_ns));
        let Some(name) = name(process).filter(|_| begin < end) else { return };
        let list = which(cores.entry(core).or_default().entry(name).or_default());
        let (begin, length) = (begin - from_ns, end - begin);
        match list.last_mut() {
            // Threads of one name that follow each other.
            Some([at, long]) if *at + *long == begin => *long += length,
            _ => list.push([begin, length]),
        }
    };
    let mut woke = Vec::new();
    for change in changes {
        if change.at_ns > until_ns {
            break;
        }
        match change.what {
            What::Wakes => {
                waiting.entry(change.thread).or_insert((change.at_ns, change.process));
                woke.push(change);
            }
            What::Runs { stays } => {
                if let Some(before) = running.insert(change.core, change) {
                    add(change.core, before.process, before.at_ns, change.at_ns, |lane| &mut lane.runs);
                    if stays && before.thread != 0 {
                        waiting.insert(before.thread, (change.at_ns, before.process));
                    }
                }
                if let Some((since, process)) = waiting.remove(&change.thread) {
                    add(change.core, process, since, change.at_ns, |lane| &mut lane.waits);
                }
            }
        }
    }
    for (core, last) in running {
        add(core, last.process, last.at_ns, until_ns, |lane| &mut lane.runs);
    }
    for change in woke.into_iter().filter(|change| change.at_ns >= from_ns) {
        if let Some(name) = name(change.process) {
            cores.entry(change.core).or_default().entry(name).or_default().wakes.push(change.at_ns - from_ns);
        }
    }
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(at_ns: u64, thread: u32, what: What) -> Change {
        Change { at_ns, core: 1, process: thread / 10, thread, what, name: *b"a thread\0\0\0\0\0\0\0\0" }
    }

    const RUNS: What = What::Runs { stays: false };

    #[test]
    fn a_preempted_thread_waits_and_threads_of_one_name_are_one_piece() {
        // Processes 1 ("a": threads 10, 11) and 2 ("b": thread 20); thread 0 is the idle core.
        let changes = [
            change(50, 10, RUNS),
            change(110, 20, What::Wakes),
            change(120, 20, What::Runs { stays: true }),
            change(150, 10, RUNS),
            change(160, 11, RUNS),
            change(190, 0, RUNS),
        ];
        let name = |process| [None, Some("a"), Some("b")][process as usize];
        let cores = lanes(changes, (100, 200), name);
        let a = Lane { runs: vec![[0, 20], [50, 40]], waits: vec![[20, 30]], wakes: vec![] };
        let b = Lane { runs: vec![[20, 30]], waits: vec![[10, 10]], wakes: vec![10] };
        assert_eq!(cores, BTreeMap::from([(1, BTreeMap::from([("a", a), ("b", b)]))]));
    }

    #[test]
    fn a_core_is_never_had_twice_at_once() {
        let changes = (0..1000).map(|n| change(10 * n, 10 * (1 + n as u32 * 7 % 3), What::Runs { stays: n % 2 == 0 }));
        let name = |process| [None, Some("a"), Some("b"), Some("c")][process as usize];
        let cores = lanes(changes, (0, 10_000), name);
        let mut all: Vec<[u64; 2]> = cores[&1].values().flat_map(|lane| lane.runs.clone()).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|two| two[0][0] + two[0][1] <= two[1][0]));
        assert_eq!(all.iter().map(|[_, long]| long).sum::<u64>(), 10_000);
    }
}
