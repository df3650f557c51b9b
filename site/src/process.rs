//! How a service is run: `restart`, `essential`, `user`, `group`, `limits`, `environment`, `directory`,
//! `after-end` and `end-within`.

use crate::error::Fault;
use crate::fields::Fields;
use crate::start;
use crate::suggest::{did_you_mean, shown};
use crate::tree::{Kind, Node};
use crate::value::{duration, scalar, text};
use giusto_model::{Duration, Limit, Origin, Process, Restart};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// For what Giusto starts; one that is adopted has them already.
pub(crate) const STARTED: [&str; 8] =
    ["restart", "user", "group", "limits", "environment", "directory", "after-end", "end-within"];
const TRUTH: &str = "expected essential: yes (its end ends everything, with exit code 4) or no";
const LIMITS: &str = "expected limits by their names, such as limits: {memory: 512M, tasks: 64, nofile: 1024}";
const BYTES: &str = "expected bytes, such as 512M or 4096 (K, M, G and T are powers of 1024), or unlimited";
const COUNT: &str = "expected a whole number above 0, such as 64, or unlimited";
const VARIABLES: &str = "expected variables by their names, such as environment: {LANG: C.UTF-8}";

/// Reads how a service of this origin is run; files are named from `base` on.
pub(crate) fn read(fields: &Fields<'_>, origin: &Origin, base: &Path) -> Result<Process, Fault> {
    if let Origin::Adopt(_) = origin {
        for key in STARTED {
            let found = format!("'{key}' does not go with 'adopt': giusto did not start it");
            fields.forbid(key, &found, "leave it out, or set it where the service is started")?;
        }
    }
    let essential = fields.get("essential").map_or(Ok(false), truth)?;
    let restart = match fields.get("restart") {
        None if essential => Restart::Never,
        None => Restart::default(),
        Some(node) => restart(node)?,
    };
    if essential && restart != Restart::Never && fields.get("restart").is_some() {
        let found = format!("'restart: {restart}' does not go with 'essential: yes', as its end ends everything");
        return Err(Fault::new(fields.place("restart"), found, "leave one of the two out"));
    }
    if essential {
        let found = "'after-end' does not go with 'essential: yes', as its end ends everything";
        fields.forbid("after-end", found, "leave one of the two out")?;
    }
    Ok(Process {
        restart: if essential { Restart::Never } else { restart },
        essential,
        user: fields.get("user").map(|node| account(node, "user")).transpose()?,
        group: fields.get("group").map(|node| account(node, "group")).transpose()?,
        limits: fields.get("limits").map_or(Ok(BTreeMap::new()), limits)?,
        environment: fields.get("environment").map_or(Ok(BTreeMap::new()), environment)?,
        directory: fields.get("directory").map(|node| directory(node, base)).transpose()?,
        after_end: fields.get("after-end").map_or(Ok(Vec::new()), start::read)?,
        end_within: fields.get("end-within").map(end_within).transpose()?,
    })
}

fn end_within(node: &Node) -> Result<Duration, Fault> {
    let within = duration(node)?;
    if within.is_zero() || within > Process::LONGEST_END {
        let expected = format!(
            "expected how long it may take to end after SIGTERM, above 0 and at most {}, such as end-within: 8s",
            Process::LONGEST_END
        );
        return Err(node.fault(format!("{within} is not how long an end may take"), expected));
    }
    Ok(within)
}

fn truth(node: &Node) -> Result<bool, Fault> {
    match &node.kind {
        // Here a truth value is what is meant.
        Kind::Text(text) if text.text == "yes" => Ok(true),
        Kind::Text(text) if text.text == "no" => Ok(false),
        _ => {
            let other = &scalar(node, TRUTH)?.text;
            Err(node.fault(format!("'{}' is neither yes nor no", shown(other)), TRUTH))
        }
    }
}

