//! Who had which core in the last second, for as long as a page asks.

use crate::Host;
use giusto_measure::timeline::{lanes, Change, Recorder};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is told at once ...
const WINDOW: Duration = Duration::from_secs(1);
/// ... of at most so many changes, ...
const MOST: usize = 60_000;
/// ... and recording ends when it was not asked for so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the kernel's changes are taken: they have room for 20,000.
const EVERY: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    asked: Option<Instant>,
    is_recording: bool,
    changes: VecDeque<Change>,
    lost: u64,
    lacking: Option<String>,
}

/// What the page is told.
#[derive(Debug, Default, Serialize)]
pub(super) struct Told {
    /// How long the window is.
    length_ns: u64,
    cores: Vec<Core>,
    /// Changes that are missing.
    lost: u64,
    /// Why there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    lacking: Option<String>,
}

#[derive(Debug, Serialize)]
struct Core {
    core: u32,
    lanes: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    runs: Vec<[u64; 2]>,
    waits: Vec<[u64; 2]>,
    wakes: Vec<u64>,
}

impl Timeline {
    /// The last second of the cores of `host`; begins to record.
    pub(super) fn look(&self, host: &dyn Host) -> Told {
        let cores: Vec<u32> = host.status().cores.iter().map(|core| core.core).collect();
        let mut kept = locked(&self.kept);
        kept.asked = Some(Instant::now());
        if !kept.is_recording {
            *kept = Kept { asked: kept.asked, is_recording: true, ..Kept::default() };
            let shared = self.kept.clone();
            let started =
                std::thread::Builder::new().name("giusto-timeline".into()).spawn(move || record(&cores, &shared));
            if let Err(error) = started {
                *kept = Kept { lacking: Some(format!("cannot record: {error}")), ..Kept::default() };
            }
        }
        let (until, changes) = (now_ns(), kept.changes.clone());
        let (lost, lacking) = (kept.lost, kept.lacking.clone());
        drop(kept);
        let first = changes.front().map_or(until, |change| change.at_ns);
        let from = until.saturating_sub(WINDOW.as_nanos() as u64).max(first);
        let (owners, own) = (host.processes(), std::process::id());
        let name = |process: u32| match process {
            0 => None,
            _ if process == own => Some("giusto"),
            _ => Some(owners.get(&process).map_or("others", String::as_str)),
        };
        let cores = lanes(changes, (from, until), name);
        let row = |(name, lane): (&str, giusto_measure::timeline::Lane)| Row {
            name: name.into(),
            runs: lane.runs,
            waits: lane.waits,
            wakes: lane.wakes,
        };
        let core = |(core, lanes): (u32, BTreeMap<&str, _>)| Core { core, lanes: lanes.into_iter().map(row).collect() };
        Told { length_ns: until - from, cores: cores.into_iter().map(core).collect(), lost, lacking }
    }
}

fn record(cores: &[u32], shared: &Mutex<Kept>) {
    let mut recorder = match Recorder::new(cores) {
        Ok(recorder) => recorder,
        Err(why) => {
            *locked(shared) = Kept { lacking: Some(why.to_string()), ..Kept::default() };
            return;
        }
    };
    loop {
        std::thread::sleep(EVERY);
        let mut kept = locked(shared);
        if kept.asked.is_none_or(|asked| asked.elapsed() > PATIENCE) {
            kept.is_recording = false;
            return;
        }
        while let Some(change) = recorder.next_change() {
            kept.changes.push_back(change);
        }
        kept.lost = recorder.lost();
        // A little more than the window: what began before it is in it.
        let old = now_ns().saturating_sub(2 * WINDOW.as_nanos() as u64);
        let surplus = kept.changes.len().saturating_sub(MOST);
        let gone = kept.changes.iter().take_while(|change| change.at_ns < old).count().max(surplus);
        kept.changes.drain(..gone);
    }
}

fn locked(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// CLOCK_MONOTONIC.
fn now_ns() -> u64 {
    crate::watchdog::clock(rustix::time::ClockId::Monotonic)
}
