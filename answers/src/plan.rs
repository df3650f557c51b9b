//! `giusto plan`: a plan of a site, and what it predicts.

use crate::Error;
use giusto_model::{Backend, Duration, Host, Measured, Observation, Plan, Prediction, Site, OBSERVATION_VERSION};
use giusto_model::{ServicePlan, SiteBasis};
use giusto_planner::{Facts, Here, Place, Placements, Refusal};
use giusto_simulator::{predict, Execution, Unobserved};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where profiles of services are looked for when nothing is said.
pub const PROFILES: &str = "out/profiles";
/// Virtual time of a prediction.
const PREDICTED: Duration = Duration::from_secs(10);

/// What was asked of a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// The only backend that may be used.
    pub backend: Option<Backend>,
    /// Which host of the site this machine is.
    pub host: Option<&'a str>,
    /// A measured latency of this machine.
    pub latency: Option<&'a Path>,
    /// The folder of the profiles; [`PROFILES`] by default.
    pub profiles: Option<&'a Path>,
    /// A plan whose services stay where they are.
    pub current: Option<&'a Path>,
}

/// A site and what it was read from.
#[derive(Clone, Debug)]
pub struct Read {
    /// What it says.
    pub site: Site,
    /// The file and its hash.
    pub from: SiteBasis,
}

/// What `machine` says of a machine, as it was asked for; which host of `site` it is, unless it is none of several.
///
/// # Errors
/// A latency that cannot be read.
pub fn facts(site: &Site, asked: &Asked, machine: Facts, hostname: &str) -> Result<Facts, Error> {
    let latency = asked.latency.map(giusto_planner::read_latency).transpose()?;
    let names: Vec<&str> = site.hosts.iter().map(|host| host.name.as_str()).collect();
    let host = giusto_planner::which_host(&names, asked.host, hostname);
    Ok(Facts { insist: asked.backend, host, latency, ..machine })
}

/// This machine, and now.
pub fn this_machine() -> Here {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Here { host: giusto_measure::this_host(), now }
}

/// The site with numbers in the place of what is to be measured, from the profiles in a folder. What is doubtful of them is
/// told.
///
/// # Errors
/// A profile that cannot be used.
pub fn measured(site: &Site, folder: &Path, facts: &Facts, tell: &mut dyn FnMut(&str)) -> Result<Site, Error> {
    let wanted = site.services.iter().filter(|one| matches!(one.measured, Measured::Wanted { .. }));
    let mut observations = Vec::new();
    for service in wanted {
        let file = folder.join(format!("{}.json", service.name));
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let bad = |why: &dyn std::fmt::Display| {
            let how = format!("measure again with 'giusto measure execution SITE {}'", service.name);
            Error::input(format!("{} is not a profile that this giusto can use: {why}; {how}", file.display()))
        };
        let observation: Observation = serde_json::from_str(&text).map_err(|why| bad(&why))?;
        if observation.giusto_profile != OBSERVATION_VERSION {
            let found = format!("it has version {}, expected {OBSERVATION_VERSION}", observation.giusto_profile);
            return Err(bad(&found));
        }
        observation.validate().map_err(|why| bad(&why))?;
        observations.push(observation);
    }
    let resolved = giusto_planner::with_measured(site, &observations, &[], &this_machine(), facts)
        .map_err(|refusal| Error::Refused(Box::new(refusal)))?;
    resolved.notes.iter().for_each(|note| tell(note));
    Ok(resolved.site)
}

/// The plan, saying what it was made from.
pub fn based(plan: Plan, from: &SiteBasis, facts: &Facts) -> Plan {
    Plan { basis: Some(giusto_planner::basis(&plan, from.clone(), facts)), ..plan }
}

/// Plans a site for a machine, or for the site's own cores where they are not that machine's: planning looks ahead, `run` is what
/// refuses those. Tells so.
///
/// # Errors
/// [`Error::Refused`] what does not fit; profiles, latencies and plans that cannot be read.
pub fn of(read: &Read, asked: &Asked, facts: Facts, tell: &mut dyn FnMut(&str)) -> Result<Plan, Error> {
    Ok(whole(read, asked, facts, tell)?.plan)
}

/// A plan, and all that it follows from.
#[derive(Clone, Debug)]
pub struct Planned {
    /// With numbers in the place of what was to be measured.
    pub site: Site,
    /// Of the machine, with the site's cores.
    pub facts: Facts,
    /// What was decided.
    pub plan: Plan,
}