fn restart(node: &Node) -> Result<Restart, Fault> {
    let names: Vec<String> = Restart::ALL.iter().map(Restart::to_string).collect();
    let expected = format!("expected when it is started again: one of {}", names.join(", "));
    // What systemd calls it.
    let word = match &node.kind {
        Kind::Text(text) if text.text == "no" => "no",
        _ => text(node, &expected)?,
    };
    let found = Restart::ALL.into_iter().find(|one| one.to_string() == word);
    found.ok_or_else(|| {
        let near = match word {
            "no" => "; did you mean 'never'?".into(),
            word => did_you_mean(word, names.iter().map(String::as_str)),
        };
        node.fault(format!("'{}' says nothing about restarts", shown(word)), expected + &near)
    })
}

/// A name of the account database, or a number.
fn account(node: &Node, what: &str) -> Result<String, Fault> {
    let expected = format!("expected the name or the number of a {what}, such as {what}: redis");
    let name = text(node, &expected)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.$@".contains(c);
    if name.is_empty() || name.len() > 64 || name.starts_with('-') || !name.chars().all(allowed) {
        return Err(node.fault(format!("'{}' is not the name of a {what}", shown(name)), expected));
    }
    Ok(name.to_string())
}

fn limits(node: &Node) -> Result<BTreeMap<Limit, u64>, Fault> {
    let entries = node.entries().ok_or_else(|| node.fault(format!("found {} here", node.form()), LIMITS))?;
    let names: Vec<String> = Limit::ALL.iter().map(Limit::to_string).collect();
    let mut found = BTreeMap::new();
    for (key, value) in entries {
        let Some(limit) = Limit::ALL.into_iter().find(|limit| limit.to_string() == key.text) else {
            let expected = format!("expected one of {}", names.join(", "));
            let near = did_you_mean(&key.text, names.iter().map(String::as_str));
            return Err(Fault::new(key.span, format!("'{}' is not a limit", shown(&key.text)), expected + &near));
        };
        found.insert(limit, amount(value, limit)?);
    }
    Ok(found)
}

fn amount(node: &Node, limit: Limit) -> Result<u64, Fault> {
    let expected = if limit.is_bytes() { BYTES } else { COUNT };
    let text = text(node, expected)?;
    if text == "unlimited" {
        return Ok(u64::MAX);
    }
    let unit = text.chars().last().and_then(|last| "KMGT".find(last)).filter(|_| limit.is_bytes());
    let digits = unit.map_or(text, |_| &text[..text.len() - 1]);
    let number = Some(digits).filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
    let number = number.and_then(|digits| digits.parse::<u64>().ok());
    let value = number.and_then(|number| number.checked_mul(1 << (unit.map_or(0, |unit| 10 * (unit + 1)))));
    // A service without a task, or without memory, is none; no core file is a wish.
    value
        .filter(|&value| value > 0 || limit == Limit::Core)
        .ok_or_else(|| node.fault(format!("'{}' is not an amount of '{limit}'", shown(text)), expected))
}

fn environment(node: &Node) -> Result<BTreeMap<String, String>, Fault> {
    let entries = node.entries().ok_or_else(|| node.fault(format!("found {} here", node.form()), VARIABLES))?;
    let mut found = BTreeMap::new();
    for (key, value) in entries {
        let name = &key.text;
        let letter = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || !name.bytes().all(letter) || name.as_bytes()[0].is_ascii_digit() {
            return Err(Fault::new(key.span, format!("'{}' is not the name of a variable", shown(name)), VARIABLES));
        }
        let value = match &value.kind {
            Kind::Empty => String::new(),
            _ => text(value, "expected a text; a word such as yes, no, on or off in quotes")?.to_string(),
        };
        found.insert(name.clone(), value);
    }
    Ok(found)
}

fn directory(node: &Node, base: &Path) -> Result<PathBuf, Fault> {
    let expected = "expected the folder where it begins, such as directory: /var/lib/search";
    let path = text(node, expected)?;
    if path.is_empty() || path.contains(char::is_control) {
        return Err(node.fault(format!("'{}' is not a folder", shown(path)), expected));
    }
    Ok(base.join(path))
}

