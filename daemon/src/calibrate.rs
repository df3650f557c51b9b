//! What the requests of a service cost here: measured on a whole core under their own load, before anything is judged.

use crate::trial::{loads, Bench, Options};
use crate::scene::Scene;
use crate::Error;
use giusto_measure::Profile;
use giusto_model::Plan;

/// Single requests, one at a time: what a request takes beyond its processor time.
const SINGLE: u32 = 300;

/// What was measured of one service.
#[derive(Debug)]
pub struct Calibration {
    /// The service.
    pub service: String,
    /// Single requests.
    pub single: Profile,
}

impl Calibration {
    /// Processor times of requests, in ns.
    pub fn execution(&self) -> Vec<u64> {
        self.single.execution.clone()
    }

    /// What single requests took beyond it, in ns.
    pub fn transport(&self) -> &[u64] {
        &self.single.transport
    }
}

/// Measures every service whose response times are promised. Takes about four seconds each.
///
/// # Errors
/// As [`crate::trial()`]; told to stop.
pub fn calibrate(
    scene: &mut Scene,
    plan: &Plan,
    cores: &[u32],
    options: Options,
    stop: &dyn Fn() -> bool,
    say: &mut dyn FnMut(String),
) -> Result<Vec<Calibration>, Error> {
    let mut all = Vec::new();
    for (index, service, load) in loads(plan)? {
        say(format!("{}: measuring what its requests cost on a whole core", service.name));
        let mut bench = Bench::new(scene, index, service, load, cores, options)?;
        let pid = bench.scene.processes(index).first().copied().unwrap_or(0);
        let generator = bench.generator.clone();
        let single =
            bench.on_whole_core(|| Ok(giusto_measure::profile(load, pid, SINGLE, options.seed, &generator)?))?;
        if stop() {
            return Err(Error::Interrupted);
        }
        all.push(Calibration { service: service.name.clone(), single });
    }
    Ok(all)
}
