//! Starts a program such that it is contained, limited, its user's, and in its place from its first instruction on.
//!
//! The child tells its number and waits between fork and exec. Meanwhile Giusto writes it down, moves it to its cgroup,
//! its core and its server; only then it goes on, takes its limits and its user, and runs its program.

use giusto_compute::sched::Thread;
use giusto_model::{Limit, Process};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bits of capabilities(7).
const CAP_SYS_NICE: libc::c_ulong = 23;

/// Starts the program `words`, not empty, which writes to `log`. `ready` gets its process while that waits; should it
/// fail, the program does not run.
pub(crate) fn spawn(
    words: &[String],
    process: &Process,
    log: File,
    ready: &mut (dyn FnMut(Thread) -> io::Result<()> + Send),
) -> io::Result<Child> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log).process_group(0);
    // What systemd has told this process is not for those that it starts.
    [HOST_MOUNTS, "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID"].iter().for_each(
        |name| {
            command.env_remove(name);
        },
    );
    let account = Account::of(process)?;
    if let Some(user) = account.as_ref().and_then(|account| account.user.as_ref()) {
        command.env("USER", &user.name).env("LOGNAME", &user.name).env("HOME", &user.home).env("SHELL", &user.shell);
    }
    command.envs(&process.environment);
    let mounts = host_mounts()?;
    let directory = match (&process.directory, &mounts) {
        (Some(directory), _) => Some(directory.clone()),
        // Going to other mounts leads to their root.
        (None, Some(_)) => Some(std::env::current_dir()?),
        (None, None) => None,
    };
    let path = directory.as_ref().map(|directory| CString::new(directory.as_os_str().as_bytes())).transpose()?;
    let child = Waiting { limits: rlimits(process), account, mounts, directory: path };
    child.start(&mut command, ready).map_err(|why| match directory {
        Some(directory) if why.raw_os_error() == Some(NO_FOLDER) => {
            io::Error::other(format!("{} is no folder where it can begin ('directory')", directory.display()))
        }
        _ => why,
    })
}

/// What a child that cannot go to its folder fails with.
const NO_FOLDER: i32 = libc::ENOTDIR;
/// A child that was let go runs its program within this time ...
const PATIENCE: Duration = Duration::from_secs(5);
/// ... and within this one if it waits for a core or a disk; well before the watchdog takes Giusto itself for stalled.
const LONGEST: Duration = Duration::from_secs(12);

/// How often that is looked at, in ms.
const LOOK_MS: libc::c_int = 100;

/// In the environment of a Giusto whose unit gives it mounts of its own: those are not for its services.
const HOST_MOUNTS: &str = "GIUSTO_HOST_MOUNTS";

/// The mounts of the host, where those of this process are others, and the unit says that services are to have the
/// host's.
fn host_mounts() -> io::Result<Option<File>> {
    let is_asked = std::env::var_os(HOST_MOUNTS).is_some();
    let of = |process: &str| std::fs::metadata(format!("/proc/{process}/ns/mnt"));
    if !is_asked || of("1")?.ino() == of("self")?.ino() {
        return Ok(None);
    }
    File::open("/proc/1/ns/mnt").map(Some)
}

/// What a child does before it runs its program.
struct Waiting {
    limits: Vec<(libc::__rlimit_resource_t, u64)>,
    account: Option<Account>,
    mounts: Option<File>,
    directory: Option<CString>,
}

