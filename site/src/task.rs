//! `tasks:` of a service.

use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::suggest::{did_you_mean, shown};
use crate::tree::{Kind, Node};
use crate::value::{count, duration, name, scalar, share};
use giusto_model::{Bandwidth, Duration, Measured, Release, Task, TaskError};

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
    /// `wcet: measured`, and the share of a core that its period is to make of it.
    pub(crate) measured: Option<(&'a Node, Option<Bandwidth>)>,
}

/// What stands in the place of execution times that are to be measured: a tenth of a core, or the share that is to be made.
const PLACEHOLDER: u64 = 10;
/// ... of this period, where that is to follow from them.
const PLACEHOLDER_PERIOD: Duration = Duration::from_ms(1);

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
        let (task, measured) = task(&fields, index + 1)?;
        if !names.insert(task.name.clone()) {
            let at = fields.get("name").unwrap_or(item);
            let found = format!("another task of this service is named '{}'", task.name);
            return Err(at.fault(found, "expected different names; a task without one is named after its place: task1"));
        }
        tasks.push(Placed { task, vcpu: fields.get("vcpu"), measured });
    }
    Ok(tasks)
}

/// As [`read_all`], for a promise that knows no virtual CPUs, and whether their execution times are to be measured: of
/// all of them, as their requests cannot be told apart.
pub(crate) fn read_driven(node: &Node) -> Result<(Vec<Task>, Measured), Fault> {
    let placed = read_all(node)?;
    if let Some(vcpu) = placed.iter().find_map(|one| one.vcpu) {
        return Err(vcpu.fault("'vcpu' goes with 'promise: every-deadline' only", "leave it out"));
    }
    let wanted = placed.iter().filter_map(|one| one.measured);
    let fits: Vec<Option<Bandwidth>> = wanted.clone().map(|(_, fit)| fit).collect();
    let measured = match wanted.clone().next() {
        None => Measured::Declared,
        Some((at, _)) if fits.len() < placed.len() => {
            let found = "some tasks of this service are to be measured and some are not";
            return Err(
                at.fault(found, "expected 'wcet: measured' of all of its tasks: their requests cannot be told apart")
            );
        }
        Some(_) => Measured::Wanted { fits },
    };
    let mut tasks: Vec<Task> = placed.into_iter().map(|one| one.task).collect();
    if let Measured::Wanted { fits } = &measured {
        // Together the placeholders without a share to make are a tenth of a core.
        let open = fits.iter().filter(|fit| fit.is_none()).count().max(1) as u64;
        let all = tasks.iter_mut().zip(fits).filter(|(_, fit)| fit.is_none());
        all.for_each(|(task, _)| task.wcet = Duration::from_ns((task.wcet.ns() / open).max(1)));
    }
    Ok((tasks, measured))
}

/// Whether a node says `measured`.
pub(crate) fn is_measured(node: &Node) -> bool {
    matches!(&node.kind, Kind::Text(text) if text.text == "measured")
}

pub(crate) const FIT: Grammar = Grammar { what: "what is to follow from measuring", keys: &["fit"], later: &[] };

/// `{fit: 40%}`, in the place of a period or a rate; `None` where there is something else.
pub(crate) fn fit(node: &Node) -> Result<Option<Bandwidth>, Fault> {
    if !matches!(node.kind, Kind::Map(_)) {
        return Ok(None);
    }
    let share = share(FIT.read(node, node.span)?.need("fit", "{fit: 40%}")?, "fit: 40%")?;
    match share == Bandwidth::ZERO {
        true => Err(node.fault("no share of a core is no load", "expected a share such as {fit: 40%}")),
        false => Ok(Some(share)),
    }
}

type Read<'a> = (Task, Option<(&'a Node, Option<Bandwidth>)>);

fn task<'a>(fields: &Fields<'a>, number: usize) -> Result<Read<'a>, Fault> {
    let wcet = fields.need("wcet", "wcet: 50us")?;
    let period = fields.need("period", "period: 1ms")?;
    let (deadline, copies) = (fields.get("deadline"), fields.get("copies"));
    let fit = fit(period)?;
    if let (Some(_), false) = (fit, is_measured(wcet)) {
        return Err(
            period.fault("a period that follows from measuring needs something measured", "expected wcet: measured")
        );
    }
    for key in ["deadline", "offset"].into_iter().filter(|_| fit.is_some()) {
        let found = format!("'{key}' does not go with a period that follows from measuring");
        fields.forbid(key, &found, "leave it out, or write a period such as 1ms")?;
    }
    let offset = fields.get("offset").map(duration).transpose()?;
    let name = fields.get("name").map(|node| name(scalar(node, "expected a name")?, "a task")).transpose()?;
    let full = fit.map_or_else(|| duration(period), |_| Ok(PLACEHOLDER_PERIOD))?;
    let latest = deadline.map_or(Ok(full), duration)?;
    let number_of = copies.map_or(Ok(1), |node| count(node, "a number of copies", 1..=COPIES))?;
    let placeholder = || {
        let (part, whole) = fit.map_or((1, PLACEHOLDER), |fit| (fit.numer(), fit.denom()));
        let ns = u128::from(full.ns()) * u128::from(part) / u128::from(whole) / u128::from(number_of);
        Duration::from_ns((ns as u64).max(1)).min(latest)
    };
    let task = Task {
        name: name.unwrap_or_else(|| format!("task{number}")),
        wcet: if is_measured(wcet) { placeholder() } else { duration(wcet)? },
        period: full,
        deadline: latest,
        offset: offset.unwrap_or(Duration::ZERO),
        release: release(fields.get("release"), offset.is_some())?,
        copies: number_of,
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
    Ok((task, is_measured(wcet).then_some((wcet, fit))))
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
