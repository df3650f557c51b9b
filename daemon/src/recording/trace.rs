//! A recording as a trace for Perfetto: a row a core, a row a thread, rows of requests or jobs, counters of budgets; flows lead
//! from each job to where it was served.

use super::form::{RecordedService, RecordedThread, Recording};
use crate::ObservedBy;
use giusto_traces::{Flow, TraceEvents, Track};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Jobs of a service that overlap have rows of their own, up to so many.
const ROWS: u32 = 100;
/// Rows of threads come after them.
const THREADS: u32 = 1_000;
/// The process of the cores, and its row of modes; services follow.
const CORES: u32 = 0;
const MODES: Track = Track { process: CORES, row: 1_000_000 };

/// What was drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Times that a thread had a core.
    pub runs: usize,
    /// Requests and jobs ...
    pub jobs: usize,
    /// ... of which so many are late ...
    pub late: usize,
    /// ... and others for which there was no row, as too many overlapped.
    pub without_row: usize,
}

/// When a thread had which core.
type Run = (u64, u64, u32);

/// Writes `recording` as a trace, whose times begin with it: readers take them for numbers of 53 bits, which hold the ns of 104
/// days. Errors are those of the writer. O(n log n).
pub fn write_trace<W: Write>(recording: &Recording, to: W) -> io::Result<(W, Drawn)> {
    let threads = recording.threads.iter().map(|one| (one.thread, one)).collect();
    let mut drawing = Drawing { recording, threads, to: TraceEvents::new(to)?, drawn: Drawn::default() };
    drawing.names()?;
    let runs = drawing.cores()?;
    for (nth, service) in recording.services.iter().enumerate() {
        drawing.jobs(nth, service, &runs)?;
        drawing.budgets(nth, service)?;
    }
    for change in &recording.modes {
        drawing.to.slice(MODES, &change.change, clipped(recording, change.from_ns, change.to_ns), &Value::Null)?;
    }
    let (drawn, metadata) = (drawing.drawn, metadata(recording, drawing.drawn));
    Ok((drawing.to.finish(&metadata)?, drawn))
}

struct Drawing<'r, W: Write> {
    recording: &'r Recording,
    threads: BTreeMap<u32, &'r RecordedThread>,
    to: TraceEvents<W>,
    drawn: Drawn,
}

