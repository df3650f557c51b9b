//! The policy core as the kernel's scheduler (bpf/servers.bpf.c): loaded, told what to do, ended.
//!
//! A program of its own loads it, `giusto-kernel` (../kernel/main.c), and has its orders as lines. It lasts as long as
//! [`Scheduler`]: when that is dropped, or this process or that program dies, the kernel puts all threads into the fair class at
//! once, which keep SCHED_EXT as their policy.

pub(crate) mod btf;

use crate::sched::Thread;
use crate::Error;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

/// The policy of threads that such a scheduler schedules (include/uapi/linux/sched.h).
pub(crate) const EXT: u32 = 7;
/// Servers that a pool may have: each has a queue, which is made when the scheduler is loaded (../kernel/main.c).
pub(crate) const SERVERS: u32 = 256;
const PROGRAM: &str = "giusto-kernel";
/// The first line of the program: its version of what is said here.
const READY: &str = "ready 1";
/// How long an answer may take; the first comes when the kernel has verified the scheduler: half a second on a machine, seconds
/// on an emulated one. More than what the program grants an order, less than what a watchdog grants the main thread.
const PATIENCE: Duration = Duration::from_secs(15);

/// Functions of the kernel that the scheduler calls, and how many parameters each has.
pub(crate) const CALLED: [(&str, u32); 7] = [
    ("scx_bpf_create_dsq", 2),
    ("scx_bpf_dsq_insert", 4),
    ("scx_bpf_dsq_move_to_local", 1),
    ("scx_bpf_dsq_nr_queued", 1),
    ("scx_bpf_kick_cpu", 2),
    ("scx_bpf_task_cpu", 1),
    ("scx_bpf_task_set_slice", 2),
];

/// What of `struct gi_call` (policy/call.h) is ordered.
#[derive(Clone, Copy, Default)]
pub(crate) struct Call {
    pub(crate) index: u32,
    pub(crate) budget: u64,
    pub(crate) period: u64,
    pub(crate) flag: u32,
}

/// `enum gi_op`, as far as it is ordered.
#[derive(Clone, Copy)]
pub(crate) enum Op {
    Add = 1,
    Set = 2,
    Remove = 11,
}

/// A scheduler that is loaded, with a pool of one core for each of these.
pub(crate) struct Scheduler {
    loader: Child,
    lines: RefCell<Lines>,
    cores: Vec<u32>,
    /// How often the kernel had enabled a scheduler when this one was.
    enabled: String,
}

struct Lines {
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Lines that were asked.
    asked: u64,
    /// Why no answer can be believed any more: a later one might be that to an earlier question.
    broken: Option<String>,
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = self.loader.kill();
        let _ = self.loader.wait();
    }
}

/// What a file of /sys/kernel/sched_ext says; empty: it is not there.
pub(crate) fn told(file: &str) -> String {
    fs::read_to_string(format!("/sys/kernel/sched_ext/{file}")).unwrap_or_default().trim().to_string()
}

/// Whether the scheduler that is enabled is one of Giusto's.
pub(crate) fn is_enabled() -> bool {
    told("state") == "enabled" && told("root/ops").starts_with("giusto")
}

/// The program that loads it, beside this one.
pub(crate) fn program() -> Option<PathBuf> {
    let beside = env::current_exe().ok()?.parent()?.join(PROGRAM);
    beside.exists().then_some(beside)
}

impl Lines {
    fn line(&mut self) -> io::Result<String> {
        let until = Instant::now() + PATIENCE;
        while self.answers.buffer().is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match poll(&mut [PollFd::new(self.answers.get_ref(), PollFlags::IN)], Some(&left)) {
                Ok(0) => return Err(io::Error::other(format!("has not answered for {} s", PATIENCE.as_secs()))),
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(io::Error::other(format!("has ended; sched_ext is {}", told("state"))));
        }
        Ok(line.trim().to_string())
    }

