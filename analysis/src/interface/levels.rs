//! dbf from above, the quicker the coarser: the tasks with the most work a job exactly, the others by the line that their dbf never
//! passes. Far away from what decides that is mostly enough.

use super::lines::{due, Line};

/// Some of the lines, and a line above all others together.
#[derive(Debug)]
struct Level {
    count: usize,
    /// Σ C/T of the others, in 2^-64, rounded up.
    slope: u128,
    /// Σ (C/T)(T − D) of the others, rounded up, and what rounding may cost.
    early: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Levels {
    /// The most work first.
    lines: Vec<Line>,
    levels: Vec<Level>,
}

/// What a level says.
pub(super) struct Above {
    /// At least dbf.
    pub(super) demand: u64,
    /// Lines looked at for it.
    pub(super) looks: u64,
}

impl Levels {
    /// For lines with U ≤ 1. A sixteenth of the lines, and a quarter; no level for fewer than four.
    pub(super) fn new(mut lines: Vec<Line>) -> Self {
        lines.sort_unstable_by_key(|line| std::cmp::Reverse(line.work));
        let level = |part: usize| {
            let count = lines.len() / part;
            let others = &lines[count..];
            let slope = others.iter().map(|line| (u128::from(line.work) << 64).div_ceil(line.period.into())).sum();
            let early = others.iter().map(|line| {
                let product = u128::from(line.work) * u128::from(line.period - line.deadline);
                product.div_ceil(line.period.into()) as u64 // at most T
            });
            (count >= 4).then(|| Level { count, slope, early: early.fold(1, u64::saturating_add) })
        };
        let levels = [16, 4].into_iter().filter_map(level).collect();
        Levels { lines, levels }
    }

    /// All lines.
    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// dbf(t) from above for t < 2^62, coarse to fine.
    pub(super) fn above(&self, t: u64) -> impl Iterator<Item = Above> + '_ {
        self.levels.iter().map(move |level| {
            let others = ((level.slope * u128::from(t)) >> 64) as u64; // at most t, and a little
            let demand = due(&self.lines[..level.count], t).saturating_add(others).saturating_add(level.early);
            Above { demand, looks: level.count as u64 }
        })
    }
}
