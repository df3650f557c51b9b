//! Work beside Python: without the GIL, on another thread, ended by Ctrl-C.

use crate::error::failed;
use crate::worker::{soon, Job, Worker, SOON, STACK};
use giusto_simulator::Error;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How often signals are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Whether to go on.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// The caller wants no result any more.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    /// What ends a simulation when it is.
    pub(crate) fn go_on(&self) -> Result<(), Error> {
        match self.is_set() {
            true => Err(Error::Write("the simulation was interrupted".into())),
            false => Ok(()),
        }
    }
}

/// Does `work` on another thread without the GIL. A signal that raises in Python (Ctrl-C) sets `stop` and ends the wait at
/// once; what does not look at `stop` goes on until it is done, and its result is lost.
pub(crate) fn beside<T: Send + 'static>(
    py: Python<'_>,
    stop: &Stop,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    watched(py, stop, work, |_| Ok(()))
}

/// The same; `look` is called with the GIL whenever signals are looked at.
pub(crate) fn watched<T: Send + 'static>(
    py: Python<'_>,
    stop: &Stop,
    work: impl FnOnce() -> T + Send + 'static,
    mut look: impl FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<T> {
    let (to, from) = channel();
    let job: Job = Box::new(move || {
        let _ = to.send(work()); // the receiver is only gone where the caller was interrupted
    });
    // Only this thread asks; a receiver alone may not be shown to a closure that runs without the GIL.
    let from = Mutex::new(from);
    let begin = || {
        let worker = Worker::get()?;
        worker.does(job);
        Ok((worker, from.lock().map_or(Err(TryRecvError::Disconnected), |from| soon(&from, SOON))))
    };
    let (worker, first) = py.detach(begin).map_err(|error: std::io::Error| failed(error))?;
    if let Ok(result) = first {
        worker.keep();
        return Ok(result);
    }
    let wait = || from.lock().map_or(Err(RecvTimeoutError::Disconnected), |from| from.recv_timeout(LOOK));
    loop {
        match py.detach(wait) {
            Ok(result) => {
                worker.keep();
                return Ok(result);
            }
            Err(RecvTimeoutError::Disconnected) => return Err(failed("the computation broke off")),
            Err(RecvTimeoutError::Timeout) => {
                // Who is interrupted leaves the thread to itself: it ends with its work.
                if let Err(interrupted) = py.check_signals().and_then(|()| look(py)) {
                    stop.set();
                    return Err(interrupted);
                }
            }
        }
    }
}

/// Does `work` for 0 to n − 1 on so many threads (0: one a processor), until `stop` is set; `done` counts. In their order.
pub(crate) fn each<T: Send>(
    n: usize,
    threads: usize,
    stop: &Stop,
    done: &AtomicUsize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<Option<T>> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads == 0 { processors } else { threads }.clamp(1, n.max(1));
    let next = AtomicUsize::new(0);
    let part = || {
        let mut own = Vec::new();
        while !stop.is_set() {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= n {
                break;
            }
            own.push((nth, work(nth)));
            done.fetch_add(1, Ordering::Relaxed);
        }
        own
    };
    let parts: Vec<Vec<(usize, T)>> = thread::scope(|scope| {
        let build = || thread::Builder::new().stack_size(STACK).spawn_scoped(scope, part);
        // Who cannot be started leaves its part to the others.
        let started: Vec<_> = (1..threads).filter_map(|_| build().ok()).collect();
        let own = part();
        let others = started.into_iter().filter_map(|thread| thread.join().ok());
        std::iter::once(own).chain(others.collect::<Vec<_>>()).collect()
    });
    let mut all: Vec<Option<T>> = (0..n).map(|_| None).collect();
    for (nth, result) in parts.into_iter().flatten() {
        all[nth] = Some(result);
    }
    all
}
