//! The parts: each states a law and compares the machine with what it was before.

use crate::actors::{server, Actor};
use crate::journal::Journal;
use crate::snapshot::Snapshot;
use crate::{groups, in_place, managed, neighbours};
use giusto_compute::{probe, sched, undo, Cpusets, Error, Isolated, Lack, Machine, Quota, Recorder, RtGroup, Undo};
use giusto_model::Backend;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::{fs::PermissionsExt, process::CommandExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// When the kernel has taken back what a thread held that left or died under 70 ms / 200 ms: a wrong sum shows then.
const PAST_ZERO_LAG: Duration = Duration::from_millis(250);

/// A law, and what the machine may lack for it beyond what all need.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) run: fn(),
    pub(crate) lack: fn() -> Option<Lack>,
}

type Named = (&'static str, fn());

const DEADLINE: [Named; 15] = [
    ("a_reservation_pins_its_thread_and_everything_is_as_before_afterwards", applied_and_released),
    ("a_service_that_sleeps_on_another_core_gets_its_reservation", asleep),
    ("leaving_and_reserving_again_at_once_books_nothing_twice", left_and_reserved_again),
    ("a_service_without_a_working_thread_is_refused_with_shares", spread),
    ("a_reserved_service_that_is_killed_leaves_the_kernels_sum_right", killed_service),
    ("a_child_that_works_is_no_reason_to_worry_a_thread_that_takes_over_is", who_works),
    ("all_other_threads_leave_the_core_and_return", bystanders),
    ("children_that_were_born_on_the_core_go_home_with_their_parents", children),
    ("an_agent_gets_a_little_promptly_beside_a_reservation_and_no_more", prompt),
    ("fork_and_pthread_create_work_under_a_reservation", forks),
    ("a_fork_under_way_is_not_refused_because_its_thread_gets_a_reservation", forks_under_way),
    ("redis_saves_in_the_background_under_a_reservation", redis),
    ("without_privilege_the_probe_says_what_is_missing_and_nothing_changes", unprivileged),
    ("dying_at_every_step_is_undone", every_step),
    ("dying_at_any_instant_also_while_undoing_is_undone", any_instant),
];

pub(crate) fn named(name: &str) -> Option<Part> {
    all().find(|part| part.name == name)
}

/// Of all backends.
pub(crate) fn all() -> impl Iterator<Item = Part> {
    let of = |lack| move |(name, run)| Part { name, run, lack };
    let manager = || machine().lacks(Backend::Manager).first().cloned();
    let deadline = DEADLINE.into_iter().chain(neighbours::ALL).map(of(|| None));
    let groups = groups::RT_GROUP.into_iter().chain(managed::DENIED).map(of(RtGroup::lack));
    let groups = groups.chain(groups::QUOTA.into_iter().map(of(Quota::lack)));
    let managed = managed::ALL.into_iter().map(of(manager)).chain(in_place::ALL.into_iter().map(of(v2)));
    deadline.chain(managed).chain(groups)
}

/// Of the manager under cgroup v2 alone.
fn v2() -> Option<Lack> {
    let has = Path::new("/sys/fs/cgroup/cgroup.subtree_control").exists();
    let lack = || Lack { what: "cgroup v2 at /sys/fs/cgroup".into(), how: "tests/v2.sh plays it in a guest".into() };
    machine().lacks(Backend::Manager).first().cloned().or_else(|| (!has).then(lack))
}

/// Why these tests cannot run here.
pub(crate) fn cannot() -> Option<String> {
    let machine = machine();
    if let Some(lack) = machine.lacks(Backend::Deadline).first() {
        return Some(format!("needs root: {} is missing: {}", lack.what, lack.how));
    }
    (machine.cores.len() < 2).then(|| "needs two cores".to_string())
}

/// Probed once: probing lets some kernels count their bandwidth anew, which would hide a wrong sum.
fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(probe)
}

pub(crate) fn cpusets() -> Cpusets {
    machine().cpusets.clone().unwrap()
}

