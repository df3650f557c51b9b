//! `giusto analyze recovery`, `giusto export zookeeper` and `giusto export etcd`.

use crate::args::{EnsembleArgs, RecoveryArgs};
use crate::failure::{create, Failure};
use crate::table::{json, print, say, table};
use giusto_answers::recovery::{Answer, Question};
use giusto_model::{CoordinationPlan, Duration, RecoveryTimes};
use giusto_planner::{EtcdFile, ServerFiles};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// `giusto analyze recovery`
pub(crate) fn recovery(args: &RecoveryArgs) -> Result<ExitCode, Failure> {
    let RecoveryArgs { leave, jitter, delay, message, recover, learner, write, .. } = *args;
    let times = RecoveryTimes { leave, jitter, delay, message, recover, learner, write };
    let RecoveryArgs { servers, epochs, .. } = *args;
    let answer = Question { servers, epochs, wait: args.wait, times }.answer()?;
    if args.json {
        return json(&answer);
    }
    let Answer { bound, paper, forced_writes, wait_ns: wait, .. } = answer;
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

/// The plan of the site's ensemble.
fn ensemble(site: &Path) -> Result<CoordinationPlan, Failure> {
    crate::plan::of(site, &crate::plan::Asked::default())?.coordination.ok_or_else(|| {
        Failure::input(format!(
            "{} has no 'coordination'; expected, for example, coordination: {{servers: [edge-1:2181, edge-2:2181, edge-3:2181], \
             promise: {{recovery: 200ms}}}}",
            site.display()
        ))
    })
}

/// The site's ensemble has another engine than was asked for.
fn other(site: &Path, engine: &str) -> Failure {
    let site = site.display();
    Failure::input(format!("the ensemble of {site} is of {engine} servers; expected giusto export {engine} {site}"))
}

/// `giusto export zookeeper`
pub(crate) fn zookeeper(args: &EnsembleArgs) -> Result<ExitCode, Failure> {
    let all = match ensemble(&args.site)? {
        CoordinationPlan::ZooKeeper(plan) => giusto_planner::zookeeper(&plan),
        CoordinationPlan::Etcd(_) => return Err(other(&args.site, "etcd")),
    };
    if args.json {
        return json(&all);
    }
    for ServerFiles { host, config, id } in &all {
        for (name, text) in [("zoo.cfg", config), ("myid", id)] {
            written(&args.folder("zookeeper").join(host).join(name), text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `giusto export etcd`
pub(crate) fn etcd(args: &EnsembleArgs) -> Result<ExitCode, Failure> {
    let all = match ensemble(&args.site)? {
        CoordinationPlan::Etcd(plan) => giusto_planner::etcd(&plan),
        CoordinationPlan::ZooKeeper(_) => return Err(other(&args.site, "zookeeper")),
    };
    if args.json {
        return json(&all);
    }
    for EtcdFile { host, environment } in &all {
        written(&args.folder("etcd").join(host).join("etcd"), environment)?;
    }
    Ok(ExitCode::SUCCESS)
}
