//! Real processes; in cgroups of their own where this is root.

use super::*;
use std::process::Command;

/// Beside others of this name, in this program and in others.
fn begin(name: &str, origin: &Origin, logs: &Path, before: &mut Prepare<'_>) -> Result<Running, Error> {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Running::begin(
        &format!("test-{}-{name}-{number}", std::process::id()),
        origin,
        &Process::default(),
        &[],
        logs,
        before,
    )
}

fn shell(script: &str) -> Origin {
    Origin::Start(vec!["sh".into(), "-c".into(), script.into()])
}

#[test]
fn a_started_service_ends_with_all_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = begin("pair", &shell("sleep 60 & sleep 60"), folder.path(), &mut |_| Ok(())).unwrap();
    while running.processes().len() < 3 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let group = running.group().unwrap();
    running.end();
    while !sched::group(group).is_empty() {
        std::thread::sleep(Duration::from_millis(5)); // the kernel is still ending them
    }
}

#[test]
fn children_that_make_a_group_for_themselves_belong_to_the_service_too() {
    let folder = tempfile::tempdir().unwrap();
    let script = "sh -c 'setsid sleep 60 & wait' & wait";
    let mut running = begin("kin", &shell(script), folder.path(), &mut |_| Ok(())).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    let own = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
    let sleeper = loop {
        if let Some(pid) = running.processes().into_iter().find(own) {
            break pid;
        }
        assert!(Instant::now() < until);
    };
    assert!(!sched::group(running.group().unwrap()).contains(&sleeper));
    // SAFETY: plain system call; it is our child's child, and alive.
    unsafe { libc::kill(sleeper as i32, libc::SIGKILL) };
    running.end();
}

#[test]
fn what_could_not_be_recorded_or_put_in_its_place_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let touch = Origin::Start(vec!["touch".into(), ran.display().to_string()]);
    for refuse_the_process in [false, true] {
        let refused = begin("x", &touch, folder.path(), &mut |before| match before {
            Before::Made(_) if refuse_the_process => Ok(()),
            _ => Err(io::ErrorKind::StorageFull.into()),
        });
        assert!(refused.is_err() && !ran.exists(), "{refused:?}");
    }
    let mut leader = None;
    let running = begin("x", &touch, folder.path(), &mut |before| {
        assert!(!ran.exists(), "told before it runs");
        if let Before::Runs(process) = before {
            leader = Some(process.tid);
        }
        Ok(())
    });
    let running = running.unwrap();
    until("it ran", || ran.exists());
    drop(running);
    assert!(leader.is_some_and(|pid| Thread::of(pid).is_none()));
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What becomes of a service, waited for.
fn event(running: &mut Running) -> Event {
    let mut found = None;
    until("an event", || {
        found = running.poll();
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn what_forks_twice_or_makes_a_session_counts_and_ends_with_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let script = "(setsid sleep 1000 &); (setsid sh -c 'sleep 1000 & sleep 1000' &); exit 0";
    let mut running = begin("escape", &shell(script), folder.path(), &mut |_| Ok(())).unwrap();
    if running.contained().is_none() {
        return; // not root
    }
    // From then on they only become more: shells of a moment have been four before.
    until("its first process has ended", || running.group().is_none_or(|pid| Thread::of(pid).is_none()));
    until("they are there", || running.processes().len() == 4);
    assert_eq!(running.poll(), None, "it works in the background");
    let all: Vec<Thread> = running.processes().into_iter().filter_map(Thread::of).collect();
    assert!(all.len() == 4 && running.usage_ns().is_none_or(|used| used > 0));
    running.end();
    assert!(all.iter().all(|process| !process.alive()));
}

#[test]
fn the_rest_of_one_that_failed_is_ended_before_it_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let script = "(setsid sleep 1000 &); sleep 0.1; kill -9 $$";
    let mut running = begin("again", &shell(script), folder.path(), &mut |_| Ok(())).unwrap();
    for turn in 1..=2 {
        let Event::Ended { how, again } = event(&mut running) else { panic!() };
        assert!(how.contains("signal 9") && again.is_some(), "{how}");
        assert!(running.contained().is_none() || running.processes().is_empty());
        until("it is due", || running.is_due());
        running.start_again(&mut |_| Ok(())).unwrap();
        assert_eq!(running.history(), (Some(turn), Some("was ended by signal 9".into())));
        assert!(!running.processes().is_empty() && running.down().is_none());
    }
    running.end();
}

/// A broker that writes what it holds to its disk needs longer than two seconds.
#[test]
fn a_service_has_the_time_to_end_that_it_asks_for() {
    for (name, end_within, ends_itself) in
        [("asks", Some(giusto_model::Duration::from_secs(10)), true), ("usual", None, false)]
    {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let done = folder.path().join("done");
        let script = "trap 'sleep 3; echo > '$2'; exit' TERM; echo > $1; while :; do sleep 0.05; done";
        let words = ["sh", "-c", script, "sh", ready.to_str().unwrap(), done.to_str().unwrap()];
        let origin = Origin::Start(words.map(String::from).to_vec());
        let name = format!("test-{}-{name}", std::process::id());
        let process = Process { end_within, ..Process::default() };
        let mut running = Running::begin(&name, &origin, &process, &[], folder.path(), &mut |_| Ok(())).unwrap();
        if running.contained().is_none() {
            return;
        }
        until("it is ready", || ready.exists());
        running.end();
        assert_eq!(done.exists(), ends_itself);
        assert!(running.processes().is_empty());
    }
}

/// Begins one that ends by itself at once, again and again, and runs `after_end` in between.
fn begin_with(after_end: &[&str], logs: &Path) -> Running {
    let process = Process { after_end: after_end.iter().map(|word| word.to_string()).collect(), ..Process::default() };
    let name = format!("test-{}-after-{}", std::process::id(), logs.file_name().unwrap().to_string_lossy());
    let script = "(setsid sleep 1000 &); echo begun; exit 7";
    Running::begin(&name, &shell(script), &process, &[], logs, &mut |_| Ok(())).unwrap()
}

#[test]
fn what_runs_after_its_end_finds_nothing_of_it_and_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = begin_with(&["sh", "-c", "sleep 0.3; (setsid sleep 1000 &); echo told"], folder.path());
    for turn in 1..=2 {
        assert!(matches!(event(&mut running), Event::Ended { .. }));
        assert!(running.contained().is_none() || running.processes().is_empty(), "nothing of it is left");
        until("it is due", || running.is_due());
        running.start_again(&mut |_| Ok(())).unwrap();
        assert!(running.down().is_some() && running.history().0 == Some(turn - 1), "the command, not the service");
        until("the service would be due", || running.restarts.is_due(Instant::now()));
        assert!(!running.is_due(), "the command is not done");
        assert_eq!(event(&mut running), Event::AfterEnd(Ok(())));
        assert!(running.contained().is_none() || running.processes().is_empty(), "nothing of the command is left");
        assert!(running.is_due());
        running.start_again(&mut |_| Ok(())).unwrap();
        assert_eq!(running.history().0, Some(turn));
    }
    running.end();
    let log = fs::read_to_string(running.log.as_ref().unwrap()).unwrap();
    assert!(log.starts_with("begun\ntold\nbegun\ntold\n"), "{log}");
}

