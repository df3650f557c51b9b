//! Plans that were reviewed: read, proven once more and compared with this machine before they are enforced.

use crate::failure::Failure;
use crate::plan;
use giusto_model::Plan;
use giusto_planner::Facts;
use std::fs;
use std::path::Path;

/// Whether a file that was named is a plan and not a site: JSON with the key that all plans have. One that cannot be read is
/// none.
pub(crate) fn is_plan(path: &Path) -> bool {
    let text = fs::metadata(path).ok().filter(fs::Metadata::is_file).and_then(|_| fs::read_to_string(path).ok());
    text.is_some_and(|text| text.trim_start().starts_with('{') && text.contains("\"giusto_plan\""))
}

/// The part of the plan at `path` for this machine, whose facts are known; `host`: which of its hosts that is.
///
/// # Errors
/// It is no plan, or has no such host (2); a promise in it does not hold (1). Whether it still fits here [`stale`] tells.
pub(crate) fn part(path: &Path, host: Option<&str>) -> Result<Plan, Failure> {
    let plan = giusto_planner::read(path)?;
    let names: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    let known = names.join(", ");
    let name = giusto_planner::which_host(&names, host, &plan::hostname()).ok_or_else(|| {
        let (path, hostname) = (path.display(), plan::hostname());
        Failure::input(format!(
            "{path} is for hosts {known}, and this machine's hostname is '{hostname}': say with --host NAME which of them it is"
        ))
    })?;
    let part = plan
        .on(&name)
        .ok_or_else(|| Failure::input(format!("{} has no host '{name}'; it has {known}", path.display())))?;
    giusto_verify::check_plan(&plan).map_err(|broken| {
        Failure::does_not_fit(format!("{}: a promise does not hold: {broken}; {}", path.display(), anew(&part, path)))
    })?;
    Ok(part)
}

/// Why a `plan`, as it was read from `path`, cannot be enforced on a machine with these facts; `None`: it can.
pub(crate) fn stale(plan: &Plan, path: &Path, facts: &Facts) -> Option<Failure> {
    let found = giusto_planner::differences(plan, facts);
    let text = || format!("{} cannot be enforced here: {}; {}", path.display(), found.join("; "), anew(plan, path));
    (!found.is_empty()).then(|| Failure::does_not_fit(text()))
}

/// What to do about a plan that cannot be used.
fn anew(plan: &Plan, path: &Path) -> String {
    let site = plan.basis.as_ref().map_or("SITE", |basis| basis.site.file.as_str());
    let path = path.display();
    format!("plan anew with 'giusto plan {site} --out {path}', and review it with 'giusto diff {path}'")
}