/// The last core: the one that is given away.
pub(crate) fn core() -> u32 {
    *machine().cores.last().unwrap()
}

pub(crate) fn assert_same(before: &Snapshot, processes: &[u32], context: &str) {
    let difference = before.difference(&Snapshot::take(cpusets().root(), processes));
    assert!(difference.is_empty(), "{context}:\n{}", difference.join("\n"));
}

/// Undo records of one part; undone whatever happens, also when an assertion fails in between.
#[derive(Default)]
pub(crate) struct Record(pub(crate) Vec<Undo>);

impl Recorder<Undo> for Record {
    fn intend(&mut self, undo: &Undo) -> io::Result<()> {
        self.0.intend(undo)
    }
}

impl Record {
    pub(crate) fn assert_undone(&self) {
        let report = undo(&self.0);
        assert!(report.failed.is_empty() && report.notes.is_empty(), "{report:?}");
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("  undone after a failure: {:?}", undo(&self.0));
        }
    }
}

/// A cgroup for a test's services, so that their home is not the root.
struct Home(PathBuf);

impl Home {
    fn new(processes: &[u32]) -> Home {
        let home = Home(cpusets().root().join("real-tests-home"));
        let _ = fs::remove_dir(&home.0);
        fs::create_dir(&home.0).unwrap();
        if let Cpusets::V1(root) = cpusets() {
            fs::write(home.0.join("cpuset.mems"), fs::read_to_string(root.join("cpuset.mems")).unwrap()).unwrap();
            fs::write(home.0.join("cpuset.cpus"), "0").unwrap();
        }
        for pid in processes {
            fs::write(home.0.join("cgroup.procs"), pid.to_string()).unwrap();
        }
        home
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(cpusets().root().join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.0);
    }
}

fn applied_and_released() {
    // The bystander has nothing to do with Giusto, but keeps to the core that is given away.
    let (service, hog, bystander) = (Actor::new("worker"), Actor::new("hog"), Actor::new("sleeper"));
    sched::set_affinity(bystander.pid(), &[core()]).unwrap();
    let ids = [service.pid(), hog.pid()];
    let all = [service.pid(), hog.pid(), bystander.pid()];
    let _home = Home::new(&ids[..1]);
    let mut other = sched::Attr::of_policy(3, 0); // SCHED_BATCH
    other.nice = 5;
    sched::set(service.pid(), &other).unwrap();
    sched::set_affinity(hog.pid(), &[0]).unwrap();
    let before = Snapshot::take(cpusets().root(), &all);
    // Three times: bandwidth that leaked would make the third one fail.
    for turn in 0..3 {
        let mut record = Record::default();
        let isolated = Isolated::new(&cpusets(), &[core()], &mut record).unwrap();
        isolated.confine(&ids, core(), &mut record).unwrap();
        let mut reserved = isolated.reserve(&ids[..1], &server(14, 40), &mut record).unwrap();
        assert_eq!(reserved.thread, service.pid());
        reserved.check().unwrap();
        let now = sched::get(service.pid()).unwrap();
        assert_eq!((now.policy, now.runtime, now.period), (sched::DEADLINE, 14_000_000, 40_000_000));
        let idle = sched::threads(service.pid())[1];
        assert_eq!(sched::get(idle).unwrap().policy, sched::OTHER, "other threads stay as they are");
        for pid in [service.pid(), idle, hog.pid()] {
            assert_eq!(sched::affinity(pid).unwrap(), [core()]);
        }
        let steps = record.0.len();
        isolated.confine(&ids, core(), &mut record).unwrap();
        assert_eq!(record.0.len(), steps, "who is there already is left alone");
        let again = isolated.reserve(&ids[..1], &server(1, 40), &mut record);
        assert!(matches!(again, Err(Error::Taken(_))), "{again:?}");
        let wrong = isolated.confine(&ids, 0, &mut record);
        assert!(matches!(wrong, Err(Error::NoCore { core: 0, .. })), "{wrong:?}");
        let second = Isolated::new(&cpusets(), &[core()], &mut Vec::new());
        assert!(matches!(second, Err(Error::Leftover(_))), "{second:?}");
        thread::sleep(Duration::from_millis(60)); // past the zero-lag time
        record.assert_undone();
        record.assert_undone(); // twice does no harm
        assert_same(&before, &all, &format!("turn {turn}"));
    }
}

