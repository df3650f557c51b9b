//! Open-loop load on a path: lines are sent to its first stage when the plan says, and come back from its last one over another
//! connection.
//!
//! A line is its number and when it was sent, in ns. A stage passes it on as one line; a stage that wants to be told apart adds a
//! space and `NAME:FROM-TO`, when the line came and when it left, on the CLOCK_MONOTONIC of its own machine.

use crate::client::connect;
use crate::clock::now;
use crate::drive::wait;
use crate::schedule::{LoadPlan, Schedule};
use crate::{Error, Generator};
use giusto_model::{Arrivals, Duration, Instant, JobRecord, Lateness, Load, Path, PathSource, Task};
use rustix::event::{PollFd, PollFlags};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

/// How long lines are waited for after the last one was sent, and the last stage to connect.
const GRACE_NS: u64 = 5_000_000_000;
const PROGRESS_NS: u64 = 100_000_000;
/// Of the lines that are on their way, this much is kept unread at most.
const LONGEST_LINE: usize = 64 * 1024;

/// What came of it.
#[derive(Clone, Debug)]
pub struct PathReport {
    /// One record per line due after the warm-up, in the order they were sent; CLOCK_MONOTONIC.
    pub jobs: Vec<JobRecord>,
    /// How many of them never came.
    pub lost: u64,
    /// How long they were at each stage that tells, in ns, by its name.
    pub stages: BTreeMap<String, Vec<u64>>,
}

impl PathReport {
    /// Whether the generator itself stalled; then the run is void. O(n log n).
    pub fn lateness(&self) -> Lateness {
        Lateness::of(&self.jobs)
    }
}

/// How messages of a path are sent, as its source would.
#[derive(Clone, Debug)]
pub struct PathRun {
    /// What is sent first, and not counted.
    pub warm_up: Duration,
    /// For so long after that.
    pub length: Duration,
    /// The same seed sends at the same times.
    pub seed: u64,
    /// What sends them.
    pub generator: Generator,
}

/// How messages of a path come, as tasks or at random: what a [`LoadPlan`] takes.
fn arrivals(path: &Path) -> (Vec<Task>, Option<Arrivals>) {
    match path.source {
        PathSource::Poisson(rate) => (Vec::new(), Some(Arrivals { rate, batch: 1 })),
        // Each of a burst is a client of its own; they are sent when they are due.
        PathSource::Periodic { period, burst, .. } => {
            let task = Task { copies: burst, ..Task::sporadic(&path.name, Duration::from_ns(1), period) };
            (vec![task], None)
        }
    }
}

/// Both ends of a path, connected for as long as this lives.
pub struct PathEnds {
    listener: TcpListener,
    receive: SocketAddr,
    first: TcpStream,
    send: SocketAddr,
    /// The last stage, once it has connected, and what is not a whole line yet.
    back: Option<(TcpStream, Vec<u8>)>,
    /// Lines that were sent and have not come back.
    out: u64,
}

impl PathEnds {
    /// Connects to the first stage, which listens at `send`, and listens at `receive` for the last.
    ///
    /// # Errors
    /// A connection that is refused, an address that is in use.
    pub fn new(send: SocketAddr, receive: SocketAddr) -> Result<PathEnds, Error> {
        let failed = |why| Error::Connection { address: receive, why };
        let listener = TcpListener::bind(receive).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let first = connect(send)?;
        // A first stage that reads no more is told of, not waited for.
        let grace = std::time::Duration::from_nanos(GRACE_NS);
        first.set_write_timeout(Some(grace)).map_err(|why| Error::Connection { address: send, why })?;
        Ok(PathEnds { listener, receive, first, send, back: None, out: 0 })
    }

