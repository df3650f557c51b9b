//! Spark Structured Streaming in local mode with two workers, on shares of two cores of this machine: [LiH21, § 3.4.3, Figs 3.15 to 3.17].

use crate::measured::giusto;
use crate::vas::{sample, Floor};
use crate::vatc::{named, table};
use crate::{Error, Size};
use rustix::process::{kill_process, Pid, Signal};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const WORKERS: u64 = 2;
const EVENTS: u64 = 150_000;
/// Of a micro-batch.
const PERIOD_MS: u64 = 1000;
/// Batches that are not counted: Java compiles what runs often, and Spark fills its first window.
const WARM_UP: usize = 25;
/// Until the first batch.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is built of `vas-spark/`.
const JARS: &str = "target/vas-spark";
/// Packages that Spark opens by force (its launcher does the same).
const OPENS: [&str; 13] = [
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
];

/// Table `batches`: how long each micro-batch took, by run; `distances`: of a stretch, a set, of each run to the same stretch of both
/// runs on whole cores; `machine`: what was planned with. The first run on whole cores is where the longest batch is taken from, as in the paper;
/// then come two more, one beside competitors without a plan, and one beside them on the shares.
pub(crate) fn run(size: Size, folder: &Path, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let (program, count) = (giusto()?, (size.length.ns() / 1_000_000 / PERIOD_MS) as usize);
    if !Path::new(JARS).join("lib").exists() {
        return Err(Error::Lacks(format!("Spark in {JARS}: scripts/spark.sh")));
    }
    let words = words()?;
    let step = |run: Result<Vec<u64>, Error>| {
        played(5);
        run
    };
    let first = step(whole(&words, count, &folder.join("first")))?;
    let longest = first.iter().copied().max().unwrap_or(PERIOD_MS);
    let wholes =
        [step(whole(&words, count, &folder.join("whole-a")))?, step(whole(&words, count, &folder.join("whole-b")))?];
    let site = |promise: &str| {
        let start: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let competitor = "{start: [sh, -c, 'while :; do :; done'], promise: leftovers}";
        format!(
            "giusto: 1\nhosts:\n  here: {{cores: 0-1}}\nservices:\n  engine:\n    start: [{}]\n{promise}  one: {competitor}\n  other: {competitor}\n",
            start.join(", ")
        )
    };
    let planned = format!(
        "    copies: {WORKERS}\n    threads: Executor task l*\n    tasks: [{{name: batch, wcet: {longest}ms, period: {PERIOD_MS}ms}}]\n    promise: as-if-alone\n"
    );
    let shared = step(beside(&program, &site("    promise: leftovers\n"), count, &folder.join("no-plan")))?;
    let served = step(beside(&program, &site(&planned), count, &folder.join("giusto")))?;
    let (mut batches, mut distances) = (Vec::new(), Vec::new());
    let runs = [("whole", &wholes[0]), ("whole-b", &wholes[1]), ("no-plan", &shared), ("giusto", &served)];
    for set in 0..size.sets as usize {
        let stretch = |run: &[u64]| {
            sample(&run[run.len() * set / size.sets as usize..run.len() * (set + 1) / size.sets as usize])
        };
        let floor = Floor::of([stretch(&wholes[0])?, stretch(&wholes[1])?]);
        for (arm, run) in [("whole", None), ("no-plan", Some(&shared)), ("giusto", Some(&served))] {
            let distance = run.map_or(Ok(floor.between()), |run| stretch(run).map(|run| floor.distance(&run)))?;
            let numbers = [distance, floor.between()].map(|ms| format!("{ms:.3}"));
            distances.push([&[set.to_string(), arm.to_string()], &numbers[..]].concat());
        }
        for (arm, run) in runs {
            let own = &run[run.len() * set / size.sets as usize..run.len() * (set + 1) / size.sets as usize];
            batches.extend(own.iter().map(|ms| vec![set.to_string(), arm.to_string(), ms.to_string()]));
        }
    }
    let pooled = Floor::of([sample(&wholes[0])?, sample(&wholes[1])?]);
    let [plain, ours] = [pooled.distance(&sample(&shared)?), pooled.distance(&sample(&served)?)];
    let numbers = [longest as f64, pooled.between(), plain, ours].map(|ms| format!("{ms:.3}"));
    let machine = vec![[&["0".to_string()], &numbers[..], &[served.len().to_string()]].concat()];
    Ok(named(vec![
        ("batches", table(vec!["set", "arm", "ms"], &batches)),
        ("distances", table(vec!["set", "arm", "w1_ms", "floor_ms"], &distances)),
        ("machine", table(vec!["set", "wcet_ms", "floor_ms", "no_plan_ms", "giusto_ms", "batches"], &machine)),
    ]))
}

