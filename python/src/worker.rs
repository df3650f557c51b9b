//! Threads that compute beside Python. They are kept for the next question: to start one takes longer than most answers.
//!
//! A process that forks would inherit threads that do not run. So Python calls [`settle`] before it forks, and a thread that was
//! kept by another process is not asked (a fork that Python does not know of).

use pyo3::prelude::*;
use std::io;
use std::mem;
use std::process;
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::sync::{LazyLock, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Of a thread that computes: as much as the first one of a process has.
pub(crate) const STACK: usize = 8 << 20;
/// So many are kept: as many callers may ask at the same time without one being started.
const KEPT_AT_MOST: usize = 4;
/// How long a thread looks for a question without sleeping: longer than Python takes from one to the next, for waking it takes
/// as long as both.
const NEXT: Duration = Duration::from_micros(50);
/// How long a caller looks for the answer without sleeping: most are there by then.
pub(crate) const SOON: Duration = Duration::from_micros(500);
/// On one processor there is nothing to look for.
static LOOKS: LazyLock<bool> = LazyLock::new(|| thread::available_parallelism().is_ok_and(|count| count.get() > 1));

/// Work, which sends its result itself.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A thread that does one piece of work after the other. Dropped, it ends with the last one.
pub(crate) struct Worker {
    to: Sender<Job>,
    thread: JoinHandle<()>,
    /// Whose it is.
    process: u32,
}

/// Those that wait for work. Never waited for: who finds it locked does without.
static KEPT: Mutex<Vec<Worker>> = Mutex::new(Vec::new());

impl Worker {
    /// One that was kept, else a new one.
    pub(crate) fn get() -> io::Result<Worker> {
        while let Some(kept) = KEPT.try_lock().ok().and_then(|mut kept| kept.pop()) {
            if kept.process == process::id() {
                return Ok(kept);
            }
            // Its thread is in another process; to drop it could mean to wait for that.
            mem::forget(kept);
        }
        let (to, from) = channel();
        let thread = thread::Builder::new().name("giusto".into()).stack_size(STACK).spawn(move || work(&from))?;
        Ok(Worker { to, thread, process: process::id() })
    }

    pub(crate) fn does(&self, job: Job) {
        let _ = self.to.send(job); // where the thread has ended, the job's own sender ends with it
    }

    /// For the next question.
    pub(crate) fn keep(self) {
        if let Ok(mut kept) = KEPT.try_lock() {
            if kept.len() < KEPT_AT_MOST {
                kept.push(self);
            }
        }
    }
}

fn work(from: &Receiver<Job>) {
    loop {
        let next = match soon(from, NEXT) {
            Err(TryRecvError::Empty) => from.recv().ok(),
            other => other.ok(),
        };
        let Some(job) = next else { return };
        job();
    }
}

/// What comes within that time, without sleeping.
pub(crate) fn soon<T>(from: &Receiver<T>, within: Duration) -> Result<T, TryRecvError> {
    let until = Instant::now() + if *LOOKS { within } else { Duration::ZERO };
    loop {
        match from.try_recv() {
            Err(TryRecvError::Empty) if Instant::now() < until => std::hint::spin_loop(),
            other => return other,
        }
    }
}

/// Ends the threads that wait for work. What computes goes on.
#[pyfunction]
pub(crate) fn settle() {
    let kept = KEPT.try_lock().map_or_else(|_| Vec::new(), |mut kept| mem::take(&mut *kept));
    for worker in kept {
        if worker.process == process::id() {
            drop(worker.to);
            let _ = worker.thread.join(); // it has no result
        } else {
            mem::forget(worker);
        }
    }
}
