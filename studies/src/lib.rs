//! The published experiments, repeated: random task sets or arrivals in, tables out.
//!
//! Called by the command line (`giusto study`) and by tests; calls `analysis` for interfaces, `simulator` for schedules,
//! `planner` for servers, `measure` where a study is about this machine, and `verify` for what the tables say. One module an
//! experiment; each has a folder beside `src` with its `study.toml` (sizes and claims) and a README (what the paper says, what
//! comes out here). It decides nothing that a host would use.

mod akita;
mod csa;
mod error;
mod experiments;
pub mod interfaces;
mod m2;
mod mdds1;
mod measured;
mod name;
mod paths;
pub mod placement;
pub mod play;
mod rtzk;
mod runner;
pub mod sets;
mod size;
mod srtm;
mod tables;
mod vas;
mod vatc;
mod vm_latency;

pub use error::Error;
pub use experiments::run;
pub use name::Name;
pub use runner::{play, read, Played};
pub use size::Size;
