//! The backends `rt-group` and `quota` on this machine's cpu hierarchy: in force, changed, and everything as before.

use crate::actors::{server, Actor};
use giusto_compute::{sched, undo, Error, Quota, Recorder, RtGroup, Undo};
use giusto_model::{Bandwidth, Duration};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, io, thread};

pub(crate) const RT_GROUP: [(&str, fn()); 3] = [
    ("a_real_time_group_supplies_its_budget_and_everything_is_as_before_afterwards", in_force),
    ("groups_that_do_not_fit_together_are_refused_and_shrinking_makes_room", together),
    ("who_is_born_in_a_real_time_group_is_taken_in_or_goes_home_unbound", born),
];

pub(crate) const QUOTA: [(&str, fn()); 1] = [("a_quota_caps_and_everything_is_as_before_afterwards", capped)];

/// The last core.
fn core() -> u32 {
    *giusto_compute::probe().cores.last().unwrap()
}

/// Policy, affinity and groups of all threads of `processes`, and all groups of the cpu hierarchy with what they give.
fn facts(processes: &[u32]) -> Vec<String> {
    let mut facts = Vec::new();
    for tid in processes.iter().flat_map(|&pid| sched::threads(pid)) {
        let cgroup = fs::read_to_string(format!("/proc/{tid}/cgroup")).unwrap_or_default();
        facts.push(format!("{tid}: {:?} {:?} {cgroup}", sched::get(tid).ok(), sched::affinity(tid).ok()));
    }
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let rows = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let has_cpu = |row: &Vec<&str>| row[2] == "cgroup2" || row[2] == "cgroup" && row[3].split(',').any(|o| o == "cpu");
    rows.filter(has_cpu).for_each(|row| groups(Path::new(row[1]), &mut facts));
    facts
}

fn groups(folder: &Path, facts: &mut Vec<String>) {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().to_string();
        if path.is_dir() {
            facts.push(format!("{}/", path.display()));
            groups(&path, facts);
        } else if matches!(&*name, "cgroup.subtree_control" | "cpu.max")
            || name.starts_with("cpu.rt_")
            || name.starts_with("cpu.cfs_")
        {
            facts.push(format!("{}: {:?}", path.display(), fs::read_to_string(&path).map_err(|error| error.kind())));
        }
    }
}

fn assert_same(before: &[String], processes: &[u32], context: &str) {
    let now = facts(processes);
    let gone = before.iter().filter(|fact| !now.contains(fact)).map(|fact| format!("- {fact}"));
    let new = now.iter().filter(|fact| !before.contains(fact)).map(|fact| format!("+ {fact}"));
    let difference: Vec<String> = gone.chain(new).collect();
    assert!(difference.is_empty(), "{context}:\n{}", difference.join("\n"));
}

/// What is undone whatever happens; after `left` records it dies, with one more written.
struct Record {
    all: Vec<Undo>,
    left: usize,
}

impl Record {
    fn new() -> Record {
        Record::dying(usize::MAX)
    }
    fn dying(left: usize) -> Record {
        Record { all: vec![], left }
    }
    fn assert_undone(&self) {
        for _ in 0..2 {
            let report = undo(&self.all);
            assert!(report.failed.is_empty() && report.notes.is_empty(), "{report:?}");
        }
    }
}

impl Recorder<Undo> for Record {
    fn intend(&mut self, undo: &Undo) -> io::Result<()> {
        self.all.push(undo.clone());
        self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other("died"))?;
        Ok(())
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("  undone after a failure: {:?}", undo(&self.all));
        }
    }
}

/// What a group gets of a second while it may take all, in percent. Of up to five seconds the first that is within `right`: a
/// machine that is itself virtual is stopped now and then, and a wrong share stays wrong.
fn percent(right: RangeInclusive<u64>, mut supplied: impl FnMut() -> u64) -> u64 {
    let mut second = || {
        let (start, before) = (Instant::now(), supplied());
        thread::sleep(SECOND);
        (supplied() - before) * 100 / start.elapsed().as_nanos() as u64
    };
    let mut seen = Vec::new();
    while seen.len() < 5 {
        let percent = second();
        if right.contains(&percent) {
            return percent;
        }
        seen.push(percent);
    }
    panic!("{seen:?} % instead of {right:?} %");
}

const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