    /// What it answers to a line. After anything but an answer to this one nothing is asked any more.
    fn ask(&mut self, line: &str) -> io::Result<i64> {
        if let Some(why) = &self.broken {
            return Err(io::Error::other(why.clone()));
        }
        self.asked += 1;
        let (number, said) = (self.asked, writeln!(self.asks, "{} {line}", self.asked).and_then(|()| self.line()));
        let said = said.map_err(|why| why.to_string()).and_then(|said| match said.split_once(' ') {
            Some((own, rest)) if own == number.to_string() => match rest.strip_prefix("failed: ") {
                Some(why) => Ok(Err(why.to_string())),
                None => rest.parse().map(Ok).map_err(|_| format!("says '{rest}', not a number")),
            },
            _ => Err(format!("says '{said}' to question {number}")),
        });
        match said {
            Ok(answer) => answer.map_err(io::Error::other),
            Err(why) => Err(io::Error::other(self.broken.insert(format!("{PROGRAM} {why}")).clone())),
        }
    }
}

impl Scheduler {
    /// Loads it for these cores, with empty pools in the order of deadlines.
    pub(crate) fn load(cores: &[u32]) -> Result<Scheduler, Error> {
        let failed = |why: io::Error| Error::Kernel {
            doing: "load the scheduler of backend kernel".into(),
            why: why.to_string(),
        };
        let program = program().ok_or_else(|| failed(io::Error::other(format!("{PROGRAM} is not beside giusto"))))?;
        Scheduler::start(&program, cores).map_err(failed)
    }

    fn start(program: &Path, cores: &[u32]) -> io::Result<Scheduler> {
        let mut command = Command::new(program);
        command.args(cores.iter().map(u32::to_string)).stdin(Stdio::piped()).stdout(Stdio::piped());
        // What a terminal sends to Giusto's processes is Giusto's to follow.
        let mut loader = command.process_group(0).spawn()?;
        let (asks, answers) = loader.stdin.take().zip(loader.stdout.take()).ok_or(io::ErrorKind::BrokenPipe)?;
        let lines = Lines { asks, answers: BufReader::new(answers), asked: 0, broken: None };
        let mut scheduler =
            Scheduler { loader, lines: RefCell::new(lines), cores: cores.to_vec(), enabled: String::new() };
        let said = scheduler.lines.borrow_mut().line().map_err(|why| io::Error::other(format!("{PROGRAM} {why}")))?;
        match said.strip_prefix("failed: ") {
            Some(why) => return Err(io::Error::other(why.to_string())),
            None if said == READY => {}
            None => return Err(io::Error::other(format!("{PROGRAM} says '{said}', not '{READY}'; build it anew"))),
        }
        scheduler.enabled = told("enable_seq");
        Ok(scheduler)
    }

    /// Why it no longer schedules, if so.
    pub(crate) fn lost(&mut self) -> Option<String> {
        if let Ok(Some(status)) = self.loader.try_wait() {
            return Some(format!("{PROGRAM} has ended ({status})"));
        }
        if let Some(why) = &self.lines.borrow().broken {
            return Some(why.clone());
        }
        let thrown_out = || format!("sched_ext is {}: the kernel has thrown it out; see dmesg", told("state"));
        (!is_enabled() || told("enable_seq") != self.enabled).then(thrown_out)
    }

    fn pool(&self, core: u32) -> Option<usize> {
        self.cores.iter().position(|one| *one == core)
    }

    /// Whether it has a pool for this core.
    pub(crate) fn has(&self, core: u32) -> bool {
        self.pool(core).is_some()
    }

    /// Has a call of the policy core made for the pool of a core; what it returned.
    pub(crate) fn order(&self, core: u32, op: Op, call: Call) -> Result<i64, Error> {
        let Call { index, budget, period, flag } = call;
        let line = |pool: usize| format!("order {pool} {} {index} {budget} {period} {flag}", op as u32);
        self.ask(core, line, || format!("order something of the kernel's scheduler on core {core}"))
    }