    /// Sends messages of `path`, and waits up to 5 s more until all have come back. `on_progress` hears about ten times a
    /// second how much of that time has gone and says whether to go on.
    ///
    /// # Errors
    /// A plan that makes no sense, a connection that is closed, a last stage that does not connect within 5 s of the first line
    /// that is due, something else than lines.
    pub fn drive(
        &mut self,
        path: &Path,
        run: &PathRun,
        on_progress: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<PathReport, Error> {
        let (tasks, arrivals) = arrivals(path);
        let PathRun { warm_up, length, seed, generator } = run.clone();
        let load = Load::Echo { address: self.send, value: 1 }; // what a line says is its own
        let (load, tasks) = (&load, &tasks[..]);
        let plan = LoadPlan { load, tasks, arrivals, trace: &[], warm_up, run: length, seed, generator };
        let mut schedule = Schedule::new(&plan)?;
        let _applied = plan.generator.apply()?;
        let mut run = Run { jobs: Vec::new(), came: 0, stages: BTreeMap::new() };
        let origin = now() + 5_000_000;
        let mut next_progress = origin;
        let (mut end, mut first) = (None, None);
        loop {
            let round = now();
            while let Some(due) = round.checked_sub(origin).and_then(|time| schedule.pop_due(time)) {
                first.get_or_insert(round);
                let line = run.release(due.job, origin + due.at);
                let sent = self.first.write_all(line.as_bytes());
                sent.map_err(|why| Error::Connection { address: self.send, why })?;
                self.out += 1;
            }
            if round >= next_progress {
                if !on_progress(Duration::from_ns(round.saturating_sub(origin))) {
                    break;
                }
                next_progress = round + PROGRESS_NS;
            }
            self.accept(first.is_some_and(|first| round > first + GRACE_NS))?;
            let wake = match schedule.next() {
                Some(next) => origin + next,
                None if run.came == run.jobs.len() => break,
                None => *end.get_or_insert(round + GRACE_NS),
            };
            if end.is_some_and(|end| round >= end) {
                break;
            }
            let waits_for = self.back.as_ref().map_or(self.listener.as_fd(), |(stream, _)| stream.as_fd());
            let mut polls = [PollFd::from_borrowed_fd(waits_for, PollFlags::IN)];
            wait(&mut polls, wake.min(next_progress))?;
            if let (false, Some((stream, unread))) = (polls[0].revents().is_empty(), &mut self.back) {
                let came = run.read(stream, unread).map_err(|why| Error::Connection { address: self.receive, why })?;
                self.out = self.out.saturating_sub(came);
            }
        }
        let lost = run.jobs.iter().filter(|job| job.finish.is_none()).count() as u64;
        Ok(PathReport { jobs: run.jobs, lost, stages: run.stages })
    }

    /// Waits until all lines of earlier runs have come back, or for so long, or until it is told to `stop`: what is still on its
    /// way then counts as lost.
    ///
    /// # Errors
    /// A connection that is closed, something else than lines.
    pub fn settle(&mut self, at_most: Duration, stop: &dyn Fn() -> bool) -> Result<(), Error> {
        let end = now() + at_most.ns();
        let mut none = Run { jobs: Vec::new(), came: 0, stages: BTreeMap::new() };
        while let Some((stream, unread)) = self.back.as_mut().filter(|_| self.out > 0 && now() < end && !stop()) {
            let mut polls = [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)];
            wait(&mut polls, end.min(now() + PROGRESS_NS))?;
            if !polls[0].revents().is_empty() {
                let came = none.read(stream, unread).map_err(|why| Error::Connection { address: self.receive, why })?;
                self.out = self.out.saturating_sub(came);
            }
        }
        self.out = 0;
        Ok(())
    }

    /// Takes the connection of the last stage, if it is not there; an error where it is `late`.
    fn accept(&mut self, late: bool) -> Result<(), Error> {
        if self.back.is_some() {
            return Ok(());
        }
        let why = match self.listener.accept() {
            Ok((stream, _)) => {
                self.back = Some((stream, Vec::new()));
                return Ok(());
            }
            Err(why) if why.kind() != ErrorKind::WouldBlock => why,
            Err(_) if late => {
                let why = "the last stage does not connect; expected it to send its lines here";
                std::io::Error::new(ErrorKind::TimedOut, why)
            }
            Err(_) => return Ok(()),
        };
        Err(Error::Connection { address: self.receive, why })
    }
}

struct Run {
    jobs: Vec<JobRecord>,
    /// Of the recorded ones.
    came: usize,
    stages: BTreeMap<String, Vec<u64>>,
}

impl Run {
    /// The line to send; the warm-up's has no number.
    fn release(&mut self, job: Option<u64>, due: u64) -> String {
        let at = now();
        let Some(job) = job else { return format!("- {at}\n") };
        let (due, release) = (Instant::from_ns(due), Instant::from_ns(at));
        self.jobs.push(JobRecord { task: 0, job, due, release, finish: None });
        format!("{} {at}\n", self.jobs.len() - 1)
    }

