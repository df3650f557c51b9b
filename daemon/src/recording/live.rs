//! Records on the thread of the client that asked, until it has what it asked for, or has gone.

use super::form::{RecordWish, RecordedMode, RecordedService, Recording};
use super::ring::{Known, OwnJob, Point, Ring};
use super::sources::Sources;
use crate::{Host, Refused, State, Status};
use giusto_measure::timeline::Recorder;
use rustix::time::ClockId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

/// How often the kernel's rings are emptied.
const EVERY: Duration = Duration::from_millis(50);
/// What ended so long ago has been told by now.
const TOLD_NS: u64 = 100_000_000;
/// How often the services are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Processes that are remembered.
const PROCESSES: usize = 100_000;
/// Shortest and longest recording.
const SPANS_NS: std::ops::RangeInclusive<u64> = 1_000_000..=60_000_000_000;
/// Most recordings of late jobs.
const MOST: u32 = 10_000;
/// Late jobs that are remembered until the first of them is sent: later ones are likely to be in its recording.
const WANTED: usize = 10_000;

/// What serves the client.
pub(crate) trait Client {
    /// Sends one recording. False: the client has gone.
    fn send(&mut self, recording: Recording) -> bool;
    /// Whether it waits no longer.
    fn has_gone(&self) -> bool;
}

/// Records what was wished, and sends it. Errors: it cannot be recorded.
pub(crate) fn record(wish: &RecordWish, host: &dyn Host, client: &mut dyn Client) -> Result<(), Refused> {
    let status = host.status();
    possible(wish, &status, &host.sources())?;
    let cores: Vec<u32> = status.cores.iter().map(|core| core.core).collect();
    let recorder = Recorder::new(&cores).map_err(|why| Refused { exit: 3, reason: why.to_string() })?;
    let begun = now_ns();
    let mut live = Live::new(recorder, begun, host);
    let mut sent = 0;
    // Until then it has been sent, and around these it is to be sent next.
    let (mut covered, mut wanted): (u64, Vec<OwnJob>) = (begun, Vec::new());
    while !client.has_gone() {
        std::thread::sleep(EVERY);
        if live.looked.elapsed() >= LOOK && !live.look(host) {
            return Err(Refused { exit: 4, reason: "giusto is stopping".into() });
        }
        wanted.extend(live.pull(wish.service.as_deref()));
        let now = now_ns();
        let Some(most) = wish.late else {
            if now >= begun + wish.span_ns + TOLD_NS {
                client.send(live.cut((begun, begun + wish.span_ns), None, host));
                return Ok(());
            }
            continue;
        };
        wanted.retain(|job| job.to_ns > covered);
        let Some(&job) = wanted.first().filter(|job| now >= job.to_ns + wish.span_ns + TOLD_NS) else {
            wanted.truncate(WANTED);
            continue;
        };
        covered = job.to_ns + wish.span_ns;
        sent += 1;
        let around = (job.from_ns.saturating_sub(wish.span_ns), covered);
        if !client.send(live.cut(around, Some(&job), host)) || sent == most {
            return Ok(());
        }
    }
    Ok(())
}

/// Errors: there is nothing like that here.
fn possible(wish: &RecordWish, status: &Status, sources: &Sources) -> Result<(), Refused> {
    let bad = |exit, reason: String| Err(Refused { exit, reason });
    if !SPANS_NS.contains(&wish.span_ns) {
        return bad(2, "a recording lasts between 1 ms and 60 s".into());
    }
    if wish.late.is_some_and(|most| most == 0 || most > MOST) {
        return bad(2, format!("expected between 1 and {MOST} recordings of late jobs"));
    }
    if status.cores.is_empty() {
        return bad(2, "no core of this host carries a reservation; there is nothing to record".into());
    }
    let names = || status.services.iter().map(|one| one.name.clone()).collect::<Vec<_>>().join(", ");
    if let Some(name) = wish.service.as_ref().filter(|name| status.services.iter().all(|one| one.name != **name)) {
        return bad(2, format!("there is no service '{name}'; expected one of {}", names()));
    }
    let known = sources.jobs.iter().flat_map(|source| source.services.values());
    let mut promised = known.filter(|(_, within)| within.is_some()).map(|(name, _)| name);
    let is_wanted = |name: &String| wish.service.as_ref().is_none_or(|wanted| wanted == name);
    if wish.late.is_some() && !promised.any(is_wanted) {
        let who = wish.service.as_ref().map_or("no service here".into(), |name| format!("'{name}' is none that"));
        let reason = format!(
            "{who} has jobs that giusto observes one by one (requests or wake-ups) and that were promised to be done in some \
             time; 'giusto status' tells what is observed of each, and why"
        );
        return bad(2, reason);
    }
    Ok(())
}