/// What starts Spark.
fn words() -> Result<Vec<String>, Error> {
    let jars = std::path::absolute(JARS).map_err(Error::machine)?;
    let jars = jars.display();
    let mut words = ["java", "-Xms1g", "-Xmx1g", "-XX:+UseSerialGC"].map(String::from).to_vec();
    words.extend(OPENS.iter().map(|name| format!("--add-opens=java.base/{name}=ALL-UNNAMED")));
    words.extend(["-cp".into(), format!("{jars}/*:{jars}/lib/*"), "giusto.spark.Campaigns".into()]);
    words.extend([WORKERS, EVENTS, PERIOD_MS].map(|number| number.to_string()));
    Ok(words)
}

/// Alone among everything that wants the cores (decision 0001).
fn whole(words: &[String], count: usize, folder: &Path) -> Result<Vec<u64>, Error> {
    fs::create_dir_all(folder).map_err(Error::machine)?;
    let log = folder.join("engine.log");
    let mut command = Command::new("chrt");
    command.args(["--fifo", "1"]).args(words).stdin(Stdio::null()).stderr(Stdio::null());
    command.stdout(File::create(&log).map_err(Error::machine)?);
    let engine = Running(command.spawn().map_err(Error::machine)?, Signal::TERM);
    engine.batches(&log, count)
}

/// Beside competitors that take every cycle they get, under `giusto run`.
fn beside(program: &Path, site: &str, count: usize, folder: &Path) -> Result<Vec<u64>, Error> {
    fs::create_dir_all(folder).map_err(Error::machine)?;
    let file = folder.join("site.yaml");
    fs::write(&file, site).map_err(Error::machine)?;
    let log = File::create(folder.join("giusto.log")).map_err(Error::machine)?;
    let mut command = Command::new(program);
    command.arg("run").arg(&file).args(["--host", "here", "--out"]).arg(folder).stdin(Stdio::null());
    command.stdout(log.try_clone().map_err(Error::machine)?).stderr(log);
    let giusto = Running(command.spawn().map_err(Error::machine)?, Signal::INT);
    giusto.batches(&folder.join("logs/engine.log"), count)
}

/// What is ended by a signal when it is dropped.
struct Running(Child, Signal);

impl Running {
    /// How long each of so many batches took, in ms, once it is warm.
    fn batches(mut self, log: &PathBuf, count: usize) -> Result<Vec<u64>, Error> {
        let (begin, most) = (Instant::now(), Duration::from_millis(3 * PERIOD_MS) * (WARM_UP + count) as u32);
        loop {
            let told = fs::read_to_string(log).unwrap_or_default();
            let took = told
                .lines()
                .filter_map(|line| line.strip_prefix("batch ")?.split_once(": ")?.1.split(' ').next()?.parse().ok());
            let took: Vec<u64> = took.collect();
            if took.len() >= WARM_UP + count {
                return Ok(took[WARM_UP..WARM_UP + count].to_vec());
            }
            if begin.elapsed() > PATIENCE + most || matches!(self.0.try_wait(), Ok(Some(_))) {
                return Err(Error::machine(format!(
                    "{} has {} batches; the other logs there say why",
                    log.display(),
                    took.len()
                )));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0.id() as i32) {
            let _ = kill_process(pid, self.1);
        }
        let _ = self.0.wait();
    }
}
