//! Measurement from outside: open-loop load on a running service, the execution times of its requests, and what
//! disturbs both. And from inside: the processor time that the caller really gets.
//!
//! Called by `daemon` and `cli`. In flow a load (`giusto_model::Load`) and tasks, out flow job records for `verify` and
//! profiles for the next plan. All instants are CLOCK_MONOTONIC's. It starts no service, judges no promise and keeps no
//! state beyond a call.

mod awake;
mod client;
mod clock;
mod drive;
mod error;
mod generator;
mod holes;
mod host;
mod http;
mod latency;
mod listener;
mod listening;
mod noise;
mod observe;
pub mod packets;
pub mod passive;
mod path;
mod profiler;
mod replies;
mod reply;
mod request;
mod schedule;
mod serves;
mod supply;
mod thread;
pub mod timeline;
pub mod watch;

pub use awake::{stay_awake, Awake};
pub use drive::{drive, LoadReport};
pub use error::Error;
pub use generator::Generator;
pub use giusto_model::Profile;
pub use holes::Holes;
pub use host::this_host;
pub use latency::{latency, void_under_manager, GuestCommand, LatencyPlan, StressLoad};
pub use listener::{listener, listening};
pub use listening::wait_listening;
pub use noise::{steal, steal_clock, stolen, Noise};
pub use observe::{drive_observed, observe, Observed};
pub use path::{PathEnds, PathReport, PathRun};
pub use profiler::profile;
pub use schedule::LoadPlan;
pub use serves::{serves, Served};
pub use supply::{
    supply, Asked, BoundPoint, Gap, Linear, Probed, Recording, Resource, Spread, SupplyPlan, SupplyProcess,
    SupplyReport, Window,
};
