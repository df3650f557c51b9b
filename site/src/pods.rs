//! The keys of a service that a promise of pods has too (docs/kubernetes.md).

use crate::adopting::{emit, entry};
use crate::error::SiteError;
use crate::source::Source;
use crate::tree::{self, Kind, Node, Text};

/// As `Service` of kubernetes/api, in the order of the site's keys.
const KEPT: [&str; 14] = [
    "promise",
    "tasks",
    "arrivals",
    "execution",
    "scheduler",
    "at-least",
    "at-most",
    "margin",
    "server",
    "cap",
    "criticality",
    "copies",
    "threads",
    "observe",
];
/// Whole numbers there; all else is a text.
const NUMBERS: [&str; 2] = ["copies", "batch"];

/// What of a service a promise of pods says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodKeys {
    /// The service.
    pub service: String,
    /// Each of its keys with its YAML, whose lines are indented by `    `.
    pub keys: Vec<(String, String)>,
    /// The keys that are not among them.
    pub left_out: Vec<String>,
}

/// The keys of all services of the site in `text`, called `name`, in their order. O(n).
///
/// # Errors
/// `text` is not YAML of the kind that sites are.
pub fn pod_keys(name: &str, text: &str) -> Result<Vec<PodKeys>, SiteError> {
    let source = Source::new(name, text);
    let mut root = tree::read(&source).map_err(|fault| source.error(fault))?;
    let Some(Node { kind: Kind::Map(services), .. }) = entry(&mut root, "services") else { return Ok(Vec::new()) };
    Ok(services.iter_mut().map(|(service, node)| of(service, node)).collect())
}

fn of(service: &Text, node: &mut Node) -> PodKeys {
    let (mut keys, mut left_out) = (Vec::new(), Vec::new());
    if let Kind::Map(entries) = &mut node.kind {
        for (key, mut value) in entries.drain(..) {
            let name = key.text.clone();
            if !KEPT.contains(&name.as_str()) {
                left_out.push(name);
                continue;
            }
            as_text(&mut value, NUMBERS.contains(&name.as_str()));
            let (mut text, span) = (String::new(), value.span);
            // Depth 2 is that of spec.service.
            emit(&Node { span, kind: Kind::Map(vec![(key, value)]) }, 2, &mut text);
            keys.push((name, text.trim_start_matches('\n').into()));
        }
    }
    PodKeys { service: service.text.clone(), keys, left_out }
}

/// Kubernetes reads a bare `1` or `on` where a text is meant as a number or a truth value.
fn as_text(node: &mut Node, is_number: bool) {
    match &mut node.kind {
        Kind::Empty => {}
        Kind::Text(text) => text.bare = is_number,
        Kind::List(items) => items.iter_mut().for_each(|item| as_text(item, false)),
        Kind::Map(entries) => {
            for (key, value) in entries {
                as_text(value, NUMBERS.contains(&key.text.as_str()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_texts_and_what_pods_have_by_themselves_is_told() {
        let text = "services:\n  cache:\n    start: redis-server\n    on: edge-1\n    promise: as-if-alone\n    copies: '2'\n    \
                    threads: 1\n    tasks: [{name: 1, wcet: 200us, period: 2ms, copies: 3}]\n  batch: {adopt: {pid: 2}, promise: \
                    leftovers}\n";
        let all = pod_keys("site.yaml", text).unwrap();
        assert_eq!(all[0].left_out, ["start", "on"]);
        let texts: Vec<&str> = all[0].keys.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "    promise: \"as-if-alone\"\n",
                "    copies: 2\n",
                "    threads: \"1\"\n",
                "    tasks:\n      -\n        name: \"1\"\n        wcet: \"200us\"\n        period: \"2ms\"\n        copies: 3\n",
            ]
        );
        assert_eq!(all[1].keys, [("promise".to_string(), "    promise: \"leftovers\"\n".to_string())]);
        assert!(pod_keys("site.yaml", "services: [").is_err());
        assert_eq!(pod_keys("site.yaml", "giusto: 1").unwrap(), []);
    }
}
