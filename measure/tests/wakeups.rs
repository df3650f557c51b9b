//! Jobs of threads that sleep and wake, as the kernel tells them, beside what the threads note of themselves: this test starts
//! itself once more to be such a service ([`a_service_of_this_test`]).

use giusto_measure::passive::{Responses, WakeUps, Watch};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

const ROLE: &str = "GIUSTO_TEST_ROLE";
const PERIOD: u64 = 5_000_000;
/// One at a time: they share two cores.
static MACHINE: Mutex<()> = Mutex::new(());

fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn sleep_until(at: u64) {
    let at = rustix::time::Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
    while rustix::thread::clock_nanosleep_absolute(rustix::time::ClockId::Monotonic, &at).is_err() {}
}

/// Until it has had the processor for so long.
fn work(ns: u64) {
    let used = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    let end = used() + ns;
    while used() < end {
        std::hint::spin_loop();
    }
}

/// Half a millisecond to 2 ms, another one each time.
fn length(nth: u64) -> u64 {
    500_000 + nth * 7919 % 16 * 100_000
}

/// Nothing, unless another test started it as its service, to which its input says what to do; it notes response times.
#[test]
fn a_service_of_this_test() {
    let Ok(role) = std::env::var(ROLE) else { return };
    // A timer comes when it is due.
    // SAFETY: plain system call.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let mut noted: Vec<u64> = Vec::with_capacity(10_000);
    let mut told = [0u8; 8];
    std::io::stdin().read_exact(&mut told).unwrap();
    match role.as_str() {
        "loop" => {
            let begin = now() + PERIOD;
            for nth in 0..u64::from_le_bytes(told) {
                let due = begin + nth * PERIOD;
                sleep_until(due);
                work(length(nth));
                noted.push(now() - due);
            }
        }
        "consumer" => {
            for nth in 0.. {
                let mut sent = [0u8; 8];
                if std::io::stdin().read_exact(&mut sent).is_err() {
                    break;
                }
                work(length(nth));
                noted.push(now() - u64::from_le_bytes(sent));
            }
        }
        // As many threads one after the other as it is told, each with a job at birth and one later; then a child.
        _ => {
            for _ in 0..u64::from_le_bytes(told) {
                let one = || {
                    std::thread::sleep(Duration::from_millis(2));
                    work(100_000);
                };
                std::thread::spawn(one).join().unwrap();
            }
            assert!(Command::new("sleep").arg("0.05").status().unwrap().success());
        }
    }
    let noted: String = noted.iter().map(|ns| format!("noted {ns}\n")).collect();
    std::fs::write(std::env::var("GIUSTO_TEST_NOTES").unwrap(), noted).unwrap();
}

struct Service {
    process: Child,
    input: ChildStdin,
    notes: tempfile::TempDir,
}

impl Service {
    /// On the second core, where there is one.
    fn start(role: &str) -> Service {
        let notes = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["a_service_of_this_test", "--exact", "--test-threads", "1"]).env(ROLE, role);
        command.env("GIUSTO_TEST_NOTES", notes.path().join("notes")).stdin(Stdio::piped()).stdout(Stdio::null());
        // SAFETY: plain system call.
        unsafe {
            command.pre_exec(|| {
                on_second_core();
                Ok(())
            })
        };
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take().unwrap();
        std::thread::sleep(Duration::from_millis(100)); // it waits for its input then
        Service { process, input, notes }
    }

    fn tell(&mut self, number: u64) {
        self.input.write_all(&number.to_le_bytes()).unwrap();
    }

    /// What it noted, ascending, once it has ended.
    fn noted(mut self) -> Vec<u64> {
        drop(self.input);
        assert!(self.process.wait().unwrap().success());
        let text = std::fs::read_to_string(self.notes.path().join("notes")).unwrap();
        let mut noted: Vec<u64> =
            text.lines().map(|line| line.strip_prefix("noted ").unwrap().parse().unwrap()).collect();
        noted.sort_unstable();
        noted
    }
}

