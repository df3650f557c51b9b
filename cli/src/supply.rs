//! `giusto measure supply`.

use crate::args::SupplyArgs;
use crate::failure::{apart, create, Failure};
use crate::table::{json, print, say, table};
use crate::tell::tell;
use giusto_measure::{Asked, Spread, SupplyPlan, SupplyReport};
use giusto_model::{Behind, Duration};
use std::path::Path;
use std::process::ExitCode;

/// Measures until the time is over or a signal comes.
pub(crate) fn supply(args: &SupplyArgs) -> Result<ExitCode, Failure> {
    apart(&[("--out", args.out.as_deref()), ("--windows", args.windows.as_deref())], &[])?;
    let window = args.window.or(args.ask.map(|ask| ask.period)).unwrap_or(Duration::from_ms(10));
    let plan = SupplyPlan { length: args.length, window, phase: args.phase, core: args.core, ask: args.ask };
    let probed = giusto_measure::supply(&plan, &giusto_daemon::Signals::mind(false).stop)?;
    let broken = |path: &Path, error| Failure::running(format!("cannot write {}: {error}", path.display()));
    if let Some(out) = &args.out {
        probed.recording.write_gaps(create(out)?).map_err(|error| broken(out, error))?;
    }
    if let Some(out) = &args.windows {
        probed.recording.write_windows(window, args.phase, create(out)?).map_err(|error| broken(out, error))?;
    }
    let report = probed.report(&plan);
    if report.dropped_gaps > 0 {
        tell(format_args!("only the last {} gaps were kept; measure for a shorter time to see all of it", report.gaps));
    }
    if args.json {
        return json(&report);
    }
    describe(&report)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(report: &SupplyReport) -> Result<(), Failure> {
    let cores: Vec<String> = report.cores.iter().map(u32::to_string).collect();
    let percent = report.share.percent();
    say!("{percent} of a core ({}) in {:.3}, as '{}'", cores.join(", "), report.elapsed, report.policy);
    let unscheduled = report.elapsed.checked_sub(report.cpu).unwrap_or(Duration::ZERO);
    let taken = report.cpu.checked_sub(report.supply).unwrap_or(Duration::ZERO);
    let mut rows = vec![
        row("longest gap", report.longest_gap, &format!("{} gaps of more than {}", report.gaps, report.threshold)),
        row("not scheduled", unscheduled, "others ran, or the budget was used up"),
        row("taken while scheduled", taken, "interrupts, hypervisor"),
    ];
    if let Some(steal) = report.steal {
        rows.push(row("stolen from the core", steal, "by a hypervisor, whichever program ran; in ticks"));
    }
    if let Some(linear) = report.linear {
        rows.push(row("bound", linear.delta, &format!("no window of length t has less than {percent} of t less this")));
    }
    print(&table(&rows, 3))?;
    match &report.per_window {
        Some(spread) => print(&windows(report, spread))?,
        None => say!("no whole window of {}", report.window),
    }
    if let Some(asked) = &report.asked {
        print(&against(report, asked))?;
    }
    Ok(())
}

fn row(name: &str, time: Duration, note: &str) -> Vec<String> {
    vec![name.into(), format!("{time:.3}"), note.into()]
}

fn windows(report: &SupplyReport, spread: &Spread) -> String {
    let heads = [String::new(), "min".into(), "p1".into(), "mean".into(), "p99".into(), "max".into(), "sd".into()];
    let name = format!("{} windows of {}", report.windows, report.window);
    let cells =
        [spread.min, spread.p1, spread.mean, spread.p99, spread.max, spread.sd].map(|time| format!("{time:.3}"));
    table(&[heads.to_vec(), std::iter::once(name).chain(cells).collect()], 1)
}

fn against(report: &SupplyReport, asked: &Asked) -> String {
    let name = format!("asked: {} every {}", asked.budget, asked.period);
    let sign = if asked.mean_deviation < 0 { "-" } else { "+" };
    let mean = Duration::from_ns(asked.mean_deviation.unsigned_abs());
    let kept = match asked.below {
        Duration::ZERO => "kept".to_string(),
        below => format!("{below:.3} too little in the worst window of all up to ten periods"),
    };
    let Behind { loss, usual, late } = asked.behind;
    let rows = [
        vec![name, String::new()],
        vec!["deviation".into(), format!("mean {sign}{mean:.3}, root of mean square {:.3}", asked.rms_deviation)],
        vec!["overrun".into(), format!("{:.3} at most", asked.overrun)],
        vec![
            "shortfall".into(),
            format!("{:.3} at most; {} of {} windows", asked.shortfall, asked.short_windows, report.windows),
        ],
        vec!["longest gap".into(), format!("{:.3}; {:.3} allowed", report.longest_gap, asked.blackout)],
        vec!["bound of the periodic resource".into(), kept],
        vec![
            "due when windows begin".into(),
            format!("{loss:.3} of each lost, the rest p99 {usual:.3} and at most {late:.3} late"),
        ],
    ];
    table(&rows, 2)
}