#[test]
fn a_command_after_its_end_that_fails_hangs_or_is_not_there_does_not_keep_it_from_its_restart() {
    let folder = tempfile::tempdir().unwrap();
    let hangs = ["sh", "-c", "trap '' TERM; while :; do sleep 1000; done"];
    for (words, expected) in [(&["false"][..], "failed"), (&hangs, "was killed"), (&["no-such-program"], "")] {
        let mut running = begin_with(words, folder.path());
        event(&mut running);
        running.start_again(&mut |_| Ok(())).unwrap();
        if !expected.is_empty() {
            let Event::AfterEnd(Err(how)) = event(&mut running) else { panic!() };
            assert!(how.contains(expected), "{how}");
        }
        until("its restart", || running.is_due());
        running.start_again(&mut |_| Ok(())).unwrap();
        assert_eq!((running.history().0, running.down()), (Some(1), None));
        running.end();
    }
    // The end of the service is that of the command.
    let mut running = begin_with(&hangs, folder.path());
    event(&mut running);
    running.start_again(&mut |_| Ok(())).unwrap();
    let command = running.after_end.group().and_then(Thread::of).unwrap();
    drop(running);
    assert!(!command.alive());
}

#[test]
fn a_virtual_machine_is_not_asked_all_the_time_and_what_is_known_stays() {
    let nowhere = Vm::Qmp("/no/such/monitor".into());
    let own = Thread::of(std::process::id()).unwrap();
    let long_ago = Instant::now().checked_sub(2 * ASKED_AGAIN).unwrap();
    let running = |at: Instant, told: Result<Thread, &str>| {
        let running = Running::new("vm", Source::Vm(Vm::Qmp("/no/such/monitor".into())), Process::default());
        running.told.replace(Some((at, told.map(|vcpu| vec![vcpu]).map_err(String::from))));
        running
    };
    for at in [Instant::now(), long_ago] {
        assert_eq!(running(at, Ok(own)).vcpus().unwrap(), [own.tid]);
        let gone = running(at, Ok(Thread { started: 1, ..own })).vcpus().unwrap_err().to_string();
        assert!(gone.contains(&nowhere.vcpus().unwrap_err()), "{gone}");
    }
    assert!(running(Instant::now(), Err("busy")).vcpus().unwrap_err().to_string().contains("busy"));
    assert!(!running(long_ago, Err("busy")).vcpus().unwrap_err().to_string().contains("busy"));
}

