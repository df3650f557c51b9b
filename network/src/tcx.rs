//! Programs at an interface as BPF links (tcx, Linux 6.6): they come before those of others, no other program's change of a
//! queueing discipline takes them off, and they go with this process.
//!
//! A link tells its program no `classid`. So each interface has an entry of eight instructions for each of its programs, which
//! writes its number where the bucket's program looks for it, and goes on there.

use crate::bank::Place;
use crate::namespace::Namespace;
use crate::tc::Direction;
use crate::{Error, Link};
use aya::programs::{SchedClassifier, TcAttachType};
use aya::util::KernelVersion;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// So many interfaces have links at most: for each of the three the kernel waits until no processor can see what was there
/// before, some 10 ms, while nothing else can change an interface.
const MOST: usize = 16;

/// A program at an interface, until this is dropped.
pub(crate) struct Attached {
    link: Link,
    direction: Direction,
    /// Programs of others that came before it when it was looked at.
    pub(crate) before: Vec<String>,
    _link: OwnedFd,
}

/// Whether the kernel has links, and there are few enough interfaces with buckets for them.
pub(crate) fn fits(expected: usize) -> bool {
    expected <= MOST && KernelVersion::current().is_ok_and(|now| now >= KernelVersion::new(6, 6, 0))
}

/// Puts it there where it is not. Errors: the kernel refused.
pub(crate) fn hold(
    all: &mut Vec<Attached>,
    place: &Place,
    (namespace, link): (&Namespace, &Link),
    direction: Direction,
) -> Result<(), Error> {
    let kind = match direction {
        Direction::From | Direction::Arrived => TcAttachType::Ingress,
        Direction::To | Direction::Sent => TcAttachType::Egress,
    };
    all.retain(|one| one.direction != direction || one.link == *link);
    let known = all.iter_mut().find(|one| one.direction == direction);
    let failed = |source| Error::kernel(format!("put the packet bucket on {}", link.name), source);
    let (program, number) = (place.entry(direction)?, place.class());
    let new = namespace.within(|| {
        let (_, there) = SchedClassifier::query_tcx(&link.name, kind)
            .map_err(|error| failed(io::Error::other(error.to_string())))?;
        let names: Vec<String> = there.iter().filter_map(|one| one.name_as_str().map(String::from)).collect();
        match (known, names.iter().position(|name| name == direction.program())) {
            (Some(known), Some(at)) => {
                known.before = names[..at].to_vec();
                Ok(None)
            }
            _ => attach(program, number, link, direction).map(Some).map_err(failed),
        }
    })?;
    if let Some(new) = new? {
        all.retain(|one| one.direction != direction);
        all.push(Attached { link: link.clone(), direction, before: vec![], _link: new });
    }
    Ok(())
}

/// In the calling thread's namespace, before all that is there. `next`: the map of the bucket's programs.
fn attach(next: RawFd, number: u32, link: &Link, direction: Direction) -> io::Result<OwnedFd> {
    const PROG_LOAD: u32 = 5;
    const LINK_CREATE: u32 = 28;
    const SCHED_CLS: u32 = 3;
    const BEFORE: u32 = 1 << 3;
    let entry = entry(next, number, direction);
    let mut name = [0; 16];
    name[..direction.program().len()].copy_from_slice(direction.program().as_bytes());
    let load = Load {
        kind: SCHED_CLS,
        count: entry.len() as u32,
        instructions: entry.as_ptr() as u64,
        licence: c"GPL".as_ptr() as u64,
        name,
        ..Load::default()
    };
    let program = bpf(PROG_LOAD, &load)?;
    let at = match direction {
        Direction::From | Direction::Arrived => 46, // BPF_TCX_INGRESS
        Direction::To | Direction::Sent => 47,
    };
    let create =
        Create { program: program.as_raw_fd() as u32, index: link.index, at, flags: BEFORE, ..Create::default() };
    bpf(LINK_CREATE, &create)
}

/// `packet->tc_classid = number; bpf_tail_call(packet, next, direction); return TC_ACT_UNSPEC;`
fn entry(next: RawFd, number: u32, direction: Direction) -> [u64; 8] {
    const CLASSID: u64 = 72; // in struct __sk_buff
    const MAP: u64 = 1;
    const TAIL_CALL: u64 = 12;
    // struct bpf_insn: code, registers, offset and value.
    let instruction = |code: u64, to: u64, from: u64, offset: u64, value: u64| {
        code | to << 8 | from << 12 | offset << 16 | (value & 0xffff_ffff) << 32
    };
    [
        instruction(0xb7, 2, 0, 0, number.into()),
        instruction(0x63, 1, 2, CLASSID, 0),
        instruction(0x18, 2, MAP, 0, next as u64),
        0, // the other half of the map's address
        instruction(0xb7, 3, 0, 0, direction as u64),
        instruction(0x85, 0, 0, 0, TAIL_CALL),
        instruction(0xb7, 0, 0, 0, u64::MAX),
        instruction(0x95, 0, 0, 0, 0),
    ]
}

/// Of union bpf_attr what BPF_PROG_LOAD reads.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log: [u64; 2],
    kernel: u32,
    flags: u32,
    name: [u8; 16],
}

/// And BPF_LINK_CREATE.
#[repr(C)]
#[derive(Default)]
struct Create {
    program: u32,
    index: u32,
    at: u32,
    flags: u32,
    beside: u64,
    revision: u64,
}

fn bpf<T>(command: u32, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads what is told of it, and what that points to, which lives until it returns.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    match i32::try_from(fd) {
        // SAFETY: it is new, and ours.
        Ok(fd @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