fn asleep() {
    let service = Actor::new("sleeper");
    thread::sleep(Duration::from_millis(20));
    let before = Snapshot::take(cpusets().root(), &[service.pid()]);
    let mut record = Record::default();
    let isolated = Isolated::new(&cpusets(), &[core()], &mut record).unwrap();
    isolated.confine(&[service.pid()], core(), &mut record).unwrap();
    isolated.reserve(&[service.pid()], &server(14, 40), &mut record).unwrap();
    assert_eq!(sched::get(service.pid()).unwrap().policy, sched::DEADLINE);
    record.assert_undone();
    assert_same(&before, &[service.pid()], "after a reservation asleep");
    let state = fs::read_to_string(format!("/proc/{}/stat", service.pid())).unwrap();
    assert!(state.contains(") S "), "it sleeps on: {state}");
}

/// A thread that leaves while it sleeps past its zero-lag time keeps its share booked unless it shrinks first; one that
/// leaves before that time has its share taken back only then, from whatever root domain there is.
fn left_and_reserved_again() {
    for role in ["sleeper", "bursts"] {
        let mut service = Actor::new(role);
        let before = Snapshot::take(cpusets().root(), &[service.pid()]);
        let mut record = Record::default();
        let isolated = Isolated::new(&cpusets(), &[core()], &mut record).unwrap();
        isolated.confine(&[service.pid()], core(), &mut record).unwrap();
        for turn in 0..4 {
            let reserved = isolated.reserve(&[service.pid()], &server(70, 200), &mut record);
            assert!(reserved.is_ok(), "{role}, reservation {turn}: {reserved:?}");
            match role {
                "bursts" => service.work(),
                _ => thread::sleep(Duration::from_millis(220)),
            }
            if turn < 3 {
                sched::leave(service.pid(), &sched::Attr::default()).unwrap();
            }
        }
        record.assert_undone();
        thread::sleep(PAST_ZERO_LAG);
        assert_same(&before, &[service.pid()], role);
    }
}

fn prompt() {
    let (service, agent) = (Actor::new("hog"), Actor::new("hog"));
    let all = [service.pid(), agent.pid()];
    let before = Snapshot::take(cpusets().root(), &all);
    let mut record = Record::default();
    let isolated = Isolated::new(&cpusets(), &[core()], &mut record).unwrap();
    isolated.confine(&all, core(), &mut record).unwrap();
    isolated.reserve(&all[..1], &server(24, 40), &mut record).unwrap();
    let ms = giusto_model::Duration::from_ms;
    giusto_compute::prompt(agent.pid(), ms(5), ms(10), ms(100), &mut record).unwrap();
    assert_eq!(sched::get(agent.pid()).unwrap().policy, sched::DEADLINE);
    let again = giusto_compute::prompt(agent.pid(), ms(5), ms(10), ms(100), &mut record);
    assert!(matches!(again, Err(Error::Taken(_))), "{again:?}");
    let used = || all.map(sched::cpu_time_ns);
    let (from, start) = (used(), std::time::Instant::now());
    thread::sleep(Duration::from_secs(1));
    let passed = start.elapsed().as_nanos() as f64;
    let share = [0, 1].map(|index| (used()[index] - from[index]) as f64 / passed);
    println!("  the reservation had {:.0} %, the agent {:.1} %", share[0] * 100.0, share[1] * 100.0);
    assert!(share[0] > 0.5 && (0.02..0.08).contains(&share[1]), "{share:?}");
    record.assert_undone();
    thread::sleep(PAST_ZERO_LAG);
    assert_same(&before, &all, "after an agent's reservation");
}