fn on_second_core() {
    // SAFETY: plain system calls on an own set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(1, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

/// The watch over a service; `None` where the kernel does not tell, or not to this user.
fn watch(service: &Service) -> Option<WakeUps> {
    let mut watch = WakeUps::new(4).inspect_err(|why| println!("SKIPPED: {why}")).ok()?;
    watch.watch(2, &BTreeSet::from([service.process.id()])).unwrap();
    Some(watch)
}

/// How late this machine's timers are, with the way to the thread: a virtual one that sleeps is woken by its hypervisor.
fn timers() -> u64 {
    let wait = || {
        on_second_core();
        let late = |due: u64| {
            sleep_until(due);
            now() - due
        };
        let mut all: Vec<u64> = (0..200).map(|_| late(now() + 1_000_000)).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    std::thread::spawn(wait).join().unwrap()
}

/// Each of a histogram's times, ascending.
fn each(histogram: &[[u64; 2]]) -> Vec<u64> {
    histogram.iter().flat_map(|&[ns, count]| std::iter::repeat_n(ns, count as usize)).collect()
}

/// Jobs of less than this are what surrounds those of the service: its input, its end.
const SERVICE: u64 = 400_000;

/// `late`: by so much a job is noted longer, as it counts from when its timer was due.
fn compare(what: &str, noted: &[u64], seen: &Responses, late: u64) {
    let jobs: Vec<u64> = each(&seen.responses).into_iter().filter(|ns| *ns > SERVICE).collect();
    // What comes before the last is done is of the same job, where the machine was away.
    let apart = noted.len().abs_diff(jobs.len());
    assert!(apart <= 1 + noted.len() / 20, "{} jobs, {} noted", jobs.len(), noted.len());
    for percentile in [1, 10, 50, 90] {
        let at = |times: &[u64]| times[times.len() * percentile / 100];
        let (theirs, ours) = (at(noted), at(&jobs));
        println!("{what}, p{percentile}: noted {theirs} ns, seen {ours} ns, {:+} ns", ours as i64 - theirs as i64);
        let off = (theirs * 3 / 100).max(5_000);
        let is_near = ours <= theirs + off && ours + off + late >= theirs;
        assert!(is_near, "p{percentile}: noted {theirs}, seen {ours}, timers {late} late");
    }
}

#[test]
fn jobs_of_a_control_loop_are_as_it_notes_them_and_another_thread_on_its_core_ends_none() {
    let _alone = MACHINE.lock();
    for hog in [false, true] {
        let mut service = Service::start("loop");
        let Some(watch) = watch(&service) else { return };
        let mut spins = Command::new("sh");
        spins.args(["-c", "while :; do :; done"]);
        // SAFETY: plain system call.
        unsafe {
            spins.pre_exec(|| {
                on_second_core();
                Ok(())
            })
        };
        let hog = hog.then(|| spins.spawn().unwrap());
        service.tell(300);
        let noted = service.noted();
        if let Some(mut hog) = hog {
            hog.kill().unwrap();
            hog.wait().unwrap();
            let seen = watch.responses(2);
            let jobs = each(&seen.responses).into_iter().filter(|ns| *ns > SERVICE).count();
            // Kept for longer than a period it does not sleep in between.
            println!("beside a hog: {jobs} jobs of 300, {} late", noted.iter().filter(|ns| **ns > PERIOD).count());
            assert!(jobs <= 301 && each(&seen.waits).len() >= jobs, "{jobs}");
            let longest = each(&seen.responses).last().copied().unwrap();
            assert!(longest + longest / 100 >= *noted.last().unwrap(), "{longest} of {:?}", noted.last());
        } else {
            compare("a loop", &noted, &watch.responses(2), timers());
        }
    }
}

#[test]
fn a_stall_of_200_ms_is_felt_in_full_asleep_or_at_work() {
    let _alone = MACHINE.lock();
    for after in [0, 3, 7] {
        let mut service = Service::start("loop");
        let Some(watch) = watch(&service) else { return };
        service.tell(100);
        std::thread::sleep(Duration::from_millis(100 + after));
        let pid = rustix::process::Pid::from_raw(service.process.id() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        let (noted, seen) = (service.noted(), watch.responses(2));
        let (theirs, ours) = (*noted.last().unwrap(), *each(&seen.responses).last().unwrap());
        println!("stopped for 200 ms: noted {theirs} ns, seen {ours} ns");
        // Stopped asleep, it counts from the stop; the work that waits comes after it.
        assert!(ours > 195_000_000 && ours + PERIOD > theirs, "{ours} {theirs}");
    }
}

/// A thread that sleeps throughout has nothing to do when it goes on.
#[test]
fn a_thread_that_is_stopped_asleep_and_goes_on_sleeping_had_no_job() {
    let _alone = MACHINE.lock();
    let service = Service::start("consumer");
    let Some(watch) = watch(&service) else { return };
    let pid = rustix::process::Pid::from_raw(service.process.id() as i32).unwrap();
    for _ in 0..5 {
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let seen = watch.responses(2);
    // It is told by the processor time that going on takes, which a machine that stands still makes longer.
    let taken_for_jobs = each(&seen.responses).iter().filter(|ns| **ns >= 40_000_000).count();
    assert!(taken_for_jobs <= 2, "{taken_for_jobs} of 5: {:?}", seen.responses);
    let mut service = service;
    service.tell(0);
    service.noted();
}

#[test]
fn threads_and_children_are_followed_from_birth_and_forgotten_at_their_end() {
    let _alone = MACHINE.lock();
    let mut service = Service::start("threads");
    let Some(mut watch) = watch(&service) else { return };
    let own = service.process.id();
    service.tell(50);
    service.noted();
    let seen = watch.responses(2);
    // Born, it works until it sleeps; woken, until its end.
    let jobs = each(&seen.responses);
    let worked = jobs.iter().filter(|ns| (100_000..5_000_000).contains(*ns)).count();
    println!("50 threads: {} jobs, {worked} of 0.1 ms and more, {} lost", jobs.len(), seen.unseen);
    assert!(worked >= 50 && jobs.len() >= 100 && seen.unseen == 0, "{jobs:?}");
    watch.watch(2, &BTreeSet::from([own])).unwrap();
    watch.watch(2, &BTreeSet::new()).unwrap();
}
