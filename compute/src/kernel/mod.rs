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
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::{env, fs};

/// The policy of threads that such a scheduler schedules (include/uapi/linux/sched.h).
pub(crate) const EXT: u32 = 7;
/// Servers that a pool may have: each has a queue, which is made when the scheduler is loaded (../kernel/main.c).
pub(crate) const SERVERS: u32 = 256;
const PROGRAM: &str = "giusto-kernel";
/// How long an answer may take; the first comes when the kernel has verified the scheduler: half a second on a machine, seconds
/// on an emulated one. Less than what a watchdog grants the main thread.
const PATIENCE: Timespec = Timespec { tv_sec: 15, tv_nsec: 0 };

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
}

struct Lines {
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
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
    fn answer(&mut self) -> io::Result<String> {
        if self.answers.buffer().is_empty()
            && poll(&mut [PollFd::new(self.answers.get_ref(), PollFlags::IN)], Some(&PATIENCE))? == 0
        {
            return Err(io::Error::other(format!("{PROGRAM} has not answered for {} s", PATIENCE.tv_sec)));
        }
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(io::Error::other(format!("{PROGRAM} has ended; sched_ext is {}", told("state"))));
        }
        match line.trim().strip_prefix("failed: ") {
            None => Ok(line.trim().to_string()),
            Some(why) => Err(io::Error::other(why)),
        }
    }

    /// What it answers to a line.
    fn ask(&mut self, line: &str) -> io::Result<i64> {
        writeln!(self.asks, "{line}")?;
        let said = self.answer()?;
        said.parse().map_err(|_| io::Error::other(format!("{PROGRAM} says '{said}', not a number")))
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
        let words = cores.iter().map(u32::to_string);
        let mut loader = Command::new(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (asks, answers) = loader.stdin.take().zip(loader.stdout.take()).ok_or(io::ErrorKind::BrokenPipe)?;
        let lines = RefCell::new(Lines { asks, answers: BufReader::new(answers) });
        let scheduler = Scheduler { loader, lines, cores: cores.to_vec() };
        match scheduler.lines.borrow_mut().answer()?.as_str() {
            "ready" => {}
            other => return Err(io::Error::other(format!("{PROGRAM} says '{other}', not 'ready'"))),
        }
        Ok(scheduler)
    }

    /// Why it no longer schedules, if so.
    pub(crate) fn lost(&mut self) -> Option<String> {
        if let Ok(Some(status)) = self.loader.try_wait() {
            return Some(format!("{PROGRAM} has ended ({status})"));
        }
        let thrown_out = || format!("sched_ext is {}: the kernel has thrown it out; see dmesg", told("state"));
        (!is_enabled()).then(thrown_out)
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

    /// Notes that a thread is of a server of the pool of this core; it is scheduled so from when it is under [`EXT`] on.
    pub(crate) fn note(&self, thread: Thread, core: u32, server: u32) -> Result<(), Error> {
        let tid = thread.tid;
        let line = |pool: usize| format!("note {tid} {pool} {server}");
        self.ask(core, line, || format!("note thread {tid} as one of a server")).map(drop)
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
        let scheduler = played("echo ready; while read a b c; do echo \"$a $b $c\" >&2; echo -${b}7; done").unwrap();
        let call = Call { index: 4, budget: 1_000_000, period: 10_000_000, flag: 1 };
        assert_eq!(scheduler.order(5, Op::Add, call).unwrap(), -17);
        assert!(scheduler.has(3) && !scheduler.has(4));
        let told = scheduler.order(4, Op::Add, call).unwrap_err().to_string();
        assert!(told.contains("no pool for that core"), "{told}");
    }

    #[test]
    fn a_loader_that_refuses_or_ends_is_told() {
        let told = |script| played(script).err().map(|why| why.to_string()).unwrap_or_default();
        assert_eq!(told("echo 'failed: the kernel refuses it'"), "the kernel refuses it");
        assert!(told("exit 0").contains("has ended"));
        assert!(told("echo hello").contains("says 'hello'"));
        let scheduler = played("echo ready; read line; echo 'failed: no such thread'; read line").unwrap();
        let own = Thread::of(std::process::id()).unwrap();
        let refused = scheduler.note(own, 3, 0).unwrap_err().to_string();
        assert!(refused.contains("no such thread"), "{refused}");
        assert!(scheduler.note(own, 3, 0).unwrap_err().to_string().contains("has ended"));
    }
}
