//! `giusto measure import` of spans: the chains of services in them, and a site that begins with one.

use crate::args::ImportArgs;
use crate::failure::{create, Failure};
use crate::imported::{names, save, told};
use crate::spread::{quantiles, spread};
use crate::table::{json, print, say};
use crate::tell::tell;
use giusto_model::{Duration, Instant, JobRecord, Profile};
use giusto_traces::{Chain, Message, Spans, Stage};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Gaps that vary by less than this part of their mean are those of a periodic source, and by more than that of none that a path
/// can have.
const PERIODIC: f64 = 0.1;
const RANDOM: f64 = 1.3;
/// Messages of which there have to be so many before anything is said of their rate.
const FEWEST: usize = 20;

/// What `--json` prints (`formats/import.schema.json`).
#[derive(Serialize)]
struct Report {
    kind: &'static str,
    /// Those with most messages first.
    chains: Vec<OfChain>,
    /// Spans that do not say when they were.
    left_out: u64,
}

#[derive(Serialize)]
struct OfChain {
    path: String,
    messages: usize,
    /// None with so few messages.
    rate_per_s: Option<f64>,
    /// Standard deviation over mean of the times between messages: 1 of a Poisson process, 0 of a periodic one.
    gaps_variation: Option<f64>,
    /// p50, p99, p99.9 and the longest.
    response_ns: [u64; 4],
    services: Vec<OfService>,
}

#[derive(Serialize)]
struct OfService {
    service: String,
    pid: Option<u32>,
    own_ns: [u64; 4],
}

/// Tells the chains; of one of them writes job records and a site.
pub(crate) fn spans(args: &ImportArgs, spans: &Spans) -> Result<ExitCode, Failure> {
    let chains = spans.chains();
    let named = names(chains.iter().map(|chain| if chain.name.is_empty() { "path" } else { chain.name.as_str() }));
    let file = args.file.display();
    let known = || named.join(", ");
    let wanted = match &args.path {
        None if chains.is_empty() => {
            return Err(Failure::input(format!(
                "{file}: all its spans are of clients and producers, which wait for others"
            )));
        }
        None => 0,
        Some(path) => {
            let unknown = || Failure::input(format!("{file}: there is no path '{path}' in it; it has {}", known()));
            named.iter().position(|name| name == path).ok_or_else(unknown)?
        }
    };
    let (chain, name) = (&chains[wanted], &named[wanted]);
    let record = |(job, message): (u64, &Message)| {
        let start = Instant::from_ns(message.start);
        JobRecord { task: 0, job, due: start, release: start, finish: Some(Instant::from_ns(message.end)) }
    };
    let jobs: Vec<JobRecord> = (0..).zip(&chain.messages).map(record).collect();
    save(args, &jobs)?;
    if let Some(site) = &args.as_site {
        write(args, site, chain, name)?;
    }
    if args.json {
        let chains = chains.iter().zip(&named).map(|(chain, name)| of_chain(chain, name)).collect();
        json(&Report { kind: "spans", chains, left_out: spans.refused })?;
        return told(args, jobs.len());
    }
    for (chain, name) in chains.iter().zip(&named) {
        tell_chain(chain, name)?;
    }
    if spans.refused > 0 {
        say!("left out: {} spans that do not say when they began and ended, or end before they begin", spans.refused);
    }
    if let Some(site) = &args.as_site {
        say!("site: {}; review it, then: giusto plan {}", site.display(), site.display());
    }
    told(args, jobs.len())
}

fn of_chain(chain: &Chain, name: &str) -> OfChain {
    let arrivals = Arrivals::of(chain);
    let service = |(nth, stage): (usize, &Stage)| OfService {
        service: stage.service.clone(),
        pid: stage.pid,
        own_ns: quantiles(&own(chain, nth)),
    };
    OfChain {
        path: name.into(),
        messages: chain.messages.len(),
        rate_per_s: arrivals.as_ref().map(Arrivals::rate_per_s),
        gaps_variation: arrivals.as_ref().map(|arrivals| arrivals.variation),
        response_ns: quantiles(&responses(chain)),
        services: chain.services.iter().enumerate().map(service).collect(),
    }
}

fn tell_chain(chain: &Chain, name: &str) -> Result<(), Failure> {
    let services: Vec<&str> = chain.services.iter().map(|stage| stage.service.as_str()).collect();
    let often = Arrivals::of(chain).map_or(String::new(), |one| format!(", {:.4}/s", one.rate_per_s()));
    say!("{name}: {} messages through {}{often}", chain.messages.len(), services.join(", "));
    let mut rows = vec![("all of it", quantiles(&responses(chain)))];
    rows.extend(services.iter().enumerate().map(|(nth, name)| (*name, quantiles(&own(chain, nth)))));
    print(&spread(&rows.iter().map(|(name, all)| (*name, all)).collect::<Vec<_>>()))
}

fn responses(chain: &Chain) -> Vec<u64> {
    chain.messages.iter().map(|message| message.end - message.start).collect()
}

fn own(chain: &Chain, nth: usize) -> Vec<u64> {
    chain.messages.iter().map(|message| message.own[nth]).collect()
}

/// How the messages of a chain come.
struct Arrivals {
    /// Mean time between two, in ns.
    gap: f64,
    variation: f64,
    /// How far they are from a grid of that step, from the earliest to the latest, in ns.
    jitter: f64,
}

