//! A site as promises of pods: `kind: Promise` (docs/kubernetes.md).
//!
//! Called by the command line with a site that was planned, and with the keys of its services as they are written. It touches no
//! cluster.

use crate::alone::comment;
use crate::words::share;
use giusto_model::{quoted, About, Measured, Observe, Plan, Server, Service, ServicePlan, Site, Unused};
use std::collections::HashSet;
use std::fmt;

/// What of a service's keys a promise has.
#[derive(Clone, Copy, Debug)]
pub struct PodText<'t> {
    /// The service.
    pub service: &'t str,
    /// Each key with its YAML, whose lines are indented by `    `.
    pub keys: &'t [(String, String)],
    /// Keys of the site that are not among them.
    pub left_out: &'t [String],
}

/// A promise as YAML, with comments before it.
#[derive(Clone, Debug)]
pub struct PodPromise<'t> {
    /// A name of Kubernetes.
    pub name: &'t str,
    /// `None`: that of who applies it.
    pub namespace: Option<&'t str>,
    /// What the pods have that it selects.
    pub labels: Vec<(&'t str, &'t str)>,
    /// Which container of them; `None`: they have one.
    pub container: Option<&'t str>,
    /// A line each, however long.
    pub comments: Vec<String>,
    /// The keys of its service as YAML, each line indented by `    `.
    pub keys: &'t str,
}

impl fmt::Display for PodPromise<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&comment("# ", &self.comments))?;
        writeln!(f, "apiVersion: giusto.io/v1alpha1\nkind: Promise\nmetadata:\n  name: {}", quoted(self.name))?;
        if let Some(namespace) = self.namespace {
            writeln!(f, "  namespace: {}", quoted(namespace))?;
        }
        writeln!(f, "spec:\n  selector:\n    matchLabels:")?;
        for (key, value) in &self.labels {
            writeln!(f, "      {}: {}", quoted(key), quoted(value))?;
        }
        if let Some(container) = self.container {
            writeln!(f, "  container: {}", quoted(container))?;
        }
        write!(f, "  service:\n{}", self.keys)
    }
}

/// The promises of all services of `site`, called `file`, as one stream of YAML, and what is not in them as comments beside them.
/// What a promise of pods cannot say is written as the processor time that the plan gives for it. O(services²).
pub fn kubernetes(site: &Site, plan: &Plan, file: &str, texts: &[PodText<'_>]) -> String {
    let mut names = HashSet::new();
    let mut head = vec![format!("Promises for the pods of {file}, by 'giusto export kubernetes'.")];
    for host in &site.hosts {
        let free = share(host.keep_free);
        head.push(format!("BY THE AGENT: cores of {} and keep-free ({free}): its --cores and --keep-free.", host.name));
    }
    let not_here = not_here(site);
    if !not_here.is_empty() {
        head.push(format!("NOT HERE: {}: no promise of pods says it.", not_here.join(", ")));
    }
    let mut out = Vec::new();
    for service in &site.services {
        let Some(text) = texts.iter().find(|text| text.service == service.name) else { continue };
        if service.origin.has_vcpus() {
            head.push(format!("NOT HERE: {}: a virtual machine.", service.name));
            continue;
        }
        out.push(promise(service, plan, text, &mut names));
    }
    comment("# ", &head) + &stream(&out)
}

/// Several promises as one stream of YAML.
pub fn stream(promises: &[String]) -> String {
    promises.iter().map(|one| format!("---\n{one}")).collect()
}

/// What of a site is of no service.
fn not_here(site: &Site) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for host in &site.hosts {
        let keys = [("network", host.network.is_some()), ("unused: park", host.unused == Unused::Park)];
        all.extend(keys.iter().filter(|(_, is)| *is).map(|(key, _)| format!("{key} of {}", host.name)));
    }
    all.extend(site.paths.all.iter().map(|path| format!("path {}", path.name)));
    all.extend(site.topics.iter().map(|topic| format!("topic {}", topic.name)));
    all.extend(site.coordination.is_some().then(|| "coordination".to_string()));
    all
}

