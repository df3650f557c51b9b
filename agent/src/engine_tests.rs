use super::*;
use giusto_model::Listen;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

/// An agent's folder, its file, and its engines one after the other.
struct House {
    folder: tempfile::TempDir,
    file: AgentFile,
    state: State,
}

impl House {
    fn new(tasks: Vec<(&str, Control)>, modes: Vec<Vec<bool>>) -> House {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
        let tasks = tasks.into_iter().map(|(name, control)| AgentTask { name: name.into(), control }).collect();
        let modes =
            modes.into_iter().enumerate().map(|(at, runs)| AgentMode { name: format!("m{at}"), runs }).collect();
        let (service, state) = ("engine".to_string(), folder.path().to_path_buf());
        let file =
            AgentFile { service, manager: Listen::usual(), key: "/k".into(), state, priority: None, tasks, modes };
        let (state, _) = State::open(folder.path(), "engine").unwrap();
        House { folder, file, state }
    }

    fn engine(&self) -> Engine {
        Engine::new(&self.file, &self.state).unwrap()
    }
}

/// What an agent would leave behind.
impl Drop for House {
    fn drop(&mut self) {
        self.engine().end().unwrap();
    }
}

fn start(words: &[&str]) -> Control {
    Control::Start(words.iter().map(|word| word.to_string()).collect())
}

fn sleeper() -> Control {
    start(&["sleep", "600"])
}

/// The processes of a task, its holder not among them.
fn processes(engine: &Engine, place: usize) -> Vec<Process> {
    Process::of(engine.started[&place].1.id()).map(Process::descendants).unwrap_or_default()
}

/// R, S (sleeping), T (stopped), D or, in a frozen cgroup, F.
fn state(process: Process) -> char {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", process.pid)).unwrap_or_default();
    let frozen = read("cgroup").lines().find_map(|line| {
        let path = line.strip_prefix("0::/").filter(|path| path.contains("giusto-task"))?;
        let below = |root: &str| std::fs::read_to_string(Path::new(root).join(path).join("cgroup.events")).ok();
        below("/sys/fs/cgroup").or_else(|| below("/sys/fs/cgroup/unified"))
    });
    if frozen.is_some_and(|events| events.contains("frozen 1")) {
        return 'F';
    }
    read("stat").rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('X')
}

fn until(mut condition: impl FnMut() -> bool, what: &str) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn stands(engine: &Engine, place: usize) {
    let all = || processes(engine, place);
    until(|| all().into_iter().all(|one| matches!(state(one), 'T' | 'F')), "all of the task stopped");
}

fn goes(engine: &Engine, place: usize, at_least: usize) {
    let all = || processes(engine, place);
    let go = |all: Vec<Process>| all.len() >= at_least && all.into_iter().all(|one| !matches!(state(one), 'T' | 'F'));
    until(|| go(all()), "all of the task going on");
}

#[test]
fn exactly_the_tasks_of_a_mode_run_and_each_is_started_once() {
    let house = House::new(
        vec![("a", sleeper()), ("b", sleeper())],
        vec![vec![true, false], vec![false, true], vec![false; 2]],
    );
    let mut engine = house.engine();
    engine.switch(2).unwrap();
    assert!(engine.started.is_empty(), "no task was started to be stopped");
    engine.switch(0).unwrap();
    let a = engine.started[&0].clone();
    assert_eq!(engine.started.len(), 1);
    engine.switch(1).unwrap();
    let b = engine.started[&1].clone();
    stands(&engine, 0);
    goes(&engine, 1, 1);
    engine.switch(0).unwrap();
    engine.switch(0).unwrap();
    goes(&engine, 0, 1);
    stands(&engine, 1);
    assert_eq!((&engine.started[&0], &engine.started[&1]), (&a, &b));
    engine.switch(2).unwrap();
    stands(&engine, 0);
    assert!(engine.switch(3).unwrap_err().contains("no local mode 3"));
}

