//! Interfaces on a path: that their buckets hold its messages, and that they are there where services have them.

use super::broken::Broken;
use super::topic;
use giusto_model::{
    InterfaceStage, PacketBucket, PacketClass, PacketWay, PathPart, PathPlan, PathSource, PathStage, Plan, Steps,
    Tokens, VifPlan,
};

/// Whether `stage` says of its interface what the plan has for it.
pub(super) fn of(plan: &Plan, (path, nth): (&PathPlan, usize), stage: &InterfaceStage) -> Result<(), Broken> {
    let InterfaceStage { interface: name, on, way, .. } = stage;
    let owner = match way {
        PacketWay::Sent => nth.checked_sub(1).and_then(|nth| path.through.get(nth)),
        PacketWay::Received => path.through.get(nth + 1),
    };
    let beside = |owner: &&PathStage| owner.on() == on && owner.branch() == stage.branch;
    let owner = owner.filter(beside).and_then(PathStage::service);
    let own = vifs(plan, on).find(|vif| vif.name == *name && Some(vif.service.as_str()) == owner);
    let missing = || Broken::new(format!("an interface {name} of the stage beside it"), "one", "none");
    let vif = own.ok_or_else(missing)?;
    if vif.class != PacketClass::High || vif.bound != Some(stage.bound) {
        return Err(Broken::new(
            format!("the longest wait for processing at {name}"),
            vif.bound.unwrap_or_default(),
            stage.bound,
        ));
    }
    let [sent, received] = vif.buckets().ok_or_else(missing)?;
    let bucket = if *way == PacketWay::Sent { sent } else { received };
    let (rate, depth) = (1e9 * stage.bucket.rate.per_ns(), stage.bucket.depth.as_f64());
    // After a drop a bucket keeps a half for other flows; where none is dropped it keeps nothing.
    let kept = if matches!(path.source, PathSource::Poisson(_)) { 2.0 } else { 1.0 };
    let each = f64::from(stage.packets);
    let holds = |most_rate: f64, most_depth: f64, each: f64| {
        rate * each <= most_rate * (1.0 + 1e-12) && depth * each * kept <= most_depth
    };
    let packets = holds(1e9 * bucket.rate.per_ns(), bucket.depth.as_f64(), each);
    let bytes = bucket.bits.is_none_or(|bits| {
        let usual = PacketBucket::USUAL as f64;
        let most = (bucket.depth.as_f64().floor() * usual).max(PacketBucket::LARGEST as f64);
        holds(bits.bits() as f64 / 8.0, most, each * usual)
    });
    match stage.packets > 0 && packets && bytes {
        true => Ok(()),
        false => Err(Broken::new(format!("tokens of {name} for all packets of a message"), bucket, stage.bucket)),
    }
}

/// Whether messages pass every interface that services of `path` have, but before the first and after the last stage.
pub(super) fn all(plan: &Plan, path: &PathPlan, steps: &Steps) -> Result<(), Broken> {
    for (nth, stage) in path.through.iter().enumerate() {
        let Some(service) = stage.service() else { continue };
        let own: Vec<&VifPlan> = vifs(plan, stage.on()).filter(|vif| vif.service == service).collect();
        let [own] = own[..] else {
            match own.is_empty() || path.through.len() == 1 {
                true => continue,
                false => return Err(Broken::new(format!("one interface of '{service}'"), 1, own.len())),
            }
        };
        let passes = |beside: Vec<usize>, way: PacketWay| {
            let is_own = |other: &PathStage| match other {
                PathStage::Interface(one) => one.interface == own.name && one.way == way && one.on == stage.on(),
                _ => false,
            };
            beside.into_iter().all(|at| is_own(&path.through[at]))
        };
        if !passes(steps.before(nth), PacketWay::Received) || !passes(steps.after(nth), PacketWay::Sent) {
            return Err(Broken::new(format!("its way over {}, the interface of '{service}'", own.name), "one", "none"));
        }
    }
    Ok(())
}

fn vifs<'a>(plan: &'a Plan, on: &'a str) -> impl Iterator<Item = &'a VifPlan> {
    plan.network.iter().filter(move |network| network.on == on).flat_map(|network| &network.vifs)
}

/// What is dropped where messages have no time to wait for tokens, and come there `at` ns after they began at most: all of that
/// time may come at once.
pub(super) fn late(stage: &InterfaceStage, part: &PathPart, often: f64, at: u128) -> Result<f64, Broken> {
    if part.within != stage.bound {
        return Err(Broken::new("the time of processing alone", stage.bound, part.within));
    }
    topic::dropped(stage.bucket, often, at as f64)
}

/// Whether no message of a periodic source finds the bucket without tokens, as long as none is older than the promised time
/// there.
pub(super) fn never_waits(path: &PathPlan, stage: &InterfaceStage, within: u64) -> Result<(), Broken> {
    let PathSource::Periodic { period, jitter, burst } = path.source else { return Ok(()) };
    // Messages of the promised time and the jitter, rounded up to whole periods, and of one period more, whose tokens come only in
    // the course of it.
    let times = (u128::from(within) + u128::from(jitter.ns())) / u128::from(period.ns().max(1)) + 2;
    let needed = times * u128::from(burst);
    let often = f64::from(burst) / period.ns() as f64;
    if needed > u128::from(stage.bucket.depth.at_once()) || often > stage.bucket.rate.per_ns() * (1.0 - 1e-12) {
        let needed = Tokens::whole(u64::try_from(needed).unwrap_or(u64::MAX));
        return Err(Broken::new(
            format!("tokens of {} that no message waits for", stage.interface),
            needed,
            stage.bucket,
        ));
    }
    Ok(())
}
