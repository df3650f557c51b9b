//! `giusto verify`.

use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::table::{json, print, say};
use giusto_model::JobRecord;
use giusto_verify::{Arms, Sample};
use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;

/// Compares two job files; with more runs of the reference there is a noise floor, hence a verdict. Or judges percentiles.
pub(crate) fn verify(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let mut runs: Vec<(String, Vec<JobRecord>)> = Vec::new();
    let mut samples = Vec::new();
    for path in std::iter::once(&args.reference).chain(&args.measured).chain(&args.baseline) {
        let name = path.display().to_string();
        let named = |error: &dyn std::fmt::Display| Failure::input(format!("{name}: {error}"));
        let file = File::open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => named(
                &"there is no such file; expected the recording of a run (a trial has none of runs that it voided)",
            ),
            _ => named(&error),
        })?;
        let jobs = giusto_model::read_jobs(BufReader::new(file)).map_err(|error| named(&error))?;
        samples.push(Sample::from_jobs(&jobs).map_err(|error| named(&error))?);
        runs.push((name, jobs));
    }
    giusto_verify::distinct(&runs).map_err(Failure::input)?;
    if !args.promise.is_empty() {
        let kept = giusto_verify::kept(&args.promise, &samples, args.seed).map_err(Failure::input)?;
        if args.json {
            json(&kept)?;
        } else {
            print(&giusto_verify::table_kept(&kept, &[], "measured"))?;
            say!("{}", kept.why);
        }
        return Ok(ExitCode::from(kept.verdict.exit_code()));
    }
    let measured = samples.remove(1);
    if args.baseline.is_empty() {
        let two = giusto_verify::compare_two(&samples[0], &measured, args.seed).map_err(Failure::input)?;
        if args.json {
            return json(&two);
        }
        print(&giusto_verify::table_two(&two, ["reference", "measured"]))?;
        say!("no verdict: a noise floor needs more runs of the reference (--baseline FILE, twice)");
        return Ok(ExitCode::SUCCESS);
    }
    let comparison = giusto_verify::compare(&Arms::of_files(&samples, &measured), args.seed).map_err(Failure::input)?;
    if args.json {
        json(&comparison)?;
    } else {
        print(&giusto_verify::table(&comparison, ""))?;
        say!("{}", comparison.why);
    }
    Ok(ExitCode::from(comparison.verdict.exit_code()))
}
