//! The papers' mathematics as pure functions: tasks in, exact numbers out.
//!
//! Called by `planner`, `verify`, the command line (`giusto analyze`) and Python; calls `model` only. One module a published
//! result; [`share`] is virtualization-agnostic scheduling [LiH21, chapter 3], [`interface`] compositional scheduling (Lee11,
//! Abe22), [`admission`] whether its servers fit on the cores of a host, [`criticality`] whether they do where some matter more
//! than others (Asy20), [`recovery`] how long an ensemble is without a leader [LiH21, chapter 5], [`silence`] when one that
//! falls silent is missed, [`raft`] one of etcd, [`modes`] how long a change of mode takes [LiH21, chapter 2], [`packets`] how
//! long packets wait for a host that processes them by priority [LiC20, chapter 3], [`path`] how long messages take over
//! several of these stages. It reads no file, knows no machine, takes no decision that needs one (that is `planner`), and uses
//! no clock or randomness, and floating point only for distributions.

pub mod admission;
pub mod bucket;
pub mod criticality;
mod error;
mod gallop;
pub mod interface;
pub mod modes;
pub mod packets;
pub mod path;
pub mod raft;
pub mod recovery;
pub mod response;
pub mod share;
pub mod silence;

pub use error::Error;
