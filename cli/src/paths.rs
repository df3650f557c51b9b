//! Paths in words and in JSON.

use giusto_model::{Duration, Link, LinkTimes, Path, PathPlan, Percentile, Site, Steps, Through};
use giusto_planner::{share, Saving};
use serde_json::{json, Value};

/// `path braking: camera, controller: p99 ≤ 22.1 ms proven (p99 ≤ 30 ms promised); 'giusto explain braking' tells the stages`
pub(crate) fn planned(path: &PathPlan) -> String {
    let through = route(path);
    let points = |time: &dyn Fn(&giusto_model::PathPoint) -> Duration| {
        let points = path.points.iter().map(|point| at_most(Some(point.percentile), time(point)));
        points.collect::<Vec<_>>()
    };
    let (mut proven, mut promised) = (points(&|point| point.at), points(&|point| point.within));
    if let Some(every) = &path.every {
        proven.push(at_most(None, every.at));
        promised.push(at_most(None, every.within));
    }
    promised.extend(path.despite.iter().map(|one| format!("despite {}", one.fails)));
    let how = if path.simulated.is_some() { "simulated, not proven" } else { "proven" };
    format!(
        "path {}: {}: {} {how} ({} promised); 'giusto explain {}' tells the stages\n",
        path.name,
        through,
        proven.join(", "),
        promised.join(", "),
        path.name
    )
}

/// `camera, [left | right, far], controller`
pub(crate) fn route(path: &PathPlan) -> String {
    Steps::of(&path.through).words(|nth| path.through[nth].to_string())
}

fn at_most(percentile: Option<Percentile>, time: Duration) -> String {
    let what = percentile.map_or("every message".to_string(), |percentile| percentile.to_string());
    format!("{what} ≤ {time:.3}")
}

/// What simulation instead of a proof would save, and what that rests on.
pub(crate) fn saving(saving: &Saving) -> String {
    let Saving { proven, simulated, messages, risk_ppm } = saving;
    let instead = match simulated < proven {
        true => format!("{} of a core for its services instead of {}", share(*simulated), share(*proven)),
        false => format!("as much for its services, {} of a core", share(*proven)),
    };
    format!(
        "'assurance: simulated' would reserve {instead}: {messages} messages of independent runs, with a chance of a wrong \
         yes of {risk_ppm} in a million at most, in the place of a proof"
    )
}

/// Links and paths of a site, a line each.
pub(crate) fn of_site(site: &Site) -> Vec<String> {
    let link = |link: &Link| {
        let measured = link.measured.as_ref().map(|one| format!(", of {} messages in '{}'", one.messages, one.file));
        format!("link {} to {}: at most {}{}", link.from, link.to, link.worst, measured.unwrap_or_default())
    };
    let links = site.paths.links.iter().map(link);
    links.chain(site.paths.all.iter().map(of_path)).collect()
}

fn of_path(path: &Path) -> String {
    let points = path.points.iter().map(|point| at_most(Some(point.percentile), point.within));
    let despite = path.despite.iter().map(|one| format!("despite {}", one.fails));
    let all: Vec<String> = points.chain(path.every.map(|every| at_most(None, every))).chain(despite).collect();
    format!("path {}: {} through {}; {}", path.name, path.source, words(&path.through), all.join(", "))
}

/// `camera, topic alarms, controller`
pub(crate) fn words(through: &[Through]) -> String {
    through.iter().map(Through::to_string).collect::<Vec<_>>().join(", ")
}

/// The same for programs.
pub(crate) fn links_json(site: &Site) -> Value {
    let link = |Link { from, to, worst, measured }: &Link| {
        let measured = measured.as_ref().map(
            |LinkTimes { file, messages, latency }| json!({"file": file, "messages": messages, "latency": latency}),
        );
        json!({"from": from, "to": to, "worst_ns": worst, "measured": measured})
    };
    site.paths.links.iter().map(link).collect()
}

pub(crate) fn paths_json(site: &Site) -> Value {
    fn stage(one: &Through) -> Value {
        match one {
            Through::Service(name) => json!(name),
            Through::Topic(name) => json!({"topic": name}),
            Through::All(branches) => {
                let branch = |branch: &Vec<Through>| branch.iter().map(stage).collect::<Vec<_>>();
                json!({"all": branches.iter().map(branch).collect::<Vec<_>>()})
            }
        }
    }
    let path = |path: &Path| {
        let Path { name, source, through, points, every, load, observe, packets, assurance, despite } = path;
        let through: Vec<Value> = through.iter().map(stage).collect();
        json!({"name": name, "source": source, "through": through, "promise": points, "every_ns": every,
            "load": load, "observe": observe, "packets": packets, "assurance": assurance, "despite": despite})
    };
    site.paths.all.iter().map(path).collect()
}
