//! From a site to a plan: placement on hosts and cores, admission and every real-time parameter, each with its reason,
//! or a refusal with a
//! witness and the nearest fit.
//!
//! Called by the command line and the daemon with a [`giusto_model::Site`] and the machine's [`Facts`]; calls `analysis`
//! for the mathematics. Flows out: a [`giusto_model::Plan`], to be written as plan.json ([`write()`], [`read()`]) and told to
//! people ([`explain`]), with the files of its brokers ([`nsq`]) and its ensemble ([`zookeeper`]). It touches no
//! machine and simulates nothing: predictions are filled in by whoever ran the
//! simulator.

mod adapt;
mod backend;
mod basis;
mod cheapest;
mod choice;
mod coordination;
mod critical;
mod deadlines;
mod explain;
mod export;
mod facts;
mod file;
mod hosts;
mod latency;
mod leftovers;
mod measured;
mod modes;
mod nearest;
mod network;
mod park;
mod percentiles;
mod place;
mod refusal;
mod size;
mod spread;
mod supply;
mod topics;
mod words;

pub use adapt::adapted;
pub use backend::capacity;
pub use basis::{basis, differences, site_basis};
pub use coordination::{slow_to_see, Faster, SlowRecovery};
pub use critical::Discord;
pub use explain::explain;
pub use export::{nsq, zookeeper, BrokerFile, ServerFiles};
pub use facts::{which_host, BackendFact, Facts, Held};
pub use file::{read, write};
pub use hosts::{plan, plan_on};
pub use latency::read_latency;
pub use leftovers::BUSY_PROCESSES;
pub use measured::{fitting_arrivals, fitting_period, origin, with_measured, Here, Resolved};
pub use modes::{admit_core, admit_modes, ModeCause, ModeFit, ModeRefusal, NotAdmitted};
pub use network::{PacketCause, PacketFit, PacketRefusal};
pub use refusal::{Cause, Elsewhere, Lack, Miss, Missed, NearestFit, Refusal, Shortage, Witness};
pub use topics::{unmeasured, TopicCause, TopicFit, TopicRefusal};
pub use words::{cores, share};

/// Why a plan cannot be read, written or explained.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error("cannot {what} {path}: {why}")]
    Io {
        /// `read` or `write`.
        what: &'static str,
        /// Which file.
        path: String,
        /// What the system said.
        why: std::io::Error,
    },
    /// Not a plan, or one of another version.
    #[error("{path} is not a plan that this giusto can use: {why}; make it anew with `giusto plan`")]
    Format {
        /// Which file.
        path: String,
        /// What was found and what was expected.
        why: String,
    },
    /// Not a measured latency, or one of another version.
    #[error("{path} is not a latency that this giusto can use: {why}; make it anew with `giusto measure latency --out {path}`")]
    Latency {
        /// Which file.
        path: String,
        /// What was found and what was expected.
        why: String,
    },
    /// A measured latency from which nothing follows (exit 6).
    #[error("nothing follows from {path}, cannot tell: {why}; measure again, or where nobody takes the machine away")]
    Void {
        /// Which file.
        path: String,
        /// Why.
        why: String,
    },
    /// `explain` was asked for a name that the plan does not have.
    #[error("the plan has no '{name}'; it has {known}")]
    UnknownName {
        /// What was asked.
        name: String,
        /// What there is.
        known: String,
    },
}
