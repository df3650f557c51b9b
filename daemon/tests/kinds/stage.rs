//! A trace of jobs on this machine, under a backend, and in virtual time.

use crate::actors::{bound, monotonic, Actor, Away, Clock, Job};
use giusto_compute::manager::{Beats, Managed, Manager, Order, Report};
use giusto_compute::{sched, Isolated};
use giusto_daemon::Journal;
use giusto_model::{Cap, Duration, JobRecord, Release, Server, ServerKind, Task};
use giusto_simulator::{simulate, Execution, Guest, ServerSpec, Sporadic, System, Workload};

pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn server(kind: ServerKind, budget_ms: u64, period_ms: u64) -> Server {
    Server { kind, budget: Duration::from_ms(budget_ms), period: Duration::from_ms(period_ms) }
}

/// Another server on the core, which never rests from then on (ns).
#[derive(Clone, Copy)]
pub(crate) struct Other {
    pub(crate) server: Server,
    pub(crate) from: u64,
}

/// What happened to a trace on the machine.
pub(crate) struct Played {
    /// Response times in ns.
    pub(crate) responses: Vec<u64>,
    /// The jobs with what they really consumed.
    pub(crate) jobs: Vec<Job>,
    /// When none of those who never rest had the core, though it was theirs.
    holes: Vec<(u64, u64)>,
    /// Everything was in place in time.
    in_time: bool,
    /// The manager's own account, where there was one.
    pub(crate) report: Report,
}

impl Played {
    /// `served` serves `sent` beside `hogs`; all of them count from the clock's origin, what is played from `origin`.
    fn new(origin: u64, started: u64, sent: &[Job], served: Actor, hogs: Vec<Actor>, report: Report) -> Played {
        let (served, away) = served.served();
        assert_eq!(served.len(), sent.len(), "the server has died");
        let pairs = || sent.iter().zip(&served);
        let holes = hogs.into_iter().map(Actor::away).fold(away, |both, away| at_once(&both, &away));
        let long = holes.into_iter().filter(|(from, to)| *from > origin && to - from > HOLE);
        Played {
            responses: pairs().map(|(job, (done, _))| done - origin - job.arrival).collect(),
            jobs: pairs().map(|(job, &(_, demand))| Job { demand, ..*job }).collect(),
            holes: long.map(|(from, to)| (from - origin, to - origin)).collect(),
            in_time: started < origin,
            report,
        }
    }

    /// Whether the core was lost about when job `index` was there.
    pub(crate) fn is_disturbed(&self, index: usize) -> bool {
        /// What was lost is felt until the next budget.
        const MARGIN: u64 = 20 * MS;
        let from = self.jobs[index].arrival;
        let to = from + self.responses[index];
        self.holes.iter().any(|&(begin, end)| begin < to + MARGIN && from < end + MARGIN)
    }

    fn longest_hole(&self) -> u64 {
        self.holes.iter().map(|(from, to)| to - from).max().unwrap_or(0)
    }

    /// Whether the machine did what it was told when it was told.
    fn is_good(&self) -> bool {
        /// The thread above all others does not wait for so long but where the whole core stands still.
        const STILL: u64 = 500_000;
        let disturbed = (0..self.jobs.len()).filter(|&index| self.is_disturbed(index)).count();
        self.in_time && disturbed * 4 <= self.jobs.len() && self.report.late_max_ns < STILL
    }
}

/// Longer than a manager works at a time or an interrupt takes, in ns (200 us were seen on a slow day). A hypervisor's holes of
/// some milliseconds are in no thread's processor time, and the kernel counts them as stolen in steps of 10 ms only.
const HOLE: u64 = 300_000;

/// When both were away; each in order.
fn at_once(one: &Away, other: &Away) -> Away {
    let (mut both, mut next) = (Away::new(), 0);
    for &(from, to) in one {
        next += other[next..].iter().take_while(|(_, end)| *end <= from).count();
        let here = other[next..].iter().take_while(|(begin, _)| *begin < to);
        both.extend(here.map(|&(begin, end)| (begin.max(from), end.min(to))));
    }
    both
}

/// The machine spoilt whatever was played, so that nothing can be told.
pub(crate) struct Spoilt;

/// Plays until the machine does not spoil it, and judges that. It may be off twice, as no look sees all that a machine adds;
/// what must never be otherwise, `judge` asserts.
pub(crate) fn undisturbed<T>(
    mut play: impl FnMut() -> Played,
    mut judge: impl FnMut(&Played) -> Result<T, String>,
) -> Result<T, Spoilt> {
    let (mut spoilt, mut off) = (0, 0);
    loop {
        let played = play();
        let Played { in_time, report, .. } = &played;
        let lost = format!("core lost {} times, {} ns the longest", played.holes.len(), played.longest_hole());
        if !played.is_good() {
            spoilt += 1;
            println!("  void: in place in time {in_time}, {lost}, {report:?}");
            if spoilt == 6 {
                return Err(Spoilt);
            }
            continue;
        }
        // A manager that was held up may stop a server late, and says so.
        assert!(report.warnings.is_empty() && report.servers.iter().all(|server| server.lost == 0), "{report:?}");
        match judge(&played) {
            Ok(judged) => return Ok(judged),
            Err(why) => {
                off += 1;
                println!("  OFF: {why}; {lost}, {report:?}");
                assert!(off < 3, "{why}, three times");
            }
        }
    }
}

