//! The laws of the policy core (README.md), each against an independent, slow oracle or a bound computed by hand.

mod budgets;
mod calls;
mod criticality;
mod driver;
mod jobs;
mod oracle;
mod pair;
mod schedules;
mod supply;

use giusto_policy::Kind;
use oracle::Spec;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

const PERIODIC: [Kind; 3] = [Kind::PeriodicStrict, Kind::PeriodicConserving, Kind::PeriodicReclaiming];
const ALL: [Kind; Kind::ALL.len()] = Kind::ALL;
const BOUNDED: &[Kind] = Kind::WITH_BUDGET;

/// A random reservation of one of the kinds, with a period of 2 to 20 ns.
fn reservation(random: &mut ChaCha8Rng, kinds: &[Kind]) -> Spec {
    let period = random.random_range(2..=20);
    Spec {
        kind: kinds[random.random_range(0..kinds.len())],
        budget: random.random_range(1..=period),
        period,
        priority: random.random_range(0..4),
        first: if random.random_bool(0.2) { random.random_range(1..20) } else { 0 },
    }
}
