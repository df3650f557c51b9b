//! The late arrival: a budget of 30 ms in 100 ms, a job of 29.8 ms that comes `phase` after the beginning of a period, another
//! 30.5 ms later. On a fixed grid the second finds a new budget where a period has begun in between; where a wake-up after
//! idling begins the period, it never does.

use crate::actors::{Clock, Job};
use crate::stage::{managed, reserved, server, show, simulated, ticks, undisturbed, Played, MS};
use giusto_daemon::Journal;
use giusto_model::{Duration, ServerKind};

/// The backends' lateness: each enforces within this, and what a machine adds to long jobs is a hundredth.
const TOLERANCE: u64 = 300_000;

fn pair(phase: u64) -> [Job; 2] {
    let demand = 29_800_000;
    let arrival = (100 + phase) * MS;
    [Job { arrival, demand }, Job { arrival: arrival + 30_500_000, demand }]
}

/// Prints a line; what was measured has to be what is foretold.
fn compare(what: &str, played: &Played, foretold: &[u64], tolerance: u64) {
    println!("  {what}: measured {}, simulated {}", show(&played.responses), show(foretold));
    for (measured, foretold) in played.responses.iter().zip(foretold) {
        let apart = measured.abs_diff(*foretold);
        assert!(apart <= tolerance + foretold / 100, "{what}: {apart} ns apart; {:?}", played.report);
    }
}

pub(crate) fn manager(core: u32, journal: &mut Journal) {
    let server = server(ServerKind::Deferrable, 30, 100);
    let mut sum = 0.0;
    for phase in (0..100).step_by(10) {
        let played = undisturbed(|| managed(core, server, &pair(phase), None, journal));
        let foretold = simulated(server, &played.jobs, None, None);
        compare(&format!("phase {phase:2} ms"), &played, &foretold, TOLERANCE);
        let twice = [&played.responses, &foretold].map(|responses| responses[1] < 31 * MS);
        assert_eq!(twice, [phase == 70; 2], "two budgets in a row are there at phase 70 only");
        sum += played.responses.iter().zip(&foretold).map(|(m, s)| *m as f64 - *s as f64).sum::<f64>();
    }
    println!("  on average {:.0} us later than simulated", sum / 20e3);
}

pub(crate) fn deadline(core: u32, journal: &mut Journal) {
    let server = server(ServerKind::ConstantBandwidth, 30, 100);
    let tick = giusto_compute::probe().tick;
    let each = |clock, tick: Option<Duration>, tolerance, phases: &[u64], journal: &mut Journal| {
        for &phase in phases {
            let played = undisturbed(|| reserved(core, clock, server, &pair(phase), journal));
            let foretold = simulated(server, &played.jobs, None, tick);
            let late = tick.map_or("at once".into(), |tick| format!("at the tick of {tick}"));
            compare(&format!("phase {phase:2} ms, enforced {late}"), &played, &foretold, tolerance);
            let waits = [played.responses[1], foretold[1]].iter().all(|&response| response > 90 * MS);
            assert!(waits, "the period begins with the first job, at any phase");
        }
    };
    each(Clock::Own, None, TOLERANCE, &[0, 70], journal);
    // Where the tick is not known to be, the overrun is at most one.
    let tolerance = if ticks(tick) { TOLERANCE } else { TOLERANCE + tick.ns() };
    each(Clock::Wall, Some(tick), tolerance, &[0, 70, 71, 72, 73], journal);
}
