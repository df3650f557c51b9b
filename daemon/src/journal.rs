//! The undo journal: what giusto changed on this host, written before it is changed.
//!
//! One line a change: a checksum and JSON. A line that was cut off by a crash was never acted upon (the change is made only
//! after the line is written), so a torn last line is dropped. The journal lives in /run/giusto (or $GIUSTO_STATE), which a
//! reboot empties together with everything that it would undo; one from an earlier boot is dropped too. So it has to outlive this
//! process, and not the kernel: what the kernel has taken is not waited for until a disk has it.

use crate::undo_entry::{of_compute, spent, undo, Change};
use crate::Error;
use giusto_compute::{Recorder, Report, Undo};
use rustix::fs::{flock, FlockOperation, OFlags};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// First line: in which life of the host the others were written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    boot: String,
}

/// The journal of this host, held exclusively: one giusto at a time.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Whole lines on disk end here; `None` when a torn one could not be cut off.
    end: Option<u64>,
    /// What stands in the file and is not undone.
    pending: Vec<Change>,
    /// Lines in the middle that cannot be read.
    damaged: usize,
    /// When it was looked for changes that have nothing to undo any more, and which those were.
    spent: Option<(Instant, Vec<Change>)>,
}

/// A journal with fewer changes is left as it is.
const FEW: usize = 64;
/// What had nothing to undo for so long is forgotten: the kernel's books of a reservation that died take 4.2 s at most.
const SPENT: Duration = Duration::from_secs(10);

/// What [`Journal::restore`] found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Changes undone.
    pub undone: usize,
    /// What is not exactly as before, through no fault of this restoring.
    pub notes: Vec<String>,
    /// What could not be undone, and why; empty is good.
    pub failed: Vec<String>,
}

impl Journal {
    /// Opens this host's journal and undoes what an earlier giusto has left in it.
    ///
    /// Errors: another giusto runs (named by its process id), or the state folder cannot be written or is another user's.
    pub fn open() -> Result<(Journal, Restored), Error> {
        Journal::open_in(&state_folder())
    }

    /// The state folder, which is ours as long as the journal is held.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// As [`Journal::open`], in another state folder; it is made if it is not there.
    pub fn open_in(folder: &Path) -> Result<(Journal, Restored), Error> {
        let path = folder.join("journal");
        let cannot = |source| Error::Io { doing: format!("open the undo journal {}", path.display()), source };
        let mut file = loop {
            let mut file = claim(folder).and_then(|()| open(&path)).map_err(cannot)?;
            lock(&mut file)?;
            // Its holder may have put another file in its place meanwhile ([`Journal::forget_spent`]).
            let inode = |metadata: io::Result<fs::Metadata>| metadata.map(|found| found.ino()).ok();
            if inode(file.metadata()) == inode(fs::metadata(&path)) {
                break file;
            }
        };
        let found = read(&mut file).map_err(cannot)?;
        let mut journal = Journal { path, file, end: Some(found.end), pending: vec![], damaged: 0, spent: None };
        // Without a readable head the boot is unknown; undoing does no harm even then.
        if !found.of_an_earlier_boot() {
            journal.pending = found.changes;
            journal.damaged = found.damaged;
        }
        let restored = journal.restore()?;
        Ok((journal, restored))
    }

    /// Before this process makes changes: refuses while changes of an earlier one could not be undone.
    pub fn begin(&mut self) -> Result<(), Error> {
        if self.pending.is_empty() && self.damaged == 0 {
            return Ok(());
        }
        let what = format!("{} changes of an earlier giusto stand in {}", self.pending.len(), self.path.display());
        Err(Error::NotRestored(what))
    }

    /// Undoes everything and empties the journal. If something could not be undone, all stays in it for another try: what is
    /// undone already is left alone then.
    pub fn restore(&mut self) -> Result<Restored, Error> {
        let Report { undone, notes, mut failed } = undo(&self.pending);
        if self.damaged > 0 {
            failed.push(format!(
                "{} lines of {} are damaged, what they say cannot be undone: look for cpusets named giusto.*, for threads under \
                 SCHED_DEADLINE (ps -eLo tid,cls,comm) and for filters giusto_* (tc filter show), then remove the file",
                self.damaged,
                self.path.display()
            ));
        }
        if failed.is_empty() {
            self.pending.clear();
            self.clear().map_err(|source| Error::Io {
                doing: format!("empty the undo journal {}", self.path.display()),
                source,
            })?;
        }
        Ok(Restored { undone, notes, failed })
    }

