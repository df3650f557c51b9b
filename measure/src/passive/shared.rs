//! Programs that are attached to tracepoints, and the memory that they share with this process.

use crate::Error;
use aya::maps::Map;
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};

/// Loads `programs`, each with the name of its tracepoint, and attaches them.
pub(crate) fn attach(object: &mut Ebpf, programs: &[(&str, &str)]) -> Result<(), Error> {
    let btf = Btf::from_sys_fs().map_err(|why| refused(&why))?;
    for (name, point) in programs {
        let program = object.program_mut(name).expect("a program of this object");
        let program: &mut BtfTracePoint = program.try_into().expect("a tracepoint's");
        program.load(point, &btf).and_then(|()| program.attach()).map_err(|why| refused(&why))?;
    }
    Ok(())
}

/// An error with all its causes.
pub(crate) fn refused(why: &dyn std::error::Error) -> Error {
    let causes = std::iter::successors(Some(why), |why| why.source()).map(|why| why.to_string());
    Error::Passive(causes.collect::<Vec<_>>().join(": "))
}

/// The values of an array map, read where the programs write them.
pub(super) struct Shared<T> {
    values: *const c_void,
    many: usize,
    _values: PhantomData<T>,
}

// SAFETY: shared memory of atomics, which any thread may read.
unsafe impl<T: Sync> Send for Shared<T> {}

impl<T> Shared<T> {
    /// Those of a map that may be mapped, and has so many.
    ///
    /// # Safety
    /// A value of the map is a `T`, whose fields that are read are atomics.
    pub(super) unsafe fn new(map: Map, many: usize) -> Result<Shared<T>, Error> {
        let Map::Array(map) = map else { unreachable!("an array") };
        let fd = map.fd().as_fd().as_raw_fd();
        // SAFETY: a new mapping of a map that is as large; it outlives the descriptor.
        let values = unsafe {
            libc::mmap(std::ptr::null_mut(), many * size_of::<T>(), libc::PROT_READ, libc::MAP_SHARED, fd, 0)
        };
        match values == libc::MAP_FAILED {
            true => Err(refused(&std::io::Error::last_os_error())),
            false => Ok(Shared { values, many, _values: PhantomData }),
        }
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.many
    }

    /// One of them.
    pub(super) fn at(&self, index: usize) -> &T {
        assert!(index < self.many);
        // SAFETY: within the mapping, which lives as long as `self`.
        unsafe { &*self.values.cast::<T>().add(index) }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; no reference into it is left.
        unsafe { libc::munmap(self.values.cast_mut(), self.many * size_of::<T>()) };
    }
}
