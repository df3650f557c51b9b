//! Records of a simulation as NumPy sees them: an array of records in place, without a copy.

use giusto_model::JobRecord;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::Arc;

/// What never happened.
pub(crate) const NEVER: i64 = -1;

/// A job. All times are ns of virtual time.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Job {
    server: u32,
    task: u32,
    job: i64,
    due: i64,
    release: i64,
    finish: i64,
}

impl Job {
    pub(crate) fn new(server: usize, job: &JobRecord) -> Job {
        // Times of the simulator are below 2^62.
        Job {
            server: server as u32,
            task: job.task,
            job: job.job as i64,
            due: job.due.ns() as i64,
            release: job.release.ns() as i64,
            finish: job.finish.map_or(NEVER, |finish| finish.ns() as i64),
        }
    }
}

/// A stretch of processor time.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Slice {
    server: u32,
    task: i32,
    job: i64,
    from: i64,
    to: i64,
}

impl Slice {
    pub(crate) fn new(server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Slice {
        let (task, job) = job.map_or((-1, NEVER), |(task, job)| (task as i32, job as i64));
        Slice { server: server as u32, task, job, from: from as i64, to: to as i64 }
    }
}

/// Fields in the order of the record, with NumPy's names of their types.
trait Record: Copy + Send + Sync + 'static {
    const FIELDS: &'static [(&'static str, &'static str)];
}

impl Record for Job {
    const FIELDS: &'static [(&'static str, &'static str)] = &[
        ("server", "<u4"),
        ("task", "<u4"),
        ("job", "<i8"),
        ("due_ns", "<i8"),
        ("release_ns", "<i8"),
        ("finish_ns", "<i8"),
    ];
}

impl Record for Slice {
    const FIELDS: &'static [(&'static str, &'static str)] =
        &[("server", "<u4"), ("task", "<i4"), ("job", "<i8"), ("from_ns", "<i8"), ("to_ns", "<i8")];
}

/// What NumPy asks an object for whose memory it may use: version 3 of its array interface.
fn interface<'py, T: Record>(py: Python<'py>, all: &[T]) -> PyResult<Bound<'py, PyDict>> {
    let given = PyDict::new(py);
    given.set_item("version", 3)?;
    given.set_item("shape", (all.len(),))?;
    given.set_item("typestr", format!("|V{}", size_of::<T>()))?;
    given.set_item("descr", PyList::new(py, T::FIELDS)?)?;
    given.set_item("data", (all.as_ptr() as usize, true))?; // read only
    Ok(given)
}

macro_rules! records {
    ($(#[$about:meta])* $name:ident($record:ty)) => {
        $(#[$about])*
        #[pyclass(frozen, module = "giusto._giusto")]
        #[derive(Clone)]
        pub(crate) struct $name(pub(crate) Arc<Vec<$record>>);

        #[pymethods]
        impl $name {
            #[getter]
            fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                interface(py, &self.0)
            }
            fn __len__(&self) -> usize {
                self.0.len()
            }
        }
    };
}
records!(
    /// The jobs of a simulation, as an array of records.
    JobRecords(Job)
);
records!(
    /// Its schedule.
    SliceRecords(Slice)
);
