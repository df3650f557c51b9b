//! Steps from one plan to the next, done on a [`Deployment`].

use crate::{Deployment, Error, Running, Step};
use giusto_model::{Plan, ServicePlan};

/// Does one step on the way to `plan`.
pub(crate) fn apply(deployment: &mut Deployment, step: &Step, plan: &Plan) -> Result<(), Error> {
    deployment.is_here();
    let find = |service: &str, vcpu: Option<u32>| plan.services.iter().find(|p| p.name == service && p.vcpu == vcpu);
    match step {
        Step::Remove { service } => remove(deployment, service),
        Step::Release { service, vcpu } => {
            let Some(index) = index(deployment, service, *vcpu) else { return Ok(()) };
            deployment.release(index)?;
            // Its backend may be another one from now on.
            match find(service, *vcpu) {
                Some(goal) if goal.backend == deployment.parts[index].backend => Ok(()),
                _ => deployment.let_go(index),
            }
        }
        Step::Decrease { service, vcpu, .. } | Step::Increase { service, vcpu, .. } => {
            match (index(deployment, service, *vcpu), find(service, *vcpu)) {
                (Some(index), Some(goal)) => deployment.set_server(index, goal),
                _ => Ok(()),
            }
        }
        Step::Move { service, vcpu, .. } => {
            let Some(index) = index(deployment, service, *vcpu) else { return Ok(()) };
            let before = deployment.parts[index].clone();
            deployment.release(index)?;
            let put_there = find(service, *vcpu).map_or(Ok(()), |goal| put(deployment, index, goal));
            put_there.inspect_err(|_| or_warn(put(deployment, index, &before)))
        }
        Step::Reserve { service, vcpu, .. } => {
            let Some(goal) = find(service, *vcpu) else { return Ok(()) };
            match index(deployment, service, *vcpu) {
                Some(index) => {
                    let before = deployment.parts[index].clone();
                    let was_held = deployment.backends.holds(&before);
                    put(deployment, index, goal).inspect_err(|_| {
                        if !was_held {
                            or_warn(deployment.let_go(index));
                        }
                        deployment.parts[index] = before;
                    })
                }
                // It had leftovers until now.
                None => {
                    remove(deployment, service)?;
                    add(deployment, service, plan)
                }
            }
        }
        Step::Spread { service, .. } => {
            let Some(goal) = plan.leftovers.iter().find(|leftover| leftover.name == *service) else { return Ok(()) };
            if !deployment.spread(goal)? {
                // It had a server until now.
                remove(deployment, service)?;
                deployment.enter_leftover(goal)?;
            }
            deployment.confine()
        }
        Step::Add { service } => add(deployment, service, plan),
        Step::Packets { .. } => deployment.change_packets(plan),
        Step::Online { cores } => deployment.bring_back(cores),
        Step::Park { cores } => deployment.park(cores),
    }
}

fn index(deployment: &Deployment, service: &str, vcpu: Option<u32>) -> Option<usize> {
    deployment.parts.iter().position(|part| part.name == service && part.vcpu == vcpu)
}

/// In force on the core of `goal`.
fn put(deployment: &mut Deployment, index: usize, goal: &ServicePlan) -> Result<(), Error> {
    deployment.admit(goal)?;
    deployment.parts[index] = goal.clone();
    deployment.confine()?;
    deployment.reserve(index).map(drop)
}

/// What fails on the way back from a failure.
fn or_warn(done: Result<(), Error>) {
    if let Err(error) = done {
        tracing::warn!("going back after a failure: {error}");
    }
}

fn add(deployment: &mut Deployment, service: &str, plan: &Plan) -> Result<(), Error> {
    // What is half there would be confined again and again.
    begin(deployment, service, plan).inspect_err(|_| or_warn(remove(deployment, service)))
}

fn begin(deployment: &mut Deployment, service: &str, plan: &Plan) -> Result<(), Error> {
    for goal in plan.services.iter().filter(|goal| goal.name == service) {
        deployment.admit(goal)?;
        deployment.enter(goal, plan)?;
        deployment.reserve(deployment.parts.len() - 1)?;
    }
    for goal in plan.leftovers.iter().filter(|goal| goal.name == service) {
        deployment.enter_leftover(goal)?;
    }
    deployment.confine()
}

/// Ends a service that giusto started, lets an adopted one go.
fn remove(deployment: &mut Deployment, service: &str) -> Result<(), Error> {
    while let Some(index) = deployment.parts.iter().position(|part| part.name == service) {
        deployment.let_go(index)?;
        deployment.parts.remove(index);
    }
    deployment.every().filter(|running| running.name == service).for_each(Running::end);
    deployment.services.retain(|running| running.name != service);
    for leftover in deployment.leftovers.iter().filter(|leftover| leftover.running.name == service) {
        leftover.uncap()?;
    }
    deployment.leftovers.retain(|leftover| leftover.running.name != service);
    Ok(())
}