/// What is recorded now. Dropping it ends that.
struct Live {
    recorder: Recorder,
    sources: Sources,
    ring: Ring,
    owners: BTreeMap<u32, String>,
    looked: Instant,
    /// What had been lost in the kernel before.
    lost_before: u64,
}

impl Live {
    fn new(recorder: Recorder, now_ns: u64, host: &dyn Host) -> Live {
        let (ring, owners) = (Ring::new(now_ns), BTreeMap::new());
        let sources = Sources::default();
        let mut live = Live { recorder, sources, ring, owners, looked: Instant::now(), lost_before: 0 };
        live.look(host);
        live.lost_before = live.lost();
        live
    }

    /// Which services there are. False: giusto is stopping.
    fn look(&mut self, host: &dyn Host) -> bool {
        self.looked = Instant::now();
        self.sources = host.sources();
        for source in &self.sources.jobs {
            if let Err(why) = source.jobs.record(true) {
                tracing::warn!("{why}");
            }
            for (name, within_ns) in source.services.values() {
                let service = self.ring.number(name);
                self.ring.is_known(service, Known { by: source.by, within_ns: *within_ns });
            }
        }
        self.sources.budgets.iter().for_each(|source| source.budgets.record(true));
        if self.owners.len() > PROCESSES {
            self.owners.clear();
        }
        self.owners.extend(host.processes().iter().map(|(process, name)| (*process, name.clone())));
        host.status().state != State::Stopping
    }

    /// Empties the kernel's rings; the late jobs among what was told, of one service or of all.
    fn pull(&mut self, only: Option<&str>) -> Vec<OwnJob> {
        let Live { recorder, sources, ring, .. } = self;
        let mut late = Vec::new();
        while let Some(change) = recorder.next_change() {
            ring.change(change);
        }
        for source in &sources.jobs {
            source.jobs.take(|job| {
                let Some((name, _)) = source.services.get(&job.service) else { return };
                let (thread, from_ns, to_ns) = (job.thread, job.from_ns, job.to_ns);
                let own = OwnJob { service: ring.number(name), thread, from_ns, to_ns };
                let is_late = ring.job(own);
                if is_late && only.is_none_or(|only| only == name) {
                    late.push(own);
                }
            });
        }
        for source in &sources.budgets {
            source.budgets.take(|point| {
                let Some((name, part)) = source.servers.get(&point.server) else { return };
                let (at_ns, left_ns, missed) = (point.at_ns, point.left_ns, point.missed);
                let (service, part) = (ring.number(name), *part);
                ring.point(Point { at_ns, service, part, left_ns, missed });
            });
        }
        late
    }

    fn cut(&self, window: (u64, u64), late: Option<&OwnJob>, host: &dyn Host) -> Recording {
        let (status, owners) = (host.status(), host.processes());
        let mut services: Vec<RecordedService> = Vec::new();
        for one in &status.services {
            if services.iter().all(|known| known.name != one.name) {
                let (name, backend) = (one.name.clone(), one.backend.clone());
                services.push(RecordedService { name, backend, ..RecordedService::default() });
            }
        }
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let recording = Recording {
            version: status.version.clone(),
            host: status.host.clone(),
            unix_ns: unix.saturating_sub(now_ns()),
            lost: self.lost() - self.lost_before,
            cores: status.cores.iter().map(|core| core.core).collect(),
            services,
            ..Recording::default()
        };
        let owner = |process: u32| owners.get(&process).or_else(|| self.owners.get(&process)).cloned();
        let mut recording = self.ring.cut(window, late, recording, owner);
        recording.modes = modes(&status, (recording.from_ns, recording.until_ns));
        recording
    }

    fn lost(&self) -> u64 {
        let jobs: u64 = self.sources.jobs.iter().map(|source| source.jobs.lost()).sum();
        let budgets: u64 = self.sources.budgets.iter().map(|source| source.budgets.lost()).sum();
        self.recorder.lost() + jobs + budgets
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        for source in &self.sources.jobs {
            let _ = source.jobs.record(false);
        }
        self.sources.budgets.iter().for_each(|source| source.budgets.record(false));
    }
}

/// Changes of mode that were under way between two times.
fn modes(status: &Status, (from_ns, until_ns): (u64, u64)) -> Vec<RecordedMode> {
    let changes = status.modes.iter().flat_map(|modes| &modes.changes);
    let recorded = changes.map(|change| RecordedMode {
        change: format!("{} to {}: {}", change.from, change.to, change.outcome),
        from_ns: change.began_ns,
        to_ns: change.began_ns + change.took_ns,
    });
    recorded.filter(|change| change.from_ns <= until_ns && change.to_ns >= from_ns).collect()
}

fn now_ns() -> u64 {
    crate::watchdog::clock(ClockId::Monotonic)
}
