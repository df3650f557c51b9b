//! Processor time that the hypervisor gave to others: holes that no scheduler of this machine can see.

use giusto_model::Duration;
use std::{fs, io};

/// What one CPU lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    /// The CPU.
    pub cpu: u32,
    /// Stolen since boot, in ns, counted in the kernel's ticks (usually 10 ms). Subtract two readings.
    pub steal_ns: u64,
}

/// What the clock of stolen time counts in: a difference of two readings of one CPU is known to this.
pub fn steal_clock() -> Duration {
    Duration::from_ns(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Reads the stolen time of `cpus`, in their order, from `/proc/stat`.
///
/// # Errors
/// Those of reading it; `NotFound` for a CPU that is not there or offline, `InvalidData` for a line without the field.
pub fn steal(cpus: &[u32]) -> io::Result<Vec<Noise>> {
    parse(&fs::read_to_string("/proc/stat")?, cpus, rustix::param::clock_ticks_per_second())
}

/// The stolen time of all CPUs together, in ns.
///
/// # Errors
/// As [`steal`].
pub fn stolen() -> io::Result<u64> {
    of_line(&fs::read_to_string("/proc/stat")?, "cpu", rustix::param::clock_ticks_per_second())
}

/// How long `cpu` has been idle since boot, in the clock's ticks.
///
/// # Errors
/// As [`steal`].
pub(crate) fn idle_ticks(cpu: u32) -> io::Result<u64> {
    let stat = fs::read_to_string("/proc/stat")?;
    Ok(ticks(&stat, &format!("cpu{cpu}"), IDLE)? + ticks(&stat, &format!("cpu{cpu}"), IO_WAIT)?)
}

fn parse(stat: &str, cpus: &[u32], ticks_per_second: u64) -> io::Result<Vec<Noise>> {
    let one =
        |&cpu: &u32| of_line(stat, &format!("cpu{cpu}"), ticks_per_second).map(|steal_ns| Noise { cpu, steal_ns });
    cpus.iter().map(one).collect()
}

fn of_line(stat: &str, name: &str, ticks_per_second: u64) -> io::Result<u64> {
    let stolen = ticks(stat, name, STEAL)?;
    stolen.checked_mul(1_000_000_000 / ticks_per_second.max(1)).ok_or_else(|| bad(name))
}

/// Places in a line of `/proc/stat`: cpuN user nice system idle iowait irq softirq steal …
const IDLE: usize = 4;
const IO_WAIT: usize = 5;
const STEAL: usize = 8;

fn ticks(stat: &str, name: &str, place: usize) -> io::Result<u64> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("/proc/stat has no {name}; is it online?"));
    let line = stat.lines().find(|line| line.split(' ').next() == Some(name)).ok_or_else(missing)?;
    line.split_ascii_whitespace().nth(place).and_then(|ticks| ticks.parse().ok()).ok_or_else(|| bad(name))
}

fn bad(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the line {name} of /proc/stat lacks numbers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_number_of_the_right_cpu() {
        let stat = "cpu  1 2 3 4 5 6 7 99 9 9\ncpu1 1 2 3 4 5 6 7 8 9 9\ncpu10 1 2 3 4 5 6 7 16 9 9\nintr 5\n";
        let steal = |cpus: &[u32]| parse(stat, cpus, 100);
        let of = |cpu, steal_ns| Noise { cpu, steal_ns };
        assert_eq!(steal(&[10, 1]).unwrap(), [of(10, 160_000_000), of(1, 80_000_000)]);
        assert_eq!(of_line(stat, "cpu", 100).unwrap(), 990_000_000);
        assert_eq!(steal(&[0]).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(parse("cpu0 1 2 3\n", &[0], 100).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn this_machine_tells_its_stolen_time() {
        let online = fs::read_to_string("/proc/stat").unwrap();
        let first = online.lines().find_map(|l| l.strip_prefix("cpu")?.split(' ').next()?.parse().ok()).unwrap();
        assert_eq!(steal(&[first]).unwrap()[0].cpu, first);
    }
}
