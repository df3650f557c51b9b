//! From a site to a plan: placement on hosts and cores, admission and every real-time parameter, each with its reason,
//! or a refusal with a witness and the nearest fit.
//!
//! Called by the command line and the daemon with a [`giusto_model::Site`] and the machine's [`Facts`]; calls `analysis`
//! for the mathematics. Flows out: a [`giusto_model::Plan`], to be written as plan.json ([`write()`], [`read()`]) and told to
//! people ([`explain`]), with the files of its brokers ([`nsq`]) and its ensemble ([`zookeeper`], [`etcd`]), and of
//! programs that keep what they can of it without Giusto ([`systemd`], [`containers`], [`libvirt`], [`kubevirt`]). It touches no
//! machine and simulates nothing: predictions are filled in by the caller that ran the
//! simulator. README.md draws which file uses which.

mod adapt;
mod admission;
mod admit;
mod alone;
mod backend;
mod basis;
mod candidates;
mod coordination;
mod critical;
mod error;
mod explain;
mod export;
mod facts;
mod file;
mod host;
mod hosts;
mod known;
mod latency;
mod measured;
mod modes;
mod nearest;
mod needs;
mod network;
mod paths;
mod placement;
mod placements;
mod plan;
mod pods;
mod promises;
mod refusal;
mod replanner;
mod standing;
mod steps;
mod together;
mod topics;
mod trial;
mod words;
mod xen;

pub use adapt::adapted;
pub use admit::{admit, Kept};
pub use alone::{containers, kubevirt, libvirt, systemd, unit_of, AloneFile, Engine};
pub use backend::{capacity, UNNAMED};
pub use basis::{basis, differences, site_basis};
pub use coordination::{slow_to_see, Faster, How, SlowRecovery};
pub use critical::Discord;
pub use error::Error;
pub use explain::{asked, explain};
pub use export::{etcd, nsq, zookeeper, BrokerFile, EtcdFile, ServerFiles};
pub use facts::{which_host, BackendFact, Facts, Held};
pub use file::{read, text, with_reasons, write};
pub use latency::read_latency;
pub use measured::{fitting_arrivals, fitting_period, origin, with_measured, Here, Resolved, FIT_OFF};
pub use modes::{admit_core, admit_modes, ModeCause, ModeFit, ModeRefusal, ModesRefusal};
pub use network::{PacketCause, PacketFit, PacketRefusal};
pub use paths::{would_save, PathCause, PathRefusal, Saving, Unlike};
pub use placements::Placements;
pub use plan::{plan, plan_on};
pub use pods::{kubernetes, stream, unique, PodPromise, PodText};
pub use promises::as_if_alone::{TooLarge, TooMany};
pub use promises::every_deadline::{Late, Shortage};
pub use promises::leftovers::{Floors, BUSY_PROCESSES};
pub use promises::percentiles::{Miss, Missed};
pub use promises::supply::NoSupply;
pub use refusal::{Cause, Change, Elsewhere, NearestFit, Place, Refusal, Refused, Witness};
pub use replanner::Replanner;
pub use standing::{Changed, Standing};
pub use topics::{unmeasured, TopicCause, TopicFit, TopicRefusal};
pub use words::{cores, share};
pub use xen::{xen, XenFiles};