fn promise(service: &Service, plan: &Plan, text: &PodText<'_>, names: &mut HashSet<String>) -> String {
    let planned: Vec<&ServicePlan> = plan.services.iter().filter(|planned| planned.name == service.name).collect();
    let own = unique(&service.name, "service", &mut |name| names.insert(name.into()));
    let mut lines = Vec::new();
    if own != service.name {
        lines.push(format!("NOTE: service {} is called {own} here.", service.name));
    }
    if let Some(one) = planned.first() {
        let each = if planned.len() > 1 { format!(", each of {} workers", planned.len()) } else { String::new() };
        lines.push(format!("PLAN: {} of a core on {}{each}.", share(one.server.bandwidth()), one.on));
    }
    let of = |wanted: &str| text.keys.iter().find(|(key, _)| key == wanted).map_or("", |(_, text)| text.as_str());
    let mut keys = String::new();
    match (instead(service, of("execution")), planned.first()) {
        (Some(why), Some(one)) => {
            let server = most(plan, service, one.server);
            lines.push(format!("INSTEAD: processor time as the plan gives it, {}: {why}.", share(server.bandwidth())));
            keys = format!(
                "    promise:\n      supply: \"{}/{}\"\n    server: {}\n",
                server.budget, server.period, server.kind
            );
            keys += of("cap");
            let dropped: Vec<&str> = text
                .keys
                .iter()
                .map(|(key, _)| key.as_str())
                .filter(|key| !["promise", "server", "cap"].contains(key))
                .collect();
            if !dropped.is_empty() {
                lines.push(format!("NOT HERE: {}, as its promise is another one.", dropped.join(", ")));
            }
        }
        _ => {
            for (key, text) in text.keys {
                match key == "observe" && matches!(service.observe, Some(Observe::Reported(_))) {
                    true => lines.push("NOT HERE: observe: what a pod reports itself is not read.".into()),
                    false => keys += text,
                }
            }
        }
    }
    let by_pod: Vec<&str> = text.left_out.iter().map(String::as_str).filter(|key| BY_POD.contains(key)).collect();
    if !by_pod.is_empty() {
        lines.push(format!("BY THE POD: {}.", by_pod.join(", ")));
    }
    for key in text.left_out.iter().filter(|key| !BY_POD.contains(&key.as_str())) {
        lines.push(format!("NOT HERE: {key}: {}.", lost(key)));
    }
    lines.push(format!("Its pods have the label app: {own}, and schedulerName: giusto."));
    PodPromise {
        name: &own,
        namespace: None,
        labels: vec![("app", &own)],
        container: None,
        comments: lines,
        keys: &keys,
    }
    .to_string()
}

/// Of a service with modes the greatest that it has in one; else `planned`.
fn most(plan: &Plan, service: &Service, planned: Server) -> Server {
    let members = plan.modes.iter().flat_map(|modes| &modes.members).filter(|member| member.service == service.name);
    let all = members.flat_map(|member| &member.locals).filter_map(|local| local.servers.first().copied());
    all.fold(planned, |most, one| if one.bandwidth() > most.bandwidth() { one } else { most })
}

/// Why the plan's processor time stands for the promise; `None`: a promise of pods says it itself.
fn instead(service: &Service, execution: &str) -> Option<&'static str> {
    if service.promise.about() == About::Paths {
        return Some("a stage of paths has no promise of its own");
    }
    if !service.modes.is_empty() {
        return Some("pods have no modes; this is of the one in which it needs most");
    }
    match service.measured {
        Measured::Declared if execution.contains("histogram:") => Some("pods read no files of histograms"),
        Measured::Declared if service.tasks.len() > MOST_TASKS => Some("a promise of pods has 64 tasks at most"),
        Measured::Declared => None,
        Measured::Wanted { .. } | Measured::Observed(_) | Measured::Placeholders => {
            Some("of pods no profiles are measured; this is of the profile here")
        }
    }
}

/// As `maxItems` of kubernetes/api.
const MOST_TASKS: usize = 64;

/// What a pod says itself, by other names.
const BY_POD: [&str; 6] = ["start", "adopt", "directory", "environment", "end-within", "group"];

/// Why a key of a service is lost.
fn lost(key: &str) -> &'static str {
    match key {
        "on" => "the scheduler chooses the node; a nodeSelector of the pods binds them to one",
        "vcpus" => "pods have no virtual CPUs",
        "network" => "packets of pods are processed as the kernel does it",
        "modes" | "agent" => "pods have no modes",
        "adapt" => "what asks for more than planned is not planned anew",
        "load" => "'giusto run --trial' and 'giusto measure' do not reach pods",
        "restart" => "the restartPolicy of the pods says it; under a Deployment it is Always",
        "user" => "runAsUser of the pod, by number",
        "limits" => "memory is limits.memory of the container; pods have no limits of tasks, open files, locked memory",
        _ => "pods have no such thing",
    }
}

/// A name of Kubernetes like this one: the first that is free, as `take` tells, which takes it then. `empty` where it has no
/// letter or digit.
pub fn unique(name: &str, empty: &str, take: &mut dyn FnMut(&str) -> bool) -> String {
    let first = rfc1123(name, empty);
    if take(&first) {
        return first;
    }
    let mut number = 2;
    loop {
        let suffix = format!("-{number}");
        let own = format!("{}{suffix}", first[..first.len().min(LONGEST - suffix.len())].trim_end_matches('-'));
        if take(&own) {
            return own;
        }
        number += 1;
    }
}

/// Of a name of Kubernetes that is a label's value, too.
const LONGEST: usize = 63;

/// A name of Kubernetes (RFC 1123) that is like this one; `empty` where it has no letter or digit.
pub(crate) fn rfc1123(name: &str, empty: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(plain).take(LONGEST).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { empty } else { name }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_what_kubernetes_takes() {
        for (name, own) in
            [("flight-1", "flight-1"), ("Debian 12.2", "debian-12-2"), ("--", "vm"), ("ä/ö", "vm"), ("a_", "a")]
        {
            assert_eq!(rfc1123(name, "vm"), own);
        }
        assert_eq!(rfc1123(&"x".repeat(99), "vm").len(), 63);
        let mut names: HashSet<String> = HashSet::new();
        let long = "x".repeat(63);
        let mut of = |name: &str| unique(name, "service", &mut |name| names.insert(name.into()));
        let all = [of("A_b"), of("a-b"), of("a.b"), of(&long), of(&(long.clone() + "y"))];
        assert_eq!(all, ["a-b".into(), "a-b-2".into(), "a-b-3".into(), long.clone(), format!("{}-2", &long[..61])]);
    }
}
