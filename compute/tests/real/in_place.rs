//! The backend `manager` under cgroup v2: below the cgroups of what it manages.

use crate::actors::Actor;
use crate::managed::{managed, near, server, Stage};
use giusto_compute::manager::Order;
use giusto_model::{Cap, ServerKind};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const ALL: [(&str, fn()); 1] =
    [("what_is_adopted_stays_within_the_limits_of_its_cgroup_and_may_come_in_another_one", in_place)];

/// A cgroup as a container's runtime makes it, with at most `pids` processes and threads.
struct Container(PathBuf);

impl Container {
    fn new(name: &str, pids: u32, actor: &Actor) -> Container {
        let root = Path::new("/sys/fs/cgroup");
        fs::write(root.join("cgroup.subtree_control"), "+pids").unwrap();
        let folder = root.join(format!("real-{name}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("pids.max"), pids.to_string()).unwrap();
        fs::write(folder.join("cgroup.procs"), actor.pid().to_string()).unwrap();
        Container(folder)
    }

    fn has(&self, actor: &Actor) -> bool {
        Path::new(place(actor).trim().trim_start_matches("0::"))
            .starts_with(Path::new("/").join(self.0.file_name().unwrap()))
    }

    /// As a runtime removes it, with what is below it.
    fn remove(self) {
        for entry in fs::read_dir(&self.0).unwrap().flatten().filter(|entry| entry.file_type().unwrap().is_dir()) {
            fs::remove_dir(entry.path()).unwrap();
        }
        fs::remove_dir(&self.0).unwrap();
    }
}

/// The cgroup of an actor, as the kernel tells it.
fn place(actor: &Actor) -> String {
    fs::read_to_string(format!("/proc/{}/cgroup", actor.pid())).unwrap()
}

/// A service of two containers, one of which is made anew, and one of no container.
fn in_place() {
    let mut actors: Vec<Actor> = (0..3).map(|_| Actor::new("hog")).collect();
    let [one, other] = ["one", "other"].map(|name| Container::new(name, 10, &actors[usize::from(name == "other")]));
    let before: Vec<_> = actors.iter().map(place).collect();
    let mut stage = Stage::new(Order::Edf);
    let all: Vec<u32> = actors.iter().map(Actor::pid).collect();
    let managed = managed("whole", server(ServerKind::ConstantBandwidth, 6, 20), Cap::Hard);
    let mut handle = stage.manager.add(&managed, &all, &mut stage.record).unwrap();
    near(&stage.manager, 1_000, &[0.3], 0.02, "three in three cgroups");
    assert!(one.has(&actors[0]) && other.has(&actors[1]) && !one.has(&actors[2]) && !other.has(&actors[2]));
    assert_eq!(fs::read_to_string(one.0.join("pids.current")).unwrap().trim(), "1", "its limit counts it");
    // The first one ends, and its container is made anew, elsewhere, while the server is in force.
    drop(actors.remove(0));
    one.remove();
    let new = Actor::new("hog");
    let again = Container::new("again", 10, &new);
    stage.manager.take_in(&mut handle, &[new.pid()], &mut stage.record).unwrap();
    near(&stage.manager, 1_000, &[0.3], 0.02, "one came in a new container");
    assert!(again.has(&new) && other.has(&actors[0]));
    // The others rest: what has come is stopped at the end of its budget, and so is a process that its container starts.
    let later = Actor::new("hog");
    fs::write(again.0.join("cgroup.procs"), later.pid().to_string()).unwrap();
    let came = place(&later);
    stage.manager.take_in(&mut handle, &[later.pid()], &mut stage.record).unwrap();
    assert_eq!(place(&later), place(&new), "one cgroup of the server in each of the container");
    drop(actors.remove(0));
    near(&stage.manager, 1_000, &[0.3], 0.02, "two in the new container, one outside");
    let back =
        || assert_eq!((place(&later), place(&actors[0])), (came.clone(), before[2].clone()), "each is where it was");
    stage.manager.let_go(handle).unwrap();
    back();
    // Once more, and nothing lets them go: what is on record does.
    stage.manager.add(&managed, &[new.pid(), later.pid(), actors[0].pid()], &mut stage.record).unwrap();
    assert_eq!(place(&later), place(&new));
    stage.undone();
    back();
    drop((actors, new, later));
    other.remove();
    again.remove();
}
