//! A study from its `study.toml` to the verdict on its claims: what `giusto study` does.

use crate::experiments::run;
use crate::{Error, Name, Size};
use giusto_verify::study::{failures, figures, judge, Drawn, Finding, Judgement, Study, Table};
use giusto_verify::Verdict;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A study that was played and judged.
#[derive(Debug)]
pub struct Played {
    /// What is claimed.
    pub study: Study,
    /// How much was played.
    pub size: Size,
    /// Where tables and figures were written.
    pub folder: PathBuf,
    /// The tables, by name.
    pub tables: BTreeMap<String, Table>,
    /// The claims, judged on them.
    pub judgements: Vec<Judgement>,
    /// Its drawings.
    pub figures: Vec<Drawn>,
}

/// Reads the `study.toml` of `name` in the folder `studies`.
///
/// # Errors
/// [`Error::File`] with the path, where there is none or where it is not one.
pub fn read(name: Name, studies: &Path) -> Result<Study, Error> {
    let file = studies.join(name.folder()).join("study.toml");
    let text = fs::read_to_string(&file).map_err(|why| Error::File { file: file.clone(), why: why.to_string() })?;
    Study::read(&text).map_err(|why| Error::File { file, why: why.to_string() })
}

/// Plays `study` in one of its sizes, writes its tables (CSV) and figures (SVG) into `out`, in a folder of its name, and judges its
/// claims. `played` is called after each set, with how many there are in all.
///
/// # Errors
/// See [`run`]; a size that the study does not have; what cannot be written or judged.
pub fn play(name: Name, study: Study, size: &str, out: &Path, played: &(dyn Fn(u64) + Sync)) -> Result<Played, Error> {
    let numbers = study.size.get(size).ok_or_else(|| {
        let known: Vec<&str> = study.size.keys().map(String::as_str).collect();
        Error::Size(format!("'{size}' is none of {}", known.join(", ")))
    })?;
    let size = Size::read(numbers, study.seed)?;
    let folder = out.join(name.folder());
    // Before anything is played: that takes minutes, and all of it would be lost.
    fs::create_dir_all(&folder).map_err(|why| Error::Write { file: folder.clone(), why })?;
    let csv = run(name, size, &folder, played)?;
    let write = |file: String, text: &str| {
        let file = folder.join(file);
        fs::write(&file, text).map_err(|why| Error::Write { file, why })
    };
    csv.iter().try_for_each(|(name, text)| write(format!("{name}.csv"), text))?;
    let tables = csv.iter().map(|(name, text)| Ok((name.clone(), Table::read(name, text)?)));
    let tables = tables.collect::<Result<BTreeMap<_, _>, Error>>()?;
    let judgements = judge(&study, &tables)?;
    let figures = figures(&study, &tables)?;
    figures.iter().try_for_each(|figure| write(format!("{}.svg", figure.name), &figure.svg))?;
    Ok(Played { study, size, folder, tables, judgements, figures })
}

impl Played {
    /// Missed if a claim fails that is not known to differ; cannot tell if none does but one of these cannot be told; else kept.
    pub fn verdict(&self) -> Verdict {
        let open = |judgement: &Judgement| {
            judgement.finding == Finding::CannotTell && self.study.claim[judgement.claim].differs.is_none()
        };
        if !failures(&self.study, &self.judgements).is_empty() {
            Verdict::Missed
        } else if self.judgements.iter().any(open) {
            Verdict::CannotTell
        } else {
            Verdict::Kept
        }
    }
}
