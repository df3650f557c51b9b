//! `giusto analyze recovery` and `giusto export zookeeper`.

use crate::args::{RecoveryArgs, ZookeeperArgs};
use crate::failure::{create, Failure};
use crate::table::{json, print, say, table};
use giusto_analysis::recovery::{Bound, Paper, Recovery};
use giusto_model::{Duration, Epochs, RecoveryTimes};
use giusto_planner::ServerFiles;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// What `--json` prints (`formats/recovery.schema.json`).
#[derive(Serialize)]
struct Answer {
    servers: u64,
    epochs: Epochs,
    forced_writes: u64,
    wait_ns: Duration,
    times: RecoveryTimes,
    bound: Bound,
    paper: Paper,
}

/// `giusto analyze recovery`
pub(crate) fn recovery(args: &RecoveryArgs) -> Result<ExitCode, Failure> {
    let RecoveryArgs { leave, jitter, delay, message, recover, learner, write, .. } = *args;
    let times = RecoveryTimes { leave, jitter, delay, message, recover, learner, write };
    let wait = times.wait(args.wait);
    let forced_writes = args.epochs.forced_writes();
    let question = Recovery { times, wait, forced_writes, left: args.servers - 1 };
    let bound = question.bound().map_err(Failure::input)?;
    let paper = question.paper().map_err(Failure::input)?;
    if args.json {
        let (servers, epochs) = (args.servers, args.epochs);
        return json(&Answer { servers, epochs, forced_writes, wait_ns: wait, times, bound, paper });
    }
    let row = |name: &str, time: Duration, what: &str| vec![name.to_string(), format!("{time:.3}"), what.to_string()];
    let left = args.servers - 1;
    print(&table(
        &[
            row("notice", bound.notice, "d"),
            row("leave", bound.leave, "s_e"),
            row("election", bound.election, &format!("j + 2 d + w + h n(n+1), n = {left} left, w = {wait:.3}")),
            row("recovery", bound.recovery, &format!("s_r + n h_r + k b, k = {forced_writes} ({})", args.epochs)),
            row("another leads", bound.total, "T, at most, after the leader's process died"),
            row("first write", bound.first_write, "T + 2 (2 d + h_r + b), at most"),
            row("the paper's", paper.total, "s_e + j + 2 (h N(N+1)/2 + w) + s_r + N h_r (5.8), two floods and no disk"),
        ],
        3,
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// A file of an export, and its name on standard output.
pub(crate) fn written(path: &Path, text: &str) -> Result<(), Failure> {
    let cannot = |error| Failure::running(format!("cannot write {}: {error}", path.display()));
    let mut file = create(path)?;
    file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(cannot)?;
    say!("{}", path.display());
    Ok(())
}

/// `giusto export zookeeper`
pub(crate) fn zookeeper(args: &ZookeeperArgs) -> Result<ExitCode, Failure> {
    let plan = crate::plan::of(&args.site, &crate::plan::Asked::default())?;
    let Some(ensemble) = &plan.coordination else {
        return Err(Failure::input(format!(
            "{} has no 'coordination'; expected, for example, coordination: {{servers: [edge-1:2181, edge-2:2181, edge-3:2181], \
             promise: {{recovery: 200ms}}}}",
            args.site.display()
        )));
    };
    let all = giusto_planner::zookeeper(ensemble);
    if args.json {
        return json(&all);
    }
    for ServerFiles { host, config, id } in &all {
        for (name, text) in [("zoo.cfg", config), ("myid", id)] {
            written(&args.out.join(host).join(name), text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
