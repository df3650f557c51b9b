//! `giusto-loop ORDER NAME=WCET/PERIOD[@DEADLINE] ...`: a synthetic control loop. One thread takes processor time as these
//! periodic tasks would, all
//! released together one second after its start. ORDER is that of its jobs: `fifo`, each to its end; or `rm`, `dm`, `edf`,
//! preemptive.
//!
//! Its memory is locked, as a page that has to come back from a disk would make a job late.
//!
//! It tells of each late job at once (`late NAME at SECONDS: ...`, on CLOCK_MONOTONIC, when the job ended), and of all jobs when
//! it is ended by SIGTERM or SIGINT (`NAME: JOBS jobs, LATE late, longest response ...`).

use giusto_model::{Duration, Task};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{clock_gettime, ClockId, Timespec};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

const USAGE: &str = "expected an order (fifo, rm, dm or edf) and tasks such as pid=1ms/10ms or pid=1ms/10ms@8ms";
/// From its start to the first release.
const BEFORE_NS: u64 = 1_000_000_000;
static ENDED: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy)]
enum Order {
    Fifo,
    Rm,
    Dm,
    Edf,
}

/// A task and its oldest job that is not done. Times are ns, instants on CLOCK_MONOTONIC.
struct Periodic {
    name: String,
    /// What a job takes: 95 % of the declared execution time, as wake-ups and reading clocks take some, too.
    takes: u64,
    period: u64,
    deadline: u64,
    release: u64,
    left: u64,
    jobs: u64,
    late: u64,
    longest: u64,
}

impl Periodic {
    fn of(name: &str, task: &Task, release: u64) -> Self {
        let takes = task.wcet.ns() * 19 / 20;
        let (period, deadline) = (task.period.ns(), task.deadline.ns());
        Self { name: name.into(), takes, period, deadline, release, left: takes, jobs: 0, late: 0, longest: 0 }
    }

    /// Less is served first.
    fn key(&self, order: Order) -> u64 {
        match order {
            Order::Fifo => self.release,
            Order::Rm => self.period,
            Order::Dm => self.deadline,
            Order::Edf => self.release + self.deadline,
        }
    }

    /// The job is done: its response time, if it was late. The next one is a period later.
    fn done(&mut self, now: u64) -> Option<u64> {
        let response = now - self.release;
        let late = response > self.deadline;
        (self.jobs, self.late, self.longest) = (self.jobs + 1, self.late + u64::from(late), self.longest.max(response));
        (self.release, self.left) = (self.release + self.period, self.takes);
        late.then_some(response)
    }
}

/// Whose job is served at that time; of equals the first. O(n).
fn first(tasks: &[Periodic], order: Order, now: u64) -> Option<usize> {
    let released = tasks.iter().enumerate().filter(|(_, task)| task.release <= now);
    released.min_by_key(|(_, task)| task.key(order)).map(|(index, _)| index)
}

/// When another job may come first: the next release after `now`.
fn next(tasks: &[Periodic], now: u64) -> u64 {
    tasks.iter().map(|task| task.release).filter(|release| *release > now).min().unwrap_or(u64::MAX)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn serve(tasks: &mut [Periodic], order: Order) {
    while !ENDED.load(Ordering::Relaxed) {
        let now = read(ClockId::Monotonic);
        let until = next(tasks, now);
        let Some(index) = first(tasks, order, now) else {
            let at = Timespec { tv_sec: (until / 1_000_000_000) as i64, tv_nsec: (until % 1_000_000_000) as i64 };
            let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at); // a signal ends it early
            continue;
        };
        let task = &mut tasks[index];
        let begun = read(ClockId::ThreadCPUTime);
        let (mut took, mut now) = (0, now);
        while took < task.left && (matches!(order, Order::Fifo) || now < until) {
            std::hint::spin_loop();
            (took, now) = (read(ClockId::ThreadCPUTime) - begun, read(ClockId::Monotonic));
        }
        task.left = task.left.saturating_sub(took);
        if task.left > 0 {
            continue;
        }
        if let Some(response) = task.done(now) {
            let (response, deadline) = (Duration::from_ns(response), Duration::from_ns(task.deadline));
            println!("late {} at {:.6}: {response}, due in {deadline}", task.name, now as f64 / 1e9);
        }
    }
}

