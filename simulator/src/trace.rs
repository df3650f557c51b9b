//! What happened, for those who want to see it: job records, and a schedule for ui.perfetto.dev.

use crate::shown::{Copy, Shown};
use crate::system::Error;
use giusto_model::JobRecord;
use giusto_traces::{TraceEvents, Track};
use serde_json::Value;
use std::io::Write;

/// The counter of a budget.
const BUDGET: (&str, &str) = ("budget left", "us");

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
    /// A message as of `task` took so long, in ns, at a waypoint between servers.
    fn passed(&mut self, _between: usize, _task: u32, _waypoint: usize, _took: u64) {}
    /// ... and came to its end there.
    fn left(&mut self, _between: usize, _task: u32, _at: u64) {}
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

/// Writes the schedule as a trace for ui.perfetto.dev ([`TraceEvents`]): a process a server, a track a task copy with its jobs,
/// releases and deadlines, and a counter for the budget. Slices of one job that touch are one.
pub struct Trace<W: Write> {
    to: TraceEvents<W>,
    open: Option<Slice>,
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
    pub fn new(to: W) -> Result<Self, Error> {
        let to = TraceEvents::new(to).map_err(broken)?;
        Ok(Trace { to, open: None, before: 0, copies: Vec::new(), left: Vec::new() })
    }

    /// What is told from now on is of these servers, in another play than before.
    pub fn play(&mut self, servers: &[Shown]) -> Result<(), Error> {
        self.close()?;
        self.before += self.copies.len();
        self.copies = servers.iter().map(Shown::copies).collect();
        self.left = vec![None; servers.len()];
        for (server, shown) in servers.iter().enumerate() {
            self.to.process(self.process(server), shown.name).map_err(broken)?;
            for (row, copy) in (1..).zip(&self.copies[server]) {
                let track = Track { process: self.process(server), row };
                self.to.track(track, &copy.name).map_err(broken)?;
            }
        }
        Ok(())
    }

    fn process(&self, server: usize) -> u32 {
        (self.before + server) as u32
    }

    /// Ends the file and hands the writer back.
    pub fn finish(mut self) -> Result<W, Error> {
        self.close()?;
        self.to.finish(&Default::default()).map_err(broken)
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some(Slice { server, job, from, to }) = self.open.take() else { return Ok(()) };
        let copy = |task: u32| self.copies.get(server).and_then(|copies| copies.get(task as usize));
        let (row, name) = match job {
            Some((task, number)) => {
                let task_name = copy(task).map_or(format!("task {task}"), |copy| copy.name.clone());
                (task + 1, format!("{task_name} job {number}"))
            }
            None => (0, "always ready".to_string()),
        };
        let track = Track { process: self.process(server), row };
        self.to.slice(track, &name, (from, to), &Value::Null).map_err(broken)
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
        let track = Track { process: self.process(server), row: task + 1 };
        self.to.instant(track, "release", at).map_err(broken)?;
        self.to.instant(track, "deadline", deadline).map_err(broken)
    }

    fn shows_budgets(&self) -> bool {
        true
    }

    fn budget(&mut self, server: usize, at: u64, left: i64) -> Result<(), Error> {
        if self.left.get_mut(server).is_none_or(|last| last.replace(left) == Some(left)) {
            return Ok(());
        }
        self.to.counter(self.process(server), BUDGET, at, left.max(0) as f64 / 1e3).map_err(broken)
    }
}

fn broken(error: std::io::Error) -> Error {
    Error::Write(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::Task;

    #[test]
    fn a_trace_has_jobs_releases_deadlines_and_budgets_under_their_names() {
        let mut task = "1ms/5ms".parse::<Task>().unwrap();
        task.name = "read".into();
        let mut trace = Trace::new(Vec::new()).unwrap();
        trace.play(&[Shown { name: "flight", tasks: &[task] }, Shown { name: "others", tasks: &[] }]).unwrap();
        trace.release(0, 0, 0).unwrap();
        trace.slice(0, Some((0, 1)), 0, 400).unwrap();
        trace.slice(0, Some((0, 1)), 400, 1_000).unwrap();
        trace.slice(1, None, 1_000, 2_000).unwrap();
        trace.budget(0, 0, 2_500).unwrap();
        trace.budget(0, 10, 2_500).unwrap();
        let read: Value = serde_json::from_slice(&trace.finish().unwrap()).unwrap();
        let of = |phase: &str| {
            let all = read["traceEvents"].as_array().unwrap().iter();
            all.filter(|event| event["ph"] == phase).cloned().collect::<Vec<_>>()
        };
        let slices: Vec<_> = of("X").iter().map(|one| (one["name"].clone(), one["dur"].clone())).collect();
        assert_eq!(slices, [("read job 1".into(), 1.0.into()), ("always ready".into(), 1.0.into())]);
        let instants: Vec<_> = of("i").iter().map(|one| (one["name"].clone(), one["ts"].clone())).collect();
        assert_eq!(instants, [("release".into(), 0.0.into()), ("deadline".into(), 5_000.0.into())]);
        assert_eq!(of("C").len(), 1, "a value that stays is told once");
        assert_eq!(of("C")[0]["args"]["us"], 2.5);
        let named = of("M").iter().filter_map(|one| one["args"]["name"].as_str().map(String::from)).collect::<Vec<_>>();
        assert_eq!(named, ["flight", "read", "others"]);
    }
}
