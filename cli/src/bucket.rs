//! `giusto analyze bucket`, `giusto analyze trace` and `giusto export nsq`.

use crate::args::{BucketArgs, NsqArgs, TraceArgs};
use crate::coordination::written;
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_analysis::bucket::{least_depth, least_depth_of_trace, mean_rate, wait, Wait};
use giusto_model::{Arrivals, Bucket, Percentile, Rate};
use giusto_site::read_arrivals;
use serde::Serialize;
use std::process::ExitCode;

/// By how many percent tokens come more often than messages, by default.
const HEADROOM: [u32; 6] = [2, 5, 10, 20, 50, 100];

/// What `bucket --json` prints (`formats/bucket.schema.json`).
#[derive(Serialize)]
struct Answer<'a> {
    arrivals: Arrivals,
    /// The least depth was looked for, for this.
    access: Option<Percentile>,
    percentiles: &'a [Percentile],
    waits: &'a [Wait],
}

/// What `trace --json` prints (`formats/trace.schema.json`).
#[derive(Serialize)]
struct Recorded<'a> {
    messages: usize,
    rate: Rate,
    access: Percentile,
    least: &'a [Bucket],
}

/// `giusto analyze bucket`
pub(crate) fn bucket(args: &BucketArgs) -> Result<ExitCode, Failure> {
    let arrivals = Arrivals { rate: args.rate, batch: args.batch };
    let messages = args.rate.times(args.batch).ok_or_else(|| Failure::input("the rate is beyond 64 bits"))?;
    let rates = args.tokens.map_or_else(|| above(messages), |rate| Ok(vec![rate]))?;
    let access = args.depth.is_none().then_some(args.access);
    let mut waits = Vec::new();
    for rate in rates {
        let depth = args.depth.map_or_else(|| least_depth(arrivals, rate, args.access), Ok).map_err(Failure::input)?;
        for shares in 1..=args.split {
            waits.push(wait(arrivals, Bucket { rate, depth }, shares, &args.percentile).map_err(Failure::input)?);
        }
    }
    if args.json {
        return json(&Answer { arrivals, access, percentiles: &args.percentile, waits: &waits });
    }
    let mut rows = vec![["brokers", "tokens at each", "depth", "wait", "mean wait"].map(String::from).to_vec()];
    rows[0].extend(args.percentile.iter().map(Percentile::to_string));
    rows.extend(waits.iter().map(|found| {
        let depth = format!("{:.3}", found.bucket.depth.as_f64());
        let mut row = vec![
            found.shares.to_string(),
            a_second(found.bucket.rate),
            depth.strip_suffix(".000").unwrap_or(&depth).to_string(),
            format!("{:.2} %", 100.0 * found.delayed),
            format!("{:.3}", found.mean),
        ];
        row.extend(found.percentiles.iter().map(|time| format!("{time:.3}")));
        row
    }));
    print(&table(&rows, 0))?;
    if let Some(access) = access {
        say!("the least depth with which {} % of all messages do not wait, on one broker", access.percent());
    }
    Ok(ExitCode::SUCCESS)
}

/// `giusto analyze trace`
pub(crate) fn trace(args: &TraceArgs) -> Result<ExitCode, Failure> {
    let named = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", args.file.display()));
    let text = std::fs::read_to_string(&args.file).map_err(|error| named(&error))?;
    let arrivals = read_arrivals(&text).map_err(|error| named(&error))?;
    let rate = mean_rate(&arrivals).map_err(|error| named(&error))?;
    let rates = args.tokens.map_or_else(|| above(rate), |rate| Ok(vec![rate]))?;
    let least = |rate| Ok(Bucket { rate, depth: least_depth_of_trace(&arrivals, rate, args.access)? });
    let least = rates
        .into_iter()
        .map(least)
        .collect::<Result<Vec<Bucket>, _>>()
        .map_err(|error: giusto_analysis::Error| named(&error))?;
    if args.json {
        return json(&Recorded { messages: arrivals.len(), rate, access: args.access, least: &least });
    }
    let mut rows = vec![["tokens", "above the messages", "least depth"].map(String::from).to_vec()];
    rows.extend(least.iter().map(|bucket| {
        let more = 100.0 * (bucket.rate.per_second() / rate.per_second() - 1.0);
        vec![a_second(bucket.rate), format!("{more:.1} %"), format!("{:.3}", bucket.depth.as_f64())]
    }));
    print(&table(&rows, 0))?;
    say!(
        "{} messages, {:.1}/s; with these buckets {} % of them would not have waited",
        arrivals.len(),
        rate.per_second(),
        args.access.percent()
    );
    Ok(ExitCode::SUCCESS)
}

/// Rates of tokens to choose from.
fn above(messages: Rate) -> Result<Vec<Rate>, Failure> {
    let more = |percent: u32| messages.times(100 + percent)?.share(100);
    HEADROOM.into_iter().map(more).collect::<Option<_>>().ok_or_else(|| Failure::input("the rate is beyond 64 bits"))
}

/// `giusto export nsq`
pub(crate) fn nsq(args: &NsqArgs) -> Result<ExitCode, Failure> {
    let plan = crate::plan::of(&args.site, &crate::plan::Asked::default())?;
    let all = giusto_planner::nsq(&plan, &args.lookupd);
    if all.is_empty() {
        return Err(Failure::input(format!(
            "{} has no 'topics'; expected, for example, topics: {{alarms: {{publishers: 1000, each: 10/s, brokers: [edge-1], \
             promise: {{p99: 1ms}}}}}}",
            args.site.display()
        )));
    }
    if args.json {
        return json(&all);
    }
    for file in &all {
        written(&args.out.join(&file.host).join("broker.yaml"), &file.config)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// To a tenth, or to four decimals where that would hide the rate.
fn a_second(rate: Rate) -> String {
    let rate = rate.per_second();
    format!("{rate:.*}/s", if rate < 10.0 { 4 } else { 1 })
}
