//! The state of the machine that must come back, read without the room's own code where there is another way.

use giusto_compute::sched::{self, Attr};
use std::path::Path;
use std::process::Command;
use std::sync::{mpsc, Mutex};
use std::{fs, thread};

/// Lines of text, each a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot(Vec<String>);

impl Snapshot {
    /// All threads of `processes`, all files of the cpuset tree, and the free deadline bandwidth.
    pub(crate) fn take(tree: &Path, processes: &[u32]) -> Snapshot {
        let mut facts = Vec::new();
        for &pid in processes {
            for tid in sched::threads(pid) {
                let read = |file: &str| fs::read_to_string(format!("/proc/{tid}/{file}")).unwrap_or_default();
                let status = read("status");
                let cores = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap_or("gone");
                let policy = Command::new("chrt").args(["-p", &tid.to_string()]).output().unwrap().stdout;
                let attributes = String::from_utf8_lossy(&policy).replace('\n', "; ");
                let nice = read("stat").rsplit_once(')').map(|(_, rest)| rest.split(' ').nth(17).map(String::from));
                facts.push(format!(
                    "{tid}: {cores}; nice {nice:?}; {attributes}; {}",
                    read("cgroup").replace('\n', " ")
                ));
            }
        }
        files(tree, &mut facts);
        facts.push(format!("twentieths of a core that can be reserved: {}", free_twentieths()));
        facts.push(format!("the kernel's sum: {}", kernel_sum()));
        Snapshot(facts)
    }

    /// What differs, for people; empty if nothing.
    pub(crate) fn difference(&self, other: &Snapshot) -> Vec<String> {
        let gone = self.0.iter().filter(|fact| !other.0.contains(fact)).map(|fact| format!("- {fact}"));
        let new = other.0.iter().filter(|fact| !self.0.contains(fact)).map(|fact| format!("+ {fact}"));
        gone.chain(new).collect()
    }
}

fn files(folder: &Path, facts: &mut Vec<String>) {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        if path.is_dir() {
            facts.push(format!("{}/", path.display()));
            files(&path, facts);
        } else if name.starts_with("cpuset.") && name != "cpuset.memory_pressure" || name == "cgroup.subtree_control" {
            facts.push(format!("{}: {:?}", path.display(), fs::read_to_string(&path).map_err(|error| error.kind())));
        }
    }
}

/// Threads reserve 5 % each until the kernel refuses one.
fn free_twentieths() -> usize {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        let closed = gate.lock().unwrap();
        let (tell, told) = mpsc::channel();
        let mut admitted = 0;
        loop {
            let (tell, gate) = (tell.clone(), &gate);
            scope.spawn(move || {
                let _ = tell.send(sched::set(0, &Attr::deadline(500_000, 10_000_000)).is_ok());
                drop(gate.lock());
                let _ = sched::leave(0, &Attr::default());
            });
            if !told.recv().unwrap() {
                break;
            }
            admitted += 1;
        }
        drop(closed);
        admitted
    })
}

/// `total_bw` of every root domain, where debugfs can be read (mounted for this one command's eyes only).
fn kernel_sum() -> String {
    let script = "mount -t debugfs none /sys/kernel/debug && grep -ah total_bw /sys/kernel/debug/sched/debug";
    let output = Command::new("unshare").args(["--mount", "sh", "-c", script]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).to_string()).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