impl Waiting {
    fn start(
        self,
        command: &mut Command,
        ready: &mut (dyn FnMut(Thread) -> io::Result<()> + Send),
    ) -> io::Result<Child> {
        let Waiting { limits, account, mounts, directory } = self;
        // One after the other: a child has copies of all that is open when it is made.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut told, tell) = io::pipe()?;
        let (wait, mut go) = io::pipe()?;
        let (parent, tell_fd, wait_fd, go_fd) =
            (std::process::id(), tell.as_raw_fd(), wait.as_raw_fd(), go.as_raw_fd());
        // SAFETY: all calls are async-signal-safe, and nothing is allocated. Pipes are closed on exec.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::close(go_fd); // or its own copy would keep it waiting for a parent that has died
                let (pid, mut byte) = (libc::getpid().to_ne_bytes(), 0u8);
                let dead = libc::getppid() as u32 != parent // died before prctl
                || libc::write(tell_fd, pid.as_ptr().cast(), pid.len()) != pid.len() as isize
                || libc::read(wait_fd, (&raw mut byte).cast(), 1) != 1;
                if dead {
                    return Err(io::Error::from_raw_os_error(libc::ECANCELED));
                }
                for &(resource, value) in &limits {
                    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
                    succeeded(libc::setrlimit(resource, &limit))?;
                }
                libc::umask(0o022);
                if let Some(mounts) = &mounts {
                    succeeded(libc::setns(mounts.as_raw_fd(), libc::CLONE_NEWNS))?;
                }
                if directory.as_ref().is_some_and(|path| libc::chdir(path.as_ptr()) != 0) {
                    return Err(io::Error::from_raw_os_error(NO_FOLDER));
                }
                // Who gets which processor time is the plan's matter: a service that could raise its own priority would be
                // above all.
                libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0);
                if let Some(account) = &account {
                    if let Some(user) = &account.user {
                        succeeded(libc::setgroups(user.groups.len(), user.groups.as_ptr()))?;
                    }
                    succeeded(libc::setgid(account.gid))?;
                    if let Some(user) = &account.user {
                        succeeded(libc::setuid(user.uid))?;
                    }
                    // Another user has none; this one dies with its parent, too.
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    if libc::getppid() as u32 != parent {
                        return Err(io::Error::from_raw_os_error(libc::ECANCELED));
                    }
                }
                Ok(())
            });
        }
        // Closed once the child has told its number, or was not made: then only the child has it open, until it runs its program.
        let tell = Mutex::new(Some(tell));
        let close = || drop(tell.lock().unwrap_or_else(PoisonError::into_inner).take());
        std::thread::scope(|scope| {
            let recorder = scope.spawn(|| {
                let mut pid = [0; 4];
                // Nothing is told where the fork itself failed.
                let leader = told.read_exact(&mut pid).ok().and_then(|()| Thread::of(u32::from_ne_bytes(pid)));
                close();
                leader.map_or(Ok(()), |leader| {
                    ready(leader).inspect_err(|_| end(leader))?;
                    go.write_all(&[1])?;
                    begins(leader, &told)
                })
            });
            let child = command.spawn();
            close();
            let recorded = recorder.join().unwrap_or_else(|_| Err(io::Error::other("the recording thread broke down")));
            match (recorded, child) {
                (Ok(()), child) => child,
                (Err(why), Ok(mut child)) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    Err(why)
                }
                (Err(why), Err(_)) => Err(why),
            }
        })
    }
}

