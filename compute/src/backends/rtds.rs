//! The backend `rtds`: Xen's scheduler serves domains, which are no processes of this kernel. What `giusto export xen` writes
//! acts on them.

use super::server::refused;
use crate::backend::Backend;
use crate::{Error, Lack, Machine, Recorder, Undo};
use giusto_model::ServicePlan;
use std::fs;

/// Where Linux says that it is the control domain.
const CAPABILITIES: &str = "/proc/xen/capabilities";
const EXPORT: &str = "apply the scripts that 'giusto export xen SITE --out DIR' writes (docs/xen.md)";

/// Holds nothing.
pub(super) struct Rtds;

impl Backend for Rtds {
    fn lacks(&self, _machine: &Machine) -> Vec<Lack> {
        let is_dom0 = fs::read_to_string(CAPABILITIES).is_ok_and(|text| text.contains("control_d"));
        vec![match is_dom0 {
            true => Lack::new("'giusto run' on Xen's control domain", EXPORT),
            false => Lack::new(
                "a control domain of Xen with RTDS",
                "'giusto export xen SITE' writes what acts there; only hosts with hypervisor: xen have it (docs/xen.md)",
            ),
        }]
    }

    fn describe(&self, server: &ServicePlan) -> Vec<String> {
        vec![format!("leave {} to Xen: {EXPORT}", server.name)]
    }

    fn keep(&mut self, server: &ServicePlan, _members: &[u32], _record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        Err(refused(server, format!("is a domain of Xen; {EXPORT}")))
    }

    fn holds(&self, _server: &ServicePlan) -> bool {
        false
    }

    fn hold(
        &mut self,
        server: &ServicePlan,
        _members: &[u32],
        _record: &mut dyn Recorder<Undo>,
    ) -> Result<String, Error> {
        Err(refused(server, format!("is a domain of Xen; {EXPORT}")))
    }

    fn set(&mut self, _from: &ServicePlan, _to: &ServicePlan, _record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        Ok(())
    }

    fn let_go(&mut self, _server: &ServicePlan) -> Result<(), Error> {
        Ok(())
    }

    fn check(&mut self, _server: &ServicePlan) -> Result<(), Error> {
        Err(Error::NoThread)
    }
}