#[test]
fn a_cgroup_has_the_processes_of_those_below_it() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("a.service/b.scope");
    fs::create_dir_all(&below).unwrap();
    fs::write(folder.path().join("cgroup.procs"), "").unwrap();
    fs::write(below.join("cgroup.procs"), "7\n8\n").unwrap();
    assert_eq!(members(folder.path()), [7, 8]);
    assert!(members(&folder.path().join("none")).is_empty());
}

#[test]
fn an_adopted_process_that_has_ended_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let adopt = Origin::Adopt(Adopt::Pid(child.id()));
    let mut running = begin("x", &adopt, folder.path(), &mut |_| Ok(())).unwrap();
    assert_eq!(running.processes(), [child.id()]);
    running.check().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(running.processes().is_empty() && running.check().is_err());
}

#[test]
fn a_service_that_ends_says_how_and_its_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let mut running =
        begin("short", &shell("sleep 0.2; echo no port >&2; exit 7"), folder.path(), &mut |_| Ok(())).unwrap();
    let error = loop {
        if let Err(error) = running.check() {
            break error.to_string();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(error.contains("exit code 7") && error.contains("no port"), "{error}");
}

#[test]
fn what_is_not_there_cannot_be_started_or_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Origin::Start(vec!["no-such-program".into()]);
    assert!(matches!(begin("x", &missing, folder.path(), &mut |_| Ok(())), Err(Error::Lacks { .. })));
    let socket = folder.path().join("qmp");
    for adopt in [
        Adopt::Pid(u32::MAX),
        Adopt::Cgroup("no/such".into()),
        Adopt::Systemd("no-such.service".into()),
        Adopt::Container("no-such".into()),
        Adopt::Qmp(socket),
        Adopt::Libvirt("no such".into()),
    ] {
        assert!(matches!(
            begin("x", &Origin::Adopt(adopt), folder.path(), &mut |_| Ok(())),
            Err(Error::Service { .. })
        ));
    }
}

/// A process that SIGKILL does not end, as one within the kernel: v1's freezer holds it beside its service's cgroup. Others do
/// not wait for it, not longer than the watchdog's patience with the main thread.
#[test]
fn a_service_that_cannot_end_is_left_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = begin("stuck", &shell("exec sleep 1000"), folder.path(), &mut |_| Ok(())).unwrap();
    let freezer = Path::new("/sys/fs/cgroup/freezer").join(format!("giusto.test.stuck.{}", std::process::id()));
    let Some(groups) = running.contained().cloned().filter(|_| fs::create_dir(&freezer).is_ok()) else {
        return; // not root, or no v1
    };
    let pid = running.group().unwrap();
    fs::write(freezer.join("cgroup.procs"), pid.to_string()).unwrap();
    fs::write(freezer.join("freezer.state"), "FROZEN").unwrap();
    until("it is frozen", || fs::read_to_string(freezer.join("freezer.state")).unwrap() == "FROZEN\n");
    let begun = Instant::now();
    running.end();
    let took = begun.elapsed();
    let there = groups.processes() == [pid];
    fs::write(freezer.join("freezer.state"), "THAWED").unwrap();
    assert!(there, "it cannot have ended");
    assert!(took < crate::watchdog::MAIN_STALL / 2, "{took:?}");
    until("it ends when it can", || groups.processes().is_empty());
    groups.end(Duration::ZERO).unwrap();
    until("its freezer is empty", || fs::remove_dir(&freezer).is_ok());
}

/// A mode that stops a service while it is started again: it does not start, and nothing waits for it for ever.
#[test]
fn a_service_that_a_mode_has_stopped_is_not_started_nor_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = begin("stands", &shell("exit 1"), folder.path(), &mut |_| Ok(())).unwrap();
    let Some(contained) = running.contained().cloned() else { return };
    event(&mut running);
    contained.ask_to_freeze(true).unwrap();
    until("it would be due", || running.restarts.is_due(Instant::now()));
    assert!(!running.is_due());
    let refused = running.start_again(&mut |_| Ok(())).unwrap_err().to_string();
    assert!(refused.contains("a mode has stopped it"), "{refused}");
    // Stopped just before it runs its program.
    contained.ask_to_freeze(false).unwrap();
    let begun = Instant::now();
    let late = running.start_again(&mut |before| match before {
        Before::Runs(_) => contained.ask_to_freeze(true),
        Before::Made(_) => Ok(()),
    });
    assert!(late.unwrap_err().to_string().contains("did not come to run") && begun.elapsed() < Duration::from_secs(10));
    contained.ask_to_freeze(false).unwrap();
    until("it has ended", || running.processes().is_empty());
    running.end();
}

#[test]
fn half_made_groups_are_removed_so_that_the_next_try_is_not_refused() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("test-{}-half", std::process::id());
    let start = |cores: &[u32]| {
        Running::begin(&name, &shell("exec sleep 1000"), &Process::default(), cores, folder.path(), &mut |_| Ok(()))
    };
    // There is no such core: its cpuset cannot be set, where there is one.
    if start(&[8191]).is_ok() {
        return;
    }
    let mut running = start(&[]).unwrap();
    running.end();
}
