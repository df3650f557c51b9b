//! What a record is made of, for those who show it to NumPy and to Arrow.

use std::ffi::{c_void, CStr};

/// A field of a record.
pub(crate) struct Field<T> {
    pub(crate) name: &'static CStr,
    /// NumPy's name of its type.
    pub(crate) numpy: &'static str,
    /// Arrow's.
    pub(crate) arrow: &'static CStr,
    /// It alone, of all.
    pub(crate) column: fn(&[T]) -> Column,
}

/// Numbers in one piece.
pub(crate) enum Column {
    Signed(Vec<i32>),
    Unsigned(Vec<u32>),
    Long(Vec<i64>),
}

impl Column {
    /// Where they are, also when it moves.
    pub(crate) fn at(&self) -> *const c_void {
        match self {
            Column::Signed(all) => all.as_ptr().cast(),
            Column::Unsigned(all) => all.as_ptr().cast(),
            Column::Long(all) => all.as_ptr().cast(),
        }
    }
}

/// Fields in the order of the record.
pub(crate) trait Record: Copy + Send + Sync + 'static {
    const FIELDS: &'static [Field<Self>];
}