/// The same with what it follows from, for those who plan again.
///
/// # Errors
/// As [`of`].
pub fn whole(read: &Read, asked: &Asked, facts: Facts, tell: &mut dyn FnMut(&str)) -> Result<Planned, Error> {
    let mut facts = facts;
    let site = measured(&read.site, asked.profiles.unwrap_or(Path::new(PROFILES)), &facts, tell)?;
    if let Some(note) = missing_cores(&site, &facts) {
        tell(&note);
    }
    for host in site.hosts.iter().filter(|host| facts.host.as_ref() == Some(&host.name)) {
        facts.cores.extend(&host.cores);
    }
    facts.cores.sort_unstable();
    facts.cores.dedup();
    if let Some(current) = asked.current {
        facts.placed = Placements::of(&giusto_planner::read(current)?);
    }
    let plan = giusto_planner::plan(&site, &facts).map_err(|refusal| Error::Refused(Box::new(refusal)))?;
    if asked.current.is_some() {
        tell(&moves(&facts.placed.moved(&plan)));
    }
    let plan = based(plan, &read.from, &facts);
    Ok(Planned { site, facts, plan })
}

/// Which services change their host or core; of many the first.
fn moves(moved: &[String]) -> String {
    const TOLD: usize = 10;
    let more = moved.len().saturating_sub(TOLD);
    let told = moved.iter().take(TOLD).map(|one| format!("\n  {one}")).collect::<String>();
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    match moved.len() {
        0 => "no service moves".into(),
        1 => format!("one service moves:{told}"),
        count => format!("{count} services move:{told}{more}"),
    }
}

/// Which cores a machine lacks of those that the site says it has.
pub fn missing_cores(site: &Site, facts: &Facts) -> Option<String> {
    let is_here = |host: &&Host| facts.host.as_ref() == Some(&host.name) && host.xen.is_none();
    let here = site.hosts.iter().filter(is_here);
    let of = |host: &Host| {
        host.cores.iter().chain(host.network.iter().flat_map(|network| &network.cores)).copied().collect()
    };
    let mut missing: Vec<u32> = here.flat_map(|host| -> Vec<u32> { of(host) }).collect();
    missing.retain(|core| !facts.cores.contains(core));
    missing.sort_unstable();
    (!missing.is_empty()).then(|| {
        let cores = giusto_planner::cores(&missing);
        format!("this machine has no core {cores}: 'giusto run' would refuse this site here")
    })
}

/// Fills in what every service's tasks will see if they keep to their worst case. Without tasks there is nothing to predict.
///
/// # Errors
/// What the simulator refuses.
pub fn predict_all(plan: &mut Plan, seed: u64) -> Result<(), Error> {
    let has_tasks = |service: &&mut ServicePlan| !service.tasks.is_empty();
    for service in plan.services.iter_mut().filter(has_tasks) {
        let predicted = predict(service, Execution::Worst, &[], PREDICTED, seed, &mut Unobserved)?;
        let late = plan.hosts.iter().find(|host| host.name == service.on).and_then(|host| host.latency.as_ref());
        let late = late.map_or(Duration::ZERO, |late| late.latency);
        service.prediction = Some(later(predicted.stats.prediction(), late));
    }
    Ok(())
}

/// The same with all supply `late`, and so every job done.
fn later(predicted: Prediction, late: Duration) -> Prediction {
    let later = |time: Duration| time.checked_add(late).unwrap_or(time);
    let Prediction { jobs, p50, p99, p99_9, max } = predicted;
    Prediction { jobs, p50: later(p50), p99: later(p99), p99_9: later(p99_9), max: later(max) }
}

/// The places in the text of a site of what is to be changed so that it fits; the first of them.
pub fn locate(refusal: &mut Refusal, text: &str) -> Option<Place> {
    let find = |keys: &[&str]| {
        let (line, column) = giusto_site::place(text, keys)?;
        Some(Place { line, column })
    };
    refusal.locate(&find)
}

/// The exit code that tells what kind of refusal it is: 1 it does not fit, 2 the site is wrong, 3 the machine lacks something.
pub fn code(refusal: &Refusal) -> u8 {
    use Refusal::{
        Apart, Asked, DoesNotFit, Host, Late, Latency, Machine, Modes, NoRecovery, Nowhere, On, Packets, Path,
        Recovery, Tasks, Topic, Unmeasured,
    };
    match refusal {
        Path(inner) if inner.is_input() => 2,
        DoesNotFit(_) | Recovery(_) | Apart { .. } | Topic(_) | Path(_) | Packets(_) | Modes(_) => 1,
        Machine { .. } => 3,
        Asked { .. }
        | Tasks { .. }
        | Unmeasured { .. }
        | Nowhere { .. }
        | Host { .. }
        | NoRecovery(_)
        | Latency { .. } => 2,
        Late { refusal, .. } | On { refusal, .. } => code(refusal),
    }
}
