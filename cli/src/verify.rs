//! `giusto verify`.

use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::table::json;
use giusto_verify::{Arms, Sample};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

/// Compares two job files; with more runs of the reference there is a noise floor, hence a verdict.
pub(crate) fn verify(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let (reference, measured) = (sample(&args.reference)?, sample(&args.measured)?);
    if args.baseline.is_empty() {
        let two = giusto_verify::compare_two(&reference, &measured, args.seed).map_err(Failure::input)?;
        if args.json {
            return json(&two);
        }
        print!("{}", giusto_verify::table_two(&two, ["reference", "measured"]));
        println!("no verdict: a noise floor needs more runs of the reference (--baseline FILE)");
        return Ok(ExitCode::SUCCESS);
    }
    let mut whole = vec![reference];
    for path in &args.baseline {
        whole.push(sample(path)?);
    }
    let arms = Arms { whole, giusto: vec![measured], ..Arms::default() };
    let comparison = giusto_verify::compare(&arms, args.seed).map_err(Failure::input)?;
    if args.json {
        json(&comparison)?;
    } else {
        print!("{}", giusto_verify::table(&comparison, ""));
        println!("{}", comparison.why);
    }
    Ok(ExitCode::from(comparison.verdict.exit_code()))
}

fn sample(path: &Path) -> Result<Sample, Failure> {
    let named = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(|error| named(&error))?;
    let jobs = giusto_model::read_jobs(BufReader::new(file)).map_err(|error| named(&error))?;
    Sample::from_jobs(&jobs).map_err(|error| named(&error))
}
