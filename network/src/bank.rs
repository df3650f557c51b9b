//! The programs of bpf/bucket.bpf.c with their maps: loaded once for many interfaces, as the kernel takes tens of ms to verify
//! each.

use crate::tc::Direction;
use crate::Error;
use aya::maps::{Array, Map, MapData, MapError, ProgramArray};
use aya::programs::{ProgramError, SchedClassifier};
use aya::{Ebpf, EbpfError, EbpfLoader, Pod};
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::{io, ptr};

const BPF_F_LOCK: u64 = 4;
/// More than are needed at first: an interface that comes gets a place of its own, also if it has the name of one that has gone.
const SPARE: u32 = 16;
/// Filters have 16 bits for a place.
const MOST: u32 = 1 << 15;
/// FLOWS of bpf/bucket.bpf.c.
const FLOWS: u32 = 256;

/// Places of an interface: what it sends, and what is sent to it.
pub(crate) const FROM: u32 = 0;
pub(crate) const TO: u32 = 1;

/// `struct goal`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Goal {
    pub(crate) lock: u32,
    pub(crate) how: u32,
    pub(crate) version: u64,
    pub(crate) num: u64,
    pub(crate) den: u64,
    pub(crate) burst: u64,
    pub(crate) packet: u64,
    pub(crate) half: u64,
    pub(crate) byte: u64,
    pub(crate) bytes: u64,
}

// SAFETY: whole words without padding.
unsafe impl Pod for Goal {}

/// Packets of one direction: passed, dropped, bypassed. `struct count`.
pub(crate) type Count = [u64; 3];
const WORDS: usize = 3;

/// What was loaded last; places are taken from it, and from another when they are used up.
#[derive(Default)]
pub(crate) struct Banks(Mutex<Option<Arc<Bank>>>);

struct Bank {
    ebpf: Mutex<Ebpf>,
    goals: Mutex<Array<MapData, Goal>>,
    /// Where entries of links go on.
    programs: Mutex<ProgramArray<MapData>>,
    next: RawFd,
    counts: Counts,
    places: u32,
    taken: AtomicU32,
}

/// An interface's place in the maps of a bank. None is used twice, as filters of one that has gone elsewhere may still use it.
pub(crate) struct Place {
    bank: Arc<Bank>,
    number: u32,
}

/// A loaded program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) fd: RawFd,
    /// By which the kernel knows it.
    pub(crate) id: u32,
}

impl Banks {
    /// A new one. `expected`: so many interfaces are there in all. Errors: the kernel has no BPF, or not for us.
    pub(crate) fn place(&self, expected: usize) -> Result<Place, Error> {
        let mut last = lock(&self.0);
        if let Some(place) = last.as_ref().and_then(Bank::take) {
            return Ok(place);
        }
        let expected = u32::try_from(expected).unwrap_or(MOST);
        let bank = Bank::load(expected.saturating_add(SPARE).min(MOST).next_power_of_two());
        let bank = Arc::new(bank.map_err(|error| broken("load the packet bucket into the kernel", error))?);
        let place = Bank::take(&bank);
        *last = Some(bank);
        place.ok_or_else(|| Error::kernel("load the packet bucket into the kernel", io::ErrorKind::OutOfMemory.into()))
    }
}

impl Bank {
    /// Its maps; each program when it is put somewhere first.
    fn load(places: u32) -> Result<Bank, EbpfError> {
        let mut ebpf = {
            let mut loader = loader();
            for (map, each) in [("goal", 2), ("counted", 2), ("counts", 2), ("flows", 2 * FLOWS)] {
                loader.map_max_entries(map, places * each);
            }
            loader.load(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/bucket.bpf.o")))?
        };
        let named = |name: &str| MapError::InvalidName { name: name.into() };
        let goals = Array::try_from(ebpf.take_map("goal").ok_or_else(|| named("goal"))?)?;
        let Some(Map::ProgramArray(programs)) = ebpf.take_map("programs") else { Err(named("programs"))? };
        let next = programs.fd().as_fd().as_raw_fd();
        let programs = ProgramArray::try_from(Map::ProgramArray(programs))?;
        let Some(Map::Array(counts)) = ebpf.map("counts") else { Err(named("counts"))? };
        let counts = Counts::of(counts, places).map_err(MapError::IoError)?;
        let (ebpf, goals, programs) = (Mutex::new(ebpf), Mutex::new(goals), Mutex::new(programs));
        Ok(Bank { ebpf, goals, programs, next, counts, places, taken: AtomicU32::new(0) })
    }

    fn take(bank: &Arc<Bank>) -> Option<Place> {
        let number = bank.taken.fetch_add(1, Ordering::Relaxed);
        (number < bank.places).then(|| Place { bank: bank.clone(), number })
    }
}

impl Place {
    /// What its filters have as `classid`, and entries write there.
    pub(crate) fn class(&self) -> u32 {
        self.number + 1
    }

