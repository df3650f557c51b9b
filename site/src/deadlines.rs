//! `promise: every-deadline` and what goes with it: `scheduler:`, `vcpus:`, and `vcpu:` of a task.

use crate::error::Fault;
use crate::fields::Fields;
use crate::locals;
use crate::promise::{Promised, VCPUS};
use crate::suggest::did_you_mean;
use crate::task::{self, Placed};
use crate::tree::Node;
use crate::value::{count, scalar, shown};
use giusto_model::{GuestScheduler, LocalNeed, Origin, Promise, Task};

const SCHEDULER: &str =
    "expected the order in which it runs its own jobs: any (nothing is known of it), or, preemptive, rm \
                         (shorter period first), dm (shorter deadline first) or edf (earlier deadline first)";

/// Reads a service from `origin` that is promised every deadline, and its tasks, or those of each of its modes.
pub(crate) fn read(fields: &Fields<'_>, origin: &Origin) -> Result<Promised, Fault> {
    let scheduler = fields.get("scheduler").map_or(Ok(GuestScheduler::Any), scheduler)?;
    let written = fields.get("vcpus");
    let vcpus = written.map(|node| vcpus(node, origin)).transpose()?.unwrap_or(1);
    let promise = |placed| Promise::EveryDeadline { scheduler, vcpus, placed };
    let (key, node) = fields.one_of(
        &["tasks", "modes"],
        "expected, for example, tasks: [{name: control, wcet: 2ms, period: 10ms}], or modes: {cruise: [...], land: [...]}",
    )?;
    if key == "tasks" {
        let (tasks, placed) = self::tasks(node, (vcpus, written), origin)?;
        return Ok(Promised { tasks, ..Promised::of(promise(placed)) });
    }
    let modes = locals::with_tasks(node, (vcpus, written), origin)?;
    let (tasks, placed) = match modes.first().map(|mode| &mode.need) {
        Some(LocalNeed::Tasks { tasks, placed }) => (tasks.clone(), placed.clone()),
        _ => (Vec::new(), Vec::new()), // there is one, and it has tasks
    };
    Ok(Promised { tasks, modes, ..Promised::of(promise(placed)) })
}

/// Tasks, and, where the list says it, the virtual CPU of each of them; `vcpus` are those there are, and where that is written.
pub(crate) fn tasks(
    list: &Node,
    (vcpus, written): (u32, Option<&Node>),
    origin: &Origin,
) -> Result<(Vec<Task>, Vec<u32>), Fault> {
    let (tasks, homes): (Vec<Task>, Vec<Option<&Node>>) = task::read_all(list)?
        .into_iter()
        .map(|Placed { task, vcpu, measured }| match measured {
            None => Ok((task, vcpu)),
            Some((at, _)) => Err(at.fault(
                "what was measured is no worst case, and every-deadline is proven",
                "expected a wcet such as 50us: a bound, or what 'giusto measure import' found and a margin",
            )),
        })
        .collect::<Result<Vec<_>, Fault>>()?
        .into_iter()
        .unzip();
    let idle = |found: String| {
        Err(written.unwrap_or(list).fault(found, "expected a task for each virtual CPU, or fewer of them"))
    };
    if homes.iter().all(Option::is_none) {
        let jobs: u64 = tasks.iter().map(|task| u64::from(task.copies)).sum();
        return match u64::from(vcpus) > jobs {
            true => idle(format!("{vcpus} virtual CPUs for {jobs} {}", if jobs == 1 { "task" } else { "tasks" })),
            false => Ok((tasks, Vec::new())),
        };
    }
    let place = |(home, task): (&Option<&Node>, &Task)| place(*home, task, list, vcpus, origin);
    let placed: Vec<u32> = homes.iter().zip(&tasks).map(place).collect::<Result<_, _>>()?;
    match (0..vcpus).find(|vcpu| !placed.contains(vcpu)) {
        Some(vcpu) => idle(format!("no task is on virtual CPU {vcpu}")),
        None => Ok((tasks, placed)),
    }
}

fn scheduler(node: &Node) -> Result<GuestScheduler, Fault> {
    let text = &scalar(node, SCHEDULER)?.text;
    if text == "global-edf" {
        let instead =
            "expected edf, with the tasks spread over the virtual CPUs: a job cannot know which of them runs at the \
                       moment, and would wait on one that stands";
        return Err(node.fault("'global-edf' is not built yet", instead));
    }
    let names = GuestScheduler::ALL.map(|scheduler| scheduler.to_string());
    let near = || SCHEDULER.to_string() + &did_you_mean(text, names.iter().map(String::as_str));
    text.parse().map_err(|_| node.fault(format!("'{}' is not a scheduler", shown(text)), near()))
}

fn vcpus(node: &Node, origin: &Origin) -> Result<u32, Fault> {
    if !origin.has_vcpus() {
        return Err(node.fault(
            "this service has no virtual CPUs that could be told apart",
            "leave it out, or adopt a virtual machine: {qmp: /run/vm.sock} or {libvirt: NAME}",
        ));
    }
    count(node, "a number of virtual CPUs", 1..=VCPUS as u32)
}

/// The virtual CPU of one task; where one has it, all do.
fn place(home: Option<&Node>, task: &Task, list: &Node, vcpus: u32, origin: &Origin) -> Result<u32, Fault> {
    let Some(node) = home else {
        let found = format!("task '{}' has no 'vcpu', and another has", task.name);
        return Err(list.fault(found, "expected a vcpu for every task, or for none: then Giusto spreads them"));
    };
    if !origin.has_vcpus() {
        return Err(node.fault("this service has no virtual CPUs that could be told apart", "leave it out"));
    }
    let vcpu = count(node, "a virtual CPU", 0..=VCPUS as u32 - 1)?;
    if vcpu >= vcpus {
        let found = format!("virtual CPU {vcpu} is not one of the {vcpus} that the tasks are spread over");
        let found = if vcpus == 1 { format!("virtual CPU {vcpu} is not there: 'vcpus' is 1") } else { found };
        return Err(node.fault(found, "expected a number from 0 to vcpus - 1; they count from 0"));
    }
    Ok(vcpu)
}
