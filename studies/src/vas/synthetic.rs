//! A server of periodic, sporadic and random task sets on a share of a core, in virtual time: [LiH21, § 3.4.1, Figs 3.6 to 3.11].

use crate::vas::{sample, Floor};
use crate::vatc::{named, table, us};
use crate::{Error, Size};
use giusto_analysis::share;
use giusto_model::{Bandwidth, Duration, JobRecord, Release, ServerKind, Task};
use giusto_policy::Order;
use giusto_simulator::{in_parallel, simulate, Execution, Guest, Observer, ServerSpec, Sporadic, System, Workload};
use rand::seq::IndexedRandom;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use std::collections::BTreeMap;

/// (A, C, T) in ms: the harmonic set, whose hyperperiod is 2000 ms, and the other, with 2100 ms.
const SET_1: [(u64, u64, u64); 4] = [(150, 40, 250), (100, 200, 500), (50, 100, 1000), (0, 200, 2000)];
const SET_2: [(u64, u64, u64); 4] = [(15, 4, 20), (10, 6, 30), (5, 10, 50), (0, 7, 70)];
/// A name, four tasks and how they are released.
type Case = (&'static str, [(u64, u64, u64); 4], Release);

const CASES: [Case; 3] = [
    ("periodic", SET_1, Release::KeptOffset),
    ("sporadic", SET_1, Release::Sporadic),
    ("non-harmonic", SET_2, Release::KeptOffset),
];
const GUESTS: [(&str, Guest); 2] = [("fifo", Guest::Fifo), ("fp", Guest::RateMonotonic)];
/// What is declared as the execution time of jobs that take now more, now less: the longest that was measured, or the mean.
const DECLARED: [&str; 2] = ["worst", "mean"];
/// Points of a core beyond U · P.
const ARMS: [(&str, i64); 3] = [("plus-5", 5), ("exact", 0), ("minus-5", -5)];
/// Of the random test cases.
const PERIODS_MS: [u64; 8] = [10, 20, 40, 80, 160, 320, 640, 1280];
const PERCENT: [u64; 5] = [10, 30, 50, 70, 90];
const MS: u64 = 1_000_000;
const PPM: u64 = 1_000_000;
/// Places of a distribution function that are told.
const POINTS: u64 = 60;

/// What `giusto-jitter` measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Machine {
    switch_ns: u64,
    #[expect(dead_code, reason = "told for people")]
    job_ns: u64,
    #[expect(dead_code, reason = "told for people")]
    jobs: u64,
    ppm: Vec<u32>,
}

impl Machine {
    /// Execution times over the declared one, in millionths.
    fn noise(&self, declared: &str) -> Vec<u32> {
        let all = || self.ppm.iter().map(|&ppm| u64::from(ppm));
        let unit = match declared {
            "worst" => all().max().unwrap_or(PPM),
            _ => all().sum::<u64>() / all().count().max(1) as u64,
        };
        all().map(|ppm| (ppm * PPM / unit.max(1)) as u32).collect()
    }
}

/// A run: when each job came and how long it took, by task and number, and when the server ran.
#[derive(Default, PartialEq)]
struct Run {
    jobs: BTreeMap<(u32, u64), (u64, u64)>,
    active: Vec<(u64, u64)>,
}

impl Observer for Run {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), giusto_simulator::Error> {
        if let (0, Some(response)) = (server, job.response_ns()) {
            self.jobs.insert((job.task, job.job), (job.release.ns(), response));
        }
        Ok(())
    }

    fn slice(
        &mut self,
        server: usize,
        _: Option<(u32, u64)>,
        from: u64,
        to: u64,
    ) -> Result<(), giusto_simulator::Error> {
        match self.active.last_mut() {
            _ if server > 0 => {}
            Some(last) if last.1 == from => last.1 = to,
            _ => self.active.push((from, to)),
        }
        Ok(())
    }
}

impl Run {
    fn responses(&self) -> Vec<u64> {
        self.jobs.values().map(|job| job.1).collect()
    }

    /// Jobs that do not end when they do in the other run.
    fn differ(&self, other: &Run) -> usize {
        let own = self.jobs.iter().filter(|(key, job)| other.jobs.get(key) != Some(job)).count();
        own + other.jobs.keys().filter(|key| !self.jobs.contains_key(key)).count()
    }
}

/// A task set on a core, and what the machine adds.
struct Bench<'a> {
    tasks: &'a [Task],
    guest: Guest,
    switch: Duration,
    noise: &'a [u32],
    length: Duration,
    /// Of arrivals.
    seed: u64,
}

