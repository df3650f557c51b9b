//! Flags of what measures on this machine.

use super::site::SiteArg;
use super::values::{address, span, within};
use clap::{Args, Subcommand};
use giusto_measure::Resource;
use giusto_model::{Duration, Within};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Measure {
    /// Measure what the requests of a service that runs cost, for 'wcet: measured' and 'execution: measured' in a site file
    ///
    /// First single requests one at a time, then for some seconds its own load: processor time of a request, its
    /// distribution, and
    /// the greatest mean over windows of several lengths go into a profile that 'giusto plan' and 'giusto run' read.
    #[command(
        after_help = "Example, with a Redis that runs (redis-server --port 7001 --save ''):\n  giusto measure execution sites/walk.yaml cache --samples out/profile.csv"
    )]
    Execution(ExecutionArgs),
    /// Drive a service that runs with its own tasks, open loop, and record every job
    #[command(
        after_help = "Example, with a Redis that runs (redis-server --port 7001 --save ''):\n  giusto measure response sites/walk.yaml cache --for 5s --out out/jobs.csv"
    )]
    Response(ResponseArgs),
    /// Send what a path's source would, and tell how long it takes, and at which stages
    ///
    /// Lines go to the first stage, open loop, and come back from the last one, which connects to the address that is
    /// listened at. A line is a number and a time in ns; each stage passes it on as one line, and may add a space and
    /// NAME:FROM-TO, when it came and when it left. Where the path's load is 'http', requests go to the first stage, which
    /// answers when the last one is done; the time at each stage is known from spans of the services, where the path observes
    /// them. Judges the promise: exit code 0 kept, 5 missed, 6 cannot tell.
    #[command(
        after_help = "Example, while 'giusto run sites/path.yaml' runs:\n  giusto measure path sites/path.yaml braking --for 60s"
    )]
    Path(MeasurePathArgs),
    /// Measure what processor time the caller really gets
    ///
    /// Spins at the present policy and priority and reads the clock: where two readings lie apart, there was no processor.
    /// So it measures a whole core, a container, a virtual machine from inside, or the server that 'giusto run' has put it
    /// under as a service. Interrupted, it tells what it has seen until then.
    #[command(
        after_help = "Example, of 3 ms asked for in every 10 ms:\n  giusto measure supply --for 2s --window 10ms --ask 3ms/10ms --out out/gaps.csv"
    )]
    Supply(SupplyArgs),
    /// Measure how late threads of the highest priority run on this machine, for 'giusto plan --latency'
    ///
    /// A thread on each core wakes up once in every period, and how late it does so is counted to a microsecond, as cyclictest
    /// does it. Needs the privilege for real-time priorities; all is afterwards as before. Interrupted, it tells what it has
    /// seen until then. It ends with 6 then, and where a hypervisor took too much of the machine meanwhile.
    #[command(
        after_help = "Examples:\n  giusto measure latency --for 1s --stress --out out/latency.json\n  giusto measure latency --core 1 --period 1ms --guest 'ssh vm giusto measure latency --period 1ms --json'"
    )]
    Latency(LatencyArgs),
    /// Measure how many packets a core of this machine processes, for 'network: {capacity: ...}' in a site file
    ///
    /// Makes network namespaces of its own with a guest, a bridge and an uplink, gives the guest's packets a thread on
    /// the core, and lets the
    /// guest send all it can from another core. Needs root; the machine's own network is left alone.
    #[command(after_help = "Example:\n  giusto measure packets --core 0 --for 2s")]
    Packets(PacketsArgs),
    /// Read what another tool has recorded: jobs of a thread, tasks of an rt-app configuration, or a path from spans
    ///
    /// Reads scheduler events (sched_switch, sched_wakeup) as perf script, trace-cmd report and
    /// /sys/kernel/tracing/trace print them,
    /// logs of rt-app, and its configurations; spans of OpenTelemetry (OTLP in JSON) or Jaeger, from which it tells the chains of
    /// services that messages go through; what a file is, its content says. A job begins when the thread is woken and ends
    /// when it sleeps again; what began before the recording, goes on after it or lost an event is reported, not guessed.
    #[command(after_help = "Examples, of what perf script, rt-app or a collector has written:\n  \
                      giusto measure import trace.txt --thread control --out out/jobs.csv\n  \
                      giusto measure import rt-app.json > site.yaml\n  \
                      giusto measure import spans.json --as-site out/shop.yaml --promise p99=150ms")]
    Import(ImportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The recording
    pub(crate) file: PathBuf,
    /// Of a trace: whose jobs, by the name or number of the thread
    #[arg(long, value_name = "NAME|TID")]
    pub(crate) thread: Option<String>,
    /// Write the job records to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Of a trace: write the processor time of each job to this file, for 'giusto simulate --profile'
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Of spans: which chain of services, by its name [default: that with most messages]
    #[arg(long, value_name = "NAME")]
    pub(crate) path: Option<String>,
    /// Of spans: write a site file whose path is the chain, and what its services take beside it
    #[arg(long, value_name = "FILE")]
    pub(crate) as_site: Option<PathBuf>,
    /// Of spans: what that site promises, such as p99=30ms; repeat it for each [default: what is measured now]
    #[arg(long, value_name = "P=TIME", value_parser = within, requires = "as_site")]
    pub(crate) promise: Vec<Within>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LatencyArg {
    /// Allow for this machine's latency, as 'giusto measure latency --out FILE' found it
    #[arg(long = "latency", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LatencyArgs {
    /// Measure on this core; repeat it for each [default: all on which this may run]
    #[arg(long = "core", value_name = "N")]
    pub(crate) cores: Vec<u32>,
    /// Wake up once in every such time; repeat it for each
    #[arg(long = "period", value_name = "TIME", default_values = ["50us", "500us", "1ms", "10ms"], value_parser = span)]
    pub(crate) periods: Vec<Duration>,
    /// How long to measure at each period, and as long again under stress
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = span)]
    pub(crate) length: Duration,
    /// Measure again while processes without a real-time priority keep the kernel busy on these cores
    #[arg(long)]
    pub(crate) stress: bool,
    /// Then also measure what Giusto's manager makes late, on the first core: with three servers, for the same time
    #[arg(long)]
    pub(crate) manager: bool,
    /// Meanwhile run this command in a shell, which makes a guest of this machine measure itself and prints its JSON
    #[arg(long, value_name = "COMMAND")]
    pub(crate) guest: Option<String>,
    /// Write what was measured to this file (JSON)
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PacketsArgs {
    /// The core that processes packets
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) core: u32,
    /// How long to measure
    #[arg(long = "for", value_name = "TIME", default_value = "2s", value_parser = span)]
    pub(crate) length: Duration,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    #[command(flatten)]
    pub(crate) site: SiteArg,
    /// The service
    pub(crate) service: String,
    /// Seed of keys and values
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Where profiles are.
pub(crate) use giusto_answers::plan::PROFILES;

