//! `giusto-workers COUNT WCET/PERIOD`: an engine that works in micro-batches, as Spark Streaming does in local mode [LiH21, §
//! 3.4.3]. Its main thread begins a batch each period, which all workers, threads named `worker-0`, `worker-1` and so on,
//! share; each takes so much processor time of it.
//!
//! It prints a line a batch: `batch NUMBER: NS of worker 0, NS of worker 1, ...`, from its begin to the end of each one's part.

use giusto_model::Task;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{clock_gettime, ClockId, Timespec};
use std::process::ExitCode;
use std::sync::mpsc::{channel, Sender};
use std::thread::Builder;

const USAGE: &str = "expected a number of workers and what each does, such as 4 700ms/1s";

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Takes so much processor time.
fn work(ns: u64) {
    let end = read(ClockId::ThreadCPUTime) + ns;
    while read(ClockId::ThreadCPUTime) < end {
        std::hint::spin_loop();
    }
}

fn parsed(words: &[String]) -> Result<(usize, Task), String> {
    let [count, task] = words else { return Err(USAGE.into()) };
    let count = count.parse().ok().filter(|count| (1..=256).contains(count)).ok_or(USAGE)?;
    Ok((count, task.parse().map_err(|why| format!("'{task}': {why}"))?))
}

fn serve(count: usize, task: &Task) -> std::io::Result<()> {
    // As in giusto-loop: wake-ups and reading clocks take some, too.
    let takes = task.wcet.ns() * 19 / 20;
    let (tell, told) = channel();
    let mut workers: Vec<Sender<()>> = Vec::new();
    for number in 0..count {
        let (begin, begins) = channel();
        let tell = tell.clone();
        Builder::new().name(format!("worker-{number}")).spawn(move || {
            while begins.recv().is_ok() {
                work(takes);
                let _ = tell.send((number, read(ClockId::Monotonic)));
            }
        })?;
        workers.push(begin);
    }
    let mut at = read(ClockId::Monotonic);
    for batch in 0u64.. {
        at += task.period.ns();
        let until = Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
        workers.iter().for_each(|worker| _ = worker.send(()));
        let mut ends = vec![at; count];
        told.iter().take(count).for_each(|(number, end)| ends[number] = end);
        let each: Vec<String> =
            ends.iter().enumerate().map(|(number, end)| format!("{} of worker {number}", end - at)).collect();
        println!("batch {batch}: {}", each.join(", "));
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = parsed(&words).map(|(count, task)| serve(count, &task));
    match done {
        Err(why) => {
            eprintln!("giusto-workers: {why}");
            ExitCode::from(2)
        }
        Ok(Err(why)) => {
            eprintln!("giusto-workers: {why}");
            ExitCode::from(4)
        }
        Ok(Ok(())) => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_does_not_understand_it_refuses() {
        let words = |words: &[&str]| parsed(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>());
        assert!(words(&["2", "200ms/1s"]).is_ok());
        for wrong in [&[][..], &["2"], &["0", "1ms/2ms"], &["257", "1ms/2ms"], &["2", "3ms/2ms"], &["x", "1ms/2ms"]] {
            assert!(words(wrong).is_err(), "{wrong:?}");
        }
    }
}