impl<W: Write> Drawing<'_, W> {
    fn names(&mut self) -> io::Result<()> {
        let Recording { host, cores, services, threads, modes, .. } = self.recording;
        self.to.process(CORES, &format!("cores of {host}"))?;
        for &core in cores {
            self.to.track(on_core(core), &format!("core {core}"))?;
        }
        if !modes.is_empty() {
            self.to.track(MODES, "changes of mode")?;
        }
        for (nth, service) in services.iter().enumerate() {
            self.to.process(process(nth), &service.name)?;
        }
        for one in threads {
            if let Some(service) = one.service {
                self.to.track(on_thread(service, one.thread), &format!("{} {}", one.name, one.thread))?;
            }
        }
        Ok(())
    }

    /// Who had which core, and who waited for it; returns when each thread had one.
    fn cores(&mut self) -> io::Result<BTreeMap<u32, Vec<Run>>> {
        let recording = self.recording;
        let mut runs: BTreeMap<u32, Vec<Run>> = BTreeMap::new();
        let (mut running, mut waiting) = (BTreeMap::<u32, (u64, u32)>::new(), BTreeMap::<u32, u64>::new());
        for &[at, core, thread, what] in &recording.changes {
            let (core, thread) = (core as u32, thread as u32);
            if what == 2 {
                waiting.entry(thread).or_insert(at);
                continue;
            }
            if let Some((since, before)) = running.insert(core, (at, thread)) {
                self.ran(core, before, (since, at), &mut runs)?;
                if what == 1 {
                    waiting.insert(before, at);
                }
            }
            if let Some(since) = waiting.remove(&thread) {
                self.waited(thread, (since, at))?;
            }
        }
        for (core, (since, thread)) in running {
            self.ran(core, thread, (since, recording.until_ns), &mut runs)?;
        }
        for (thread, since) in waiting {
            self.waited(thread, (since, recording.until_ns))?;
        }
        Ok(runs)
    }

    fn ran(
        &mut self,
        core: u32,
        thread: u32,
        (from, to): (u64, u64),
        runs: &mut BTreeMap<u32, Vec<Run>>,
    ) -> io::Result<()> {
        let (from, to) = clipped(self.recording, from, to);
        let Some(&known) = self.threads.get(&thread).filter(|_| from < to) else { return Ok(()) };
        let name = known.service.map_or(known.name.as_str(), |service| &self.recording.services[service].name);
        let args = json!({ "thread": thread, "name": known.name, "process": known.process });
        self.to.slice(on_core(core), name, (from, to), &args)?;
        self.drawn.runs += 1;
        if let Some(service) = known.service {
            self.to.slice(on_thread(service, thread), "runs", (from, to), &json!({ "core": core }))?;
            runs.entry(thread).or_default().push((from, to, core));
        }
        Ok(())
    }

    fn waited(&mut self, thread: u32, (from, to): (u64, u64)) -> io::Result<()> {
        let (from, to) = clipped(self.recording, from, to);
        let service = self.threads.get(&thread).and_then(|known| known.service);
        match service.filter(|_| from < to) {
            Some(service) => self.to.slice(on_thread(service, thread), "waits", (from, to), &Value::Null),
            None => Ok(()),
        }
    }

    /// The requests or jobs of a service, each with a flow to where its thread had a core meanwhile.
    fn jobs(&mut self, nth: usize, service: &RecordedService, runs: &BTreeMap<u32, Vec<Run>>) -> io::Result<()> {
        let own = |job: &&[u64; 4]| job[0] == nth as u64;
        let mut jobs: Vec<&[u64; 4]> = self.recording.jobs.iter().filter(own).collect();
        jobs.sort_by_key(|[_, _, from, to]| (*from, *to));
        let (one, many) = match service.jobs {
            Some(ObservedBy::Requests) => ("request", "requests"),
            _ => ("job", "jobs"),
        };
        let mut ends: Vec<u64> = Vec::new();
        for &&[_, thread, began, ended] in &jobs {
            let (from, to) = clipped(self.recording, began, ended);
            let row = match ends.iter().position(|end| *end <= from) {
                Some(row) => row,
                None if ends.len() < ROWS as usize => {
                    ends.push(0);
                    let row = ends.len();
                    let name = if row == 1 { many.into() } else { format!("{many}, {row} at once") };
                    self.to.track(Track { process: process(nth), row: row as u32 }, &name)?;
                    row - 1
                }
                None => {
                    self.drawn.without_row += 1;
                    continue;
                }
            };
            ends[row] = to;
            let track = Track { process: process(nth), row: row as u32 + 1 };
            let is_late = service.within_ns.is_some_and(|within| ended - began > within);
            let mut args = json!({ "thread": thread, "took_us": (ended - began) as f64 / 1e3 });
            if let Some(within) = service.within_ns {
                args["promised_us"] = (within as f64 / 1e3).into();
            }
            let name = if is_late { format!("late {one}") } else { one.into() };
            self.to.slice(track, &name, (from, to), &args)?;
            self.drawn.late += usize::from(is_late);
            self.drawn.jobs += 1;
            self.flow(track, (from, to), runs.get(&(thread as u32)).map_or(&[], Vec::as_slice))?;
        }
        Ok(())
    }

    /// From a job to the times at which its thread had a core.
    fn flow(&mut self, job: Track, (from, to): (u64, u64), runs: &[Run]) -> io::Result<()> {
        let first = runs.partition_point(|(_, end, _)| *end <= from);
        let served: Vec<&Run> = runs[first..].iter().take_while(|(begin, ..)| *begin < to).collect();
        let Some((&last, others)) = served.split_last() else { return Ok(()) };
        let id = self.drawn.jobs as u64;
        self.to.flow(job, id, from, Flow::Begin)?;
        for &&(begin, _, core) in others {
            self.to.flow(on_core(core), id, begin.max(from), Flow::Step)?;
        }
        let &(begin, _, core) = last;
        self.to.flow(on_core(core), id, begin.max(from), Flow::End)
    }

    /// What was left of each budget, and the periods in which it was missed.
    fn budgets(&mut self, nth: usize, service: &RecordedService) -> io::Result<()> {
        for (part, points) in &service.budgets {
            let of = part.map_or(String::new(), |part| format!(" of {part}"));
            let name = format!("budget left{of}");
            let periods = Track { process: process(nth), row: 0 };
            let mut before: Option<u64> = None;
            if points.first().map(|point| point.2) != points.last().map(|point| point.2) {
                self.to.track(periods, "periods")?;
            }
            for &(at, left, missed) in points {
                let at = at - self.recording.from_ns;
                self.to.counter(process(nth), (&name, "us"), at, left as f64 / 1e3)?;
                if before.replace(missed).is_some_and(|before| missed > before) {
                    self.to.instant(periods, &format!("budget{of} missed"), at)?;
                }
            }
        }
        Ok(())
    }
}

fn metadata(recording: &Recording, drawn: Drawn) -> Map<String, Value> {
    let mut metadata = Map::new();
    let mut tell = |key: &str, value: Value| metadata.insert(format!("giusto-{key}"), value);
    tell("version", recording.version.as_str().into());
    tell("host", recording.host.as_str().into());
    tell("clock", "CLOCK_MONOTONIC less giusto-from-ns".into());
    tell("from-ns", recording.from_ns.into());
    tell("until-ns", recording.until_ns.into());
    tell("unix-time-of-0-ns", recording.unix_ns.into());
    tell("lost", recording.lost.into());
    tell("jobs-without-row", drawn.without_row.into());
    if let Some(late) = &recording.late {
        tell("late", format!("{}, {} ns", late.service, late.to_ns - late.from_ns).into());
    }
    for service in &recording.services {
        let says = match service.backend.as_deref() {
            None => "none: it gets what is left",
            Some("manager") => continue,
            Some("deadline") => "known to the kernel only (SCHED_DEADLINE)",
            Some(_) => "known to the kernel only",
        };
        tell(&format!("budget-of-{}", service.name), says.into());
    }
    metadata
}

/// What of a time is within the recording, as times of the trace.
fn clipped(recording: &Recording, from: u64, to: u64) -> (u64, u64) {
    let within = |at: u64| at.clamp(recording.from_ns, recording.until_ns) - recording.from_ns;
    (within(from), within(to))
}

fn on_core(core: u32) -> Track {
    Track { process: CORES, row: core }
}

fn process(service: usize) -> u32 {
    service as u32 + 1
}

fn on_thread(service: usize, thread: u32) -> Track {
    Track { process: process(service), row: THREADS + thread }
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
