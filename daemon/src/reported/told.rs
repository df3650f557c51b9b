//! What a service has told so far, from whichever thread it comes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lengths that are told apart: those of a scraped histogram are its own.
const LENGTHS: usize = 8192;

/// What a service has told so far.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<Sums>);

#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) lengths: BTreeMap<u64, u64>,
    pub(super) count: u64,
    pub(super) total_ns: u64,
    /// What was not understood.
    pub(super) refused: u64,
    pub(super) problem: Option<String>,
}

impl Told {
    pub(super) fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many took so long, and this is what they took together.
    pub(super) fn add(&self, lengths: impl IntoIterator<Item = (u64, u64)>, total_ns: u64) {
        let mut sums = self.sums();
        for (ns, count) in lengths {
            if sums.lengths.len() < LENGTHS || sums.lengths.contains_key(&ns) {
                *sums.lengths.entry(ns).or_default() += count;
                sums.count += count;
            } else {
                sums.refused += count;
            }
        }
        sums.total_ns = sums.total_ns.saturating_add(total_ns);
    }

    /// All is well again.
    pub(super) fn is_right(&self) {
        self.sums().problem = None;
    }

    /// Something was not understood.
    pub(super) fn is_wrong(&self, why: String) {
        let mut sums = self.sums();
        sums.refused += 1;
        sums.problem = Some(why);
    }
}
