//! How far apart two distributions of response times are.

use crate::sample::NEVER;
use crate::Sample;

/// Wasserstein-1 distance in ns: the area between the two empirical distribution functions, ∫ |F − G| (Vallender 1974;
/// the measure of [LiH21, section 3.4]). Summed in whole numbers, exact but for the final division. Infinite if the
/// shares of jobs that never finished differ; 0 if there is no job on either side, infinite if on one only. O(n + m) on
/// samples, which are sorted.
pub fn wasserstein(a: &Sample, b: &Sample) -> f64 {
    let mut area = 0u128;
    let mut open = false;
    let scale = scan(a, b, |gap, apart| match gap {
        // At most 2^64 · 2^62: sizes are bounded by MAX_JOBS.
        Some(gap) => area += u128::from(gap) * u128::from(apart),
        None => open |= apart > 0,
    });
    match scale {
        _ if open => f64::INFINITY,
        Some(scale) => area as f64 / scale as f64,
        None => empty(a, b, f64::INFINITY),
    }
}

/// Two-sample Kolmogorov–Smirnov statistic: sup |F − G|, from 0 to 1. A job that never finished counts as slower than
/// any; 0 if there is no job on either side, 1 if on one only. O(n + m).
pub fn kolmogorov_smirnov(a: &Sample, b: &Sample) -> f64 {
    let mut most = 0u64;
    match scan(a, b, |_, apart| most = most.max(apart)) {
        Some(scale) => most as f64 / scale as f64,
        None => empty(a, b, 1.0),
    }
}

fn empty(a: &Sample, b: &Sample, apart: f64) -> f64 {
    if a.len() == b.len() {
        0.0
    } else {
        apart
    }
}

/// Walks the merged support upwards. `visit` gets each value's distance to the next (`None` if the next is never) and
/// |F − G| there in units of 1/(n·m), which is the answer (`None` if a side is empty).
fn scan(a: &Sample, b: &Sample, mut visit: impl FnMut(Option<u64>, u64)) -> Option<u64> {
    let (a, b) = (a.sorted(), b.sorted());
    let (n, m) = (a.len() as u64, b.len() as u64);
    if n == 0 || m == 0 {
        return None;
    }
    let (mut i, mut j) = (0, 0);
    loop {
        let Some(&at) = a.get(i).into_iter().chain(b.get(j)).min() else { return Some(n * m) };
        i += a[i..].iter().take_while(|&&ns| ns == at).count();
        j += b[j..].iter().take_while(|&&ns| ns == at).count();
        let next = a.get(i).into_iter().chain(b.get(j)).min().copied().unwrap_or(at);
        let gap = if next == NEVER && at != NEVER { None } else { Some(next - at) };
        visit(gap, (i as u64 * m).abs_diff(j as u64 * n));
    }
}