    /// Notes that a thread, which is not under [`EXT`], is of a server of the pool of this core from when it is on.
    pub(crate) fn note(&self, thread: Thread, core: u32, server: u32) -> Result<(), Error> {
        let tid = thread.tid;
        let line = |pool: usize| format!("note {tid} {pool} {server}");
        self.ask(core, line, || format!("note thread {tid} as one of a server")).map(drop)
    }

    /// Whether a thread is of that server, noted or born so.
    pub(crate) fn owns(&self, thread: Thread, core: u32, server: u32) -> Result<bool, Error> {
        let tid = thread.tid;
        let line = |pool: usize| format!("has {tid} {pool} {server}");
        Ok(self.ask(core, line, || format!("ask of which server thread {tid} is"))? == 1)
    }

    /// Has a thread, which is not under [`EXT`], be of no server.
    pub(crate) fn forget(&self, thread: Thread, core: u32) -> Result<(), Error> {
        let tid = thread.tid;
        self.ask(core, |_| format!("forget {tid}"), || format!("take thread {tid} from its server")).map(drop)
    }

    fn ask(&self, core: u32, line: impl Fn(usize) -> String, doing: impl Fn() -> String) -> Result<i64, Error> {
        let pool = self.pool(core).ok_or_else(|| io::Error::other("it has no pool for that core"));
        let said = pool.and_then(|pool| self.lines.borrow_mut().ask(&line(pool)));
        said.map_err(|why| Error::Kernel { doing: doing(), why: why.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A program in the place of the loader.
    fn played(script: &str) -> io::Result<Scheduler> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join(PROGRAM);
        fs::write(&file, format!("#!/bin/sh\n{script}\n"))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        Scheduler::start(&file, &[3, 5])
    }

    #[test]
    fn orders_are_lines_for_the_pool_of_a_core_and_answers_are_numbers() {
        let scheduler = played("echo ready 1; while read n what pool op rest; do echo $n -$pool$op; done").unwrap();
        let call = Call { index: 4, budget: 1_000_000, period: 10_000_000, flag: 1 };
        assert_eq!(scheduler.order(5, Op::Add, call).unwrap(), -11);
        assert_eq!(scheduler.order(3, Op::Set, call).unwrap(), -2);
        assert!(scheduler.has(3) && !scheduler.has(4));
        let told = scheduler.order(4, Op::Add, call).unwrap_err().to_string();
        assert!(told.contains("no pool for that core"), "{told}");
    }

    #[test]
    fn a_loader_that_refuses_or_ends_is_told() {
        let told = |script| played(script).err().map(|why| why.to_string()).unwrap_or_default();
        assert_eq!(told("echo 'failed: the kernel refuses it'"), "the kernel refuses it");
        assert!(told("exit 0").contains("has ended"));
        assert!(told("echo ready 7").contains("build it anew"));
        let scheduler =
            played("echo ready 1; read n a; echo $n failed: no such thread; read n a; echo $n 0; read n a").unwrap();
        let own = Thread::of(std::process::id()).unwrap();
        let refused = scheduler.note(own, 3, 0).unwrap_err().to_string();
        assert!(refused.contains("no such thread"), "{refused}");
        scheduler.note(own, 3, 0).unwrap();
        assert!(scheduler.note(own, 3, 0).unwrap_err().to_string().contains("has ended"));
    }

    #[test]
    fn an_answer_to_an_earlier_question_is_none_and_the_last_that_is_read() {
        let mut scheduler = played("echo ready 1; read n a; echo 0 0; while read n a; do echo $n 0; done").unwrap();
        let own = Thread::of(std::process::id()).unwrap();
        let told = scheduler.note(own, 3, 0).unwrap_err().to_string();
        assert!(told.contains("says '0 0' to question 1"), "{told}");
        assert!(scheduler.note(own, 3, 0).is_err(), "an answer of that loader is believed");
        assert!(scheduler.lost().unwrap().contains("says '0 0'"));
    }
}
