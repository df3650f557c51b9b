//! A log of rt-app (its doc/tutorial.txt, "Log and gnuplot"): a row for each time that a thread went through its phase, in us.
//!
//! A row is from the start of the events to the timer that ends the phase. `slack` is what was left then before the timer was due, and
//! `wu_lat` how late the thread was awake after it. So the work was done at `end - wu_lat - slack`, and the next job was due
//! at `end - wu_lat`. Where the work took longer than the period (slack < 0) there was nothing to wait for: it was done at `end`, and a
//! relative timer, which is what rt-app has unless told otherwise, makes the next job due then.

use crate::Error;
use giusto_model::{Instant, JobRecord};
use std::collections::BTreeMap;
use std::io::BufRead;

const EXPECTED: &str =
    "a log of rt-app: a line that begins with #idx and names the columns, then whole numbers below it";
/// The columns that are used.
const COLUMNS: [&str; 7] = ["idx", "period", "start", "end", "slack", "wu_lat", "c_period"];
/// By how much `period` may differ from `end - start`, in us: each is rounded.
const ROUNDED: i64 = 2;

/// Reads a log, of a phase with one timer and without `cumulative_slack`: its jobs, by thread (`idx`). A job's response time is from when
/// it was due to when its work was done.
///
/// # Errors
/// [`Error::Line`] for a row that is none. O(size).
pub fn read_log(from: impl BufRead) -> Result<Vec<JobRecord>, Error> {
    let mut columns: Option<[usize; 7]> = None;
    // The next job of each thread: its number, and when it is due if that is known.
    let mut next: BTreeMap<u32, (u64, i64)> = BTreeMap::new();
    let mut jobs = Vec::new();
    for (index, text) in from.split(b'\n').enumerate() {
        let text = text?;
        let text = String::from_utf8_lossy(&text);
        let bad = |found: String| Error::Line { line: index + 1, found, expected: EXPECTED };
        if let Some(names) = text.trim_start().strip_prefix('#') {
            if names.trim_start().starts_with("idx") {
                columns = Some(places(names).map_err(bad)?);
            }
            continue;
        }
        let cells: Vec<&str> = text.split_whitespace().collect();
        if cells.is_empty() {
            continue;
        }
        let Some(places) = columns else { return Err(bad("no line names the columns".into())) };
        let cell = |at: usize| {
            let text = cells.get(places[at]).ok_or_else(|| bad(format!("'{}' is missing", COLUMNS[at])))?;
            let number = text.parse::<i64>().ok().filter(|us| us.unsigned_abs() < 1 << 50);
            number.ok_or_else(|| bad(format!("'{text}' is no {}", COLUMNS[at])))
        };
        let [idx, period, start, end, slack, late] = [cell(0)?, cell(1)?, cell(2)?, cell(3)?, cell(4)?, cell(5)?];
        let thread = u32::try_from(idx).map_err(|_| bad(format!("'{idx}' is no idx")))?;
        if (end - start - period).abs() > ROUNDED {
            return Err(bad(format!("from start to end are {} us, and period says {period}", end - start)));
        }
        if cell(6)? == 0 {
            return Err(bad("c_period is 0, so the phase has no timer, and when its work was due is unknown".into()));
        }
        let timer = end - late.max(0);
        let (done, after) = if slack < 0 { (end, end) } else { (timer - slack, timer) };
        let (job, due) = next.get(&thread).copied().unwrap_or((0, start));
        let due = due.min(start);
        let done = if done < due && due - done <= ROUNDED { due } else { done };
        if due < 0 || done < due {
            return Err(bad(format!("the work is done at {done} us and was due at {due}")));
        }
        next.insert(thread, (job + 1, after));
        let [due, done] = [due, done].map(|us| Instant::from_ns(us as u64 * 1000));
        jobs.push(JobRecord { task: thread, job, due, release: due, finish: Some(done) });
    }
    match columns {
        Some(_) => Ok(jobs),
        None => Err(Error::Line { line: 1, found: "no line names the columns".into(), expected: EXPECTED }),
    }
}

fn places(names: &str) -> Result<[usize; 7], String> {
    let names: Vec<&str> = names.split_whitespace().collect();
    let mut places = [0; 7];
    for (place, wanted) in places.iter_mut().zip(COLUMNS) {
        *place =
            names.iter().position(|name| *name == wanted).ok_or_else(|| format!("there is no column '{wanted}'"))?;
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# Policy : SCHED_OTHER priority : 0\n#idx     perf      run   period           start             end          rel_st      slack c_duration   c_period     wu_lat\n";

    #[test]
    fn jobs_of_a_thread_that_keeps_its_period_and_is_late_once() {
        // By hand: period 100, work 20 from 1000, due again at 1100; awake 5 late, work until 1130, due at 1200; then 150 of
        // work until 1360, too long: due at once.
        let log = format!("{HEAD}0 9 20 105 1000 1105 0 80 20 100 5\n0 9 20 100 1106 1206 106 70 20 100 6\n\n0 9 150 153 1207 1360 207 -60 20 100 0\n0 9 20 100 1361 1461 361 70 20 100 1\n");
        let jobs = read_log(log.as_bytes()).unwrap();
        let times: Vec<(u64, u64)> =
            jobs.iter().map(|job| (job.release.ns() / 1000, job.finish.unwrap().ns() / 1000)).collect();
        assert_eq!(times, [(1000, 1020), (1100, 1130), (1200, 1360), (1360, 1390)]);
        assert_eq!(jobs.iter().map(|job| job.job).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn rows_that_make_no_sense_are_named_with_their_line() {
        let row = "0 9 20 105 1000 1105 0 80 20 100 5";
        for (text, line, word) in [
            (String::new(), 1, "columns"),
            (row.to_string(), 1, "columns"),
            ("#idx perf\n".to_string(), 1, "'period'"),
            (format!("{HEAD}{row}\n0 9 20 105 1000\n"), 4, "'end' is missing"),
            (format!("{HEAD}0 9 20 105 x 1105 0 80 20 100 5"), 3, "'x' is no start"),
            (format!("{HEAD}0 9 20 99000 1000 1105 0 80 20 100 5"), 3, "period says 99000"),
            (format!("{HEAD}-1 9 20 105 1000 1105 0 80 20 100 5"), 3, "'-1' is no idx"),
        ] {
            match read_log(text.as_bytes()) {
                Err(Error::Line { line: at, found, .. }) => {
                    assert!(at == line && found.contains(word), "{text}: {at}: {found}")
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
