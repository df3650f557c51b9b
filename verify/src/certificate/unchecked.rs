//! What of a plan no check looks at, with the reasons.

use giusto_model::Plan;
use serde::Serialize;

/// Numbers or words of a plan that could be anything, and the check would say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unchecked {
    /// Where they are: a part of a path in plan.json, such as `services[].prediction`; also all that is below it.
    pub leaf: &'static str,
    /// Why they are not checked.
    pub why: &'static str,
}

const fn leaf(leaf: &'static str, why: &'static str) -> Unchecked {
    Unchecked { leaf, why }
}

const MACHINE: &str = "what the machine was when the plan was made; 'giusto run' compares it with the machine it is on";
const COMPUTED: &str =
    "how the planner computed the prediction; the prediction itself is computed again by another method";

/// All of them.
const UNCHECKED: [Unchecked; 17] = [
    leaf("reasons", "words for people; no number is taken from them"),
    leaf("services[].prediction", "simulated with the worst execution times; no promise rests on it"),
    leaf("basis.giusto", "the release that made the plan; 'giusto run' compares it with its own"),
    leaf("basis.site.file", "where the site file was; its SHA-256 is what binds"),
    leaf("basis.machines[].tick_ns", MACHINE),
    leaf("basis.machines[].deadline_period_min_ns", MACHINE),
    leaf("basis.machines[].deadline_period_max_ns", MACHINE),
    leaf("basis.machines[].deadline_bandwidth_cap", MACHINE),
    leaf("hosts[].assumed", "words: what was assumed of a host that was not looked at"),
    leaf(
        "hosts[].latency",
        "a measurement; that its parts agree and that every certificate allows for it is checked, what was measured is not",
    ),
    leaf("certificate.percentiles.slots", COMPUTED),
    leaf("certificate.percentiles.error_ppm", COMPUTED),
    leaf("certificate.percentiles.predicted[].expected_ns", "what to expect if every request takes the mean: no bound"),
    leaf("certificate.as-if-alone.from_ns", "a window with most work; that none has more is computed for all of them"),
    leaf("paths[].every.parts_ns", "the delay of each stage by itself; that of all of them together is computed again"),
    leaf("modes[].static_cost", "what modes save; no promise rests on it"),
    leaf(
        "modes[].modes[].bound_ns",
        "how long a change takes: compared with what was promised, but what signalling and agents take is not computed \
         again",
    ),
];

/// The entry that covers the leaf at `path`, in which places in lists are written `[]`.
pub fn unchecked(path: &str) -> Option<Unchecked> {
    let mut all = UNCHECKED.into_iter();
    all.find(|one| {
        path.match_indices(one.leaf).any(|(at, leaf)| {
            let (before, after) = (&path[..at], &path[at + leaf.len()..]);
            (before.is_empty() || before.ends_with('.')) && (after.is_empty() || after.starts_with(['.', '[']))
        })
    })
}

/// Those that occur in `plan`. O(plan).
pub fn unchecked_in(plan: &Plan) -> Vec<Unchecked> {
    let mut found = Vec::new();
    if let Ok(value) = serde_json::to_value(plan) {
        walk("", &value, &mut found);
    }
    found
}

fn walk(path: &str, value: &serde_json::Value, found: &mut Vec<Unchecked>) {
    match (unchecked(path), value) {
        (_, serde_json::Value::Null) => {}
        (Some(one), _) if found.contains(&one) => {}
        (Some(one), _) => found.push(one),
        (None, serde_json::Value::Object(parts)) => {
            for (key, part) in parts {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                walk(&path, part, found);
            }
        }
        (None, serde_json::Value::Array(parts)) => {
            parts.iter().for_each(|part| walk(&format!("{path}[]"), part, found));
        }
        _ => {}
    }
}
