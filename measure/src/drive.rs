//! Open-loop load: requests leave when the tasks say, whether or not earlier ones were answered.
//!
//! A closed loop would wait for a slow reply and so leave out just the requests that would have suffered from it
//! (coordinated omission). Here a service that stalls finds every request of the stall waiting for it.

use crate::client::{connect, prepare, Client};
use crate::clock::now;
use crate::reply::Reply;
use crate::request::Request;
use crate::schedule::{LoadPlan, Schedule};
use crate::thread::waited_ns;
use crate::Error;
use giusto_model::{Duration, Instant, JobRecord, Lateness};
use hdrhistogram::Histogram;
use rustix::event::{poll, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::net::TcpStream;

/// How long replies are waited for after the last request.
const GRACE_NS: u64 = 2_000_000_000;
/// How often progress is told.
const PROGRESS_NS: u64 = 100_000_000;
/// Time between connecting and the first request.
const LEAD_NS: u64 = 5_000_000;
/// Tag of a request of the warm-up, which leaves no record.
const WARM_UP: usize = usize::MAX;

/// Where requests overlap without a break, the service is looked at this long after the last time: what is on its way is taken
/// for one that is still to be served.
const BUSY_NS: u64 = 20_000_000;

/// What came of it.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// One record per request due after the warm-up, in the order they were sent; CLOCK_MONOTONIC. Tasks count copy by
    /// copy, jobs from 0 at the end of the warm-up.
    pub jobs: Vec<JobRecord>,
    /// How many of `jobs` were never answered, up to 2 s after the last was sent.
    pub lost: u64,
    /// How many of `jobs` were answered with an error; they are finished all the same.
    pub errors: u64,
    /// The first such error, in the service's words.
    pub first_error: Option<String>,
    /// How late requests left (release − due): median, 99th percentile and maximum, in ns, to 3 digits but the maximum
    /// exactly. Response times count from the release, so this tells how far the load was from the one planned;
    /// [`LoadReport::lateness`] judges it.
    pub lateness_ns: [u64; 3],
    /// How long the generator was ready to send and waited for its processor, in ns; `None` where the kernel does not
    /// tell. A run in which that is much measured the machine, not the service.
    pub waited_ns: Option<u64>,
}

impl LoadReport {
    /// Whether the generator itself stalled. If so the responses look better than the machine was, since requests that
    /// were due in the stall were not sent in it: void the run. O(n log n).
    pub fn lateness(&self) -> Lateness {
        Lateness::of(&self.jobs)
    }
}

/// Loads a service with its own tasks, from the calling thread, for `warm_up + run` and up to 2 s more.
///
/// `on_progress` hears about ten times a second how much of that time has gone and says whether to go on; it must be quick,
/// as requests wait for it. Told to stop, the report has what was measured until then. Sending costs O(log clients) and
/// one system call; memory is one record a request.
///
/// # Errors
/// The first of: a plan that makes no sense, a missing privilege, a refused or closed connection, something else than
/// Redis at the other end. Whether the generator stalled ([`LoadReport::lateness`]), and whether jobs are
/// lost or answered with an error, is for the caller to judge.
pub fn drive(plan: &LoadPlan, on_progress: &mut dyn FnMut(Duration) -> bool) -> Result<LoadReport, Error> {
    drive_watched(plan, on_progress, &mut |_, _| {})
}

/// The same; `on_idle` hears, before a request is sent while none is on its way, the time and how many have been
/// answered; and where
/// requests overlap for long, also while some are. It must be quick: the request waits for it.
pub(crate) fn drive_watched(
    plan: &LoadPlan,
    on_progress: &mut dyn FnMut(Duration) -> bool,
    on_idle: &mut dyn FnMut(u64, u64),
) -> Result<LoadReport, Error> {
    let mut schedule = Schedule::new(plan)?;
    let mut run = Run::new(schedule.jobs())?;
    let (request, address) = (Request::new(plan.load)?, plan.load.address());
    prepare(plan.load, plan.seed)?;
    let streams = (0..schedule.clients()).map(|_| connect(address)).collect::<Result<Vec<_>, _>>()?;
    for stream in &streams {
        stream.set_nonblocking(true).map_err(|why| Error::Connection { address, why })?;
    }
    let mut clients: Vec<Client> =
        streams.iter().enumerate().map(|(i, s)| Client::new(s, plan.load, i, &request, plan.seed)).collect();
    let mut polls: Vec<PollFd> = streams.iter().map(|s| poll_fd(s, false)).collect();
    let mut buffer = vec![0; 64 * 1024];

    let _applied = plan.generator.apply()?;
    let waited = waited_ns();
    let origin = now() + LEAD_NS;
    let mut next_progress = origin;
    let (mut give_up, mut heard) = (None, origin);
    loop {
        // Only what is due by now: a late generator must still read replies.
        let round = now();
        let is_due = schedule.next().is_some_and(|next| origin + next <= round);
        if is_due && (round >= heard + BUSY_NS || clients.iter().all(Client::is_idle)) {
            heard = round;
            on_idle(round, run.answered);
        }
        while let Some(due) = round.checked_sub(origin).and_then(|t| schedule.pop_due(t)) {
            let tag = run.release(&due, origin, now());
            clients[due.client].send(tag)?;
            watch(&mut polls, &streams, &clients, due.client);
        }
        if round >= next_progress {
            if !on_progress(Duration::from_ns(round.saturating_sub(origin))) {
                break;
            }
            next_progress = round + PROGRESS_NS;
        }
        let wake = match schedule.next() {
            Some(next) => origin + next,
            None if clients.iter().all(Client::is_idle) => break,
            None => *give_up.get_or_insert(round + GRACE_NS),
        };
        if give_up.is_some_and(|end| round >= end) {
            break;
        }
        wait(&mut polls, wake.min(next_progress))?;
        for (index, client) in clients.iter_mut().enumerate() {
            let ready = polls[index].revents();
            if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                // One stamp a read: after it, and before its replies are looked at.
                let mut stamp = None;
                client.receive(&mut buffer, |tag, reply| run.finish(tag, reply, *stamp.get_or_insert_with(now)))?;
            }
            if ready.contains(PollFlags::OUT) {
                client.flush()?;
                polls[index] = poll_fd(&streams[index], client.has_unsent());
            }
        }
    }
    Ok(run.report(waited))
}

