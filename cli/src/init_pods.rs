//! `giusto init --kubernetes`: promises for pods that run on this machine, as they were observed.

use crate::args::InitArgs;
use crate::failure::{apart, Failure};
use crate::init::{in_short, is_free, save, watched};
use crate::tell::tell;
use giusto_daemon::{Demand, Draft, Observed, Signals};
use giusto_model::Duration;
use giusto_planner::PodPromise;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

const EXPECTED: &str = "expected pods as 'kubectl get pods -o json' prints them";
/// Labels by which controllers tell their own pods apart: those of tomorrow have others.
const OF_ONE_POD: [&str; 10] = [
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "job-name",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/job-completion-index",
];
/// kubelet has such a pod from a file: the API server has its mirror.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Bytes of what is read: pods of a node are some kB each.
const LARGEST: u64 = 64 << 20;
/// Digits of a container's id that a runtime shows.
const SHORT_ID: usize = 12;

/// What `kubectl get` prints: a list, or one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Printed {
    List { items: Vec<serde_json::Value> },
    One(serde_json::Value),
}

/// What of a pod (core/v1) is read.
#[derive(Deserialize)]
struct Pod {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default = "default_namespace")]
    namespace: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(rename = "deletionTimestamp")]
    ends: Option<String>,
}

#[derive(Deserialize)]
struct Spec {
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    #[serde(rename = "containerID", default)]
    container_id: String,
}

fn default_namespace() -> String {
    "default".into()
}

/// A promise that was written: whom it selects.
struct Selector<'p> {
    namespace: &'p str,
    labels: BTreeMap<&'p str, &'p str>,
    /// One of them.
    pod: &'p str,
}