#[cfg(test)]
mod tests {
    use giusto_model::{Duration, Limit, Process, Restart, Service};

    fn service(rest: &str) -> Result<Service, String> {
        let text = format!("giusto: 1\nhosts: {{a: {{cores: 0}}}}\nservices:\n  x: {{{rest}, promise: leftovers}}\n");
        crate::parse("/etc/site.yaml", &text).map(|site| site.services[0].clone()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_systemd_can_say_of_a_service_is_read() {
        let all = "start: make, restart: always, user: nobody, group: '65534', directory: work, \
                   after-end: tell --all 'it is gone', end-within: 8s, \
                   limits: {memory: 512M, tasks: 64, nofile: 1024, core: 0, as: unlimited}, \
                   environment: {LANG: C.UTF-8, EMPTY: '', GIVEN: 'yes'}";
        let process = service(all).unwrap().process;
        assert_eq!((process.restart, process.essential), (Restart::Always, false));
        assert_eq!((process.user.as_deref(), process.group.as_deref()), (Some("nobody"), Some("65534")));
        let of = |limit| process.limits.get(&limit).copied();
        assert_eq!((of(Limit::Memory), of(Limit::Tasks)), (Some(512 << 20), Some(64)));
        assert_eq!((of(Limit::Core), of(Limit::As), of(Limit::Stack)), (Some(0), Some(u64::MAX), None));
        assert_eq!(process.environment["GIVEN"], "yes");
        assert_eq!(process.directory.as_deref(), Some(std::path::Path::new("/etc/work")));
        assert_eq!(process.after_end, ["tell", "--all", "it is gone"]);
        assert_eq!(process.end_within(), Duration::from_secs(8));
        assert!(service("start: make").unwrap().process.is_default());
        assert_eq!(service("start: make").unwrap().process.end_within(), Process::END);
        let last = service("start: make, essential: yes").unwrap().process;
        assert_eq!((last.restart, last.essential), (Restart::Never, true));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_do() {
        for (rest, expected) in [
            ("start: make, restart: no", "did you mean 'never'?"),
            ("start: make, restart: allways", "did you mean 'always'?"),
            ("start: make, restart: always, essential: yes", "leave one of the two out"),
            ("start: make, essential: perhaps", "neither yes nor no"),
            ("adopt: {pid: 77}, user: nobody", "does not go with 'adopt'"),
            ("adopt: {pid: 77}, restart: always", "does not go with 'adopt'"),
            ("start: make, limits: {memroy: 1G}", "did you mean 'memory'?"),
            ("start: make, limits: {memory: 1X}", "expected bytes"),
            ("start: make, limits: {tasks: 4K}", "expected a whole number"),
            ("start: make, limits: {tasks: 0}", "expected a whole number"),
            ("start: make, limits: {memory: 99999999999999999999T}", "expected bytes"),
            ("start: make, environment: {A-B: c}", "not the name of a variable"),
            ("start: make, environment: {A: yes}", "in quotes"),
            ("start: make, after-end: []", "there is no program to start"),
            ("start: make, after-end: ''", "there is no program to start"),
            ("start: make, after-end: {a: b}", "expected a program and its arguments"),
            ("start: make, after-end: [sh, [a]]", "expected a program and its arguments"),
            ("start: make, after-end: 'a | b'", "a shell would interpret '|'"),
            ("start: make, afterend: tell", "did you mean 'after-end'?"),
            ("start: make, essential: yes, after-end: tell", "leave one of the two out"),
            ("adopt: {pid: 77}, after-end: tell", "does not go with 'adopt'"),
            ("start: make, end-within: 0s", "above 0 and at most 10 s"),
            ("start: make, end-within: 11s", "above 0 and at most 10 s"),
            ("start: make, end-within: 5", "has no unit"),
            ("adopt: {pid: 77}, end-within: 5s", "does not go with 'adopt'"),
            ("start: make, user: 'a b'", "not the name of a user"),
        ] {
            let error = service(rest).unwrap_err();
            assert!(error.contains(expected), "{rest}: {error}");
        }
    }
}
