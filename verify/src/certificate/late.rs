//! How many messages are late at a service, by the law of [`survival`](super::survival), not the planner's.

use super::broken::Broken;
use super::excess::{first_and_after, Counted, LEFT_OUT};
use super::route::Server;
use super::survival::{Law, Queue};
use giusto_model::{Arrivals, Duration, Rate};

const BILLION: f64 = 1e9;
/// Of what a stage claims to be late: what the planner's computation may be off, as for a service's own percentiles.
const OFF: f64 = 0.01;
/// Parts of a period by which time beyond d is summed up.
const STEPS: f64 = 8.0;
/// Whether no more are late at a stage than the plan says.
pub(super) fn claimed(stage: &str, beyond_ppb: u32, late: f64) -> Result<(), Broken> {
    let claimed = f64::from(beyond_ppb) / BILLION;
    match late > claimed * (1.0 + OFF) {
        true => {
            let what = format!("messages that are late at '{stage}', of a million, at most");
            Err(Broken::new(what, 1e6 * claimed, 1e6 * late))
        }
        false => Ok(()),
    }
}

/// P(R > d) + (λ/x)·E(R − d)⁺, of a server to which messages come so often, 1/ns.
pub(super) fn late_at(
    stage: &Server,
    (within, beyond_ppb): (Duration, u32),
    often: f64,
    counted: Counted,
) -> Result<f64, Broken> {
    let Counted { once, each } = counted;
    // Rounded up.
    let rate = Rate::of((often * 1e18).ceil() as u64, Duration::from_ns(1_000_000_000_000_000_000));
    let rate = rate.ok_or_else(|| Broken::new("a rate", "some", often))?;
    let service: Vec<(u64, f64)> = stage.service.bound().into_iter().map(|(time, p)| (time.ns(), p)).collect();
    let mean: f64 = service.iter().map(|(time, p)| *time as f64 * p).sum();
    let (load, share) = (often * mean, stage.budget as f64 / stage.period as f64);
    if stage.budget == 0 || stage.budget > stage.period || load >= share * (1.0 - 1e-6) {
        return Err(Broken::new("bandwidth for all messages", load, share));
    }
    let claimed = f64::from(beyond_ppb) / BILLION;
    if beyond_ppb == 0 {
        return Err(Broken::new("some messages that may be late at each stage", "1 billionth or more", 0));
    }
    let step = stage.period as f64 / STEPS;
    // What matters of the law reaches as far down as the sum beyond d does.
    let least = claimed * LEFT_OUT / (1.0 + each * step * STEPS);
    let arrivals = Arrivals { rate, batch: 1 };
    let queue = Queue { arrivals, service, period: stage.period, budget: stage.budget, alone: false };
    let law = Law::new(&queue, least.max(1e-12))?;
    let d = within.ns().saturating_sub(stage.latency) as f64;
    let first = (1.0 - law.within(d)).max(0.0);
    if each == 0.0 {
        return Ok(first);
    }
    let beyond = |times: &[f64]| law.within_each(times).into_iter().map(|within| 1.0 - within).collect();
    let all = first_and_after(d, step, (each, claimed), beyond)?;
    Ok(if once { all } else { all - first })
}
