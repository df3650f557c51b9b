//! Cores are isolated beside what others have left, and beside what others use; all is as it was, wherever it ended.

use crate::files::Files;
use crate::imitation::{dies_everywhere, Imitation, ROOT};
use crate::neighbours::held;
use crate::undo::undo_in;
use crate::{Error, Keeps, Recorder, Undo};
use std::io;
use std::path::{Path, PathBuf};

/// A thread that is not there: its number is beyond the largest.
const TASK: u32 = 4_000_001;

/// A cpuset, its cores, and other files of it. `TASK` in `tasks` if it has one.
type Group = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const EXCLUSIVE: &[(&str, &str)] = &[("cpuset.cpu_exclusive", "1")];
const ROOT_PARTITION: &[(&str, &str)] = &[("cpuset.cpus.partition", "root")];
const USED_EXCLUSIVE: &[(&str, &str)] = &[("cpuset.cpu_exclusive", "1"), ("tasks", "")];
const USED_PARTITION: &[(&str, &str)] = &[("cpuset.cpus.partition", "isolated"), ("tasks", "")];
const TASKS: &[(&str, &str)] = &[("tasks", "")];

/// What Docker, containerd, a kubelet, libvirt and systemd leave behind.
const LEFT_V1: [Group; 15] = [
    ("docker", "0-3", &[]),
    ("docker/3f2a9c", "1-2", &[]),
    ("docker/77ab01", "1", &[]),
    ("default", "0-3", &[]), // containerd's
    ("default/redis", "2-3", &[]),
    ("kubepods", "0-3", &[]),
    ("kubepods/besteffort", "0-3", &[]),
    ("kubepods/besteffort/pod7d1", "1-3", &[]),
    ("kubepods/besteffort/pod7d1/c0ffee", "2", &[]),
    ("kubepods/burstable", "0-1", &[]),
    ("machine", "0-3", &[]),
    ("machine/qemu-1-guest.libvirt-qemu", "0-3", &[]),
    ("machine/qemu-1-guest.libvirt-qemu/vcpu0", "1", &[]),
    ("machine/qemu-1-guest.libvirt-qemu/emulator", "0", &[]),
    ("system.slice", "", &[]),
];

const LEFT_V2: [Group; 10] = [
    ("machine.slice", "0-3", &[]),
    ("machine.slice/machine-qemu.scope", "1-2", &[]),
    ("machine.slice/machine-qemu.scope/libvirt", "", &[]),
    ("machine.slice/machine-qemu.scope/libvirt/vcpu0", "1", &[]),
    ("kubepods.slice", "1", &[]),
    ("kubepods.slice/kubepods-besteffort.slice", "", &[]),
    ("docker", "0-1", &[]),
    ("docker/3f2a9c", "1", &[]),
    ("batch.slice", "2-3", &[]), // AllowedCPUs=2-3
    ("user.slice", "", &[]),
];

/// With tasks, in them or below.
const USED: [Group; 7] = [
    ("docker", "0-3", &[]),
    ("docker/3f2a9c", "1-3", TASKS),
    ("docker/77ab01", "1-2", &[]),
    ("batch.slice", "0-1", TASKS),
    ("far.slice", "3", TASKS),
    ("machine.slice", "0,2-3", TASKS),
    ("machine.slice/vm", "0,2", TASKS),
];

/// A tree with these groups beside `system`, which has tasks and, under v1, all cores.
fn tree(v2: bool, groups: &[Group]) -> Imitation {
    grown(Imitation::new(v2), v2, groups)
}

/// The same with core 0 alone for `system`, so that others can be exclusive.
fn lone(v2: bool, groups: &[Group]) -> Imitation {
    let tree = Imitation::new(v2);
    if !v2 {
        tree.write(&at("system/cpuset.cpus"), "0").unwrap();
    }
    grown(tree, v2, groups)
}

fn grown(tree: Imitation, v2: bool, groups: &[Group]) -> Imitation {
    if v2 {
        tree.write(&at("cgroup.subtree_control"), "+cpuset").unwrap();
    }
    for (number, (name, cores, others)) in groups.iter().enumerate() {
        tree.make(&at(name)).unwrap();
        if !v2 {
            tree.write(&at(name).join("cpuset.mems"), "0").unwrap();
        }
        tree.write(&at(name).join("cpuset.cpus"), cores).unwrap();
        for (file, value) in *others {
            match *file {
                "tasks" => tree.enter(TASK + number as u32, &at(name)),
                file => tree.write(&at(name).join(file), value).unwrap(),
            }
        }
    }
    tree
}

