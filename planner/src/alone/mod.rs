//! Exports that stand alone: what of a plan the mechanisms of other programs keep without Giusto, and what is lost.
//!
//! Called by the command line with a site that was planned. Each reservation is planned again under what is coarser
//! ([`again`]): a core to itself, else a part of one by quota and weight. A file a target turns that into its settings, with what
//! still holds of each promise, and what does not, in comments beside them. It touches no machine.

mod again;
mod containers;
mod escape;
mod kubevirt;
mod libvirt;
mod places;
mod program;
mod quota;
mod said;
mod scale;
mod share;
mod systemd;
mod unit;
mod weigh;

pub(crate) use escape::comment;

pub use containers::{containers, Engine};
pub use kubevirt::kubevirt;
pub use libvirt::libvirt;
pub use systemd::systemd;
pub use unit::unit_of;

use serde::Serialize;

/// A file of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AloneFile {
    /// The host it is for.
    pub host: String,
    /// Where it goes, below the host's folder.
    pub path: String,
    /// What is in it.
    pub text: String,
    /// Whether it is a program.
    pub executable: bool,
}

impl AloneFile {
    fn new(host: &str, path: impl Into<String>, text: impl Into<String>) -> AloneFile {
        AloneFile { host: host.into(), path: path.into(), text: text.into(), executable: false }
    }
}
