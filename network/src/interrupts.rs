//! Interrupts of a card: each wakes a thread that polls one of its queues, and takes time of the core where it arrives, whatever is
//! promised there.

use crate::namespace::Namespace;
use crate::{Error, Link, Recorder, Undo};
use std::fs;
use std::io;

/// Sends those of a card to a core. Errors: the undo record cannot be written. Returns what the kernel does not let be moved, for
/// people.
pub(crate) fn settle(
    namespace: &Namespace,
    link: &Link,
    core: u32,
    record: &mut dyn Recorder,
) -> Result<Option<String>, Error> {
    let goal = core.to_string();
    let mut fixed = Vec::new();
    for number in namespace.interrupts(link) {
        let Ok(now) = read(number) else { continue };
        if now == goal {
            continue;
        }
        let undo = Undo::Interrupt { link: link.clone(), number, value: now.clone() };
        record.intend(&undo).map_err(Error::Journal)?;
        if let Err(error) = write(number, &goal) {
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

/// Cores at which it may arrive, as the kernel writes a list.
pub(crate) fn read(number: u32) -> io::Result<String> {
    Ok(fs::read_to_string(file(number))?.trim_end().to_string())
}

pub(crate) fn write(number: u32, cores: &str) -> io::Result<()> {
    fs::write(file(number), cores)
}

fn file(number: u32) -> String {
    format!("/proc/irq/{number}/smp_affinity_list")
}
