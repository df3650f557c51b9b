//! Many runs at once.

use crate::engine::simulate;
use crate::stats::Stats;
use crate::system::{Error, System};
use crate::trace::Unobserved;
use giusto_model::Duration;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

/// Does `work` for 0 to n − 1 on all processors of the machine. The results are in that order, whichever thread was faster; of
/// several errors the first in that order counts.
pub fn in_parallel<T: Send, E: Send>(n: usize, work: impl Fn(usize) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((0..n).map(|_| None).collect::<Vec<Option<Result<T, E>>>>());
    let worker = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= n {
            break;
        }
        let result = work(index);
        done.lock().expect("no worker panics while it holds this")[index] = Some(result);
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(n);
    thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(worker)));
    let done = done.into_inner().expect("a worker's panic has ended the scope");
    done.into_iter().map(|result| result.expect("all were done")).collect()
}

/// Plays `system` once for each seed, in parallel, and pools the statistics of each server. The same seeds give the same
/// numbers, whatever the machine. Errors: as [`simulate`].
pub fn simulate_seeds(system: &System, horizon: Duration, seeds: &[u64]) -> Result<Vec<Stats>, Error> {
    let runs = in_parallel(seeds.len(), |index| simulate(system, horizon, seeds[index], &mut Unobserved))?;
    let mut runs = runs.into_iter();
    let mut pooled = runs.next().unwrap_or_default();
    for run in runs {
        pooled.iter_mut().zip(&run).for_each(|(all, one)| all.merge(one));
    }
    Ok(pooled)
}
