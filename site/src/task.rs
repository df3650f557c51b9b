//! `tasks:` of a service.

use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::suggest::did_you_mean;
use crate::tree::{Kind, Node};
use crate::value::{count, duration, name, scalar, shown};
use giusto_model::{Duration, Release, Task, TaskError};

/// Most copies of one task.
const COPIES: u32 = 10_000;

pub(crate) const TASK: Grammar = Grammar {
    what: "a task",
    keys: &["name", "wcet", "period", "deadline", "offset", "release", "copies", "vcpu", "worst-wcet"],
    later: &[],
};
const TASKS: &str = "expected a list of one task or more, such as [{wcet: 50us, period: 1ms}]";

/// A task, and where it says on which virtual CPU it is.
pub(crate) struct Placed<'a> {
    pub(crate) task: Task,
    pub(crate) vcpu: Option<&'a Node>,
}

/// Reads one task or more; names are unique within the list.
pub(crate) fn read_all(node: &Node) -> Result<Vec<Placed<'_>>, Fault> {
    let Kind::List(items) = &node.kind else {
        return Err(node.fault(format!("found {} here", node.form()), TASKS));
    };
    if items.is_empty() {
        return Err(node.fault("there is no task in this list", TASKS));
    }
    let mut tasks = Vec::new();
    let mut names = std::collections::HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let fields = TASK.read(item, item.span)?;
        let task = task(&fields, index + 1)?;
        if !names.insert(task.name.clone()) {
            let at = fields.get("name").unwrap_or(item);
            let found = format!("another task of this service is named '{}'", task.name);
            return Err(at.fault(found, "expected different names; a task without one is named after its place: task1"));
        }
        tasks.push(Placed { task, vcpu: fields.get("vcpu") });
    }
    Ok(tasks)
}

/// As [`read_all`], for a promise that knows no virtual CPUs.
pub(crate) fn read_unplaced(node: &Node) -> Result<Vec<Task>, Fault> {
    let unplaced = |Placed { task, vcpu }: Placed<'_>| match vcpu {
        None => Ok(task),
        Some(vcpu) => Err(vcpu.fault("'vcpu' goes with 'promise: every-deadline' only", "leave it out")),
    };
    read_all(node)?.into_iter().map(unplaced).collect()
}

fn task(fields: &Fields<'_>, number: usize) -> Result<Task, Fault> {
    let wcet = fields.need("wcet", "wcet: 50us")?;
    let period = fields.need("period", "period: 1ms")?;
    let (deadline, copies) = (fields.get("deadline"), fields.get("copies"));
    let offset = fields.get("offset").map(duration).transpose()?;
    let name = fields.get("name").map(|node| name(scalar(node, "expected a name")?, "a task")).transpose()?;
    let full = duration(period)?;
    let task = Task {
        name: name.unwrap_or_else(|| format!("task{number}")),
        wcet: duration(wcet)?,
        period: full,
        deadline: deadline.map_or(Ok(full), duration)?,
        offset: offset.unwrap_or(Duration::ZERO),
        release: release(fields.get("release"), offset.is_some())?,
        copies: copies.map_or(Ok(1), |node| count(node, "a number of copies", 1..=COPIES))?,
    };
    task.validate().map_err(|error| {
        let (at, expected) = match &error {
            TaskError::NoPeriod => (period, "expected a period such as 1ms"),
            TaskError::LateDeadline { .. } => (deadline.unwrap_or(period), "expected wcet <= deadline <= period"),
            TaskError::TooLong { .. } => (wcet, "expected wcet <= deadline <= period; is a unit wrong?"),
            TaskError::NoCopies => (copies.unwrap_or(wcet), "expected copies: 1 or more"),
            TaskError::NoWork | TaskError::Malformed(_) | TaskError::Time(_) => (wcet, "expected a wcet such as 50us"),
        };
        at.fault(error.to_string(), expected)
    })?;
    Ok(task)
}

/// A written offset is one that is kept, unless `release` says otherwise.
fn release(node: Option<&Node>, has_offset: bool) -> Result<Release, Fault> {
    let Some(node) = node else {
        return Ok(if has_offset { Release::KeptOffset } else { Release::Sporadic });
    };
    let expected = "expected kept-offset (strictly periodic from the offset on) or sporadic (at least a period apart)";
    match scalar(node, expected)?.text.as_str() {
        "kept-offset" => Ok(Release::KeptOffset),
        "sporadic" => Ok(Release::Sporadic),
        other => {
            let near = did_you_mean(other, ["kept-offset", "sporadic"]);
            Err(node.fault(format!("'{}' is not a kind of release", shown(other)), format!("{expected}{near}")))
        }
    }
}
