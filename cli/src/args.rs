//! The command line: every verb, its flags and an example that works.

// Named by their places, since packaging includes this file from elsewhere.
#[path = "args/alone.rs"]
mod alone;
#[path = "args/bucket.rs"]
mod bucket;
#[path = "args/compositional.rs"]
pub(crate) mod compositional;
#[path = "args/coordination.rs"]
mod coordination;
#[path = "args/criticality.rs"]
mod criticality;
#[path = "args/first.rs"]
mod first;
#[path = "args/measure.rs"]
mod measure;
#[path = "args/modes.rs"]
mod modes;
#[path = "args/path.rs"]
mod path;
#[path = "args/random.rs"]
mod random;
#[path = "args/record.rs"]
mod record;
#[path = "args/site.rs"]
mod site;
#[path = "args/study.rs"]
mod study;
#[path = "args/values.rs"]
mod values;

pub(crate) use alone::{AloneArgs, KubernetesArgs};
pub(crate) use bucket::{BucketArgs, TraceArgs};
pub(crate) use compositional::{AdmissionArgs, Inside, InterfaceArgs, PlaneArgs, Supply};
pub(crate) use coordination::{EnsembleArgs, Export, NsqArgs, RecoveryArgs, XenArgs};
pub(crate) use criticality::CriticalityArgs;
pub(crate) use first::{DemoArgs, DoctorArgs, InitArgs};
pub(crate) use measure::{
    ExecutionArgs, ImportArgs, LatencyArg, LatencyArgs, Measure, MeasureArgs, MeasurePathArgs, PacketsArgs,
    ProfilesArg, ResponseArgs, SupplyArgs, PROFILES,
};
pub(crate) use modes::{AgentArgs, ModeArgs};
pub(crate) use path::{PathArgs, ProcessingArgs};
pub(crate) use random::{MapArgs, RandomArgs, RequestArgs, Serving, SloArgs};
pub(crate) use record::RecordArgs;
use site::{HostArg, SiteArg};
pub(crate) use study::{Study, StudyListArgs, StudyRunArgs};

use clap::{Args, Parser, Subcommand, ValueEnum};
use giusto_daemon::{OtlpAddress, WebAddress};
use giusto_model::{Backend, Bandwidth, Duration, Task, Within};
use std::net::SocketAddr;
use std::path::PathBuf;
use values::{part, span, within};

/// Latency you can plan: real-time shares of a core on stock Linux.
///
/// Describe a site and what each service was promised; giusto plans every parameter, refuses what cannot fit and says
/// why, predicts the response times, enforces the plan on this host and checks whether the promise was kept.
#[derive(Debug, Parser)]
#[command(name = "giusto", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes: 0 kept or done, 1 does not fit, 2 bad input, 3 the machine lacks something,
4 failed while running, 5 promise missed, 6 cannot tell.

