//! Records as columns of Arrow, for all that reads its C stream interface; no library of Arrow is needed on either side.
//!
//! <https://arrow.apache.org/docs/format/CDataInterface.html>; `CStreamInterface.html` and the PyCapsule interface lie beside it.
//! Records lie one after the other, a column of Arrow lies in one piece: a batch is copied once, when the reader asks for it, and
//! is the reader's own.

use crate::field::{Column, Record};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// Records of a batch: few enough that a second copy of all is never held by us, many enough that a reader has few pieces.
const BATCH: usize = 1 << 20;

/// `struct ArrowSchema`.
#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

/// `struct ArrowArray`.
#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

/// `struct ArrowArrayStream`.
#[repr(C)]
struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

/// What a stream has for itself.
struct Rest<T> {
    records: Arc<Vec<T>>,
    next: usize,
}

/// What an array has for itself; `buffers` and `children` point into it.
struct Own {
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
    _column: Option<Column>,
}

// SAFETY: what it points to is its own, and can be read and released on any thread.
unsafe impl Send for Stream {}

impl Drop for Stream {
    /// A capsule that nothing has read: who reads it takes the stream out and leaves no `release`.
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it is there, so this stream was not released.
            unsafe { release(self) }
        }
    }
}

/// A capsule with a stream of `records`.
pub(crate) fn stream<'py, T: Record>(py: Python<'py>, records: &Arc<Vec<T>>) -> PyResult<Bound<'py, PyCapsule>> {
    let rest = Box::new(Rest { records: records.clone(), next: 0 });
    let stream = Stream {
        get_schema: Some(schema_of::<T>),
        get_next: Some(next_of::<T>),
        get_last_error: Some(no_error),
        release: Some(stream_ends::<T>),
        private_data: Box::into_raw(rest).cast(),
    };
    PyCapsule::new(py, stream, Some(c"arrow_array_stream".to_owned()))
}

unsafe extern "C" fn no_error(_stream: *mut Stream) -> *const c_char {
    null()
}

unsafe extern "C" fn schema_of<T: Record>(_stream: *mut Stream, out: *mut Schema) -> c_int {
    let field = |format: &'static CStr, name: &'static CStr| Schema {
        format: format.as_ptr(),
        name: name.as_ptr(),
        metadata: null(),
        flags: 0, // never null
        n_children: 0,
        children: null_mut(),
        dictionary: null_mut(),
        release: Some(schema_ends),
        private_data: null_mut(),
    };
    let children = T::FIELDS.iter().map(|each| Box::into_raw(Box::new(field(each.arrow, each.name))));
    let mut children = Box::new(children.collect::<Vec<_>>());
    let mut whole = field(c"+s", c"");
    whole.n_children = children.len() as i64;
    whole.children = children.as_mut_ptr();
    whole.private_data = Box::into_raw(children).cast();
    // SAFETY: the reader gives a place for it.
    unsafe { out.write(whole) };
    0
}

unsafe extern "C" fn schema_ends(schema: *mut Schema) {
    // SAFETY: it is one of ours and was not released; its private data is a list of children that we have made.
    unsafe {
        let schema = &mut *schema;
        if !schema.private_data.is_null() {
            for child in *Box::from_raw(schema.private_data.cast::<Vec<*mut Schema>>()) {
                let mut child = Box::from_raw(child);
                if let Some(release) = child.release {
                    release(&mut *child); // else it was taken out
                }
            }
        }
        schema.release = None;
    }
}

/// An array whose buffers and children are its own.
fn array(length: usize, buffers: Vec<*const c_void>, children: Vec<*mut Array>, column: Option<Column>) -> Array {
    let mut own = Box::new(Own { buffers, children, _column: column });
    Array {
        length: length as i64,
        null_count: 0,
        offset: 0,
        n_buffers: own.buffers.len() as i64,
        n_children: own.children.len() as i64,
        buffers: own.buffers.as_mut_ptr(),
        children: own.children.as_mut_ptr(),
        dictionary: null_mut(),
        release: Some(array_ends),
        private_data: Box::into_raw(own).cast(),
    }
}

unsafe extern "C" fn next_of<T: Record>(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: the stream is one of ours and was not released; a reader asks from one thread at a time.
    let rest = unsafe { &mut *(*stream).private_data.cast::<Rest<T>>() };
    let batch = &rest.records[rest.next..];
    let batch = &batch[..batch.len().min(BATCH)];
    rest.next += batch.len();
    let child = |column: Column| {
        let buffers = vec![null(), column.at()]; // without a null there is no map of them
        Box::into_raw(Box::new(array(batch.len(), buffers, Vec::new(), Some(column))))
    };
    let children = T::FIELDS.iter().map(|each| child((each.column)(batch))).collect();
    let mut whole = array(batch.len(), vec![null()], children, None);
    if batch.is_empty() {
        // The end of a stream is an array that is released.
        // SAFETY: it was made above.
        unsafe { array_ends(&mut whole) };
    }
    // SAFETY: the reader gives a place for it.
    unsafe { out.write(whole) };
    0
}

unsafe extern "C" fn array_ends(array: *mut Array) {
    // SAFETY: it is one of ours and was not released.
    unsafe {
        for child in Box::from_raw((*array).private_data.cast::<Own>()).children {
            let mut child = Box::from_raw(child);
            if let Some(release) = child.release {
                release(&mut *child); // else it was taken out
            }
        }
        (*array).release = None;
    }
}

unsafe extern "C" fn stream_ends<T: Record>(stream: *mut Stream) {
    // SAFETY: it is one of ours and was not released.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Rest<T>>()));
        (*stream).release = None;
    }
}
