//! What comes after a time, summed up step by step.

use super::broken::Broken;

/// What counts as late at a stage.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    /// Whether a message itself is late,
    pub(super) once: bool,
    /// and λ/x of those that may delay what comes after them, 1/ns; 0 at the last stage.
    pub(super) each: f64,
}

/// What is left out, as a part of the claim.
pub(super) const LEFT_OUT: f64 = 1e-3;
const MOST_STEPS: usize = 20_000;
/// Steps whose times are looked at together.
const AT_ONCE: usize = 100;

/// P(R > d) + each · E(R − d)⁺, where less than [`LEFT_OUT`] of `claimed` is left out; `beyond` tells P(R > t) of some t.
pub(super) fn first_and_after(
    d: f64,
    step: f64,
    (each, claimed): (f64, f64),
    beyond: impl Fn(&[f64]) -> Vec<f64>,
) -> Result<f64, Broken> {
    // From the left of each step, so that it is not too little.
    let (mut first, mut sum, mut here) = (0.0, 0.0, 1.0);
    for steps in (0..MOST_STEPS).step_by(AT_ONCE) {
        let times: Vec<f64> = (steps..steps + AT_ONCE).map(|nth| d + nth as f64 * step).collect();
        for (nth, next) in (steps..).zip(beyond(&times)) {
            let next = next.max(0.0);
            if nth == 0 {
                first = next;
            }
            // It falls like a geometric series in the end.
            let ratio = (next / here).min(0.99);
            if nth > 0 && each * next * step / (1.0 - ratio) < LEFT_OUT * claimed {
                return Ok(first + each * sum);
            }
            sum += next * step;
            here = next;
        }
    }
    Err(Broken::new("steps until hardly any message is later", format!("at most {MOST_STEPS}"), "more"))
}