Start with:
  giusto plan sites/walk.yaml";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Plan and simulate an example in a few seconds: a whole core, no plan, and the plan side by side
    ///
    /// Needs no root, no package and no site file, and changes nothing. Writes a page with the distributions.
    #[command(after_help = "Example:\n  giusto demo --out out/demo.html")]
    Demo(DemoArgs),
    /// What this machine can enforce, what is missing, and how to get it
    ///
    /// Changes nothing and needs no privilege. Ends with 0 where 'giusto run' can enforce reservations, and with 3
    /// where something is missing for that.
    #[command(after_help = "Examples:\n  giusto doctor\n  sudo giusto doctor --json")]
    Doctor(DoctorArgs),
    /// Watch a service that runs, and write a site file that describes it
    ///
    /// Watches the processor time of its threads from outside, without touching it: how often it becomes busy, for how
    /// long, and whether that is periodic, at random or in bursts. A web server is then asked for / a hundred times, in 5 s.
    /// The file is a beginning, with what was observed as comments.
    #[command(
        after_help = concat!(
            "Examples, of a service that runs:\n",
            "  giusto init --adopt redis.service --for 30s --out site.yaml\n",
            "  giusto init --adopt $(pidof redis-server) --out site.yaml\n",
            "Of pods, on their node:\n",
            "  kubectl get pods -l app=cache -o json | giusto init --kubernetes - --out promises.yaml"
        )
    )]
    Init(InitArgs),
    /// Read a site file and say what is wrong with it, or what it describes; or prove a plan once more
    ///
    /// With --certificate it takes nothing in the plan for granted that it can compute: it compares demand and supply of every
    /// service and the reservations of every core by itself, and names the first that does not hold (exit code 1). With a site
    /// file too it proves that the plan is of this site: every promise, task and number of it. It names what it did not check.
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  giusto check sites/walk.yaml\n",
            "  giusto plan sites/flight.yaml --out out/plan.json && giusto check sites/flight.yaml --certificate out/plan.json"
        )
    )]
    Check(CheckArgs),
    /// Decide every parameter, or refuse and say why
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  giusto plan sites/walk.yaml --out out/plan.json\n",
            "  giusto plan sites/flight.yaml --latency formats/goldens/latency.json\n",
            "  giusto plan changed.yaml --current out/plan.json --out out/next.json"
        )
    )]
    Plan(PlanArgs),
    /// Answer whether services fit on hosts that come and go, a line of JSON for each line of JSON
    ///
    /// For programs that place services on many machines, such as schedulers of clusters. Reads standard input until its end;
    /// formats/place.md says what can be asked.
    #[command(after_help = "Example:\n  giusto place <formats/goldens/place.jsonl")]
    Place,
    /// What enforcing a plan would change on this host, and whether it would be refused
    ///
    /// Compares the plan with the one in force, or with nothing where no giusto runs. Ends with 1 where 'giusto run' would
    /// refuse it: a promise that does not hold, or a machine that is not as it was when the plan was made.
    #[command(after_help = "Example, of a plan that 'giusto plan' wrote:\n  giusto diff out/plan.json")]
    Diff(DiffArgs),
    /// Say where each number of a service's plan comes from
    #[command(after_help = "Example:\n  giusto explain cache --site sites/walk.yaml")]
    Explain(ExplainArgs),
    /// Play the plan in virtual time: predicted response times
    #[command(
        after_help = "Example:\n  giusto simulate sites/walk.yaml --for 10s --seed 7 --compare polling,fair --trace out/trace.json"
    )]
    Simulate(SimulateArgs),
    /// Start or adopt the services of a site and enforce the plan on this host
    ///
    /// Takes a site file, which it plans, or a plan of 'giusto plan', which it enforces as it was reviewed, or refuses. Of
    /// several hosts it does this one's part, and --host or the hostname says which that is. Runs in the foreground
    /// until interrupted, then leaves the host as it was found. With --trial it measures the
    /// service on a whole core, on a shared core without a plan, and on a shared core under the plan, in turns, and
    /// says whether the promise was kept.
    #[command(after_help = "Examples:\n  giusto run sites/first.yaml --trial --at-most 30s\n  \
                      giusto plan sites/walk.yaml --out out/plan.json && sudo giusto run out/plan.json")]
    Run(RunArgs),
    /// How a giusto that runs on this host stands: supply, budgets, cores, warnings
    #[command(after_help = "Example, where one runs:\n  giusto status --watch")]
    Status(StatusArgs),
    /// Record who has which core, each request or job and what is left of budgets, as a trace for ui.perfetto.dev
    ///
    /// Asks the giusto that runs on this host, as root or as a member of the group 'giusto'. With --late it keeps the last
    /// seconds, writes what was around each late job, and can be left running.
    #[command(after_help = "Examples, where one runs:\n  giusto record --for 2s --out out/trace.json\n  \
                      giusto record --late cache --around 500ms --count 3 --out out/late")]
    Record(RecordArgs),
    /// Plan the site file anew, or read a reviewed plan, and apply the difference to a giusto that runs; or refuse and change
    /// nothing
    #[command(after_help = "Example, where one runs:\n  giusto reload")]
    Reload(ReloadArgs),
    /// Change the mode of this host, or tell how its modes stand
    #[command(
        after_help = "Examples, where one runs:\n  giusto mode emergency --wait\n  giusto mode --service flight=land --policy greedy"
    )]
    Mode(ModeArgs),
    /// Switch the tasks of this virtual machine or container as its host says
    ///
    /// Runs inside the virtual machine or container until it is ended. With a mode it asks the host for that one instead.
    #[command(after_help = "Example:\n  giusto agent sites/agent.yaml")]
    Agent(AgentArgs),
    /// Undo what a giusto that died has left behind
    #[command(after_help = "Example:\n  giusto restore")]
    Restore(RestoreArgs),
    /// Measure a real service, or the processor time that one gets
    #[command(subcommand)]
    Measure(Measure),
    /// Compare job records: percentiles and distances, and a verdict where there is a noise floor
    #[command(
        after_help = "Examples, of the job records of a trial:\n  giusto verify out/trials/latest/jobs/cache-whole-1.csv out/trials/latest/jobs/cache-giusto-1.csv --baseline out/trials/latest/jobs/cache-whole-1b.csv --baseline out/trials/latest/jobs/cache-whole-2.csv --plan out/trials/latest/plan.json --html out/verify.html\n  giusto verify --promise p99=50ms out/trials/latest/jobs/cache-giusto-1.csv"
    )]
    Verify(VerifyArgs),
    /// Published experiments, repeated and judged
    #[command(subcommand)]
    Study(Study),
    /// Write the plan in the files of stock software
    ///
    /// systemd, docker, podman, libvirt and kubevirt do without Giusto: their files say beside each setting which promise still
    /// holds, with numbers, and what is lost. nsq, zookeeper and etcd are what those programs read of a plan.
    #[command(subcommand, after_help = concat!(
        "Examples:\n",
        "  giusto export systemd sites/walk.yaml --out out/systemd\n",
        "  giusto export docker sites/containers.yaml --out out/docker\n",
        "  giusto export libvirt sites/machines.yaml --out out/libvirt\n",
        "  giusto export nsq sites/messages.yaml --out out/nsq"
    ))]
    Export(Export),
    /// Calculators, one for each published result; they need no site
    ///
    /// What takes longer than two seconds says on standard error what it does. Where no answer is found in time, the
    /// command ends with 6.
    Analyze(AnalyzeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The site file
    #[arg(required_unless_present = "certificate")]
    pub(crate) site: Option<PathBuf>,
    /// Prove the promises of this plan from its own numbers, independently of what made it; with a site file
    /// also that they are the promises of that site, all of them
    #[arg(long, value_name = "PLAN")]
    pub(crate) certificate: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackendArg {
    /// Insist on a backend (deadline, manager, rt-group, kernel) for all services with a reservation, instead of letting giusto
    /// choose
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Option<Backend>,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) site: SiteArg,
    #[command(flatten)]
    pub(crate) insist: BackendArg,
    #[command(flatten)]
    pub(crate) this: HostArg,
    #[command(flatten)]
    pub(crate) latency: LatencyArg,
    #[command(flatten)]
    pub(crate) profiles: ProfilesArg,
    /// The plan in force: services stay on its hosts and cores where they can
    #[arg(long, value_name = "PLAN")]
    pub(crate) current: Option<PathBuf>,
    /// Write the plan to this file too
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write a page about it to this file, to be opened in a browser
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The plan: a file that 'giusto plan --out' wrote
    pub(crate) plan: PathBuf,
    #[command(flatten)]
    pub(crate) this: HostArg,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The service, topic or interface, or 'coordination', 'modes', 'network', 'parked'
    pub(crate) name: String,
    /// The plan to explain; else the one in force, and where no giusto runs out/plan.json
    #[arg(long, value_name = "FILE", conflicts_with = "site")]
    pub(crate) plan: Option<PathBuf>,
    /// Plan this site now instead of reading a plan
    #[arg(long, value_name = "FILE")]
    pub(crate) site: Option<PathBuf>,
    /// With --site: insist on a backend
    #[arg(long, value_name = "NAME", requires = "site")]
    pub(crate) backend: Option<Backend>,
    /// With --site: which host of it this machine is
    #[arg(long, value_name = "NAME", requires = "site")]
    pub(crate) host: Option<String>,
    #[command(flatten)]
    pub(crate) profiles: ProfilesArg,
    /// Print JSON: the service's part of the plan
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) site: SiteArg,
    #[command(flatten)]
    pub(crate) insist: BackendArg,
    /// Which host of the site this machine is; only that one is played
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Virtual time to play
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = span)]
    pub(crate) horizon: Duration,
    /// Seed of everything random; the same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Runs to pool, of this seed and the following ones, on all processors
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) seeds: u32,
    /// Measured execution times (from 'giusto measure execution') instead of the worst case
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Play other schedulers too, such as polling,fair,credit: server kinds with the plan's budget and period, Xen's Credit
    /// scheduler, a fair scheduler
    #[arg(long, value_name = "KIND,KIND", value_delimiter = ',')]
    pub(crate) compare: Vec<giusto_simulator::Under>,
    /// Draw the schedules of all services (SVG); for short times, such as two periods
    #[arg(long, value_name = "FILE")]
    pub(crate) gantt: Option<PathBuf>,
    /// Write a page of it: promises, distributions, and the beginning of the schedules with budgets, to zoom into
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write job records of the first service to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) jobs: Option<PathBuf>,
    /// Write the schedules of all services as a trace for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) site: SiteArg,
    #[command(flatten)]
    pub(crate) insist: BackendArg,
    #[command(flatten)]
    pub(crate) this: HostArg,
    #[command(flatten)]
    pub(crate) latency: LatencyArg,
    /// Measure whether the promises are kept, then stop
    #[arg(long)]
    pub(crate) trial: bool,
    /// Most time for the slices of each service; a trial ends before that once its verdict is clear
    #[arg(long, value_name = "TIME", default_value = "100s", requires = "trial", value_parser = span)]
    pub(crate) at_most: Duration,
    /// Least length of one slice of a trial
    #[arg(long, value_name = "TIME", default_value = "500ms", requires = "trial", value_parser = span)]
    pub(crate) slice: Duration,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, requires = "trial")]
    pub(crate) seed: u64,
    /// Where plan, job records and report go
    #[arg(long, value_name = "DIR", default_value = "out")]
    pub(crate) out: PathBuf,
    /// Print what would be done and do nothing
    #[arg(long, conflicts_with = "trial")]
    pub(crate) dry_run: bool,
    /// Enforce this part of the plan alone: packets get their threads and buckets, no service is started or touched
    #[arg(long, value_enum, value_name = "PART", conflicts_with = "trial")]
    pub(crate) only: Option<Only>,
    /// Answer Prometheus at http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["trial", "dry_run"])]
    pub(crate) metrics: Option<SocketAddr>,
    /// Show this host in a browser at http://ADDRESS/, or over a Unix socket (a path); read-only
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["trial", "dry_run"])]
    pub(crate) web: Option<WebAddress>,
    /// Send metrics every 10 s, and each late request or job as a span, to a collector of OpenTelemetry (OTLP over HTTP, in JSON)
    #[arg(long, value_name = "URL", conflicts_with_all = ["trial", "dry_run"])]
    pub(crate) otlp: Option<OtlpAddress>,
    /// A file with what a reader of --web has to add to the address as ?token=...; needed where it is no loopback address
    #[arg(long, value_name = "FILE", requires = "web")]
    pub(crate) web_token: Option<PathBuf>,
    /// How events are said on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub(crate) log: Log,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Only {
    /// How packets are processed
    Network,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Log {
    /// Sentences for people
    Text,
    /// A JSON object a line, with fields
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Show it anew every second, until q
    #[arg(long, conflicts_with = "json")]
    pub(crate) watch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReloadArgs {
    /// Another site file or plan from now on, as root only; when not given, the one that runs
    pub(crate) site: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Job records of the reference: the service on a whole core. With --promise: job records to judge
    pub(crate) reference: PathBuf,
    /// Job records to judge
    #[arg(required_unless_present_any = ["promise", "plan"])]
    pub(crate) measured: Option<PathBuf>,
    /// Judge this percentile by its measured interval, such as p99=50ms; the reference is then a run to be judged too
    #[arg(long, value_name = "PERCENTILE", value_parser = within)]
    pub(crate) promise: Vec<Within>,
    /// More runs of the reference; with two of them there is a noise floor, hence a verdict
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Vec<PathBuf>,
    /// Show what this plan predicted beside it, and judge the percentiles that it promises
    #[arg(long, value_name = "PLAN")]
    pub(crate) plan: Option<PathBuf>,
    /// With --plan: the service, where the plan has several
    #[arg(long, value_name = "NAME", requires = "plan")]
    pub(crate) service: Option<String>,
    /// Write a report to this file: one page with everything in it
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Seed of the bootstrap
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AnalyzeArgs {
    #[command(subcommand)]
    pub(crate) what: Analyze,
    /// Longest time to compute; also for an interface whose period is only known to be nearly the best to be improved
    /// [default: 30s, and 1s for such an interface]
    #[arg(long = "for", value_name = "TIME", global = true, value_parser = span)]
    pub(crate) most: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Analyze {
    /// Least share of a core with the latency of a whole one [LiH21, chapter 3]
    #[command(
        after_help = "Example:\n  giusto analyze share --task 40ms/250ms+150ms --task 200ms/500ms+100ms --task 100ms/1000ms+50ms --task 200ms/2000ms+0ms"
    )]
    Share(ShareArgs),
    /// Cheapest periodic resource that keeps every deadline of a task set, with its proof (Lee11 and Abe22)
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  giusto analyze interface --scheduler rm --supply general --task 2ms/7ms --task 1ms/8ms ",
            "--task 1ms/10ms --quantum 1ms\n",
            "  giusto analyze interface --scheduler global-edf --vcpus 2 --task 3ms/10ms --task 3ms/10ms --task 8ms/40ms\n",
            "  giusto analyze interface --scheduler edf --task 2ms/7ms --task 1ms/8ms --given 0ms-2ms,3ms-5ms/6ms\n",
            "  giusto analyze interface --scheduler rm --supply edp --task 2ms/7ms --task 1ms/8ms --period 3ms ",
            "--deadline 2500us --quantum 10us"
        )
    )]
    Interface(InterfaceArgs),
    /// Whether servers of any kind fit together on a core or on several, or the window in which they do not (Lee11 and Abe22)
    ///
    /// A task alone is a periodic_strict server: its execution time in each of its periods. On several cores that all share
    /// the tests are sufficient: of what they refuse some would never miss.
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  giusto analyze admission --scheduler fixed-priority --server deferrable:2ms/5ms ",
            "--server polling:1ms/10ms --sensitivity\n",
            "  giusto analyze admission --scheduler fixed-priority --cores 2 --server periodic_strict:2ms/5ms ",
            "--server deferrable:3ms/8ms --server polling:4ms/12ms\n",
            "  giusto analyze admission --scheduler edf --cores 2 --fit first --server deferrable:2ms/5ms ",
            "--server sporadic:3ms/8ms --server polling:4ms/12ms"
        )
    )]
    Admission(AdmissionArgs),
    /// Whether virtual machines of high and low criticality go together, on which cores, and by how much not (Asy20)
    #[command(
        after_help = "Examples:\n  giusto analyze criticality --vm hi:5ms:25ms/100ms --vm lo:25ms/100ms\n  giusto analyze criticality --vm hi:5ms:25ms/100ms --vm lo:50ms/100ms --vm lo:50ms/100ms --cores 4"
    )]
    Criticality(CriticalityArgs),
    /// Which bandwidth with which delay is enough for a task set, and the server of a period (Abe22)
    #[command(
        after_help = "Example:\n  giusto analyze plane --scheduler rm --task 2ms/7ms --task 1ms/8ms --task 1ms/10ms --period 3ms --plot out/plane.svg"
    )]
    Plane(PlaneArgs),
    /// Response times of requests that come at random to a share of a core [LiH21, chapter 4]
    #[command(
        after_help = "Example:\n  giusto analyze response --rate 0.004/ms --service 100ms --budget 120ms --period 200ms --at 200ms --percentile 99"
    )]
    Response(RandomArgs),
    /// Cheapest share of a core that keeps a latency objective [LiH21, section 4.3]
    #[command(
        after_help = "Example:\n  giusto analyze slo --rate 0.4/ms --service 1ms --objective p90=3ms --period 2ms --period 4ms"
    )]
    Slo(SloArgs),
    /// From the first arrival to the last departure of a path over several stages: a percentile, or every message
    ///
    /// For messages that come at random (--rate) the time that all but so many of them take at most, whatever the stages do
    /// to each other: a theorem of our own (docs/decisions/0052-paths.md). For those that keep to an arrival curve
    /// (--period, or --rate with --burst) the time that none exceeds, by network calculus.
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  giusto analyze path --rate 50/s --stage 4ms/10ms:5ms --stage bound:300us --stage bucket:60/s*4 ",
            "--stage periodic:2ms/5ms:3ms*75%,8ms --percentile 99\n",
            "  giusto analyze path --rate 50/s --stage core:5ms --stage 4ms/10ms:4ms --also 2=10/s:8ms --at 60ms\n",
            "  giusto analyze path --period 20ms --jitter 2ms --stage 4ms/10ms:5ms --stage bound:300us --stage 2ms/5ms:3ms"
        )
    )]
    Path(PathArgs),
    /// How long packets wait for the core that processes them by priority [LiC20, chapter 3]
    #[command(after_help = "Example:\n  giusto analyze packets --capacity 64k/s --flow 5k/s*16+5k/s*16 --flow 2k/s*8")]
    Packets(ProcessingArgs),
    /// Percentiles over bandwidths and periods, as table, CSV and drawing [LiH21, Figs 4.10 and 4.11]
    #[command(
        after_help = "Example:\n  giusto analyze map --rate 0.4/ms --service 1ms --percentile 90 --csv out/map.csv --plot out/map.svg"
    )]
    Map(MapArgs),
    /// How long messages wait for tokens, and what splitting a token bucket over brokers costs [LiC20, section 2.2]
    #[command(
        after_help = "Examples:\n  giusto analyze bucket --rate 10k/s --tokens 11k/s --depth 26 --split 6\n  giusto analyze bucket --rate 10k/s --access p99"
    )]
    Bucket(BucketArgs),
    /// The least token buckets with which recorded messages would not have waited
    #[command(
        after_help = "Example, of the requests of a trial:\n  giusto analyze trace out/trials/latest/jobs/cache-whole-1.csv --access p99"
    )]
    Trace(TraceArgs),
    /// How long an ensemble of coordination servers is without a leader [LiH21, chapter 5]
    #[command(
        after_help = "Example:\n  giusto analyze recovery --servers 5 --epochs overlap --jitter 8ms --message 500us --learner 3ms"
    )]
    Recovery(RecoveryArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ShareArgs {
    /// A task, wcet/period[@deadline][+offset]; repeat it for each
    #[arg(long = "task", value_name = "TASK", required = true)]
    pub(crate) tasks: Vec<Task>,
    /// What is known of the releases; when not given: kept offsets if any task has one, else sporadic
    #[arg(long, value_enum)]
    pub(crate) releases: Option<Releases>,
    /// The server's period; when not given, the hyperperiod
    #[arg(long, value_name = "TIME")]
    pub(crate) period: Option<Duration>,
    /// Longest server period allowed: the least bandwidth within it is looked for
    #[arg(long, value_name = "TIME", conflicts_with = "period")]
    pub(crate) max_period: Option<Duration>,
    /// Percentage points of a core to add in practice
    #[arg(long, default_value = "5%", value_parser = part)]
    pub(crate) margin: Bandwidth,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Releases {
    /// Strictly periodic, offsets known and kept
    Kept,
    /// Sporadic, jittered, or offsets unknown
    Sporadic,
}
