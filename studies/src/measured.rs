//! A service on a deferrable server of this machine, under `giusto run` and beside a competitor, with requests at random: what the
//! measured studies share. Root and a second core are needed.

use crate::Error;
use giusto_analysis::response::{response, Precision, Question, Server};
use giusto_measure::{drive, listener, profile, wait_listening, Awake, Generator, LoadPlan};
use giusto_model::{Arrivals, Duration, Interface, Load};
use giusto_simulator::replay;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The service's core, and the load generator's.
const CORE: u32 = 1;
const GENERATOR: Generator = Generator { cpu: Some(0), fifo_priority: Some(50) };
/// Requests of a profile.
const PROFILE: u32 = 300;
/// Before what counts.
const WARM_UP: Duration = Duration::from_secs(2);
/// Places in its period at which a server of the simulation begins: that of the real one is unknown.
const PHASES: u64 = 8;

/// A service that runs on a server.
pub(crate) struct Bench {
    giusto: Child,
    load: Load,
    server: Interface,
    /// Held for its effect.
    #[expect(dead_code, reason = "held for its effect")]
    awake: Option<Awake>,
}

/// What was seen.
pub(crate) struct Seen {
    /// When each request was sent, in ns from the first; and its response time.
    pub(crate) releases: Vec<u64>,
    pub(crate) responses: Vec<u64>,
}

/// How the machine differs from the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deviation {
    /// Of each budget, lost.
    pub(crate) loss: Duration,
    /// Added to each response time: network stack and wake-ups.
    pub(crate) latency: Duration,
}

impl Bench {
    /// Starts `words` under `giusto run` with `server`; files go to `folder`. Errors: [`Error::Lacks`] where this machine cannot.
    pub(crate) fn start(words: &[String], load: Load, server: Interface, folder: &Path) -> Result<Bench, Error> {
        let program = giusto()?;
        fs::create_dir_all(folder).map_err(Error::machine)?;
        let words: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', "''"))).collect();
        let Interface { budget, period } = server;
        let site = format!(
            "giusto: 1\nhosts:\n  here: {{cores: {CORE}, keep-free: 1%}}\nservices:\n  served:\n    start: [{}]\n    \
             server: deferrable\n    promise: {{supply: {}us/{}us}}\n  competitor:\n    start: [sh, -c, 'while :; do :; done']\n    \
             promise: leftovers\n",
            words.join(", "),
            budget.ns() / 1000,
            period.ns() / 1000
        );
        let (file, log) = (folder.join("site.yaml"), folder.join("giusto.log"));
        fs::write(&file, site).map_err(Error::machine)?;
        let log = File::create(log).map_err(Error::machine)?;
        let mut command = Command::new(program);
        command.arg("run").arg(&file).args(["--host", "here", "--out"]).arg(folder).stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(Error::machine)?).stderr(log);
        let giusto = command.spawn().map_err(Error::machine)?;
        let mut bench = Bench { giusto, load, server, awake: giusto_measure::stay_awake().ok() };
        let there = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        let address = bench.load.address();
        let listens = wait_listening(address, Duration::from_secs(15), &mut || there(&mut bench.giusto));
        listens.map_err(|why| Error::Lacks(format!("{why}; {}/giusto.log says more", folder.display())))?;
        std::thread::sleep(std::time::Duration::from_secs(1)); // until it has its server
        Ok(bench)
    }

    /// Processor times of single requests, in ns.
    pub(crate) fn profile(&self, seed: u64) -> Result<Vec<u64>, Error> {
        let pid = listener(self.load.address())?;
        Ok(profile(&self.load, pid, PROFILE, seed, &GENERATOR)?.execution)
    }

    /// Requests at random. Errors: some were lost or refused, or the generator itself was late.
    pub(crate) fn drive(&self, rate: &str, run: Duration, seed: u64) -> Result<Seen, Error> {
        let arrivals = Some(Arrivals { rate: rate.parse().expect("a constant"), batch: 1 });
        let plan = LoadPlan {
            load: &self.load,
            tasks: &[],
            arrivals,
            trace: &[],
            warm_up: WARM_UP,
            run,
            seed,
            generator: GENERATOR,
        };
        let report = drive(&plan, &mut |_| true)?;
        if report.lost + report.errors > 0 || report.lateness().is_stall() {
            let said = format!("{} lost, {} refused, {}", report.lost, report.errors, report.lateness());
            return Err(Error::Lacks(format!("a quieter machine: {said}")));
        }
        let first = report.jobs.first().map_or(0, |job| job.release.ns());
        let releases = report.jobs.iter().map(|job| job.release.ns() - first).collect();
        let responses = report.jobs.iter().filter_map(|job| job.response_ns()).collect();
        Ok(Seen { releases, responses })
    }

    /// The model of it, for requests of this `rate` with these service times.
    pub(crate) fn question(&self, rate: &str, service: Vec<(Duration, f64)>) -> Question {
        let Interface { budget, period } = self.server;
        let rate = rate.parse().expect("a constant");
        Question { server: Server::Deferrable, budget, period, rate, service, batch: vec![(1, 1.0)] }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // It undoes what it did and stops the service.
        if let Some(pid) = rustix::process::Pid::from_raw(self.giusto.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
        let _ = self.giusto.wait();
    }
}