#[test]
fn what_a_task_forks_stops_goes_on_and_ends_with_it_in_whatever_session_it_is() {
    // Its first process ends; a grandchild in a session of its own is left, and makes children.
    let script = "setsid sh -c 'while :; do sleep 0.01; done' & (setsid sleep 600 &) ; sleep 0.05; exit 0";
    let house = House::new(vec![("a", start(&["sh", "-c", script]))], vec![vec![true], vec![false]]);
    let mut engine = house.engine();
    engine.switch(0).unwrap();
    let task = engine.started[&0].clone();
    std::thread::sleep(Duration::from_millis(100));
    goes(&engine, 0, 2);
    engine.switch(1).unwrap();
    stands(&engine, 0);
    let all = processes(&engine, 0);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(processes(&engine, 0), all, "nothing is born in what stands still");
    engine.switch(0).unwrap();
    goes(&engine, 0, 2);
    assert_eq!(engine.started[&0], task, "it runs as long as anything of it does");
    engine.switch(1).unwrap();
    engine.end().unwrap();
    assert!(!task.1.runs() && all.iter().all(|one| !one.lives()), "also what stood still has ended");
    assert_eq!(house.state.records().unwrap().read(), []);
}

#[test]
fn a_new_engine_finds_the_tasks_of_one_that_was_killed_and_nothing_else() {
    let house = House::new(vec![("a", sleeper()), ("b", sleeper())], vec![vec![true, false], vec![false, false]]);
    // It says that it is the task b, and in the right words.
    let mut forged = Command::new("sleep").arg("600").env("GIUSTO_TASK", "engine/b").spawn().unwrap();
    let mut first = house.engine();
    first.switch(0).unwrap();
    let mut second = house.engine();
    assert_eq!(second.started, first.started);
    second.switch(1).unwrap();
    stands(&second, 0);
    let forged_process = Process::of(forged.id() as i32).unwrap();
    assert_ne!(state(forged_process), 'T', "it was not touched");
    second.switch(0).unwrap();
    goes(&second, 0, 1);
    assert_eq!(second.started, first.started, "not started twice");
    second.end().unwrap();
    assert!(forged_process.lives());
    forged.kill().unwrap();
    forged.wait().unwrap();
}