    /// Takes what has come; how many lines that is.
    fn read(&mut self, stream: &mut TcpStream, unread: &mut Vec<u8>) -> std::io::Result<u64> {
        let mut buffer = [0; 16 * 1024];
        let count = stream.read(&mut buffer)?;
        let at = now();
        if count == 0 {
            return Err(std::io::Error::new(ErrorKind::UnexpectedEof, "the last stage closed its connection"));
        }
        unread.extend_from_slice(&buffer[..count]);
        let mut lines = 0;
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            self.line(&String::from_utf8_lossy(&line), at);
            lines += 1;
        }
        match unread.len() > LONGEST_LINE {
            true => Err(std::io::Error::new(
                ErrorKind::InvalidData,
                "a line of more than 64 KiB; expected those that were sent",
            )),
            false => Ok(lines),
        }
    }

    /// Lines that were not sent in this run, or came before, are passed over.
    fn line(&mut self, line: &str, at: u64) {
        let mut words = line.split_whitespace();
        let number: Option<usize> = words.next().and_then(|number| number.parse().ok());
        let Some(job) = number.and_then(|number| self.jobs.get_mut(number)) else { return };
        let sent: Option<u64> = words.next().and_then(|sent| sent.parse().ok());
        if job.finish.is_some() || sent != Some(job.release.ns()) {
            return;
        }
        job.finish = Some(Instant::from_ns(at));
        self.came += 1;
        for word in words {
            let Some((name, times)) = word.rsplit_once(':') else { continue };
            let times = times.split_once('-').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
            if let Some((from, to)) = times {
                let spent: u64 = u64::saturating_sub(to, from);
                self.stages.entry(name.into()).or_default().push(spent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    /// A chain of two that pass lines on, the second of which holds each for 2 ms.
    #[test]
    fn lines_that_come_back_are_told_with_their_stages_and_those_that_do_not_are_lost() {
        let stage = |name: &'static str, to: SocketAddr, hold: u64, drop: usize| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            std::thread::spawn(move || {
                let (from, _) = listener.accept().unwrap();
                let mut to = connect(to).unwrap();
                for (nth, line) in BufReader::new(from).lines().map_while(Result::ok).enumerate() {
                    let came = now();
                    std::thread::sleep(std::time::Duration::from_millis(hold));
                    if nth != drop {
                        writeln!(to, "{line} {name}:{came}-{}", now()).unwrap();
                    }
                }
            });
            address
        };
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let second = stage("second", free, 2, 7);
        let first = stage("first", second, 0, usize::MAX);
        let path = Path {
            name: "two".into(),
            source: PathSource::Poisson("100/s".parse().unwrap()),
            through: Vec::new(),
            points: Vec::new(),
            every: None,
            load: None,
            observe: None,
            packets: Path::PACKETS,
            assurance: Default::default(),
            despite: Vec::new(),
        };
        let (warm_up, length) = (Duration::ZERO, Duration::from_ms(500));
        let run = PathRun { warm_up, length, seed: 3, generator: Generator::default() };
        let mut ends = PathEnds::new(first, free).unwrap();
        let report = ends.drive(&path, &run, &mut |_| true).unwrap();
        assert!(report.jobs.len() > 20 && report.lost == 1, "{report:?}");
        assert!(report.jobs.iter().filter_map(JobRecord::response_ns).all(|response| response >= 2_000_000));
        assert_eq!(report.stages.keys().collect::<Vec<_>>(), ["first", "second"]);
        assert!(report.stages["second"].iter().all(|held| *held >= 2_000_000));
        assert_eq!(report.stages["second"].len() + 1, report.jobs.len());
        assert_eq!(ends.out, 1, "what was dropped");
        ends.settle(Duration::from_ms(10), &|| false).unwrap();
        assert_eq!(ends.out, 0, "is not waited for again");
        // Over the same connections, and none of the first run's lines counts.
        let report = ends.drive(&path, &PathRun { seed: 4, ..run }, &mut |_| true).unwrap();
        assert!(report.jobs.len() > 20 && report.lost == 0, "{report:?}");
    }
}
