//! The latency that an ensemble counts on, beside what was measured of its hosts.

use crate::refusal::Refusal;
use crate::words::time;
use giusto_model::Duration;

/// Refuses an L that is smaller than what was measured of one of the ensemble's hosts.
pub(super) fn no_less(latency: Duration, here: Option<(&str, Duration)>) -> Result<(), Refusal> {
    match here.filter(|(_, measured)| *measured > latency) {
        None => Ok(()),
        Some((host, measured)) => Err(Refusal::Latency {
            why: format!(
                "{} on host '{host}', of whose ensemble no server may be later than {}",
                time(measured),
                time(latency)
            ),
            remedy: "write the largest of all its hosts as coordination: {measured: {latency: ...}}".into(),
        }),
    }
}
