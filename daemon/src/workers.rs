//! Which worker of a service with copies is which: threads by their names, each with one copy as long as it lives.

use giusto_compute::sched::{self, Thread};
use giusto_model::Copies;
use std::collections::BTreeMap;
use std::fs;

/// The workers of one service, and the copy of each.
#[derive(Default)]
pub(crate) struct Workers(BTreeMap<Thread, u32>);

impl Workers {
    /// The threads of `processes` that are served by copy `copy`: its workers; of the first one also all that are no workers.
    pub(crate) fn of(&mut self, processes: &[u32], copies: &Copies, copy: u32) -> Vec<u32> {
        let all: Vec<Thread> = processes.iter().flat_map(|&pid| sched::threads(pid)).filter_map(Thread::of).collect();
        let name = |tid: u32| fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
        let is_worker = |thread: &&Thread| copies.has_thread(name(thread.tid).trim_end_matches('\n'));
        let workers: Vec<Thread> = all.iter().filter(is_worker).copied().collect();
        self.assign(&workers, copies.count);
        let own = |thread: &&Thread| self.0.get(thread).map_or(copy == 0, |of| *of == copy);
        all.iter().filter(own).map(|thread| thread.tid).collect()
    }

    /// Those that are new go to the copy with fewest, the first of these.
    fn assign(&mut self, workers: &[Thread], count: u32) {
        self.0.retain(|thread, _| workers.contains(thread));
        for worker in workers {
            if !self.0.contains_key(worker) {
                let has = |copy: &u32| self.0.values().filter(|of| *of == copy).count();
                let fewest = (0..count).min_by_key(has).unwrap_or(0);
                self.0.insert(*worker, fewest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads of this process, which live as long as what is returned.
    fn threads(count: usize) -> (Vec<Thread>, Vec<std::sync::mpsc::Sender<()>>) {
        let start = |_| {
            let (tell, told) = std::sync::mpsc::channel();
            let (keep, ended) = std::sync::mpsc::channel::<()>();
            std::thread::spawn(move || {
                tell.send(Thread::of(rustix::thread::gettid().as_raw_nonzero().get() as u32)).unwrap();
                let _ = ended.recv();
            });
            (told.recv().unwrap().unwrap(), keep)
        };
        (0..count).map(start).unzip()
    }

    #[test]
    fn each_worker_keeps_its_copy_and_new_ones_go_where_fewest_are() {
        let (all, _keep) = threads(7);
        let mut workers = Workers::default();
        workers.assign(&all[..4], 2);
        let of = |workers: &Workers, nth: usize| workers.0.get(&all[nth]).copied();
        let first: Vec<_> = (0..4).map(|nth| of(&workers, nth)).collect();
        assert_eq!(first, [Some(0), Some(1), Some(0), Some(1)]);
        // Two of copy 0 end, three begin.
        let left = [all[1], all[3], all[4], all[5], all[6]];
        workers.assign(&left, 2);
        assert_eq!([1, 3].map(|nth| of(&workers, nth)), [Some(1), Some(1)]);
        let counts = [0, 1].map(|copy| workers.0.values().filter(|of| **of == copy).count());
        assert_eq!((counts, workers.0.len()), ([3, 2], 5));
    }

    #[test]
    fn threads_that_are_no_workers_are_with_the_first_copy() {
        let named = std::thread::Builder::new().name("giusto-worker".into());
        let (keep, ended) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        named
            .spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
                let _ = ended.recv();
            })
            .unwrap();
        let worker = told.recv().unwrap();
        let copies = Copies { count: 2, threads: Some("giusto-work*".into()) };
        let (mut workers, own) = (Workers::default(), [std::process::id()]);
        let [first, second] = [0, 1].map(|copy| workers.of(&own, &copies, copy));
        assert!(first.contains(&worker) && first.contains(&std::process::id()) && second.is_empty());
        drop(keep);
    }
}
