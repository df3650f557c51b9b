//! The backend `quota` as one of many: it caps services that get leftovers ([`crate::Quota`]), and is no server.

use super::lacks::{writing, CPU};
use super::server::refused;
use crate::backend::Backend;
use crate::{Error, Lack, Machine, Recorder, Undo};
use giusto_model::ServicePlan;
use std::fs;
use std::path::Path;

/// Holds nothing.
pub(super) struct Quotas;

impl Backend for Quotas {
    fn lacks(&self, _machine: &Machine) -> Vec<Lack> {
        let first = CPU.iter().map(|root| Path::new(root).join("cpu.cfs_quota_us")).find(|file| file.exists());
        let controllers = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
        match first {
            Some(file) => writing(&file),
            None if controllers.split_whitespace().any(|one| one == "cpu") => {
                writing(Path::new("/sys/fs/cgroup/cgroup.subtree_control"))
            }
            None => vec![Lack::new(
                "the cpu controller of cgroups (for quotas)",
                "mount cgroup v2, or v1 with the cpu controller, on a kernel with CONFIG_CFS_BANDWIDTH",
            )],
        }
    }

    fn describe(&self, server: &ServicePlan) -> Vec<String> {
        vec![format!("refuse all of this, because {} cannot be reserved for by quota", server.name)]
    }

    fn keep(&mut self, _server: &ServicePlan, _members: &[u32], _record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        Ok(())
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
        Err(refused(server, "cannot be reserved for by quota"))
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