fn at(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

fn read(tree: &Imitation, name: &str) -> String {
    tree.read(&at(name)).unwrap()
}

fn cores(tree: &Imitation, name: &str) -> String {
    read(tree, &format!("{name}/cpuset.cpus"))
}

/// Isolates cores 1 and 2, and undoes it: all must be as before.
fn isolated(tree: &Imitation, look: &dyn Fn(&Imitation)) {
    let before = tree.state();
    let mut record = Vec::new();
    tree.cpusets().isolate(tree, &[1, 2], &mut record).unwrap();
    look(tree);
    let report = undo_in(tree, &record);
    assert!(report.failed.is_empty() && report.notes.is_empty(), "{report:?}");
    assert_eq!(tree.state(), before);
}

#[test]
fn empty_leftovers_are_never_in_the_way_v1() {
    isolated(&tree(false, &LEFT_V1), &|tree| {
        for (name, left) in [
            ("docker", "0,3"),
            ("docker/3f2a9c", ""),
            ("default/redis", "3"),
            ("kubepods/besteffort/pod7d1", "3"),
            ("kubepods/besteffort/pod7d1/c0ffee", ""),
            ("machine/qemu-1-guest.libvirt-qemu/vcpu0", ""),
            ("machine/qemu-1-guest.libvirt-qemu/emulator", "0"),
            ("giusto.rest", "0,3"),
        ] {
            assert_eq!(cores(tree, name), left, "{name}");
        }
        assert_eq!(read(tree, "giusto.core1/cpuset.cpu_exclusive"), "1");
    });
    let steps = dies_everywhere("leftovers", &|| tree(false, &LEFT_V1));
    assert!(steps > 16, "{steps}");
}

#[test]
fn empty_leftovers_are_never_in_the_way_v2() {
    isolated(&tree(true, &LEFT_V2), &|tree| {
        let all = ["machine.slice", "kubepods.slice", "docker", "batch.slice", "user.slice"];
        assert_eq!(all.map(|name| cores(tree, name)), ["0,3", "", "0", "3", ""]);
        assert_eq!(cores(tree, "machine.slice/machine-qemu.scope"), "1-2", "the kernel does not ask for it");
        for core in ["giusto.core1", "giusto.core2"] {
            assert_eq!(read(tree, &format!("{core}/cpuset.cpus.partition")), "root");
        }
    });
    dies_everywhere("leftovers", &|| tree(true, &LEFT_V2));
}

#[test]
fn empty_ones_that_are_exclusive_are_not_in_the_way_either() {
    let inner = [("machine", "1-3", EXCLUSIVE), ("machine/vm", "1-2", EXCLUSIVE), ("machine/vm/vcpu0", "2", EXCLUSIVE)];
    let own = [("machine", "1", EXCLUSIVE), ("other", "2", EXCLUSIVE), ("other/in", "2", &[])];
    let elsewhere = [("machine", "3", EXCLUSIVE)];
    for groups in [&inner[..], &own, &elsewhere] {
        isolated(&lone(false, groups), &|tree| {
            assert_eq!(cores(tree, "giusto.rest"), "0,3", "what they hold is nothing: {groups:?}");
            assert_eq!(read(tree, "giusto.core1/cpuset.cpu_exclusive"), "1");
        });
        dies_everywhere("exclusive", &|| lone(false, groups));
    }
}

#[test]
fn an_exclusive_one_with_tasks_keeps_its_cores_and_all_it_has() {
    let groups = [("vm", "3", USED_EXCLUSIVE), ("vm/in", "3", EXCLUSIVE)];
    isolated(&lone(false, &groups), &|tree| {
        assert_eq!((cores(tree, "giusto.rest"), cores(tree, "vm")), ("0".into(), "3".into()));
        assert_eq!(read(tree, "vm/in/cpuset.cpu_exclusive"), "1");
    });
    dies_everywhere("beside an exclusive one", &|| lone(false, &groups));
}

#[test]
fn memory_that_an_empty_one_has_for_itself_is_shared_meanwhile() {
    let make = || {
        let tree = lone(false, &[("numa", "3", &[])]);
        for (file, value) in [("cpuset.mems", "0-1"), ("numa/cpuset.mems", "1"), ("numa/cpuset.mem_exclusive", "1")] {
            tree.write(&at(file), value).unwrap();
        }
        tree
    };
    isolated(&make(), &|tree| assert_eq!(read(tree, "giusto.core1/cpuset.mems"), "0-1"));
    dies_everywhere("memory", &make);
}

#[test]
fn partitions_without_tasks_give_way() {
    let machine = [("machine.slice", "1-3", ROOT_PARTITION), ("machine.slice/vm", "1", ROOT_PARTITION)];
    let alone = [("vm", "1", &[("cpuset.cpus.partition", "isolated")][..]), ("other", "2", ROOT_PARTITION)];
    let exclusive = [("vm", "0-3", &[("cpuset.cpus.exclusive", "1-2")][..])];
    for groups in [&machine[..], &alone, &exclusive] {
        isolated(&tree(true, groups), &|tree| {
            assert_eq!(read(tree, "giusto.core1/cpuset.cpus.partition"), "root", "{groups:?}");
        });
        dies_everywhere("partitions", &|| tree(true, groups));
    }
}

#[test]
fn tasks_go_on_with_the_cores_that_they_have_left() {
    for v2 in [false, true] {
        isolated(&tree(v2, &USED), &|tree| {
            let all = ["docker", "batch.slice", "far.slice", "machine.slice"];
            assert_eq!(all.map(|name| cores(tree, name)), ["0,3", "0", "3", "0,3"], "v2 {v2}");
        });
        dies_everywhere(&format!("tasks, v2 {v2}"), &|| tree(v2, &USED));
    }
}

#[test]
fn masks_of_threads_are_on_record_before_their_cpuset_changes() {
    let tree = tree(false, &[]);
    let mut record = Vec::new();
    tree.cpusets().isolate(&tree, &[1], &mut record).unwrap();
    let own = |undo: &Undo| matches!(undo, Undo::Affinity { thread, .. } if thread.tid == std::process::id());
    let file = |undo: &Undo| matches!(undo, Undo::File { path, .. } if *path == at("system/cpuset.cpus"));
    let place = |what: &dyn Fn(&Undo) -> bool| record.iter().position(what).unwrap();
    assert!(place(&own) < place(&file), "{record:?}");
}

#[test]
fn tasks_that_cannot_do_without_a_core_are_named_before_anything_is_changed() {
    let of = |why: Keeps| match why {
        Keeps::OnlyCores => "no other core: write another one to its cpuset.cpus",
        Keeps::Exclusive => "is exclusive: write 0 to its cpuset.cpu_exclusive",
        Keeps::Partition => "is a partition: write member to its cpuset.cpus.partition",
    };
    let cases: [(bool, &[Group], Keeps, usize); 6] = [
        (false, &[("vm", "2", TASKS)], Keeps::OnlyCores, 1),
        (true, &[("vm", "2", TASKS)], Keeps::OnlyCores, 1),
        (
            false,
            &[("docker", "0-3", TASKS), ("docker/vm", "1-2", &[]), ("docker/vm/in", "1", TASKS)],
            Keeps::OnlyCores,
            1,
        ),
        (true, &[("vm", "1-2", TASKS), ("vm/in", "3", TASKS)], Keeps::OnlyCores, 2),
        (false, &[("vm", "2-3", USED_EXCLUSIVE)], Keeps::Exclusive, 1),
        (true, &[("vm", "2-3", USED_PARTITION)], Keeps::Partition, 1),
    ];
    for (v2, groups, why, count) in cases {
        let tree = lone(v2, groups);
        let before = tree.state();
        let mut record = Vec::new();
        let told = tree.cpusets().isolate(&tree, &[1, 2], &mut record).unwrap_err();
        let Error::CoreTaken { core, cpuset, tasks, why: found } = &told else { panic!("{told}") };
        assert_eq!((*tasks, *found), (count, why), "{told}");
        assert!([1, 2].contains(core) && cpuset.to_string_lossy().contains("vm"), "{told}");
        let text = told.to_string();
        assert!(text.contains(of(why)) && text.contains("or give Giusto other cores"), "{text}");
        assert_eq!((tree.state(), record), (before, vec![]));
    }
}

#[test]
fn a_partition_with_tasks_beside_the_cores_is_left_alone() {
    let groups = [("vm", "3", USED_PARTITION), ("docker", "0-2", TASKS)];
    isolated(&tree(true, &groups), &|tree| {
        assert_eq!((cores(tree, "vm"), cores(tree, "docker")), ("3".into(), "0".into()));
        assert_eq!(read(tree, "vm/cpuset.cpus.partition"), "isolated");
    });
}

#[test]
fn what_cannot_be_given_away_is_told_as_the_smallest_sets_of_cores() {
    let groups = [("a", "1-2", TASKS), ("b", "3", USED_EXCLUSIVE), ("c", "1", &[]), ("d", "0", EXCLUSIVE)];
    let tree = Imitation::new(false);
    tree.remove(&at("system")).unwrap_err(); // it has this process
    tree.write(&at("system/cpuset.cpus"), "1").unwrap();
    let found = held(&grown(tree, false, &groups), &crate::Cpusets::V1(ROOT.into()));
    let sets: Vec<&[u32]> = found.iter().map(|held| &held.cores[..]).collect();
    assert_eq!(sets, [&[1, 2][..], &[3], &[1]], "{found:?}");
    assert!(found[1].why.starts_with("core 3 is held by cpuset /cg/b, which has 1 task and is exclusive"), "{found:?}");
}

/// Does something to the tree when a change of this file is on record, before it is made.
struct Meddler<'t> {
    tree: &'t Imitation,
    when: PathBuf,
    what: fn(&Imitation),
    all: Vec<Undo>,
}