/// Watches one pod after the other, and writes a promise for each kind of them.
pub(crate) fn init(args: &InitArgs, file: &Path) -> Result<ExitCode, Failure> {
    let signals = Signals::mind(false);
    apart(&[("--out", args.out.as_deref())], &[file])?;
    if let Some(out) = &args.out {
        is_free(out, args.force)?;
    }
    let pods = read(file)?;
    let (mut names, mut written) = (BTreeSet::new(), Vec::new());
    let mut selectors: Vec<Selector> = Vec::new();
    for pod in &pods {
        let Metadata { name, namespace, labels, .. } = &pod.metadata;
        let lasting = labels.iter().filter(|(key, _)| !OF_ONE_POD.contains(&key.as_str()));
        let labels: BTreeMap<&str, &str> = lasting.map(|(key, value)| (key.as_str(), value.as_str())).collect();
        if let Some(before) = selectors.iter().find(|one| one.namespace == namespace && one.labels == labels) {
            tell(format_args!("note: {namespace}/{name} has the labels of {}, whose promise is for both", before.pod));
            continue;
        }
        let promise = watch(pod, &labels, args.container.as_deref(), args.length, &mut |name| {
            names.insert((namespace.clone(), name.to_string()))
        });
        if signals.stopped() {
            return Err(Failure::cannot_tell(format!(
                "ended while {namespace}/{name} was watched; nothing is written"
            )));
        }
        match promise {
            Ok(promise) => {
                let both = selectors.iter().filter(|one| one.namespace == namespace && overlap(&one.labels, &labels));
                for other in both {
                    tell(format_args!(
                        "note: the promises for {} and {namespace}/{name} may select the same pods, and a pod has one at \
                         most; expected a label by which to tell them apart",
                        other.pod
                    ));
                }
                written.push(promise);
                selectors.push(Selector { namespace, labels, pod: name });
            }
            Err(why) => tell(format_args!("note: {namespace}/{name}: {why}")),
        }
    }
    if written.is_empty() {
        return Err(Failure::cannot_tell(format!(
            "no promise can be written for any of the {} pods in {}; expected pods that run on this machine, see above",
            pods.len(),
            file.display()
        )));
    }
    let text = giusto_planner::stream(&written);
    match &args.out {
        Some(out) => save(out, &text)?,
        None => crate::table::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether all labels of one are among the other's.
fn overlap(one: &BTreeMap<&str, &str>, other: &BTreeMap<&str, &str>) -> bool {
    let within = |few: &BTreeMap<&str, &str>, many: &BTreeMap<&str, &str>| {
        few.iter().all(|(key, value)| many.get(key) == Some(value))
    };
    within(one, other) || within(other, one)
}

fn read(file: &Path) -> Result<Vec<Pod>, Failure> {
    let shown = file.display();
    let mut text = String::new();
    let source: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => Box::new(
            std::fs::File::open(file)
                .map_err(|error| Failure::input(format!("cannot read {shown}: {error}; {EXPECTED}")))?,
        ),
    };
    let length = source.take(LARGEST + 1).read_to_string(&mut text);
    let length = length.map_err(|error| Failure::input(format!("cannot read {shown}: {error}; {EXPECTED}")))?;
    if length as u64 > LARGEST {
        return Err(Failure::input(format!(
            "{shown} has more than 64 MiB; expected the pods of one node or application"
        )));
    }
    let no_pods = |why: String| Failure::input(format!("{shown} has no pods{why}; {EXPECTED}"));
    let objects = match serde_json::from_str(&text).map_err(|why| no_pods(format!(": {why}")))? {
        Printed::List { items } => items,
        Printed::One(object) => vec![object],
    };
    let pods: Result<Vec<Pod>, _> = objects.into_iter().map(serde_json::from_value).collect();
    let pods = pods.map_err(|why| no_pods(format!(": {why}")))?;
    if pods.is_empty() {
        return Err(no_pods(String::new()));
    }
    Ok(pods)
}

/// The promise of a pod, after it was watched. Errors in words.
fn watch(
    pod: &Pod,
    labels: &BTreeMap<&str, &str>,
    container: Option<&str>,
    length: Duration,
    take: &mut dyn FnMut(&str) -> bool,
) -> Result<String, String> {
    let metadata = &pod.metadata;
    if metadata.ends.is_some() {
        return Err("it is being deleted".into());
    }
    if metadata.annotations.contains_key(MIRROR) {
        return Err("kubelet runs it from a file of the node, past every scheduler: no promise can be for it".into());
    }
    if labels.is_empty() {
        return Err(
            "it has no label by which a promise could select it; expected one, such as app: web, in its template"
                .into(),
        );
    }
    let (name, id) = container_of(pod, container)?;
    let found = giusto_daemon::find(id).map_err(|_| "it does not run on this machine".to_string())?;
    let shown = format!("{}/{}", metadata.namespace, metadata.name);
    let watched = watched(length, &found.pids, &shown).map_err(|failure| failure.to_string())?;
    // Its addresses are those of a network that this machine may not reach, and promises of pods have no load.
    let served = Err("a pod".into());
    let facts = giusto_daemon::facts();
    let host = giusto_daemon::host_name();
    let observed = Observed {
        found: &found,
        watched: &watched,
        served: &served,
        answered: None,
        host: &host,
        cores: &facts.cores,
    };
    let Draft { text, summary, demand } = giusto_daemon::draft(&observed, &facts)?;
    tell(format_args!("{shown}: {}", in_short(&summary)));
    let keys = giusto_site::pod_keys("the draft", &text).map_err(|error| error.to_string())?;
    let keys: String = keys.iter().flat_map(|one| &one.keys).map(|(_, text)| text.as_str()).collect();
    let [mean, p99, most] = summary.execution_ns.map(Duration::from_ns);
    let called = ["app.kubernetes.io/name", "app", "k8s-app"].iter().find_map(|key| labels.get(key));
    let own = giusto_planner::unique(called.unwrap_or(&metadata.name.as_str()), "service", take);
    let promise = PodPromise {
        name: &own,
        namespace: Some(&metadata.namespace),
        labels: labels.iter().map(|(key, value)| (*key, *value)).collect(),
        container: (pod.spec.containers.len() > 1).then_some(name),
        comments: vec![
            format!(
                "By 'giusto init' after {shown} was watched for {:.0} s: a proposal, to be read and adapted.",
                watched.length.to_std().as_secs_f64()
            ),
            format!("What was observed: {}.", in_short(&summary)),
            format!("One of them took {mean:.3} on average, {p99:.3} in 99 of 100 cases, {most:.3} at most."),
            proposed(&demand),
            "Its pods need schedulerName: giusto.".into(),
        ],
        keys: &keys,
    };
    Ok(promise.to_string())
}

/// What the promise rests on.
fn proposed(demand: &Demand) -> String {
    match demand {
        Demand::Tasks { covers, .. } => format!("The wcet is that of {covers} of those observed, and a fifth more."),
        Demand::Arrivals { covers, .. } => format!(
            "The wcet is that of {covers} of those observed, and a fifth more. Response times cannot be observed from \
             outside: which are promised is a guess."
        ),
        Demand::Leftovers { why, .. } => format!("No reservation: {why}."),
    }
}

/// Name and id of the container that is meant. Errors in words.
fn container_of<'p>(pod: &'p Pod, asked: Option<&'p str>) -> Result<(&'p str, &'p str), String> {
    let names: Vec<&str> = pod.spec.containers.iter().map(|container| container.name.as_str()).collect();
    let name = match (asked, &names[..]) {
        (Some(asked), all) if all.contains(&asked) => asked,
        (Some(asked), all) => return Err(format!("it has no container '{asked}'; it has {}", all.join(", "))),
        (None, [only]) => *only,
        (None, all) => {
            return Err(format!("it has containers {}; expected one of them, with --container NAME", all.join(", ")));
        }
    };
    let status = pod.status.container_statuses.iter().find(|status| status.name == name);
    let id = status.and_then(|status| status.container_id.split_once("://")).map(|(_, id)| id);
    // Other words may be what else runs here: a process, a unit.
    let is_id = |id: &&str| id.len() >= SHORT_ID && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    id.filter(is_id).map(|id| (name, id)).ok_or_else(|| format!("its container {name} does not run"))
}
