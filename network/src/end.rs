//! One end of an interface: its packets are polled by threads, which get what the plan says.

use crate::features::{is_checksum, is_tag_received, is_tag_sent, is_tso, GRO};
use crate::namespace::Namespace;
use crate::threads::polling;
use crate::{interrupts, Attributes, Error, Link, Recorder, Thread, Undo};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// What an end needs before its packets, or those that it sends to its peer, are polled by a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// It is an end of a veth pair, which has a NAPI of its own only with GRO, and whose TSO makes packets pass the peer's by.
    pub(crate) veth: bool,
    /// Its own packets are to be polled by a thread.
    pub(crate) threaded: bool,
    /// What it sends has its checksums and tags: XDP at the other end keeps no record of what is still to be done.
    pub(crate) whole: bool,
    /// What arrives there is sorted.
    pub(crate) sorts: bool,
    /// Queues that a card was made with, that receive and that send: each may have a thread, also one that is not in use.
    pub(crate) card: Option<[usize; 2]>,
}

/// For so long packets gather at an uplink that was polled a moment ago, in ns.
const COALESCE_NS: &str = "100000";

/// Switches what differs, and returns the threads that poll it; empty where none are needed. Errors: [`Error::Down`] after all that can be
/// done while it is down.
pub(crate) fn settle(
    namespace: &Namespace,
    link: &Link,
    up: bool,
    needs: Needs,
    claimed: &BTreeSet<Thread>,
    record: &mut dyn Recorder<Undo>,
) -> Result<Vec<Thread>, Error> {
    if needs.veth || needs.sorts {
        switch_offloads(namespace, link, needs, record)?;
    }
    if !needs.threaded {
        return Ok(vec![]);
    }
    if !up {
        return Err(Error::Down(link.name.clone()));
    }
    let now = namespace.read(link, "threaded").map_err(|source| match source.kind() {
        io::ErrorKind::NotFound if namespace.has(link) => no_threaded("this kernel has no threaded NAPI"),
        _ => cannot(link, "read 'threaded' of", source),
    })?;
    if now != "1" {
        write(namespace, link, "threaded", &now, "1", record)?;
    }
    if needs.sorts {
        // Many packets a poll, also where they come one by one: else each would wake the thread, and stop those below it.
        for (file, goal) in [("napi_defer_hard_irqs", "1"), ("gro_flush_timeout", COALESCE_NS)] {
            match namespace.read(link, file) {
                Ok(now) if now != goal => write(namespace, link, file, &now, goal, record)?,
                _ => {} // as it is to be, or a kernel before 5.8
            }
        }
    }
    let queues = namespace.receive_queues(link).map_err(|source| cannot(link, "list the queues of", source))?;
    for queue in &queues {
        // What RPS hands to other cores is processed there, in no thread of ours.
        let file = format!("queues/{queue}/rps_cpus");
        match namespace.read(link, &file) {
            Ok(now) if now.chars().any(|digit| !"0,".contains(digit)) => {
                write(namespace, link, &file, &now, "0", record)?
            }
            _ => {} // a kernel without RPS has no such file
        }
    }
    let threads = polling(namespace, link, needs.card.unwrap_or([queues.len(), 0]), claimed)?;
    if threads.is_empty() {
        let source = io::Error::other("the kernel names none; see 'ps -e | grep napi/'");
        return Err(cannot(link, "find the thread that processes the packets of", source));
    }
    Ok(threads)
}

/// Gives threads what the plan says.
pub(crate) fn schedule(
    name: &str,
    threads: &[Thread],
    goal: &Attributes,
    record: &mut dyn Recorder<Undo>,
) -> Result<(), Error> {
    for &thread in threads {
        let failed = |source: io::Error| match source.raw_os_error() {
            Some(libc::EINVAL) => Error::Lacks {
                what: format!("a core {:?} for thread {} of '{name}'", goal.cores, thread.tid),
                how: "plan it on a core that is online, and that the thread's cpuset has".into(),
            },
            _ => Error::kernel(format!("give thread {} of {name} its priority and core", thread.tid), source),
        };
        let now = match Attributes::read(thread) {
            Err(_) if !thread.alive() => continue, // there will be another one, and an event
            now => now.map_err(failed)?,
        };
        if now.policy == libc::SCHED_DEADLINE {
            let what = format!("another program put its thread {} under SCHED_DEADLINE; end that first", thread.tid);
            return Err(Error::Plan { name: name.into(), what });
        }
        if now == *goal {
            continue;
        }
        record.intend(&Undo::PacketThread { thread, before: now }).map_err(Error::Journal)?;
        match goal.set(thread) {
            Err(_) if !thread.alive() => {}
            done => done.map_err(failed)?,
        }
    }
    Ok(())
}

