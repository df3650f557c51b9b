//! The processes of these tests: this program again, in a role.

use giusto_compute::sched;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{env, thread};

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

/// What a server did: of each job when it was done, and what the kernel charged for it, waiting included.
pub(crate) type Served = Vec<(u64, u64)>;
/// When a process did not run, in ns of CLOCK_MONOTONIC.
pub(crate) type Away = Vec<(u64, u64)>;

/// A process in a role; killed and reaped at the end, and dead with its parent at the latest.
pub(crate) struct Actor {
    child: Child,
    asked: Option<ChildStdin>,
    lines: io::Lines<io::BufReader<ChildStdout>>,
    done: Served,
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
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (asked, lines) = (child.stdin.take(), io::BufReader::new(child.stdout.take().unwrap()).lines());
        let mut actor = Actor { child, asked, lines, done: Served::new() };
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

    /// Waits until a server has served all its jobs.
    pub(crate) fn wait(&mut self) {
        self.done = self.pairs("done");
    }

    /// What a server did.
    pub(crate) fn served(mut self) -> (Served, Away) {
        (std::mem::take(&mut self.done), self.pairs("away"))
    }

    /// Ends a hog.
    pub(crate) fn away(mut self) -> Away {
        drop(self.asked.take());
        self.pairs("away")
    }

    /// Its next line, which begins with `what`.
    fn pairs(&mut self, what: &str) -> Vec<(u64, u64)> {
        let line = self.lines.next().and_then(Result::ok).unwrap_or_default();
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some(what), "it has died");
        let pair = |word: &str| word.split_once(':').map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap())).unwrap();
        words.map(pair).collect()
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
            static ASKED: AtomicBool = AtomicBool::new(false);
            thread::spawn(|| (io::stdin().read_to_end(&mut Vec::new()), ASKED.store(true, Relaxed)));
            let mut presence = Presence::new();
            ready();
            sleep_until(words[0].parse().unwrap());
            while !ASKED.load(Relaxed) {
                presence.look();
            }
            tell("away", &presence.away);
        }
        "server" => serve(words),
        other => panic!("no role {other}"),
    }
}

fn ready() {
    println!("ready");
    io::stdout().flush().unwrap();
}

fn tell(what: &str, pairs: &[(u64, u64)]) {
    let pairs: String = pairs.iter().map(|(a, b)| format!(" {a}:{b}")).collect();
    println!("{what}{pairs}");
}

/// When this thread runs, by looking often.
struct Presence {
    last: u64,
    away: Away,
}

impl Presence {
    fn new() -> Presence {
        Presence { last: monotonic(), away: Vec::with_capacity(10_000) }
    }

    /// What it has run since it looked last, in ns: nothing, if it was away in between.
    fn look(&mut self) -> u64 {
        /// Two looks lie further apart only where another thread ran.
        const GAP: u64 = 50_000;
        let now = monotonic();
        let last = std::mem::replace(&mut self.last, now);
        if now - last < GAP {
            return now - last;
        }
        self.away.push((last, now));
        0
    }
}

fn serve(words: &[String]) {
    let number = |text: &str| text.parse::<u64>().unwrap();
    let jobs = words[1..].iter().map(|word| word.split_once(':').unwrap());
    let jobs: Vec<Job> = jobs.map(|(at, need)| Job { arrival: number(at), demand: number(need) }).collect();
    let mut done = Vec::with_capacity(jobs.len());
    let own = words[0] == "Own";
    let mut presence = Presence::new();
    ready();
    let mut before = used();
    for job in jobs {
        if monotonic() < job.arrival {
            sleep_until(job.arrival);
        }
        presence.look();
        if own {
            let end = used() + job.demand;
            while used() < end {
                presence.look();
            }
        } else {
            // Without asking the kernel.
            let mut worked = 0;
            while worked < job.demand {
                worked += presence.look();
            }
        }
        // What the kernel has charged, which is more than was worked where the machine took the core for a while. That it brings
        // its account up to date here changes nothing, as the sleep that follows would.
        let (end, after) = (monotonic(), used());
        done.push((end, after - before));
        before = after;
    }
    tell("done", &done);
    tell("away", &presence.away);
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

/// Binds an ordinary process to a core; it ends with its test, so nothing has to be recorded.
pub(crate) fn bound(actor: Actor, core: u32) -> Actor {
    sched::set_affinity(actor.pid(), &[core]).unwrap();
    actor
}
