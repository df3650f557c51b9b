//! The jobs of one thread, from its wakeups and switches.
//!
//! A job begins with the wakeup of a thread that slept, and ends when the thread is switched out in another state than R. A wakeup
//! while the job goes on is one more of the same job. What cannot be told is no job but cut off: what began before the recording,
//! goes on after it, or where events are missing. So every wakeup is in exactly one job or in one piece that was cut off.

use giusto_model::{Duration, Instant};

/// A job of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// When the thread was woken.
    pub release: Instant,
    /// When it was switched out of its own accord.
    pub finish: Instant,
    /// How long it was on a processor in between.
    pub execution: Duration,
    /// The wakeups in it, the first included.
    pub wakeups: u64,
}

/// A piece that is no job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Line at which it was given up, from 1.
    pub line: usize,
    /// Why.
    pub why: Why,
    /// The wakeups in it.
    pub wakeups: u64,
}

/// Why a piece is no job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It began before the recording, or before the thread had its name.
    Begun,
    /// It had not ended with the recording.
    Unended,
    /// The recorder says that it lost events.
    Lost,
    /// Events contradict each other, so some are missing.
    Contradiction,
}

/// What is known of the thread.
#[derive(Clone, Copy, Debug)]
enum State {
    Unknown,
    Asleep,
    Awake(Piece),
}

/// A job that goes on, or what may be a part of one.
#[derive(Clone, Copy, Debug)]
struct Piece {
    release: Instant,
    wakeups: u64,
    execution: u64,
    /// Since when on which processor.
    running: Option<(Instant, u32)>,
    /// Why it will be no job.
    cut: Option<Why>,
}

/// Follows a thread.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    state: State,
    pub(crate) jobs: Vec<Job>,
    pub(crate) cuts: Vec<Cut>,
    pub(crate) wakeups: u64,
}

impl Follower {
    /// Follows a thread from this line on, which had so many wakeups before: under another name.
    pub(crate) fn after(wakeups: u64, line: usize) -> Self {
        let cuts = if wakeups > 0 { vec![Cut { line, why: Why::Begun, wakeups }] } else { Vec::new() };
        Follower { state: State::Unknown, jobs: Vec::new(), cuts, wakeups }
    }

    pub(crate) fn wakeup(&mut self, at: Instant) {
        self.wakeups += 1;
        match &mut self.state {
            State::Awake(piece) => piece.wakeups += 1,
            state => *state = State::Awake(Piece { wakeups: 1, ..Piece::at(at, None) }),
        }
    }

    pub(crate) fn switch_in(&mut self, at: Instant, cpu: u32) {
        let missing = self.missing();
        let mut piece = match self.state {
            State::Awake(piece) => piece,
            // It is not known which wakeup this is of.
            _ => Piece::at(at, Some(missing)),
        };
        if piece.running.is_some() {
            piece.cut = piece.cut.or(Some(Why::Contradiction));
        }
        piece.running = Some((at, cpu));
        self.state = State::Awake(piece);
    }

    pub(crate) fn switch_out(&mut self, at: Instant, cpu: u32, sleeps: bool, line: usize) {
        let missing = self.missing();
        let mut piece = match self.state {
            State::Awake(piece) => piece,
            _ => Piece::at(at, Some(missing)),
        };
        match piece.running.take() {
            Some((since, on)) if on == cpu => piece.execution += at.since(since).map_or(0, |ran| ran.ns()),
            _ => piece.cut = piece.cut.or(Some(Why::Contradiction)),
        }
        self.state = State::Awake(piece);
        if sleeps {
            self.end(line, Some(at), None);
            self.state = State::Asleep;
        }
    }

    /// Events are missing from `since` until now (`None`: from the beginning), so what ended meanwhile may be no job, and from here on
    /// nothing is known.
    pub(crate) fn doubt(&mut self, since: Option<Instant>, why: Why, line: usize) {
        let sure = since.map_or(0, |since| self.jobs.partition_point(|job| job.finish <= since));
        let doubtful = self.jobs.drain(sure..).map(|job| Cut { line, why, wakeups: job.wakeups });
        self.cuts.extend(doubtful);
        self.end(line, None, Some(why));
        self.state = State::Unknown;
    }

    /// The recording is over.
    pub(crate) fn over(&mut self, line: usize) {
        self.end(line, None, Some(Why::Unended));
        self.state = State::Unknown;
    }

    /// Ends the piece that goes on, if one does: as a job unless there is a reason why not.
    fn end(&mut self, line: usize, finish: Option<Instant>, why: Option<Why>) {
        let State::Awake(piece) = self.state else { return };
        match (piece.cut.or(why), finish) {
            (None, Some(finish)) => self.jobs.push(Job {
                release: piece.release,
                finish,
                execution: Duration::from_ns(piece.execution),
                wakeups: piece.wakeups,
            }),
            (why, _) => {
                self.cuts.push(Cut { line, why: why.unwrap_or(Why::Contradiction), wakeups: piece.wakeups });
            }
        }
    }

    /// Why the beginning of a piece is missing that was not seen to begin.
    fn missing(&self) -> Why {
        match self.state {
            State::Unknown if self.cuts.iter().all(|cut| cut.why == Why::Begun) && self.jobs.is_empty() => Why::Begun,
            State::Unknown => Why::Lost,
            _ => Why::Contradiction,
        }
    }
}

impl Piece {
    fn at(release: Instant, cut: Option<Why>) -> Piece {
        Piece { release, wakeups: 0, execution: 0, running: None, cut }
    }
}
