//! `giusto check --certificate`.

use crate::failure::Failure;
use crate::table::{json, say, table};
use giusto_model::Duration;
use giusto_verify::{
    check_plan, check_site, read_plan, unchecked_in, Broken, Checked, CheckedCore, CheckedEnsemble, CheckedInterface,
    CheckedMode, CheckedPath, CheckedService, CheckedTopic, OfSite, Unchecked,
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
    /// The site that the plan is of; none if none was named, or something does not hold.
    site: Option<&'a OfSite>,
    /// The first thing that does not hold.
    broken: Option<&'a Broken>,
    /// What of this plan no check looks at.
    not_checked: &'a [Unchecked],
}

/// Proves the promises of the plan in `path`, and that it is of the `site` if one is named: 0 all hold, 1 one does not, 2 it
/// is no plan, or that no site.
pub(crate) fn check(path: &Path, site: Option<&Path>, as_json: bool) -> Result<ExitCode, Failure> {
    let named = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
    let plan = read_plan(&text).map_err(|error| named(&error))?;
    let read = site.map(|site| {
        let text = giusto_site::text(site)?;
        Ok::<_, Failure>((giusto_site::parse(&site.display().to_string(), &text)?, text))
    });
    let read = read.transpose()?;
    let of_site = read.as_ref().map(|(site, text)| check_site(&plan, site, text.as_bytes())).transpose();
    let found = of_site.and_then(|of_site| Ok((check_plan(&plan)?, of_site)));
    let not_checked = unchecked_in(&plan);
    if as_json {
        let (checked, of_site) = (found.as_ref().ok().map(|(checked, _)| checked), found.as_ref().ok());
        let (of_site, broken) = (of_site.and_then(|(_, of_site)| of_site.as_ref()), found.as_ref().err());
        let holds = broken.is_none();
        json(&Verdict { holds, checked, site: of_site, broken, not_checked: &not_checked })?;
        return Ok(ExitCode::from(u8::from(!holds)));
    }
    let (checked, of_site) = found.map_err(|broken| {
        let anew = site.map(|site| format!("; plan anew with 'giusto plan {} --out FILE'", site.display()));
        let text = format!("{}: a promise does not hold: {broken}{}", path.display(), anew.unwrap_or_default());
        Failure::does_not_fit(text)
    })?;
    describe(checked)?;
    match (of_site, site) {
        (Some(OfSite { measured, .. }), Some(site)) => {
            let site = site.display();
            say!("the plan is of {site}: what it promises, runs and reserves for is what that file says");
            if !measured.is_empty() {
                say!("measured, and so not compared with the site: execution times of {}", measured.join(", "));
            }
        }
        _ => say!(
            "not compared with a site, whose promises may be others: 'giusto check SITE --certificate {}' does that",
            path.display()
        ),
    }
    let leaves: Vec<&str> = not_checked.iter().map(|one| one.leaf).collect();
    say!("not checked: {}; --json says why", leaves.join(", "));
    Ok(ExitCode::SUCCESS)
}

/// What was checked, a line each.
fn describe(checked: Checked) -> Result<(), Failure> {
    let Checked { services, cores, topics, coordination, paths, network, modes } = checked;
    let head = ["service", "core", "promise", "compared", "if it lacks", "once late"].map(String::from).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(services.iter().map(row)).collect();
    crate::table::print(&table(&rows, 3))?;
    match cores.is_empty() {
        true => say!("all hold"),
        false => say!("all hold; the servers of {} fit together", words(&cores)),
    }
    for CheckedService { service, within, .. } in &services {
        if let Some(within) = within {
            say!("percentiles of {service}: computed by another method, each to within {within:.3}");
        }
    }
    for CheckedTopic { name, brokers, predicted } in &topics {
        let points: Vec<String> = predicted.iter().map(ToString::to_string).collect();
        let brokers = if *brokers == 1 { "one broker".into() } else { format!("{brokers} brokers") };
        say!("topic {name}, on {brokers}: {}", points.join(", "));
    }
    for CheckedPath { name, stages, compared, believed, simulated } in &paths {
        let stages = if *stages == 1 { "one stage".into() } else { format!("{stages} stages") };
        let believed = match believed {
            0 => String::new(),
            1 => "; one is believed: the plan of all hosts proves it".to_string(),
            _ => format!("; {believed} are believed: the plan of all hosts proves them"),
        };
        if let Some(messages) = simulated {
            say!("path {name}: {stages}, simulated again with {messages} messages, not proven{believed}");
            continue;
        }
        say!("path {name}: {stages}, computed by another method ({compared} compared{believed})");
    }
    if let Some(CheckedEnsemble { servers, bound }) = coordination {
        say!("the ensemble of {servers} servers recovers within {bound:.3}");
    }
    for CheckedInterface { on, name, bound, above, rests_on } in &network {
        say!("interface {name} on {on}, with {above} above it: no packet waits longer than {bound:.3}");
        for one in rests_on {
            say!("  rests on {one}");
        }
    }
    for CheckedMode { on, mode, cores, compared, .. } in &modes {
        let cores = if *cores == 1 { "core".into() } else { format!("{cores} cores") };
        say!("mode {mode} on {on}: its servers fit on the {cores}, and keep what is promised ({compared} compared)");
    }
    Ok(())
}

/// `core 1`, `cores 0-2 of edge-1 and core 1 of edge-2`; of more than three hosts `16 cores of 4 hosts`
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
    match hosts.len() {
        ..=3 => hosts.iter().map(host).collect::<Vec<_>>().join(" and "),
        count => format!("{} cores of {count} hosts", cores.len()),
    }
}

fn row(one: &CheckedService) -> Vec<String> {
    let name = one.vcpu.map_or(one.service.clone(), |vcpu| format!("{}, virtual CPU {vcpu}", one.service));
    let at_most = |time: Duration| if time.is_zero() { "nothing".to_string() } else { format!("≤ {time}") };
    let lacks = if one.loss.is_zero() { "nothing".into() } else { format!("{} a period", at_most(one.loss)) };
    vec![name, one.core.to_string(), one.promise.into(), one.compared.to_string(), lacks, at_most(one.latency)]
}
