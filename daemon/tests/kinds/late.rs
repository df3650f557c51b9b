//! The late arrival: a budget of 30 ms in 100 ms, a job of 29 ms that comes `phase` after the beginning of a period, another
//! 30.5 ms later. On a fixed grid the second finds a new budget where a period has begun in between; where a wake-up after
//! idling begins the period, it never does. At phase 70 the first job ends 1 ms before that beginning: several times what a
//! machine adds to a job, so that its end never falls into the new period.

use crate::actors::{Clock, Job};
use crate::stage::{managed, reserved, server, show, simulated, ticks, undisturbed, Played, Spoilt, MS};
use giusto_daemon::Journal;
use giusto_model::{Duration, ServerKind};

/// The backends' lateness: each enforces within this, and what a machine adds to long jobs is a hundredth.
const TOLERANCE: u64 = 300_000;

fn pair(phase: u64) -> [Job; 2] {
    let demand = 29_000_000;
    let arrival = (100 + phase) * MS;
    [Job { arrival, demand }, Job { arrival: arrival + 30_500_000, demand }]
}

/// Prints a line; what was measured has to be what is foretold.
fn compare(what: &str, played: &Played, foretold: &[u64], tolerance: u64) -> Result<(), String> {
    println!("  {what}: measured {}, simulated {}", show(&played.responses), show(foretold));
    let apart = |(measured, foretold): (&u64, &u64)| (measured.abs_diff(*foretold), tolerance + foretold / 100);
    let mut pairs = played.responses.iter().zip(foretold).map(apart);
    pairs.find(|(apart, most)| apart > most).map_or(Ok(()), |(apart, _)| Err(format!("{what}: {apart} ns apart")))
}

pub(crate) fn manager(core: u32, journal: &mut Journal) -> Result<(), Spoilt> {
    let server = server(ServerKind::Deferrable, 30, 100);
    let mut sum = 0.0;
    for phase in (0..100).step_by(10) {
        let play = || managed(core, server, &pair(phase), None, journal);
        sum += undisturbed(play, |played| {
            let foretold = simulated(server, &played.jobs, None, None);
            compare(&format!("phase {phase:2} ms"), played, &foretold, TOLERANCE)?;
            let twice = [&played.responses, &foretold].map(|responses| responses[1] < 31 * MS);
            if twice != [phase == 70; 2] {
                return Err(format!(
                    "phase {phase:2} ms: two budgets in a row are there at phase 70 only, not {twice:?}"
                ));
            }
            Ok(played.responses.iter().zip(&foretold).map(|(m, s)| *m as f64 - *s as f64).sum::<f64>())
        })?;
    }
    println!("  on average {:.0} us later than simulated", sum / 20e3);
    Ok(())
}

pub(crate) fn deadline(core: u32, journal: &mut Journal) -> Result<(), Spoilt> {
    let server = server(ServerKind::ConstantBandwidth, 30, 100);
    let tick = giusto_compute::probe().tick;
    let mut each = |clock, tick: Option<Duration>, tolerance, phases: &[u64]| {
        phases.iter().try_for_each(|&phase| {
            let late = tick.map_or("at once".into(), |tick| format!("at the tick of {tick}"));
            let play = || reserved(core, clock, server, &pair(phase), journal);
            undisturbed(play, |played| {
                let foretold = simulated(server, &played.jobs, None, tick);
                let compared = compare(&format!("phase {phase:2} ms, enforced {late}"), played, &foretold, tolerance);
                let waits = [played.responses[1], foretold[1]].iter().all(|&response| response > 90 * MS);
                assert!(waits, "the period begins with the first job, at any phase");
                compared
            })
        })
    };
    each(Clock::Own, None, TOLERANCE, &[0, 70])?;
    // Where the tick is not known to be, the overrun is at most one.
    let tolerance = if ticks(tick) { TOLERANCE } else { TOLERANCE + tick.ns() };
    each(Clock::Wall, Some(tick), tolerance, &[0, 70, 71, 72, 73])
}
