//! What differs between a site and a plan.

use super::super::broken::Broken;
use serde::Serialize;
use serde_json::Value;

/// Whether the plan says the same of `whose` as the site; else the first field that differs, by its path in a plan.
pub(super) fn same<T: PartialEq + Serialize>(whose: &str, what: &str, site: &T, plan: &T) -> Result<(), Broken> {
    if site == plan {
        return Ok(());
    }
    let value = |one: &T| serde_json::to_value(one).unwrap_or_default();
    let (path, site, plan) = difference(value(site), value(plan));
    Err(Broken::new(format!("{whose}{path}: {what}, as in the site"), shown(&site), shown(&plan)))
}

/// The path to what differs, and it on both sides.
fn difference(site: Value, plan: Value) -> (String, Value, Value) {
    let deeper = match (&site, &plan) {
        (Value::Object(own), Value::Object(other)) if own.keys().eq(other.keys()) => {
            own.keys().find(|key| own[*key] != other[*key]).map(|key| (format!(".{key}"), &own[key], &other[key]))
        }
        (Value::Array(own), Value::Array(other)) if own.len() == other.len() => {
            let at = (0..own.len()).find(|&at| own[at] != other[at]);
            at.map(|at| (format!("[{at}]"), &own[at], &other[at]))
        }
        _ => None,
    };
    match deeper {
        Some((step, own, other)) => {
            let (path, site, plan) = difference(own.clone(), other.clone());
            (step + &path, site, plan)
        }
        None => (String::new(), site, plan),
    }
}

/// In one line, cut where it is long.
pub(super) fn shown(one: &impl Serialize) -> String {
    let text = serde_json::to_string(one).unwrap_or_default();
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_that_differs_is_named() {
        let told = |site: &[(&str, Vec<u64>)], plan: &[(&str, Vec<u64>)]| {
            same("tasks", "what it runs", &site.to_vec(), &plan.to_vec()).unwrap_err().to_string()
        };
        let (a, b) = (("a", vec![1, 2]), ("b", vec![3]));
        assert_eq!(
            told(&[a.clone(), b.clone()], &[a.clone(), ("b", vec![4])]),
            "the plan: tasks[1][1][0]: what it runs, as in the site: needed 3, found 4"
        );
        assert_eq!(
            told(&[a.clone(), b], &[a]),
            "the plan: tasks: what it runs, as in the site: needed [[\"a\",[1,2]],[\"b\",[3]]], found [[\"a\",[1,2]]]"
        );
    }
}
