use super::*;
use giusto_model::Listen;

fn file(tasks: Vec<(&str, Control)>, modes: Vec<Vec<bool>>) -> AgentFile {
    let service = format!("engine-{}-{:?}", std::process::id(), std::thread::current().id());
    let tasks = tasks.into_iter().map(|(name, control)| AgentTask { name: name.into(), control }).collect();
    let modes = modes.into_iter().enumerate().map(|(at, runs)| AgentMode { name: format!("m{at}"), runs }).collect();
    let (manager, key, state) = (Listen::usual(), "/k".into(), "/s".into());
    AgentFile { service, manager, key, state, priority: None, tasks, modes }
}

fn sleeper() -> Control {
    Control::Start(vec!["sleep".into(), "600".into()])
}

/// R, S (sleeping), T (stopped) or Z.
fn state(group: Pid) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", group.as_raw_nonzero())).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

fn settled(group: Pid, wanted: char) {
    let until = Instant::now() + Duration::from_secs(10);
    while state(group) != wanted {
        assert!(Instant::now() < until, "{} instead of {wanted}", state(group));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn end(engine: &mut Engine) {
    for group in engine.groups.values() {
        let _ = rustix::process::kill_process_group(*group, Signal::KILL);
    }
    engine.children.iter_mut().for_each(|child| _ = child.wait());
}

#[test]
fn exactly_the_tasks_of_a_mode_run_and_each_is_started_once() {
    let file =
        file(vec![("a", sleeper()), ("b", sleeper())], vec![vec![true, false], vec![false, true], vec![false; 2]]);
    let mut engine = Engine::new(&file);
    engine.switch(2).unwrap();
    assert!(engine.groups.is_empty(), "nobody was started to be stopped");
    engine.switch(0).unwrap();
    let a = engine.groups[&0];
    assert_eq!(engine.groups.len(), 1);
    engine.switch(1).unwrap();
    let b = engine.groups[&1];
    settled(a, 'T');
    settled(b, 'S');
    engine.switch(0).unwrap();
    engine.switch(0).unwrap();
    settled(a, 'S');
    settled(b, 'T');
    assert_eq!((engine.groups[&0], engine.groups[&1]), (a, b));
    engine.switch(2).unwrap();
    settled(a, 'T');
    assert!(engine.switch(3).unwrap_err().contains("no local mode 3"));
    end(&mut engine);
}

#[test]
fn a_new_engine_finds_the_tasks_of_one_that_was_killed() {
    let file = file(vec![("a", sleeper())], vec![vec![true], vec![false]]);
    let mut first = Engine::new(&file);
    first.switch(0).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    let mut second = loop {
        let second = Engine::new(&file); // the mark is there once the child runs its program
        if !second.groups.is_empty() {
            break second;
        }
        assert!(Instant::now() < until);
    };
    assert_eq!(second.groups, first.groups);
    second.switch(1).unwrap();
    settled(first.groups[&0], 'T');
    end(&mut first);
}

#[test]
fn a_task_that_has_ended_is_started_again() {
    let file = file(vec![("a", sleeper())], vec![vec![true], vec![false]]);
    let mut engine = Engine::new(&file);
    engine.switch(0).unwrap();
    let first = engine.groups[&0];
    rustix::process::kill_process_group(first, Signal::KILL).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while engine.groups[&0] == first {
        assert!(Instant::now() < until);
        engine.switch(1).unwrap();
        engine.switch(0).unwrap();
    }
    end(&mut engine);
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
    let mut engine = Engine::new(&file(tasks, vec![vec![true; 5], vec![true, false, false, false, false]]));
    let error = engine.switch(1).unwrap_err();
    for part in
        ["'fails' does not stop", "'nowhere' does not stop", "'frozen' does not stop: there is no cgroup no/such"]
    {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("told") && !error.contains("known"), "{error}");
    let group = Pid::from_child(&sleeping);
    settled(group, 'T');
    engine.switch(0).unwrap_err();
    settled(group, 'S');
    assert_eq!(std::fs::read_to_string(log).unwrap(), "start\nstart\n");
    sleeping.kill().unwrap();
    sleeping.wait().unwrap();
}
