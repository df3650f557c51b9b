//! Job records: what `simulate` and `measure` write and `verify` reads, as CSV (`formats/README.md`).

use crate::{Duration, Instant};
use std::fmt;
use std::io::{self, BufRead, Write};

/// First line of a job file.
pub const JOBS_HEADER: &str = "task,job,due_ns,release_ns,finish_ns";

/// One job. All instants are of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// Index of the task, copies counted one by one.
    pub task: u32,
    /// Number of the job within its task, from 0.
    pub job: u64,
    /// When the workload said it should come.
    pub due: Instant,
    /// When it came: the stamp before the request was sent. Response time counts from here.
    pub release: Instant,
    /// When it was done: the stamp after the reply; `None` if it never was.
    pub finish: Option<Instant>,
}

impl JobRecord {
    /// Response time in nanoseconds; `None` for a job that never finished.
    pub fn response_ns(&self) -> Option<u64> {
        self.finish.and_then(|f| f.since(self.release)).map(|d| d.ns())
    }
}

/// How unevenly the sender of jobs kept its schedule.
///
/// Response times count from the release, so a sender that stalls holds back just the requests that a stall of the whole
/// machine would have hurt, and sends them into an idle service later: a machine that stood still for seconds then shows
/// fine percentiles. Lateness that is the same for all jobs does no harm, it only moves the schedule; what exceeds the
/// median is a sender that stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// Mean lateness (release − due) less median lateness; 0 if the median is larger.
    pub excess: Duration,
    /// The most that it may be: a tenth of the median response time.
    pub limit: Duration,
}

impl Lateness {
    /// That of `jobs`, by nearest rank; a job that never finished is slower than any. Jobs without a due time of their own
    /// (due = release) are never late. O(n log n).
    pub fn of(jobs: &[JobRecord]) -> Lateness {
        let median = |mut values: Vec<u64>| {
            values.sort_unstable();
            values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0)
        };
        let late: Vec<u64> = jobs.iter().map(|j| j.release.since(j.due).map_or(0, Duration::ns)).collect();
        let sum: u128 = late.iter().map(|&ns| u128::from(ns)).sum();
        let mean = (sum / late.len().max(1) as u128) as u64; // at most the largest
        let response = median(jobs.iter().map(|j| j.response_ns().unwrap_or(u64::MAX)).collect());
        let excess = mean.saturating_sub(median(late));
        Lateness { excess: Duration::from_ns(excess), limit: Duration::from_ns(response / 10) }
    }

    /// Whether the sender stalled: then the jobs are no measurement of the service.
    pub fn is_stall(self) -> bool {
        self.excess > self.limit
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lateness { excess, limit } = self;
        write!(
            f,
            "its mean lateness exceeds its median lateness by {excess}, limit {limit} (10 % of the median response)"
        )
    }
}

/// Why a job file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The reader failed.
    #[error("cannot read job records: {0}")]
    Io(#[from] io::Error),
    /// A line makes no sense.
    #[error(
        "line {line}: {found}; expected {JOBS_HEADER}, whole numbers, finish_ns empty for a job that never finished"
    )]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        found: String,
    },
}

/// Writes job records one by one; the header comes first.
pub struct JobWriter<W: Write>(W);

impl<W: Write> JobWriter<W> {
    /// Starts a file. Wrap slow writers in a `BufWriter`.
    pub fn new(mut to: W) -> io::Result<Self> {
        writeln!(to, "{JOBS_HEADER}")?;
        Ok(JobWriter(to))
    }
    /// Appends one record.
    pub fn write(&mut self, job: &JobRecord) -> io::Result<()> {
        let JobRecord { task, job, due, release, finish } = *job;
        let finish = finish.map(|f| f.ns().to_string()).unwrap_or_default();
        writeln!(self.0, "{task},{job},{},{},{finish}", due.ns(), release.ns())
    }
    /// Flushes and hands the writer back.
    pub fn finish(mut self) -> io::Result<W> {
        self.0.flush()?;
        Ok(self.0)
    }
}

/// Writes all `jobs`.
pub fn write_jobs<W: Write>(to: W, jobs: &[JobRecord]) -> io::Result<()> {
    let mut writer = JobWriter::new(to)?;
    jobs.iter().try_for_each(|job| writer.write(job))?;
    writer.finish().map(drop)
}

