//! On this machine's own tree where this is root; the reading of mount tables everywhere.

use super::*;
use std::process::{Child, Command};

const V2: Tree = Tree { root: PathBuf::new(), is_v2: true };

#[test]
fn the_v2_tree_is_preferred_and_v1s_freezer_is_the_other_one() {
    let hybrid = "cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    assert_eq!(Tree::of(hybrid), Some(Tree { root: "/sys/fs/cgroup/unified".into(), ..V2 }));
    let v1 = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/freezer cgroup rw,relatime,freezer 0 0\n";
    assert_eq!(Tree::of(v1), Some(Tree { root: "/sys/fs/cgroup/freezer".into(), is_v2: false }));
    assert_eq!(Tree::of("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\nproc /proc proc rw 0 0\n"), None);
}

/// Both trees of this machine, where groups can be made in them.
fn trees() -> Vec<Tree> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let v1: String =
        mounts.lines().filter(|line| !line.contains(" cgroup2 ")).map(|line| format!("{line}\n")).collect();
    let both = [Tree::of(&mounts), Tree::of(&v1)].into_iter().flatten();
    let can = |tree: &Tree| {
        let group = tree.group(format!("giusto.test.{}.try", std::process::id()));
        group.make().and_then(|()| group.remove()).is_ok()
    };
    both.filter(can).collect()
}

struct Removed(Cgroup);

impl Drop for Removed {
    fn drop(&mut self) {
        self.0.end(Duration::ZERO).unwrap();
        assert!(!self.0.exists());
    }
}

fn group(tree: &Tree, name: &str) -> Removed {
    let group = tree.group(format!("giusto.test.{}.{name}", std::process::id()));
    group.make().unwrap();
    Removed(group)
}

/// In the group from its first instruction.
fn start(group: &Cgroup, script: &str) -> Child {
    let mut command = Command::new("sh");
    let folder = group.folder().join("cgroup.procs");
    let enter = move || write(&folder, "0");
    // SAFETY: a test; one thread of the child.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command.args(["-c", script]), enter) }.spawn().unwrap()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn who_forks_twice_makes_a_session_or_is_an_orphan_stays_a_member_and_ends() {
    for tree in trees() {
        let group = group(&tree, "escape");
        let mut child = start(&group.0, "(setsid sleep 1000 &) ; setsid sh -c 'sleep 1000 & sleep 1000 &'; exit 0");
        child.wait().unwrap();
        until("three orphans", || group.0.processes().len() == 3);
        let all = group.0.processes();
        assert!(all.iter().all(|&pid| tree.of_process(pid) == Some(group.0.clone())));
        group.0.kill().unwrap();
        assert!(group.0.is_empty(), "{:?}", group.0.processes());
    }
}

#[test]
fn who_forks_all_the_time_ends() {
    for tree in trees() {
        let group = group(&tree, "breeds");
        // Each ends as it has begun another one, in a session of its own: there is never one to aim at.
        let chain = "while True:\n  if os.fork(): os._exit(0)\n  os.setsid()";
        let script = format!("import os\nfor i in range(20):\n if os.fork() == 0:\n  {}", chain.replace('\n', "\n  "));
        let mut child = start(&group.0, &format!("exec python3 -c '{script}'"));
        child.wait().unwrap();
        until("many", || group.0.processes().len() > 10);
        group.0.kill().unwrap();
        assert!(group.0.is_empty(), "{:?}", group.0.processes());
    }
}

/// Freeing its memory takes it tens of milliseconds, of which it gets a thousandth beside the others.
#[test]
fn who_dies_at_the_idle_class_beside_others_is_gone_soon() {
    for tree in trees() {
        let group = group(&tree, "idle");
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let script =
            format!("import time\nall = b'x' * (400 << 20)\nopen('{}', 'w')\ntime.sleep(1000)", ready.display());
        let mut child = start(&group.0, &format!("exec chrt --idle 0 taskset -c 0 python3 -c \"{script}\""));
        until("it has its memory", || ready.exists());
        let hog = || Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn().unwrap();
        let mut hogs = [hog(), hog()];
        let killed = group.0.kill(); // within five seconds
        for hog in &mut hogs {
            hog.kill().unwrap();
            hog.wait().unwrap();
        }
        killed.unwrap();
        child.wait().unwrap();
    }
}

/// As one of root may, told to end.
#[test]
fn a_member_that_leaves_as_it_is_asked_to_end_ends() {
    for tree in trees() {
        let group = group(&tree, "leaves");
        let leave = format!("echo $$ > {}/cgroup.procs", tree.root().display());
        let mut child = start(&group.0, &format!("trap '{leave}' TERM; trap : CONT; while :; do sleep 0.01; done"));
        until("a shell that traps", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
            u64::from_str_radix(caught, 16).unwrap() >> 14 & 1 == 1
        });
        let asked = group.0.ask_to_end();
        until("it has left", || group.0.is_empty());
        group.0.end_by(asked, Instant::now() + Duration::from_millis(300)).unwrap();
        until("it has ended", || child.try_wait().unwrap().is_some());
    }
}

