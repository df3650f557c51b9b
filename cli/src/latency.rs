//! `giusto measure latency`.

use crate::args::LatencyArgs;
use crate::failure::{create, Failure};
use crate::table::{json, print, say, table};
use crate::tell::tell;
use crate::under_manager::under_manager;
use giusto_measure::LatencyPlan;
use giusto_model::{Behind, Duration, Latency, LatencyMachine, LatencyRun, LatencySpread, ManagerRun, Stress};
use giusto_verify::Verdict;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Measures until all is done or a signal comes.
pub(crate) fn latency(args: &LatencyArgs) -> Result<ExitCode, Failure> {
    let plan = LatencyPlan {
        cores: args.cores.clone(),
        periods: args.periods.clone(),
        length: args.length,
        stress: args.stress,
        guest: args.guest.clone(),
    };
    let shown = std::io::stderr().is_terminal();
    let mut on_run = |period: Duration, load| {
        if shown {
            tell(format_args!("measuring for {}: period {period}, {load}", args.length));
        }
    };
    let (mut found, failed) = giusto_measure::latency(&plan, &giusto_daemon::Signals::mind(false).stop, &mut on_run)?;
    if args.manager && found.void.is_none() {
        let core = found.runs.iter().map(|run| run.core).min().unwrap_or(0);
        let loads = if args.stress { &[Stress::Quiet, Stress::Stress][..] } else { &[Stress::Quiet] };
        for &load in loads {
            if shown {
                tell(format_args!("measuring for {}: under the manager on core {core}, {load}", args.length));
            }
            found.manager.push(under_manager(core, args.length, load)?);
        }
        found.void = giusto_measure::void_under_manager(&found.manager);
    }
    if let Some(out) = &args.out {
        let broken = |why: &dyn std::fmt::Display| Failure::running(format!("cannot write {}: {why}", out.display()));
        let text = serde_json::to_string_pretty(&found).map_err(Failure::running)?;
        let mut file = create(out)?;
        file.write_all((text + "\n").as_bytes()).and_then(|()| file.flush()).map_err(|why| broken(&why))?;
    }
    if args.json {
        json(&found)?;
    } else {
        describe(&found)?;
        if let Some(guest) = &found.guest {
            say!("\nthe guest of '{}', at the same time:", guest.command);
            describe(&guest.latency)?;
        }
    }
    if let Some(why) = failed {
        return Err(Failure::running(why));
    }
    let void = found.void.is_some() || found.guest.is_some_and(|guest| guest.latency.void.is_some());
    Ok(if void { ExitCode::from(Verdict::CannotTell.exit_code()) } else { ExitCode::SUCCESS })
}

fn describe(found: &Latency) -> Result<(), Failure> {
    print(&table(&rows(&found.runs), 3))?;
    if found.runs.iter().any(|run| run.passed > 0) {
        say!("passed: activations that were over before the thread ran; each counts with its own latency");
    }
    say!("{}", found.split);
    for ManagerRun { core, load, periods, cost, behind: Behind { loss, usual, late }, steal, .. } in &found.manager {
        let steal = steal.map_or(String::new(), |steal| format!("; {steal} stolen"));
        let cost = cost.map_or(String::new(), |cost| format!(", {cost:.3} of the manager's for each"));
        say!(
            "under the manager on core {core}, {load}: {loss:.3} of each budget lost, the rest p99 {usual:.3} and at most \
             {late:.3} late, {periods} periods{cost}{steal}"
        );
    }
    print(&table(&machine(&found.machine), 2))?;
    if let Some(void) = &found.void {
        say!("void: {void}");
    }
    say!("1 ms? {}", found.verdict.words);
    for (nth, change) in found.verdict.change.iter().enumerate() {
        say!("  {}. {change}", nth + 1);
    }
    Ok(())
}

fn rows(runs: &[LatencyRun]) -> Vec<Vec<String>> {
    let heads = [
        "core",
        "period",
        "load",
        "p50",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "ready max",
        "run max",
        "activations",
        "passed",
        "stolen",
    ];
    let mut rows = vec![heads.map(String::from).to_vec()];
    for run in runs {
        let LatencySpread { p50, p99, p99_9, p99_99, max, .. } = run.latency;
        let most = |spread: Option<LatencySpread>| spread.map_or("?".into(), |spread| us(spread.max));
        let mut row = vec![run.core.to_string(), run.period.to_string(), run.load.to_string()];
        row.extend([p50, p99, p99_9, p99_99, max].map(us));
        row.extend([most(run.until_ready), most(run.until_run), run.activations.to_string(), run.passed.to_string()]);
        row.push(run.steal.map_or("?".into(), |steal| steal.to_string()));
        rows.push(row);
    }
    rows
}

fn us(time: Duration) -> String {
    format!("{:.0} us", time.ns() as f64 / 1000.0)
}

fn machine(machine: &LatencyMachine) -> Vec<Vec<String>> {
    let or = |text: &Option<String>| text.clone().unwrap_or("?".into());
    let list = |text: &str| if text.is_empty() { "none".into() } else { text.to_string() };
    let time = |time: Option<Duration>| time.map_or("?".into(), |time| time.to_string());
    let idle: Vec<String> = machine.idle_states.iter().map(|state| format!("{} {}", state.name, state.exit)).collect();
    let dynamic = if machine.dynamic { ", can be chosen at boot" } else { "" };
    let throttle = match (machine.rt_runtime, machine.rt_period) {
        (Some(runtime), Some(period)) => format!("{runtime} in every {period}"),
        _ => "none".into(),
    };
    let row = |name: &str, value: String| vec![name.to_string(), value];
    vec![
        row("kernel", machine.kernel.clone()),
        row("preemption", or(&machine.preemption) + dynamic),
        row("HZ", machine.hz.map_or("?".into(), |hz| hz.to_string())),
        row("idle states", list(&idle.join(", "))),
        row("real-time threads may run", throttle),
        row("fair server", time(machine.fair_server)),
        row("isolated, nohz_full", format!("{}, {}", list(&machine.isolated), list(&machine.nohz_full))),
        row("clock source", or(&machine.clocksource)),
        row("governor", or(&machine.governor)),
        row("virtualised", if machine.virtualised { "yes" } else { "no" }.into()),
    ]
}
