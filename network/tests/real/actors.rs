//! This program in another role, as a process that is killed.

use crate::stage::inside;
use giusto_model::NetworkPlan;
use giusto_network::{undo, Network, Recorder, Undo};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(crate) const ROLES: [&str; 4] = ["apply", "keep", "undo", "nobody"];

/// Starts this program as another process, in a role, in a namespace.
pub(crate) fn start(role: &str, namespace: &str, folder: &Path, rest: &[&str]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([role, namespace]).arg(folder).args(rest).stdout(Stdio::piped());
    command.spawn().unwrap()
}

pub(crate) fn play(role: &str, words: &[String]) {
    let (namespace, folder) = (&words[0], PathBuf::from(&words[1]));
    inside(namespace, || match role {
        "apply" => apply(&folder, words[2].parse().unwrap(), words[3] == "recorded"),
        "keep" => keep(&folder),
        "undo" => assert_eq!(undo(&records(&folder)).failed, Vec::<String>::new()),
        _ => nobody(&folder),
    });
}

/// Writes the plan where actors read it, and begins with no records.
pub(crate) fn prepare(folder: &Path, plan: &NetworkPlan) {
    fs::write(folder.join("plan.json"), serde_json::to_vec(plan).unwrap()).unwrap();
    let _ = fs::remove_file(folder.join("records"));
}

fn plan(folder: &Path) -> NetworkPlan {
    serde_json::from_slice(&fs::read(folder.join("plan.json")).unwrap()).unwrap()
}

/// What an actor has written down; a line that its death has cut was not acted upon.
pub(crate) fn records(folder: &Path) -> Vec<Undo> {
    let text = fs::read_to_string(folder.join("records")).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Records in a file, and kills this process at a record.
struct Suicidal {
    file: File,
    /// How many are still to be written; `None`: it lives on.
    left: Option<u32>,
    /// Dies when the record is written and the change is not made; else when the change is made and the next is not recorded.
    recorded: bool,
}

impl Suicidal {
    fn new(folder: &Path, left: Option<u32>, recorded: bool) -> Suicidal {
        let file = File::options().create(true).append(true).open(folder.join("records")).unwrap();
        Suicidal { file, left, recorded }
    }

    fn die() {
        // SAFETY: plain system calls.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        std::thread::sleep(Duration::from_secs(10));
    }
}

impl Recorder<Undo> for Suicidal {
    fn intend(&mut self, undo: &Undo) -> io::Result<()> {
        if self.left == Some(0) {
            Suicidal::die();
        }
        self.left = self.left.map(|left| left - 1);
        self.file.write_all(format!("{}\n", serde_json::to_string(undo)?).as_bytes())?;
        if self.left == Some(0) && self.recorded {
            Suicidal::die();
        }
        Ok(())
    }
}

/// Dies at record `left`, or exits with 0 when there are not so many.
fn apply(folder: &Path, left: u32, recorded: bool) {
    let mut record = Suicidal::new(folder, Some(left), recorded);
    let mut network = Network::apply(&plan(folder), &mut record).unwrap();
    network.check(&mut record);
}

/// Applies and looks after it, until it is killed.
fn keep(folder: &Path) {
    let mut record = Suicidal::new(folder, None, false);
    let mut network = Network::apply(&plan(folder), &mut record).unwrap();
    println!("ready");
    loop {
        network.check(&mut record);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// As the user `nobody`, who has no privilege.
fn nobody(folder: &Path) {
    let plan = plan(folder);
    // SAFETY: plain system calls; of this thread only, as the raw ones are.
    unsafe {
        libc::syscall(libc::SYS_setresgid, 65534, 65534, 65534);
        libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534);
    }
    let refused = Network::apply(&plan, &mut Vec::new()).err().unwrap();
    println!("{} {refused}", refused.is_lack());
}