/// The program beside this one.
pub(crate) fn giusto() -> Result<PathBuf, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Lacks("root".into()));
    }
    beside("giusto").ok_or_else(|| Error::Lacks("giusto: cargo build --release --locked -p giusto-cli".into()))
}

/// A log of what ended or is late, and its last line.
pub(crate) fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    format!("{}: {}", log.display(), text.trim_end().lines().last().unwrap_or("nothing"))
}

/// Why a `giusto run` on this machine ended that was not asked to: its exit code (docs/status.md), and what it says.
pub(crate) fn refused(code: Option<i32>, says: String) -> Error {
    match code {
        Some(1) => Error::Lacks(format!("a quieter machine: no plan fits; {says}")),
        Some(3) => Error::Lacks(says),
        _ => Error::machine(says),
    }
}

/// A program of this build.
pub(crate) fn beside(name: &str) -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.parent()?.join(name);
    path.exists().then_some(path)
}

impl Deviation {
    /// From one run: the latency is what the shortest responses have beyond the shortest service, and so much of each budget is
    /// lost that the same requests, simulated, take as long on average.
    pub(crate) fn calibrate(question: &Question, seen: &Seen) -> Result<Deviation, Error> {
        let mut sorted = seen.responses.clone();
        sorted.sort_unstable();
        let low = |sorted: &[u64]| sorted[sorted.len() / 20];
        let latency = |loss| -> Result<u64, Error> {
            let mut played = simulated(question, Deviation { loss, latency: Duration::ZERO }, seen)?;
            played.sort_unstable();
            Ok(low(&sorted).saturating_sub(low(&played)))
        };
        let latency = Duration::from_ns(latency(Duration::ZERO)?);
        let mean = |all: &[u64]| all.iter().map(|&ns| ns as f64).sum::<f64>() / all.len() as f64;
        let (mut low, mut high) = (0, question.budget.ns() / 10);
        while high - low > 1_000 {
            let middle = low + (high - low) / 2;
            let deviation = Deviation { loss: Duration::from_ns(middle), latency };
            let shorter = mean(&simulated(question, deviation, seen)?) < mean(&seen.responses);
            *(if shorter { &mut low } else { &mut high }) = middle;
        }
        Ok(Deviation { loss: Duration::from_ns(low), latency })
    }

    fn of(self, question: &Question) -> Question {
        let budget = question.budget.checked_sub(self.loss).unwrap_or(question.budget);
        Question { budget, ..question.clone() }
    }
}

/// Response times of the very requests that were seen, simulated from several phases of the period.
pub(crate) fn simulated(question: &Question, deviation: Deviation, seen: &Seen) -> Result<Vec<u64>, Error> {
    let mut all = Vec::new();
    let question = deviation.of(question);
    for phase in 0..PHASES {
        let begin = question.period.ns() * phase / PHASES;
        let releases: Vec<u64> = seen.releases.iter().map(|at| at + begin).collect();
        all.extend(replay(&question, &releases, phase)?.into_iter().map(|ns| ns + deviation.latency.ns()));
    }
    Ok(all)
}

/// Pr{R ≤ t} at each of `at`, computed.
pub(crate) fn computed(question: &Question, deviation: Deviation, at: &[Duration]) -> Result<Vec<f64>, Error> {
    let before: Vec<Duration> =
        at.iter().map(|at| at.checked_sub(deviation.latency).unwrap_or(Duration::ZERO)).collect();
    let found = response(&deviation.of(question), &before, &[], Precision::Within(5e-3))?;
    Ok(found.cdf.into_iter().map(|at| at.p).collect())
}

/// Five hundred response times whose distribution is the computed one, in ns. At a glance: far less is at stake than what a few
/// hundred measured ones can tell.
pub(crate) fn quantiles(question: &Question, deviation: Deviation) -> Result<Vec<u64>, Error> {
    let percents: Vec<f64> = (0..500).map(|nth| (f64::from(nth) + 0.5) / 5.0).collect();
    let found = response(&deviation.of(question), &[], &percents, Precision::Glance)?;
    Ok(found.percentiles.into_iter().map(|p| p.at.ns() + deviation.latency.ns()).collect())
}

/// Up to so many service times and their shares, of sorted measured ones: each stands for those up to it.
pub(crate) fn histogram(times: &[u64], bins: usize) -> Vec<(Duration, f64)> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let chunk = sorted.len().div_ceil(bins).max(1);
    let mean = |chunk: &[u64]| Duration::from_ns(chunk.iter().sum::<u64>() / chunk.len() as u64);
    sorted.chunks(chunk).map(|chunk| (mean(chunk), chunk.len() as f64 / sorted.len() as f64)).collect()
}