/// Sends those of a card to a core. Errors: the undo record cannot be written. Returns what the kernel does not let be moved, for
/// people.
pub(crate) fn send_interrupts(
    namespace: &Namespace,
    link: &Link,
    core: u32,
    record: &mut dyn Recorder<Undo>,
) -> Result<Option<String>, Error> {
    let goal = core.to_string();
    let mut fixed = Vec::new();
    for number in namespace.interrupts(link) {
        let Ok(now) = interrupts::read(number) else { continue };
        if now == goal {
            continue;
        }
        let undo = Undo::Interrupt { link: link.clone(), number, value: now.clone() };
        record.intend(&undo).map_err(Error::Journal)?;
        if let Err(error) = interrupts::write(number, &goal) {
            fixed.push(format!("{number} stays on {now} ({error})"));
        }
    }
    Ok((!fixed.is_empty()).then(|| {
        format!(
            "interrupts of {} take time of cores that are none of its own: {}; its driver or the kernel keeps them there (kernel \
             parameters irqaffinity, isolcpus=managed_irq)",
            link.name,
            fixed.join(", ")
        )
    }))
}

fn switch_offloads(
    namespace: &Namespace,
    link: &Link,
    needs: Needs,
    record: &mut dyn Recorder<Undo>,
) -> Result<(), Error> {
    let offloads = &namespace.offloads;
    let now = offloads.get(&link.name).map_err(|source| cannot(link, "read the offloads of", source))?;
    let wrong = now.iter().filter_map(|(name, feature)| {
        let goal = match name.as_str() {
            GRO if needs.veth && needs.threaded => true,
            name if needs.veth && is_tso(name) => false,
            name if needs.whole && (is_checksum(name) || is_tag_sent(name)) => false,
            name if needs.sorts && !needs.veth && is_tag_received(name) => false,
            _ => return None,
        };
        (feature.free && (feature.wanted != goal || feature.active != goal)).then(|| (name.clone(), goal))
    });
    let goal: BTreeMap<String, bool> = wrong.collect();
    if goal.is_empty() {
        return Ok(());
    }
    let before = goal.keys().filter_map(|name| Some((name.clone(), now.get(name)?.wanted))).collect();
    record.intend(&Undo::Offloads { link: link.clone(), before }).map_err(Error::Journal)?;
    offloads.set(&link.name, &goal).map_err(|source| cannot(link, "switch the offloads of", source))
}

fn write(
    namespace: &Namespace,
    link: &Link,
    file: &str,
    now: &str,
    value: &str,
    record: &mut dyn Recorder<Undo>,
) -> Result<(), Error> {
    let undo = Undo::InterfaceFile { link: link.clone(), file: file.into(), value: now.into() };
    record.intend(&undo).map_err(Error::Journal)?;
    namespace.write(link, file, value).map_err(|source| match source.raw_os_error() {
        Some(libc::EOPNOTSUPP) if file == "threaded" => {
            no_threaded(&format!("the driver of {} has no NAPI", link.name))
        }
        _ => cannot(link, &format!("write {value} to '{file}' of"), source),
    })
}

fn no_threaded(what: &str) -> Error {
    Error::Lacks {
        what: format!("threaded NAPI ({what})"),
        how: "use Linux 5.12 or later, and interfaces whose driver has NAPI: veth, tap with IFF_NAPI, most hardware"
            .into(),
    }
}

fn cannot(link: &Link, doing: &str, source: io::Error) -> Error {
    Error::kernel(format!("{doing} {}", link.name), source)
}
