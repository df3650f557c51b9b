//! A server of a plan, as backends keep it, name it and refuse it.

use crate::Error;
use giusto_model::ServicePlan;

/// A server of a plan: a service, and which of its virtual CPUs.
pub(super) type Key = (String, Option<u32>);

pub(super) fn key(server: &ServicePlan) -> Key {
    (server.name.clone(), server.vcpu)
}

/// As the plan's lines name it: `guest.0` is virtual CPU 0 of guest.
pub(super) fn name(server: &ServicePlan) -> String {
    server.vcpu.map_or_else(|| server.name.clone(), |vcpu| format!("{}.{vcpu}", server.name))
}

pub(super) fn refused(server: &ServicePlan, what: impl Into<String>) -> Error {
    Error::Server { name: server.name.clone(), what: what.into() }
}

/// Of a backend that schedules whole processes.
pub(super) fn no_vcpus(server: &ServicePlan) -> Result<(), Error> {
    match server.vcpu {
        None => Ok(()),
        Some(_) => Err(refused(
            server,
            format!(
                "is a virtual machine, of which backend '{}' cannot schedule single vCPUs; use --backend manager",
                server.backend
            ),
        )),
    }
}
