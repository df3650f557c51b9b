//! What happened, for those who want to see it: job records, and a schedule for ui.perfetto.dev.

use crate::shown::{Copy, Shown};
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
    /// A job of this task (copies count one by one) came.
    fn release(&mut self, _server: usize, _task: u32, _at: u64) -> Result<(), Error> {
        Ok(())
    }
    /// Whether it is told of budgets, which takes time.
    fn shows_budgets(&self) -> bool {
        false
    }
    /// So much is left of a server's budget, in ns; below 0 is debt. Told at each decision.
    fn budget(&mut self, _server: usize, _at: u64, _left: i64) -> Result<(), Error> {
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
/// a track a task copy with its jobs, releases and deadlines, and a counter for the budget. Slices of one job that touch are one.
pub struct Trace<W: Write> {
    to: W,
    open: Option<Slice>,
    is_first: bool,
    /// Processes of the plays before.
    before: usize,
    /// Of the servers of this play.
    copies: Vec<Vec<Copy>>,
    /// What was told of each one's budget last.
    left: Vec<Option<i64>>,
}

#[derive(Clone, Copy, PartialEq)]
struct Slice {
    server: usize,
    job: Option<(u32, u64)>,
    from: u64,
    to: u64,
}

impl<W: Write> Trace<W> {
    /// Starts a trace.
    pub fn new(mut to: W) -> Result<Self, Error> {
        write!(to, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[").map_err(broken)?;
        Ok(Trace { to, open: None, is_first: true, before: 0, copies: Vec::new(), left: Vec::new() })
    }

    /// What is told from now on is of these servers, in another play than before.
    pub fn play(&mut self, servers: &[Shown]) -> Result<(), Error> {
        self.close()?;
        self.before += self.copies.len();
        self.copies = servers.iter().map(Shown::copies).collect();
        self.left = vec![None; servers.len()];
        for (server, shown) in servers.iter().enumerate() {
            self.name("process_name", server, 0, shown.name)?;
            let copies = self.copies[server].clone();
            for (track, copy) in (1..).zip(&copies) {
                self.name("thread_name", server, track, &copy.name)?;
            }
        }
        Ok(())
    }

    fn name(&mut self, what: &str, server: usize, track: usize, name: &str) -> Result<(), Error> {
        let (process, name) = (self.before + server, text(name));
        let args = format!("\"args\":{{\"name\":\"{name}\"}}");
        self.event(&format!("{{\"ph\":\"M\",\"pid\":{process},\"tid\":{track},\"name\":\"{what}\",{args}}}"))
    }

    /// Ends the file and hands the writer back.
    pub fn finish(mut self) -> Result<W, Error> {
        self.close()?;
        writeln!(self.to, "]}}").and_then(|()| self.to.flush()).map_err(broken)?;
        Ok(self.to)
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some(Slice { server, job, from, to }) = self.open.take() else { return Ok(()) };
        let copy = |task: u32| self.copies.get(server).and_then(|copies| copies.get(task as usize));
        let (track, name) = match job {
            Some((task, number)) => {
                let task_name = copy(task).map_or(format!("task {task}"), |copy| text(&copy.name));
                (task + 1, format!("{task_name} job {number}"))
            }
            None => (0, "always ready".to_string()),
        };
        // Timestamps of the format are microseconds; decimals keep the ns.
        let (start, length, process) = (micros(from), micros(to - from), self.before + server);
        self.event(&format!(
            "{{\"ph\":\"X\",\"pid\":{process},\"tid\":{track},\"ts\":{start},\"dur\":{length},\"name\":\"{name}\"}}"
        ))
    }

    fn instant(&mut self, server: usize, task: u32, at: u64, name: &str) -> Result<(), Error> {
        let (process, track, at) = (self.before + server, task + 1, micros(at));
        self.event(&format!(
            "{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{process},\"tid\":{track},\"ts\":{at},\"name\":\"{name}\"}}"
        ))
    }

    fn event(&mut self, json: &str) -> Result<(), Error> {
        let comma = if std::mem::take(&mut self.is_first) { "\n" } else { ",\n" };
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

    fn release(&mut self, server: usize, task: u32, at: u64) -> Result<(), Error> {
        let copy = self.copies.get(server).and_then(|copies| copies.get(task as usize));
        let Some(deadline) = copy.map(|copy| at.saturating_add(copy.deadline.ns())) else { return Ok(()) };
        self.instant(server, task, at, "release")?;
        self.instant(server, task, deadline, "deadline")
    }

    fn shows_budgets(&self) -> bool {
        true
    }

    fn budget(&mut self, server: usize, at: u64, left: i64) -> Result<(), Error> {
        if self.left.get_mut(server).is_none_or(|last| last.replace(left) == Some(left)) {
            return Ok(());
        }
        let (process, at, left) = (self.before + server, micros(at), left.max(0) as f64 / 1e3);
        let args = format!("\"args\":{{\"us\":{left}}}");
        self.event(&format!("{{\"ph\":\"C\",\"pid\":{process},\"ts\":{at},\"name\":\"budget left\",{args}}}"))
    }
}

/// As a text of JSON.
fn text(name: &str) -> String {
    name.chars().filter(|c| !c.is_control() && *c != '"' && *c != '\\').collect()
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn broken(error: std::io::Error) -> Error {
    Error::Write(error.to_string())
}
