//! A daemon that gives packets their threads, from its start over a reload to its end, and its death: the host is as it was. Needs root, two
//! cores and network namespaces.
//!
//! One program in two roles: the test, and `daemon NAMESPACE FOLDER`, which enforces FOLDER/plan.json until it is killed or told to stop, and
//! writes its status to FOLDER/status.json.

// Also other parts than these are played there.
#[allow(dead_code)]
#[path = "../../../network/tests/real/stage.rs"]
mod stage;

use giusto_daemon::{difference, enforce, Deployment, Journal, Layout, LinkStatus, Observer, Stage as _, Watchdog};
use giusto_model::{HostPlan, NetworkPlan, Plan, PLAN_VERSION};
use giusto_network::Proof;
use stage::{difference as differing, high, inside, low, plan, threads, Stage};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [role, namespace, folder] = words.as_slice() {
        if role == "daemon" {
            return daemon(namespace, Path::new(folder));
        }
    }
    if let Some(why) = stage::cannot() {
        println!("packets: 0 passed, 0 failed, 1 SKIPPED: {why}");
        return;
    }
    let lock = fs::File::create(env::temp_dir().join("giusto-real-tests.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    stage::sweep();
    from_start_to_end();
    println!("packets: 1 passed, 0 failed, 0 skipped");
}

/// The part of a plan that is enforced here.
fn whole(network: Option<NetworkPlan>) -> Plan {
    let host = HostPlan {
        name: "test".into(),
        cores: vec![1],
        keep_free: giusto_model::Bandwidth::ZERO,
        assumed: None,
        admission: vec![],
        parked: vec![],
        latency: None,
    };
    Plan {
        giusto_plan: PLAN_VERSION,
        basis: None,
        hosts: vec![host],
        services: vec![],
        leftovers: vec![],
        topics: vec![],
        coordination: None,
        paths: Vec::new(),
        network: network.into_iter().collect(),
        modes: vec![],
    }
}

fn read(folder: &Path) -> Plan {
    serde_json::from_slice(&fs::read(folder.join("plan.json")).unwrap()).unwrap()
}

fn write(file: PathBuf, text: &impl serde::Serialize) {
    let new = file.with_extension("new");
    fs::write(&new, serde_json::to_vec(text).unwrap()).unwrap();
    fs::rename(new, file).unwrap();
}

fn daemon(namespace: &str, folder: &Path) {
    let watchdog = Watchdog::start().unwrap();
    inside(namespace, || {
        let (mut journal, _) = Journal::open_in(&folder.join("state")).unwrap();
        let mut plan = read(folder);
        let machine = giusto_compute::probe();
        let mut deployment = Deployment::set(&plan, &machine, &mut journal, folder, watchdog.beats()).unwrap();
        let mut observer = Observer::default();
        let stop = || folder.join("stop").exists();
        let mut turn = |deployment: &mut Deployment, warnings: Vec<String>| {
            let next = read(folder);
            let mut stage = observer.stage(deployment, warnings);
            for step in difference(&Layout::of(&plan), &Layout::of(&next), &|_| giusto_model::Bandwidth::ONE) {
                stage.apply(&step, &next).unwrap();
            }
            plan = next;
            let report = stage.report(&plan);
            write(folder.join("status.json"), &(report.network, report.warnings));
        };
        enforce(&mut deployment, &watchdog, &stop, &mut turn).unwrap();
        deployment.finish().unwrap();
    });
}

struct Daemon {
    child: Child,
    folder: PathBuf,
}

impl Daemon {
    fn start(stage: &Stage, folder: &Path) -> Daemon {
        let words = ["daemon".to_string(), stage.host(), folder.display().to_string()];
        let state = folder.join("state");
        let child = Command::new(env::current_exe().unwrap())
            .args(words)
            .env("GIUSTO_STATE", state)
            .stdout(Stdio::null())
            .spawn();
        Daemon { child: child.unwrap(), folder: folder.into() }
    }

    /// Waits until its status is as wanted.
    fn until(&mut self, wanted: impl Fn(&[LinkStatus], &[String]) -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        let mut last = String::new();
        while Instant::now() < end {
            last = fs::read_to_string(self.folder.join("status.json")).unwrap_or_default();
            let status: (Vec<LinkStatus>, Vec<String>) = serde_json::from_str(&last).unwrap_or_default();
            if !last.is_empty() && wanted(&status.0, &status.1) {
                return;
            }
            assert!(self.child.try_wait().unwrap().is_none(), "the daemon has ended");
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("not within 20 s: {last}");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn from_start_to_end() {
    let stage = Stage::new(2);
    let folder = tempfile::tempdir().unwrap();
    let before = stage.snapshot();
    let set = |network: Option<NetworkPlan>| write(folder.path().join("plan.json"), &whole(network));
    set(Some(plan(&[], &[high(0, 80, 1), low(1, 0)])));
    for dies in [true, false] {
        let _ = fs::remove_file(folder.path().join("status.json"));
        let mut daemon = Daemon::start(&stage, folder.path());
        daemon.until(|links, warnings| links.len() == 2 && warnings.is_empty());
        assert_eq!(
            threads(),
            ["napi/eth0 FF 80 on 1", "napi/eth0 TS - on 0", "napi/v0 FF 80 on 1", "napi/v1 TS - on 0"]
        );
        stage.send(0, 1, 500, Duration::from_millis(50));
        daemon.until(|links, _| links.iter().all(|link| link.proof == Proof::Moved));
        // What a link event undoes comes back by itself, and what is wrong is told.
        stage.ip("link set v0 down");
        daemon.until(|_, warnings| warnings.iter().any(|text| text.contains("'v0' is down")));
        stage.ip("link set v0 up");
        daemon.until(|_, warnings| warnings.is_empty());
        assert!(threads().contains(&"napi/v0 FF 80 on 1".to_string()), "{:?}", threads());
        if dies {
            daemon.child.kill().unwrap();
            daemon.child.wait().unwrap();
        } else {
            set(None);
            daemon.until(|links, _| links.is_empty());
            assert_eq!(differing(&before, &stage.snapshot()), Vec::<String>::new(), "without a plan for packets");
            set(Some(plan(&[], &[low(0, 0)])));
            daemon.until(|links, warnings| links.len() == 1 && warnings.is_empty());
            fs::write(folder.path().join("stop"), "").unwrap();
            assert!(daemon.child.wait().unwrap().success());
        }
        // After a death its watchdog is about to do it, or this does.
        let end = Instant::now() + Duration::from_secs(10);
        while let Err(error) = Journal::open_in(&folder.path().join("state")) {
            assert!(Instant::now() < end, "{error}");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(differing(&before, &stage.snapshot()), Vec::<String>::new(), "dies: {dies}");
    }
}
