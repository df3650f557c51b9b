//! A configuration of rt-app (its doc/tutorial.txt, "tasks object"): JSON in which comments are allowed and keys may come twice.
//!
//! A task that runs and then waits for a timer is a periodic task: its events in us, the period of the timer. `run` is counted in
//! loops that take so long on the processor on which rt-app calibrated them, so it is a nominal time; `runtime` is a real one. What
//! depends on other threads, or does different things in turn, is no such task and is refused.

use crate::Error;
use giusto_model::Duration;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A periodic task of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigTask {
    /// Its name.
    pub name: String,
    /// How long it runs in every period.
    pub wcet: Duration,
    /// The period of its timer.
    pub period: Duration,
    /// When it starts.
    pub offset: Duration,
    /// How many threads of it there are.
    pub copies: u32,
}

/// Says nothing about when and how long a thread runs.
const NO_MATTER: [&str; 13] = [
    "loop",
    "policy",
    "priority",
    "cpus",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "util_min",
    "util_max",
    "taskgroup",
    "nodes_membind",
    "instance",
    "delay",
];
/// The longest time, an hour in us.
const LONGEST: u64 = 3_600_000_000;
/// Most threads of one task, as a site has it.
const MOST: u64 = 10_000;

/// Reads the tasks of a configuration.
///
/// # Errors
/// [`Error::Config`] if it is none, [`Error::Task`] for the first task that is not periodic. O(size).
pub fn read_config(text: &str) -> Result<Vec<ConfigTask>, Error> {
    let json = without_comments(text.trim_start_matches('\u{feff}'));
    let root: Value = serde_json::from_str(&json).map_err(|why| Error::Config(why.to_string()))?;
    let tasks =
        root.get("tasks").and_then(Value::pairs).ok_or_else(|| Error::Config("there is no 'tasks' in it".into()))?;
    let mut all = Vec::new();
    for (name, value) in tasks {
        let refused = |why: String| Error::Task { task: name.clone(), why };
        let keys = value.pairs().ok_or_else(|| refused("it is no object".into()))?;
        all.extend(task(name, keys).map_err(refused)?);
    }
    if all.is_empty() {
        return Err(Error::Config("no task in it has a thread".into()));
    }
    Ok(all)
}

/// `None` if no thread of it is started.
fn task(name: &str, keys: &[(String, Value)]) -> Result<Option<ConfigTask>, String> {
    let number = |key: &str, otherwise: u64| match keys.iter().find(|(name, _)| name == key) {
        Some((_, value)) => value.number().ok_or_else(|| format!("'{key}' is no whole number up to {LONGEST}")),
        None => Ok(otherwise),
    };
    let copies = number("instance", 1)?;
    let delay = number("delay", 0)?;
    let events = match keys.iter().find(|(key, _)| key == "phases") {
        None => keys,
        Some((_, phases)) => match phases.pairs() {
            Some([(_, only)]) => only.pairs().ok_or("its phase is no object")?,
            Some(several) => return Err(format!("it has {} phases, and a task of a site does the same in every period; import each as a task of its own, or see 'modes' in formats/site.md", several.len())),
            None => return Err("'phases' is no object".into()),
        },
    };
    let (mut wcet, mut period) = (0, None);
    for (key, value) in events {
        match key.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "run" | "runtime" => {
                wcet += value.number().ok_or_else(|| format!("'{key}' is no whole number of us up to {LONGEST}"))?;
            }
            "timer" => {
                let us = value.get("period").and_then(Value::number).filter(|us| *us > 0);
                let us = us.ok_or_else(|| format!("'{key}' has no period in us, more than 0 and up to {LONGEST}"))?;
                if period.replace(us).is_some() {
                    return Err("it has two timers; expected one, whose period is the task's".into());
                }
            }
            "phases" => {}
            "sleep" => {
                return Err(format!(
                    "'{key}' waits from when the work is done, so there is no period; expected a timer"
                ))
            }
            other if NO_MATTER.contains(&other) => {}
            _ => return Err(format!("'{key}' is not what a periodic task does; expected run, runtime and one timer")),
        }
    }
    let period = period.ok_or("it has no timer, so there is no period")?;
    if !(1..=LONGEST).contains(&wcet) {
        return Err(format!("it runs for {wcet} us in a period; expected more than 0, and up to {LONGEST}"));
    }
    if wcet > period {
        return Err(format!("it runs for {wcet} us in a period of {period} us; expected no more than the period"));
    }
    let most = format!("'instance' is {copies}; expected up to {MOST}");
    let copies = u32::try_from(copies).ok().filter(|_| copies <= MOST).ok_or(most)?;
    let [wcet, period, offset] = [wcet, period, delay].map(Duration::from_us);
    Ok((copies > 0).then(|| ConfigTask { name: name.into(), wcet, period, offset, copies }))
}

