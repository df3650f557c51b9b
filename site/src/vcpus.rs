//! What is written once for each virtual CPU, or says on which of them something is.

use crate::error::Fault;
use crate::task::{self, Placed};
use crate::tree::{Kind, Node};
use crate::value::{count, parsed};
use giusto_model::{Interface, Origin, Task};

/// Most virtual CPUs of one VM.
pub(crate) const VCPUS: usize = 256;
const SUPPLY: &str = "expected a budget in every period, such as 3ms/10ms, or a list with one for each virtual CPU";

/// `3ms/10ms`, or a list with one for each virtual CPU.
pub(crate) fn interfaces(node: &Node, origin: &Origin) -> Result<Vec<Interface>, Fault> {
    let items = if let Kind::List(items) = &node.kind { items.as_slice() } else { std::slice::from_ref(node) };
    match items {
        [] => return Err(node.fault("there is no budget in this list", SUPPLY)),
        [_, second, ..] if !origin.has_vcpus() => {
            let expected = "expected one budget for all its threads together; several are for the virtual CPUs of a VM";
            return Err(second.fault("this service has no virtual CPUs that could be told apart", expected));
        }
        _ if items.len() > VCPUS => {
            return Err(items[VCPUS].fault(format!("more than {VCPUS} virtual CPUs are not built yet"), SUPPLY));
        }
        _ => {}
    }
    items.iter().map(|item| parsed::<Interface>(item, SUPPLY)).collect()
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
