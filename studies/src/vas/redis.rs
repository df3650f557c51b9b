//! Redis on a share of a core of this machine, tenant after tenant: [LiH21, § 3.4.2, Figs 3.12 and 3.13].

use crate::measured::{giusto, last_line, refused};
use crate::vatc::{named, table};
use crate::{Error, Size};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

/// Six clients, as in the paper; what a request takes is measured, and how often they send follows from it. U = 40 % by the
/// mean, where the paper has 72 %: over some milliseconds requests cost up to 1.6 times the mean here, and the plan is for
/// that.
const TASKS: &str = "[{name: hset, wcet: measured, period: {fit: 40%}, copies: 6}]";
/// The first tenant's.
const PORT: u64 = 7021;
/// What a trial says: the promise was kept, missed, cannot be told from so few slices.
const JUDGED: [i32; 4] = [0, 1, 5, 6];

/// A distance of two distributions, in ns.
#[derive(Deserialize)]
struct Estimate {
    value: f64,
}

#[derive(Deserialize)]
struct Floor {
    median_ns: f64,
    upper_ns: f64,
}

#[derive(Deserialize)]
struct Percentile {
    p: f64,
    value_ns: Option<u64>,
}

#[derive(Deserialize)]
struct Row {
    arm: String,
    jobs: u64,
    percentiles: Vec<Percentile>,
}

/// What of a comparison is used here.
#[derive(Deserialize)]
struct Comparison {
    rows: Vec<Row>,
    floor: Option<Floor>,
    distance_giusto_ns: Option<Estimate>,
    distance_unprotected_ns: Option<Estimate>,
    limit_ns: Option<f64>,
}

#[derive(Deserialize)]
struct Told {
    comparison: Comparison,
}

/// Tables `tenants`, a row a tenant and arm: how far its response times are from those of a whole core, and the floor, the
/// distance of as many slices on a whole core from as many others; and `percentiles`. A set is a tenant: a Redis of its own
/// with keys of its own. They are tried one after the other on one core, as there is one for services here and one for their
/// clients.
pub(crate) fn run(size: Size, folder: &Path, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let program = giusto()?;
    let (mut tenants, mut percentiles) = (Vec::new(), Vec::new());
    for set in 0..size.sets {
        let out = folder.join(set.to_string());
        fs::create_dir_all(&out).map_err(Error::machine)?;
        let (file, port) = (out.join("site.yaml"), PORT + set);
        let site = format!(
            "giusto: 1\nhosts:\n  here: {{cores: 1}}\nservices:\n  tenant:\n    \
             start: redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly no\n    \
             tasks: {TASKS}\n    promise: as-if-alone\n    margin: 15%\n    \
             load: {{redis: '127.0.0.1:{port}', fields: 70, value: 8}}\n  competitor:\n    \
             start: [sh, -c, 'while :; do :; done']\n    promise: leftovers\n"
        );
        fs::write(&file, site).map_err(Error::machine)?;
        let log = File::create(out.join("giusto.log")).map_err(Error::machine)?;
        let mut command = Command::new(&program);
        let (length, seed) = (format!("{}ns", size.length.ns()), (size.seed + set).to_string());
        command.arg("run").arg(&file).args([
            "--trial",
            "--json",
            "--host",
            "here",
            "--at-most",
            &length,
            "--seed",
            &seed,
        ]);
        let done = command.arg("--out").arg(&out).stdin(Stdio::null()).stderr(log).output().map_err(Error::machine)?;
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        let log = out.join("giusto.log");
        let see = last_line(&log);
        match done.status.code() {
            Some(code) if JUDGED.contains(&code) && !said.is_empty() => {}
            code => return Err(refused(code, see)),
        }
        let told: Vec<Told> = serde_json::from_str(&said).map_err(|why| Error::machine(format!("{why}; {see}")))?;
        let Some(Told { comparison }) = told.into_iter().next() else { return Err(Error::machine(see)) };
        let Some(floor) = &comparison.floor else { return Err(Error::Lacks(format!("a quieter machine; {see}"))) };
        let median = |arm: &str| {
            comparison.rows.iter().find(|row| row.arm == arm).and_then(|row| row.percentiles.first()?.value_ns)
        };
        let whole = median("whole").unwrap_or(0);
        let us = |ns: f64| format!("{:.3}", ns / 1e3);
        let arms = [
            ("whole", "whole", Some(floor.median_ns)),
            ("giusto", "giusto", comparison.distance_giusto_ns.map(|one| one.value)),
            ("no-plan", "unprotected", comparison.distance_unprotected_ns.map(|one| one.value)),
        ];
        for (arm, row, distance) in arms {
            let Some(distance) = distance else { return Err(Error::Lacks(format!("a quieter machine; {see}"))) };
            let jobs = comparison.rows.iter().find(|one| one.arm == row);
            let numbers =
                [distance, floor.median_ns, floor.upper_ns, comparison.limit_ns.unwrap_or(0.0), whole as f64].map(us);
            let words = [set.to_string(), arm.to_string()];
            let jobs = jobs.map_or(0, |row| row.jobs).to_string();
            tenants.push([&words[..], &numbers, &[jobs]].concat());
        }
        for row in &comparison.rows {
            for Percentile { p, value_ns } in &row.percentiles {
                let value = value_ns.map_or(String::new(), |ns| us(ns as f64));
                percentiles.push(vec![set.to_string(), row.arm.clone(), p.to_string(), value]);
            }
        }
        played(size.sets);
    }
    Ok(named(vec![
        (
            "tenants",
            table(vec!["set", "arm", "w1_us", "floor_us", "floor_upper_us", "limit_us", "median_us", "jobs"], &tenants),
        ),
        ("percentiles", table(vec!["set", "arm", "percentile", "response_us"], &percentiles)),
    ]))
}