#[test]
fn stopped_members_do_not_run_are_asked_to_end_and_do() {
    for tree in trees() {
        let group = group(&tree, "frozen");
        let folder = tempfile::tempdir().unwrap();
        let said = folder.path().join("said");
        let script = format!("trap 'echo bye >{}; exit' TERM; while :; do sleep 0.01; done", said.display());
        let mut child = start(&group.0, &script);
        until("it runs", || !group.0.is_empty());
        std::thread::sleep(Duration::from_millis(100)); // its trap is set by then
        group.0.freeze(true).unwrap();
        assert!(group.0.is_frozen());
        group.0.end(Duration::from_secs(20)).unwrap();
        child.wait().unwrap();
        assert_eq!(std::fs::read_to_string(said).unwrap().trim(), "bye");
        group.0.make().unwrap(); // for the one who removes it
    }
}

#[test]
fn groups_that_members_made_below_it_belong_to_it() {
    for tree in trees() {
        let group = group(&tree, "below");
        let inner = Cgroup::at(group.0.folder().join("inner"));
        inner.make().unwrap();
        let mut child = start(&inner, "exec sleep 1000");
        until("it runs", || group.0.processes().len() == 1);
        group.0.end(Duration::from_millis(1)).unwrap();
        assert!(!inner.exists() && !group.0.exists());
        child.wait().unwrap();
        group.0.make().unwrap();
    }
}

#[test]
fn what_has_ended_is_still_in_the_account() {
    for tree in trees().iter().filter(|tree| tree.is_v2()) {
        let group = group(tree, "used");
        let mut child = start(&group.0, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done");
        child.wait().unwrap();
        assert!(group.0.usage_ns().unwrap() > 0);
        assert!(group.0.is_empty());
    }
}

/// A member that SIGKILL does not end before this is dropped, as if it were within the kernel: v1's freezer holds it, either
/// by the group above its own or, of a v2 group, beside it. `None`: this machine cannot.
struct Stuck {
    freezer: Cgroup,
    group: Cgroup,
    child: Child,
}

impl Stuck {
    fn new(tree: &Tree) -> Option<Stuck> {
        let v1 = trees().into_iter().find(|tree| !tree.is_v2())?;
        let freezer = v1.group(format!("giusto.test.{}.ice", std::process::id()));
        freezer.make().unwrap();
        let group = match tree.is_v2() {
            true => tree.group(format!("giusto.test.{}.stuck", std::process::id())),
            false => Cgroup::at(freezer.folder().join("stuck")),
        };
        group.make().unwrap();
        let child = start(&group, "exec sleep 1000");
        until("it runs", || group.processes() == [child.id()]);
        if tree.is_v2() {
            freezer.enter(child.id()).unwrap();
        }
        freezer.freeze(true).unwrap();
        Some(Stuck { freezer, group, child })
    }

    fn let_go(&mut self) {
        let _ = self.freezer.freeze(false);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.let_go();
        let _ = self.group.end(Duration::ZERO);
        let _ = self.freezer.end(Duration::ZERO);
    }
}

#[test]
fn a_member_that_cannot_end_is_told_in_time_and_ends_when_it_can() {
    for tree in trees() {
        let Some(mut stuck) = Stuck::new(&tree) else { continue };
        let begun = Instant::now();
        let error = stuck.group.end(Duration::from_millis(100)).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        assert!(error.to_string().contains(&stuck.child.id().to_string()), "{error}");
        stuck.let_go();
        stuck.group.end(Duration::ZERO).unwrap();
        assert!(!stuck.group.exists());
    }
}

/// As after the failure of a service that a mode has stopped: what is started again in it stands still.
#[test]
fn a_group_that_was_told_to_stop_stays_so_when_its_members_are_killed() {
    for tree in trees() {
        let group = group(&tree, "told");
        let mut child = start(&group.0, "while :; do sleep 0.01; done");
        until("it runs", || !group.0.is_empty());
        group.0.freeze(true).unwrap();
        group.0.kill_now();
        until("they have ended", || group.0.is_empty());
        child.wait().unwrap();
        assert!(group.0.is_frozen(), "{tree:?}");
        let folder = tempfile::tempdir().unwrap();
        let ran = folder.path().join("ran");
        let mut next = Command::new("sh");
        next.args(["-c", &format!("read go; touch {}; exec sleep 1000", ran.display())]);
        let mut next = next.stdin(std::process::Stdio::piped()).spawn().unwrap();
        group.0.enter(next.id()).unwrap();
        drop(next.stdin.take());
        std::thread::sleep(Duration::from_millis(100));
        assert!(!ran.exists(), "{tree:?}");
        group.0.freeze(false).unwrap();
        until("it goes on with the group", || ran.exists());
        group.0.kill().unwrap();
        next.wait().unwrap();
    }
}
