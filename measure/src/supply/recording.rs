//! When a probe had the processor, and how much that is in windows.

use giusto_model::{Duration, Instant};
use std::io::{self, Write};

/// A time without supply: from the last reading of the clock before it to the first one after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Its first instant.
    pub from: Instant,
    /// The first instant after it.
    pub until: Instant,
}

impl Gap {
    pub(super) fn ns(self) -> u64 {
        self.until.ns() - self.from.ns()
    }
}

/// A span of CLOCK_MONOTONIC, supplied but for its gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    start: Instant,
    end: Instant,
    gaps: Vec<Gap>,
}

/// One window of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its first instant.
    pub from: Instant,
    /// What was supplied in it.
    pub supply: Duration,
}

impl Recording {
    /// `gaps` in order and apart, all within.
    pub(super) fn new(start: Instant, end: Instant, gaps: Vec<Gap>) -> Self {
        debug_assert!(gaps.windows(2).all(|pair| pair[0].until <= pair[1].from));
        debug_assert!(gaps.iter().all(|gap| start <= gap.from && gap.from < gap.until && gap.until <= end));
        Recording { start, end, gaps }
    }

    /// Its first instant.
    pub fn start(&self) -> Instant {
        self.start
    }
    /// The first instant after it.
    pub fn end(&self) -> Instant {
        self.end
    }
    /// In order.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }
    /// Its length.
    pub fn elapsed(&self) -> Duration {
        Duration::from_ns(self.end.ns() - self.start.ns())
    }
    /// All of it but the gaps. O(gaps).
    pub fn supply(&self) -> Duration {
        Duration::from_ns(self.elapsed().ns() - self.gaps.iter().map(|gap| gap.ns()).sum::<u64>())
    }

    /// The whole windows in it: they begin at `phase` and all multiples of `length` from it. O(windows + gaps).
    pub fn windows(&self, length: Duration, phase: Duration) -> impl Iterator<Item = Window> + '_ {
        let (length, phase) = (length.ns(), phase.ns() % length.ns());
        let behind = (self.start.ns() + length - phase) % length;
        let first = self.start.ns() + if behind == 0 { 0 } else { length - behind };
        let count = self.end.ns().saturating_sub(first) / length;
        let mut lost = Lost::of(&self.gaps);
        let mut before = lost.until(first);
        (0..count).map(move |n| {
            let from = first + n * length;
            let after = lost.until(from + length);
            let gone = after - std::mem::replace(&mut before, after);
            Window { from: Instant::from_ns(from), supply: Duration::from_ns(length - gone) }
        })
    }

    /// CSV with the header `from_ns,until_ns`: a line a gap.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_gaps(&self, mut out: impl Write) -> io::Result<()> {
        writeln!(out, "from_ns,until_ns")?;
        self.gaps.iter().try_for_each(|gap| writeln!(out, "{},{}", gap.from.ns(), gap.until.ns()))?;
        out.flush()
    }

    /// CSV with the header `from_ns,supply_ns`: a line a whole window.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_windows(&self, length: Duration, phase: Duration, mut out: impl Write) -> io::Result<()> {
        writeln!(out, "from_ns,supply_ns")?;
        self.windows(length, phase).try_for_each(|w| writeln!(out, "{},{}", w.from.ns(), w.supply.ns()))?;
        out.flush()
    }
}

/// Walks forward through gaps and tells how much lies in them.
pub(super) struct Lost<'a> {
    left: &'a [Gap],
    passed: u64,
}

impl<'a> Lost<'a> {
    pub(super) fn of(gaps: &'a [Gap]) -> Self {
        Lost { left: gaps, passed: 0 }
    }

    /// Time in gaps before `at`, in ns; `at` must not fall from one call to the next. O(1) amortized.
    pub(super) fn until(&mut self, at: u64) -> u64 {
        while let Some((gap, left)) = self.left.split_first().filter(|(gap, _)| gap.until.ns() <= at) {
            self.passed += gap.ns();
            self.left = left;
        }
        self.passed + self.left.first().map_or(0, |gap| at.saturating_sub(gap.from.ns()))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A recording from `start` of pieces, supplied and not in turns, beginning with a supplied one.
    pub(crate) fn recording(start: u64, pieces: &[u64]) -> Recording {
        let (mut at, mut gaps) = (start, Vec::new());
        for (index, &piece) in pieces.iter().enumerate() {
            if index % 2 == 1 {
                gaps.push(Gap { from: Instant::from_ns(at), until: Instant::from_ns(at + piece) });
            }
            at += piece;
        }
        Recording::new(Instant::from_ns(start), Instant::from_ns(at), gaps)
    }

    /// Supplied in [from, until), instant by instant.
    pub(crate) fn brute(recording: &Recording, from: u64, until: u64) -> u64 {
        let gone = |at: u64| recording.gaps().iter().any(|gap| gap.from.ns() <= at && at < gap.until.ns());
        (from..until).filter(|&at| !gone(at)).count() as u64
    }

    /// Small, so that brute force can walk it; supplied pieces may be empty, so that gaps touch.
    pub(crate) fn any_recording() -> impl Strategy<Value = Recording> {
        let pieces = prop::collection::vec((0..6u64, 1..6u64), 0..7);
        (0..30u64, pieces, 1..6u64).prop_map(|(start, pairs, rest)| {
            let mut pieces: Vec<u64> = pairs.into_iter().flat_map(|(on, off)| [on, off]).collect();
            pieces.push(rest);
            recording(start, &pieces)
        })
    }

    proptest! {
        #[test]
        fn windows_are_whole_aligned_and_hold_what_brute_force_counts(
            recording in any_recording(), length in 1..12u64, phase in 0..40u64,
        ) {
            let (start, end) = (recording.start().ns(), recording.end().ns());
            let aligned = (start..end).filter(|at| at % length == phase % length && at + length <= end);
            let expected: Vec<(u64, u64)> = aligned.map(|at| (at, brute(&recording, at, at + length))).collect();
            let windows = recording.windows(Duration::from_ns(length), Duration::from_ns(phase));
            let found: Vec<(u64, u64)> = windows.map(|w| (w.from.ns(), w.supply.ns())).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(recording.supply().ns(), brute(&recording, start, end));
        }
    }

    #[test]
    fn files_have_a_line_a_gap_and_a_line_a_window() {
        let recording = recording(5, &[5, 7, 3, 7, 3, 1]);
        let (mut gaps, mut windows) = (Vec::new(), Vec::new());
        recording.write_gaps(&mut gaps).unwrap();
        recording.write_windows(Duration::from_ns(10), Duration::ZERO, &mut windows).unwrap();
        assert_eq!(String::from_utf8(gaps).unwrap(), "from_ns,until_ns\n10,17\n20,27\n30,31\n");
        assert_eq!(String::from_utf8(windows).unwrap(), "from_ns,supply_ns\n10,3\n20,3\n");
    }
}
