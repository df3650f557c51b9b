//! The backend `quota`: the fair scheduler's bandwidth control. A cap, never a guarantee; for the general-purpose side.

use crate::cpu_group::{CpuGroup, CpuTree};
use crate::files::{Files, Real};
use crate::{Error, Lack, Recorder, Undo};
use giusto_model::{Bandwidth, Duration};

/// What EINVAL means.
const LIMITS: &str = "the period must be 1 ms to 1 s, and the share of it 1 ms at least";

/// A cap in force.
#[derive(Debug)]
pub struct Quota {
    group: CpuGroup,
    /// Period and what may be used of it, in force.
    in_force_us: Option<(u64, u64)>,
}

/// How often a cap was felt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Periods in which a member ran.
    pub periods: u64,
    /// Those in which all of the share was used up before the end.
    pub throttled: u64,
    /// How long members waited for the next period, on all cores together.
    pub time: Duration,
}

impl Quota {
    /// What the machine lacks for this backend; `None`: it has it.
    pub fn lack() -> Option<Lack> {
        tree(&Real).err()
    }

    /// Makes the group `giusto.NAME`, whose members together have `share` of a core (on all cores together, so it may be more
    /// than one) in every period at most, and moves `processes` in. In whole µs: the share rounded up, the period down.
    ///
    /// On v2 a process is in one group only: one that is in a cpuset of Giusto's leaves it. Errors: a kernel without the
    /// controller, an earlier Giusto's group (nothing was changed then); a real-time thread; the kernel refuses.
    pub fn new(
        name: &str,
        share: Bandwidth,
        period: Duration,
        processes: &[u32],
        record: &mut dyn Recorder<Undo>,
    ) -> Result<Self, Error> {
        Quota::new_in(&Real, name, share, period, processes, record)
    }

    fn new_in(
        files: &dyn Files,
        name: &str,
        share: Bandwidth,
        period: Duration,
        processes: &[u32],
        record: &mut dyn Recorder<Undo>,
    ) -> Result<Self, Error> {
        let tree = tree(files).map_err(Error::Lacks)?;
        let mut quota = Quota { group: CpuGroup::make(files, &tree, name, record)?, in_force_us: None };
        quota.set_in(files, share, period)?;
        quota.take_in_in(files, processes, record)?;
        Ok(quota)
    }

    /// Caps at another share, at once.
    ///
    /// Errors: the kernel refuses.
    pub fn set(&mut self, share: Bandwidth, period: Duration) -> Result<(), Error> {
        self.set_in(&Real, share, period)
    }

    fn set_in(&mut self, files: &dyn Files, share: Bandwidth, period: Duration) -> Result<(), Error> {
        let period_us = period.ns() / 1_000;
        // What does not fit is more than the kernel takes, and it says so.
        let quota_us = share.times_ceil(Duration::from_ns(period_us)).map_or(u64::MAX, Duration::ns);
        match self.group.tree {
            CpuTree::V1(_) => {
                let (period, quota) = (("cpu.cfs_period_us", period_us), ("cpu.cfs_quota_us", quota_us));
                self.group.write_pair(files, self.in_force_us, period, quota, LIMITS)?;
            }
            CpuTree::V2(_) => self.group.write(files, "cpu.max", &format!("{quota_us} {period_us}"), LIMITS)?,
        }
        self.in_force_us = Some((period_us, quota_us));
        Ok(())
    }

    /// Moves processes in that came later. What members fork is in already.
    ///
    /// Errors: a real-time thread; the kernel refuses.
    pub fn take_in(&self, processes: &[u32], record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        self.take_in_in(&Real, processes, record)
    }

    fn take_in_in(&self, files: &dyn Files, processes: &[u32], record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        processes.iter().try_for_each(|&pid| self.group.take_in(files, pid, record).map(|_| ()))
    }

    /// Removes the group, whose members have ended. That of a started service ends with the service (v2).
    ///
    /// Errors: it has members; the kernel refuses.
    pub fn remove(&self) -> Result<(), Error> {
        let folder = &self.group.folder;
        if crate::names::is_service(folder) || !Real.is_folder(folder) {
            return Ok(());
        }
        Real.remove(folder)
            .map_err(|why| Error::Kernel { doing: format!("remove {}", folder.display()), why: why.to_string() })
    }

    /// How often the cap was felt since it was made.
    ///
    /// Errors: the group has gone.
    pub fn throttled(&self) -> Result<Throttled, Error> {
        self.throttled_in(&Real)
    }

    fn throttled_in(&self, files: &dyn Files) -> Result<Throttled, Error> {
        let path = self.group.folder.join("cpu.stat");
        let doing = format!("read {}", path.display());
        let text = files.read(&path).map_err(|why| Error::Kernel { doing, why: why.to_string() })?;
        let of =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap_or(0);
        // v1 counts in ns, v2 in µs.
        let ns = of("throttled_time ") + 1_000 * of("throttled_usec ");
        Ok(Throttled { periods: of("nr_periods "), throttled: of("nr_throttled "), time: Duration::from_ns(ns) })
    }
}

