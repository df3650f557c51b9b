//! What happened, for those who want to see it: job records, and a schedule for ui.perfetto.dev.

use crate::system::Error;
use giusto_model::JobRecord;
use std::io::Write;

/// Is told everything, in the order of time.
pub trait Observer {
    /// A job of server `server` finished.
    fn job(&mut self, _server: usize, _job: &JobRecord) -> Result<(), Error> {
        Ok(())
    }
    /// Server `server` ran from `from` to `to`, with this job (task, number); `None` for one that is always ready.
    fn slice(&mut self, _server: usize, _job: Option<(u32, u64)>, _from: u64, _to: u64) -> Result<(), Error> {
        Ok(())
    }
    /// No server had `core` from `from` to `to`. Stretches that touch are not joined.
    fn idle(&mut self, _core: u32, _from: u64, _to: u64) -> Result<(), Error> {
        Ok(())
    }
}

/// The observer that records nothing.
pub struct Unobserved;

impl Observer for Unobserved {}

/// Job records to a function.
impl<F: FnMut(usize, &JobRecord)> Observer for F {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
        self(server, job);
        Ok(())
    }
}

/// Writes the schedule in the trace event format (JSON), which ui.perfetto.dev and chrome://tracing open: a process a server,
/// a track a task. Slices of one job that touch are one.
pub struct Trace<W: Write> {
    to: W,
    open: Option<Slice>,
    first: bool,
}

#[derive(Clone, Copy, PartialEq)]
struct Slice {
    server: usize,
    job: Option<(u32, u64)>,
    from: u64,
    to: u64,
}

impl<W: Write> Trace<W> {
    /// Starts a trace; `names` are the servers'.
    pub fn new(mut to: W, names: &[&str]) -> Result<Self, Error> {
        write!(to, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[").map_err(broken)?;
        let mut trace = Trace { to, open: None, first: true };
        for (server, name) in names.iter().enumerate() {
            let name: String = name.chars().filter(|c| !c.is_control() && *c != '"' && *c != '\\').collect();
            trace.event(&format!(
                "{{\"ph\":\"M\",\"pid\":{server},\"name\":\"process_name\",\"args\":{{\"name\":\"{name}\"}}}}"
            ))?;
        }
        Ok(trace)
    }

    /// Ends the file and hands the writer back.
    pub fn finish(mut self) -> Result<W, Error> {
        self.close()?;
        writeln!(self.to, "]}}").and_then(|()| self.to.flush()).map_err(broken)?;
        Ok(self.to)
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some(Slice { server, job, from, to }) = self.open.take() else { return Ok(()) };
        let (track, name) = match job {
            Some((task, number)) => (task + 1, format!("task {task} job {number}")),
            None => (0, "always ready".to_string()),
        };
        // Timestamps of the format are microseconds; decimals keep the ns.
        let (start, length) = (micros(from), micros(to - from));
        self.event(&format!(
            "{{\"ph\":\"X\",\"pid\":{server},\"tid\":{track},\"ts\":{start},\"dur\":{length},\"name\":\"{name}\"}}"
        ))
    }

    fn event(&mut self, json: &str) -> Result<(), Error> {
        let comma = if std::mem::take(&mut self.first) { "\n" } else { ",\n" };
        write!(self.to, "{comma}{json}").map_err(broken)
    }
}

impl<W: Write> Observer for Trace<W> {
    fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
        match &mut self.open {
            Some(open) if open.server == server && open.job == job && open.to == from => open.to = to,
            _ => {
                self.close()?;
                self.open = Some(Slice { server, job, from, to });
            }
        }
        Ok(())
    }
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn broken(error: std::io::Error) -> Error {
    Error::Write(error.to_string())
}
