//! The loop that enforces a plan.

use crate::{Deployment, Error, Watchdog};
use std::time::{Duration, Instant};

/// Worries that are told at once.
const MOST: usize = 100;

/// Enforces the plan that `deployment` was set for until `stop` says so: reserves, then looks once a second for processes that
/// have come, and for
/// reservations that no longer serve; services that end are followed ten times a second. What can be mended is, and logged; only the end of an
/// essential service is an error. `turn` is called ten times a second, with what is wrong now.
pub fn enforce(
    deployment: &mut Deployment,
    watchdog: &Watchdog,
    stop: &dyn Fn() -> bool,
    turn: &mut dyn FnMut(&mut Deployment, Vec<String>),
) -> Result<(), Error> {
    for index in 0..deployment.parts.len() {
        match reserve(deployment, index) {
            // It has ended already: it is followed, and reserved for when it is back.
            Err(error) if deployment.processes(index).is_empty() => tracing::warn!("{error}"),
            done => done?,
        }
    }
    let plan = deployment.plan.clone();
    // Once no process is left there; before modes, whose changes it would delay.
    plan.hosts.iter().try_for_each(|host| deployment.park(&host.parked))?;
    match deployment.start_modes(&plan) {
        // A member is down: its mode changes wait for it, as its server does.
        Err(error) if (0..deployment.parts.len()).any(|index| !deployment.is_up(index)) => tracing::warn!("{error}"),
        done => done?,
    }
    let (mut turns, mut worries, mut stays) = (0, Vec::new(), 0);
    while !stop() {
        deployment.is_here();
        let astray = deployment.astray();
        let all = turns % 10 == 0 || astray;
        if astray {
            worries.extend(deployment.ask_backends()?);
        }
        let wrong = deployment.supervise(all)?;
        if all {
            let mut now = wrong;
            now.extend(giusto_compute::sched::at_once(|| look(deployment))?);
            now.extend(deployment.look_after_modes());
            now.extend(watchdog.worry());
            if let Err(error) = deployment.journal.forget_spent(Instant::now()) {
                now.push(format!("the undo journal cannot be made smaller: {error}; free space where it lies"));
            }
            now.iter().filter(|worry| !worries.contains(*worry)).for_each(|worry| tracing::warn!("{worry}"));
            // What moved is told in a turn of its own, and status looks once a second.
            stays = if astray { turns + 20 } else { stays };
            worries.retain(|worry| turns < stays && !now.contains(worry));
            now.append(&mut worries);
            now.truncate(MOST);
            worries = now;
        }
        let mut wrong = worries.clone();
        wrong.extend(look_at_packets(deployment, turns % 10 == 0));
        turn(deployment, wrong);
        deployment.wait(Duration::from_millis(100));
        turns += 1;
    }
    Ok(())
}

/// What is wrong with how packets are processed.
fn look_at_packets(deployment: &mut Deployment, due: bool) -> Vec<String> {
    match &mut deployment.packets {
        Some(packets) => packets.look(due, deployment.journal).to_vec(),
        None => vec![],
    }
}

fn reserve(deployment: &mut Deployment, index: usize) -> Result<(), Error> {
    deployment.is_here();
    let how = deployment.reserve(index)?;
    let plan = &deployment.parts[index];
    let vcpu = plan.part().map(|part| format!(", {part}")).unwrap_or_default();
    tracing::info!(service = plan.name, core = plan.core, "{}{vcpu}: {how}", plan.name);
    Ok(())
}

fn reserve_anew(deployment: &mut Deployment, index: usize) -> Result<(), Error> {
    let how = deployment.reserve_anew(index)?;
    let plan = &deployment.parts[index];
    tracing::info!(service = plan.name, core = plan.core, "{} again: {how}", plan.name);
    Ok(())
}

/// Mends what can be mended; returns what is wrong.
fn look(deployment: &mut Deployment) -> Result<Vec<String>, Error> {
    let mut worries = Vec::new();
    if let Err(error) = deployment.confine() {
        worries.push(error.to_string());
    }
    for index in 0..deployment.parts.len() {
        if !deployment.is_up(index) {
            continue; // told already
        }
        let plan = &deployment.parts[index];
        let checked = deployment.backends.of(plan.backend).check(plan);
        match checked {
            Ok(()) => {}
            Err(giusto_compute::Error::Gone(_) | giusto_compute::Error::NoThread) => {
                if let Err(error) = reserve_anew(deployment, index) {
                    worries.push(format!("{error}; tried again every second"));
                }
            }
            Err(error) => worries.push(format!("{}: {error}", deployment.parts[index].name)),
        }
    }
    if let Err(error) = deployment.begin_modes() {
        worries.push(format!("modes do not change: {error}; tried again every second"));
    }
    worries.extend(deployment.ask_backends()?);
    Ok(worries)
}