impl Recorder<Undo> for Meddler<'_> {
    fn intend(&mut self, undo: &Undo) -> io::Result<()> {
        let (Undo::File { path, .. } | Undo::Folder(path)) = undo else { return self.all.intend(undo) };
        if *path == self.when {
            (self.what)(self.tree);
        }
        self.all.intend(undo)
    }
}

#[test]
fn a_cpuset_that_goes_meanwhile_is_no_error_and_one_that_comes_stays() {
    for v2 in [false, true] {
        let groups: [Group; 2] = [("docker", "0-3", TASKS), ("docker.old", "1", &[])];
        let tree = tree(v2, &groups);
        let when = at("docker.old/cpuset.cpus");
        let what: fn(&Imitation) = |tree| tree.remove(&at("docker.old")).unwrap();
        let mut record = Meddler { tree: &tree, when, what, all: vec![] };
        tree.cpusets().isolate(&tree, &[1, 2], &mut record).unwrap();
        // A container that is started meanwhile gets what its parent has then.
        tree.make(&at("docker/new")).unwrap();
        tree.write(&at("docker/new/cpuset.cpus"), "0,3").unwrap();
        let report = undo_in(&tree, &record.all);
        assert!(report.failed.is_empty(), "{report:?}");
        assert_eq!((cores(&tree, "docker"), cores(&tree, "docker/new")), ("0-3".into(), "0,3".into()), "v2 {v2}");
        assert!(!tree.is_folder(&at("docker.old")));
    }
}

#[test]
fn a_cpuset_that_takes_the_core_meanwhile_is_an_error_with_the_kernels_reason() {
    for (v2, reason) in [(false, "another cpuset holds this core"), (true, "root invalid")] {
        let tree = tree(v2, &[("vm", "0", &[])]);
        let before = tree.state();
        let what: fn(&Imitation) = |tree| tree.write(&at("vm/cpuset.cpus"), "1").unwrap();
        let mut record = Meddler { tree: &tree, when: at("giusto.core1"), what, all: vec![] };
        let refused = tree.cpusets().isolate(&tree, &[1], &mut record).unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
        assert!(undo_in(&tree, &record.all).failed.is_empty());
        tree.write(&at("vm/cpuset.cpus"), "0").unwrap();
        assert_eq!(tree.state(), before);
    }
}