/// Reads all records. O(n) time and memory.
pub fn read_jobs(from: impl BufRead) -> Result<Vec<JobRecord>, JobError> {
    let mut jobs = Vec::new();
    let mut header = false;
    for (index, text) in from.lines().enumerate() {
        let text = text?;
        let bad = |found: String| JobError::Line { line: index + 1, found };
        if !header {
            if text.trim() != JOBS_HEADER {
                return Err(bad(format!("'{text}' is not the header")));
            }
            header = true;
            continue;
        }
        let fields: Vec<&str> = text.trim().split(',').collect();
        let &[task, job, due, release, finish] = fields.as_slice() else {
            return Err(bad(format!("{} fields", fields.len())));
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| bad(format!("'{text}' is not a whole number")));
        let record = JobRecord {
            task: u32::try_from(number(task)?).map_err(|_| bad(format!("'{task}' is too large")))?,
            job: number(job)?,
            due: Instant::from_ns(number(due)?),
            release: Instant::from_ns(number(release)?),
            finish: if finish.is_empty() { None } else { Some(Instant::from_ns(number(finish)?)) },
        };
        if record.finish.is_some_and(|f| f < record.release) {
            return Err(bad(format!("the job finishes at {finish}, before its release at {release}")));
        }
        jobs.push(record);
    }
    if header {
        Ok(jobs)
    } else {
        Err(JobError::Line { line: 1, found: "the file is empty".into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `n` jobs every 166 us (six clients of 1 ms) with a response of 250 us, sent late by `late(n)`.
    fn sent(n: u64, late: impl Fn(u64) -> u64) -> Vec<JobRecord> {
        let job = |job: u64| {
            let (due, release) = (job * 166_667, job * 166_667 + late(job));
            let [due, release, finish] = [due, release, release + 250_000].map(Instant::from_ns);
            JobRecord { task: 0, job, due, release, finish: Some(finish) }
        };
        (0..n).map(job).collect()
    }

    #[test]
    fn one_stall_of_the_sender_shows_and_its_daily_jitter_does_not() {
        // 51 ms of 8 s: the jobs due in it leave together at its end.
        let (from, to) = (4_000_000_000, 4_051_000_000);
        let stalled = Lateness::of(&sent(48_000, |n| match n * 166_667 {
            due if (from..to).contains(&due) => to - due,
            due => 20_000 + due % 7 * 3_000,
        }));
        assert!(stalled.is_stall() && stalled.excess > Duration::from_us(100), "{stalled}");
        assert_eq!(stalled.limit, Duration::from_us(25));
        let jitter = Lateness::of(&sent(48_000, |n| 20_000 + n * 7919 % 130_000));
        assert!(!jitter.is_stall(), "{jitter}");
        // A sender stopped for 2 of 5 s.
        assert!(Lateness::of(&sent(30_000, |n| 2_000_000_000u64.saturating_sub(n * 166_667))).is_stall());
    }

    #[test]
    fn jobs_without_a_due_time_that_all_are_late_alike_or_that_are_none_are_no_stall() {
        for late in [0, 1_000_000_000] {
            assert_eq!(Lateness::of(&sent(100, |_| late)).excess, Duration::ZERO);
        }
        assert!(!Lateness::of(&[]).is_stall());
    }

    #[test]
    fn records_round_trip_and_bad_lines_are_named() {
        let at = Instant::from_ns;
        let jobs = [
            JobRecord { task: 0, job: 0, due: at(5), release: at(6), finish: Some(at(9)) },
            JobRecord { task: 1, job: 7, due: at(8), release: at(8), finish: None },
        ];
        let mut file = Vec::new();
        write_jobs(&mut file, &jobs).unwrap();
        assert_eq!(read_jobs(&file[..]).unwrap(), jobs);
        for (text, line) in [("", 1), ("task,job\n", 1), ("1,2,3\n", 2), ("1,2,3,4,x\n", 2), ("0,0,0,9,8\n", 2)] {
            let file = if line == 2 { format!("{JOBS_HEADER}\n{text}") } else { text.to_string() };
            match read_jobs(file.as_bytes()) {
                Err(JobError::Line { line: found, .. }) => assert_eq!(found, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
