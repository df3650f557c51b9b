//! `giusto study`.

use crate::args::{Study, StudyListArgs, StudyRunArgs};
use crate::failure::{apart, Failure};
use crate::report::{line, origin, write};
use crate::table::{json, print, say, table};
use clap::ValueEnum;
use giusto_studies::{play, read, Error, Name, Played};
use giusto_verify::study::{findings, study_html, Judgement};
use giusto_verify::Verdict;
use indicatif::ProgressBar;
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;

/// Where they are, in a checkout of the source.
const STUDIES: &str = "studies";

/// Dispatches.
pub(crate) fn study(verb: &Study) -> Result<ExitCode, Failure> {
    if !Path::new(STUDIES).join(Name::CsaPeriod.folder()).exists() {
        return Err(Failure::lacks("there are no studies here: they come with Giusto's source, not with the package; expected the folder studies/ of a checkout: change to its root and try again"));
    }
    match verb {
        Study::List(args) => list(args),
        Study::Run(args) => run(args),
    }
}

/// A study as `list --json` has it (`formats/study.schema.json`).
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: String,
    reproduces: String,
    /// None: it is played in virtual time, anywhere.
    needs: Option<&'static str>,
}

fn list(args: &StudyListArgs) -> Result<ExitCode, Failure> {
    let listed = |&name: &Name| {
        let study = read(name, Path::new(STUDIES)).map_err(failure)?;
        Ok(Listed { name: name.folder(), title: study.title, reproduces: study.reproduces, needs: name.needs() })
    };
    let all = Name::value_variants().iter().map(listed).collect::<Result<Vec<_>, Failure>>()?;
    if args.json {
        return json(&all);
    }
    let mut rows = vec![["study", "what", "where", "needs"].map(String::from).to_vec()];
    for Listed { name, title, reproduces, needs } in all {
        rows.push(vec![name.into(), title, reproduces, needs.unwrap_or("").into()]);
    }
    print(&table(&rows, 4))?;
    Ok(ExitCode::SUCCESS)
}

/// A study as `run --json` has it.
#[derive(Serialize)]
struct Report<'a> {
    study: &'static str,
    title: &'a str,
    sets: u64,
    seconds: u64,
    seed: u64,
    claims: Vec<Claim<'a>>,
    verdict: Verdict,
    folder: &'a Path,
}

#[derive(Serialize)]
struct Claim<'a> {
    says: &'a str,
    source: &'a str,
    /// Why it is known to differ from the paper.
    differs: Option<&'a str>,
    judgements: Vec<&'a Judgement>,
}

fn run(args: &StudyRunArgs) -> Result<ExitCode, Failure> {
    let study = read(args.name, Path::new(STUDIES)).map_err(failure)?;
    let [source, folder] = [Path::new(STUDIES), &args.out].map(|root| root.join(args.name.folder()));
    apart(&[("--out", Some(&folder))], &[&source])?;
    let size = if args.quick { "quick" } else { "full" };
    let bar = ProgressBar::new(0);
    let progress = |all: u64| {
        bar.set_length(all);
        bar.inc(1);
    };
    let played = play(args.name, study, size, &args.out, &progress);
    bar.finish_and_clear();
    let played = played.map_err(failure)?;
    let verdict = played.verdict();
    let page = played.folder.join("report.html");
    if args.html {
        write(&page, &html(args, &played))?;
    }
    if args.json {
        json(&report(args.name, &played))?;
    } else {
        say!("{}: {}", played.study.title, played.size);
        print(&findings(&played.study, &played.judgements))?;
        say!("tables and figures in {}", played.folder.display());
        if args.html {
            say!("report: {}", page.display());
        }
    }
    Ok(ExitCode::from(verdict.exit_code()))
}

fn report(name: Name, played: &Played) -> Report<'_> {
    let Played { study, size, folder, judgements, .. } = played;
    Report {
        study: name.folder(),
        title: &study.title,
        sets: size.sets,
        seconds: size.length.ns() / 1_000_000_000,
        seed: size.seed,
        claims: (study.claim.iter().enumerate())
            .map(|(index, claim)| Claim {
                says: &claim.says,
                source: &claim.source,
                differs: claim.differs.as_deref(),
                judgements: judgements.iter().filter(|judgement| judgement.claim == index).collect(),
            })
            .collect(),
        verdict: played.verdict(),
        folder,
    }
}

fn html(args: &StudyRunArgs, played: &Played) -> String {
    let mut lines = vec![line("study", args.name.folder()), line("size", played.size)];
    lines.extend(args.name.needs().map(|needs| line("needs", needs)));
    lines.push(line("tables", played.folder.display()));
    lines.push(line(
        "statistics",
        "99 % intervals by 10,000 resamples of the sets, all rows of a set together; of fewer than 8 sets their range",
    ));
    lines.extend(origin());
    let Played { study, judgements, tables, figures, .. } = played;
    study_html(study, judgements, played.verdict(), tables, figures, &lines)
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Lacks(_) | Error::Ensemble(_) => Failure::lacks(error),
        Error::Size(_) | Error::File { .. } | Error::Claims(_) => Failure::input(error),
        Error::Measure(error) => error.into(),
        _ => Failure::running(error),
    }
}
