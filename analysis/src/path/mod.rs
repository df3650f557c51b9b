//! Paths: from the arrival of a message to its last answer, over several stages.
//!
//! A percentile theorem for tandems of monotone stages behind Poisson sources, ours (docs/decisions/0052-paths.md states and
//! proves it): [`percentile`]. Every message in time, by arrival and service curves: [`every`].

mod choice;
mod curve;
mod error;
mod every;
mod lines;
mod net;
mod optimum;
mod percentile;

pub use curve::Arrival;
pub use error::PathError;
pub use every::{every, Every, Late};
pub use net::{Flow, Net, Source, Stage, Step, Visit};
pub use optimum::{bound, is_within, within, within_by};
pub use percentile::{Bound, Laws, Part};
