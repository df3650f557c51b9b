//! What a run would do, without doing it.

use giusto_compute::{backend, Machine};
use giusto_model::{Backend, Limit, NetworkPlan, Origin, Plan, Process};
use std::collections::BTreeSet;

/// What `run` would do to this host, in order: files written, programs started, system calls.
pub fn dry_run(plan: &Plan, machine: &Machine) -> Vec<String> {
    let mut lines: Vec<String> = crate::missing(plan, machine)
        .iter()
        .map(|lack| format!("refuse all of this, because {} is missing: {}", lack.what, lack.how))
        .collect();
    lines.push("write the undo of every step to /run/giusto/journal before the step".into());
    lines.push("listen on /run/giusto/control for 'giusto status' and 'giusto reload'".into());
    for modes in &plan.modes {
        let keys = modes.members.iter().filter_map(|member| Some((&member.service, &member.agent.as_ref()?.key)));
        lines.extend(
            keys.map(|(service, key)| format!("read the key of the agent of {service} from {}", key.display())),
        );
        lines.extend(modes.changes.listen.iter().map(|place| format!("wait for agents at {place}")));
        lines.push("start the thread of modes, at SCHED_FIFO 92, for 'giusto mode'; it changes budgets, boosts agents, and stops with SIGSTOP what a mode stops".into());
        lines.push("remember the mode in /run/giusto/modes.json".into());
    }
    for name in Backend::ALL {
        let on = plan.services.iter().filter(|service| service.backend == name).map(|service| service.core);
        let cores: Vec<u32> = on.collect::<BTreeSet<_>>().into_iter().collect();
        if !cores.is_empty() {
            lines.extend(backend(name).describe_cores(&cores, machine));
        }
    }
    let once = plan.services.iter().filter(|service| service.vcpu.is_none_or(|vcpu| vcpu == 0));
    let services = once.map(|service| (&service.name, &service.origin, &service.process, service.load.as_ref()));
    let leftovers = plan.leftovers.iter().map(|left| (&left.name, &left.origin, &left.process, None));
    for (name, origin, process, load) in services.chain(leftovers) {
        if let Origin::Start(_) = origin {
            lines.push(contained(name, process));
        }
        lines.push(match origin {
            Origin::Start(words) => {
                format!("start {name}: {}", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
            }
            Origin::Adopt(adopt) => format!("adopt {name}: {adopt}"),
        });
        if !process.after_end.is_empty() {
            let words: Vec<_> = process.after_end.iter().map(|word| quoted(word)).collect();
            lines.push(format!("whenever {name} has ended, before it is started again: {}", words.join(" ")));
        }
        if let Some(within) = process.end_within {
            lines.push(format!("when {name} is to end: SIGTERM, and SIGKILL after {within}"));
        }
        if let Some(load) = load {
            lines.push(format!("wait until {name} listens on {}", load.address()));
        }
    }
    lines.extend(plan.services.iter().flat_map(|service| backend(service.backend).describe(service)));
    for leftover in &plan.leftovers {
        let cores: Vec<String> = leftover.cores.iter().map(u32::to_string).collect();
        lines.push(format!("spread the processes of {} over cores {}", leftover.name, cores.join(", ")));
        if let Some(most) = leftover.at_most {
            lines.push(format!(
                "cap the processes of {} at {} of a core, by the backend {}",
                leftover.name,
                most.percent(),
                Backend::CAP
            ));
        }
    }
    plan.network.iter().for_each(|network| packets(network, &mut lines));
    for core in plan.hosts.iter().flat_map(|host| &host.parked) {
        lines.push(format!("park core {core}: write 0 to /sys/devices/system/cpu/cpu{core}/online"));
    }
    if plan.services.is_empty() && plan.leftovers.is_empty() {
        lines.push("undo all of it at the end, the latest first".into());
        return lines;
    }
    lines.push("look once a second for new processes and for threads that have taken over".into());
    lines.push("undo all of it at the end, the latest first; services that giusto started end last".into());
    lines
}

/// Interfaces, their threads and their buckets.
fn packets(network: &NetworkPlan, lines: &mut Vec<String>) {
    let how = |priority: Option<u8>| priority.map_or("SCHED_OTHER".into(), |priority| format!("SCHED_FIFO {priority}"));
    let threads = |name: &str, core: u32, priority| {
        format!(
            "find the threads that process the packets of {name} (netlink napi-get, or their names; of a plain tap vhost-PID), \
             sched_setaffinity(core {core}), sched_setscheduler({})",
            how(priority)
        )
    };
    lines.push("listen to RTM_NEWLINK and RTM_DELLINK, and do again what a link event has undone".into());
    for uplink in &network.uplinks {
        let name = &uplink.uplink.name;
        lines.push(format!("write 1 to /sys/class/net/{name}/threaded, and 0 to its queues' rps_cpus"));
        lines.push(
            "write 1 to its napi_defer_hard_irqs and 100000 to its gro_flush_timeout; ethtool -K rxvlan off; of a veth pair, \
             ethtool -K tx off txvlan off at its other end"
                .into(),
        );
        lines.push(format!(
            "write {} to /proc/irq/*/smp_affinity_list of its interrupts, which /sys/class/net/{name}/device/msi_irqs names",
            uplink.core
        ));
        lines.push(format!(
            "put the XDP program giusto_sort on {name}: what is for the high class, at most {} and bursts of {}, goes on, all \
             else to the kernel's thread cpumap/{}, which has no priority",
            uplink.uplink.bucket.rate, uplink.uplink.bucket.depth, uplink.core
        ));
        lines.push(threads(name, uplink.core, Some(uplink.priority)));
    }
    for vif in &network.vifs {
        let name = &vif.name;
        if let Some([sent, received]) = &vif.buckets() {
            lines.push(format!(
                "put the BPF program giusto_to on {name} (a tcx link; before Linux 6.6, or of more than 16, tc qdisc add dev \
                 {name} clsact with a filter), and giusto_from on a tap; of a veth pair giusto_sent at its other end, and \
                 giusto_arrived for what bypasses that: drop or delay beyond {sent} of what it sends, and beyond {received} of \
                 what is sent to it, counted in {}s",
                network.count
            ));
            lines.push(format!(
                "look ten times a second whether {name} makes the host drop more packets than that, and once whether its threads \
                 take twice the time: while they do, sched_setscheduler(SCHED_IDLE)"
            ));
        }
        lines.push(format!(
            "ethtool -K {name} gro on tso off if it is an end of a veth pair, and the same at the other end, in its network namespace (setns)"
        ));
        lines.push(format!(
            "write 1 to /sys/class/net/{name}/threaded and that of its other end, and 0 to their queues' rps_cpus"
        ));
        lines.push(threads(name, vif.core, vif.priority));
    }
    lines.push(format!(
        "look every second whether those threads process the packets, and every ten whether those without a promise are spread well over cores {:?}",
        network.cores
    ));
}

/// Where a service is started, and as what.
fn contained(name: &str, process: &Process) -> String {
    let user = process.user.iter().map(|user| format!(", as user {user}"));
    let group = process.group.iter().map(|group| format!(", with group {group}"));
    let tasks = (Limit::Tasks, Limit::TASKS);
    let unsaid = Some(tasks).filter(|(limit, _)| !process.limits.contains_key(limit));
    let limits = process.limits.iter().map(|(&limit, &value)| (limit, value)).chain(unsaid);
    let limits = limits.filter(|(_, value)| *value != u64::MAX).map(|(limit, value)| format!(", {limit} {value}"));
    let more: String = user.chain(group).chain(limits).collect();
    format!("make the cgroup giusto.{name}.service, for all that comes of {name}{more}; without CAP_SYS_NICE")
}

/// A word as a shell would have to be given it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_as_a_shell_needs_them() {
        assert_eq!(["redis-server", "", "a b", "it's"].map(quoted), ["redis-server", "''", "'a b'", "'it'\\''s'"]);
    }
}
