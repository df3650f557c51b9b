//! How a server of the plan is held in force, by backend.

use crate::scene::Scene;
use crate::{Error, Running};
use giusto_compute::manager::{Handle, Managed, When};
use giusto_compute::sched::{self, Attr};
use giusto_compute::{Reserved, RtGroup};
use giusto_model::{Backend, Server, ServicePlan};

/// A server's mechanism.
pub(crate) enum Hold {
    /// Its service runs without.
    Nothing,
    /// SCHED_DEADLINE.
    Deadline(Reserved),
    /// A server of the core's manager, maybe paused.
    Managed(Handle),
    /// A real-time group.
    RtGroup(RtGroup),
}

/// What the manager has to know of a server.
pub(crate) fn managed(plan: &ServicePlan) -> Managed {
    let &ServicePlan { vcpu, server, criticality, cap, .. } = plan;
    Managed { name: plan.name.clone(), part: vcpu, server, first: None, priority: 0, criticality, cap }
}

pub(crate) fn reserve(scene: &mut Scene, index: usize) -> Result<String, Error> {
    let plan = scene.parts[index].plan.clone();
    let members = scene.members(&plan)?;
    let part = &mut scene.parts[index];
    match plan.backend {
        Backend::Deadline => {
            let isolated = scene.isolated.as_ref().ok_or(giusto_compute::Error::NoThread)?;
            let reserved = isolated.reserve(&members, &plan.server, scene.journal)?;
            let share = match reserved.percent {
                Some(percent) => format!("which does {percent} % of its work"),
                None => "its main thread; it has hardly run yet".to_string(),
            };
            let thread = reserved.thread;
            part.hold = Hold::Deadline(reserved);
            Ok(format!("reserved for thread {thread}, {share}; its other threads stay as they are, on the same core"))
        }
        Backend::Manager => {
            let (Some(manager), Hold::Managed(handle)) = (scene.managers.get(&plan.core), &mut part.hold) else {
                return Err(Error::Service { name: plan.name, what: "is not held by a manager".into() });
            };
            let own = scene.services.iter().find(|running| running.name == plan.name);
            own.and_then(Running::contained).map_or(Ok(()), |contained| contained.keep_on(plan.core))?;
            manager.resume(handle, (plan.server, plan.criticality), plan.cap, scene.journal)?;
            Ok(format!(
                "under the manager of core {}, with all its threads; {}",
                plan.core,
                crate::scene::capped(&plan)
            ))
        }
        Backend::RtGroup => {
            if let Hold::RtGroup(group) = &mut part.hold {
                group.take_in(&members, scene.journal)?; // it was started again
                return Ok(format!("in its real-time group on core {}", plan.core));
            }
            part.hold = Hold::RtGroup(RtGroup::new(&plan.name, plan.core, &plan.server, &members, scene.journal)?);
            Ok(format!("in a real-time group on core {}, with all its threads", plan.core))
        }
        Backend::Quota => Err(Error::Service { name: plan.name, what: "cannot be reserved for by quota".into() }),
    }
}

pub(crate) fn release(scene: &mut Scene, index: usize) -> Result<(), Error> {
    let part = &mut scene.parts[index];
    match &mut part.hold {
        Hold::Nothing => Ok(()),
        Hold::Deadline(reserved) => {
            let threads: Vec<u32> = Some(reserved.thread).filter(|_| reserved.alive()).into_iter().collect();
            part.hold = Hold::Nothing;
            scene.leave(&threads)
        }
        Hold::Managed(handle) => match scene.managers.get(&part.plan.core) {
            Some(manager) => Ok(manager.pause(handle)?),
            None => Ok(()),
        },
        Hold::RtGroup(_) => Err(unchangeable(&part.plan)),
    }
}

/// Another server of the same kind, in place: a smaller one at once, a larger one as its kind allows without overload.
pub(crate) fn set(scene: &mut Scene, index: usize, plan: &ServicePlan) -> Result<(), Error> {
    let part = &mut scene.parts[index];
    let server: Server = plan.server;
    match &mut part.hold {
        Hold::Nothing => {}
        Hold::Deadline(reserved) => reserved.set(&server)?,
        Hold::Managed(handle) => {
            let Some(manager) = scene.managers.get(&part.plan.core) else { return Ok(()) };
            if handle.cap() == plan.cap {
                let smaller = server.bandwidth() <= part.plan.server.bandwidth();
                manager.set(handle, (server, plan.criticality), if smaller { When::Now } else { When::NextPeriod })?;
            } else {
                manager.pause(handle)?;
                if let Err(error) = manager.resume(handle, (server, plan.criticality), plan.cap, scene.journal) {
                    let before = (part.plan.server, part.plan.criticality);
                    manager.resume(handle, before, part.plan.cap, scene.journal)?;
                    return Err(error.into());
                }
            }
        }
        Hold::RtGroup(group) => group.set(&server)?,
    }
    part.plan = plan.clone();
    Ok(())
}

/// Lets the members of a server go for good: back to where they were.
pub(crate) fn let_go(scene: &mut Scene, index: usize) -> Result<(), Error> {
    let part = &mut scene.parts[index];
    match std::mem::replace(&mut part.hold, Hold::Nothing) {
        Hold::Nothing => Ok(()),
        Hold::Deadline(reserved) if !reserved.alive() => Ok(()),
        Hold::Deadline(reserved) => Ok(sched::leave(reserved.thread, &Attr::default()).or_else(|source| {
            if source.raw_os_error() == Some(libc::ESRCH) {
                return Ok(());
            }
            Err(Error::Io { doing: format!("give thread {} SCHED_OTHER back", reserved.thread), source })
        })?),
        Hold::Managed(handle) => match scene.managers.get(&part.plan.core) {
            Some(manager) => Ok(manager.let_go(handle)?),
            None => Ok(()),
        },
        Hold::RtGroup(group) => {
            part.hold = Hold::RtGroup(group);
            Err(unchangeable(&part.plan))
        }
    }
}

pub(crate) fn unchangeable(plan: &ServicePlan) -> Error {
    let what = "is in a real-time group, which can be resized while it runs, and not moved or left; stop giusto and start it again";
    Error::Service { name: plan.name.clone(), what: what.into() }
}