#[derive(Debug, Args)]
pub(crate) struct ProfilesArg {
    /// The folder of the profiles, a file NAME.json for each service
    #[arg(long = "profiles", value_name = "FOLDER", default_value = PROFILES)]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ExecutionArgs {
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
    #[command(flatten)]
    pub(crate) profiles: ProfilesArg,
    /// How many single requests to send
    #[arg(long, default_value_t = 2000)]
    pub(crate) requests: u32,
    /// Write processor time and round trip of the single requests to this file, for 'giusto simulate --profile'
    #[arg(long, value_name = "FILE")]
    pub(crate) samples: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ResponseArgs {
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
    /// Write the records to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// How long to drive it [default: 5s, or as long as the trace]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    pub(crate) length: Option<Duration>,
    /// Send requests at the instants of this file instead of as tasks or arrivals say: a number of ns a line, or
    /// comma-separated values with a column arrival_ns or release_ns
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct MeasurePathArgs {
    #[command(flatten)]
    pub(crate) site: SiteArg,
    /// The path
    pub(crate) path: String,
    /// Where its first stage listens [default: as its 'load' says]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) send: Option<SocketAddr>,
    /// Where to listen for its last stage [default: as its 'load' says]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) receive: Option<SocketAddr>,
    /// How long to drive it
    #[arg(long = "for", value_name = "TIME", default_value = "20s", value_parser = span)]
    pub(crate) length: Duration,
    /// Write the records to this file, for 'giusto verify'
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Seed of the times at which messages come
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct SupplyArgs {
    /// How long to spin
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = span)]
    pub(crate) length: Duration,
    /// Length of a window [default: the period asked for, or 10ms]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) window: Option<Duration>,
    /// A time of CLOCK_MONOTONIC at which a window begins, such as a replenishment; one period is as good as any other
    #[arg(long = "at", value_name = "TIME", default_value = "0ns")]
    pub(crate) phase: Duration,
    /// Run on this core only
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<u32>,
    /// What the supply should be, budget/period, such as 3ms/10ms
    #[arg(long, value_name = "B/P", value_parser = resource)]
    pub(crate) ask: Option<Resource>,
    /// Write the times without supply to this file (CSV)
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write the supply of each window to this file (CSV)
    #[arg(long, value_name = "FILE")]
    pub(crate) windows: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A budget in every period.
fn resource(text: &str) -> Result<Resource, String> {
    let (budget, period) = text
        .split_once('/')
        .ok_or_else(|| format!("'{text}' is no supply; expected budget/period, such as 3ms/10ms"))?;
    Ok(Resource { budget: span(budget)?, period: span(period)? })
}
