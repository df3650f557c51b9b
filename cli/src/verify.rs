//! `giusto verify`.

use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::table::json;
use giusto_verify::{Arms, Sample};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

/// Judges one job file against another; with more runs of the reference there is a noise floor, hence a verdict.
pub(crate) fn verify(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let mut whole = vec![sample(&args.reference)?];
    for path in &args.baseline {
        whole.push(sample(path)?);
    }
    let arms = Arms { whole, unprotected: vec![], giusto: vec![sample(&args.measured)?], predicted: None };
    let comparison = giusto_verify::compare(&arms, args.seed);
    if args.json {
        json(&comparison)?;
    } else {
        print!("{}", giusto_verify::table(&comparison, ""));
    }
    Ok(ExitCode::from(comparison.verdict.exit_code()))
}

fn sample(path: &Path) -> Result<Sample, Failure> {
    let file = File::open(path).map_err(|error| Failure::input(format!("cannot read {}: {error}", path.display())))?;
    let jobs = giusto_model::read_jobs(BufReader::new(file))
        .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
    Ok(Sample::new(&jobs))
}
