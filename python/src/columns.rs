//! Records of a simulation as NumPy sees them, an array of records in place, without a copy; and column by column for Arrow.

use crate::arrow;
use crate::field::{Column, Field, Record};
use giusto_model::JobRecord;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
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
    /// Whether `next` is of the same job of the same task, and follows without a gap.
    pub(crate) fn goes_on_as(&self, next: &Slice) -> bool {
        self.job == next.job && self.to == next.from
    }
    pub(crate) fn join(&mut self, next: &Slice) {
        self.to = next.to;
    }
}

macro_rules! fields {
    ($record:ident: $($name:literal $numpy:literal $arrow:literal $kind:ident $field:ident),+) => {
        impl Record for $record {
            const FIELDS: &'static [Field<$record>] = &[$(Field {
                name: $name,
                numpy: $numpy,
                arrow: $arrow,
                column: |all| Column::$kind(all.iter().map(|each| each.$field).collect()),
            }),+];
        }
    };
}
fields!(Job:
    c"server" "<u4" c"I" Unsigned server,
    c"task" "<u4" c"I" Unsigned task,
    c"job" "<i8" c"l" Long job,
    c"due_ns" "<i8" c"l" Long due,
    c"release_ns" "<i8" c"l" Long release,
    c"finish_ns" "<i8" c"l" Long finish
);
fields!(Slice:
    c"server" "<u4" c"I" Unsigned server,
    c"task" "<i4" c"i" Signed task,
    c"job" "<i8" c"l" Long job,
    c"from_ns" "<i8" c"l" Long from,
    c"to_ns" "<i8" c"l" Long to
);

/// What NumPy asks an object for whose memory it may use: version 3 of its array interface.
fn interface<'py, T: Record>(py: Python<'py>, all: &[T]) -> PyResult<Bound<'py, PyDict>> {
    let given = PyDict::new(py);
    given.set_item("version", 3)?;
    given.set_item("shape", (all.len(),))?;
    given.set_item("typestr", format!("|V{}", size_of::<T>()))?;
    let fields = T::FIELDS.iter().map(|each| (each.name.to_string_lossy(), each.numpy));
    given.set_item("descr", PyList::new(py, fields.collect::<Vec<_>>())?)?;
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
            /// Arrow's PyCapsule interface; the types are as they are, whatever is asked for.
            #[pyo3(signature = (requested_schema = None))]
            fn __arrow_c_stream__<'py>(
                &self,
                py: Python<'py>,
                requested_schema: Option<&Bound<'py, PyAny>>,
            ) -> PyResult<Bound<'py, PyCapsule>> {
                let _ = requested_schema;
                arrow::stream(py, &self.0)
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