    /// In force with the next packet.
    pub(crate) fn write(&self, direction: u32, goal: Goal) -> Result<(), Error> {
        let written = lock(&self.bank.goals).set(2 * self.number + direction, goal, BPF_F_LOCK);
        written.map_err(|error| broken("set the packet bucket's rate", error.into()))
    }

    pub(crate) fn count(&self, direction: u32) -> Count {
        self.bank.counts.read(2 * self.number + direction)
    }

    /// Loaded into the kernel when it is asked for first.
    pub(crate) fn program(&self, direction: Direction) -> Result<Program, Error> {
        let load = |ebpf: &mut Ebpf| -> Result<Program, EbpfError> {
            let program = ebpf.program_mut(direction.program()).ok_or(ProgramError::NotLoaded)?;
            let program: &mut SchedClassifier = program.try_into()?;
            if program.fd().is_err() {
                program.load()?;
                lock(&self.bank.programs).set(direction as u32, program.fd()?, 0)?;
            }
            Ok(Program { fd: program.fd()?.as_fd().as_raw_fd(), id: program.info()?.id() })
        };
        load(&mut lock(&self.bank.ebpf)).map_err(|error| broken("load the packet bucket", error))
    }

    /// The map by which an entry goes on to the program, which is loaded.
    pub(crate) fn entry(&self, direction: Direction) -> Result<RawFd, Error> {
        self.program(direction)?;
        Ok(self.bank.next)
    }
}

/// The map `counts`, to be read without system calls.
struct Counts {
    at: *mut u64,
    bytes: usize,
    words: usize,
}

// SAFETY: it is only read, by whole words, while the kernel changes them.
unsafe impl Send for Counts {}
// SAFETY: as above.
unsafe impl Sync for Counts {}

impl Counts {
    fn of(map: &MapData, places: u32) -> io::Result<Counts> {
        let words = 2 * places as usize * WORDS;
        let bytes = words * size_of::<u64>(); // of the last page all
                                              // SAFETY: a new mapping, where the kernel finds room.
        let at = unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, map.fd().as_fd(), 0)? };
        Ok(Counts { at: at.cast(), bytes, words })
    }

    fn read(&self, place: u32) -> Count {
        let first = place as usize * WORDS;
        std::array::from_fn(|word| match first + word < self.words {
            // SAFETY: within the mapping, and aligned as that is; others change it only by whole words.
            true => unsafe { AtomicU64::from_ptr(self.at.add(first + word)) }.load(Ordering::Relaxed),
            false => 0,
        })
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        // SAFETY: it is ours, and nothing of it is used any more.
        let _ = unsafe { munmap(self.at.cast(), self.bytes) };
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One for all: it reads how the kernel's own types lie when it is made (30 ms), which nothing here asks for.
pub(crate) fn loader() -> MutexGuard<'static, EbpfLoader<'static>> {
    static LOADER: LazyLock<Mutex<EbpfLoader<'static>>> = LazyLock::new(|| {
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        Mutex::new(loader)
    });
    lock(&LOADER)
}

/// With what the kernel said, which is at the end of a chain.
pub(crate) fn broken(doing: &str, error: EbpfError) -> Error {
    let mut cause: &dyn std::error::Error = &error;
    let mut text = error.to_string();
    while let Some(next) = cause.source() {
        if let Some(said) = next.downcast_ref::<io::Error>() {
            if said.kind() == io::ErrorKind::PermissionDenied {
                return Error::Privilege { doing: doing.into() };
            }
        }
        text = format!("{text}: {next}");
        cause = next;
    }
    Error::Kernel { doing: doing.into(), source: io::Error::other(text) }
}
