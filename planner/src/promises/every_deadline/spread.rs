//! Which task of a virtual machine runs on which virtual CPU.

use giusto_model::{Origin, Task};
use std::cmp::Reverse;

/// The tasks of one virtual CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// `None`: all threads of the service.
    pub(crate) vcpu: Option<u32>,
    pub(crate) tasks: Vec<Task>,
}

/// C/T of one copy, in parts of 2^-40: equal shares stay equal, and sums are exact.
fn parts_of_a_core(task: &Task) -> u128 {
    (u128::from(task.wcet.ns()) << 40) / u128::from(task.period.ns())
}

/// These `tasks` of a service from `origin`, by virtual CPU, of which there are `vcpus`; each has some if there are as many.
///
/// As `placed` says, or, where that is empty, the largest utilization first, each copy on the virtual CPU with the least so far: a
/// heuristic, which makes the largest of the interfaces small. `None` without virtual CPUs. O(copies · virtual CPUs).
pub(crate) fn parts(origin: &Origin, vcpus: u32, tasks: &[Task], placed: &[u32]) -> Option<Vec<Part>> {
    let name = |vcpu: u32| origin.has_vcpus().then_some(vcpu);
    let mut counts = vec![vec![0u32; tasks.len()]; vcpus as usize];
    if placed.is_empty() {
        let each: Vec<u128> = tasks.iter().map(parts_of_a_core).collect();
        let mut largest_first: Vec<usize> = (0..each.len()).collect();
        largest_first.sort_by_key(|&task| Reverse(each[task])); // stable
        let mut loads = vec![0; vcpus as usize];
        for task in largest_first {
            for _ in 0..tasks[task].copies {
                let least = (0..loads.len()).min_by_key(|&vcpu| (loads[vcpu], vcpu))?;
                loads[least] += each[task];
                counts[least][task] += 1;
            }
        }
    } else {
        for (task, &vcpu) in placed.iter().enumerate() {
            counts[vcpu as usize][task] = tasks[task].copies;
        }
    }
    let part = |(vcpu, counts): (u32, &Vec<u32>)| {
        let there = tasks.iter().zip(counts).filter(|(_, copies)| **copies > 0);
        Part { vcpu: name(vcpu), tasks: there.map(|(task, &copies)| Task { copies, ..task.clone() }).collect() }
    };
    Some((0..).zip(&counts).map(part).collect())
}
