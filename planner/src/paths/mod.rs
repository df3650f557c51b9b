//! Paths of a site: the servers of all stages of each, chosen together, so that it keeps its promise at the least bandwidth
//! (docs/decisions/0052).
//!
//! The others find a place for them afterwards, like any that were promised a supply. As who else is on their cores is not known
//! yet, each is counted on by the end of its period only.

mod attempt;
mod course;
mod despite;
mod given;
mod nearest;
mod packets;
mod places;
mod plan;
mod proofs;
mod refusal;
mod saving;
mod search;
mod simulated;
mod topic;

pub(crate) use attempt::attempted;
pub(crate) use nearest::with_nearest;
pub(crate) use packets::{filled, say};
pub(crate) use places::placed;
pub(crate) use plan::{Networks, Resolved};
pub use refusal::{PathCause, PathRefusal, Unlike};
pub use saving::{would_save, Saving};
pub(crate) use search::PathAnswers;
pub(crate) use topic::said;