/// The text with blanks for `/* */` and `//` outside of strings.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut quoted = false;
    while let Some(c) = rest.chars().next() {
        let comment = match (quoted, rest.strip_prefix("/*")) {
            (false, Some(inside)) => Some(inside.find("*/").map_or(rest.len(), |end| end + 4)),
            (false, None) if rest.starts_with("//") => Some(rest.find('\n').unwrap_or(rest.len())),
            _ => None,
        };
        if let Some(length) = comment {
            // Lines stay where they are, for the messages.
            out.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[length..];
            continue;
        }
        let length = match c {
            '\\' if quoted => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => c.len_utf8(),
        };
        quoted ^= c == '"';
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

/// As much of JSON as matters, with keys in their order and as often as they come.
#[derive(Debug)]
enum Value {
    Number(u64),
    Pairs(Vec<(String, Value)>),
    Other,
}

impl Value {
    fn pairs(&self) -> Option<&[(String, Value)]> {
        match self {
            Value::Pairs(pairs) => Some(pairs),
            _ => None,
        }
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.pairs()?.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    fn number(&self) -> Option<u64> {
        match self {
            Value::Number(number) => Some(*number).filter(|number| *number <= LONGEST),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number))
    }
    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Other)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Other)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Other)
    }
    fn visit_str<E>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Other)
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Other)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        while items.next_element::<Value>()?.is_some() {}
        Ok(Value::Other)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Value::Pairs(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(task: &str) -> String {
        read_config(&format!("{{\"tasks\": {{\"a\": {task}}}}}")).unwrap_err().to_string()
    }

    #[test]
    fn tasks_with_a_timer_are_periodic_in_either_form() {
        let text = r#"{
            /* "tasks": {"not": 1} */
            "tasks": { // two of them
                "first //": {"instance": 3, "loop": -1, "run": 2000, "run": 500, "delay": 100, "cpus": [1, 2],
                             "timer0": {"ref": "unique", "period": 10000, "mode": "absolute"}},
                "second": {"policy": "SCHED_FIFO", "phases": {"p": {"runtime1": 7, "timer": {"ref": "x", "period": 90}}}},
                "none": {"instance": 0, "run": 1, "timer": {"ref": "y", "period": 9}}
            },
            "global": {"duration": 2, "pi_enabled": false, "x": 1.5, "calibration": "CPU0", "n": null}
        }"#;
        let us = Duration::from_us;
        let task = |name: &str, wcet, period, offset, copies| ConfigTask {
            name: name.into(),
            wcet: us(wcet),
            period: us(period),
            offset: us(offset),
            copies,
        };
        assert_eq!(read_config(text).unwrap(), [task("first //", 2500, 10_000, 100, 3), task("second", 7, 90, 0, 1)]);
    }

    #[test]
    fn what_is_not_periodic_is_refused_with_the_reason() {
        for (task, word) in [
            (r#"{"run": 1}"#, "no timer"),
            (r#"{"timer": {"ref": "a", "period": 5}}"#, "runs for 0 us"),
            (r#"{"run": 1, "sleep": 5}"#, "'sleep' waits"),
            (r#"{"run": 1, "timer0": {"period": 5}, "timer1": {"period": 5}}"#, "two timers"),
            (r#"{"run": 1, "timer": {"period": 0}}"#, "no period"),
            (r#"{"run": 6, "timer": {"period": 5}}"#, "no more than the period"),
            (r#"{"instance": 10001, "run": 1, "timer": {"period": 5}}"#, "'instance' is 10001"),
            (r#"{"run": -1, "timer": {"period": 5}}"#, "'run' is no whole number"),
            (r#"{"run": 1, "lock": "m", "timer": {"period": 5}}"#, "'lock' is not"),
            (r#"{"phases": {"a": {}, "b": {}}}"#, "2 phases"),
            ("7", "no object"),
        ] {
            assert!(refused(task).contains(word) && refused(task).contains("'a'"), "{task}: {}", refused(task));
        }
        for text in ["", "{", "[]", "{\"task\": {}}", "{\"tasks\": 3}", "{\"tasks\": {}}", "/* never ends"] {
            assert!(matches!(read_config(text), Err(Error::Config(_))), "{text}");
        }
    }
}