    /// Leaves nothing but the head.
    fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.end = Some(0);
        self.append(&Head { boot: boot() })
    }

    /// Outlives this process when this returns; is not there at all after an error.
    pub(crate) fn write_down(&mut self, change: Change) -> io::Result<()> {
        self.append(&change)?;
        self.pending.push(change);
        Ok(())
    }

    /// Forgets changes that have nothing to undo, now and later, such as of processes that have ended: a service that is started
    /// again for years does not fill the disk. To be called now and then while no change is under way. Errors: the
    /// disk; nothing is
    /// lost then.
    pub(crate) fn forget_spent(&mut self, now: Instant) -> io::Result<()> {
        let looked = self.spent.as_ref().map(|(at, _)| *at);
        if self.pending.len() < FEW || self.damaged > 0 || looked.is_some_and(|at| now < at + SPENT) {
            return Ok(());
        }
        let is_spent = spent(&self.pending);
        let (_, before) = self.spent.take().unwrap_or((now, vec![]));
        let both = self.pending.iter().zip(is_spent);
        let kept = both.clone().filter(|(change, spent)| !spent || !before.contains(change));
        let kept: Vec<Change> = kept.map(|(change, _)| change.clone()).collect();
        let spent = both.filter(|(change, spent)| *spent && !before.contains(change));
        self.spent = Some((now, spent.map(|(change, _)| change.clone()).collect()));
        if kept.len() == self.pending.len() {
            return Ok(());
        }
        let path = self.path.with_extension("new");
        let done = self.written_anew(&path, &kept);
        let journal = done.and_then(|journal| fs::rename(&path, &self.path).map(|()| journal));
        let Journal { file, end, .. } = journal.inspect_err(|_| _ = fs::remove_file(&path))?;
        (self.file, self.end, self.pending) = (file, end, kept);
        Ok(())
    }

    /// A journal of `changes` in the file `path`, on disk, and locked before another process can take it.
    fn written_anew(&self, path: &Path, changes: &[Change]) -> io::Result<Journal> {
        let _ = fs::remove_file(path); // of one that died here
        let file = open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let mut journal = Journal { path: path.into(), file, end: Some(0), pending: vec![], damaged: 0, spent: None };
        journal.append(&Head { boot: boot() })?;
        changes.iter().try_for_each(|change| journal.append(change))?;
        Ok(journal)
    }

    fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        let Some(end) = self.end else { return Err(io::Error::other("an earlier line of it is torn")) };
        let text = serde_json::to_string(line)?;
        let line = format!("{:016x} {text}\n", checksum(text.as_bytes()));
        self.file.seek(SeekFrom::Start(end))?;
        let written = self.file.write_all(line.as_bytes());
        match &written {
            Ok(()) => self.end = Some(end + line.len() as u64),
            // Half a line in the middle would hide nothing, but read as damage.
            Err(_) => self.end = self.file.set_len(end).ok().map(|()| end),
        }
        written
    }
}

impl Recorder<Undo> for Journal {
    fn intend(&mut self, undo: &Undo) -> io::Result<()> {
        self.write_down(of_compute(undo))
    }
}

/// Where this host's journal lies, and what else is there while a giusto runs.
pub(crate) fn state_folder() -> PathBuf {
    std::env::var_os("GIUSTO_STATE").map_or(PathBuf::from("/run/giusto"), PathBuf::from)
}

