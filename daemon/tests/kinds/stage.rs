//! A trace of jobs on this machine, under a backend, and in virtual time.

use crate::actors::{bound, monotonic, Actor, Clock, Job, Watch};
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
    /// When time was stolen from the core.
    stolen: Vec<(u64, u64)>,
    /// Everything was in place in time.
    pub(crate) in_time: bool,
    /// The manager's own account, where there was one.
    pub(crate) report: Report,
}

impl Played {
    /// `served` counts from the clock's origin, all others from `origin`.
    fn new(origin: u64, started: u64, sent: &[Job], served: &[(u64, u64)], watch: Watch, report: Report) -> Played {
        assert_eq!(served.len(), sent.len(), "the server has died");
        let pairs = || sent.iter().zip(served);
        let stolen =
            watch.stolen().into_iter().map(|(begin, end)| (begin.saturating_sub(origin), end.saturating_sub(origin)));
        Played {
            responses: pairs().map(|(job, (done, _))| done - origin - job.arrival).collect(),
            jobs: pairs().map(|(job, &(_, demand))| Job { demand, ..*job }).collect(),
            stolen: stolen.collect(),
            in_time: started < origin,
            report,
        }
    }

    /// Whether time was stolen from the core about when job `index` was there.
    pub(crate) fn is_disturbed(&self, index: usize) -> bool {
        /// What was lost is felt until the next budget.
        const MARGIN: u64 = 20 * MS;
        let from = self.jobs[index].arrival;
        let to = from + self.responses[index];
        self.stolen.iter().any(|&(begin, end)| begin < to + MARGIN && from < end + MARGIN)
    }

    /// Whether the machine did what it was told when it was told.
    fn is_good(&self) -> bool {
        /// The thread above all others does not wait for so long but where the whole core stands still.
        const STILL: u64 = 500_000;
        let disturbed = (0..self.jobs.len()).filter(|&index| self.is_disturbed(index)).count();
        self.in_time && disturbed * 4 <= self.jobs.len() && self.report.late_max_ns < STILL
    }
}

/// Plays again, twice at most, what the machine has spoilt.
pub(crate) fn undisturbed(mut play: impl FnMut() -> Played) -> Played {
    for _ in 0..2 {
        let played = play();
        if played.is_good() {
            return played;
        }
        println!("  void: in place in time {}, stolen {:?}, {:?}", played.in_time, played.stolen, played.report);
    }
    play()
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
    let _ordinary = bound(Actor::hog(0), core);
    Manager::prepare(journal).unwrap();
    let manager = Manager::start(core, Order::Edf, &Beats::new().unwrap()).unwrap();
    let origin = origin(200 * MS);
    let hog = other.map(|other| (other.server, Actor::hog(origin + other.from)));
    let actor = Actor::server(Clock::Own, origin, jobs);
    let mut handles = Vec::new();
    let all = hog.iter().map(|(server, hog)| ("other", *server, hog.pid()));
    for (name, server, pid) in all.chain([("jobs", server, actor.pid())]) {
        let managed = Managed {
            name: format!("kinds-{name}"),
            part: None,
            server,
            first: Some(origin),
            priority: 0,
            cap: Cap::Hard,
        };
        handles.push(manager.add(&managed, &[pid], journal).unwrap());
    }
    let started = monotonic();
    let watch = Watch::new(core);
    let served = actor.served();
    let report = manager.report().unwrap();
    drop(manager);
    let restored = journal.restore().unwrap();
    assert!(restored.failed.is_empty(), "{restored:?}");
    assert!(report.warnings.is_empty() && report.servers.iter().all(|server| server.lost == 0), "{report:?}");
    Played::new(origin, started, jobs, &served, watch, report)
}

/// Serves `jobs` under SCHED_DEADLINE, beside a program of no server.
pub(crate) fn reserved(core: u32, clock: Clock, server: Server, jobs: &[Job], journal: &mut Journal) -> Played {
    let ordinary = Actor::hog(0);
    // A sleeping thread may have to be woken before it can have a reservation.
    let origin = origin(400 * MS);
    let actor = Actor::server(clock, origin, jobs);
    let cpusets = giusto_compute::probe().cpusets.unwrap();
    let isolated = Isolated::new(&cpusets, &[core], journal).unwrap();
    isolated.confine(&[ordinary.pid(), actor.pid()], core, journal).unwrap();
    let reserved = isolated.reserve(&[actor.pid()], &server, journal).unwrap();
    let started = monotonic();
    let watch = Watch::new(core);
    let pid = actor.pid();
    assert_eq!(sched::get(pid).unwrap().policy, sched::DEADLINE);
    let served = actor.served();
    drop(reserved);
    let restored = journal.restore().unwrap();
    assert!(restored.failed.is_empty(), "{restored:?}");
    Played::new(origin, started, jobs, &served, watch, Report::default())
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
