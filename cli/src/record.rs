//! `giusto record`: what the giusto that runs on this host saw, as traces for Perfetto.

use crate::args::RecordArgs;
use crate::failure::Failure;
use crate::running::unexpected;
use crate::table::{say, time};
use crate::tell::tell;
use giusto_daemon::{write_trace, Answer, Drawn, RecordWish, RecordedLate, Recording, Recordings};
use serde::Serialize;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What `--json` prints of a trace.
#[derive(Serialize)]
struct Written<'r> {
    file: PathBuf,
    from_ns: u64,
    until_ns: u64,
    late: &'r Option<RecordedLate>,
    runs: usize,
    jobs: usize,
    late_jobs: usize,
    lost: u64,
}

/// `giusto record`
pub(crate) fn record(args: &RecordArgs) -> Result<ExitCode, Failure> {
    let wish = match &args.late {
        None => RecordWish { span_ns: args.length.ns(), late: None, service: None },
        Some(service) => RecordWish { span_ns: args.around.ns(), late: Some(args.count), service: service.clone() },
    };
    let default = if wish.late.is_some() { "out/late" } else { "out/trace.json" };
    let out = args.out.clone().unwrap_or_else(|| default.into());
    let mut recordings = Recordings::ask(wish)?;
    if !args.json {
        match &args.late {
            None => tell(format_args!("recording for {:.3} ...", args.length)),
            Some(_) => tell(format_args!("waiting for late jobs; Ctrl-C ends it ...")),
        }
    }
    let mut many = 0;
    while let Some(answer) = recordings.next_answer()? {
        let Answer::Recording(recording) = answer else { return Err(unexpected(answer)) };
        let file = match &recording.late {
            Some(late) => out.join(named(late, recording.unix_ns)),
            None => out.clone(),
        };
        let drawn = write(&recording, &file)?;
        show(&recording, drawn, file, args.json)?;
        many += 1;
    }
    match many {
        0 => Err(Failure::running("giusto has ended, and nothing was recorded")),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn write(recording: &Recording, file: &Path) -> Result<Drawn, Failure> {
    let cannot = |why: std::io::Error| Failure::running(format!("cannot write {}: {why}", file.display()));
    file.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(cannot)?;
    let to = BufWriter::new(File::create(file).map_err(cannot)?);
    Ok(write_trace(recording, to).map_err(cannot)?.1)
}

fn show(recording: &Recording, drawn: Drawn, file: PathBuf, is_json: bool) -> Result<(), Failure> {
    let Recording { from_ns, until_ns, late, lost, cores, .. } = recording;
    let (from_ns, until_ns, lost) = (*from_ns, *until_ns, *lost);
    if is_json {
        let Drawn { runs, jobs, late: late_jobs, .. } = drawn;
        let written = Written { file, from_ns, until_ns, late, runs, jobs, late_jobs, lost };
        say!("{}", serde_json::to_string(&written).map_err(Failure::running)?);
        return Ok(());
    }
    let (length, many, cores) = (time(until_ns - from_ns), drawn.runs, cores.len());
    let jobs = format!("requests and jobs: {}, late: {}", drawn.jobs, drawn.late);
    let cores = if cores == 1 { "a core".into() } else { format!("{cores} cores") };
    say!("{}: {length} of {cores}, times that a thread had one: {many}, {jobs}", file.display());
    if let Some(RecordedLate { service, from_ns, to_ns }) = late {
        say!("  around one of {service} that took {}", time(to_ns - from_ns));
    }
    if lost > 0 {
        say!("  {lost} events are missing: more came at once than there was room for");
    }
    if drawn.without_row > 0 {
        say!("  {} of the requests and jobs are not drawn: too many at once", drawn.without_row);
    }
    say!("  open it at https://ui.perfetto.dev");
    Ok(())
}

/// `cache-20261129T201512.123Z.json`: by when the job ended.
fn named(late: &RecordedLate, unix_ns: u64) -> String {
    let at_ms = (late.to_ns + unix_ns) / 1_000_000;
    let (days, ms) = (at_ms / 86_400_000, at_ms % 86_400_000);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    let ms = ms % 1_000;
    let service = late.service.replace('/', "_");
    format!("{service}-{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{ms:03}Z.json")
}

/// Year, month and day of a day since 1970-01-01: years that begin in March, of which 400 have 146,097 days.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_named_by_service_and_time() {
        let late = RecordedLate { service: "a/b".into(), from_ns: 0, to_ns: 5_000_000 };
        assert_eq!(named(&late, 1_796_000_000_118_000_000), "a_b-20261130T005320.123Z.json");
        for (days, expected) in
            [(0, (1970, 1, 1)), (59, (1970, 3, 1)), (11_016, (2000, 2, 29)), (19_722, (2023, 12, 31))]
        {
            assert_eq!(date(days), expected);
        }
    }
}
