//! The file of an agent (`formats/agent.md`): which virtual machine or container it is in, where the host's manager waits, and which tasks run in
//! which local mode. Read inside the virtual machine, so it names nothing of the site.

use crate::adopt;
use crate::error::{Fault, SiteError};
use crate::fields::Grammar;
use crate::file::{Form, LARGEST_FILE};
use crate::source::Source;
use crate::start;
use crate::suggest::{did_you_mean, shown};
use crate::tree::{self, Kind, Node};
use crate::value::{self, count, name, parsed, scalar};
use giusto_model::{Listen, STOPPED};
use std::path::{Path, PathBuf};

const FORM: Form =
    Form { what: "an agent's file", example: "sites/agent.yaml", like: "a few lines of YAML", largest: LARGEST_FILE };

pub(crate) const AGENT: Grammar = Grammar {
    what: "an agent's file",
    keys: &["giusto-agent", "service", "manager", "key", "state", "priority", "tasks", "modes"],
    later: &[],
};
pub(crate) const CONTROL: Grammar =
    Grammar { what: "a task", keys: &["start", "pid-file", "cgroup", "systemd", "command"], later: &[] };

const TASKS: &str = "expected tasks by their names, such as tasks: {control: {start: /usr/bin/control}}";
const MODES: &str = "expected local modes by their names, with the tasks of each, such as modes: {cruise: [control], land: [control, vision]}";

/// What an agent has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFile {
    /// The service in the site file that it is the agent of.
    pub service: String,
    /// Where the host's manager waits; a port of vsock is the host's.
    pub manager: Listen,
    /// The file with the key that it shares with the host.
    pub key: PathBuf,
    /// A folder for what a restarted agent has to know. It has to go when the machine goes: on a tmpfs.
    pub state: PathBuf,
    /// The agent's own SCHED_FIFO priority; `None`: as it was started.
    pub priority: Option<u32>,
    /// The tasks, by name, in the order of the file.
    pub tasks: Vec<AgentTask>,
    /// Its local modes in the order of the file, then [`STOPPED`]; at least two.
    pub modes: Vec<AgentMode>,
}

/// A task, and how it is stopped and let go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentTask {
    /// Its name.
    pub name: String,
    /// How.
    pub control: Control,
}

/// How a task is stopped and let go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The agent starts it when a mode first has it, as a process group of its own; then SIGSTOP and SIGCONT to the group.
    Start(Vec<String>),
    /// Another process started it; this file has the id of a process of its process group. SIGSTOP and SIGCONT to the group.
    PidFile(PathBuf),
    /// All processes of this cgroup, by the freezer; its path below the hierarchy's root.
    Cgroup(String),
    /// This unit, by `systemctl start` and `systemctl stop`.
    Systemd(String),
    /// A program that is run with `start` or `stop` as its last word. It has to be content to be told twice.
    Command(Vec<String>),
}

/// A local mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentMode {
    /// Its name, as in the site file.
    pub name: String,
    /// Whether each task runs in it, in the order of [`AgentFile::tasks`].
    pub runs: Vec<bool>,
}

/// Reads an agent's file of at most [`crate::LARGEST_FILE`] bytes.
///
/// # Errors
/// [`SiteError::File`] if it cannot be read, [`SiteError::Text`] for the first thing in it that makes no sense.
pub fn read(path: &Path) -> Result<AgentFile, SiteError> {
    let (name, text) = FORM.read(path)?;
    parse(&name, &text)
}

/// The same from `text`; `name` stands for the file in errors.
///
/// # Errors
/// See [`read()`].
pub fn parse(name: &str, text: &str) -> Result<AgentFile, SiteError> {
    FORM.bounded(name, text.len())?;
    let source = Source::new(name, text);
    file(&source).map_err(|fault| source.error(fault))
}

fn file(source: &Source<'_>) -> Result<AgentFile, Fault> {
    source.check()?;
    let root = tree::read(source)?;
    let fields = AGENT.read(&root, root.span)?;
    let version = fields.need("giusto-agent", "giusto-agent: 1")?;
    if value::text(version, "expected 'giusto-agent: 1'")? != "1" {
        return Err(version.fault("this version is unknown to this Giusto", "expected 'giusto-agent: 1'"));
    }
    let service = fields.need("service", "service: flight")?;
    let service = name(scalar(service, "expected the service's name in the site file")?, "a service")?;
    let manager =
        parsed(fields.need("manager", "manager: unix:/run/giusto/modes")?, "expected where the manager waits")?;
    let key = path(fields.need("key", "key: /etc/giusto/flight.key")?, "/etc/giusto/flight.key")?;
    let state = fields.get("state").map_or(Ok("/run/giusto-agent".into()), |node| path(node, "/run/giusto-agent"))?;
    let tasks = fields.need("tasks", "tasks: {control: {start: /usr/bin/control}}")?;
    let tasks: Vec<AgentTask> = tasks
        .entries()
        .filter(|all| !all.is_empty())
        .ok_or_else(|| tasks.fault(format!("found {} here", tasks.form()), TASKS))?
        .iter()
        .map(|(key, node)| Ok(AgentTask { name: name(key, "a task")?, control: control(node)? }))
        .collect::<Result<_, Fault>>()?;
    let modes = modes(fields.need("modes", "modes: {cruise: [control]}")?, &tasks)?;
    let priority = fields.get("priority").map_or(Ok(Some(98)), priority)?;
    Ok(AgentFile { service, manager, key, state, priority, tasks, modes })
}

