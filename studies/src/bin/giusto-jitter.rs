//! `giusto-jitter CPU COUNT`: what the synthetic studies are calibrated with. Prints, as JSON, how much processor time the
//! same work takes from job to job on this machine, and what it costs to switch between two threads of a core. Root; the core
//! should have nothing else to do.

use rustix::time::{clock_gettime, ClockId};
use std::hint::black_box;
use std::io::{pipe, Read, Write};
use std::process::ExitCode;

/// What a job is to take, about.
const JOB_NS: u64 = 10_000_000;
/// Quantiles that are told, evenly spaced.
const QUANTILES: usize = 200;
const PRIORITY: u8 = 40;
const SWITCHES: u64 = 20_000;

fn main() -> ExitCode {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [cpu, count] = numbers[..] else {
        eprintln!("giusto-jitter: expected a core and how many jobs");
        return ExitCode::from(2);
    };
    let pinned = rustix::thread::sched_setaffinity(None, &{
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        set
    });
    let fifo = libc::sched_param { sched_priority: i32::from(PRIORITY) };
    // SAFETY: of this thread, and the parameters outlive the call.
    let first = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &fifo) };
    if let (Err(_), _) | (_, 1.. | ..=-1) = (pinned, first) {
        eprintln!("giusto-jitter: it takes root, and a core of this machine");
        return ExitCode::from(3);
    }
    match (jobs(count), switch()) {
        (ppm, Ok(ns)) => println!("{{\"switch_ns\": {ns}, \"job_ns\": {JOB_NS}, \"jobs\": {count}, \"ppm\": {ppm:?}}}"),
        (_, Err(why)) => {
            eprintln!("giusto-jitter: {why}");
            return ExitCode::from(4);
        }
    }
    ExitCode::SUCCESS
}

fn used() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn work(rounds: u64) {
    let mut sum = 1u64;
    (0..rounds).for_each(|round| sum = black_box(sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round)));
}

/// Processor times of the same work, over the median, in millionths, at evenly spaced quantiles.
fn jobs(count: usize) -> Vec<u64> {
    let time = |rounds| {
        let before = used();
        work(rounds);
        used() - before
    };
    let probe = 1 << 20;
    let rounds = probe * JOB_NS / (0..10).map(|_| time(probe)).min().unwrap_or(1).max(1);
    let mut all: Vec<u64> = (0..count)
        .map(|_| {
            // A real-time thread that never rests is stopped by the kernel.
            std::thread::sleep(std::time::Duration::from_millis(2));
            time(rounds)
        })
        .collect();
    all.sort_unstable();
    let median = all[all.len() / 2].max(1);
    (0..QUANTILES).map(|k| all[(2 * k + 1) * all.len() / (2 * QUANTILES)] * 1_000_000 / median).collect()
}

/// Of a thread for another, by two that wake each other.
fn switch() -> std::io::Result<u64> {
    let ((mut there, mut tell), (mut back, mut answer)) = (pipe()?, pipe()?);
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let mut byte = [0];
        for _ in 0..SWITCHES {
            there.read_exact(&mut byte)?;
            answer.write_all(&byte)?;
        }
        Ok(())
    });
    let (mut byte, begin) = ([0], std::time::Instant::now());
    for _ in 0..SWITCHES {
        tell.write_all(&byte)?;
        back.read_exact(&mut byte)?;
    }
    let ns = begin.elapsed().as_nanos() as u64 / (2 * SWITCHES);
    echo.join().map_err(|_| std::io::Error::other("the other thread ended"))??;
    Ok(ns)
}
