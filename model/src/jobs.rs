//! Job records: what `simulate` and `measure` write and `verify` reads, as CSV (`formats/README.md`).

use crate::Instant;
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
