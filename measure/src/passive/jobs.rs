//! Requests and jobs told one by one (bpf/jobs.h), all of them as long as they are recorded, and always those that are late:
//! rings that the programs of [`Requests`](super::Requests) or [`WakeUps`](super::WakeUps) write.

use super::shared::refused;
use crate::Error;
use aya::maps::{Array, MapData, RingBuf};
use aya::Ebpf;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `struct job`.
const JOB: usize = 32;

/// A request that was answered, or a job that was done. Times are CLOCK_MONOTONIC's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// When the request arrived, or what woke the thread.
    pub from_ns: u64,
    /// When its answer was handed over, or the thread went back to sleep.
    pub to_ns: u64,
    /// The number of its service ([`Watch`](super::Watch)).
    pub service: usize,
    /// The process of the thread that answered, or whose job it was.
    pub process: u32,
    /// That thread.
    pub thread: u32,
}

/// Where they are read. All copies read the same rings: each job is told to one of them.
#[derive(Clone)]
pub struct Jobs(Arc<Mutex<Maps>>);

struct Maps {
    told: RingBuf<MapData>,
    recorded: Array<MapData, u32>,
    untold: Array<MapData, u64>,
    is_recorded: bool,
    late: RingBuf<MapData>,
    within: Array<MapData, u64>,
    /// What is in it.
    promised: BTreeMap<u32, u64>,
}

impl Jobs {
    /// Of programs that have been loaded.
    pub(super) fn of(programs: &mut Ebpf) -> Result<Jobs, Error> {
        let mut map = |name: &str| programs.take_map(name).expect("a map of this object");
        Ok(Jobs(Arc::new(Mutex::new(Maps {
            told: RingBuf::try_from(map("told")).map_err(|why| refused(&why))?,
            recorded: Array::try_from(map("recorded")).map_err(|why| refused(&why))?,
            untold: Array::try_from(map("untold")).map_err(|why| refused(&why))?,
            is_recorded: false,
            late: RingBuf::try_from(map("late")).map_err(|why| refused(&why))?,
            within: Array::try_from(map("within")).map_err(|why| refused(&why))?,
            promised: BTreeMap::new(),
        }))))
    }

    /// From now on jobs are told, or are no more. Errors: the kernel refuses.
    pub fn record(&self, on: bool) -> Result<(), Error> {
        let mut maps = self.maps();
        if on && !maps.is_recorded {
            while maps.told.next().is_some() {} // of a recording before
        }
        maps.is_recorded = on;
        maps.recorded.set(0, u32::from(on), 0).map_err(|why| refused(&why))
    }

    /// Hands over those that have not been read yet, in the order in which they ended.
    pub fn take(&self, mut to: impl FnMut(Job)) {
        read(&mut self.maps().told, &mut to);
    }

    /// From now on a job of a service is late that takes longer than this, in ns. Errors: the kernel refuses.
    pub fn promise(&self, promised: &BTreeMap<usize, u64>) -> Result<(), Error> {
        let mut maps = self.maps();
        let wanted: BTreeMap<u32, u64> = promised.iter().map(|(service, ns)| (*service as u32, *ns)).collect();
        let before = std::mem::replace(&mut maps.promised, wanted.clone());
        let gone = before.keys().filter(|service| !wanted.contains_key(service)).map(|service| (*service, 0));
        let new =
            wanted.iter().filter(|(service, ns)| before.get(service) != Some(ns)).map(|(service, ns)| (*service, *ns));
        for (service, ns) in gone.chain(new) {
            maps.within.set(service, ns, 0).map_err(|why| refused(&why))?;
        }
        Ok(())
    }

    /// Hands over late ones that have not been read yet, in the order in which they ended; of some thousands at once the
    /// last ones are missing.
    pub fn take_late(&self, mut to: impl FnMut(Job)) {
        read(&mut self.maps().late, &mut to);
    }

    /// Jobs for which there was no room, so far.
    pub fn lost(&self) -> u64 {
        self.maps().untold.get(&0, 0).unwrap_or(0)
    }

    fn maps(&self) -> MutexGuard<'_, Maps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(ring: &mut RingBuf<MapData>, to: &mut dyn FnMut(Job)) {
    while let Some(item) = ring.next() {
        let Some(bytes) = item.first_chunk::<JOB>() else { continue };
        let time = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let number = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        to(Job {
            from_ns: time(0),
            to_ns: time(8),
            service: number(16) as usize,
            process: number(20),
            thread: number(24),
        });
    }
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").finish_non_exhaustive()
    }
}
