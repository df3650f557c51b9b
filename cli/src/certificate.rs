//! `giusto check --certificate`.

use crate::failure::Failure;
use crate::table::{json, say, table};
use giusto_model::Duration;
use giusto_verify::{
    check_plan, read_plan, Broken, Checked, CheckedCore, CheckedEnsemble, CheckedInterface, CheckedMode,
    CheckedService, CheckedTopic,
};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;

/// What `--json` prints (`formats/certificate.schema.json`).
#[derive(Serialize)]
struct Verdict<'a> {
    holds: bool,
    /// What was checked; none if something does not hold.
    checked: Option<&'a Checked>,
    /// The first thing that does not.
    broken: Option<&'a Broken>,
}

/// Proves the promises of the plan in `path`: 0 all hold, 1 one does not, 2 it is no plan.
pub(crate) fn check(path: &Path, as_json: bool) -> Result<ExitCode, Failure> {
    let named = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
    let plan = read_plan(&text).map_err(|error| named(&error))?;
    let found = check_plan(&plan);
    if as_json {
        json(&Verdict { holds: found.is_ok(), checked: found.as_ref().ok(), broken: found.as_ref().err() })?;
        return Ok(ExitCode::from(u8::from(found.is_err())));
    }
    let Checked { services, cores, topics, coordination, network, modes } = found
        .map_err(|broken| Failure::does_not_fit(format!("{}: a promise does not hold: {broken}", path.display())))?;
    let head = ["service", "core", "promise", "compared", "if it lacks", "once late"].map(String::from).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(services.iter().map(row)).collect();
    crate::table::print(&table(&rows, 3))?;
    match cores.is_empty() {
        true => say!("all hold"),
        false => say!("all hold; the servers of {} fit together", words(&cores)),
    }
    for CheckedTopic { name, brokers, predicted } in &topics {
        let points: Vec<String> = predicted.iter().map(ToString::to_string).collect();
        let brokers = if *brokers == 1 { "one broker".into() } else { format!("{brokers} brokers") };
        say!("topic {name}, on {brokers}: {}", points.join(", "));
    }
    if let Some(CheckedEnsemble { servers, bound }) = coordination {
        say!("the ensemble of {servers} servers recovers within {bound:.3}");
    }
    for CheckedInterface { on, name, bound, above } in &network {
        say!("interface {name} on {on}, with {above} above it: no packet waits longer than {bound:.3}");
    }
    for CheckedMode { on, mode, cores, compared, .. } in &modes {
        let cores = if *cores == 1 { "core".into() } else { format!("{cores} cores") };
        say!("mode {mode} on {on}: its servers fit on the {cores}, and keep what is promised ({compared} compared)");
    }
    Ok(ExitCode::SUCCESS)
}

/// `core 1`, `cores 0-2 of edge-1 and core 1 of edge-2`
fn words(cores: &[CheckedCore]) -> String {
    let hosts: Vec<&[CheckedCore]> = cores.chunk_by(|a, b| a.on == b.on).collect();
    let host = |here: &&[CheckedCore]| {
        let numbers: Vec<u32> = here.iter().map(|core| core.core).collect();
        let all = giusto_planner::cores(&numbers);
        let cores = if numbers.len() == 1 { format!("core {all}") } else { format!("cores {all}") };
        if hosts.len() > 1 {
            format!("{cores} of {}", here[0].on)
        } else {
            cores
        }
    };
    hosts.iter().map(host).collect::<Vec<_>>().join(" and ")
}

fn row(one: &CheckedService) -> Vec<String> {
    let name = one.vcpu.map_or(one.service.clone(), |vcpu| format!("{}, virtual CPU {vcpu}", one.service));
    let at_most = |time: Duration| if time.is_zero() { "nothing".to_string() } else { format!("≤ {time}") };
    let lacks = if one.loss.is_zero() { "nothing".into() } else { format!("{} a period", at_most(one.loss)) };
    vec![name, one.core.to_string(), one.promise.into(), one.compared.to_string(), lacks, at_most(one.latency)]
}
