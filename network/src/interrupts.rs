//! Interrupts of a card: each wakes a thread that polls one of its queues, and takes time of the core where it arrives, whatever
//! is promised there.

use std::fs;
use std::io;

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