fn poll_fd(stream: &TcpStream, unsent: bool) -> PollFd<'_> {
    PollFd::new(stream, if unsent { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN })
}

/// Also waits for room in the socket, if a request did not fit.
fn watch<'a>(polls: &mut [PollFd<'a>], streams: &'a [TcpStream], clients: &[Client], index: usize) {
    if clients[index].has_unsent() {
        polls[index] = poll_fd(&streams[index], true);
    }
}

/// Sleeps until a socket is ready, but not beyond `until`.
pub(crate) fn wait(polls: &mut [PollFd], until: u64) -> Result<(), Error> {
    let left = until.saturating_sub(now());
    let timeout = Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as _ };
    match poll(polls, Some(&timeout)) {
        Ok(_) => Ok(()),
        // No poll, no news: what revents still says of the last one must not be believed.
        Err(Errno::INTR) => {
            polls.iter_mut().for_each(PollFd::clear_revents);
            Ok(())
        }
        Err(why) => Err(Error::System { what: "wait for replies".into(), why: why.into() }),
    }
}

/// The records as they grow.
struct Run {
    jobs: Vec<JobRecord>,
    /// Also of the warm-up.
    answered: u64,
    errors: u64,
    first_error: Option<String>,
}

impl Run {
    fn new(jobs: u64) -> Result<Run, Error> {
        let mut records = Vec::new();
        let fits = usize::try_from(jobs).is_ok_and(|n| records.try_reserve_exact(n).is_ok());
        if fits {
            // Touch every page now: a page fault on the way would be measured as latency.
            let blank = JobRecord { task: 0, job: 0, due: Instant::ZERO, release: Instant::ZERO, finish: None };
            records.resize(records.capacity(), blank);
            records.clear();
        }
        match fits {
            true => Ok(Run { jobs: records, answered: 0, errors: 0, first_error: None }),
            false => Err(Error::Plan(format!("no memory for {jobs} job records; shorten the run"))),
        }
    }

    fn release(&mut self, due: &crate::schedule::Due, origin: u64, at: u64) -> usize {
        let Some(job) = due.job else { return WARM_UP };
        let (due_at, release) = (Instant::from_ns(origin + due.at), Instant::from_ns(at));
        self.jobs.push(JobRecord { task: due.client as u32, job, due: due_at, release, finish: None });
        self.jobs.len() - 1
    }

    fn finish(&mut self, tag: usize, reply: Reply, at: u64) {
        self.answered += 1;
        let Some(record) = self.jobs.get_mut(tag) else { return };
        record.finish = Some(Instant::from_ns(at));
        if let Reply::Refused(text) = reply {
            self.errors += 1;
            self.first_error.get_or_insert(text);
        }
    }

    fn report(self, waited_before: Option<u64>) -> LoadReport {
        let Run { jobs, errors, first_error, .. } = self;
        let lost = jobs.iter().filter(|j| j.finish.is_none()).count() as u64;
        let late = |j: &JobRecord| j.release.since(j.due).map_or(0, Duration::ns);
        // 1 ns to over an hour, three digits; what is beyond is held at its end.
        let mut lateness = Histogram::<u64>::new_with_bounds(1, 1 << 42, 3).expect("constant bounds");
        jobs.iter().for_each(|j| lateness.saturating_record(late(j)));
        let max = jobs.iter().map(late).max().unwrap_or(0);
        let at = |q| lateness.value_at_quantile(q).min(max);
        let waited_ns = waited_ns().zip(waited_before).map(|(now, before)| now.saturating_sub(before));
        LoadReport { lost, errors, first_error, lateness_ns: [at(0.5), at(0.99), max], jobs, waited_ns }
    }
}