#[test]
fn a_record_of_a_process_that_is_another_by_now_is_no_task() {
    let house = House::new(vec![("a", sleeper())], vec![vec![true], vec![false]]);
    let mut other = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
    let own = Process::of(other.id() as i32).unwrap();
    // As if the id had been the holder's before: the start time is that of another.
    let reused = Process { pid: own.pid, started: own.started - 1 };
    house.state.records().unwrap().form(0, "a", None).unwrap().fill_in(reused).unwrap();
    let mut engine = house.engine();
    assert!(engine.started.is_empty());
    engine.switch(1).unwrap();
    assert!(!matches!(state(own), 'T' | 'F'));
    engine.switch(0).unwrap();
    assert_ne!(engine.started[&0].1.id(), own.pid, "started anew");
    engine.end().unwrap();
    assert!(own.lives());
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn a_task_that_the_file_has_no_more_is_ended() {
    let mut house = House::new(vec![("a", sleeper()), ("b", sleeper())], vec![vec![true, true]]);
    let mut first = house.engine();
    first.switch(0).unwrap();
    let (a, b) = (first.started[&0].1.clone(), first.started[&1].1.clone());
    house.file.tasks.remove(0);
    house.file.modes[0].runs.remove(0);
    let mut second = house.engine();
    assert!(second.notes().iter().any(|note| note.contains("'a'") && note.contains("not in the file any more")));
    first.reap();
    assert!(!a.runs() && b.runs());
    second.switch(0).unwrap();
    assert_eq!(second.started[&0].1, b);
}

#[test]
fn a_task_that_has_ended_is_started_again_and_one_that_cannot_be_started_is_named() {
    let tasks = vec![("a", sleeper()), ("nowhere", start(&["/no/such/program"]))];
    let house = House::new(tasks, vec![vec![true, false], vec![false, false], vec![false, true]]);
    let mut engine = house.engine();
    engine.switch(0).unwrap();
    let first = engine.started[&0].1.clone();
    processes(&engine, 0).into_iter().for_each(|one| one.signal(Signal::KILL).unwrap());
    until(
        || {
            engine.reap();
            !first.runs()
        },
        "the end of its holder",
    );
    engine.switch(1).unwrap();
    engine.switch(0).unwrap();
    assert_ne!(engine.started[&0].1, first);
    assert!(engine.switch(2).unwrap_err().contains("'nowhere' does not go on: No such file"));
    assert_eq!(house.state.records().unwrap().read().len(), 1, "nothing is left of it");
}

#[test]
fn programs_and_pid_files_are_told_and_what_fails_is_named_beside_what_works() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = format!("echo $0 >> {}", log.display());
    let command = |words: &[&str]| Control::Command(words.iter().map(|word| word.to_string()).collect());
    let mut sleeping = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
    let pids = folder.path().join("pid");
    std::fs::write(&pids, format!("{}\n", sleeping.id())).unwrap();
    let tasks = vec![
        ("told", command(&["sh", "-c", &script])),
        ("fails", command(&["false"])),
        ("known", Control::PidFile(pids)),
        ("nowhere", Control::PidFile("/no/such".into())),
        ("frozen", Control::Cgroup("no/such".into())),
    ];
    let house = House::new(tasks, vec![vec![true; 5], vec![true, false, false, false, false]]);
    let mut engine = house.engine();
    let error = engine.switch(1).unwrap_err();
    for part in
        ["'fails' does not stop", "'nowhere' does not stop", "'frozen' does not stop: there is no cgroup no/such"]
    {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("told") && !error.contains("known"), "{error}");
    let process = Process::of(sleeping.id() as i32).unwrap();
    until(|| state(process) == 'T', "stopped");
    engine.switch(0).unwrap_err();
    until(|| state(process) != 'T', "going on");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "start\nstart\n");
    sleeping.kill().unwrap();
    sleeping.wait().unwrap();
}

#[test]
fn a_pid_file_is_believed_only_if_no_stranger_can_have_written_it() {
    let mut victim = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
    let process = Process::of(victim.id() as i32).unwrap();
    let house = House::new(vec![("a", Control::PidFile("/p".into()))], vec![vec![true], vec![false]]);
    let path = house.folder.path().join("pid");
    let mut engine = house.engine();
    engine.tasks[0].control = Control::PidFile(path.clone());
    let write = |text: String, mode: u32| {
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    };
    write(victim.id().to_string(), 0o666);
    assert!(engine.switch(1).unwrap_err().contains("can be written by others"));
    if rustix::process::geteuid().is_root() {
        write(victim.id().to_string(), 0o644);
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        assert!(engine.switch(1).unwrap_err().contains("can be written by others"));
    }
    std::fs::rename(&path, house.folder.path().join("other")).unwrap();
    std::os::unix::fs::symlink(house.folder.path().join("other"), &path).unwrap();
    engine.switch(1).unwrap_err();
    for text in ["0", "-1", "1x", "", "99999999999"] {
        write(text.into(), 0o600);
        assert!(engine.switch(1).unwrap_err().contains("names no process"), "{text}");
    }
    assert_ne!(state(process), 'T');
    write(victim.id().to_string(), 0o600);
    engine.switch(1).unwrap();
    until(|| state(process) == 'T', "stopped");
    // The same file, and a process that has its id but is not it.
    let (_, known) = engine.told.get_mut(&0).unwrap();
    known.started -= 1;
    assert!(engine.switch(0).unwrap_err().contains("which is another one by now"));
    victim.kill().unwrap();
    victim.wait().unwrap();
}
