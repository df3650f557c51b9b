//! The loop that enforces a plan.

use crate::{Error, Scene, Watchdog};
use std::time::{Duration, Instant};

/// Worries that are told at once.
const MOST: usize = 100;

/// Enforces the plan that `scene` was set for until `stop` says so: reserves, then looks once a second for processes that have come, and for
/// reservations that no longer serve; services that end are followed ten times a second. What can be mended is, and logged; only the end of an
/// essential service is an error. `turn` is called ten times a second, with what is wrong now.
pub fn enforce(
    scene: &mut Scene,
    watchdog: &Watchdog,
    stop: &dyn Fn() -> bool,
    turn: &mut dyn FnMut(&mut Scene, Vec<String>),
) -> Result<(), Error> {
    for index in 0..scene.parts.len() {
        match reserve(scene, index) {
            // It has ended already: it is followed, and reserved for when it is back.
            Err(error) if scene.processes(index).is_empty() => tracing::warn!("{error}"),
            done => done?,
        }
    }
    let plan = scene.plan.clone();
    // Once nobody is left there; before modes, whose changes it would delay.
    plan.hosts.iter().try_for_each(|host| scene.park(&host.parked))?;
    match scene.start_modes(&plan) {
        // A member is down: its mode changes wait for it, as its server does.
        Err(error) if (0..scene.parts.len()).any(|index| !scene.is_up(index)) => tracing::warn!("{error}"),
        done => done?,
    }
    let (mut turns, mut worries, mut stays) = (0, Vec::new(), 0);
    while !stop() {
        scene.is_here();
        let astray = scene.astray();
        let all = turns % 10 == 0 || astray;
        if astray {
            worries.extend(scene.ask_backends()?);
        }
        let wrong = scene.supervise(all)?;
        if all {
            let mut now = wrong;
            now.extend(giusto_compute::sched::at_once(|| look(scene))?);
            now.extend(scene.look_after_modes());
            now.extend(watchdog.worry());
            if let Err(error) = scene.journal.forget_spent(Instant::now()) {
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
        wrong.extend(look_at_packets(scene, turns % 10 == 0));
        turn(scene, wrong);
        scene.wait(Duration::from_millis(100));
        turns += 1;
    }
    Ok(())
}

/// What is wrong with how packets are processed.
fn look_at_packets(scene: &mut Scene, due: bool) -> Vec<String> {
    match &mut scene.packets {
        Some(packets) => packets.look(due, scene.journal).to_vec(),
        None => vec![],
    }
}

fn reserve(scene: &mut Scene, index: usize) -> Result<(), Error> {
    scene.is_here();
    let how = scene.reserve(index)?;
    let plan = &scene.parts[index];
    let vcpu = plan.vcpu.map(|vcpu| format!(", virtual CPU {vcpu}")).unwrap_or_default();
    tracing::info!(service = plan.name, core = plan.core, "{}{vcpu}: {how}", plan.name);
    Ok(())
}

fn reserve_anew(scene: &mut Scene, index: usize) -> Result<(), Error> {
    let how = scene.reserve_anew(index)?;
    let plan = &scene.parts[index];
    tracing::info!(service = plan.name, core = plan.core, "{} again: {how}", plan.name);
    Ok(())
}

/// Mends what can be mended; returns what is wrong.
fn look(scene: &mut Scene) -> Result<Vec<String>, Error> {
    let mut worries = Vec::new();
    if let Err(error) = scene.confine() {
        worries.push(error.to_string());
    }
    for index in 0..scene.parts.len() {
        if !scene.is_up(index) {
            continue; // told already
        }
        let plan = &scene.parts[index];
        let checked = scene.backends.of(plan.backend).check(plan);
        match checked {
            Ok(()) => {}
            Err(giusto_compute::Error::Gone(_) | giusto_compute::Error::NoThread) => {
                if let Err(error) = reserve_anew(scene, index) {
                    worries.push(format!("{error}; tried again every second"));
                }
            }
            Err(error) => worries.push(format!("{}: {error}", scene.parts[index].name)),
        }
    }
    if let Err(error) = scene.begin_modes() {
        worries.push(format!("modes do not change: {error}; tried again every second"));
    }
    worries.extend(scene.ask_backends()?);
    Ok(worries)
}
