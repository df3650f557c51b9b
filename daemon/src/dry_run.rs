//! What a run would do, without doing it.

use giusto_compute::{Cpusets, Machine};
use giusto_model::{Adopt, Origin, Plan};

/// Every command, file and system call that `run` would use, in order, a line each.
pub fn dry_run(plan: &Plan, machine: &Machine) -> String {
    let mut lines = Vec::new();
    let services = plan.services.iter().map(|s| (&s.name, &s.origin));
    for (name, origin) in services.chain(plan.leftovers.iter().map(|l| (&l.name, &l.origin))) {
        lines.push(match origin {
            Origin::Start(words) => format!("start {name}: {}", words.join(" ")),
            Origin::Adopt(Adopt::Pid(pid)) => format!("adopt {name}: process {pid}"),
            Origin::Adopt(Adopt::Cgroup(path)) => format!("adopt {name}: all processes in cgroup {path}"),
        });
    }
    match &machine.cpusets {
        Some(cpusets @ Cpusets::V1(root)) => {
            lines.push(format!("write 0 to {}", root.join("cpuset.sched_load_balance").display()));
            lines.push(format!("make {} with the cores not listed here", root.join("giusto.rest").display()));
            lines.extend(
                plan.host
                    .cores
                    .iter()
                    .map(|&core| format!("make {} with core {core}, exclusive", cpusets.folder(core).display())),
            );
        }
        Some(cpusets @ Cpusets::V2(root)) => {
            lines.push(format!("write +cpuset to {}", root.join("cgroup.subtree_control").display()));
            lines.extend(
                plan.host
                    .cores
                    .iter()
                    .map(|&core| format!("make {} with core {core}, partition root", cpusets.folder(core).display())),
            );
        }
        None => lines.push("(no cpusets here: nothing further)".into()),
    }
    for service in &plan.services {
        let (budget, period) = (service.server.budget.ns(), service.server.period.ns());
        lines.push(format!("move the processes of {} to core {}", service.name, service.core));
        lines.push(format!(
            "sched_setattr(thread of {} that does the work, SCHED_DEADLINE | RESET_ON_FORK, runtime {budget} ns, deadline {period} ns, period {period} ns)",
            service.name
        ));
    }
    for leftover in &plan.leftovers {
        let cores: Vec<String> = leftover.cores.iter().map(u32::to_string).collect();
        lines.push(format!("move the processes of {} to core {}", leftover.name, cores.join(", ")));
    }
    lines.into_iter().map(|line| format!("would {line}\n")).collect()
}
