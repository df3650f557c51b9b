//! Spark Structured Streaming in local mode with two workers, on shares of two cores of this machine: [LiH21, § 3.4.3, Figs
//! 3.15 to 3.17].

use crate::measured::{giusto, last_line, refused};
use crate::vas::{sample, Floor};
use crate::vatc::{named, table};
use crate::{Error, Size};
use rustix::process::{kill_process, Pid, Signal};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const WORKERS: u64 = 2;
const EVENTS: u64 = 150_000;
/// Of a micro-batch.
const PERIOD_MS: u64 = 1000;
/// Batches that are not counted: Java compiles what runs often, and Spark fills its first window. In a short run as many as are
/// counted.
const WARM_UP: usize = 25;
/// Without a plan a batch takes seconds: so many are not counted, and a part of the others is enough.
const WARM_UP_SLOW: usize = 5;
const PART: usize = 4;
/// Nearly all of a core, which two workers never use up: with nothing else there, a whole core with the places of the plan.
const WHOLE_MS: u64 = 870;
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

/// Table `batches`: how long each micro-batch took, by run; `distances`: of a stretch, a set, of each run to the same stretch
/// of both runs on whole cores; `machine`: what was planned with, and the distances of whole runs. All threads are in the same
/// places in all runs but two. The first run on whole cores is where the longest batch is taken from, as in the paper; then
/// come two more, `free`, on whole cores between which the kernel moves threads, one on the shares beside competitors, and one
/// beside them without a plan.
pub(crate) fn run(size: Size, folder: &Path, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let (program, count) = (giusto()?, (size.length.ns() / 1_000_000 / PERIOD_MS) as usize);
    if !Path::new(JARS).join("lib").exists() {
        return Err(Error::Lacks(format!("Spark in {JARS}: scripts/spark.sh")));
    }
    let words = words()?;
    let start: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let site = |promise: &str, beside: bool| {
        let competitor = "{start: [sh, -c, 'while :; do :; done'], promise: leftovers}";
        let others = if beside { format!("  one: {competitor}\n  other: {competitor}\n") } else { String::new() };
        let hosts = "giusto: 1\nhosts:\n  here: {cores: 0-1}\n";
        format!("{hosts}services:\n  engine:\n    start: [{}]\n{promise}{others}", start.join(", "))
    };
    let copies = |wcet: u64| {
        let tasks = format!("[{{name: batch, wcet: {wcet}ms, period: {PERIOD_MS}ms}}]");
        format!("    copies: {WORKERS}\n    threads: Executor task l*\n    tasks: {tasks}\n    promise: as-if-alone\n")
    };
    let under = |name: &str, site: String, warm_up, count| {
        let run = under(&program, &site, (warm_up, count), &folder.join(name));
        played(6);
        run
    };
    let warm_up = WARM_UP.min(count);
    let whole = |name: &str| under(name, site(&copies(WHOLE_MS), false), warm_up, count);
    let first = whole("first")?;
    let longest = first.iter().copied().max().unwrap_or(PERIOD_MS);
    let wholes = [whole("whole-a")?, whole("whole-b")?];
    let free = free(&words, count, &folder.join("free"))?;
    played(6);
    let served = under("giusto", site(&copies(longest), true), warm_up, count)?;
    let shared = under("no-plan", site("    promise: leftovers\n", true), WARM_UP_SLOW, count / PART)?;
    let (mut batches, mut distances) = (Vec::new(), Vec::new());
    let runs =
        [("whole", &wholes[0]), ("whole-b", &wholes[1]), ("free", &free), ("giusto", &served), ("no-plan", &shared)];
    let stretch = |run: &[u64], set: usize| {
        let sets = size.sets as usize;
        run[run.len() * set / sets..run.len() * (set + 1) / sets].to_vec()
    };
    for set in 0..size.sets as usize {
        let floor = Floor::of([sample(&stretch(&wholes[0], set))?, sample(&stretch(&wholes[1], set))?]);
        for (arm, run) in runs.iter().filter(|(arm, _)| *arm != "whole-b") {
            let distance = match *arm {
                "whole" => floor.between(),
                _ => floor.distance(&sample(&stretch(run, set))?),
            };
            let numbers = [distance, floor.between()].map(|ms| format!("{ms:.3}"));
            distances.push([&[set.to_string(), arm.to_string()], &numbers[..]].concat());
        }
        for (arm, run) in runs {
            batches.extend(stretch(run, set).iter().map(|ms| vec![set.to_string(), arm.to_string(), ms.to_string()]));
        }
    }
    let pooled = Floor::of([sample(&wholes[0])?, sample(&wholes[1])?]);
    let [loose, ours, plain] = [&free, &served, &shared].map(|run| sample(run).map(|run| pooled.distance(&run)));
    let numbers = [longest as f64, pooled.between(), loose?, ours?, plain?].map(|ms| format!("{ms:.3}"));
    let machine = vec![[&["0".to_string()], &numbers[..], &[served.len().to_string()]].concat()];
    let machine_columns = vec!["set", "wcet_ms", "floor_ms", "free_ms", "giusto_ms", "no_plan_ms", "batches"];
    Ok(named(vec![
        ("batches", table(vec!["set", "arm", "ms"], &batches)),
        ("distances", table(vec!["set", "arm", "w1_ms", "floor_ms"], &distances)),
        ("machine", table(machine_columns, &machine)),
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

/// Alone among everything that wants the cores, its threads wherever the kernel has them.
fn free(words: &[String], count: usize, folder: &Path) -> Result<Vec<u64>, Error> {
    fs::create_dir_all(folder).map_err(Error::machine)?;
    let log = folder.join("engine.log");
    let mut command = Command::new("chrt");
    command.args(["--fifo", "1"]).args(words).stdin(Stdio::null()).stderr(Stdio::null());
    command.stdout(File::create(&log).map_err(Error::machine)?);
    let engine = Running(command.spawn().map_err(Error::machine)?, Signal::TERM);
    engine.batches(&log, (WARM_UP.min(count), count))?.map_err(|_| Error::machine(last_line(&log)))
}

/// Under `giusto run`; so many batches are not counted, and so many are.
fn under(program: &Path, site: &str, counts: (usize, usize), folder: &Path) -> Result<Vec<u64>, Error> {
    fs::create_dir_all(folder).map_err(Error::machine)?;
    let file = folder.join("site.yaml");
    fs::write(&file, site).map_err(Error::machine)?;
    let said = folder.join("giusto.log");
    let log = File::create(&said).map_err(Error::machine)?;
    let mut command = Command::new(program);
    command.arg("run").arg(&file).args(["--host", "here", "--out"]).arg(folder).stdin(Stdio::null());
    command.stdout(log.try_clone().map_err(Error::machine)?).stderr(log);
    let giusto = Running(command.spawn().map_err(Error::machine)?, Signal::INT);
    giusto.batches(&folder.join("logs/engine.log"), counts)?.map_err(|ended| refused(ended.code(), last_line(&said)))
}

/// What is ended by a signal when it is dropped.
struct Running(Child, Signal);

impl Running {
    /// How long each of so many batches took, in ms, once it is warm; how the program ended, if it did so before. Errors: none
    /// of both in time.
    fn batches(mut self, log: &Path, (warm_up, count): (usize, usize)) -> Result<Result<Vec<u64>, ExitStatus>, Error> {
        let (begin, most) = (Instant::now(), Duration::from_millis(5 * PERIOD_MS) * (warm_up + count) as u32);
        loop {
            let told = fs::read_to_string(log).unwrap_or_default();
            let took = told
                .lines()
                .filter_map(|line| line.strip_prefix("batch ")?.split_once(": ")?.1.split(' ').next()?.parse().ok());
            let took: Vec<u64> = took.collect();
            if took.len() >= warm_up + count {
                return Ok(Ok(took[warm_up..warm_up + count].to_vec()));
            }
            if let Ok(Some(ended)) = self.0.try_wait() {
                return Ok(Err(ended));
            }
            if begin.elapsed() > PATIENCE + most {
                let (wanted, after) = (warm_up + count, begin.elapsed().as_secs());
                let why = format!("{} of {wanted} batches after {after} s; {}", took.len(), last_line(log));
                return Err(Error::machine(why));
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