fn in_force() {
    // Two threads share one budget, beside a competitor that takes every cycle.
    let (service, hog) = (Actor::new("pair"), Actor::new("hog"));
    let (ids, core) = ([service.pid()], core());
    sched::set_affinity(hog.pid(), &[core]).unwrap();
    let mut nice = sched::Attr::of_policy(3, 0); // SCHED_BATCH
    nice.nice = 5;
    sched::set(service.pid(), &nice).unwrap();
    let before = facts(&ids);
    for step in 0.. {
        // Dies at the n-th change, with its record written; the last time not at all.
        let mut record = Record::dying(step);
        let made = RtGroup::new("real-test", core, &server(20, 100), &ids, &mut record);
        if let Err(error) = made {
            assert!(matches!(error, Error::Journal(_)), "step {step}: {error}");
            record.assert_undone();
            assert_same(&before, &ids, &format!("died at step {step}"));
            continue;
        }
        assert!(step >= 6, "only {step} steps");
        let mut group = made.unwrap();
        group.check().unwrap();
        for tid in sched::threads(ids[0]) {
            let now = sched::get(tid).unwrap();
            assert_eq!((now.policy, now.priority, sched::affinity(tid).unwrap()), (sched::FIFO, 1, vec![core]));
        }
        let first = percent(10..=27, || group.supplied_ns());
        group.set(&server(50, 200)).unwrap();
        let second = percent(14..=33, || group.supplied_ns());
        group.set(&server(5, 50)).unwrap();
        // What it used of the old budget is paid back from the new ones first: 50 ms, at 5 ms in every 50 ms.
        thread::sleep(SECOND * 6 / 10);
        let third = percent(4..=16, || group.supplied_ns());
        println!("  supplied {first} % of 20 %, {second} % of 25 %, {third} % of 10 %");
        let again = RtGroup::new("real-test", core, &server(1, 100), &ids, &mut Record::new());
        assert!(matches!(again, Err(Error::Leftover(_))), "{again:?}");
        sched::set(ids[0], &sched::Attr::default()).unwrap();
        assert!(matches!(group.check(), Err(Error::Lost(tid)) if tid == ids[0]), "{:?}", group.check());
        record.assert_undone();
        assert_same(&before, &ids, "after a group in force");
        break;
    }
}

fn together() {
    let (one, other) = (Actor::new("hog"), Actor::new("hog"));
    let (ids, core) = ([one.pid(), other.pid()], core());
    let before = facts(&ids);
    let mut record = Record::new();
    let mut first = RtGroup::new("real-test-1", core, &server(30, 100), &ids[..1], &mut record).unwrap();
    let refused = RtGroup::new("real-test-2", core, &server(70, 100), &ids[1..], &mut record).unwrap_err().to_string();
    assert!(refused.contains("95 %"), "{refused}");
    // The refused one stands empty until it is undone.
    let mut second = RtGroup::new("real-test-3", core, &server(10, 100), &ids[1..], &mut record).unwrap();
    assert!(second.set(&server(70, 100)).is_err());
    first.set(&server(5, 50)).unwrap();
    second.set(&server(20, 40)).unwrap();
    for _ in 0..20 {
        // Longer and shorter periods under live real-time threads, at the edge of what fits.
        first.set(&server(60, 200)).unwrap();
        first.set(&server(1, 10)).unwrap();
    }
    first.check().unwrap();
    second.check().unwrap();
    record.assert_undone();
    assert_same(&before, &ids, "two groups");
}

fn born() {
    let (mut service, core) = (Actor::new("parent"), core());
    let before = facts(&[service.pid()]);
    let home = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let outside = (sched::affinity(service.pid()).unwrap(), home(service.pid()));
    let mut record = Record::new();
    let mut group = RtGroup::new("real-test", core, &server(20, 100), &[service.pid()], &mut record).unwrap();
    // Before the first is taken in: a child under SCHED_FIFO that never sleeps would keep its parent from running.
    service.work();
    service.work();
    let all = children(service.pid());
    let [child, other] = all[..] else { panic!("{all:?}") };
    for pid in [child, other] {
        assert_eq!(sched::affinity(pid).unwrap(), [core], "inherited");
        assert_eq!(sched::get(pid).unwrap().policy, sched::OTHER, "reset on fork");
    }
    group.take_in(&[service.pid(), child], &mut record).unwrap();
    group.check().unwrap();
    assert_eq!(sched::get(child).unwrap().policy, sched::FIFO);
    percent(10..=27, || sched::cpu_time_ns(child)); // the one that was taken in has the budget
    let both = group.supplied_ns();
    assert!(both >= sched::cpu_time_ns(other), "all members count");
    record.assert_undone();
    for pid in all {
        assert_eq!(sched::get(pid).unwrap().policy, sched::OTHER);
        assert_eq!((sched::affinity(pid).unwrap(), home(pid)), outside, "child {pid}");
    }
    assert_same(&before, &[service.pid()], "a service that forks");
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

fn capped() {
    let (service, late) = (Actor::new("pair"), Actor::new("hog"));
    let ids = [service.pid(), late.pid()];
    let before = facts(&ids);
    let share = |percent| Bandwidth::new(percent, 100).unwrap();
    let mut record = Record::new();
    let mut quota = Quota::new("real-test", share(20), Duration::from_ms(50), &ids[..1], &mut record).unwrap();
    quota.take_in(&ids[1..], &mut record).unwrap();
    let used = || ids.iter().flat_map(|&pid| sched::threads(pid)).map(sched::cpu_time_ns).sum::<u64>();
    let first = percent(1..=30, used);
    quota.set(share(50), Duration::from_ms(100)).unwrap();
    let second = percent(0..=65, used);
    // Others may leave them less than their quota for a while; a cap is seen once they have had more.
    let throttled = (0..100).find_map(|_| {
        let now = quota.throttled().unwrap();
        if now.throttled > 0 && !now.time.is_zero() {
            return Some(now);
        }
        thread::sleep(std::time::Duration::from_millis(200));
        None
    });
    let throttled = throttled.expect("they have had their quota once within 20 seconds");
    // Only the upper bound is the kernel's word: what comes late is one slice of 5 ms a core.
    println!("  used {first} % of 20 %, {second} % of 50 %; {throttled:?}");
    record.assert_undone();
    assert_same(&before, &ids, "after a quota");
}