impl Arrivals {
    fn of(chain: &Chain) -> Option<Arrivals> {
        let times: Vec<f64> =
            chain.messages.iter().map(|message| (message.start - chain.messages[0].start) as f64).collect();
        if times.len() < FEWEST {
            return None;
        }
        let count = (times.len() - 1) as f64;
        let gap = times.last()? / count;
        let square = times.windows(2).map(|two| (two[1] - two[0] - gap).powi(2)).sum::<f64>() / count;
        let apart = times.iter().enumerate().map(|(nth, time)| time - nth as f64 * gap);
        let (least, most) = apart.fold((0.0, 0.0), |(least, most): (f64, f64), one| (least.min(one), most.max(one)));
        (gap > 0.0).then(|| Arrivals { gap, variation: square.sqrt() / gap, jitter: most - least })
    }

    fn rate_per_s(&self) -> f64 {
        1e9 / self.gap
    }
}

/// Writes a site file whose path is this chain, and beside it what each of its services takes.
fn write(args: &ImportArgs, site: &Path, chain: &Chain, name: &str) -> Result<(), Failure> {
    let file = args.file.display();
    let arrivals = Arrivals::of(chain).ok_or_else(|| {
        Failure::cannot_tell(format!(
            "{file}: '{name}' has {} messages, and how they come shows in {FEWEST} at least; no site was written",
            chain.messages.len()
        ))
    })?;
    let cannot = |path: &Path, why: std::io::Error| Failure::running(format!("cannot write {}: {why}", path.display()));
    let services = names(chain.services.iter().map(|stage| stage.service.as_str()));
    let mut of_services = String::new();
    for (nth, (stage, service)) in chain.services.iter().zip(&services).enumerate() {
        let profile = beside(site, service);
        let times: Vec<u64> = own(chain, nth).into_iter().map(|ns| ns.max(1)).collect();
        let transport = vec![0; times.len()];
        Profile { execution: times, transport }.write(create(&profile)?).map_err(|why| cannot(&profile, why))?;
        let found = match stage.pid {
            Some(pid) => format!("{{pid: {pid}}}  # as its spans say"),
            None => format!("{{systemd: {service}.service}}  # a guess: another unit, a cgroup, or {{pid: ...}}"),
        };
        let histogram = profile.file_name().unwrap_or_default().to_string_lossy();
        of_services += &format!("  '{service}':\n    adopt: {found}\n    execution: {{histogram: '{histogram}'}}\n");
    }
    let (source, promise) = promise(args, chain, &arrivals, name)?;
    let through: Vec<String> = services.iter().map(|service| format!("{{service: '{service}'}}")).collect();
    let last = std::thread::available_parallelism().map_or(0, |count| count.get() - 1);
    let text = format!(
        "# From {} messages of {file}. A span lasts longer than the processor is used for it, so these execution times are too\n\
         # long rather than too short. Review all of it, above all what is promised.\n\
         giusto: 1\nhosts:\n  here: {{cores: 0-{last}}}\nservices:\n{of_services}paths:\n  '{name}':\n    source: {source}\n    \
         through: [{}]\n    promise: {promise}\n",
        chain.messages.len(),
        through.join(", ")
    );
    let mut to = create(site)?;
    to.write_all(text.as_bytes()).map_err(|why| cannot(site, why))
}

/// The profile of a service of `shop.yaml`: `shop-api.csv`.
fn beside(site: &Path, service: &str) -> PathBuf {
    let stem = site.file_stem().unwrap_or_default().to_string_lossy();
    site.with_file_name(format!("{stem}-{service}.csv"))
}

/// As site files have times.
fn plain(time: Duration) -> String {
    time.to_string().replace(' ', "")
}

/// How messages come, and what is promised of them: what was asked for, else what they take at present.
fn promise(args: &ImportArgs, chain: &Chain, arrivals: &Arrivals, name: &str) -> Result<(String, String), Failure> {
    let [_, p99, _, longest] = quantiles(&responses(chain));
    let two = |ns: u64| {
        // Two digits, rounded up.
        let step = 10u64.pow(ns.max(1).ilog10().saturating_sub(1));
        Duration::from_ns(ns.div_ceil(step) * step)
    };
    if arrivals.variation < PERIODIC {
        if !args.promise.is_empty() {
            return Err(Failure::input(format!(
                "'{name}' comes in periods of {}, of which no percentile is promised; leave out --promise: what every message \
                 keeps is promised then",
                Duration::from_ns(arrivals.gap as u64)
            )));
        }
        let (period, jitter) = (Duration::from_ns(arrivals.gap as u64), Duration::from_ns(arrivals.jitter as u64));
        let source = format!("{{period: {}, jitter: {}}}", plain(period), plain(jitter));
        return Ok((source, format!("{{every: {}}}", plain(two(longest)))));
    }
    if arrivals.variation > RANDOM {
        tell(format_args!(
            "note: messages of '{name}' come in bursts (the times between them vary by {:.1} times their mean, 1 of a Poisson \
             process): what is proven of a path does not hold for them",
            arrivals.variation
        ));
    }
    let points: Vec<String> =
        args.promise.iter().map(|point| format!("{}: {}", point.percentile, plain(point.within))).collect();
    let promise = match points.is_empty() {
        true => format!("{{p99: {}}}  # as it is now", plain(two(p99))),
        false => format!("{{{}}}", points.join(", ")),
    };
    Ok((format!("{{poisson: {:.4}/s}}", arrivals.rate_per_s()), promise))
}
