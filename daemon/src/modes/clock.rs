//! The clock of managers and agents of this host: CLOCK_MONOTONIC.

pub(super) use giusto_compute::now;
use giusto_model::Instant;

/// Until now, in ns.
pub(super) fn since(begun: Instant) -> u64 {
    now().ns().saturating_sub(begun.ns())
}
