//! `promise: every-deadline` and what goes with it: `scheduler:`, `vcpus:`, and `vcpu:` of a task.

use super::promised::{not_of_leftovers, Keys, Promised, COMPUTED};
use crate::error::Fault;
use crate::fields::Fields;
use crate::locals;
use crate::suggest::{did_you_mean, shown};
use crate::tree::Node;
use crate::value::{count, scalar};
use crate::vcpus::{self, VCPUS};
use giusto_model::{GuestScheduler, LocalNeed, Origin, Promise};

pub(super) const KEYS: Keys = Keys {
    foreign: &["load", "margin", "arrivals", "execution", "copies", "threads"],
    why: "'promise: every-deadline', which is proven, not measured",
};
const SCHEDULER: &str =
    "expected the order in which it runs its own jobs: any (nothing is known of it), or, preemptive, rm \
                         (shorter period first), dm (shorter deadline first) or edf (earlier deadline first)";

/// Reads a service from `origin` that is promised every deadline, and its tasks, or those of each of its modes.
pub(super) fn read(fields: &Fields<'_>, origin: &Origin) -> Result<Promised, Fault> {
    not_of_leftovers(fields, COMPUTED)?;
    let scheduler = fields.get("scheduler").map_or(Ok(GuestScheduler::Any), scheduler)?;
    let written = fields.get("vcpus");
    let vcpus = written.map(|node| number(node, origin)).transpose()?.unwrap_or(1);
    let promise = |placed| Promise::EveryDeadline { scheduler, vcpus, placed };
    let (key, node) = fields.one_of(
        &["tasks", "modes"],
        "expected, for example, tasks: [{name: control, wcet: 2ms, period: 10ms}], or modes: {cruise: [...], land: [...]}",
    )?;
    if key == "tasks" {
        let (tasks, placed) = vcpus::tasks(node, (vcpus, written), origin)?;
        return Ok(Promised { tasks, ..Promised::of(promise(placed)) });
    }
    let modes = locals::with_tasks(node, (vcpus, written), origin)?;
    let (tasks, placed) = match modes.first().map(|mode| &mode.need) {
        Some(LocalNeed::Tasks { tasks, placed }) => (tasks.clone(), placed.clone()),
        _ => (Vec::new(), Vec::new()), // there is one, and it has tasks
    };
    Ok(Promised { tasks, modes, ..Promised::of(promise(placed)) })
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

fn number(node: &Node, origin: &Origin) -> Result<u32, Fault> {
    if !origin.has_vcpus() {
        return Err(node.fault(
            "this service has no virtual CPUs that could be told apart",
            "leave it out, or adopt a virtual machine: {qmp: /run/vm.sock} or {libvirt: NAME}",
        ));
    }
    count(node, "a number of virtual CPUs", 1..=VCPUS as u32)
}