fn priority(node: &Node) -> Result<Option<u32>, Fault> {
    let what = "a SCHED_FIFO priority";
    match value::text(node, "expected a SCHED_FIFO priority from 1 to 99, or none")? {
        "none" => Ok(None),
        _ => count(node, what, 1..=99).map(Some),
    }
}

/// An absolute path.
fn path(node: &Node, example: &str) -> Result<PathBuf, Fault> {
    let expected = format!("expected an absolute path, such as {example}");
    match value::text(node, &expected)? {
        text if text.starts_with('/') => Ok(text.into()),
        text => Err(node.fault(format!("'{}' is not an absolute path", shown(text)), expected)),
    }
}

fn control(node: &Node) -> Result<Control, Fault> {
    let fields = CONTROL.read(node, node.span)?;
    let none = "expected {start: /usr/bin/control}, {pid-file: /run/control.pid}, {cgroup: control.slice}, {systemd: control.service} or {command: /usr/local/bin/control}";
    match fields.one_of(CONTROL.keys, none)? {
        ("start", command) => start::read(command).map(Control::Start),
        ("pid-file", file) => path(file, "/run/control.pid").map(Control::PidFile),
        ("cgroup", below) => adopt::cgroup(below).map(Control::Cgroup),
        ("systemd", unit) => adopt::systemd(unit).map(Control::Systemd),
        (_, command) => start::read(command).map(Control::Command),
    }
}

fn modes(node: &Node, tasks: &[AgentTask]) -> Result<Vec<AgentMode>, Fault> {
    let entries = node
        .entries()
        .filter(|all| !all.is_empty())
        .ok_or_else(|| node.fault(format!("found {} here", node.form()), MODES))?;
    let mut modes = Vec::new();
    for (key, value) in entries {
        let name = name(key, "a local mode")?;
        if name == STOPPED {
            return Err(Fault::new(
                key.span,
                format!("'{STOPPED}' is there by itself"),
                "leave it out: no task runs in it",
            ));
        }
        modes.push(AgentMode { name, runs: runs(value, tasks)? });
    }
    modes.push(AgentMode { name: STOPPED.into(), runs: vec![false; tasks.len()] });
    Ok(modes)
}

fn runs(node: &Node, tasks: &[AgentTask]) -> Result<Vec<bool>, Fault> {
    let Kind::List(items) = &node.kind else { return Err(node.fault(format!("found {} here", node.form()), MODES)) };
    let mut runs = vec![false; tasks.len()];
    for item in items {
        let text = &scalar(item, MODES)?.text;
        let names = || tasks.iter().map(|task| task.name.as_str());
        let Some(place) = names().position(|name| name == text) else {
            let expected = format!("expected one of {}", names().collect::<Vec<_>>().join(", "));
            return Err(item.fault(
                format!("'{}' is not a task of this file", shown(text)),
                expected + &did_you_mean(text, names()),
            ));
        };
        runs[place] = true;
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../formats/agent.md");

    #[test]
    fn the_page_has_a_row_for_every_key_and_its_example_is_a_file() {
        for key in AGENT.keys.iter().chain(CONTROL.keys) {
            assert!(PAGE.contains(&format!("\n| `{key}` |")), "{key}");
        }
        let example = PAGE.split("```").find_map(|part| part.strip_prefix("yaml\n")).expect("an example");
        let file = parse("formats/agent.md", example).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(file.modes.iter().map(|mode| mode.name.as_str()).collect::<Vec<_>>(), ["cruise", "land", "stopped"]);
        assert_eq!(file.modes[2].runs, [false; 3]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let good = "giusto-agent: 1\nservice: a\nmanager: vsock:7\nkey: /k\ntasks: {t: {start: x}}\nmodes: {m: [t]}\n";
        assert_eq!(parse("f", good).unwrap().priority, Some(98));
        for (from, to, found) in [
            ("agent: 1", "agent: 2", "this version is unknown"),
            ("service: a", "service: -a", "'-a' is not a name"),
            ("vsock:7", "udp:7", "no place to wait"),
            ("key: /k", "key: k", "'k' is not an absolute path"),
            ("key: /k\n", "", "needs 'key'"),
            ("{start: x}", "{start: x, command: y}", "not both"),
            ("{t: {start: x}}", "{}", "tasks by their names"),
            ("[t]", "[u]", "'u' is not a task"),
            ("m: [t]", "stopped: [t]", "there by itself"),
            ("m: [t]", "m: t", "local modes by their names"),
            ("modes", "mods", "did you mean"),
            ("giusto", "priority: 0\ngiusto", "'0' is not a SCHED_FIFO priority"),
        ] {
            let error = parse("f", &good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(found) && error.starts_with("f:"), "{to}: {error}");
        }
    }
}
