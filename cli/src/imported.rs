//! What all that is imported becomes: names of a site, and job records.

use crate::args::ImportArgs;
use crate::failure::{create, Failure};
use crate::table::say;
use giusto_model::{write_jobs, JobRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

/// Longest name of a task in a site, in characters.
const LONGEST_NAME: usize = 64;

/// Names as a site allows them, in their order: each once.
pub(crate) fn names<'a>(of: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let mut name = |of: &str| {
        let text = of.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
        let text = text.trim_start_matches('-');
        let text = if text.is_empty() { "task" } else { &text[..text.len().min(LONGEST_NAME)] };
        let number = seen.entry(text.into()).or_default();
        loop {
            *number += 1;
            let end = if *number > 1 { format!("-{number}") } else { String::new() };
            let name = text[..text.len().min(LONGEST_NAME - end.len())].to_string() + &end;
            if taken.insert(name.clone()) {
                return name;
            }
        }
    };
    of.map(&mut name).collect()
}

/// Writes the job records where they were asked for, if there are any.
pub(crate) fn save(args: &ImportArgs, jobs: &[JobRecord]) -> Result<(), Failure> {
    let Some(path) = args.out.as_ref().filter(|_| !jobs.is_empty()) else { return Ok(()) };
    let broken = |error| Failure::running(format!("cannot write {}: {error}", path.display()));
    write_jobs(create(path)?, jobs).map_err(broken)
}

/// Says where the records are, or that there is none.
pub(crate) fn told(args: &ImportArgs, jobs: usize) -> Result<ExitCode, Failure> {
    if jobs == 0 {
        return Err(Failure::cannot_tell(format!(
            "{}: no job in it is complete, so nothing is known and no file was written; record for longer, where events were \
             lost with larger buffers",
            args.file.display()
        )));
    }
    if let Some(path) = args.out.as_ref().filter(|_| !args.json) {
        say!("job records: {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}
