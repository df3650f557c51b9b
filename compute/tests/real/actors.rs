//! The processes of these tests: this program again, in a role.

use giusto_compute::{probe, sched, Isolated, Recorder, Undo};
use giusto_model::{Backend, Duration, Server, ServerKind};
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{self, Instant};
use std::{env, fs, hint, thread};

use crate::journal::Journal;
use crate::parts::few;

/// Reservations as a plan would hold them.
pub(crate) fn server(budget_ms: u64, period_ms: u64) -> Server {
    let (budget, period) = (Duration::from_ms(budget_ms), Duration::from_ms(period_ms));
    Server { kind: ServerKind::ConstantBandwidth, budget, period }
}

/// A process in a role; killed and reaped at the end, and dead with its parent at the latest.
pub(crate) struct Actor {
    child: Child,
    lines: io::Lines<io::BufReader<ChildStdout>>,
}

impl Actor {
    /// Starts this program as `role` and waits until it says that it is ready.
    pub(crate) fn new(role: &str) -> Actor {
        let mut actor = Actor::started(&[role]);
        assert_eq!(actor.line().as_deref(), Some("ready"), "{role}");
        actor
    }
    pub(crate) fn started(words: &[&str]) -> Actor {
        let mut command = Command::new(env::current_exe().unwrap());
        Actor::of(command.args(words))
    }
    pub(crate) fn of(command: &mut Command) -> Actor {
        let parent = std::process::id();
        // SAFETY: prctl, getppid and _exit are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() as u32 != parent {
                    libc::_exit(1); // the parent died before prctl
                }
                Ok(())
            });
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = io::BufReader::new(child.stdout.take().unwrap()).lines();
        Actor { child, lines }
    }
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
    /// Asks it for something without waiting for an answer.
    pub(crate) fn ask(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
    }
    /// Asks it to do its work; returns when it is done.
    pub(crate) fn work(&mut self) {
        self.ask();
        assert_eq!(self.line().as_deref(), Some("rests"));
    }
    /// Its next line; `None` once it has ended.
    pub(crate) fn line(&mut self) -> Option<String> {
        self.lines.next().and_then(Result::ok)
    }
    pub(crate) fn alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
    /// kill -9.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
    }
    pub(crate) fn wait(&mut self) {
        let _ = self.child.wait();
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.kill();
        self.wait();
    }
}

fn ready() {
    println!("ready");
    io::stdout().flush().unwrap();
}

fn burn(time: time::Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        hint::spin_loop();
    }
}

/// Until this thread has used as much processor time.
fn burn_own(time: time::Duration) {
    let used = || sched::cpu_time_ns(std::process::id());
    let end = used() + time.as_nanos() as u64;
    while used() < end {
        burn(time::Duration::from_millis(1));
    }
}

/// Plays a role.
pub(crate) fn play(role: &str, words: &[String]) {
    match role {
        // Works 1 ms in 10, beside a second thread that sleeps.
        "worker" => {
            thread::spawn(|| thread::sleep(time::Duration::from_secs(600)));
            burn_own(time::Duration::from_millis(20));
            // Starting a thread is slow in an emulator.
            let all = || sched::threads(std::process::id()).into_iter().map(sched::cpu_time_ns).sum::<u64>();
            while sched::cpu_time_ns(std::process::id()) * 100 < all() * 98 {
                burn(time::Duration::from_millis(5));
            }
            ready();
            loop {
                burn(time::Duration::from_millis(1));
                thread::sleep(time::Duration::from_millis(9));
            }
        }
        // Has worked on core 0 and sleeps for good.
        "sleeper" => {
            let cores = sched::affinity(0).unwrap();
            sched::set_affinity(0, &[0]).unwrap();
            burn(time::Duration::from_millis(3));
            sched::set_affinity(0, &cores).unwrap();
            ready();
            thread::sleep(time::Duration::from_secs(600));
        }
        // Works 60 ms when asked to, says so and rests.
        "bursts" => {
            burn(time::Duration::from_millis(3));
            ready();
            for _ in io::stdin().lines() {
                burn_own(time::Duration::from_millis(60));
                println!("rests");
            }
        }
        // Lets a child of its own do the most work when asked to, as a server that saves in the background.
        "saver" => {
            burn_own(time::Duration::from_millis(20));
            ready();
            for _ in io::stdin().lines() {
                let _child = Actor::new("hog");
                thread::sleep(time::Duration::from_millis(100));
                burn_own(time::Duration::from_millis(3));
                println!("rests");
            }
        }
        // Starts a child when asked to, and keeps it.
        "parent" => {
            ready();
            let mut children = Vec::new();
            for _ in io::stdin().lines() {
                children.push(Actor::new("hog"));
                println!("rests");
            }
        }
        // Lets another thread do the work when asked to.
        "successor" => {
            burn_own(time::Duration::from_millis(20));
            ready();
            for _ in io::stdin().lines() {
                thread::spawn(|| burn(time::Duration::from_secs(600)));
                thread::sleep(time::Duration::from_millis(100));
                println!("rests");
            }
        }
        "hog" => {
            ready();
            burn(time::Duration::from_secs(600));
        }
        // Two threads that do half of the work each.
        "pair" => {
            let one = || burn(time::Duration::from_secs(600));
            thread::spawn(one);
            burn(time::Duration::from_millis(20));
            ready();
            one();
        }
        // Two threads that never rest, beside the first one, which answers.
        "machine" => {
            let vcpus = [(); 2].map(|()| thread::spawn(|| burn(time::Duration::from_secs(600))));
            ready();
            io::stdin().lines().for_each(|_| println!("rests"));
            drop(vcpus);
        }
        // Starts 100 processes and as many threads when asked to, says so and rests. In an emulator each takes a second.
        "forker" => {
            burn(time::Duration::from_millis(3));
            ready();
            for _ in io::stdin().lines() {
                for _ in 0..if few() { 10 } else { 100 } {
                    assert!(Command::new("true").status().unwrap().success());
                    thread::Builder::new().spawn(|| ()).unwrap().join().unwrap();
                }
                println!("rests");
            }
        }
        // When asked to, some processes that fork all the time; each fork copies a large page table, within the kernel.
        "bomb" => {
            ready();
            let _ = io::stdin().lines().next();
            let memory = vec![1u8; 64 << 20];
            for _ in 0..8 {
                // SAFETY: there is one thread, so the child may do what this process may.
                if unsafe { libc::fork() } == 0 {
                    // SAFETY: as above; they end with their parent.
                    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                    loop {
                        // SAFETY: as above.
                        match unsafe { libc::fork() } {
                            0 => unsafe { libc::_exit(i32::from(hint::black_box(&memory)[0] == 0)) },
                            child => unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) },
                        };
                    }
                }
            }
            println!("rests");
            burn(time::Duration::from_secs(600));
        }
        // Becomes "bursts" when asked to, from another thread than its first.
        "successor-program" => {
            ready();
            let _ = io::stdin().lines().next();
            let become_another = || Command::new(env::current_exe().unwrap()).arg("bursts").exec();
            let error = thread::spawn(become_another).join().unwrap();
            panic!("{error}");
        }
        // Takes whatever policy and cores it likes.
        "renegade" => {
            ready();
            for _ in io::stdin().lines() {
                sched::set(0, &sched::Attr::of_policy(3, 0)).unwrap(); // SCHED_BATCH
                sched::set_affinity(0, &probe().cores).unwrap();
                println!("rests");
            }
        }
        "victim" => victim(words),
        "manager" => crate::managed::victim(words),
        "restorer" => _ = Journal::open_in(Path::new(&words[0])).unwrap(),
        "nobody" => nobody(),
        other => panic!("no role {other}"),
    }
}

