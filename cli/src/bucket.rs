//! `giusto analyze bucket`, `giusto analyze trace` and `giusto export nsq`.

use crate::args::{BucketArgs, NsqArgs, TraceArgs};
use crate::coordination::written;
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_answers::bucket::{Question, Trace};
use giusto_model::{Arrivals, Percentile, Rate};
use giusto_site::read_arrivals;
use std::process::ExitCode;

/// `giusto analyze bucket`
pub(crate) fn bucket(args: &BucketArgs) -> Result<ExitCode, Failure> {
    let arrivals = Arrivals { rate: args.rate, batch: args.batch };
    let question = Question {
        arrivals,
        tokens: args.tokens,
        depth: args.depth,
        access: args.access,
        split: args.split,
        percentiles: args.percentile.clone(),
    };
    let answer = question.answer()?;
    if args.json {
        return json(&answer);
    }
    let mut rows = vec![["brokers", "tokens at each", "depth", "wait", "mean wait"].map(String::from).to_vec()];
    rows[0].extend(args.percentile.iter().map(Percentile::to_string));
    rows.extend(answer.waits.iter().map(|found| {
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
    if let Some(access) = answer.access {
        say!("the least depth with which {} % of all messages do not wait, on one broker", access.percent());
    }
    Ok(ExitCode::SUCCESS)
}

/// `giusto analyze trace`
pub(crate) fn trace(args: &TraceArgs) -> Result<ExitCode, Failure> {
    let named = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", args.file.display()));
    let text = std::fs::read_to_string(&args.file).map_err(|error| named(&error))?;
    let arrivals = read_arrivals(&text).map_err(|error| named(&error))?;
    let question = Trace { arrivals, tokens: args.tokens, access: args.access };
    let answer = question.answer().map_err(|error| error.about(&args.file.display().to_string()))?;
    if args.json {
        return json(&answer);
    }
    let rate = answer.rate;
    let mut rows = vec![["tokens", "above the messages", "least depth"].map(String::from).to_vec()];
    rows.extend(answer.least.iter().map(|bucket| {
        let more = 100.0 * (bucket.rate.per_second() / rate.per_second() - 1.0);
        vec![a_second(bucket.rate), format!("{more:.1} %"), format!("{:.3}", bucket.depth.as_f64())]
    }));
    print(&table(&rows, 0))?;
    say!(
        "{} messages, {:.1}/s; with these buckets {} % of them would not have waited",
        answer.messages,
        rate.per_second(),
        args.access.percent()
    );
    Ok(ExitCode::SUCCESS)
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