fn tree(files: &dyn Files) -> Result<CpuTree, Lack> {
    CpuTree::find(files).ok_or_else(|| Lack {
        what: "the cpu controller of cgroup v1 or v2".into(),
        how: "mount it, or run outside of a container".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imitation::{Dying, Imitation, ROOT};
    use crate::undo::undo_in;
    use std::path::Path;

    const PERIOD: Duration = Duration::from_ms(50);

    fn capped(files: &Imitation, share: &str, record: &mut dyn Recorder<Undo>) -> Result<Quota, Error> {
        Quota::new_in(files, "batch", share.parse().unwrap(), PERIOD, &[std::process::id()], record)
    }

    /// Quota and period in force.
    fn in_force(files: &Imitation, quota: &Quota) -> String {
        let read = |name: &str| files.read(&quota.group.folder.join(name));
        read("cpu.max")
            .or_else(|_| Ok::<_, std::io::Error>(read("cpu.cfs_quota_us")? + " " + &read("cpu.cfs_period_us")?))
            .unwrap()
    }

    #[test]
    fn a_cap_is_written_as_each_version_wants_it_and_changed_at_once() {
        for v2 in [false, true] {
            let files = Imitation::cpu(v2);
            let mut quota = capped(&files, "150%", &mut Vec::new()).unwrap();
            assert_eq!(in_force(&files, &quota), "75000 50000");
            assert_eq!(files.home_of(std::process::id()), quota.group.folder);
            quota.set_in(&files, "1/3".parse().unwrap(), Duration::from_ms(100)).unwrap();
            assert_eq!(in_force(&files, &quota), "33334 100000", "rounded up");
            for (share, period) in [("1%", 50), ("50%", 2_000), ("50%", 0)] {
                let refused = quota.set_in(&files, share.parse().unwrap(), Duration::from_ms(period)).unwrap_err();
                assert!(refused.to_string().contains("1 ms to 1 s"), "{refused}");
                assert_eq!(in_force(&files, &quota), "33334 100000", "what was in force stays");
            }
        }
    }

    #[test]
    fn throttling_is_read_in_the_units_of_each_version() {
        for (v2, stat, time) in [
            (false, "nr_periods 7\nnr_throttled 3\nthrottled_time 5000\nnr_bursts 0\nburst_time 9\n", 5),
            (true, "usage_usec 99\nnr_periods 7\nnr_throttled 3\nthrottled_usec 5\nnr_bursts 0\n", 5),
        ] {
            let files = Imitation::cpu(v2);
            let quota = capped(&files, "50%", &mut Vec::new()).unwrap();
            files.write(&quota.group.folder.join("cpu.stat"), stat).unwrap();
            let expected = Throttled { periods: 7, throttled: 3, time: Duration::from_us(time) };
            assert_eq!(quota.throttled_in(&files).unwrap(), expected);
        }
    }

    #[test]
    fn dying_at_any_step_leaves_the_tree_as_it_was() {
        for v2 in [false, true] {
            for (left, recorded) in (0..).flat_map(|left| [(left, false), (left, true)]) {
                let files = Imitation::cpu(v2);
                let before = files.state();
                let mut record = Dying { left, recorded, all: vec![] };
                let finished = capped(&files, "50%", &mut record).is_ok();
                for _ in 0..2 {
                    let report = undo_in(&files, &record.all);
                    assert!(report.failed.is_empty() && report.notes.is_empty(), "{report:?}");
                    assert!(files.state() == before, "v2 {v2}, step {left}, recorded {recorded}");
                }
                if finished {
                    assert!(left >= 2 + usize::from(v2), "only {left} steps");
                    break;
                }
            }
        }
    }

    #[test]
    fn what_was_forked_in_a_group_goes_home_in_its_own_hierarchy() {
        const CHILD: u32 = 4_000_001;
        let files = Imitation::cpu(false);
        let process = crate::sched::Thread::of(std::process::id()).unwrap();
        // The same process was moved in another hierarchy before.
        let (back_to, from) = (Path::new("/other/home/cgroup.procs").into(), Path::new("/other/giusto.rest").into());
        let mut record = vec![crate::Undo::Place { process, back_to, from }];
        let quota = capped(&files, "50%", &mut record).unwrap();
        files.enter(CHILD, &quota.group.folder);
        let report = undo_in(&files, &record[1..]);
        assert!(report.failed.is_empty(), "{report:?}");
        assert_eq!(files.home_of(CHILD), Path::new(ROOT).join("system"));
    }
}