/// Changes the machine like the daemon, again and again, until it dies: `FOLDER CORE n|- recorded|unrecorded ADOPTED HOG`.
fn victim(words: &[String]) {
    let [folder, core, step, when, adopted, hog] = words else { panic!("{words:?}") };
    let (core, adopted, hog) = (core.parse().unwrap(), adopted.parse().unwrap(), hog.parse().unwrap());
    let (journal, _) = Journal::open_in(Path::new(folder)).unwrap();
    let left = step.parse().unwrap_or(usize::MAX);
    let mut record = Suicidal { journal, left, recorded: when == "recorded" };
    let cpusets = probe().cpusets.unwrap();
    ready();
    loop {
        // A service of its own, which a child of its own outlives as a daemon's death kills only the first.
        let mut own = Command::new(env::current_exe().unwrap());
        let mut own = Actor::of(own.arg("worker").process_group(0));
        record.intend(&Undo::Group(sched::Thread::of(own.pid()).unwrap())).unwrap();
        own.line();
        let isolated = Isolated::new(&cpusets, &[core], &mut record).unwrap();
        isolated.confine(&[adopted, own.pid()], core, &mut record).unwrap();
        isolated.confine(&[hog], core, &mut record).unwrap();
        isolated.keep_off(&[std::process::id()], &mut record).unwrap();
        giusto_compute::reschedule(own.pid(), &sched::Attr::of_policy(sched::FIFO, 1), &mut record).unwrap();
        sched::leave(own.pid(), &sched::Attr::default()).unwrap();
        isolated.reserve(&[own.pid()], &server(8, 40), &mut record).unwrap();
        isolated.reserve(&[adopted], &server(14, 40), &mut record).unwrap();
        println!("reserved");
        if left != usize::MAX {
            die();
        }
        thread::sleep(time::Duration::from_millis(3));
        let restored = record.journal.restore().unwrap();
        assert!(restored.failed.is_empty(), "{restored:?}");
        println!("restored");
    }
}

/// Dies at the n-th record, before or after it is on disk; so each change is cut off before it, and between it and the next.
struct Suicidal {
    journal: Journal,
    left: usize,
    recorded: bool,
}

impl Recorder<Undo> for Suicidal {
    fn intend(&mut self, undo: &Undo) -> io::Result<()> {
        if self.left == 0 && !self.recorded {
            die();
        }
        self.journal.intend(undo)?;
        if self.left == 0 {
            die();
        }
        self.left -= 1;
        Ok(())
    }
}

fn die() -> ! {
    // SAFETY: plain system call; it does not return.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!()
}

/// Says what is missing, then tries nevertheless.
fn nobody() {
    let machine = probe();
    for lack in machine.lacks(Backend::Deadline) {
        println!("{}: {}", lack.what, lack.how);
    }
    if let Some(cpusets) = &machine.cpusets {
        match Isolated::new(cpusets, &machine.cores[machine.cores.len() - 1..], &mut Vec::new()) {
            Ok(_) => println!("it worked"),
            Err(error) => println!("refused: {error}"),
        }
    }
    println!("cores {}", fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default().trim());
}
