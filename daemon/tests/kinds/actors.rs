//! The processes of these tests: this program again, in a role.

use giusto_compute::sched;
use giusto_measure::steal;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{channel, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, hint};

/// A job as it is sent: when it comes and what it needs, in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) arrival: u64,
    pub(crate) demand: u64,
}

/// How a job server measures its demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Its thread's processor time. Each reading makes the kernel bring its account up to date, and so enforce at once.
    Own,
    /// Time passed, less the gaps: a workload that does not ask the kernel what it has used, as real ones do not.
    Wall,
}

/// A process in a role; killed and reaped at the end, and dead with its parent at the latest.
pub(crate) struct Actor {
    child: Child,
    lines: io::Lines<io::BufReader<ChildStdout>>,
}

impl Actor {
    fn new(words: &[String]) -> Actor {
        let parent = std::process::id();
        let mut command = Command::new(env::current_exe().unwrap());
        // SAFETY: prctl, getppid and _exit are async-signal-safe.
        unsafe {
            command.args(words).pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() as u32 != parent {
                    libc::_exit(1); // the parent died before prctl
                }
                Ok(())
            });
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = io::BufReader::new(child.stdout.take().unwrap()).lines();
        let mut actor = Actor { child, lines };
        assert_eq!(actor.lines.next().and_then(Result::ok).as_deref(), Some("ready"), "{words:?}");
        actor
    }

    /// Never rests from `at` on.
    pub(crate) fn hog(at: u64) -> Actor {
        Actor::new(&["hog".into(), at.to_string()])
    }

    /// Serves jobs first come, first served, one after the other; their arrivals count from `origin`.
    pub(crate) fn server(clock: Clock, origin: u64, jobs: &[Job]) -> Actor {
        let words = ["server".into(), format!("{clock:?}")];
        let jobs = jobs.iter().map(|job| format!("{}:{}", origin + job.arrival, job.demand));
        Actor::new(&words.into_iter().chain(jobs).collect::<Vec<_>>())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Of each job of a server: when it was done, and what was consumed for it; with [`Clock::Own`] also what waiting took.
    pub(crate) fn served(mut self) -> Vec<(u64, u64)> {
        let lines = std::iter::from_fn(|| self.lines.next().and_then(Result::ok));
        let number = |text: &str| text.parse().unwrap();
        lines.map(|line| line.split_once(' ').map(|(at, used)| (number(at), number(used))).unwrap()).collect()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays a role.
pub(crate) fn play(role: &str, words: &[String]) {
    // SAFETY: plain system calls. A page fault, or a timer that is late while the thread is an ordinary one, is not the server's.
    unsafe {
        libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
    match role {
        "hog" => {
            let at = words[0].parse().unwrap();
            ready();
            sleep_until(at);
            let end = Instant::now() + Duration::from_secs(60);
            while Instant::now() < end {
                hint::spin_loop();
            }
        }
        "server" => serve(words),
        other => panic!("no role {other}"),
    }
}

fn ready() {
    println!("ready");
    io::stdout().flush().unwrap();
}

fn serve(words: &[String]) {
    let number = |text: &str| text.parse::<u64>().unwrap();
    let jobs = words[1..].iter().map(|word| word.split_once(':').unwrap());
    let jobs: Vec<Job> = jobs.map(|(at, need)| Job { arrival: number(at), demand: number(need) }).collect();
    let mut done = Vec::with_capacity(jobs.len());
    let own = words[0] == "Own";
    ready();
    let mut before = used();
    for job in jobs {
        if monotonic() < job.arrival {
            sleep_until(job.arrival);
        }
        if own {
            let end = used() + job.demand;
            while used() < end {}
            let after = used();
            done.push((monotonic(), after - before));
            before = after;
        } else {
            let worked = work(job.demand);
            done.push((monotonic(), worked));
        }
    }
    for (at, used) in done {
        println!("{at} {used}");
    }
}

/// Runs for `ns`, without asking the kernel; how long it ran.
fn work(ns: u64) -> u64 {
    /// No step is longer but where somebody else ran.
    const GAP: u64 = 50_000;
    let (mut done, mut last) = (0, monotonic());
    while done < ns {
        let now = monotonic();
        done += if now - last < GAP { now - last } else { 0 };
        last = now;
    }
    done
}

fn clock(which: rustix::time::ClockId) -> u64 {
    let now = rustix::time::clock_gettime(which);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub(crate) fn monotonic() -> u64 {
    clock(rustix::time::ClockId::Monotonic)
}

fn used() -> u64 {
    clock(rustix::time::ClockId::ThreadCPUTime)
}

pub(crate) fn sleep_until(at: u64) {
    let wake = libc::timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
    // SAFETY: plain system call; interrupted, it is made again.
    let sleep =
        || unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &wake, std::ptr::null_mut()) };
    while sleep() == libc::EINTR {}
}

/// Looks from another core when processor time of this one was stolen.
pub(crate) struct Watch {
    end: Sender<()>,
    thread: JoinHandle<Vec<(u64, u64)>>,
}

/// Between two looks at what was stolen, in ns.
const LOOK: u64 = 5_000_000;

impl Watch {
    pub(crate) fn new(core: u32) -> Watch {
        let (end, ended) = channel();
        let look = move || {
            let mut stolen = Vec::new();
            let mut before = (monotonic(), steal(&[core]).unwrap()[0].steal_ns);
            while ended
                .recv_timeout(Duration::from_nanos(LOOK))
                .is_err_and(|why| why == std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                let now = (monotonic(), steal(&[core]).unwrap()[0].steal_ns);
                if now.1 > before.1 {
                    stolen.push((before.0, now.0));
                }
                before = now;
            }
            stolen
        };
        Watch { end, thread: thread::spawn(look) }
    }

    /// The windows in which something was stolen.
    pub(crate) fn stolen(self) -> Vec<(u64, u64)> {
        let _ = self.end.send(());
        self.thread.join().unwrap()
    }
}

/// Binds an ordinary process to a core; it ends with its test, so nothing has to be recorded.
pub(crate) fn bound(actor: Actor, core: u32) -> Actor {
    sched::set_affinity(actor.pid(), &[core]).unwrap();
    actor
}