/// Ends a child that does not come to run its program, such as one whose cgroup was frozen meanwhile: its parent would wait for
/// ever. `told` ends when it does: the parent's own thread may have to wait for a core.
fn begins(child: Thread, told: &io::PipeReader) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        let mut fd = libc::pollfd { fd: told.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one entry, which outlives the call.
        if unsafe { libc::poll(&raw mut fd, 1, LOOK_MS) } == 1 {
            return Ok(());
        }
        let passed = begun.elapsed();
        if passed > PATIENCE {
            let (state, waits_in) = doing(child);
            if passed > LONGEST || !goes_on(state, &waits_in) {
                end(child);
                let passed = passed.as_secs();
                let why = format!("it did not come to run its program within {passed} s: state {state}, in {waits_in}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
    }
}

/// Its state as in proc(5), and the kernel's function in which it sleeps.
fn doing(child: Thread) -> (char, String) {
    let read = |file| std::fs::read_to_string(format!("/proc/{}/{file}", child.tid)).unwrap_or_default();
    let stat = read("stat");
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    (state.unwrap_or('?'), read("wchan"))
}

/// Whether a child with this state waits for a core or a disk: it is not stopped, and its cgroup is not frozen.
fn goes_on(state: char, waits_in: &str) -> bool {
    matches!(state, 'R' | 'D') && waits_in != "__refrigerator"
}

/// Or its parent would wait for it to run its program.
fn end(child: Thread) {
    // SAFETY: plain system call; the parent has not reaped it, so the number is its own.
    unsafe { libc::kill(child.tid as i32, libc::SIGKILL) };
}

fn succeeded(done: libc::c_int) -> io::Result<()> {
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// What setrlimit(2) limits.
fn rlimits(process: &Process) -> Vec<(libc::__rlimit_resource_t, u64)> {
    let resource = |limit| {
        Some(match limit {
            Limit::Memory | Limit::Tasks => return None, // of all its processes together
            Limit::Nofile => libc::RLIMIT_NOFILE,
            Limit::Nproc => libc::RLIMIT_NPROC,
            Limit::Memlock => libc::RLIMIT_MEMLOCK,
            Limit::As => libc::RLIMIT_AS,
            Limit::Core => libc::RLIMIT_CORE,
            Limit::Fsize => libc::RLIMIT_FSIZE,
            Limit::Stack => libc::RLIMIT_STACK,
            Limit::Data => libc::RLIMIT_DATA,
        })
    };
    process.limits.iter().filter_map(|(&limit, &value)| Some((resource(limit)?, value))).collect()
}

/// Whose a process is.
#[derive(Debug)]
struct Account {
    user: Option<User>,
    gid: libc::gid_t,
}

#[derive(Debug)]
struct User {
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: Vec<libc::gid_t>,
    name: String,
    home: String,
    shell: String,
}

impl Account {
    fn of(process: &Process) -> io::Result<Option<Account>> {
        let user = process.user.as_deref().map(user).transpose()?;
        let gid = process.group.as_deref().map(group).transpose()?;
        Ok(match (user, gid) {
            (None, None) => None,
            (user, gid) => {
                let gid = gid.or(user.as_ref().map(|user| user.gid)).unwrap_or(0);
                Some(Account { user, gid })
            }
        })
    }
}

/// By its name, or its number.
fn user(name: &str) -> io::Result<User> {
    let unknown = || io::Error::other(format!("there is no user '{name}'; make one: adduser --system {name}"));
    let text = CString::new(name).map_err(|_| unknown())?;
    let number = name.parse::<libc::uid_t>().ok();
    let mut buffer = vec![0; 16 * 1024];
    // SAFETY: plain data, filled by the call.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    let (space, length) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: all pointers are to things that outlive the call.
    unsafe {
        match number {
            Some(uid) => libc::getpwuid_r(uid, &mut entry, space, length, &mut found),
            None => libc::getpwnam_r(text.as_ptr(), &mut entry, space, length, &mut found),
        };
    }
    if found.is_null() {
        return number.map_or_else(
            || Err(unknown()),
            |uid| {
                let (name, home, shell) = (name.to_string(), "/".to_string(), "/bin/sh".to_string());
                Ok(User { uid, gid: uid, groups: vec![uid], name, home, shell })
            },
        );
    }
    // SAFETY: the call has filled them with texts in `buffer`.
    let word = |text: *const libc::c_char| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    let mut groups = vec![0; 1024];
    let mut count = groups.len() as libc::c_int;
    // SAFETY: at most `count` numbers are written.
    if unsafe { libc::getgrouplist(entry.pw_name, entry.pw_gid, groups.as_mut_ptr(), &mut count) } < 0 {
        return Err(io::Error::other(format!("user '{name}' is in more than {} groups", groups.len())));
    }
    groups.truncate(count as usize);
    let (name, home, shell) = (word(entry.pw_name), word(entry.pw_dir), word(entry.pw_shell));
    Ok(User { uid: entry.pw_uid, gid: entry.pw_gid, groups, name, home, shell })
}

/// By its name, or its number.
fn group(name: &str) -> io::Result<libc::gid_t> {
    if let Ok(gid) = name.parse() {
        return Ok(gid);
    }
    let unknown = || io::Error::other(format!("there is no group '{name}'; make one: addgroup --system {name}"));
    let text = CString::new(name).map_err(|_| unknown())?;
    let mut buffer = vec![0; 64 * 1024];
    // SAFETY: plain data, filled by the call.
    let mut entry: libc::group = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are to things that outlive the call.
    unsafe { libc::getgrnam_r(text.as_ptr(), &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found) };
    if found.is_null() {
        return Err(unknown());
    }
    Ok(entry.gr_gid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn said(script: &str, process: &Process) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let words = ["sh", "-c", script].map(String::from);
        let mut child = spawn(&words, process, File::create(&path).unwrap(), &mut |_| Ok(())).unwrap();
        child.wait().unwrap();
        std::fs::read_to_string(path).unwrap().trim().to_string()
    }

    #[test]
    fn environment_directory_and_limits_are_there_from_the_start() {
        let process = Process {
            environment: BTreeMap::from([("MOOD".into(), "calm".into())]),
            directory: Some("/usr".into()),
            limits: BTreeMap::from([(Limit::Nofile, 77), (Limit::Core, 0)]),
            ..Process::default()
        };
        assert_eq!(said("echo $MOOD $(pwd) $(ulimit -n) $(ulimit -c)", &process), "calm /usr 77 0");
        let nowhere = Process { directory: Some("/no/such".into()), ..Process::default() };
        let null = File::options().write(true).open("/dev/null").unwrap();
        let refused = spawn(&["true".into()], &nowhere, null, &mut |_| Ok(())).unwrap_err().to_string();
        assert!(refused.contains("/no/such is no folder"), "{refused}");
    }

    #[test]
    fn a_child_that_stands_still_is_ended_and_the_error_says_where() {
        let stop = &mut |child: Thread| {
            // SAFETY: plain system call; the child waits to be let go.
            succeeded(unsafe { libc::kill(child.tid as i32, libc::SIGSTOP) })
        };
        let (begun, null) = (Instant::now(), File::options().write(true).open("/dev/null").unwrap());
        let why = spawn(&["true".into()], &Process::default(), null, stop).unwrap_err().to_string();
        assert!(why.contains("within 5 s: state T, in "), "{why}");
        assert!(begun.elapsed() < LONGEST);
        for (state, waits_in, expected) in [
            ('R', "0", true),
            ('D', "io_schedule", true),
            ('D', "__refrigerator", false), // frozen, v1
            ('S', "do_freezer_trap", false),
            ('T', "do_signal_stop", false),
            ('?', "", false),
        ] {
            assert_eq!(goes_on(state, waits_in), expected, "{state} {waits_in}");
        }
    }

    #[test]
    fn another_user_has_none_of_our_rights_and_no_program_may_raise_its_priority() {
        if !giusto_compute::sched::is_root() {
            return;
        }
        let nobody = Process { user: Some("nobody".into()), ..Process::default() };
        assert_eq!(
            said("echo $(id -u) $USER; grep -c 'CapEff.*0000000000000000' /proc/self/status", &nobody),
            "65534 nobody\n1"
        );
        let numbered = Process { user: Some("12345".into()), group: Some("54321".into()), ..Process::default() };
        assert_eq!(said("id -u; id -g", &numbered), "12345\n54321");
        for process in [Process::default(), nobody] {
            assert_ne!(said("chrt -f 1 true 2>/dev/null; echo $?", &process), "0");
        }
        for (user, group) in [(Some("no-such-user"), None), (None, Some("no-such-group"))] {
            let process =
                Process { user: user.map(String::from), group: group.map(String::from), ..Process::default() };
            assert!(Account::of(&process).unwrap_err().to_string().contains("there is no"));
        }
    }
}
