//! Steps from one plan to the next, done on a [`Scene`].

use crate::{Error, Running, Scene, Step};
use giusto_model::{Plan, ServicePlan};

/// Does one step on the way to `plan`.
pub(crate) fn apply(scene: &mut Scene, step: &Step, plan: &Plan) -> Result<(), Error> {
    scene.is_here();
    let find = |service: &str, vcpu: Option<u32>| plan.services.iter().find(|p| p.name == service && p.vcpu == vcpu);
    match step {
        Step::Remove { service } => remove(scene, service),
        Step::Release { service, vcpu } => {
            let Some(index) = index(scene, service, *vcpu) else { return Ok(()) };
            scene.release(index)?;
            // Its backend may be another one from now on.
            match find(service, *vcpu) {
                Some(goal) if goal.backend == scene.parts[index].backend => Ok(()),
                _ => scene.let_go(index),
            }
        }
        Step::Decrease { service, vcpu, .. } | Step::Increase { service, vcpu, .. } => {
            match (index(scene, service, *vcpu), find(service, *vcpu)) {
                (Some(index), Some(goal)) => scene.set_server(index, goal),
                _ => Ok(()),
            }
        }
        Step::Move { service, vcpu, .. } => {
            let Some(index) = index(scene, service, *vcpu) else { return Ok(()) };
            let before = scene.parts[index].clone();
            scene.release(index)?;
            let put_there = find(service, *vcpu).map_or(Ok(()), |goal| put(scene, index, goal));
            put_there.inspect_err(|_| or_warn(put(scene, index, &before)))
        }
        Step::Reserve { service, vcpu, .. } => {
            let Some(goal) = find(service, *vcpu) else { return Ok(()) };
            match index(scene, service, *vcpu) {
                Some(index) => {
                    let before = scene.parts[index].clone();
                    let was_held = scene.backends.holds(&before);
                    put(scene, index, goal).inspect_err(|_| {
                        if !was_held {
                            or_warn(scene.let_go(index));
                        }
                        scene.parts[index] = before;
                    })
                }
                // It had leftovers until now.
                None => {
                    remove(scene, service)?;
                    add(scene, service, plan)
                }
            }
        }
        Step::Spread { service, .. } => {
            let Some(goal) = plan.leftovers.iter().find(|leftover| leftover.name == *service) else { return Ok(()) };
            if !scene.spread(goal)? {
                // It had a server until now.
                remove(scene, service)?;
                scene.enter_leftover(goal)?;
            }
            scene.confine()
        }
        Step::Add { service } => add(scene, service, plan),
        Step::Packets { .. } => scene.change_packets(plan),
        Step::Online { cores } => scene.bring_back(cores),
        Step::Park { cores } => scene.park(cores),
    }
}

fn index(scene: &Scene, service: &str, vcpu: Option<u32>) -> Option<usize> {
    scene.parts.iter().position(|part| part.name == service && part.vcpu == vcpu)
}

/// In force on the core of `goal`.
fn put(scene: &mut Scene, index: usize, goal: &ServicePlan) -> Result<(), Error> {
    scene.admit(goal)?;
    scene.parts[index] = goal.clone();
    scene.confine()?;
    scene.reserve(index).map(drop)
}

/// What fails on the way back from a failure.
fn or_warn(done: Result<(), Error>) {
    if let Err(error) = done {
        tracing::warn!("going back after a failure: {error}");
    }
}

fn add(scene: &mut Scene, service: &str, plan: &Plan) -> Result<(), Error> {
    // What is half there would be confined again and again.
    begin(scene, service, plan).inspect_err(|_| or_warn(remove(scene, service)))
}

fn begin(scene: &mut Scene, service: &str, plan: &Plan) -> Result<(), Error> {
    for goal in plan.services.iter().filter(|goal| goal.name == service) {
        scene.admit(goal)?;
        scene.enter(goal)?;
        scene.reserve(scene.parts.len() - 1)?;
    }
    for goal in plan.leftovers.iter().filter(|goal| goal.name == service) {
        scene.enter_leftover(goal)?;
    }
    scene.confine()
}

/// Ends a service that giusto started, lets an adopted one go.
fn remove(scene: &mut Scene, service: &str) -> Result<(), Error> {
    while let Some(index) = scene.parts.iter().position(|part| part.name == service) {
        scene.let_go(index)?;
        scene.parts.remove(index);
    }
    scene.every().filter(|running| running.name == service).for_each(Running::end);
    scene.services.retain(|running| running.name != service);
    for leftover in scene.leftovers.iter().filter(|leftover| leftover.running.name == service) {
        leftover.uncap()?;
    }
    scene.leftovers.retain(|leftover| leftover.running.name != service);
    Ok(())
}