impl<'a> Bench<'a> {
    fn new(
        tasks: &'a [Task],
        guest: Guest,
        (machine, noise): (&Machine, &'a [u32]),
        size: &Size,
        rng: &mut ChaCha8Rng,
    ) -> Self {
        let switch = Duration::from_ns(machine.switch_ns);
        Bench { tasks, guest, switch, noise, length: size.length, seed: rng.random() }
    }

    /// With so many points of a core beyond U · P, beside a competitor that takes every cycle it gets; `None`: a whole core.
    /// Another
    /// `noise` is another run of the same jobs.
    fn run(&self, points: Option<i64>, noise: u64) -> Result<Run, Error> {
        let execution = Execution::Noisy { ppm: self.noise.into(), seed: noise };
        let workload =
            Workload { tasks: self.tasks.to_vec(), guest: self.guest, execution, sporadic: Sporadic::Random };
        let period = share::hyperperiod(self.tasks)?;
        let least = share::budget(self.tasks, period)?;
        let [more, less] = [points.unwrap_or(0), -points.unwrap_or(0)].map(|points| points.max(0) as u64);
        let part = |points| Bandwidth::new(points, 100).and_then(|part| part.times_ceil(period));
        let budget = part(more).and_then(|more| least.checked_add(more)?.checked_sub(part(less)?));
        let budget = budget.filter(|budget| *budget <= period).ok_or(Error::NoInterface)?;
        let kind = if points.is_some() { ServerKind::Deferrable } else { ServerKind::Unlimited };
        let spec = |kind, priority, workload| ServerSpec {
            kind,
            budget,
            period,
            first: Duration::ZERO,
            priority,
            vcpus: 1,
            workload,
        };
        let mut servers = vec![spec(kind, 0, Some(workload))];
        servers.extend(points.map(|_| spec(ServerKind::Unlimited, 1, None)));
        let mut system = System::new(Order::FixedPriority, servers);
        system.switch = self.switch;
        let mut run = Run::default();
        simulate(&system, self.length, self.seed, &mut run)?;
        Ok(run)
    }
}

/// Tables `runs` and `laws` of the two sets of the paper, `multi` of random ones, and `cdf`. A set is one play: another phase
/// of the server, other arrivals, other noise; of `multi` also another task set.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let machine: Machine =
        serde_json::from_str(include_str!("../../vas-synthetic/machine.json")).map_err(Error::machine)?;
    let cases = CASES.len() * GUESTS.len() * DECLARED.len();
    let all = (cases + PERCENT.len()) as u64 * size.sets;
    let one = |index: usize| {
        let (case, set) = (index / size.sets as usize, index as u64 % size.sets);
        let mut rng = size.stream(case, set);
        let found = match case.checked_sub(cases) {
            None => named_case(&size, &machine, case, set, &mut rng),
            Some(place) => random_case(&size, &machine, PERCENT[place], set, &mut rng),
        };
        played(all);
        found
    };
    let mut rows: [Vec<Vec<String>>; 4] = Default::default();
    for mut found in in_parallel(all as usize, one)? {
        rows.iter_mut().zip(&mut found).for_each(|(all, one)| all.append(one));
    }
    let [runs, laws, multi, cdf] = rows;
    let runs_columns = vec!["case", "scheduler", "declared", "set", "arm", "w1_us", "floor_us", "max_ms", "jobs"];
    let multi_columns =
        vec!["utilization", "set", "tasks", "hyperperiod_ms", "longest_us", "arm", "w1_us", "floor_us", "differ"];
    Ok(named(vec![
        ("runs", table(runs_columns, &runs)),
        ("laws", table(vec!["case", "scheduler", "declared", "set", "differ", "active"], &laws)),
        ("multi", table(multi_columns, &multi)),
        ("cdf", table(vec!["case", "scheduler", "declared", "set", "arm", "at_ms", "share"], &cdf)),
    ]))
}

type Rows = [Vec<Vec<String>>; 4];

fn task(offset: u64, wcet: u64, period: u64, release: Release) -> Task {
    let [offset, wcet, period] = [offset, wcet, period].map(Duration::from_ns);
    Task { name: String::new(), wcet, period, deadline: period, offset, release, copies: 1 }
}