/// Makes the state folder, or refuses one that others could write: what stands in it is done as root.
fn claim(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::metadata(folder)?;
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        let text = "its folder is not only yours to write; run as root, or expected mode 0700 and you as its owner";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

fn open(path: &Path) -> io::Result<File> {
    let no_links = OFlags::NOFOLLOW.bits() as i32;
    File::options().read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(no_links).open(path)
}

/// Locks the journal against other giustos, who are named. One that was killed, or this one, may leave a child that has not
/// reached its exec yet and so holds the lock a moment longer; one who only restores will be done soon, and systemd runs
/// 'giusto restore' just when the watchdog does the same.
fn lock(file: &mut File) -> Result<(), Error> {
    let begin = Instant::now();
    while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK {
            return Err(Error::Io { doing: "lock the undo journal".into(), source: error.into() });
        }
        let pid = holder(file).filter(|&pid| giusto_compute::sched::Thread::of(pid).is_some());
        let patience = match pid {
            Some(pid) if restores(pid) => Duration::from_secs(10),
            Some(pid) if pid != std::process::id() => Duration::ZERO,
            _ => Duration::from_secs(1),
        };
        if begin.elapsed() >= patience {
            return Err(Error::Busy { pid });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The process that locked `file`, as the kernel tells it (proc_locks(5)).
pub(crate) fn holder(file: &File) -> Option<u32> {
    let inode = format!(":{}", file.metadata().ok()?.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let fields = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields
        .filter(|fields| fields.get(5).is_some_and(|at| at.ends_with(&inode)))
        .find_map(|fields| fields[4].parse().ok())
}

/// Whether a process holds the journal only to undo what stands in it: a watchdog, or 'giusto restore'.
fn restores(pid: u32) -> bool {
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    read("comm").trim_ascii_end() == crate::watchdog::NAME.to_bytes()
        || read("cmdline").split(|&byte| byte == 0).nth(1) == Some(b"restore")
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_string()
}

/// What stands in a journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    head: Option<Head>,
    pub(crate) changes: Vec<Change>,
    /// Unreadable lines, a torn last one not counted.
    pub(crate) damaged: usize,
    /// Where the readable part ends.
    end: u64,
}

impl Found {
    /// Whether it says in which life of the host it was written.
    pub(crate) fn knows_its_boot(&self) -> bool {
        self.head.is_some()
    }

    /// Whether a reboot has undone all of it; not so where that cannot be told.
    pub(crate) fn of_an_earlier_boot(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.boot != boot())
    }
}

pub(crate) fn read(file: &mut File) -> io::Result<Found> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let mut found = Found { head: None, changes: vec![], damaged: 0, end: 0 };
    let (mut at, mut unreadable) = (0, 0);
    for (number, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        at += line.len() as u64;
        let Some(json) = intact(line) else {
            unreadable += 1;
            continue;
        };
        if number == 0 {
            found.head = serde_json::from_str(json).ok();
        } else if let Ok(change) = serde_json::from_str(json) {
            found.changes.push(change);
        } else {
            unreadable += 1; // whole, but of another release
            continue;
        }
        found.damaged = unreadable;
        found.end = at;
    }
    // Of the unreadable lines after the last readable one, only the very last can be a torn one.
    found.damaged += (unreadable - found.damaged).saturating_sub(1);
    Ok(found)
}

/// The JSON of a line whose checksum is right.
fn intact(line: &[u8]) -> Option<&str> {
    let (sum, json) = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.split_once(' ')?;
    (u64::from_str_radix(sum, 16).ok()? == checksum(json.as_bytes())).then_some(json)
}

/// FNV-1a, 64 bits: tells a torn line from a whole one.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An undo that does nothing: the folder is not there.
    fn change(name: &str) -> Undo {
        Undo::Folder(Path::new("/no/such/folder").join(name))
    }

    fn state() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let only_ours = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(folder.path(), only_ours).unwrap();
        folder
    }

    fn found(folder: &Path) -> Found {
        read(&mut File::open(folder.join("journal")).unwrap()).unwrap()
    }

    #[test]
    fn a_journal_cut_at_any_byte_keeps_every_whole_line_and_goes_on() {
        let folder = state();
        let (mut journal, restored) = Journal::open_in(folder.path()).unwrap();
        assert_eq!(restored, Restored::default());
        let head = found(folder.path()).end;
        journal.intend(&change("a")).unwrap();
        let kept = found(folder.path()).end;
        journal.intend(&change("b")).unwrap();
        drop(journal); // as a crash does: nothing is undone
        let path = folder.path().join("journal");
        let whole = fs::read(&path).unwrap();
        for cut in head as usize..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let expected = usize::from(cut >= kept as usize) + usize::from(cut == whole.len());
            assert_eq!(found(folder.path()).changes.len(), expected, "cut at {cut}");
            let (mut journal, restored) = Journal::open_in(folder.path()).unwrap();
            assert_eq!((restored.undone, restored.failed), (expected, vec![]), "cut at {cut}");
            journal.begin().unwrap();
            journal.intend(&change("c")).unwrap();
            assert_eq!(found(folder.path()).changes, [of_compute(&change("c"))], "cut at {cut}");
        }
    }

    #[test]
    fn damage_in_the_middle_hides_nothing_behind_it_and_is_told() {
        let folder = state();
        let (mut journal, _) = Journal::open_in(folder.path()).unwrap();
        let head = found(folder.path()).end as usize;
        for name in ["a", "b", "c"] {
            journal.intend(&change(name)).unwrap();
        }
        drop(journal);
        let path = folder.path().join("journal");
        let mut bytes = fs::read(&path).unwrap();
        bytes[head + 25] ^= 1;
        fs::write(&path, bytes).unwrap();
        let (mut journal, restored) = Journal::open_in(folder.path()).unwrap();
        assert_eq!(restored.undone, 2);
        assert!(restored.failed[0].contains("1 lines"), "{restored:?}");
        assert!(matches!(journal.begin(), Err(Error::NotRestored(_))), "nothing new on top of what is unknown");
    }

    #[test]
    fn a_journal_of_an_earlier_boot_has_nothing_to_undo() {
        let folder = state();
        let (mut journal, _) = Journal::open_in(folder.path()).unwrap();
        journal.file.set_len(0).unwrap();
        journal.end = Some(0);
        journal.append(&Head { boot: "an earlier one".into() }).unwrap();
        journal.intend(&change("a")).unwrap();
        drop(journal);
        let (_, restored) = Journal::open_in(folder.path()).unwrap();
        assert_eq!(restored.undone, 0);
    }

    #[test]
    fn a_second_giusto_is_refused_and_told_who_runs() {
        let folder = state();
        let (_journal, _) = Journal::open_in(folder.path()).unwrap();
        let second = Journal::open_in(folder.path());
        assert!(matches!(second, Err(Error::Busy { pid: Some(pid) }) if pid == std::process::id()), "{second:?}");
    }

    #[test]
    fn a_lock_that_outlives_its_dead_owner_for_a_moment_is_waited_for() {
        let folder = state();
        drop(Journal::open_in(folder.path()).unwrap());
        // The one who locks it ends at once; a child that inherited the file lives a moment longer.
        let script = "exec 9<>\"$0\"; flock 9; sleep 0.2 &";
        let journal = folder.path().join("journal");
        assert!(std::process::Command::new("sh").args(["-c", script]).arg(journal).status().unwrap().success());
        let begin = Instant::now();
        Journal::open_in(folder.path()).unwrap();
        assert!(begin.elapsed() > Duration::from_millis(50), "it was locked");
    }

    #[test]
    fn one_who_restores_is_waited_for() {
        let folder = state();
        drop(Journal::open_in(folder.path()).unwrap());
        let journal = folder.path().join("journal");
        // Called as 'NAME restore', which is how it is known.
        let script = "import fcntl, sys, time; f = open(sys.argv[2], 'a'); fcntl.flock(f, 2); print(flush=True); time.sleep(0.4)";
        for name in ["restore", "another"] {
            let main = folder.path().join(name);
            fs::write(&main, script).unwrap();
            let mut command = std::process::Command::new("python3");
            command.args([name, "x"]).arg(&journal).current_dir(folder.path()).stdout(std::process::Stdio::piped());
            let mut child = command.spawn().unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            let opened = Journal::open_in(folder.path()).map(drop);
            assert_eq!(opened.is_ok(), name == "restore", "{opened:?}");
            child.wait().unwrap();
        }
    }

    /// As under SCHED_DEADLINE: each start of a service moves its process, binds it and gives it a reservation.
    #[test]
    fn a_thousand_restarts_leave_a_journal_as_small_as_a_few() {
        let folder = state();
        let (mut journal, _) = Journal::open_in(folder.path()).unwrap();
        let own = giusto_compute::sched::Thread::of(std::process::id()).unwrap();
        let kept = Undo::Stopped(own);
        journal.intend(&kept).unwrap();
        let begin = Instant::now();
        let mut longest = 0;
        for restart in 0..1_000u32 {
            let thread = giusto_compute::sched::Thread { tid: 0x4000_0000 + restart, started: 1 }; // has ended
            let (before, from) = (Default::default(), folder.path().to_path_buf());
            journal.intend(&Undo::Place { process: thread, back_to: "/home/cgroup.procs".into(), from }).unwrap();
            journal.intend(&Undo::Bound { thread, core: 1, cores: vec![0, 1] }).unwrap();
            journal.intend(&Undo::Scheduling { thread, before, period_ns: 1_000_000 }).unwrap();
            journal.forget_spent(begin + Duration::from_secs(1) * restart).unwrap();
            longest = longest.max(journal.pending.len());
        }
        // Restarts of 20 s, and those between two looks.
        assert!(longest <= FEW + 3 * 31, "{longest} changes");
        assert!(journal.pending.contains(&of_compute(&kept)), "what can be undone is kept");
        assert_eq!(found(folder.path()).changes, journal.pending, "and on disk");
        let size = fs::metadata(folder.path().join("journal")).unwrap().len();
        assert!(size < 40_000, "{size} bytes");
        assert!(!folder.path().join("journal.new").exists());
        // It is held as before, and goes on.
        assert!(matches!(Journal::open_in(folder.path()), Err(Error::Busy { .. })));
        journal.intend(&change("a")).unwrap();
        let left = journal.pending.len();
        drop(journal);
        assert_eq!(Journal::open_in(folder.path()).unwrap().1.undone, left);
    }

    #[test]
    fn what_waits_for_the_lock_of_a_file_that_is_replaced_takes_the_new_one() {
        let folder = state();
        drop(Journal::open_in(folder.path()).unwrap());
        let path = folder.path().join("journal");
        // Its owner has died, and a child that inherited the lock lives a moment longer.
        let script = "exec 9<>\"$0\"; flock 9; sleep 0.4 &";
        assert!(std::process::Command::new("sh").args(["-c", script]).arg(&path).status().unwrap().success());
        let waits = std::thread::spawn({
            let folder = folder.path().to_path_buf();
            move || Journal::open_in(&folder).unwrap().0.file.metadata().unwrap().ino()
        });
        std::thread::sleep(Duration::from_millis(100));
        let anew = folder.path().join("anew");
        fs::write(&anew, fs::read(&path).unwrap()).unwrap();
        let inode = fs::metadata(&anew).unwrap().ino();
        fs::rename(anew, &path).unwrap();
        assert_eq!(waits.join().unwrap(), inode);
    }

    #[test]
    fn a_full_disk_refuses_before_acting() {
        let folder = state();
        let (mut journal, _) = Journal::open_in(folder.path()).unwrap();
        let real = std::mem::replace(&mut journal.file, File::options().write(true).open("/dev/full").unwrap());
        assert_eq!(journal.intend(&change("a")).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(journal.pending.is_empty());
        // A torn line that cannot be cut off (as on /dev/full) must not be written over.
        journal.file = real;
        assert!(journal.intend(&change("b")).is_err());
    }

    #[test]
    fn a_state_folder_that_others_can_write_is_refused() {
        let folder = state();
        let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(folder.path(), open_to_all).unwrap();
        assert!(matches!(Journal::open_in(folder.path()), Err(Error::Io { .. })));
        // Made by the journal itself, it is private.
        let own = folder.path().join("own");
        Journal::open_in(&own).unwrap();
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
    }
}