fn spread() {
    let service = Actor::new("pair");
    let before = Snapshot::take(cpusets().root(), &[service.pid()]);
    let mut record = Record::default();
    let isolated = Isolated::new(&cpusets(), &[core()], &mut record).unwrap();
    isolated.confine(&[service.pid()], core(), &mut record).unwrap();
    thread::sleep(Duration::from_millis(100));
    let refused = isolated.reserve(&[service.pid()], &server(14, 40), &mut record);
    assert!(matches!(refused, Err(Error::NoWorker { threads: 2, .. })), "{refused:?}");
    record.assert_undone();
    assert_same(&before, &[service.pid()], "after a refusal");
}

fn killed_service() {
    for (role, quite_dead) in [("worker", false), ("bursts", true), ("bursts", false), ("hog", false)] {
        let mut service = Actor::new(role);
        let before = Snapshot::take(cpusets().root(), &[]);
        let mut record = Record::default();
        let isolated = Isolated::new(&cpusets(), &[core()], &mut record).unwrap();
        isolated.confine(&[service.pid()], core(), &mut record).unwrap();
        let mut reserved = isolated.reserve(&[service.pid()], &server(70, 200), &mut record).unwrap();
        match role {
            "bursts" => service.work(),                     // most of its budget used, and asleep
            _ => thread::sleep(Duration::from_millis(100)), // the hog's budget is used up
        }
        service.kill();
        if quite_dead {
            service.wait();
        }
        record.assert_undone();
        service.wait();
        assert!(matches!(reserved.check(), Err(Error::Gone(_))));
        thread::sleep(PAST_ZERO_LAG);
        assert_same(&before, &[], role);
    }
}

fn who_works() {
    for role in ["saver", "successor"] {
        let mut service = Actor::new(role);
        let mut record = Record::default();
        let isolated = Isolated::new(&cpusets(), &[core()], &mut record).unwrap();
        isolated.confine(&[service.pid()], core(), &mut record).unwrap();
        let mut reserved = isolated.reserve(&[service.pid()], &server(14, 40), &mut record).unwrap();
        service.work();
        match (role, reserved.check()) {
            ("saver", Ok(())) | ("successor", Err(Error::NotTheWorker { .. })) => {}
            (_, wrong) => panic!("{role}: {wrong:?}"),
        }
        record.assert_undone();
    }
}

/// Who sleeps on a core that is given away wakes up elsewhere, and is back in its cpuset afterwards.
fn bystanders() {
    let _away = Home::new(&[]); // the tree is not empty
    let mut bystander = Actor::new("bursts");
    let pid = bystander.pid();
    let last = || -> u32 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(36).unwrap().parse().unwrap()
    };
    let asleep_there = || {
        sched::set_affinity(pid, &[core()]).unwrap();
        bystander.work();
        sched::set_affinity(pid, &machine().cores).unwrap();
        last() == core()
    };
    assert!(std::iter::repeat_with(asleep_there).take(50).any(|there| there), "it has run on the core");
    let before = Snapshot::take(cpusets().root(), &[bystander.pid()]);
    let mut record = Record::default();
    let _isolated = Isolated::new(&cpusets(), &[core()], &mut record).unwrap();
    bystander.work();
    assert_ne!(last(), core(), "it would stay where nothing balances");
    record.assert_undone();
    assert_same(&before, &[bystander.pid()], "after making room");
}

fn children() {
    let (service, mut parent) = (Actor::new("worker"), Actor::new("parent"));
    let _home = Home::new(&[service.pid()]);
    let mut record = Record::default();
    let isolated = Isolated::new(&cpusets(), &[core()], &mut record).unwrap();
    isolated.confine(&[service.pid(), parent.pid()], core(), &mut record).unwrap();
    parent.work();
    record.assert_undone();
    let cgroup = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let child = running("hog");
    assert_eq!(child.len(), 1);
    assert_eq!(cgroup(child[0]), cgroup(parent.pid()));
    assert_ne!(cgroup(child[0]), cgroup(service.pid()));
}