fn named_case(size: &Size, machine: &Machine, case: usize, set: u64, rng: &mut ChaCha8Rng) -> Result<Rows, Error> {
    let (declared, case) = (DECLARED[case % DECLARED.len()], case / DECLARED.len());
    let (name, numbers, release) = CASES[case / GUESTS.len()];
    let (scheduler, guest) = GUESTS[case % GUESTS.len()];
    // Where in a period of the server the clients start is chance.
    let phase = rng.random_range(0..2000 * MS);
    let tasks = numbers.map(|(offset, wcet, period)| task(phase + offset * MS, wcet * MS, period * MS, release));
    let over = machine.noise(declared);
    let bench = Bench::new(&tasks, guest, (machine, &over), size, rng);
    let noise: [u64; 3] = rng.random();
    let whole = [bench.run(None, noise[0])?, bench.run(None, noise[1])?];
    let floor = Floor::of([sample(&whole[0].responses())?, sample(&whole[1].responses())?]);
    let cells =
        |words: &[String]| [&[name, scheduler, declared].map(str::to_string)[..], &[set.to_string()], words].concat();
    let mut rows = Rows::default();
    let longest = numbers.iter().map(|number| number.2).max().unwrap_or(1) * MS;
    let mut told = |arm: &str, run: &Run, distance: f64| {
        let responses = run.responses();
        let max = responses.iter().copied().max().unwrap_or(0) as f64 / 1e6;
        let numbers = [distance, floor.between()].map(|ns| format!("{:.3}", ns / 1e3));
        let [of_run, of_jobs] = [format!("{max:.3}"), responses.len().to_string()];
        rows[0].push(cells(&[&[arm.to_string()], &numbers[..], &[of_run, of_jobs]].concat()));
        for point in 1..=POINTS {
            let at = longest * point / POINTS;
            let within = responses.iter().filter(|ns| **ns <= at).count() as f64 / responses.len().max(1) as f64;
            let words = [arm.to_string(), format!("{:.2}", at as f64 / 1e6), format!("{within:.6}")];
            rows[3].push(cells(&words));
        }
    };
    told("whole", &whole[0], floor.between());
    for (arm, points) in ARMS {
        let run = bench.run(Some(points), noise[2])?;
        told(arm, &run, floor.distance(&sample(&run.responses())?));
    }
    // The very jobs of the first run on a whole core, and when the server runs under the other order of jobs.
    let again = bench.run(Some(5), noise[0])?;
    let other = GUESTS[(case + 1) % GUESTS.len()].1;
    let other = Bench { guest: other, ..bench }.run(Some(5), noise[0])?;
    let active = usize::from(again.active != other.active);
    rows[1].push(cells(&[whole[0].differ(&again).to_string(), active.to_string()]));
    Ok(rows)
}

fn random_case(size: &Size, machine: &Machine, percent: u64, set: u64, rng: &mut ChaCha8Rng) -> Result<Rows, Error> {
    let tasks = random_tasks(percent, rng);
    let guest = Guest::RateMonotonic;
    let over = machine.noise("mean");
    let bench = Bench::new(&tasks, guest, (machine, &over), size, rng);
    let noise: [u64; 3] = rng.random();
    let whole = [bench.run(None, noise[0])?, bench.run(None, noise[1])?];
    let floor = Floor::of([sample(&whole[0].responses())?, sample(&whole[1].responses())?]);
    let hyperperiod = share::hyperperiod(&tasks)?.ns() / MS;
    let longest = whole[0].responses().into_iter().max().unwrap_or(0);
    let case = [percent, set, tasks.len() as u64, hyperperiod].map(|number| number.to_string());
    let case = [&case[..], &[us(longest)]].concat();
    let row = |arm: &str, distance: f64, differ: usize| {
        let numbers = [distance, floor.between()].map(|ns| format!("{:.3}", ns / 1e3));
        [&case[..], &[arm.to_string()], &numbers, &[differ.to_string()]].concat()
    };
    let mut rows = vec![row("whole", floor.between(), 0)];
    for (arm, points) in ARMS {
        let run = bench.run(Some(points), noise[2])?;
        let differ = whole[0].differ(&bench.run(Some(points), noise[0])?);
        rows.push(row(arm, floor.distance(&sample(&run.responses())?), differ));
    }
    Ok([Vec::new(), Vec::new(), rows, Vec::new()])
}

/// Harmonic periods, offsets within them, utilizations uniform over 0.01 to 50 % (two of three) or 50 to 90 %, until together
/// they need `percent` of the core; the last one is trimmed.
fn random_tasks(percent: u64, rng: &mut ChaCha8Rng) -> Vec<Task> {
    let (mut tasks, mut left) = (Vec::new(), percent * PPM / 100);
    let phase = rng.random_range(0..1280 * MS);
    while left > 0 {
        let period = *PERIODS_MS.choose(rng).expect("a constant");
        let drawn = if rng.random_range(0..3) < 2 {
            rng.random_range(100..=500_000)
        } else {
            rng.random_range(500_000..=900_000)
        };
        let share = left.min(drawn);
        left -= share;
        let offset = phase + rng.random_range(0..=period * MS);
        // ppm · ms are whole ns.
        tasks.push(task(offset, share * period, period * MS, Release::KeptOffset));
    }
    tasks
}
