//! `giusto-studies STUDY SIZE`: plays a study, writes its tables, judges its claims. Exit code 0: none fails but those
//! known to differ; 1: one fails; 2: bad input; 4: could not be played; 77: left out, since this machine lacks what it measures.

use clap::Parser;
use giusto_studies::{run, Error, Name, Size};
use giusto_verify::study::{failures, figures, findings, judge, Study, Table};
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Plays a published experiment again and judges its claims. Run it from the root of the repository.
///
/// Example: cargo run --release --locked -p giusto-studies -- csa-period quick
#[derive(Parser)]
struct Args {
    /// Folder in studies/.
    study: Name,
    /// A size of its study.toml.
    #[arg(default_value = "full")]
    size: String,
    /// Where the tables go, in a folder of the study's name.
    #[arg(long, default_value = "out")]
    out: PathBuf,
}

fn main() -> ExitCode {
    match play(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err((code, why)) => {
            eprintln!("giusto-studies: {why}");
            ExitCode::from(code)
        }
    }
}

/// Whether no claim fails.
fn play(args: &Args) -> Result<bool, (u8, String)> {
    let file = Path::new("studies").join(args.study.folder()).join("study.toml");
    let input = |why: &dyn std::fmt::Display| (2, format!("{}: {why}", file.display()));
    let study = Study::read(&fs::read_to_string(&file).map_err(|why| input(&why))?).map_err(|why| input(&why))?;
    let numbers = study.size.get(&args.size).ok_or_else(|| {
        let known: Vec<&String> = study.size.keys().collect();
        input(&format!("no size '{}'; expected one of {known:?}", args.size))
    })?;
    let size = Size::read(numbers, study.seed).map_err(|why| input(&why))?;
    println!("{}: {} sets a case, {} each, seed {}", study.title, size.sets, size.length, size.seed);
    let bar = ProgressBar::new(0);
    let played = |all: u64| {
        bar.set_length(all);
        bar.inc(1);
    };
    let failed = |why: Error| (if matches!(why, Error::Lacks(_)) { 77 } else { 4 }, why.to_string());
    let folder = args.out.join(args.study.folder());
    let csv = run(args.study, size, &folder, &played).map_err(failed)?;
    bar.finish_and_clear();
    let write = |file: String, text: &str| {
        let path = folder.join(file);
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|why| (4, format!("{}: {why}", path.display())))
    };
    csv.iter().try_for_each(|(name, text)| write(format!("{name}.csv"), text))?;
    let read = csv.iter().map(|(name, text)| Ok((name.clone(), Table::read(name, text)?)));
    let tables = read.collect::<Result<BTreeMap<_, _>, Error>>().map_err(failed)?;
    let judgements = judge(&study, &tables).map_err(|why| input(&why))?;
    print!("{}", findings(&study, &judgements));
    let drawings = figures(&study, &tables).map_err(|why| input(&why))?;
    drawings.iter().try_for_each(|(name, svg)| write(format!("{name}.svg"), svg))?;
    println!("tables and figures in {}", folder.display());
    Ok(failures(&study, &judgements).is_empty())
}