fn forks() {
    let mut service = Actor::new("forker");
    let before = Snapshot::take(cpusets().root(), &[service.pid()]);
    let mut record = Record::default();
    let isolated = Isolated::new(&cpusets(), &[core()], &mut record).unwrap();
    isolated.confine(&[service.pid()], core(), &mut record).unwrap();
    isolated.reserve(&[service.pid()], &server(14, 40), &mut record).unwrap();
    service.work();
    record.assert_undone();
    assert_same(&before, &[service.pid()], "after forking");
}

/// The shell ends with "Cannot fork" if one of its forks is refused.
fn forks_under_way() {
    let mut shell = Command::new("sh");
    let service = Actor::of(shell.args(["-c", "while :; do (:); done"]));
    let before = Snapshot::take(cpusets().root(), &[service.pid()]);
    let mut record = Record::default();
    let isolated = Isolated::new(&cpusets(), &[core()], &mut record).unwrap();
    isolated.confine(&[service.pid()], core(), &mut record).unwrap();
    for turn in 0..300 {
        let mut reservation = Record::default();
        let reserved = isolated.reserve(&[service.pid()], &server(14, 40), &mut reservation);
        assert!(reserved.is_ok() && sched::cpu_time_ns(service.pid()) > 0, "turn {turn}: {reserved:?}");
        reservation.assert_undone();
    }
    assert!(!fs::read_to_string(format!("/proc/{}/stat", service.pid())).unwrap().contains(") Z "), "it has ended");
    record.assert_undone();
    assert_same(&before, &[service.pid()], "after forking");
}

fn redis() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("redis-server");
    command.args(["--port", "7090", "--bind", "127.0.0.1", "--save", "", "--daemonize", "no", "--logfile", "log"]);
    let server_process = Actor::of(command.current_dir(folder.path()));
    let pid = server_process.pid();
    let begin = Instant::now();
    let mut stream = loop {
        match TcpStream::connect("127.0.0.1:7090") {
            Ok(stream) => break stream,
            Err(error) => {
                assert!(begin.elapsed() < Duration::from_secs(10), "redis-server 7.0 does not listen: {error}")
            }
        }
        thread::sleep(Duration::from_millis(20));
    };
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut ask = |command: &str| {
        write!(stream, "{command}\r\n").unwrap();
        let mut answer = [0; 8192];
        let length = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..length]).to_string()
    };
    ask("DEBUG SLEEP 0");
    ask("SET key value");
    let before = Snapshot::take(cpusets().root(), &[pid]);
    let mut record = Record::default();
    let isolated = Isolated::new(&cpusets(), &[core()], &mut record).unwrap();
    isolated.confine(&[pid], core(), &mut record).unwrap();
    isolated.reserve(&[pid], &server(14, 40), &mut record).unwrap();
    assert!(ask("BGSAVE").starts_with("+Background saving started"));
    let begin = Instant::now();
    while !ask("INFO persistence").contains("rdb_bgsave_in_progress:0") {
        assert!(begin.elapsed() < Duration::from_secs(20), "the background save does not end");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(ask("INFO persistence").contains("rdb_last_bgsave_status:ok"));
    assert!(folder.path().join("dump.rdb").exists());
    assert_eq!(sched::get(pid).unwrap().policy, sched::DEADLINE, "the parent keeps its reservation");
    record.assert_undone();
    assert_same(&before, &[pid], "after saving");
}

fn unprivileged() {
    let before = Snapshot::take(cpusets().root(), &[]);
    // Where the user `nobody` may reach it.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("real");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    for path in [folder.path(), &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = Command::new(&program).arg("nobody").uid(65_534).gid(65_534).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        text.contains("CAP_SYS_NICE") && text.contains("write access to") && text.contains("run as root"),
        "{text}"
    );
    assert!(text.contains("refused: ") && !text.contains("it worked"), "{text}");
    assert_same(&before, &[], "after a try without privilege");
}

