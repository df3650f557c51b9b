//! Hosts that run Xen.

use crate::Interface;

/// What of a host is Xen's: its services are domains, which Xen's scheduler RTDS serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xen {
    /// The cores of the virtual CPUs of its control domain, one each, ascending, unique, all of the host's.
    pub dom0: Vec<u32>,
    /// What each of these is promised.
    pub reserve: Interface,
}

impl Xen {
    /// The control domain, as `xl` names it.
    pub const DOM0: &str = "Domain-0";

    /// The name of the service that stands for the control domain of `host`.
    pub fn service(host: &str) -> String {
        format!("{host}-dom0")
    }
}
