//! `giusto init --kubernetes`: promises for pods that run on this machine, as they were observed.

use crate::args::InitArgs;
use crate::failure::Failure;
use crate::init::{in_short, is_free, save, watched};
use crate::tell::tell;
use giusto_daemon::{Draft, Observed};
use giusto_model::Duration;
use giusto_planner::PodPromise;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

const EXPECTED: &str = "expected pods as 'kubectl get pods -o json' prints them";
/// Labels by which controllers tell their own pods apart: those of tomorrow have others.
const OF_ONE_POD: [&str; 7] = [
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
];

/// What `kubectl get` prints: a list, or one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Printed {
    List { items: Vec<Pod> },
    One(Pod),
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

/// Watches one pod after the other, and writes a promise for each kind of them.
pub(crate) fn init(args: &InitArgs, file: &Path) -> Result<ExitCode, Failure> {
    if let Some(out) = &args.out {
        is_free(out, args.force)?;
    }
    let pods = match read(file)? {
        Printed::List { items } => items,
        Printed::One(pod) => vec![pod],
    };
    let (mut seen, mut text) = (BTreeSet::new(), String::new());
    for pod in &pods {
        let Metadata { name, namespace, labels } = &pod.metadata;
        let labels: BTreeMap<&str, &str> = labels
            .iter()
            .filter(|(key, _)| !OF_ONE_POD.contains(&key.as_str()))
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        if seen.contains(&(namespace, labels.clone())) {
            tell(format_args!("{namespace}/{name}: as one before it"));
            continue;
        }
        match of(pod, &labels, args.container.as_deref(), args.length) {
            Ok(promise) => {
                text += "---\n";
                text += &promise;
                seen.insert((namespace, labels));
            }
            Err(why) => tell(format_args!("note: {namespace}/{name}: {why}")),
        }
    }
    if text.is_empty() {
        let shown = file.display();
        return Err(Failure::cannot_tell(format!(
            "no promise can be written for any of the {} pods in {shown}; expected pods that run on this machine, see above",
            pods.len()
        )));
    }
    match &args.out {
        Some(out) => save(out, &text)?,
        None => crate::table::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> Result<Printed, Failure> {
    let shown = file.display();
    let mut text = String::new();
    let done = match file == Path::new("-") {
        true => std::io::stdin().read_to_string(&mut text),
        false => std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text)),
    };
    done.map_err(|error| Failure::input(format!("cannot read {shown}: {error}")))?;
    serde_json::from_str(&text).map_err(|_| Failure::input(format!("{shown} has no pods; {EXPECTED}")))
}

/// The promise of a pod, after it was watched. Errors in words.
fn of(pod: &Pod, labels: &BTreeMap<&str, &str>, container: Option<&str>, length: Duration) -> Result<String, String> {
    if labels.is_empty() {
        return Err(
            "it has no label by which a promise could select it; expected one, such as app: web, in its template"
                .into(),
        );
    }
    let (name, id) = container_of(pod, container)?;
    let mut found = giusto_daemon::find(id).map_err(|_| "it does not run on this machine".to_string())?;
    let metadata = &pod.metadata;
    let called = ["app.kubernetes.io/name", "app", "k8s-app"].iter().find_map(|key| labels.get(key));
    found.name = giusto_planner::rfc1123(called.unwrap_or(&metadata.name.as_str()), "service");
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
    let Draft { text, summary, .. } = giusto_daemon::draft(&observed, &facts)?;
    tell(format_args!("{shown}: {}", in_short(&summary)));
    let keys = giusto_site::pod_keys("the draft", &text).map_err(|error| error.to_string())?;
    let keys = keys.first().ok_or("the draft has no service")?;
    let [mean, p99, most] = summary.execution_ns.map(Duration::from_ns);
    Ok(PodPromise {
        name: &found.name,
        namespace: Some(&metadata.namespace),
        labels: labels.iter().map(|(key, value)| (*key, *value)).collect(),
        container: (pod.spec.containers.len() > 1).then_some(name),
        comments: vec![
            format!("By 'giusto init' after {shown} was watched for {length}: a proposal, to be read and adapted."),
            format!("What was observed: {}.", in_short(&summary)),
            format!("One of them took {mean:.3} on average, {p99:.3} in 99 of 100 cases, {most:.3} at most."),
            "Its pods need schedulerName: giusto.".into(),
        ],
        keys: &keys.keys,
    }
    .to_string())
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
    id.filter(|id| !id.is_empty()).map(|id| (name, id)).ok_or_else(|| format!("its container {name} does not run"))
}
