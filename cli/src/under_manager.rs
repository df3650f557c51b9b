//! `giusto measure latency --manager`: what a server of the manager gives to a program that never rests.
//!
//! This program runs itself, with three servers on one core whose grids meet: of the first, whose period is the shortest, each
//! budget is due when its period begins, which is when the manager has most to do.

use crate::failure::Failure;
use giusto_daemon::Signals;
use giusto_measure::{Asked, StressLoad, SupplyReport};
use giusto_model::{Duration, ManagerRun, Stress};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration as Time, Instant};

const PERIOD: Duration = Duration::from_ms(5);
const BUDGET: Duration = Duration::from_ms(1);
/// Of the others.
const OTHERS: [Duration; 2] = [Duration::from_ms(10), Duration::from_ms(20)];
/// What a start takes is not counted as the manager's cost.
const BEGINNING: Time = Time::from_millis(500);
/// Until servers run, and at the end.
const BEYOND: Time = Time::from_secs(30);

/// Measures for so long on `core`. Needs what `giusto run` does. Errors: a giusto runs already, or it does not do what it should,
/// with what it said.
pub(crate) fn under_manager(core: u32, length: Duration, load: Stress) -> Result<ManagerRun, Failure> {
    let folder = Folder::new()?;
    let giusto =
        std::env::current_exe().map_err(|why| Failure::running(format!("cannot find giusto itself: {why}")))?;
    let (site, said, out) = (folder.0.join("site.yaml"), folder.0.join("said"), folder.0.join("out"));
    fs::write(&site, text(&giusto, core, length)).map_err(Failure::running)?;
    let file = File::create(&said).map_err(Failure::running)?;
    let _stress = (load == Stress::Stress).then(|| StressLoad::start(&[core])).transpose()?;
    let mut command = Command::new(&giusto);
    command.arg("run").arg(&site).arg("--out").arg(&out).args(["--backend", "manager"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    let mut run = Run(command.spawn().map_err(|why| Failure::running(format!("cannot start giusto run: {why}")))?);
    let mut cost = Cost { core, first: None, last: None };
    let report = report(&mut run, &out.join("logs/probe.log"), length, &mut cost).map_err(|why| {
        let said = fs::read_to_string(&said).unwrap_or_default();
        Failure::running(format!("{why} under the manager on core {core}: {}", said.trim()))
    })?;
    let asked = report.asked.ok_or_else(|| Failure::running("the probe saw no whole period; measure for longer"))?;
    let Asked { budget, period, behind, .. } = asked;
    let (periods, steal, cost) = (report.windows, report.steal, cost.of_a_period());
    Ok(ManagerRun { core, load, budget, period, periods, cost, behind, steal })
}

/// What the manager's thread has used, first and last while all servers were at work.
struct Cost {
    core: u32,
    first: Option<(Instant, u64)>,
    last: Option<(Instant, u64)>,
}

impl Cost {
    fn look(&mut self, giusto: u32, begun: Instant) {
        if begun.elapsed() < BEGINNING {
            return;
        }
        self.last = used(giusto, &format!("giusto-core{}", self.core)).map(|used| (Instant::now(), used));
        self.first = self.first.or(self.last);
    }

    /// All three servers use up each budget.
    fn of_a_period(&self) -> Option<Duration> {
        let ((begun, before), (ended, after)) = (self.first?, self.last?);
        let (passed, used) = ((ended - begun).as_nanos(), u128::from(after.checked_sub(before)?));
        let periods: u128 = OTHERS.iter().chain([&PERIOD]).map(|period| passed / u128::from(period.ns())).sum();
        u64::try_from(used.checked_div(periods)?).ok().map(Duration::from_ns)
    }
}

/// Processor time of the thread with this name, in ns.
fn used(process: u32, name: &str) -> Option<u64> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let own = |folder: &Path| fs::read_to_string(folder.join("comm")).is_ok_and(|found| found.trim_end() == name);
    let folder = tasks.map(|task| task.path()).find(|folder| own(folder))?;
    fs::read_to_string(folder.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
}

fn text(giusto: &Path, core: u32, length: Duration) -> String {
    let (period, budget) = (format!("{}ns", PERIOD.ns()), format!("{}ns", BUDGET.ns()));
    let start = ["measure", "supply", "--json", "--for", &format!("{}ns", length.ns()), "--window", &period, "--ask"];
    let words = start.map(String::from).into_iter().chain([format!("{budget}/{period}")]);
    let all: Vec<String> = std::iter::once(giusto.display().to_string()).chain(words).collect();
    let all = serde_json::to_string(&all).unwrap_or_default();
    let busy = r#"[sh, -c, "while :; do :; done"]"#;
    format!(
        "giusto: 1\nhosts:\n  here: {{cores: {core}}}\nservices:\n  \
         probe: {{start: {all}, server: deferrable, promise: {{supply: {budget}/{period}}}}}\n  \
         second: {{start: {busy}, server: deferrable, promise: {{supply: 1ms/{}}}}}\n  \
         third: {{start: {busy}, server: deferrable, promise: {{supply: 2ms/{}}}}}\n",
        OTHERS[0], OTHERS[1]
    )
}

/// What the probe has printed, once it has ended.
fn report(run: &mut Run, log: &Path, length: Duration, cost: &mut Cost) -> Result<SupplyReport, String> {
    let (signals, mut begun) = (Signals::mind(false), None);
    let until = Instant::now() + Time::from_nanos(length.ns()) + BEYOND;
    while Instant::now() < until {
        std::thread::sleep(Time::from_millis(100));
        if let Some(report) = fs::read_to_string(log).ok().and_then(|text| serde_json::from_str(&text).ok()) {
            return Ok(report);
        }
        // Its log is there once it has started.
        if log.exists() {
            cost.look(run.0.id(), *begun.get_or_insert_with(Instant::now));
        }
        if signals.stopped() {
            return Err("interrupted".into());
        }
        if run.0.try_wait().map_err(|why| why.to_string())?.is_some() {
            return Err("giusto run ended too early".into());
        }
    }
    Err("the probe did not end".into())
}

/// A giusto that runs, told to end when dropped.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

/// A folder, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, Failure> {
        let path = std::env::temp_dir().join(format!("giusto-latency-{}", std::process::id()));
        fs::create_dir(&path).map_err(|why| Failure::running(format!("cannot make {}: {why}", path.display())))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