/// An adopted service and a hog, who must survive, and a folder for journals.
pub(crate) struct Stage {
    service: Actor,
    hog: Actor,
    folder: tempfile::TempDir,
    before: Snapshot,
    _home: Home,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        let (service, hog) = (Actor::new("worker"), Actor::new("hog"));
        let home = Home::new(&[service.pid()]);
        let mut nice = sched::Attr::default();
        nice.nice = 3;
        sched::set(service.pid(), &nice).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let before = Snapshot::take(cpusets().root(), &[service.pid(), hog.pid()]);
        Stage { service, hog, folder, before, _home: home }
    }

    fn victim(&self, step: &str, when: &str) -> Actor {
        let (core, service, hog) = (core().to_string(), self.service.pid().to_string(), self.hog.pid().to_string());
        Actor::started(&["victim", &self.path(), &core, step, when, &service, &hog])
    }

    fn path(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// Restores at once, then compares. Returns how many changes were undone.
    fn restore(&mut self, context: &str) -> usize {
        let (_, restored) = Journal::open_in(Path::new(&self.path())).unwrap();
        assert!(restored.failed.is_empty() && restored.notes.is_empty(), "{context}: {restored:?}");
        assert!(self.service.alive() && self.hog.alive(), "{context}: an adopted process has ended");
        assert_same(&self.before, &[self.service.pid(), self.hog.pid()], context);
        let workers = running("worker");
        assert_eq!(workers, [self.service.pid()], "{context}: a started service has outlived its end");
        restored.undone
    }
}

/// Whether a sample is asked for where each part is slow, as in an emulated guest.
pub(crate) fn few() -> bool {
    env::var_os("GIUSTO_FEW").is_some()
}

/// Whether the long campaign is asked for.
pub(crate) fn soak() -> bool {
    env::var_os("GIUSTO_SOAK").is_some()
}

/// Processes of this program in a role.
fn running(role: &str) -> Vec<u32> {
    let program = env::current_exe().unwrap();
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program) && words.contains(role)
    })
    .collect()
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = Journal::open_in(Path::new(&self.path()));
    }
}

fn every_step() {
    die_at_every_step(&mut Stage::new());
}

pub(crate) fn die_at_every_step(stage: &mut Stage) {
    let mut matrix = [String::new(), String::new()];
    for (row, when) in ["unrecorded", "recorded"].into_iter().enumerate() {
        for step in (0..).step_by(if few() { 3 } else { 1 }) {
            assert!(step < 500, "the victim does not come to an end");
            let mut victim = stage.victim(&step.to_string(), when);
            let lines: Vec<String> = std::iter::from_fn(|| victim.line()).collect();
            victim.wait();
            let undone = stage.restore(&format!("died at step {step}, {when}"));
            let through = lines.iter().any(|line| line == "reserved");
            assert!(through || undone == step + row, "step {step}, {when}: {undone} undone, {lines:?}");
            matrix[row].push('.');
            if through {
                assert!(step >= 9, "only {step} steps");
                break;
            }
        }
    }
    println!("  died at the n-th change, before it was recorded: {}", matrix[0]);
    println!("  ... after it was recorded, before it was made:   {}", matrix[1]);
}

fn any_instant() {
    let seed = env::var("GIUSTO_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_260_u64);
    let times = if soak() { 50 } else { 6 };
    println!("  seed {seed}, {times} deaths");
    let mut state = seed;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut stage = Stage::new();
    let (mut mid_way, mut restorers) = (0, 0);
    for turn in 0..times {
        let mut victim = stage.victim("-", "-");
        assert_eq!(victim.line().as_deref(), Some("ready"));
        thread::sleep(Duration::from_micros(below(150_000)));
        victim.kill();
        victim.wait();
        if below(2) == 0 {
            // The one who restores dies too.
            restorers += 1;
            let path = stage.path();
            let mut restorer = Actor::started(&["restorer", &path]);
            thread::sleep(Duration::from_micros(below(30_000)));
            restorer.kill();
            restorer.wait();
        }
        mid_way += usize::from(stage.restore(&format!("seed {seed}, turn {turn}")) > 0);
    }
    println!("  {mid_way} of {times} in the middle of changes, {restorers} followed by a death while undoing");
    assert!(mid_way * 3 >= times, "too few deaths in the middle to prove anything: {mid_way}");
}