/// Whether ticks fall on multiples of their length on CLOCK_MONOTONIC, as they do since 6.4, and so on every origin.
pub(crate) fn ticks(tick: Duration) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (6, 4) && (20 * MS).is_multiple_of(tick.ns())
}

/// Times in ms.
pub(crate) fn show(all: &[u64]) -> String {
    all.iter().map(|&ns| format!("{:.2}", ns as f64 / MS as f64)).collect::<Vec<_>>().join(" and ")
}

/// The origin of all times of what is about to be started: so far ahead (ns) at least, and a tick of any kernel.
fn origin(ahead: u64) -> u64 {
    ((monotonic() + ahead) / (20 * MS) + 1) * 20 * MS
}

/// Serves `jobs` with `server` under the manager of `core`, its grid at `origin`; before it comes `other`, and there is a
/// program of no server.
pub(crate) fn managed(core: u32, server: Server, jobs: &[Job], other: Option<Other>, journal: &mut Journal) -> Played {
    let ordinary = bound(Actor::hog(0), core);
    Manager::prepare(journal).unwrap();
    let manager = Manager::start(core, Order::Edf, &Beats::new().unwrap()).unwrap();
    let origin = origin(200 * MS);
    let hog = other.map(|other| (other.server, Actor::hog(origin + other.from)));
    let mut actor = Actor::server(Clock::Own, origin, jobs);
    let mut handles = Vec::new();
    let all = hog.iter().map(|(server, hog)| ("other", *server, hog.pid()));
    for (name, server, pid) in all.chain([("jobs", server, actor.pid())]) {
        let managed = Managed {
            name: format!("kinds-{name}"),
            part: None,
            server,
            first: Some(origin),
            priority: 0,
            criticality: None,
            cap: Cap::Hard,
        };
        handles.push(manager.add(&managed, &[pid], journal).unwrap());
    }
    let started = monotonic();
    actor.wait();
    let report = manager.report().unwrap();
    drop(manager);
    let restored = journal.restore().unwrap();
    assert!(restored.failed.is_empty(), "{restored:?}");
    let hogs = hog.into_iter().map(|(_, hog)| hog).chain([ordinary]).collect();
    Played::new(origin, started, jobs, actor, hogs, report)
}

/// Serves `jobs` under SCHED_DEADLINE, beside a program of no server.
pub(crate) fn reserved(core: u32, clock: Clock, server: Server, jobs: &[Job], journal: &mut Journal) -> Played {
    let ordinary = Actor::hog(0);
    // A sleeping thread may have to be woken before it can have a reservation.
    let origin = origin(400 * MS);
    let mut actor = Actor::server(clock, origin, jobs);
    let cpusets = giusto_compute::probe().cpusets.unwrap();
    let isolated = Isolated::new(&cpusets, &[core], journal).unwrap();
    isolated.confine(&[ordinary.pid(), actor.pid()], core, journal).unwrap();
    let reserved = isolated.reserve(&[actor.pid()], &server, journal).unwrap();
    let started = monotonic();
    assert_eq!(sched::get(actor.pid()).unwrap().policy, sched::DEADLINE);
    actor.wait();
    drop(reserved);
    let restored = journal.restore().unwrap();
    assert!(restored.failed.is_empty(), "{restored:?}");
    Played::new(origin, started, jobs, actor, vec![ordinary], Report::default())
}

/// Response times that the simulator foretells for the same jobs beside the same other server; its time 0 is the origin.
pub(crate) fn simulated(server: Server, jobs: &[Job], other: Option<Other>, tick: Option<Duration>) -> Vec<u64> {
    /// Never again within the trace.
    const NEVER: Duration = Duration::from_ns(1 << 60);
    let spec = |server: Server, jobs: &[Job]| {
        let task = |job: &Job| Task {
            name: "job".into(),
            wcet: Duration::from_ns(job.demand),
            period: NEVER,
            deadline: NEVER,
            offset: Duration::from_ns(job.arrival),
            release: Release::KeptOffset,
            copies: 1,
        };
        let workload = Workload {
            tasks: jobs.iter().map(task).collect(),
            guest: Guest::Fifo,
            execution: Execution::Worst,
            sporadic: Sporadic::Densest,
        };
        let Server { kind, budget, period } = server;
        ServerSpec { kind, budget, period, first: Duration::ZERO, priority: 0, vcpus: 1, workload: Some(workload) }
    };
    let hog = other.map(|other| spec(other.server, &[Job { arrival: other.from, demand: NEVER.ns() }]));
    let of = hog.iter().len();
    let mut system = System::new(Order::Edf, hog.into_iter().chain([spec(server, jobs)]).collect());
    system.tick = tick;
    let mut responses = vec![0; jobs.len()];
    let mut keep = |server: usize, job: &JobRecord| {
        if server == of {
            responses[job.task as usize] = job.response_ns().unwrap();
        }
    };
    let last = jobs.last().map_or(0, |job| job.arrival);
    let horizon = Duration::from_ns(last + 2_000 * MS);
    simulate(&system, horizon, 0, &mut keep).unwrap();
    assert!(responses.iter().all(|&response| response > 0), "a job is not done 2 s after the last came");
    responses
}
