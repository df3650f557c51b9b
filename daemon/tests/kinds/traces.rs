//! Traces of jobs: what was recorded of each on the machine is simulated, and the response times are compared one by one.

use crate::actors::{Clock, Job};
use crate::stage::{managed, reserved, server, simulated, ticks, undisturbed, Other, Played, Spoilt, MS};
use giusto_daemon::Journal;
use giusto_model::{Duration, Server, ServerKind};
use giusto_verify::{wasserstein, Sample};
use std::env;

const JOBS: usize = 60;
/// How far measured and simulated response times may be apart, in ns: on average, and for 95 of 100 jobs. Set
/// beforehand; in the late arrivals (`late.rs`) each response was later than simulated by 20 to 240 us, 80 us on average
/// (docs/decisions/0008-lateness.md).
const MEAN: u64 = 500_000;
const MOST: u64 = 1_000_000;
/// No trace hangs on less than this, in ns: response times move by no more than [`SMALL`] where all demands do by this. At
/// the edge, where a job ends just before or after its budget does, it is chance that decides.
const EDGE: i64 = 60_000;
const SMALL: u64 = 500_000;

pub(crate) fn manager(core: u32, journal: &mut Journal) -> Result<(), Spoilt> {
    use ServerKind::*;
    header();
    let kinds =
        [PeriodicStrict, PeriodicConserving, PeriodicReclaiming, Polling, Deferrable, Sporadic, ConstantBandwidth];
    kinds.into_iter().try_for_each(|kind| {
        let server = server(kind, 4, 20);
        let other = Some(Other { server: crate::stage::server(kind, 8, 20), from: 3 * MS });
        let jobs = trace(server, other, None);
        let play = || managed(core, server, &jobs, other, journal);
        undisturbed(play, |played| {
            let foretold = |kind| simulated(Server { kind, ..server }, &played.jobs, other, None);
            // Were another kind's server in its place, it would show.
            let wrong =
                kinds.iter().filter(|&&another| another != kind).map(|&another| mean(played, &foretold(another)));
            judge(&kind.to_string(), played, &foretold(kind), wrong.min().unwrap_or(0), 0)
        })
    })
}

pub(crate) fn deadline(core: u32, journal: &mut Journal) -> Result<(), Spoilt> {
    header();
    let server = server(ServerKind::ConstantBandwidth, 4, 20);
    let tick = giusto_compute::probe().tick;
    let jobs = trace(server, None, Some(tick));
    let play = || reserved(core, Clock::Wall, server, &jobs, journal);
    undisturbed(play, |played| {
        let at_once = mean(played, &simulated(server, &played.jobs, None, None));
        let foretold = simulated(server, &played.jobs, None, Some(tick));
        judge("constant_bandwidth", played, &foretold, at_once, if ticks(tick) { 0 } else { tick.ns() })
    })
}

/// Arrivals 1 to 48 ms apart, 16 ms on average, of 0.5 to 3.5 ms: 60 % of the server's budget. The first from the seed on
/// that does not hang on an edge.
fn trace(server: Server, other: Option<Other>, tick: Option<Duration>) -> Vec<Job> {
    let seed: u64 = env::var("GIUSTO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let safe = |jobs: &Vec<Job>| {
        let foretold = simulated(server, jobs, other, tick);
        [-EDGE, EDGE].iter().all(|&more| {
            let moved = |job: &Job| Job { demand: job.demand.saturating_add_signed(more), ..*job };
            let moved = simulated(server, &jobs.iter().map(moved).collect::<Vec<_>>(), other, tick);
            // A backlog adds up.
            moved.iter().zip(&foretold).all(|(a, b)| a.abs_diff(*b) < SMALL)
        })
    };
    (seed..seed + 10_000).map(random).find(safe).expect("a trace that does not hang on an edge")
}

fn random(seed: u64) -> Vec<Job> {
    let mut state = seed;
    let mut uniform = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut arrival = 20 * MS;
    let mut next = || {
        arrival += ((1.0 - uniform()).ln() * -16e6).clamp(1e6, 48e6) as u64;
        Job { arrival, demand: (0.5e6 + uniform() * 3e6) as u64 }
    };
    (0..JOBS).map(|_| next()).collect()
}

fn header() {
    println!(
        "  {:20} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "us", "jobs", "excluded", "mean", "p95", "max", "W1", "late", "wrong"
    );
}

/// How far apart undisturbed jobs are on average, in ns.
fn mean(played: &Played, foretold: &[u64]) -> u64 {
    let apart = apart(played, foretold);
    apart.iter().sum::<u64>() / apart.len().max(1) as u64
}

/// How far apart undisturbed jobs are, in ns, in order.
fn apart(played: &Played, foretold: &[u64]) -> Vec<u64> {
    let kept = (0..foretold.len()).filter(|&index| !played.is_disturbed(index));
    let mut apart: Vec<u64> = kept.map(|index| played.responses[index].abs_diff(foretold[index])).collect();
    apart.sort_unstable();
    apart
}

/// Prints a line of the table and says whether the trace is as foretold, within `more` ns than usual; `wrong`: how far apart a
/// wrong model would be on average.
fn judge(name: &str, played: &Played, foretold: &[u64], wrong: u64, more: u64) -> Result<(), String> {
    let apart = apart(played, foretold);
    // One job in 60 may arrive so near the end of a period, or end so near that of a budget, that 20 us put it on the other side,
    // and it waits for another server's whole budget; which side is chance, so it counts among the 5 % only.
    let usual = &apart[..apart.len() - apart.len() / 60];
    let mean = usual.iter().sum::<u64>() / usual.len().max(1) as u64;
    let kept: Vec<usize> = (0..foretold.len()).filter(|&index| !played.is_disturbed(index)).collect();
    let sample = |all: &[u64]| Sample::from_responses(kept.iter().map(|&index| Some(all[index]))).unwrap();
    let distance = wasserstein(&sample(&played.responses), &sample(foretold));
    let jobs = apart.len();
    let most = apart.get((jobs * 95).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0);
    let us = |ns: u64| ns / 1_000;
    println!(
        "  {name:20} {jobs:8} {:8} {:8} {:8} {:8} {:8.0} {:8} {:8}",
        foretold.len() - jobs,
        us(mean),
        us(most),
        us(apart.last().copied().unwrap_or(0)),
        distance / 1e3,
        us(played.report.late_mean_ns),
        us(wrong)
    );
    let near = mean <= MEAN + more && most <= MOST + more;
    near.then_some(()).ok_or_else(|| format!("{name}: mean {mean} ns, 95 % within {most} ns"))
}
