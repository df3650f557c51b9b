//! The promises: a folder each, with its planner, its refusals, its explanation and what it predicts. This is their list.

mod agent;
pub(crate) mod as_if_alone;
pub(crate) mod every_deadline;
pub(crate) mod leftovers;
mod method;
pub(crate) mod percentiles;
mod stage;
pub(crate) mod supply;

pub(crate) use method::{Asks, Method, Room};

use giusto_model::Promise;

/// How such a promise is kept.
pub(crate) fn of(promise: &Promise) -> &'static dyn Method {
    match promise {
        Promise::AsIfAlone => &as_if_alone::AsIfAlone,
        Promise::EveryDeadline { .. } => &every_deadline::EveryDeadline,
        Promise::Percentiles { .. } => &percentiles::Percentiles,
        Promise::Stage { .. } => &stage::Stage,
        Promise::Supply(_) => &supply::Supply,
        Promise::Leftovers { .. } => &leftovers::Leftovers,
    }
}
