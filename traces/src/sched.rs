//! A recording of the scheduler, line by line.

use crate::event::{line, Event, Line, Thread, What};
use crate::thread::{Cut, Follower, Job, Why};
use crate::Error;
use giusto_model::Instant;
use std::collections::BTreeMap;
use std::io::BufRead;

/// What a line of an event looks like.
const EXPECTED: &str = "a line of 'perf script', 'trace-cmd report' or /sys/kernel/tracing/trace";
/// Threads that an error names.
const NAMED: usize = 12;

/// Whose jobs are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    /// The thread of this number.
    Tid(u32),
    /// The only thread of this name.
    Name(String),
}

/// The jobs of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Its number.
    pub tid: u32,
    /// Its name, as last seen.
    pub name: String,
    /// Its jobs, in order.
    pub jobs: Vec<Job>,
    /// What is no job.
    pub cuts: Vec<Cut>,
    /// All its wakeups: those of the jobs and of what was cut off.
    pub wakeups: u64,
    /// How often the recorder says that it lost events.
    pub losses: u64,
    /// Whether the last line is incomplete.
    pub truncated: bool,
}

/// A thread of the recording.
struct Known {
    name: String,
    events: u64,
    wakeups: u64,
}

/// A thread that may be meant.
struct Candidate {
    name: String,
    follower: Follower,
}

/// Reads a recording of `sched_switch` and `sched_wakeup` and follows the thread that is `wanted`; other events are passed over. On
/// several processors events must be in the order of time, as all tools print them.
///
/// # Errors
/// [`Error::Line`] for an event that is none or earlier than the one before it, [`Error::NoEvent`], [`Error::NoThread`],
/// [`Error::ManyThreads`]. O(size) time; memory for the jobs and for the name of each thread.
pub fn read_sched(mut from: impl BufRead, wanted: &Select) -> Result<Imported, Error> {
    let mut candidates: BTreeMap<u32, Candidate> = BTreeMap::new();
    // When the last event of each processor was.
    let mut last: BTreeMap<u32, Instant> = BTreeMap::new();
    let mut overwritten = false;
    let mut known: BTreeMap<u32, Known> = BTreeMap::new();
    let (mut losses, mut truncated, mut switches, mut before, mut number) = (0, false, 0u64, Instant::from_ns(0), 0);
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        if from.read_until(b'\n', &mut buffer)? == 0 {
            break;
        }
        number += 1;
        let complete = buffer.ends_with(b"\n");
        let text = String::from_utf8_lossy(&buffer);
        let bad = |found: String| Error::Line { line: number, found, expected: EXPECTED };
        let event = match line(text.trim_end_matches(['\n', '\r'])) {
            Ok(Line::Event(event)) => event,
            Ok(Line::Other) => continue,
            Ok(Line::Lost(cpu)) => {
                losses += 1;
                let since = cpu.and_then(|cpu| last.get(&cpu).copied());
                candidates.values_mut().for_each(|candidate| candidate.follower.doubt(since, Why::Lost, number));
                continue;
            }
            Ok(Line::Overwritten) => {
                overwritten = true;
                continue;
            }
            // The program that wrote it was stopped.
            Err(_) if !complete => {
                truncated = true;
                continue;
            }
            Err(found) => return Err(bad(found)),
        };
        if event.at < before {
            return Err(bad("it is earlier than the event before it".into()));
        }
        before = event.at;
        // Where the oldest events are missing, those of each processor begin at another time.
        if last.insert(event.cpu, event.at).is_none() && overwritten {
            candidates.values_mut().for_each(|candidate| candidate.follower.doubt(None, Why::Begun, number));
        }
        switches += u64::from(matches!(event.what, What::Switch { .. }));
        for thread in event.threads() {
            let earlier = known.get(&thread.tid).map_or(0, |known| known.wakeups);
            count(&mut known, thread, event.what);
            let meant = match wanted {
                Select::Tid(tid) => *tid == thread.tid,
                Select::Name(name) => name == thread.name,
            };
            if meant && !candidates.contains_key(&thread.tid) {
                let follower = Follower::after(earlier, number);
                candidates.insert(thread.tid, Candidate { name: thread.name.into(), follower });
            }
        }
        tell(&mut candidates, event, number);
    }
    if switches == 0 {
        return Err(Error::NoEvent);
    }
    candidates.values_mut().for_each(|candidate| candidate.follower.over(number));
    let shown = match wanted {
        Select::Tid(tid) => tid.to_string(),
        Select::Name(name) => name.clone(),
    };
    if candidates.len() > 1 {
        let jobs = |(tid, candidate): (&u32, &Candidate)| format!("{tid} ({} jobs)", candidate.follower.jobs.len());
        return Err(Error::ManyThreads { wanted: shown, known: listed(candidates.iter().map(jobs).collect()) });
    }
    let Some((tid, Candidate { name, follower })) = candidates.into_iter().next() else {
        return Err(Error::NoThread { wanted: shown, known: busiest(known) });
    };
    let Follower { jobs, cuts, wakeups, .. } = follower;
    Ok(Imported { tid, name, jobs, cuts, wakeups, losses, truncated })
}

impl<'a> Event<'a> {
    fn threads(self) -> impl Iterator<Item = Thread<'a>> {
        let (first, second) = match self.what {
            What::Wakeup(thread) => (thread, None),
            What::Switch { prev, next, .. } => (prev, Some(next)),
        };
        std::iter::once(first).chain(second)
    }
}

/// Hands an event to those whom it is about.
fn tell(candidates: &mut BTreeMap<u32, Candidate>, Event { at, cpu, what }: Event, number: usize) {
    let mut of = |thread: Thread, then: &mut dyn FnMut(&mut Follower)| {
        if let Some(candidate) = candidates.get_mut(&thread.tid) {
            if candidate.name != thread.name {
                candidate.name = thread.name.into();
            }
            then(&mut candidate.follower);
        }
    };
    match what {
        What::Wakeup(thread) => of(thread, &mut |follower| follower.wakeup(at)),
        What::Switch { prev, sleeps, next } => {
            of(prev, &mut |follower| follower.switch_out(at, cpu, sleeps, number));
            of(next, &mut |follower| follower.switch_in(at, cpu));
        }
    }
}

fn count(known: &mut BTreeMap<u32, Known>, thread: Thread, what: What) {
    let one = known.entry(thread.tid).or_insert_with(|| Known { name: thread.name.into(), events: 0, wakeups: 0 });
    one.events += 1;
    one.wakeups += u64::from(matches!(what, What::Wakeup(_)));
}

/// The threads with most events.
fn busiest(known: BTreeMap<u32, Known>) -> String {
    let mut all: Vec<(u64, u32, String)> = known.into_iter().map(|(tid, one)| (one.events, tid, one.name)).collect();
    all.retain(|&(_, tid, _)| tid != 0);
    all.sort_by(|a, b| b.cmp(a));
    listed(all.into_iter().map(|(_, tid, name)| format!("{name} ({tid})")).collect())
}

fn listed(all: Vec<String>) -> String {
    let more = all.len().saturating_sub(NAMED);
    let shown = all[..all.len().min(NAMED)].join(", ");
    if more > 0 {
        format!("{shown} and {more} more")
    } else {
        shown
    }
}
