//! All backends, a file each.

mod deadline;
mod kernel;
mod lacks;
mod manager;
mod quota;
mod rt_group;
mod rtds;
mod server;

use crate::backend::Backend;
use giusto_model::Backend as Name;

/// The backend of this name, with nothing in force.
pub fn backend(name: Name) -> Box<dyn Backend> {
    match name {
        Name::Deadline => Box::<deadline::Deadline>::default(),
        Name::Kernel => Box::<kernel::Kernel>::default(),
        Name::Manager => Box::<manager::Managers>::default(),
        Name::RtGroup => Box::<rt_group::RtGroups>::default(),
        Name::Quota => Box::new(quota::Quotas),
        Name::Rtds => Box::new(rtds::Rtds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::Beats;
    use crate::{Error, Ground, Machine, Undo};
    use giusto_model::{Plan, ServicePlan};

    fn server(name: Name) -> ServicePlan {
        let plan: Plan = serde_json::from_str(include_str!("../../../formats/goldens/plan-supply.json")).unwrap();
        ServicePlan { backend: name, vcpu: None, ..plan.services[0].clone() }
    }

    #[test]
    fn a_backend_with_nothing_in_force_says_so_and_passes_over_what_it_does_not_hold() {
        let (machine, mut record) = (crate::probe(), Vec::<Undo>::new());
        for name in Name::ALL {
            let (mut one, server) = (backend(name), server(name));
            assert!(!one.holds(&server) && !one.has(server.core) && !one.astray(), "{name}");
            assert!(matches!(one.check(&server), Err(Error::NoThread)), "{name}");
            one.set(&server, &server, &mut record).unwrap();
            one.release(&server).unwrap();
            one.let_go(&server).unwrap();
            assert!(!one.keep_off(&[std::process::id()], &mut record).unwrap(), "{name}");
            assert!(one.ask().unwrap().is_empty() && one.report(server.core).is_none(), "{name}");
            let seen = one.observe(&server);
            assert!(seen.left_ns.is_none() && !seen.is_throttled && seen.counted.is_none(), "{name}");
            assert!(one.handle(&server).is_err(), "{name}");
            let lines = [one.describe_cores(&[server.core], &machine), one.describe(&server)].concat();
            assert!(lines.iter().all(|line| !line.is_empty()), "{name}");
            assert!(lines.iter().any(|line| line.contains(&server.name)), "{name}: {lines:?}");
        }
        assert!(record.is_empty(), "{record:?}");
    }

    #[test]
    fn backends_of_whole_processes_refuse_single_virtual_cpus_and_name_the_one_that_takes_them() {
        let mut record = Vec::<Undo>::new();
        for name in [Name::Deadline, Name::RtGroup, Name::Kernel] {
            let guest = ServicePlan { vcpu: Some(1), ..server(name) };
            let told = backend(name).keep(&guest, &[std::process::id()], &mut record).unwrap_err().to_string();
            assert!(told.contains(&format!("backend '{name}' cannot")) && told.contains("--backend manager"), "{told}");
        }
        assert!(record.is_empty(), "{record:?}");
    }

    #[test]
    fn where_there_are_no_cpusets_nothing_is_isolated_and_a_service_is_not_kept() {
        let machine = Machine { cpusets: None, ..crate::probe() };
        let (beats, mut record) = (Beats::new().unwrap(), Vec::<Undo>::new());
        let (mut one, server) = (backend(Name::Deadline), server(Name::Deadline));
        one.prepare(&[&server], Ground { machine: &machine, beats: &beats }, &mut record).unwrap();
        let told = one.keep(&server, &[std::process::id()], &mut record).unwrap_err().to_string();
        assert!(told.contains("isolated, which is done at the start only"), "{told}");
        assert!(record.is_empty() && one.lacks(&machine).iter().any(|lack| lack.what.contains("cpusets")));
    }
}