fn parsed(words: &[String]) -> Result<(Order, Vec<Periodic>), String> {
    let [order, tasks @ ..] = words else { return Err(USAGE.into()) };
    let order = match order.as_str() {
        "fifo" => Order::Fifo,
        "rm" => Order::Rm,
        "dm" => Order::Dm,
        "edf" => Order::Edf,
        other => return Err(format!("'{other}': {USAGE}")),
    };
    let release = read(ClockId::Monotonic) + BEFORE_NS;
    let task = |word: &String| {
        let (name, task) = word.split_once('=').ok_or(format!("'{word}': {USAGE}"))?;
        let task = task.parse().map_err(|why| format!("'{word}': {why}"))?;
        Ok(Periodic::of(name, &task, release))
    };
    let tasks = tasks.iter().map(task).collect::<Result<Vec<_>, String>>()?;
    if tasks.is_empty() {
        return Err(USAGE.into());
    }
    Ok((order, tasks))
}

extern "C" fn end(_: libc::c_int) {
    ENDED.store(true, Ordering::Relaxed);
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (order, mut tasks) = match parsed(&words) {
        Ok(parsed) => parsed,
        Err(why) => {
            eprintln!("giusto-loop: {why}");
            return ExitCode::from(2);
        }
    };
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::signal(signal, end as *const () as libc::sighandler_t) };
    }
    // SAFETY: plain system call.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
        eprintln!(
            "giusto-loop: its memory cannot be locked ({}), jobs may wait for a disk",
            std::io::Error::last_os_error()
        );
    }
    serve(&mut tasks, order);
    for Periodic { name, jobs, late, longest, deadline, .. } in &tasks {
        let (longest, deadline) = (Duration::from_ns(*longest), Duration::from_ns(*deadline));
        println!("{name}: {jobs} jobs, {late} late, longest response {longest}, due in {deadline}");
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves them in virtual time, where nothing else runs: names in the order in which jobs end, with their response times
    /// in ms.
    fn served(order: &str, tasks: &[&str], until_ms: u64) -> Vec<(String, u64)> {
        let words: Vec<String> = [order].iter().chain(tasks).map(|word| word.to_string()).collect();
        let (order, mut tasks) = parsed(&words).unwrap();
        for task in &mut tasks {
            (task.release, task.takes, task.left) = (0, task.takes * 20 / 19, task.takes * 20 / 19);
        }
        let (mut now, mut ended) = (0, Vec::new());
        while now < until_ms * 1_000_000 {
            let until = next(&tasks, now);
            let Some(index) = first(&tasks, order, now) else {
                now = until;
                continue;
            };
            let task = &mut tasks[index];
            let took = if matches!(order, Order::Fifo) { task.left } else { task.left.min(until - now) };
            (now, task.left) = (now + took, task.left - took);
            if task.left == 0 {
                let response = now - task.release;
                task.done(now);
                ended.push((task.name.clone(), response / 1_000_000));
            }
        }
        ended
    }

    fn named(ended: &[(&str, u64)]) -> Vec<(String, u64)> {
        ended.iter().map(|(name, response)| (name.to_string(), *response)).collect()
    }

    #[test]
    fn jobs_are_served_in_their_order() {
        // The long one, released first in the list, is interrupted at 10 ms by the short one, or is not.
        let tasks = ["long=12ms/40ms", "short=2ms/10ms"];
        let rm = [("short", 2), ("short", 2), ("long", 16)];
        assert_eq!(served("rm", &tasks, 16), named(&rm));
        assert_eq!(served("dm", &tasks, 16), named(&rm));
        assert_eq!(served("fifo", &tasks, 16), named(&[("long", 12), ("short", 14), ("short", 6)]));
        // At 10 ms the long one's deadline is the earlier one.
        assert_eq!(
            served("edf", &["long=12ms/40ms@15ms", "short=2ms/10ms"], 16)[..2],
            named(&[("short", 2), ("long", 14)])[..]
        );
    }

    #[test]
    fn a_late_job_is_counted_and_the_next_one_is_due_a_period_after_its_release() {
        let (_, mut tasks) = parsed(&["fifo".into(), "task=2ms/10ms@5ms".into()]).unwrap();
        let task = &mut tasks[0];
        let release = task.release;
        assert_eq!(task.done(release + 5_000_000), None);
        assert_eq!(task.done(release + 10_000_000 + 5_000_001), Some(5_000_001));
        assert_eq!((task.jobs, task.late, task.longest, task.release), (2, 1, 5_000_001, release + 20_000_000));
    }

    #[test]
    fn what_it_does_not_understand_it_refuses() {
        for words in [&[][..], &["fifo"], &["lifo", "task=1ms/2ms"], &["rm", "1ms/2ms"], &["rm", "task=3ms/2ms"]] {
            assert!(parsed(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>()).is_err(), "{words:?}");
        }
    }
}
