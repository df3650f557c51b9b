use super::*;
use std::path::Path;

/// Remembers steps; the `fail`-th from now on fails, and all after it where `broken`.
#[derive(Default)]
struct Double {
    done: Vec<String>,
    fail: Option<usize>,
    broken: bool,
}

impl Stage for Double {
    fn report(&mut self, plan: &Plan) -> Report {
        let services = plan.services.iter().map(|s| ServiceStatus { name: s.name.clone(), ..Default::default() });
        Report { services: services.collect(), ..Report::default() }
    }

    fn apply(&mut self, step: &Step, _: &Plan) -> Result<(), Error> {
        match &mut self.fail {
            Some(0) => {
                self.fail = self.broken.then_some(0);
                return Err(Error::Service { name: step.service().into(), what: "was told to fail".into() });
            }
            Some(left) => *left -= 1,
            None => {}
        }
        self.done.push(step.to_string());
        Ok(())
    }
}

fn facts() -> Facts {
    Facts::typical(vec![0, 1])
}

fn plan(path: &Path) -> Result<(Option<Site>, Plan), Refused> {
    let site = giusto_site::read(path).map_err(|error| Refused { exit: 2, reason: error.to_string() })?;
    let planned = giusto_planner::plan(&site, &facts());
    let plan = planned.map_err(|refusal| Refused { exit: 1, reason: refusal.to_string() })?;
    Ok((Some(site), plan))
}

const SITE: &str = "giusto: 1\nhosts: {h: {cores: 0-1}}\nservices:\n  \
    a: {start: sleep 1, tasks: [{wcet: 20ms, period: 100ms}], promise: as-if-alone}\n  \
    b: {start: sleep 1, tasks: [{wcet: 10ms, period: 100ms}], promise: as-if-alone}\n  \
    c: {start: sleep 1, promise: leftovers}\n";

struct House {
    site: PathBuf,
    operator: Operator,
    folder: tempfile::TempDir,
    _journal: Journal,
}

fn house() -> House {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let site = folder.path().join("site.yaml");
    std::fs::write(&site, SITE).unwrap();
    let (journal, _) = Journal::open_in(folder.path()).unwrap();
    let signals: &'static Signals = Box::leak(Box::new(Signals::default()));
    let plan_file = folder.path().join("plan.json");
    let settings = Settings {
        plan_file: Some(plan_file),
        facts: facts(),
        metrics: None,
        web: None,
        otlp: None,
        notify: Notify::default(),
        signals,
        again: None,
    };
    let (_, first) = plan(&site).unwrap();
    let operator = Operator::open(&journal, &first, site.clone(), Box::new(plan), settings).unwrap();
    House { site, operator, folder, _journal: journal }
}

impl House {
    /// Asks as a client does, while the loop turns.
    fn reload(&mut self, text: &str, stage: &mut Double) -> Result<Change, Refused> {
        std::fs::write(&self.site, text).unwrap();
        let control_queue = self.operator.control_queue.clone();
        let client = std::thread::spawn(move || control_queue.reload(None));
        while !client.is_finished() {
            self.operator.turn(stage);
            std::thread::sleep(Duration::from_millis(1));
        }
        client.join().unwrap()
    }
}

#[test]
fn a_reload_does_the_difference_and_writes_the_plan() {
    let (mut house, mut stage) = (house(), Double::default());
    assert_eq!(house.operator.control_queue.status().state, State::Starting);
    assert!(house.reload(SITE, &mut stage).unwrap().steps.is_empty());
    assert_eq!(house.operator.control_queue.status().state, State::Enforcing);
    let more = SITE.replace("10ms, period", "15ms, period").replace("c: {start: sleep 1", "c: {start: sleep 2");
    let change = house.reload(&more, &mut stage).unwrap();
    assert_eq!(stage.done, ["remove c", "increase b to 20 ms every 100 ms", "add c"]);
    assert_eq!(change.steps.len(), 3);
    let written = giusto_planner::read(&house.folder.path().join("plan.json")).unwrap();
    assert_eq!(written, house.operator.plan);
    house.operator.stopping();
    assert_eq!(house.operator.control_queue.status().state, State::Stopping);
}

#[test]
fn a_site_that_is_bad_or_does_not_fit_changes_nothing() {
    let (mut house, mut stage) = (house(), Double::default());
    let before = house.operator.plan.clone();
    assert_eq!(house.reload("giusto: 2\n", &mut stage).unwrap_err().exit, 2);
    let much = SITE.replace("20ms, period", "99ms, period");
    assert_eq!(house.reload(&much, &mut stage).unwrap_err().exit, 1);
    assert!(stage.done.is_empty());
    assert_eq!(house.operator.plan, before);
}

#[test]
fn what_another_host_has_to_do_or_several_is_not_done_here() {
    let (mut house, mut stage) = (house(), Double::default());
    let before = house.operator.plan.clone();
    let more = SITE.replace("{h: {cores: 0-1}}", "{h: {cores: 0-1}, i: {cores: 0-1}}");
    for (site, names) in [(SITE.replace("{h:", "{i:"), "is for i;"), (more, "is for h, i;")] {
        let refused = house.reload(&site, &mut stage).unwrap_err();
        assert!(refused.exit == 2 && refused.reason.contains(names), "{refused}");
    }
    assert!(stage.done.is_empty() && house.operator.plan == before);
    let several = Plan { hosts: [before.hosts.clone(), before.hosts.clone()].concat(), ..before };
    let settings = Settings {
        plan_file: None,
        facts: facts(),
        metrics: None,
        web: None,
        otlp: None,
        notify: Notify::default(),
        signals: Box::leak(Box::new(Signals::default())),
        again: None,
    };
    let opened = Operator::open(&house._journal, &several, PathBuf::new(), Box::new(plan), settings);
    assert!(matches!(opened, Err(Error::ManyHosts(2))));
}

#[test]
fn a_step_that_fails_is_gone_back_from_wherever_it_is() {
    // Both change cores, one its start, and a fourth comes.
    let next = SITE.replace("10ms, period", "60ms, period").replace("c: {start: sleep 1", "c: {start: sleep 2")
        + "  d: {start: sleep 1, promise: leftovers}\n";
    let mut steps = 0;
    for fail in 0.. {
        let (mut house, mut stage) = (house(), Double { fail: Some(fail), ..Double::default() });
        let before = house.operator.layout.clone();
        match house.reload(&next, &mut stage) {
            Err(refused) => {
                assert!(refused.reason.contains("was told to fail; the old plan is in force"), "{refused}");
                assert_eq!(house.operator.layout, before);
                assert_eq!(house.operator.control_queue.status().state, State::Enforcing);
                steps += 1;
            }
            Ok(change) => {
                assert_eq!(change.steps.len(), steps, "every step has failed once");
                break;
            }
        }
    }
    assert!(steps >= 5, "{steps}");
}

#[test]
fn where_going_back_fails_too_it_is_degraded_until_a_reload_works() {
    let (mut house, mut stage) = (house(), Double { fail: Some(1), broken: true, ..Double::default() });
    let next = SITE.replace("10ms, period", "60ms, period");
    let refused = house.reload(&next, &mut stage).unwrap_err();
    assert!(refused.reason.contains("going back, cannot"), "{refused}");
    let status = house.operator.control_queue.status();
    assert!(status.state == State::Degraded && status.warnings[0].contains("reload a site that fits"), "{status:?}");
    stage.fail = None;
    let change = house.reload(SITE, &mut stage).unwrap();
    assert!(!change.steps.is_empty(), "from what is really held");
    assert_eq!(house.operator.control_queue.status().state, State::Enforcing);
}
