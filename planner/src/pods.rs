//! A site as promises of pods: `kind: Promise` (docs/kubernetes.md).
//!
//! Called by the command line with a site that was planned, and with the keys of its services as they are written. It touches no
//! cluster.

use crate::alone::comment;
use crate::words::share;
use giusto_model::{quoted, Measured, Plan, Promise, Service, ServicePlan, Site};
use std::collections::HashSet;
use std::fmt;

/// What of a service's keys a promise has.
#[derive(Clone, Copy, Debug)]
pub struct PodText<'t> {
    /// The service.
    pub service: &'t str,
    /// YAML, each line indented by `    `.
    pub keys: &'t str,
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
    let paths = site.paths.all.iter().map(|path| format!("path {}", path.name));
    let topics = site.topics.iter().map(|topic| format!("topic {}", topic.name));
    let rest: Vec<String> =
        paths.chain(topics).chain(site.coordination.is_some().then(|| "coordination".into())).collect();
    if !rest.is_empty() {
        head.push(format!("NOT HERE: {}: no promise of pods says it.", rest.join(", ")));
    }
    let mut out = Vec::new();
    for service in &site.services {
        let Some(text) = texts.iter().find(|text| text.service == service.name) else { continue };
        if service.origin.has_vcpus() {
            head.push(format!("NOT HERE: {}: a virtual machine; 'giusto export kubevirt' has its part.", service.name));
            continue;
        }
        let planned: Vec<&ServicePlan> = plan.services.iter().filter(|planned| planned.name == service.name).collect();
        out.push(promise(service, &planned, text, &mut names));
    }
    let mut all = comment("# ", &head);
    for one in out {
        all += "---\n";
        all += &one;
    }
    all
}

fn promise(service: &Service, planned: &[&ServicePlan], text: &PodText<'_>, names: &mut HashSet<String>) -> String {
    let mut own = rfc1123(&service.name, "service");
    // Names that differ in case or in signs alone.
    let first = own.clone();
    for number in 2.. {
        if names.insert(own.clone()) {
            break;
        }
        own = format!("{first}-{number}");
    }
    let mut lines = Vec::new();
    if own != service.name {
        lines.push(format!("NOTE: {} as Kubernetes takes names.", service.name));
    }
    if let Some(one) = planned.first() {
        let each = if planned.len() > 1 { format!(", each of {} workers", planned.len()) } else { String::new() };
        lines.push(format!("PLAN: {} of a core on {}{each}.", share(one.server.bandwidth()), one.on));
    }
    let why = instead(service);
    let keys = match (why, planned.first()) {
        (Some(why), Some(one)) => {
            lines.push(format!("INSTEAD: processor time as the plan gives it: {why}."));
            let server = one.server;
            format!(
                "    promise:\n      supply: \"{}/{}\"\n    server: {}\n",
                server.budget, server.period, server.kind
            )
        }
        _ => text.keys.to_string(),
    };
    let started = |key: &&String| matches!(text_of(key), Left::Pod);
    let pod: Vec<&str> = text.left_out.iter().filter(started).map(String::as_str).collect();
    if !pod.is_empty() {
        lines.push(format!("BY THE POD: {}.", pod.join(", ")));
    }
    for key in text.left_out {
        if let Left::Lost(what) = text_of(key) {
            lines.push(format!("NOT HERE: {key}: {what}."));
        }
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

/// Why the plan's processor time stands for the promise; `None`: a promise of pods says it itself.
fn instead(service: &Service) -> Option<&'static str> {
    match &service.promise {
        Promise::Stage { .. } => return Some("a stage of paths has no promise of its own"),
        Promise::AsIfAlone
        | Promise::EveryDeadline { .. }
        | Promise::Percentiles { .. }
        | Promise::Supply(_)
        | Promise::Leftovers { .. } => {}
    }
    if !service.modes.is_empty() {
        return Some("pods have no modes; this is of the one in which it begins");
    }
    match service.measured {
        Measured::Declared => None,
        Measured::Wanted { .. } | Measured::Observed(_) | Measured::Placeholders => {
            Some("of pods no profiles are measured; this is of the profile here")
        }
    }
}

/// What becomes of a key that promises of pods do not have.
enum Left {
    /// The pod says it.
    Pod,
    /// It is lost; what stands in its place.
    Lost(&'static str),
}

fn text_of(key: &str) -> Left {
    match key {
        "on" => Left::Lost("the scheduler chooses the node; a nodeSelector of the pods binds them to one"),
        "vcpus" => Left::Lost("pods have no virtual CPUs"),
        "network" => Left::Lost("packets of pods are processed as the kernel does it"),
        "modes" | "agent" => Left::Lost("pods have no modes"),
        "adapt" => Left::Lost("what asks for more than planned is not planned anew"),
        "load" => Left::Lost("'giusto run --trial' and 'giusto measure' do not reach pods"),
        _ => Left::Pod,
    }
}

/// A name of Kubernetes (RFC 1123) that is like this one; `empty` where it has no letter or digit.
pub fn rfc1123(name: &str, empty: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(plain).take(63).collect();
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
    }
}
