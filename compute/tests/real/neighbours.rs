//! Cpusets of others: empty ones are never in the way, tasks run on elsewhere, and all of it is as it was.

use crate::actors::Actor;
use crate::parts::{assert_same, core, cpusets, die_at_every_step, Record, Stage};
use crate::snapshot::Snapshot;
use giusto_compute::{probe, sched, Cpusets, Error, Isolated, Keeps};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

type Named = (&'static str, fn());

pub(crate) const ALL: [Named; 6] = [
    ("what_others_left_empty_gives_the_core_away_and_gets_it_back", left_empty),
    ("what_others_left_empty_for_themselves_gives_the_core_away_too", left_exclusive),
    ("tasks_beside_the_core_run_on_elsewhere_and_return", used),
    ("tasks_without_another_core_are_told_and_nothing_changes", refused),
    ("who_dies_slowly_beside_others_does_not_hold_the_cores", slow_deaths),
    ("dying_at_every_step_beside_cpusets_of_others_is_undone", deaths),
];

/// Cpusets as others would make them; they go at the end, whatever happens.
#[derive(Default)]
pub(crate) struct Groups {
    made: Vec<PathBuf>,
    /// Where the controller was not passed on before (v2).
    passed_on: Vec<PathBuf>,
}

impl Groups {
    /// Made one after the other, each with its cores.
    fn new(groups: &[(&str, &str)]) -> Groups {
        let mut all = Groups::default();
        groups.iter().for_each(|(name, cores)| all.make(name, cores));
        all
    }

    /// Empty ones of Docker, a kubelet and libvirt.
    fn empty() -> Groups {
        let (every, last) = (every(), core().to_string());
        Groups::new(&[
            ("docker", &every),
            ("docker/3f2a9c", &last),
            ("kubepods", &every),
            ("kubepods/besteffort", &every),
            ("kubepods/besteffort/pod7d1", &last),
            ("machine", &last),
        ])
    }

    fn make(&mut self, name: &str, cores: &str) {
        let folder = at(name);
        if matches!(cpusets(), Cpusets::V2(_)) {
            self.pass_on(folder.parent().unwrap());
        }
        fs::create_dir(&folder).unwrap();
        self.made.push(folder.clone());
        if matches!(cpusets(), Cpusets::V1(_)) {
            fs::write(folder.join("cpuset.mems"), read(&cpusets().root().join("cpuset.mems"))).unwrap();
        }
        fs::write(folder.join("cpuset.cpus"), cores).unwrap();
    }

    /// Children have cpusets only where their parent passes the controller on.
    fn pass_on(&mut self, folder: &Path) {
        let control = folder.join("cgroup.subtree_control");
        if !read(&control).split_whitespace().any(|controller| controller == "cpuset") {
            fs::write(&control, "+cpuset").unwrap();
            self.passed_on.push(control);
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            for pid in fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default().lines() {
                let _ = fs::write(cpusets().root().join("cgroup.procs"), pid);
            }
            let _ = fs::remove_dir(folder);
        }
        for control in self.passed_on.iter().rev() {
            let _ = fs::write(control, "-cpuset");
        }
    }
}

/// A cpuset of these tests; the outermost has a name of its own.
fn at(name: &str) -> PathBuf {
    cpusets().root().join(format!("real-tests-{name}"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap().trim().to_string()
}

fn cores(name: &str) -> String {
    read(&at(name).join("cpuset.cpus"))
}

/// All cores of the machine, as the kernel writes them.
fn every() -> String {
    let name = if matches!(cpusets(), Cpusets::V1(_)) { "cpuset.cpus" } else { "cpuset.cpus.effective" };
    read(&cpusets().root().join(name))
}

/// Isolates the last core, looks, and undoes it: all must be as before.
fn isolated(processes: &[u32], look: &dyn Fn()) {
    let before = Snapshot::take(cpusets().root(), processes);
    for turn in 0..2 {
        let mut record = Record::default();
        Isolated::new(&cpusets(), &[core()], &mut record).unwrap();
        look();
        record.assert_undone();
        record.assert_undone(); // twice does no harm
        assert_same(&before, processes, &format!("turn {turn}"));
    }
}

fn lists_the_core(name: &str) -> bool {
    cores(name).split([',', '-']).any(|number| number == core().to_string())
}

fn left_empty() {
    let _groups = Groups::empty();
    isolated(&[], &|| {
        for outer in ["docker", "kubepods", "machine"] {
            assert!(!lists_the_core(outer), "{outer}: {}", cores(outer));
        }
    });
}

/// Exclusive ones (v1) and partitions (v2), one in the other.
fn left_exclusive() {
    let last = core().to_string();
    let _groups = Groups::new(&[("machine", &last), ("machine/qemu-1", &last)]);
    let (file, yes, no) = match cpusets() {
        Cpusets::V1(_) => ("cpuset.cpu_exclusive", "1", "0"),
        Cpusets::V2(_) => ("cpuset.cpus.partition", "root", "member"),
    };
    for name in ["machine", "machine/qemu-1"] {
        fs::write(at(name).join(file), yes).unwrap();
        assert_eq!(read(&at(name).join(file)), yes);
    }
    isolated(&[], &|| assert_eq!((cores("machine"), read(&at("machine").join(file))), (String::new(), no.into())));
}

fn used() {
    let sleepers = [Actor::new("sleeper"), Actor::new("sleeper"), Actor::new("worker"), Actor::new("sleeper")];
    let ids = sleepers.each_ref().map(Actor::pid);
    let (every, last) = (every(), core().to_string());
    // Under v2 one further below may have that core alone: it runs on what is left to those above it.
    let pinned = if matches!(cpusets(), Cpusets::V1(_)) { &every } else { &last };
    let groups = [("batch.slice", &every), ("docker", &every), ("docker/3f2a9c", &every), ("docker/77ab01", pinned)];
    let _groups = Groups::new(&groups.map(|(name, cores)| (name, &cores[..])));
    for (pid, name) in ids.iter().zip(["batch.slice", "docker/3f2a9c", "docker/3f2a9c", "docker/77ab01"]) {
        fs::write(at(name).join("cgroup.procs"), pid.to_string()).unwrap();
    }
    // Masks of their own, of one of which nothing is left meanwhile.
    sched::set_affinity(ids[0], &[core()]).unwrap();
    sched::set_affinity(ids[1], &[0]).unwrap();
    isolated(&ids, &|| {
        for pid in ids {
            let now = sched::affinity(pid).unwrap();
            assert!(!now.is_empty() && !now.contains(&core()), "{pid} runs on {now:?}");
        }
        assert!(!lists_the_core("batch.slice") && !lists_the_core("docker"));
    });
}

fn refused() {
    let sleeper = Actor::new("sleeper");
    let last = core().to_string();
    let _groups = Groups::new(&[("vm", &last)]);
    fs::write(at("vm").join("cgroup.procs"), sleeper.pid().to_string()).unwrap();
    let before = Snapshot::take(cpusets().root(), &[sleeper.pid()]);
    let mut record = Record::default();
    let told = Isolated::new(&cpusets(), &[core()], &mut record).unwrap_err();
    println!("  {told}");
    let Error::CoreTaken { core: found, cpuset, why: Keeps::OnlyCores, .. } = &told else { panic!("{told}") };
    assert_eq!((*found, cpuset), (core(), &at("vm")));
    let held = probe().held;
    assert!(held.iter().any(|held| held.cores == [core()] && held.why == told.to_string()), "{held:?}");
    record.assert_undone();
    assert_same(&before, &[sleeper.pid()], "after a refusal");
}

/// Within its end, which takes tens of milliseconds, it gets a thousandth of the only core that is left.
fn slow_deaths() {
    let memory = "import time\nall = b'x' * (400 << 20)\nprint('ready', flush=True)\ntime.sleep(1000)";
    let mut dying = Actor::of(Command::new("python3").args(["-c", memory]));
    assert_eq!(dying.line().as_deref(), Some("ready"));
    let hogs = [Actor::new("hog"), Actor::new("hog")];
    for pid in hogs.each_ref().map(Actor::pid).into_iter().chain([dying.pid()]) {
        sched::set_affinity(pid, &[0]).unwrap();
    }
    let mut record = Record::default();
    Isolated::new(&cpusets(), &[core()], &mut record).unwrap();
    dying.kill();
    thread::sleep(Duration::from_millis(20)); // it is within its end
    sched::set(dying.pid(), &sched::Attr::of_policy(sched::IDLE, 0)).unwrap();
    record.assert_undone();
}

fn deaths() {
    let sleeper = Actor::new("sleeper");
    let mut groups = Groups::empty();
    groups.make("batch.slice", &every());
    fs::write(at("batch.slice/cgroup.procs"), sleeper.pid().to_string()).unwrap();
    die_at_every_step(&mut Stage::new());
}
